#include "cli/default_target.h"

#include <cstdlib>
#include <string>

#include "cli/failure.h"

namespace ffnorm_cli {

ffnorm::Target DefaultTarget() {
  ffnorm::Target target;
  if (Ok(ffnorm::Target::Find(nullptr, &target))) return target;
  const char* const name = std::getenv("FFNORM_TARGET");
  std::string names;
  for (const ffnorm::Target& known : ffnorm::TargetList()) {
    names += std::string(names.empty() ? "" : ", ") + known.name();
  }
  throw Failure(std::string("FFNORM_TARGET is ") +
                    (name == nullptr ? "" : name) + ", and here there is " +
                    names,
                kUsage);
}

}  // namespace ffnorm_cli
