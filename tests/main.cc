// Runs the tests on every target that this build and this CPU have.
//
//     ffnorm_test [--target=NAME] [doctest options]
//
// A run that tested nothing, or that was asked for a target that is not there,
// fails.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ffnorm/ffnorm.h"
#include "tests/test_util.h"

namespace ffnorm {
namespace test {
namespace {

std::vector<const ffnorm_target*> targets_under_test;

unsigned test_cases_run = 0;
int assertions_run = 0;

// Counts what really ran: doctest itself calls a filter that matches nothing a
// success.
struct RunCounter : doctest::IReporter {
  explicit RunCounter(const doctest::ContextOptions&) {}

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    test_cases_run = stats.numTestCasesPassingFilters;
    assertions_run = stats.numAsserts;
  }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};

DOCTEST_REGISTER_LISTENER("run_counter", 1, RunCounter);

// The name after --target=, else FFNORM_TEST_TARGET, else "".
std::string Restriction(int argc, char** argv) {
  const char* environment = std::getenv("FFNORM_TEST_TARGET");
  std::string name = environment == nullptr ? "" : environment;
  const char kOption[] = "--target=";
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], kOption, sizeof(kOption) - 1) == 0) {
      name = argv[i] + sizeof(kOption) - 1;
    }
  }
  return name;
}

}  // namespace

const std::vector<const ffnorm_target*>& TargetsUnderTest() {
  return targets_under_test;
}

size_t& TargetRuns() {
  static size_t runs = 0;
  return runs;
}

}  // namespace test
}  // namespace ffnorm

int main(int argc, char** argv) {
  using namespace ffnorm::test;
  std::vector<const ffnorm_target*> all(ffnorm_targets(nullptr, 0));
  all.resize(ffnorm_targets(all.data(), all.size()));

  const std::string only = Restriction(argc, argv);
  std::printf("targets:");
  for (const ffnorm_target* target : all) {
    if (!only.empty() && only != TargetName(target)) continue;
    targets_under_test.push_back(target);
    std::printf(" %s", TargetName(target).c_str());
  }
  std::printf("\n");
  if (targets_under_test.empty()) {
    std::printf("no target to test: %s\n",
                only.empty() ? "the list is empty" : only.c_str());
    return EXIT_FAILURE;
  }

  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit()) return result;
  std::printf("ran %u test cases, %zu target runs\n", test_cases_run,
              TargetRuns());
  if (test_cases_run == 0 || assertions_run == 0) {
    std::printf("nothing was tested\n");
    return EXIT_FAILURE;
  }
  return result;
}
