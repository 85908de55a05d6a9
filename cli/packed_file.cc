#include "cli/packed_file.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "cli/failure.h"
#include "kernels/packed.h"

namespace ffnorm_cli {

ffnorm::AlignedMemory ReadPacked(const std::string& path) {
  const auto fail = [&](const std::string& text) -> Failure {
    return Failure(path + ": " + text);
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(
      std::fopen(path.c_str(), "rb"), &std::fclose);
  if (stream == nullptr) throw fail("cannot be opened");
  std::FILE* const f = stream.get();
  if (std::fseek(f, 0, SEEK_END) != 0) throw fail("cannot be read");
  const long end = std::ftell(f);
  if (end < 0 || std::fseek(f, 0, SEEK_SET) != 0) throw fail("cannot be read");
  const size_t size = static_cast<size_t>(end);

  ffnorm::PackedHeader header;
  const size_t got = std::fread(&header, 1, sizeof(header), f);
  if (std::ferror(f) != 0) throw fail("cannot be read");
  if (got < sizeof(header.magic) ||
      std::memcmp(header.magic, ffnorm::kPackedMagic, sizeof(header.magic)) !=
          0) {
    throw fail("no packed block (ffnorm pack makes them)");
  }
  // Compared before anything is allocated.
  if (got < sizeof(header) || size < header.total_bytes) {
    throw fail("a packed block, but cut off at " + std::to_string(size) +
               " bytes");
  }
  if (size > header.total_bytes) {
    throw fail(std::to_string(size - header.total_bytes) +
               " bytes after the packed block");
  }

  ffnorm::AlignedMemory memory = ffnorm::AlignedMemory::Allocate(size);
  if (!memory) throw fail(Message(ffnorm::Status::kOutOfMemory));
  if (std::fseek(f, 0, SEEK_SET) != 0 ||
      std::fread(memory.data(), 1, size, f) != size) {
    throw fail("cannot be read");
  }
  const ffnorm::Status status =
      ffnorm::FromC(ffnorm_verify(memory.data(), memory.bytes()));
  if (!Ok(status)) throw fail(Message(status));
  return memory;
}

}  // namespace ffnorm_cli
