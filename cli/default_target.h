// The target that FFNORM_TARGET names, or else the best one.
#ifndef FFNORM_CLI_DEFAULT_TARGET_H_
#define FFNORM_CLI_DEFAULT_TARGET_H_

#include "ffnorm/ffnorm.hpp"

namespace ffnorm_cli {

// Throws Failure where FFNORM_TARGET names none of this CPU.
ffnorm::Target DefaultTarget();

}  // namespace ffnorm_cli

#endif  // FFNORM_CLI_DEFAULT_TARGET_H_
