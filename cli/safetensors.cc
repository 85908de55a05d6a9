#include "safetensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace ffnorm_cli {
namespace {

using Json = nlohmann::json;

// Far above any real header, far below what would hurt.
constexpr uint64_t kMaxHeaderBytes = 100 << 20;

bool Fail(std::string* error, const std::string& text) {
  *error = text;
  return false;
}

// Bytes of one value; 0: no type of the format.
size_t TypeBytes(const std::string& type) {
  if (type == "F64" || type == "I64" || type == "U64") return 8;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") {
    return 2;
  }
  const bool one = type == "I8" || type == "U8" || type == "BOOL" ||
                   type == "F8_E5M2" || type == "F8_E4M3";
  return one ? 1 : 0;
}

// A list of numbers >= 0 that fit in size_t.
bool ParseSizes(const Json& entry, const char* key,
                std::vector<size_t>* sizes) {
  const auto list = entry.find(key);
  if (list == entry.end() || !list->is_array()) return false;
  for (const Json& item : *list) {
    if (!item.is_number_unsigned()) return false;
    sizes->push_back(item.get<size_t>());
  }
  return true;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

float FromBfloat16(uint16_t bits) { return FromBits(uint32_t{bits} << 16); }

float FromHalf(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = half >> 10 & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // zeros and subnormal numbers
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 0x1fu ? 0xffu : exponent + (127 - 15);
  return FromBits(sign | wide << 23 | fraction << 13);
}

}  // namespace

