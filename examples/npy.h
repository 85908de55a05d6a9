// Reads NumPy's .npy files, version 1.0: little-endian, C order, one of
// '<f4' '<f8' '<i4' '<i8'. Strict on purpose: a file that is not exactly what
// was asked for is an error with a text, never a best guess. Throws nothing of
// its own, prints nothing, and needs nothing but the standard library.
#ifndef FFNORM_EXAMPLES_NPY_H_
#define FFNORM_EXAMPLES_NPY_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace ffnorm_example {

// An array as a file holds it. An empty shape is a single value.
template <typename T>
struct NpyArray {
  std::vector<size_t> shape;
  std::vector<T> values;
};

namespace npy_internal {

template <typename T>
struct Descr;
template <>
struct Descr<float> {
  static constexpr const char* kName = "<f4";
};
template <>
struct Descr<double> {
  static constexpr const char* kName = "<f8";
};
template <>
struct Descr<int32_t> {
  static constexpr const char* kName = "<i4";
};
template <>
struct Descr<int64_t> {
  static constexpr const char* kName = "<i8";
};

// Walks over the header's text: a Python dictionary whose keys NumPy always
// writes in the same order.
class Cursor {
 public:
  Cursor(const char* begin, const char* end) : at_(begin), end_(end) {}

  // Skips spaces, then takes `token` if it comes next.
  bool Take(const char* token) {
    SkipSpaces();
    const size_t length = std::strlen(token);
    if (static_cast<size_t>(end_ - at_) < length ||
        std::memcmp(at_, token, length) != 0) {
      return false;
    }
    at_ += length;
    return true;
  }

  // Takes what is left up to the closing quote of a string.
  bool TakeQuoted(std::string* text) {
    if (!Take("'")) return false;
    text->clear();
    while (at_ != end_ && *at_ != '\'') text->push_back(*at_++);
    return Take("'");
  }

  // Takes a decimal number. *overflow tells a number that is too large from
  // one that is not there.
  bool TakeNumber(size_t* number, bool* overflow) {
    SkipSpaces();
    if (at_ == end_ || *at_ < '0' || *at_ > '9') return false;
    *number = 0;
    for (; at_ != end_ && *at_ >= '0' && *at_ <= '9'; ++at_) {
      const size_t digit = static_cast<size_t>(*at_ - '0');
      if (*number > (SIZE_MAX - digit) / 10) *overflow = true;
      *number = *number * 10 + digit;
    }
    return true;
  }

  // Spaces, one line end, and nothing else.
  bool AtPaddedEnd() {
    SkipSpaces();
    return end_ - at_ == 1 && *at_ == '\n';
  }

 private:
  void SkipSpaces() {
    while (at_ != end_ && *at_ == ' ') ++at_;
  }

  const char* at_;
  const char* end_;
};

inline bool Fail(std::string* error, const std::string& text) {
  *error = text;
  return false;
}

// (), (3,) or (3, 4), as Python writes a tuple of numbers.
inline bool ParseShape(Cursor* cursor, std::vector<size_t>* shape,
                       std::string* error) {
  shape->clear();
  if (!cursor->Take("(")) return Fail(error, "bad shape in header");
  bool comma = true;
  while (!cursor->Take(")")) {
    size_t extent = 0;
    bool overflow = false;
    if (!comma || !cursor->TakeNumber(&extent, &overflow)) {
      return Fail(error, "bad shape in header");
    }
    if (overflow) return Fail(error, "shape overflows");
    shape->push_back(extent);
    comma = cursor->Take(",");
  }
  if (shape->size() == 1 && !comma) return Fail(error, "bad shape in header");
  return true;
}

// The text between the preamble and the values. *count is the product of the
// shape, checked so that its bytes fit in size_t.
inline bool ParseHeader(const char* text, size_t length, const char* descr,
                        size_t item_bytes, std::vector<size_t>* shape,
                        size_t* count, std::string* error) {
  Cursor cursor(text, text + length);
  std::string type;
  if (!cursor.Take("{") || !cursor.Take("'descr'") || !cursor.Take(":") ||
      !cursor.TakeQuoted(&type) || !cursor.Take(",") ||
      !cursor.Take("'fortran_order'") || !cursor.Take(":")) {
    return Fail(error, "bad header");
  }
  if (type != descr) {
    return Fail(error, "type is " + type + ", expected " + descr);
  }
  if (cursor.Take("True")) return Fail(error, "Fortran order");
  if (!cursor.Take("False") || !cursor.Take(",") || !cursor.Take("'shape'") ||
      !cursor.Take(":")) {
    return Fail(error, "bad header");
  }
  if (!ParseShape(&cursor, shape, error)) return false;
  cursor.Take(",");
  if (!cursor.Take("}") || !cursor.AtPaddedEnd()) {
    return Fail(error, "bad header");
  }
  // Zeros are left out of the product: (0, 2^63, 2^63) is as wrong as without
  // the 0.
  size_t product = item_bytes;
  bool empty = false;
  for (const size_t extent : *shape) {
    if (extent == 0) {
      empty = true;
    } else if (product > SIZE_MAX / extent) {
      return Fail(error, "shape overflows");
    } else {
      product *= extent;
    }
  }
  *count = empty ? 0 : product / item_bytes;
  return true;
}

// Assembled byte by byte, so that the machine's own order does not matter.
template <typename T>
T LittleEndian(const unsigned char* bytes) {
  uint64_t bits = 0;
  for (size_t i = sizeof(T); i-- != 0;) bits = bits << 8 | bytes[i];
  T value;
  if constexpr (sizeof(T) == 4) {
    const uint32_t half = static_cast<uint32_t>(bits);
    std::memcpy(&value, &half, sizeof(value));
  } else {
    std::memcpy(&value, &bits, sizeof(value));
  }
  return value;
}

}  // namespace npy_internal

