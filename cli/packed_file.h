// Reads a packed block from a file.
#ifndef FFNORM_CLI_PACKED_FILE_H_
#define FFNORM_CLI_PACKED_FILE_H_

#include <string>

#include "ffnorm/ffnorm.hpp"

namespace ffnorm_cli {

// The whole block, checksum compared. Throws Failure.
ffnorm::AlignedMemory ReadPacked(const std::string& path);

}  // namespace ffnorm_cli

#endif  // FFNORM_CLI_PACKED_FILE_H_
