// A file that is written whole or not at all.
#ifndef FFNORM_CLI_OUTPUT_FILE_H_
#define FFNORM_CLI_OUTPUT_FILE_H_

#include <cstddef>
#include <cstdio>
#include <string>

namespace ffnorm_cli {

// Goes to a temporary file in the same folder, which Commit() gives its name.
// Without Commit(), also when a signal ends the program, no trace is left.
// What is no regular file, such as /dev/null, is written to as it is.
class OutputFile {
 public:
  // Throws Failure, as all others here do.
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void Write(const void* data, size_t bytes);
  void Commit();

 private:
  OutputFile() = default;
  [[noreturn]] void Fail() const;
  void Open();
  void OpenTemporary();

  std::string path_;       // as it was given
  std::string target_;     // where links lead
  std::string temporary_;  // empty: the file itself is written to
  std::FILE* file_ = nullptr;
};

}  // namespace ffnorm_cli

#endif  // FFNORM_CLI_OUTPUT_FILE_H_
