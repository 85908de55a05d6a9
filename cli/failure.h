// How the program ends, and what it throws to end early.
#ifndef FFNORM_CLI_FAILURE_H_
#define FFNORM_CLI_FAILURE_H_

#include <stdexcept>
#include <string>

namespace ffnorm_cli {

enum ExitStatus {
  kDone = 0,
  kFailed = 1,  // a bad file, or work that could not be done
  kUsage = 2,   // the command line asks for something that does not exist
};

// One line for stderr. main() prints it and ends with the status.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& text, ExitStatus status = kFailed)
      : std::runtime_error(text), status_(status) {}

  ExitStatus status() const { return status_; }

 private:
  ExitStatus status_;
};

}  // namespace ffnorm_cli

#endif  // FFNORM_CLI_FAILURE_H_
