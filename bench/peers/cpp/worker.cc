// The main loop of a C++ peer: commands on standard input, one line each,
// answers on standard output (../workers.py is the other end).
//
//   load DIRECTORY D_MODEL D_FF ROWS EPSILON   the data set, up to ROWS rows
//   point ORDER ROWS        what the next commands run: `pre`, `post`, or
//                           `norm` for LayerNorm alone
//   prepare VARIANT         -> `ok`
//   write VARIANT FILE      one call, its result as float32 -> `ok SECONDS`
//   time VARIANT WARM SLOT  calls for WARM seconds, then batches for SLOT
//                           seconds -> `ok MEDIAN BEST INTERRUPTED`: seconds a
//                           call, and the share of the batches in which the
//                           system took a CPU away; those count only when
//                           there are no others, with one thread by the CPU
//                           time that they took
//
// Anything that goes wrong is answered by `error WHY`.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "bench/memory.h"
#include "peer.h"

namespace peers {
namespace {

using ffnorm::bench::Memory;
using ffnorm::bench::Pages;

// Long against the clock, short against the time slice of another process.
constexpr double kBatchSeconds = 5e-4;

double Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

double CpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// How often another process took a CPU from this one.
long Interruptions() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// A file of floats, mapped for reading.
class FloatFile {
 public:
  FloatFile(const std::string& path, size_t count)
      : bytes_(count * sizeof(float)) {
    const int file = open(path.c_str(), O_RDONLY);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0 ||
        static_cast<size_t>(status.st_size) < bytes_) {
      throw std::runtime_error("no such data, or too short: " + path);
    }
    data_ =
        mmap(nullptr, bytes_, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
    close(file);
    if (data_ == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  }
  ~FloatFile() { munmap(data_, bytes_); }
  FloatFile(const FloatFile&) = delete;
  FloatFile& operator=(const FloatFile&) = delete;

  const float* data() const { return static_cast<const float*>(data_); }

 private:
  size_t bytes_;
  void* data_ = nullptr;
};

// One data set, and the peers that were made for it.
class DataSet {
 public:
  DataSet(const std::string& directory, size_t d_model, size_t d_ff,
          size_t rows, float epsilon)
      : max_rows_(rows),
        w1_(directory + "/w1.f32", d_model * d_ff),
        b1_(directory + "/b1.f32", d_ff),
        w2_(directory + "/w2.f32", d_ff * d_model),
        b2_(directory + "/b2.f32", d_model),
        scale_(directory + "/scale.f32", d_model),
        offset_(directory + "/offset.f32", d_model),
        x_(rows * d_model * sizeof(float), Pages::kHuge),
        y_(rows * d_model * sizeof(float), Pages::kHuge),
        weights_{d_model,    d_ff,          epsilon,
                 w1_.data(), b1_.data(),    w2_.data(),
                 b2_.data(), scale_.data(), offset_.data()} {
    const FloatFile x(directory + "/x.f32", rows * d_model);
    std::copy_n(x.data(), rows * d_model, x_.floats());
  }

  const Weights& weights() const { return weights_; }
  size_t max_rows() const { return max_rows_; }
  const float* x() const { return x_.floats(); }
  float* y() { return y_.floats(); }

  Peer& Get(const Variant& variant, int threads) {
    std::unique_ptr<Peer>& peer = peers_[variant.name];
    if (peer == nullptr) peer = variant.make(weights_, threads);
    return *peer;
  }

 private:
  size_t max_rows_;
  FloatFile w1_, b1_, w2_, b2_, scale_, offset_;
  Memory x_, y_;
  Weights weights_;
  std::map<std::string, std::unique_ptr<Peer>> peers_;
};

class Worker {
 public:
  Worker(const Library& library, int threads, FILE* answers)
      : library_(library), threads_(threads), answers_(answers) {}

  void Introduce() {
    std::string variants;
    for (const Variant& variant : library_.variants) {
      if (!variants.empty()) variants += ", ";
      variants += "[\"" + variant.name + "\", " +
                  std::to_string(variant.max_rows) + "]";
    }
    Answer("{\"library\": \"" + library_.name + "\", \"version\": \"" +
           library_.version + "\", \"note\": \"" + library_.note +
           "\", \"variants\": [" + variants + "]}");
  }

  void Run(const std::string& line) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    try {
      if (command == "load") {
        Load(words);
      } else if (command == "point") {
        words >> order_ >> rows_;
        if (!words || data_ == nullptr || rows_ > data_->max_rows()) {
          throw std::runtime_error("bad point");
        }
        Answer("ok");
      } else {
        std::string name;
        words >> name;
        RunVariant(command, Find(name), words);
      }
    } catch (const std::exception& failure) {
      Answer(std::string("error ") + failure.what());
    }
  }

 private:
  void Answer(const std::string& text) {
    fprintf(answers_, "%s\n", text.c_str());
    fflush(answers_);
  }

