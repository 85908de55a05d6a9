/* One table of hashes of results, which every build on every machine has to
 * reproduce.
 *
 *     result_hashes write TABLE
 *         Makes the table, by the scalar reference.
 *     result_hashes reference TABLE
 *         Compares the scalar reference of this build with the table.
 *     result_hashes check TABLE [--target NAME] [--pack FILE] [--run FILE]
 *         Compares every target of this build and CPU with the table, or only
 *         the one that is named, here or by the environment variable
 *         FFNORM_TEST_TARGET. --pack also writes all packed blocks to a file,
 *         --run takes them from one, which another machine may have written.
 *
 * The last line is "N ok, N wrong"; the exit status is 0 if all were ok.
 *
 * On a big-endian machine packed blocks are not supported: that it says so is
 * checked, and the stages that need no packed block.
 *
 * C99 and nothing but the C library, so that it runs wherever the archive does.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffnorm/ffnorm.h"
#include "tests/result_hash/cases.h"
#include "tests/result_hash/table.h"

enum { kTasks = 3, kMaxTargets = 32, kMaxReports = 10 };

/* Who has to reproduce the table: a target, or the reference in one class. */
typedef struct Subject {
  const char* name;
  Run run;
  size_t ok;
  size_t wrong;
  size_t not_run;
} Subject;

typedef struct Check {
  Table table;
  FILE* from; /* packed blocks, or NULL */
  FILE* to;   /* the same */
  Subject packing;
  Subject subjects[kMaxTargets];
  size_t num_subjects;
} Check;

static int IsBigEndian(void) {
  const uint16_t one = 1;
  unsigned char first;
  memcpy(&first, &one, 1);
  return first == 0;
}

/* ---- One case ------------------------------------------------------------ */

static void Wrong(Subject* subject, const char* name, const char* why) {
  if (subject->wrong++ < kMaxReports) {
    printf("WRONG: %s: %s: %s\n", subject->name, name, why);
  }
}

/* Where model->y first differs from this build's reference. */
static void ShowDifference(const Model* model, const Case* which,
                           ffnorm_class rounding) {
  const Run reference = {rounding, NULL, NULL, 1};
  const size_t columns = CaseColumns(model, which->stage);
  const size_t count = which->rows * columns;
  float* got = (float*)malloc(count * sizeof(float));
  size_t i;
  if (got == NULL) return;
  memcpy(got, model->y, count * sizeof(float));
  if (RunCase(model, which, &reference) == FFNORM_OK) {
    for (i = 0; i < count; ++i) {
      if (HashFloats(&got[i], 1) != HashFloats(&model->y[i], 1)) break;
    }
    if (i == count) {
      printf("  as the reference of this build has it\n");
    } else {
      printf("  row %lu, column %lu: got %08" PRIx32 ", want %08" PRIx32 "\n",
             (unsigned long)(i / columns), (unsigned long)(i % columns),
             BitsOfFloat(got[i]), BitsOfFloat(model->y[i]));
    }
  }
  free(got);
}

/* The case in so many tasks. */
static int CheckRun(const Model* model, const Case* which, size_t tasks,
                    const Line* line, Subject* subject) {
  const size_t values = which->rows * CaseColumns(model, which->stage);
  Run run = subject->run;
  ffnorm_status status;
  run.tasks = tasks;
  status = RunCase(model, which, &run);
  if (status != FFNORM_OK) {
    Wrong(subject, line->name, ffnorm_status_string(status));
    return 0;
  }
  if (HashFloats(model->y, values) == line->hash[run.rounding]) return 1;
  Wrong(subject, line->name, tasks == 1 ? "one task" : "several tasks");
  if (subject->wrong <= kMaxReports) ShowDifference(model, which, run.rounding);
  return 0;
}

static void CheckCase(const Model* model, const Case* which, const Line* line,
                      Subject* subject) {
  const int cut = subject->run.block != NULL && NeedsPacked(which->stage);
  if (subject->run.target != NULL && subject->run.block == NULL &&
      NeedsPacked(which->stage)) {
    ++subject->not_run;
  } else if (CheckRun(model, which, 1, line, subject) &&
             (!cut || CheckRun(model, which, kTasks, line, subject))) {
    ++subject->ok;
  }
}

/* ---- Packed blocks ------------------------------------------------------- */

/* Packs the model into model->packed, or reads that from a file; compares it,
 * and writes it to a file. */
