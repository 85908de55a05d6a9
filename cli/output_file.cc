#include "cli/output_file.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "cli/failure.h"

namespace ffnorm_cli {
namespace {

// The temporary file that a signal would leave behind; "" when there is none.
char unfinished[PATH_MAX];

extern "C" void RemoveUnfinished(int number) {
  if (unfinished[0] != '\0') unlink(unfinished);
  signal(number, SIG_DFL);
  raise(number);
}

void RemoveOnSignals() {
  static const bool done = [] {
    for (const int number : {SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXFSZ}) {
      // One that is ignored stays so.
      if (signal(number, &RemoveUnfinished) == SIG_IGN) signal(number, SIG_IGN);
    }
    return true;
  }();
  static_cast<void>(done);
}

// What open() would have given a new file.
mode_t NewFileMode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

std::string Resolved(const std::string& path) {
  char* const resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  const std::string text = resolved;
  std::free(resolved);
  return text;
}

}  // namespace

// Delegates, so that the destructor runs when the body throws.
OutputFile::OutputFile(const std::string& path) : OutputFile() {
  path_ = path;
  target_ = path;
  Open();
}

void OutputFile::Open() {
  struct stat there = {};
  if (stat(path_.c_str(), &there) == 0) {
    if (!S_ISREG(there.st_mode)) {
      file_ = std::fopen(path_.c_str(), "wb");
      if (file_ == nullptr) Fail();
      return;
    }
    // The file that a link names is replaced, not the link.
    target_ = Resolved(path_);
  }
  OpenTemporary();
  const mode_t mode =
      there.st_mode != 0 ? there.st_mode & 07777 : NewFileMode();
  if (fchmod(fileno(file_), mode) != 0) Fail();
}

void OutputFile::OpenTemporary() {
  const size_t slash = target_.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "" : target_.substr(0, slash + 1);
  std::string name = folder + ".ffnorm-XXXXXX";
  if (name.size() >= sizeof(unfinished)) {
    errno = ENAMETOOLONG;
    Fail();
  }
  RemoveOnSignals();
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) Fail();
  temporary_ = name;
  std::strcpy(unfinished, name.c_str());
  file_ = fdopen(descriptor, "wb");
  if (file_ == nullptr) Fail();
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
  unfinished[0] = '\0';
}

void OutputFile::Write(const void* data, size_t bytes) {
  if (std::fwrite(data, 1, bytes, file_) != bytes) Fail();
}

void OutputFile::Commit() {
  std::FILE* const file = file_;
  file_ = nullptr;
  if (std::fclose(file) != 0) Fail();
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) Fail();
  temporary_.clear();
  unfinished[0] = '\0';
}

void OutputFile::Fail() const {
  throw Failure(path_ + ": cannot be written: " + std::strerror(errno));
}

}  // namespace ffnorm_cli
