// The reader of safetensors files that the command line program uses too.
#ifndef FFNORM_EXAMPLES_TINYLM_SAFETENSORS_H_
#define FFNORM_EXAMPLES_TINYLM_SAFETENSORS_H_

#include "../../cli/safetensors.h"

namespace tinylm {

using ffnorm_cli::Safetensors;

}  // namespace tinylm

#endif  // FFNORM_EXAMPLES_TINYLM_SAFETENSORS_H_
