/* Proves that the archive may become part of a shared object, which exports
 * nothing of it. */
#include "../compare.h"

__attribute__((visibility("default"))) int plugin_compare(void);

int plugin_compare(void) { return CompareWithReference(); }