  const Variant& Find(const std::string& name) const {
    for (const Variant& variant : library_.variants) {
      if (variant.name == name) return variant;
    }
    throw std::runtime_error("no such variant: " + name);
  }

  void Load(std::istringstream& words) {
    std::string directory;
    size_t d_model = 0, d_ff = 0, rows = 0;
    float epsilon = 0.0f;
    words >> directory >> d_model >> d_ff >> rows >> epsilon;
    if (!words) throw std::runtime_error("bad load");
    data_.reset();  // first, since two of the large ones may not fit
    data_.reset(new DataSet(directory, d_model, d_ff, rows, epsilon));
    Answer("ok");
  }

  void RunVariant(const std::string& command, const Variant& variant,
                  std::istringstream& words) {
    if (data_ == nullptr) throw std::runtime_error("nothing loaded");
    Peer& peer = data_->Get(variant, threads_);
    if (command == "prepare") {
      const char* const problem = peer.Prepare(rows_);
      if (problem != nullptr) throw std::runtime_error(problem);
      Answer("ok");
    } else if (command == "write") {
      std::string path;
      words >> path;
      Write(peer, path);
    } else if (command == "time") {
      double warm = 0.0, slot = 0.0;
      words >> warm >> slot;
      Time(peer, warm, slot);
    } else {
      throw std::runtime_error("no such command: " + command);
    }
  }

  void Call(Peer& peer) {
    if (order_ == "pre") {
      peer.PreLn(data_->x(), data_->y(), rows_);
    } else if (order_ == "post") {
      peer.PostLn(data_->x(), data_->y(), rows_);
    } else {
      peer.LayerNorm(data_->x(), data_->y(), rows_);
    }
  }

  void Write(Peer& peer, const std::string& path) {
    const size_t count = rows_ * data_->weights().d_model;
    std::fill_n(data_->y(), data_->max_rows() * data_->weights().d_model,
                -1e30f);  // so that no older result passes for this one
    const double start = Now();
    Call(peer);
    const double seconds = Now() - start;
    FILE* const file = fopen(path.c_str(), "wb");
    if (file == nullptr) throw std::runtime_error("cannot write " + path);
    const size_t written = fwrite(data_->y(), sizeof(float), count, file);
    if (fclose(file) != 0 || written != count) {
      throw std::runtime_error("cannot write " + path);
    }
    char text[64];
    snprintf(text, sizeof(text), "ok %.6e", seconds);
    Answer(text);
  }

  void Time(Peer& peer, double warm, double slot) {
    double start = Now();
    double one = 0.0;  // seconds of the fastest call; 0: none was made
    while (Now() - start < warm) {
      const double before = Now();
      Call(peer);
      const double seconds = Now() - before;
      one = one == 0.0 ? seconds : std::min(one, seconds);
    }
    const size_t batch =
        one == 0.0
            ? 1
            : std::max<size_t>(1, static_cast<size_t>(kBatchSeconds / one));
    std::vector<double> times, interrupted;
    start = Now();
    do {
      const long interruptions = Interruptions();
      const double cpu_before = CpuSeconds();
      const double before = Now();
      for (size_t i = 0; i < batch; ++i) Call(peer);
      double seconds = Now() - before;
      const bool whole = Interruptions() == interruptions;
      if (!whole && threads_ == 1) {
        seconds = std::min(seconds, CpuSeconds() - cpu_before);
      }
      (whole ? times : interrupted)
          .push_back(seconds / static_cast<double>(batch));
    } while (Now() - start < slot);
    const double share = static_cast<double>(interrupted.size()) /
                         static_cast<double>(times.size() + interrupted.size());
    if (times.empty()) times.swap(interrupted);
    std::sort(times.begin(), times.end());
    char text[96];
    snprintf(text, sizeof(text), "ok %.6e %.6e %.2f", times[times.size() / 2],
             times[0], share);
    Answer(text);
  }

  const Library& library_;
  int threads_;
  FILE* answers_;
  std::unique_ptr<DataSet> data_;
  std::string order_;
  size_t rows_ = 0;
};

}  // namespace

int ThreadsOf(int argc, char** argv) {
  const int threads = argc == 2 ? atoi(argv[1]) : 0;
  if (threads < 1) {
    fprintf(stderr, "usage: %s THREADS (started by run.py)\n", argv[0]);
    exit(2);
  }
  return threads;
}

int RunWorker(const Library& library, int threads) {
  // Libraries may print: what they say goes to standard error.
  FILE* const answers = fdopen(dup(1), "w");
  if (answers == nullptr || dup2(2, 1) < 0) return 2;
  Worker worker(library, threads, answers);
  worker.Introduce();
  for (std::string line; std::getline(std::cin, line);) worker.Run(line);
  return 0;
}

}  // namespace peers