std::string ShapeText(const std::vector<size_t>& shape) {
  std::string text = "(";
  for (const size_t extent : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + ")";
}

bool Safetensors::Open(const std::string& path, Safetensors* file,
                       std::string* error) {
  const auto fail = [&](const std::string& text) {
    return Fail(error, path + ": " + text);
  };
  Safetensors result;
  result.path_ = path;
  result.stream_.reset(std::fopen(path.c_str(), "rb"));
  std::FILE* const f = result.stream_.get();
  if (f == nullptr) return fail("cannot be opened");
  if (std::fseek(f, 0, SEEK_END) != 0) return fail("cannot be read");
  const long size = std::ftell(f);
  if (size < 0 || std::fseek(f, 0, SEEK_SET) != 0) {
    return fail("cannot be read");
  }

  unsigned char length_bytes[8];
  if (std::fread(length_bytes, 1, 8, f) != 8) {
    return fail(std::ferror(f) != 0
                    ? "cannot be read"
                    : "no safetensors file (shorter than 8 bytes)");
  }
  uint64_t length = 0;
  for (int i = 8; i-- != 0;) length = length << 8 | length_bytes[i];
  const uint64_t rest = static_cast<uint64_t>(size) - 8;
  if (length > kMaxHeaderBytes || length > rest) {
    return fail("no safetensors file, or cut off (header of " +
                std::to_string(length) + " bytes, " + std::to_string(rest) +
                " there)");
  }

  std::string header(length, '\0');
  if (std::fread(header.data(), 1, length, f) != length) {
    return fail("cannot be read");
  }
  result.data_begin_ = 8 + length;
  if (!result.ParseHeader(header, rest - length, error)) return fail(*error);
  *file = std::move(result);
  return true;
}

bool Safetensors::ParseHeader(const std::string& text, size_t data_bytes,
                              std::string* error) {
  const Json header = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return Fail(error, "the header is no JSON object");
  for (const auto& [name, entry] : header.items()) {
    const std::string who = "tensor " + name;
    if (!entry.is_object()) return Fail(error, who + ": bad entry");
    if (name == "__metadata__") {
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) return Fail(error, key + ": not a string");
        metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    Tensor tensor;
    std::vector<size_t> place;
    const auto type = entry.find("dtype");
    if (type == entry.end() || !type->is_string() ||
        !ParseSizes(entry, "shape", &tensor.shape) ||
        !ParseSizes(entry, "data_offsets", &place) || place.size() != 2) {
      return Fail(error, who + ": bad entry");
    }
    tensor.type = type->get<std::string>();
    tensor.begin = place[0];
    tensor.end = place[1];
    size_t bytes = TypeBytes(tensor.type);
    if (bytes == 0) return Fail(error, who + ": unknown type " + tensor.type);
    for (const size_t extent : tensor.shape) {
      if (__builtin_mul_overflow(bytes, extent, &bytes)) {
        return Fail(error, who + ": its shape overflows");
      }
    }
    if (tensor.begin > tensor.end || tensor.end > data_bytes) {
      return Fail(error, who + " ends past the file: cut off?");
    }
    if (tensor.end - tensor.begin != bytes) {
      return Fail(error, who + ": shape " + ShapeText(tensor.shape) +
                             " does not fit its bytes");
    }
    tensors_[name] = std::move(tensor);
  }
  return CheckPlaces(data_bytes, error);
}

// All bytes belong to exactly one tensor, as the format demands.
bool Safetensors::CheckPlaces(size_t data_bytes, std::string* error) const {
  std::vector<std::pair<size_t, size_t>> places;
  for (const auto& [name, tensor] : tensors_) {
    places.emplace_back(tensor.begin, tensor.end);
  }
  std::sort(places.begin(), places.end());
  size_t end = 0;
  for (const auto& place : places) {
    if (place.first != end) return Fail(error, "tensors overlap or leave gaps");
    end = place.second;
  }
  return end == data_bytes || Fail(error, "bytes after the last tensor");
}

std::vector<size_t> Safetensors::Shape(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? std::vector<size_t>() : found->second.shape;
}

bool Safetensors::ReadBytes(const Tensor& tensor, void* bytes) const {
  const size_t size = tensor.end - tensor.begin;
  const size_t begin = data_begin_ + tensor.begin;
  return std::fseek(stream_.get(), static_cast<long>(begin), SEEK_SET) == 0 &&
         std::fread(bytes, 1, size, stream_.get()) == size;
}

bool Safetensors::CanRead(const std::string& name, std::string* error) const {
  const std::string who = path_ + ": tensor " + name;
  const auto place = tensors_.find(name);
  if (place == tensors_.end()) return Fail(error, who + " is missing");
  const std::string& type = place->second.type;
  return type == "F32" || type == "F16" || type == "BF16" ||
         Fail(error, who + " is " + type + ", not F32, F16 or BF16");
}

bool Safetensors::Read(const std::string& name,
                       const std::vector<size_t>& shape,
                       std::vector<float>* values, std::string* error) const {
  if (!CanRead(name, error)) return false;
  const auto fail = [&](const std::string& text) {
    return Fail(error, path_ + ": tensor " + name + text);
  };
  const Tensor& tensor = tensors_.at(name);
  if (tensor.shape != shape) {
    return fail(" is " + ShapeText(tensor.shape) + ", expected " +
                ShapeText(shape));
  }
  const size_t bytes = tensor.end - tensor.begin;
  if (tensor.type == "F32") {
    values->resize(bytes / sizeof(float));
    return ReadBytes(tensor, values->data()) || fail(" cannot be read");
  }
  std::vector<uint16_t> halves(bytes / sizeof(uint16_t));
  if (!ReadBytes(tensor, halves.data())) return fail(" cannot be read");
  values->resize(halves.size());
  std::transform(halves.begin(), halves.end(), values->begin(),
                 tensor.type == "F16" ? &FromHalf : &FromBfloat16);
  return true;
}

bool Safetensors::Find(const std::string& name,
                       const std::vector<size_t>& shape, const float** values,
                       std::string* error) const {
  std::vector<float> read;
  if (!Read(name, shape, &read, error)) return false;
  std::vector<float>& kept = found_[name];
  // Asked for before: earlier pointers stay good.
  if (kept.empty()) kept = std::move(read);
  *values = kept.data();
  return true;
}

bool Safetensors::Metadata(const std::string& key, std::string* text,
                           std::string* error) const {
  const auto found = metadata_.find(key);
  if (found == metadata_.end()) {
    return Fail(error, path_ + ": metadata \"" + key + "\" is missing");
  }
  *text = found->second;
  return true;
}

}  // namespace ffnorm_cli