// Reads the array of T that the `size` bytes at `bytes` hold: all of them, no
// more and no less. On false, *error says why and *array means nothing.
template <typename T>
bool ParseNpy(const unsigned char* bytes, size_t size, NpyArray<T>* array,
              std::string* error) {
  constexpr size_t kPreamble = 10;  // magic (6), version (2), header length (2)
  if (size < kPreamble) return npy_internal::Fail(error, "truncated");
  if (std::memcmp(bytes, "\x93NUMPY", 6) != 0) {
    return npy_internal::Fail(error, "no .npy file (bad magic)");
  }
  if (bytes[6] != 1 || bytes[7] != 0) {
    return npy_internal::Fail(error, "not version 1.0");
  }
  const size_t header = bytes[8] + size_t{256} * bytes[9];
  if (size - kPreamble < header) {
    return npy_internal::Fail(error, "truncated header");
  }
  size_t count = 0;
  if (!npy_internal::ParseHeader(
          reinterpret_cast<const char*>(bytes + kPreamble), header,
          npy_internal::Descr<T>::kName, sizeof(T), &array->shape, &count,
          error)) {
    return false;
  }
  // Compared before anything is allocated: a header cannot ask for more memory
  // than its file has.
  const size_t rest = size - kPreamble - header;
  if (rest < count * sizeof(T)) return npy_internal::Fail(error, "truncated");
  if (rest > count * sizeof(T)) {
    return npy_internal::Fail(error, "trailing bytes");
  }
  array->values.resize(count);
  const unsigned char* at = bytes + kPreamble + header;
  for (size_t i = 0; i < count; ++i, at += sizeof(T)) {
    array->values[i] = npy_internal::LittleEndian<T>(at);
  }
  return true;
}

// The same for a file. The error text starts with the path.
template <typename T>
bool ReadNpy(const std::string& path, NpyArray<T>* array, std::string* error) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) {
    return npy_internal::Fail(error, path + ": cannot be opened");
  }
  std::vector<unsigned char> bytes;
  unsigned char buffer[4096];
  size_t got = 0;
  while ((got = std::fread(buffer, 1, sizeof(buffer), file)) != 0) {
    bytes.insert(bytes.end(), buffer, buffer + got);
  }
  const bool failed = std::ferror(file) != 0;
  std::fclose(file);
  if (failed) return npy_internal::Fail(error, path + ": cannot be read");
  if (!ParseNpy(bytes.data(), bytes.size(), array, error)) {
    *error = path + ": " + *error;
    return false;
  }
  return true;
}

// Reads an array whose shape is known.
template <typename T>
bool ReadNpy(const std::string& path, const std::vector<size_t>& shape,
             std::vector<T>* values, std::string* error) {
  NpyArray<T> array;
  if (!ReadNpy(path, &array, error)) return false;
  if (array.shape != shape) {
    return npy_internal::Fail(error, path + ": shape mismatch");
  }
  values->swap(array.values);
  return true;
}

}  // namespace ffnorm_example

#endif  // FFNORM_EXAMPLES_NPY_H_
