/* Proves that ffnorm::ffnorm carries the include path and the archive. */
#include "../compare.h"

int main(void) { return CompareWithReference(); }
