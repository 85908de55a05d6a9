/* A library that has nothing to do with ffnorm, and uses Highway as most do:
 * foreach_target, dynamic dispatch and libhwy. */
#ifndef FILTER_H_
#define FILTER_H_

#include <cstddef>

namespace filter {

// out[i] = in[i] * factor
void Scale(const float* in, float factor, size_t count, float* out);

// The target that Scale runs on.
const char* Target();

// How many targets Scale may run on, and a limit to the plainest of them.
size_t NumTargets();
void UsePlainest();

}  // namespace filter

#endif  // FILTER_H_
