/* Proves that the shared object runs when it is loaded late, twice, by a
 * program that knows nothing of ffnorm. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int Run(const char* path) {
  void* plugin = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (plugin == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  int (*compare)(void) = NULL;
  void* symbol = dlsym(plugin, "plugin_compare");
  memcpy(&compare, &symbol, sizeof(compare));
  const int result = compare == NULL ? 1 : compare();
  /* RTLD_GLOBAL, and yet the program cannot see the library inside. */
  const int seen = dlsym(RTLD_DEFAULT, "ffnorm_forward") != NULL;
  if (seen) fprintf(stderr, "ffnorm_forward is visible from outside\n");
  return dlclose(plugin) != 0 || seen ? 1 : result;
}

int main(int argc, char** argv) {
  return argc == 2 && Run(argv[1]) == 0 && Run(argv[1]) == 0 ? 0 : 1;
}
