// Parts of work as they are dealt to tasks, taken one by one.
#include "kernels/split.h"

#include <doctest/doctest.h>
#include <stddef.h>

#include <vector>

#include "tests/random_data.h"

namespace ffnorm {
namespace test {
namespace {

constexpr size_t kMostTasks = 16;

struct Dealt {
  Dealt(size_t parts, size_t tasks) {
    for (Counter& counter : counters) counter.taken = 12345;  // stale memory
    deal = DealParts(parts, tasks, counters);
    for (size_t task = 0; task < deal.tasks; ++task) {
      takers.emplace_back(deal, task);
    }
  }

  Counter counters[kMostTasks];
  Deal deal;
  std::vector<Taker> takers;
};

size_t Begin(const Deal& deal, size_t task) {
  return PartBegin(deal.parts, deal.tasks, task);
}

}  // namespace

TEST_SUITE("split") {
  TEST_CASE("each task has a part, in turn they all take just their own") {
    for (size_t tasks = 1; tasks <= kMostTasks; ++tasks) {
      for (const size_t parts : {1, 2, 3, 7, 16, 17, 48, 100}) {
        CAPTURE(tasks);
        CAPTURE(parts);
        Dealt dealt(parts, tasks);
        REQUIRE(dealt.deal.tasks == (tasks < parts ? tasks : parts));
        const size_t fewest = parts / dealt.deal.tasks;
        REQUIRE(fewest >= 1);
        for (size_t i = 0; i < fewest; ++i) {
          for (size_t task = 0; task < dealt.deal.tasks; ++task) {
            CHECK(dealt.takers[task].Take() == Begin(dealt.deal, task) + i);
          }
        }
      }
    }
  }

  TEST_CASE("one that is alone takes its own, then those of the others") {
    Dealt dealt(11, 4);  // 3 + 3 + 3 + 2
    for (const size_t part : {6, 7, 8, 9, 10, 0, 1, 2, 3, 4, 5}) {
      CHECK(dealt.takers[2].Take() == part);
    }
    for (Taker& taker : dealt.takers) {
      CHECK(taker.Take() == 11);
      CHECK(taker.Take() == 11);
    }
  }

  TEST_CASE("each part is taken once, in any order") {
    Random random(1);
    for (size_t i = 0; i < 2000; ++i) {
      const size_t parts = 1 + random.Below(60);
      Dealt dealt(parts, 1 + random.Below(kMostTasks));
      std::vector<size_t> times(parts);
      for (size_t left = parts; left != 0; --left) {
        const size_t task = random.Below(dealt.deal.tasks);
        const size_t part = dealt.takers[task].Take();
        REQUIRE(part < parts);
        ++times[part];
      }
      CHECK(times == std::vector<size_t>(parts, 1));
      for (Taker& taker : dealt.takers) CHECK(taker.Take() == parts);
    }
  }
}

}  // namespace test
}  // namespace ffnorm
