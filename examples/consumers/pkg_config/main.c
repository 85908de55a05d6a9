/* Proves that a C99 program needs one line of pkg-config, also with -static. */
#include "../compare.h"

int main(void) { return CompareWithReference(); }
