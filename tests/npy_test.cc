// The .npy reader refuses whatever is not exactly the array that was asked for.
#include "examples/npy.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using ffnorm_example::NpyArray;
using ffnorm_example::ParseNpy;
using ffnorm_example::ReadNpy;
using Bytes = std::vector<unsigned char>;

// A file with this header dictionary and values, padded as NumPy pads it.
Bytes File(const std::string& dictionary, const Bytes& values) {
  std::string header = dictionary;
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  Bytes file = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  file.push_back(static_cast<unsigned char>(header.size() & 255));
  file.push_back(static_cast<unsigned char>(header.size() >> 8));
  file.insert(file.end(), header.begin(), header.end());
  file.insert(file.end(), values.begin(), values.end());
  return file;
}

std::string Dictionary(const std::string& descr, const std::string& order,
                       const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order +
         ", 'shape': " + shape + ", }";
}

// 1.0f and -2.5f, little-endian.
const Bytes kTwoFloats = {0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0};

Bytes TwoFloats(const std::string& shape) {
  return File(Dictionary("<f4", "False", shape), kTwoFloats);
}

template <typename T = float>
std::string ErrorOf(const Bytes& file) {
  NpyArray<T> array;
  std::string error = "none";
  const bool ok = ParseNpy(file.data(), file.size(), &array, &error);
  CHECK(ok == (error == "none"));
  return error;
}

}  // namespace

TEST_SUITE("npy") {
  TEST_CASE("each type comes back, on any byte order") {
    std::string error;
    NpyArray<float> floats;
    Bytes file = TwoFloats("(2, 1)");
    REQUIRE(ParseNpy(file.data(), file.size(), &floats, &error));
    CHECK(floats.shape == std::vector<size_t>{2, 1});
    CHECK(floats.values == std::vector<float>{1.0f, -2.5f});

    NpyArray<double> doubles;
    file = File(Dictionary("<f8", "False", "(1,)"),
                {0, 0, 0, 0, 0, 0, 0xf8, 0xbf});
    REQUIRE(ParseNpy(file.data(), file.size(), &doubles, &error));
    CHECK(doubles.values == std::vector<double>{-1.5});

    NpyArray<int32_t> ints;
    file = File(Dictionary("<i4", "False", "(1,)"), {0xfe, 0xff, 0xff, 0xff});
    REQUIRE(ParseNpy(file.data(), file.size(), &ints, &error));
    CHECK(ints.values == std::vector<int32_t>{-2});

    NpyArray<int64_t> longs;
    file = File(Dictionary("<i8", "False", "()"), {1, 0, 0, 0, 0, 0, 0, 0x80});
    REQUIRE(ParseNpy(file.data(), file.size(), &longs, &error));
    CHECK(longs.shape.empty());
    CHECK(longs.values == std::vector<int64_t>{INT64_MIN + 1});
  }

  TEST_CASE("empty arrays are arrays") {
    std::string error;
    NpyArray<float> floats;
    const Bytes file = File(Dictionary("<f4", "False", "(0, 8)"), {});
    REQUIRE(ParseNpy(file.data(), file.size(), &floats, &error));
    CHECK(floats.shape == std::vector<size_t>{0, 8});
    CHECK(floats.values.empty());
  }

  TEST_CASE("every prefix of a file is an error, and so is a longer one") {
    Bytes file = TwoFloats("(2,)");
    REQUIRE(ErrorOf(file) == "none");
    for (size_t size = 0; size < file.size(); ++size) {
      CAPTURE(size);
      CHECK(ErrorOf(Bytes(file.begin(), file.begin() + static_cast<ptrdiff_t>(
                                                           size))) != "none");
    }
    file.push_back(0);
    CHECK(ErrorOf(file) == "trailing bytes");
  }

  TEST_CASE("magic, version, type and order") {
    Bytes file = TwoFloats("(2,)");
    file[1] = 'n';
    CHECK(ErrorOf(file) == "no .npy file (bad magic)");
    file = TwoFloats("(2,)");
    file[6] = 2;
    CHECK(ErrorOf(file) == "not version 1.0");
    CHECK(ErrorOf<double>(TwoFloats("(2,)")) == "type is <f4, expected <f8");
    CHECK(ErrorOf<int32_t>(TwoFloats("(2,)")) == "type is <f4, expected <i4");
    CHECK(ErrorOf(File(Dictionary(">f4", "False", "(2,)"), kTwoFloats)) ==
          "type is >f4, expected <f4");
    CHECK(ErrorOf(File(Dictionary("<f4", "True", "(2,)"), kTwoFloats)) ==
          "Fortran order");
    CHECK(ErrorOf(File(Dictionary("<f4", "Maybe", "(2,)"), kTwoFloats)) ==
          "bad header");
  }

  TEST_CASE("shapes") {
    for (const char* shape : {"(2)", "(,)", "(2,,)", "2", "(2, 1", "(-2,)",
                              "(2 1)", "(2.0,)", "(two,)"}) {
      CAPTURE(std::string(shape));
      CHECK(ErrorOf(TwoFloats(shape)) == "bad shape in header");
    }
    // 2^64, and products that wrap around to 2 floats or less.
    for (const char* shape :
         {"(18446744073709551616,)", "(9223372036854775809, 2)",
          "(4611686018427387904,)", "(0, 4294967296, 4294967296)"}) {
      CAPTURE(std::string(shape));
      CHECK(ErrorOf(TwoFloats(shape)) == "shape overflows");
    }
    CHECK(ErrorOf(TwoFloats("(1,)")) == "trailing bytes");
    CHECK(ErrorOf(TwoFloats("(3,)")) == "truncated");
    // Large but no overflow: refused before memory is asked for.
    CHECK(ErrorOf(TwoFloats("(33554432, 8)")) == "truncated");
  }

  TEST_CASE("the dictionary's end") {
    const std::string good = Dictionary("<f4", "False", "(2,)");
    CHECK(ErrorOf(File(good + "x", kTwoFloats)) == "bad header");
    CHECK(ErrorOf(File(good.substr(0, good.size() - 1), kTwoFloats)) ==
          "bad header");
    CHECK(ErrorOf(File("{'shape': (2,), 'descr': '<f4'}", kTwoFloats)) ==
          "bad header");
  }

  TEST_CASE("files") {
    std::string error;
    NpyArray<float> array;
    CHECK(!ReadNpy("no/such/file.npy", &array, &error));
    CHECK(error == "no/such/file.npy: cannot be opened");
    const char* data = std::getenv("FFNORM_TEST_DATA");
    INFO("FFNORM_TEST_DATA must name the directory tests/data");
    REQUIRE(data != nullptr);
    const std::string x = std::string(data) + "/golden/golden/tiny_t1_d2/x.npy";
    REQUIRE(ReadNpy(x, &array, &error));
    CHECK(array.values == std::vector<float>{1.0f, 3.0f});
    std::vector<float> values;
    CHECK(ReadNpy(x, {1, 2}, &values, &error));
    CHECK(values == array.values);
    CHECK(!ReadNpy(x, {2, 1}, &values, &error));
    CHECK(error == x + ": shape mismatch");
    CHECK(!ReadNpy(x, {2}, &values, &error));
  }
}
