#include "tests/result_hash/table.h"

#include <inttypes.h>
#include <string.h>

#include "ffnorm/ffnorm.h"
#include "tests/result_hash/values.h"

static uint64_t Mix(uint64_t hash, uint32_t word) {
  hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ hash >> 32;
}

uint64_t HashFloats(const float* values, size_t count) {
  uint64_t hash = count;
  size_t i;
  for (i = 0; i < count; ++i) {
    const uint32_t bits = BitsOfFloat(values[i]);
    const int is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    hash = Mix(hash, is_nan ? 0x7fc00000u : bits);
  }
  return hash;
}

uint64_t HashBytes(const unsigned char* bytes, size_t count) {
  uint64_t hash = count;
  size_t i;
  for (i = 0; i < count; ++i) hash = Mix(hash, bytes[i]);
  return hash;
}

int ReadTable(const char* path, Table* table) {
  FILE* file = fopen(path, "r");
  char text[256];
  int ok = 1;
  if (file == NULL) {
    perror(path);
    return 0;
  }
  table->size = 0;
  while (ok && fgets(text, sizeof(text), file) != NULL) {
    Line* line = &table->lines[table->size];
    ok = table->size < kMaxLines &&
         sscanf(text, "%63s %" SCNx64 " %" SCNx64, line->name,
                &line->hash[FFNORM_FUSED], &line->hash[FFNORM_UNFUSED]) == 3;
    if (ok) {
      ++table->size;
    } else {
      printf("%s: no line for a case: %s", path, text);
    }
  }
  fclose(file);
  return ok;
}

int WriteTable(const char* path, const Table* table) {
  FILE* file = fopen(path, "w");
  size_t i;
  int ok;
  if (file == NULL) {
    perror(path);
    return 0;
  }
  for (i = 0; i < table->size; ++i) {
    const Line* line = &table->lines[i];
    fprintf(file, "%s %016" PRIx64 " %016" PRIx64 "\n", line->name,
            line->hash[FFNORM_FUSED], line->hash[FFNORM_UNFUSED]);
  }
  ok = !ferror(file);
  return fclose(file) == 0 && ok;
}

const Line* LineOf(const Table* table, size_t index, const char* name) {
  if (index < table->size && strcmp(table->lines[index].name, name) == 0) {
    return &table->lines[index];
  }
  printf("the table has no line for %s where it belongs\n", name);
  return NULL;
}