static void CheckPacked(const Model* model, const Line* line, Check* check) {
  const size_t bytes = model->packed_bytes;
  Subject* subject = &check->packing;
  ffnorm_status status = FFNORM_OK;
  memset(model->packed, 0xff, bytes);
  if (check->from == NULL) {
    status = ffnorm_pack(&model->params, model->packed, bytes);
  } else if (fread(model->packed, 1, bytes, check->from) != bytes) {
    Wrong(subject, line->name, "the file is too short");
    return;
  }
  if (status == FFNORM_OK) status = ffnorm_verify(model->packed, bytes);
  if (IsBigEndian()) {
    if (status == FFNORM_UNSUPPORTED) {
      ++subject->ok;
    } else {
      Wrong(subject, line->name, "a big-endian machine should refuse it");
    }
  } else if (status != FFNORM_OK) {
    Wrong(subject, line->name, ffnorm_status_string(status));
  } else if (HashBytes((const unsigned char*)model->packed, bytes) !=
             line->hash[FFNORM_FUSED]) {
    Wrong(subject, line->name, "other bytes");
  } else if (check->to != NULL &&
             fwrite(model->packed, 1, bytes, check->to) != bytes) {
    Wrong(subject, line->name, "cannot write it");
  } else {
    ++subject->ok;
  }
}

static void OpenBlock(const Model* model, const char* name, ffnorm_block* block,
                      Subject* subject) {
  const ffnorm_status status = ffnorm_open(model->packed, model->packed_bytes,
                                           subject->run.target, block);
  subject->run.block = status == FFNORM_OK ? block : NULL;
  if (status != (IsBigEndian() ? FFNORM_UNSUPPORTED : FFNORM_OK)) {
    Wrong(subject, name, ffnorm_status_string(status));
  }
}

/* ---- Commands ------------------------------------------------------------ */

static void AddSubject(const char* name, ffnorm_class rounding,
                       const ffnorm_target* target, Check* check) {
  Subject* subject = &check->subjects[check->num_subjects++];
  subject->name = name;
  subject->run.rounding = rounding;
  subject->run.target = target;
}

static int AddTargets(const char* only, Check* check) {
  const ffnorm_target* targets[kMaxTargets];
  const size_t count = ffnorm_targets(targets, kMaxTargets);
  size_t i;
  for (i = 0; i < count && i < kMaxTargets; ++i) {
    const char* name = ffnorm_target_name(targets[i]);
    if (only != NULL && strcmp(only, name) != 0) continue;
    AddSubject(name, ffnorm_target_class(targets[i]), targets[i], check);
  }
  if (check->num_subjects == 0) {
    printf("no target to check: %s\n", only == NULL ? "there is none" : only);
  }
  return check->num_subjects != 0;
}

/* All cases of a model, whose first line is `first`. */
static int CheckModel(const Model* model, size_t first, Check* check) {
  ffnorm_block block;
  char name[kNameSize];
  size_t i, s;
  for (i = 0; i < model->num_cases; ++i) {
    const Line* line;
    CaseName(model, &model->cases[i], name, sizeof(name));
    line = LineOf(&check->table, first + i, name);
    if (line == NULL) return 0;
    if (model->cases[i].stage == kPack) CheckPacked(model, line, check);
  }
  for (s = 0; s < check->num_subjects; ++s) {
    Subject* subject = &check->subjects[s];
    if (subject->run.target != NULL) OpenBlock(model, name, &block, subject);
    for (i = 0; i < model->num_cases; ++i) {
      if (model->cases[i].stage == kPack) continue;
      CheckCase(model, &model->cases[i], &check->table.lines[first + i],
                subject);
    }
  }
  return 1;
}

static int Summarize(const Check* check) {
  size_t ok = check->packing.ok;
  size_t wrong = check->packing.wrong;
  size_t not_run = 0;
  size_t s;
  printf("packed blocks: %lu ok, %lu wrong\n", (unsigned long)ok,
         (unsigned long)wrong);
  for (s = 0; s < check->num_subjects; ++s) {
    const Subject* subject = &check->subjects[s];
    printf("%s", subject->name);
    if (subject->run.target != NULL) {
      printf(" with vectors of %lu bytes",
             (unsigned long)ffnorm_target_vector_bytes(subject->run.target));
    }
    printf(": %lu ok, %lu wrong", (unsigned long)subject->ok,
           (unsigned long)subject->wrong);
    if (subject->not_run != 0) {
      printf(", %lu not run: no packed block", (unsigned long)subject->not_run);
    }
    printf("\n");
    ok += subject->ok;
    wrong += subject->wrong;
    not_run += subject->not_run;
  }
  printf("%lu ok, %lu wrong\n", (unsigned long)ok, (unsigned long)wrong);
  return ok != 0 && wrong == 0 && (not_run == 0 || IsBigEndian());
}

