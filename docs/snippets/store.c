/* Packed weights in a file: written once, mapped by any number of processes. */
#define _POSIX_C_SOURCE 200112L
#include <fcntl.h>
#include <ffnorm/ffnorm.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "demo.h"

/* [write] */
static int WriteBlock(const char* path, const void* packed, size_t bytes) {
  FILE* file = fopen(path, "wb");
  if (file == NULL) return 0;
  const int whole = fwrite(packed, 1, bytes, file) == bytes;
  return fclose(file) == 0 && whole;
}
/* [end] */

/* [map] */
/* A mapping starts at a page, so it is aligned. */
static const void* Map(const char* path, size_t* bytes) {
  const int file = open(path, O_RDONLY);
  struct stat info;
  void* memory = MAP_FAILED;
  if (file >= 0 && fstat(file, &info) == 0 && info.st_size > 0) {
    *bytes = (size_t)info.st_size;
    memory = mmap(NULL, *bytes, PROT_READ, MAP_SHARED, file, 0);
  }
  if (file >= 0) close(file);
  return memory == MAP_FAILED ? NULL : memory;
}

/* verify reads the whole block once; open alone takes constant time. */
static ffnorm_status OpenMapped(const void* memory, size_t bytes,
                                size_t d_model, size_t d_ff,
                                ffnorm_block* block) {
  ffnorm_status status = ffnorm_verify(memory, bytes);
  if (status == FFNORM_OK) status = ffnorm_open(memory, bytes, NULL, block);
  if (status != FFNORM_OK) return status;
  const int expected = block->d_model == d_model && block->d_ff == d_ff;
  return expected ? FFNORM_OK : FFNORM_INVALID_ARGUMENT;
}
/* [end] */

int main(int argc, char** argv) {
  static Demo demo;
  const char* path = argc == 2 ? argv[1] : "layer0.ffnorm";
  DemoInit(&demo);
  ffnorm_params params = ffnorm_default_params(kModel, kHidden);
  params.w1 = demo.w1, params.b1 = demo.b1;
  params.w2 = demo.w2, params.b2 = demo.b2;
  size_t bytes;
  void* packed;
  DemoCheck(ffnorm_packed_bytes(&params, &bytes), "packed_bytes");
  if (posix_memalign(&packed, FFNORM_ALIGNMENT, bytes)) return EXIT_FAILURE;
  DemoCheck(ffnorm_pack(&params, packed, bytes), "pack");
  if (!WriteBlock(path, packed, bytes)) return EXIT_FAILURE;
  free(packed);

  ffnorm_block block;
  size_t mapped_bytes;
  const void* mapped = Map(path, &mapped_bytes);
  if (mapped == NULL || mapped_bytes != bytes) return EXIT_FAILURE;
  DemoCheck(OpenMapped(mapped, bytes, kModel, kHidden, &block), "open");
  /* What must be refused: a file cut short, and a model of another size. */
  if (OpenMapped(mapped, bytes - 1, kModel, kHidden, &block) !=
          FFNORM_CORRUPT ||
      OpenMapped(mapped, bytes, kModel, kHidden + 1, &block) !=
          FFNORM_INVALID_ARGUMENT) {
    fprintf(stderr, "a wrong block was opened\n");
    return EXIT_FAILURE;
  }

  ffnorm_exec exec = {0};
  DemoCheck(ffnorm_workspace_bytes(&block, kRows, 1, &exec.workspace_bytes),
            "workspace_bytes");
  if (posix_memalign(&exec.workspace, FFNORM_ALIGNMENT, exec.workspace_bytes)) {
    return EXIT_FAILURE;
  }
  DemoCheck(ffnorm_forward(&block, FFNORM_PRE_LN, kRows, demo.x, kModel, demo.y,
                           kModel, &exec),
            "forward");
  DemoCompare(&demo, &params, FFNORM_PRE_LN, block.target);
  printf("%zu bytes, mapped: the reference's bits\n", bytes);
  free(exec.workspace);
  return EXIT_SUCCESS;
}
