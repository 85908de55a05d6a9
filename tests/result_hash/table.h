/* The hashes, and the table of them: a text file with a line for each case,
 *
 *     NAME HASH_OF_THE_FUSED_CLASS HASH_OF_THE_UNFUSED_CLASS
 *
 * in the order of models and their cases. */
#ifndef FFNORM_TESTS_RESULT_HASH_TABLE_H_
#define FFNORM_TESTS_RESULT_HASH_TABLE_H_

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { kMaxLines = 1024, kNameSize = 64 };

typedef struct Line {
  char name[kNameSize];
  uint64_t hash[2]; /* by ffnorm_class */
} Line;

typedef struct Table {
  size_t size;
  Line lines[kMaxLines];
} Table;

/* Of the bits, with NaN as one class. */
uint64_t HashFloats(const float* values, size_t count);

uint64_t HashBytes(const unsigned char* bytes, size_t count);

/* 0, and prints why, if the file is not such a table. */
int ReadTable(const char* path, Table* table);

int WriteTable(const char* path, const Table* table);

/* The line of the case with this name; NULL, and prints so, if the table has
 * another one there. */
const Line* LineOf(const Table* table, size_t index, const char* name);

#endif /* FFNORM_TESTS_RESULT_HASH_TABLE_H_ */
