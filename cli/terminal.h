// What a line looks like: colours and bars on a terminal, plain text elsewhere.
#ifndef FFNORM_CLI_TERMINAL_H_
#define FFNORM_CLI_TERMINAL_H_

#include <cstddef>
#include <cstdio>
#include <string>

namespace ffnorm_cli {

struct Style {
  bool moves = false;    // a terminal: a line may be drawn over
  bool colors = false;   // a terminal, and NO_COLOR is not set
  bool unicode = false;  // a terminal whose locale is UTF-8
};

Style StyleOf(std::FILE* stream);

enum class Color { kDim, kBold, kGreen, kYellow, kRed };
std::string Paint(const Style& style, Color color, const std::string& text);

// Text from a file, safe to print: control characters become '?'.
std::string Printable(const std::string& text);

// `share` of `width` filled, and lightly on to `best`; both of 0 to 1.
std::string Bar(const Style& style, double share, double best, size_t width);

// "8.0 MiB"
std::string BytesText(double bytes);

// Like sprintf.
[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...);

// A progress bar on stderr while it exists; nothing where that is no terminal.
class Progress {
 public:
  Progress();
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `share` of 0 to 1 is done, and `text` is under way.
  void Show(double share, const std::string& text);

  // Makes room for a line of output.
  void Clear();

 private:
  Style style_;
};

}  // namespace ffnorm_cli

#endif  // FFNORM_CLI_TERMINAL_H_
