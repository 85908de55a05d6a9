// Targets by list, by name and by environment.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "kernels/cpu.h"
#include "tests/model.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

#if defined(__unix__) || defined(__APPLE__)
#define FFNORM_TESTS_HAVE_SETENV 1
// Sets FFNORM_TARGET, and puts back what it was.
class TargetVariable {
 public:
  explicit TargetVariable(const char* value) {
    const char* before = std::getenv(kName);
    was_set_ = before != nullptr;
    if (was_set_) before_ = before;
    if (value != nullptr) {
      setenv(kName, value, 1);
    } else {
      unsetenv(kName);
    }
  }
  ~TargetVariable() {
    if (was_set_) {
      setenv(kName, before_.c_str(), 1);
    } else {
      unsetenv(kName);
    }
  }

 private:
  static constexpr char kName[] = "FFNORM_TARGET";
  bool was_set_;
  std::string before_;
};
#endif

std::vector<const ffnorm_target*> All() {
  std::vector<const ffnorm_target*> all(ffnorm_targets(nullptr, 0));
  REQUIRE(ffnorm_targets(all.data(), all.size()) == all.size());
  return all;
}

}  // namespace

TEST_SUITE("target") {
  TEST_CASE("the list is filled up to the capacity, and counted whole") {
    const std::vector<const ffnorm_target*> all = All();
    REQUIRE(!all.empty());
    for (size_t capacity = 0; capacity <= all.size() + 2; ++capacity) {
      std::vector<const ffnorm_target*> some(all.size() + 2, nullptr);
      CHECK(ffnorm_targets(some.data(), capacity) == all.size());
      for (size_t i = 0; i < some.size(); ++i) {
        CHECK(some[i] == (i < capacity && i < all.size() ? all[i] : nullptr));
      }
    }
  }

  TEST_CASE("each has a name of its own, a width and a class") {
    std::set<std::string> names;
    for (const ffnorm_target* target : All()) {
      names.insert(TargetName(target));
      const size_t bytes = ffnorm_target_vector_bytes(target);
      CHECK(bytes >= sizeof(float));
      CHECK(bytes % sizeof(float) == 0);
      const ffnorm_class rounding = ffnorm_target_class(target);
      CHECK((rounding == FFNORM_FUSED || rounding == FFNORM_UNFUSED));
    }
    CHECK(names.size() == All().size());
  }

  TEST_CASE("the best one comes first") {
    const std::vector<const ffnorm_target*> all = All();
    for (size_t i = 1; i < all.size(); ++i) {
      CHECK(ffnorm_target_vector_bytes(all[i - 1]) >=
            ffnorm_target_vector_bytes(all[i]));
      CHECK(ffnorm_target_class(all[i - 1]) >= ffnorm_target_class(all[i]));
    }
  }

  TEST_CASE("a CPU has a level only with all features of it and those below") {
    CpuidLeaves cpu = {};
    CHECK(LevelOf(cpu) == kCpuBaseline);
    cpu.leaf1_ecx = 1u << 0 | 1u << 9;  // SSE3, SSSE3
    CHECK(LevelOf(cpu) == kCpuSsse3);
    constexpr uint32_t kSse4 =
        1u << 1 | 1u << 19 | 1u << 20 | 1u << 23 | 1u << 25;
    const uint32_t ssse3 = cpu.leaf1_ecx;
    for (const int bit : {1, 19, 20, 23, 25}) {
      cpu.leaf1_ecx = ssse3 | (kSse4 & ~(1u << bit));
      CHECK(LevelOf(cpu) == kCpuSsse3);
    }
    cpu.leaf1_ecx = kSse4;
    CHECK(LevelOf(cpu) == kCpuBaseline);
    cpu.leaf1_ecx = ssse3 | kSse4;
    CHECK(LevelOf(cpu) == kCpuSse4);
  }

  TEST_CASE("a CPU that reads ahead is known by all letters of its vendor") {
    const auto vendor = [](const char(&letters)[13]) {
      CpuVendor v = {};
      memcpy(&v.ebx, letters, 4);
      memcpy(&v.edx, letters + 4, 4);
      memcpy(&v.ecx, letters + 8, 4);
      return v;
    };
    CHECK(TraitsOf(vendor("AuthenticAMD")) == kCpuReadsAhead);
    CHECK(TraitsOf(vendor("HygonGenuine")) == kCpuReadsAhead);
    CHECK(TraitsOf(vendor("GenuineIntel")) == 0);
    CHECK(TraitsOf(vendor("AuthenticABC")) == 0);
    CHECK(TraitsOf(vendor("AuthXXXXcAMD")) == 0);
    CHECK(TraitsOf(vendor("XXXXenticAMD")) == 0);
    CHECK(TraitsOf({}) == 0);
  }

  TEST_CASE("NULL is no target") {
    CHECK(ffnorm_target_name(nullptr) == nullptr);
    CHECK(ffnorm_target_vector_bytes(nullptr) == 0);
    CHECK(ffnorm_target_class(nullptr) == FFNORM_UNFUSED);
    CHECK(ffnorm_find_target("SCALAR", nullptr) == FFNORM_INVALID_ARGUMENT);
    CHECK(ffnorm_find_target(nullptr, nullptr) == FFNORM_INVALID_ARGUMENT);
  }

  TEST_CASE("every name finds its target, and no other name any") {
    for (const ffnorm_target* target : All()) {
      const ffnorm_target* found = nullptr;
      CHECK(ffnorm_find_target(ffnorm_target_name(target), &found) ==
            FFNORM_OK);
      CHECK(found == target);
    }
    const ffnorm_target* best = All()[0];
    const std::string name = TargetName(best);
    for (const std::string& other :
         {std::string(), std::string("NO_SUCH_TARGET"), name + " ", " " + name,
          name + "2", name.substr(0, name.size() - 1), std::string("avx2"),
          std::string("scalar"), std::string(100000, 'A')}) {
      CAPTURE(other.substr(0, 40));
      const ffnorm_target* found = best;
      CHECK(ffnorm_find_target(other.c_str(), &found) == FFNORM_UNSUPPORTED);
      CHECK(found == best);
    }
  }

#ifdef FFNORM_TESTS_HAVE_SETENV
  TEST_CASE("FFNORM_TARGET chooses the default") {
    const Model model(5, 7);
    const std::vector<float> x = model.Input(3);
    const std::vector<const ffnorm_target*> all = All();
    const auto opened = [&](ffnorm_block* block) {
      return ffnorm_open(model.packed.data(), model.packed.bytes(), nullptr,
                         block);
    };
    // Unset, and empty.
    for (const char* none : {static_cast<const char*>(nullptr), ""}) {
      const TargetVariable unset(none);
      const ffnorm_target* found = nullptr;
      CHECK(ffnorm_find_target(nullptr, &found) == FFNORM_OK);
      CHECK(found == all[0]);
      ffnorm_block block = {};
      CHECK(opened(&block) == FFNORM_OK);
      CHECK(block.target == all[0]);
    }
    for (const ffnorm_target* target : all) {
      const TargetVariable set(ffnorm_target_name(target));
      const ffnorm_target* found = nullptr;
      CHECK(ffnorm_find_target(nullptr, &found) == FFNORM_OK);
      CHECK(found == target);
      ffnorm_block block = {};
      CHECK(opened(&block) == FFNORM_OK);
      CHECK(block.target == target);
      // Asked for by name, a target is that one.
      CHECK(ffnorm_find_target(ffnorm_target_name(all[0]), &found) ==
            FFNORM_OK);
      CHECK(found == all[0]);
      // The stages' default: it shows in nothing but bits, and LayerNorm's are
      // those of every target.
      std::vector<float> y(x.size());
      CHECK(ffnorm_layer_norm(nullptr, 5, 1e-6f, nullptr, nullptr, 3, x.data(),
                              5, y.data(), 5) == FFNORM_OK);
      CHECK(ffnorm_residual_add(nullptr, 5, 3, x.data(), 5, x.data(), 5,
                                y.data(), 5) == FFNORM_OK);
    }
  }

  TEST_CASE("FFNORM_TARGET with a name that is no target") {
    const TargetVariable set("NO_SUCH_TARGET");
    const Model model(5, 7);
    const ffnorm_target* found = nullptr;
    CHECK(ffnorm_find_target(nullptr, &found) == FFNORM_UNSUPPORTED);
    CHECK(found == nullptr);
    ffnorm_block block = {};
    CHECK(ffnorm_open(model.packed.data(), model.packed.bytes(), nullptr,
                      &block) == FFNORM_UNSUPPORTED);
    CHECK(block.packed == nullptr);
    const std::vector<float> x(5, 1.0f);
    std::vector<float> y(5, 2.0f);
    CHECK(ffnorm_layer_norm(nullptr, 5, 1e-6f, nullptr, nullptr, 1, x.data(), 5,
                            y.data(), 5) == FFNORM_UNSUPPORTED);
    CHECK(ffnorm_residual_add(nullptr, 5, 1, x.data(), 5, x.data(), 5, y.data(),
                              5) == FFNORM_UNSUPPORTED);
    CheckSameBits(y, std::vector<float>(5, 2.0f));
    // A target that is named needs no default.
    CHECK(ffnorm_open(model.packed.data(), model.packed.bytes(), All()[0],
                      &block) == FFNORM_OK);
  }
#endif
}

}  // namespace test
}  // namespace ffnorm
