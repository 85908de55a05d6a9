// oneDNN: its LayerNorm, and two matmuls over weights reordered once to the
// layout that it asks for, with bias, ReLU and the residual fused.
#include <omp.h>

#include <dnnl.hpp>
#include <string>

#include "bench/memory.h"
#include "peer.h"

namespace peers {
namespace {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
constexpr auto kF32 = dnnl::memory::data_type::f32;

dnnl::engine& Engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::dim Dim(size_t n) { return static_cast<dnnl::memory::dim>(n); }

// oneDNN takes no const.
dnnl::memory View(const Desc& desc, const float* data) {
  return dnnl::memory(desc, Engine(), const_cast<float*>(data));
}

class Fused : public Peer {
 public:
  Fused(const Weights& weights, int threads) : w_(weights), stream_(Engine()) {
    omp_set_num_threads(threads);
  }

  const char* Prepare(size_t rows) override {
    const auto t = Dim(rows), d = Dim(w_.d_model), f = Dim(w_.d_ff);
    const Desc wide({t, f}, kF32, Tag::ab);
    const Desc narrow({t, d}, kF32, Tag::ab);
    const Desc bias1({1, f}, kF32, Tag::ab);
    const Desc bias2({1, d}, kF32, Tag::ab);

    dnnl::post_ops relu;
    relu.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    dnnl::primitive_attr relu_attr;
    relu_attr.set_post_ops(relu);
    const dnnl::matmul::primitive_desc desc1(
        Engine(), narrow, Desc({d, f}, kF32, Tag::any), bias1, wide, relu_attr);

    dnnl::post_ops residual;
    residual.append_binary(dnnl::algorithm::binary_add, narrow);
    dnnl::primitive_attr residual_attr;
    residual_attr.set_post_ops(residual);
    const dnnl::matmul::primitive_desc desc2(Engine(), wide,
                                             Desc({f, d}, kF32, Tag::any),
                                             bias2, narrow, residual_attr);

    const dnnl::layer_normalization_forward::primitive_desc norm_desc(
        Engine(), dnnl::prop_kind::forward_inference, narrow, narrow,
        w_.epsilon,
        dnnl::normalization_flags::use_scale |
            dnnl::normalization_flags::use_shift);

    matmul1_ = dnnl::matmul(desc1);
    matmul2_ = dnnl::matmul(desc2);
    norm_ = dnnl::layer_normalization_forward(norm_desc);
    w1_ = Reorder(View(Desc({d, f}, kF32, Tag::ab), w_.w1),
                  desc1.weights_desc(), &w1_memory_);
    w2_ = Reorder(View(Desc({f, d}, kF32, Tag::ab), w_.w2),
                  desc2.weights_desc(), &w2_memory_);
    b1_ = View(bias1, w_.b1);
    b2_ = View(bias2, w_.b2);
    const Desc vector({d}, kF32, Tag::a);
    scale_ = View(vector, w_.scale);
    offset_ = View(vector, w_.offset);

    z_memory_.Reserve(rows * w_.d_model * sizeof(float));
    h_memory_.Reserve(rows * w_.d_ff * sizeof(float));
    x_ = View(narrow, nullptr);
    y_ = View(narrow, nullptr);
    z_ = View(narrow, z_memory_.floats());
    h_ = View(wide, h_memory_.floats());
    return nullptr;
  }

  void PreLn(const float* x, float* y, size_t) override {
    Bind(x, y);
    Norm(x_, z_);
    FfnAdd(z_);
    stream_.wait();
  }
  void PostLn(const float* x, float* y, size_t) override {
    Bind(x, y);
    FfnAdd(x_);
    Norm(y_, y_);
    stream_.wait();
  }
  void LayerNorm(const float* x, float* y, size_t) override {
    Bind(x, y);
    Norm(x_, y_);
    stream_.wait();
  }

 private:
  dnnl::memory Reorder(dnnl::memory from, const Desc& to,
                       ffnorm::bench::Memory* memory) {
    memory->Reserve(to.get_size());
    dnnl::memory packed = View(to, memory->floats());
    dnnl::reorder(from, packed).execute(stream_, from, packed);
    stream_.wait();
    return packed;
  }
  void Bind(const float* x, float* y) {
    x_.set_data_handle(const_cast<float*>(x));
    y_.set_data_handle(y);
  }
  void Norm(dnnl::memory& from, dnnl::memory& to) {
    norm_.execute(stream_, {{DNNL_ARG_SRC, from},
                            {DNNL_ARG_SCALE, scale_},
                            {DNNL_ARG_SHIFT, offset_},
                            {DNNL_ARG_DST, to}});
  }
  void FfnAdd(dnnl::memory& z) {
    matmul1_.execute(stream_, {{DNNL_ARG_SRC, z},
                               {DNNL_ARG_WEIGHTS, w1_},
                               {DNNL_ARG_BIAS, b1_},
                               {DNNL_ARG_DST, h_}});
    matmul2_.execute(
        stream_, {{DNNL_ARG_SRC, h_},
                  {DNNL_ARG_WEIGHTS, w2_},
                  {DNNL_ARG_BIAS, b2_},
                  {DNNL_ARG_DST, y_},
                  {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, x_}});
  }

  const Weights& w_;
  dnnl::stream stream_;
  dnnl::matmul matmul1_, matmul2_;
  dnnl::layer_normalization_forward norm_;
  ffnorm::bench::Memory w1_memory_, w2_memory_, z_memory_, h_memory_;
  dnnl::memory w1_, w2_, b1_, b2_, scale_, offset_, x_, y_, z_, h_;
};

const char* IsaName() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "SSE4.1";
    case dnnl::cpu_isa::avx:
      return "AVX";
    case dnnl::cpu_isa::avx2:
      return "AVX2";
    case dnnl::cpu_isa::avx2_vnni:
      return "AVX2 with VNNI";
    default:
      return "AVX-512";
  }
}

}  // namespace
}  // namespace peers

int main(int argc, char** argv) {
  const int threads = peers::ThreadsOf(argc, argv);
  const dnnl_version_t* const version = dnnl_version();
  return peers::RunWorker(
      {"onednn",
       std::to_string(version->major) + "." + std::to_string(version->minor) +
           "." + std::to_string(version->patch),
       std::string("code for ") + peers::IsaName(),
       {peers::MakeVariant<peers::Fused>("fused")}},
      threads);
}
