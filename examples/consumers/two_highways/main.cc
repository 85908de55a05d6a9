// Proves that two copies of Highway in one program do not meet: both libraries
// give right results, and neither's choice of target changes the other's.

#include <cstdio>
#include <cstring>
#include <string>

#include "../compare.h"
#include "filter.h"

namespace {

bool ScaleIsRight() {
  float in[77];
  float out[77];
  Fill(in, 77);
  filter::Scale(in, 0.1f, 77, out);
  for (int i = 0; i < 77; ++i) {
    if (out[i] != in[i] * 0.1f) return false;
  }
  return true;
}

const char* FfnormTarget() {
  const ffnorm_target* target = nullptr;
  Require(ffnorm_find_target(nullptr, &target), "ffnorm_find_target");
  return ffnorm_target_name(target);
}

bool Check(bool right, const char* what) {
  if (!right) std::fprintf(stderr, "two_highways: %s\n", what);
  return right;
}

}  // namespace

int main() {
  unsetenv("FFNORM_TARGET");
  const std::string ffnorm_best = FfnormTarget();
  const std::string filter_best = filter::Target();
  bool right = Check(ScaleIsRight(), "Scale is wrong") &&
               Check(CompareWithReference() == 0, "ffnorm is wrong");

  // ffnorm on its last target: the other Highway stays where it was.
  const ffnorm_target* targets[32];
  const size_t count = ffnorm_targets(targets, 32);
  setenv("FFNORM_TARGET", ffnorm_target_name(targets[count - 1]), 1);
  right = right && Check(CompareWithReference() == 0, "ffnorm is wrong") &&
          Check(filter::Target() == filter_best, "the filter's target moved") &&
          Check(ScaleIsRight(), "Scale is wrong");
  unsetenv("FFNORM_TARGET");

  // The other Highway on its plainest target: ffnorm stays where it was.
  filter::UsePlainest();
  right = right &&
          Check(filter::NumTargets() == 1, "the filter kept its targets") &&
          Check(FfnormTarget() == ffnorm_best, "ffnorm's target moved") &&
          Check(ScaleIsRight(), "Scale is wrong") &&
          Check(CompareWithReference() == 0, "ffnorm is wrong");
  std::printf("ffnorm on %s and the other Highway on %s, then %s: %s\n",
              ffnorm_best.c_str(), filter_best.c_str(), filter::Target(),
              right ? "apart" : "MIXED UP");
  return right ? 0 : 1;
}
