#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

namespace ffnorm_cli {
namespace {

constexpr size_t kProgressWidth = 24;

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The first of these that is set decides.
bool IsUtf8Locale() {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string value = Variable(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string::npos ||
           value.find("utf8") != std::string::npos;
  }
  return false;
}

size_t Columns(std::FILE* stream) {
  winsize size = {};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return 80;
  }
  return size.ws_col;
}

std::string Repeat(const char* text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

size_t Cells(double share, size_t width) {
  const double clamped = std::min(std::max(share, 0.0), 1.0);
  return static_cast<size_t>(clamped * static_cast<double>(width) + 0.5);
}

}  // namespace

Style StyleOf(std::FILE* stream) {
  Style style;
  style.moves = isatty(fileno(stream)) != 0 && Variable("TERM") != "dumb";
  style.colors = style.moves && Variable("NO_COLOR").empty();
  style.unicode = style.moves && IsUtf8Locale();
  return style;
}

std::string Paint(const Style& style, Color color, const std::string& text) {
  if (!style.colors) return text;
  const char* code = "";
  switch (color) {
    case Color::kDim:
      code = "2";
      break;
    case Color::kBold:
      code = "1";
      break;
    case Color::kGreen:
      code = "32";
      break;
    case Color::kYellow:
      code = "33";
      break;
    case Color::kRed:
      code = "31";
      break;
  }
  return std::string("\033[") + code + "m" + text + "\033[0m";
}

std::string Printable(const std::string& text) {
  std::string safe = text;
  for (char& c : safe) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) c = '?';
  }
  return safe;
}

std::string Bar(const Style& style, double share, double best, size_t width) {
  const size_t solid = Cells(share, width);
  const size_t light = std::max(Cells(best, width), solid) - solid;
  const size_t empty = width - solid - light;
  const Color color = share >= 0.75  ? Color::kGreen
                      : share >= 0.5 ? Color::kYellow
                                     : Color::kRed;
  if (!style.unicode) {
    return Paint(style, color, Repeat("#", solid)) +
           Paint(style, color, Repeat("+", light)) + Repeat(".", empty);
  }
  return Paint(style, color, Repeat("█", solid) + Repeat("▒", light)) +
         Paint(style, Color::kDim, Repeat("·", empty));
}

std::string BytesText(double bytes) {
  const char* unit = "KiB";
  double value = bytes / 1024.0;
  for (const char* const larger : {"MiB", "GiB"}) {
    if (value < 1024.0) break;
    value /= 1024.0;
    unit = larger;
  }
  return Format(value < 100.0 ? "%.1f %s" : "%.0f %s", value, unit);
}

std::string Format(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, arguments);
  va_end(arguments);
  std::string text(static_cast<size_t>(std::max(length, 0)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

Progress::Progress() : style_(StyleOf(stderr)) {}

void Progress::Show(double share, const std::string& text) {
  if (!style_.moves) return;
  // A line that wraps could not be drawn over.
  const size_t taken = kProgressWidth + 8;
  const size_t columns = Columns(stderr);
  const size_t room = columns > taken ? columns - taken : 0;
  std::fprintf(stderr, "\r\033[K%s %3.0f%% %s",
               Bar(style_, share, share, kProgressWidth).c_str(), 100.0 * share,
               Printable(text).substr(0, room).c_str());
  std::fflush(stderr);
}

void Progress::Clear() {
  if (style_.moves) std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

}  // namespace ffnorm_cli
