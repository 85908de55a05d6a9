// What each C++ peer implements. A peer is a library that computes the block;
// a variant is one way to use it (packed weights, plain matmul, ...). Each
// library has an executable of its own, since their symbols and their OpenMP
// runtimes clash; worker.cc gives it a main loop.
#ifndef FFNORM_BENCH_PEERS_CPP_PEER_H_
#define FFNORM_BENCH_PEERS_CPP_PEER_H_

#include <stddef.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace peers {

// The parameters as a model has them: (in, out) matrices, row-major, mapped
// from files that all workers share.
struct Weights {
  size_t d_model;
  size_t d_ff;
  float epsilon;
  const float* w1;
  const float* b1;
  const float* w2;
  const float* b2;
  const float* scale;
  const float* offset;
};

class Peer {
 public:
  virtual ~Peer() = default;
  // All that a user does once for a number of rows, such as packing; not timed.
  // Returns what is in the way, or nullptr.
  virtual const char* Prepare(size_t rows) = 0;
  virtual void PreLn(const float* x, float* y, size_t rows) = 0;
  virtual void PostLn(const float* x, float* y, size_t rows) = 0;
  // LayerNorm alone, of those that have one.
  virtual void LayerNorm(const float*, float*, size_t) {
    throw std::runtime_error("has no LayerNorm");
  }
};

struct Variant {
  std::string name;
  size_t max_rows;  // 0: any number
  // Keeps a reference to the weights; they outlive the peer.
  std::function<std::unique_ptr<Peer>(const Weights&, int threads)> make;
};

struct Library {
  std::string name;
  std::string version;
  std::string note;  // which instruction set it chose, and the like
  std::vector<Variant> variants;
};

template <class P>
Variant MakeVariant(const char* name, size_t max_rows = 0) {
  return {name, max_rows, [](const Weights& weights, int threads) {
            return std::make_unique<P>(weights, threads);
          }};
}

// The thread count that the command line asks for.
int ThreadsOf(int argc, char** argv);

// Says what the library is, then answers commands from standard input until it
// ends; worker.cc lists them. Returns the exit status.
int RunWorker(const Library& library, int threads);

}  // namespace peers

#endif  // FFNORM_BENCH_PEERS_CPP_PEER_H_