static int CheckAll(Check* check) {
  Model model;
  size_t m, lines = 0;
  check->packing.name = "packing";
  for (m = 0; m < NumModels(); ++m) {
    int done = MakeModel(m, &model);
    if (!done) printf("cannot make model %lu\n", (unsigned long)m);
    done = done && CheckModel(&model, lines, check);
    lines += model.num_cases;
    FreeModel(&model);
    if (!done) return 0;
  }
  if (lines != check->table.size) {
    printf("the table has lines for no case\n");
    return 0;
  }
  return Summarize(check);
}

static int AddLine(const Model* model, const Case* which, Table* table) {
  Line* line = &table->lines[table->size];
  int rounding;
  if (table->size++ == kMaxLines) return 0;
  CaseName(model, which, line->name, sizeof(line->name));
  for (rounding = 0; rounding < 2; ++rounding) {
    const Run run = {(ffnorm_class)rounding, NULL, NULL, 1};
    if (which->stage == kPack) {
      if (ffnorm_pack(&model->params, model->packed, model->packed_bytes) !=
          FFNORM_OK) {
        return 0;
      }
      line->hash[rounding] =
          HashBytes((const unsigned char*)model->packed, model->packed_bytes);
      continue;
    }
    if (RunCase(model, which, &run) != FFNORM_OK) return 0;
    line->hash[rounding] =
        HashFloats(model->y, which->rows * CaseColumns(model, which->stage));
  }
  return 1;
}

static int Write(const char* path, Table* table) {
  Model model;
  size_t m, i;
  for (m = 0; m < NumModels(); ++m) {
    int done = MakeModel(m, &model);
    for (i = 0; done && i < model.num_cases; ++i) {
      done = AddLine(&model, &model.cases[i], table);
    }
    FreeModel(&model);
    if (!done) {
      printf("cannot compute model %lu\n", (unsigned long)m);
      return 0;
    }
  }
  printf("%lu lines\n", (unsigned long)table->size);
  return WriteTable(path, table);
}

static int Usage(void) {
  printf(
      "usage: result_hashes write TABLE\n"
      "       result_hashes reference TABLE\n"
      "       result_hashes check TABLE [--target NAME] [--pack FILE] "
      "[--run FILE]\n");
  return 0;
}

static int Opened(const char* path, const char* mode, FILE** file) {
  *file = fopen(path, mode);
  if (*file == NULL) perror(path);
  return *file != NULL;
}

static int CheckCommand(int argc, char** argv, Check* check) {
  const char* only = getenv("FFNORM_TEST_TARGET");
  int i, ok;
  for (i = 3; i < argc; i += 2) {
    if (i + 1 == argc) return Usage();
    if (strcmp(argv[i], "--target") == 0) {
      only = argv[i + 1];
    } else if (strcmp(argv[i], "--pack") == 0) {
      if (!Opened(argv[i + 1], "wb", &check->to)) return 0;
    } else if (strcmp(argv[i], "--run") == 0) {
      if (!Opened(argv[i + 1], "rb", &check->from)) return 0;
    } else {
      return Usage();
    }
  }
  ok = AddTargets(only, check) && CheckAll(check);
  if (check->from != NULL) fclose(check->from);
  if (check->to != NULL && fclose(check->to) != 0) ok = 0;
  return ok;
}

static int Command(int argc, char** argv) {
  static Check check;
  if (argc < 3) return Usage();
  if (strcmp(argv[1], "write") == 0) return Write(argv[2], &check.table);
  if (!ReadTable(argv[2], &check.table)) return 0;
  if (strcmp(argv[1], "reference") == 0) {
    AddSubject("fused reference", FFNORM_FUSED, NULL, &check);
    AddSubject("unfused reference", FFNORM_UNFUSED, NULL, &check);
    return CheckAll(&check);
  }
  if (strcmp(argv[1], "check") == 0) return CheckCommand(argc, argv, &check);
  return Usage();
}

int main(int argc, char** argv) {
  return Command(argc, argv) ? EXIT_SUCCESS : EXIT_FAILURE;
}
