/* Proves that a build that made ffnorm itself gives the same bits. */
#include "../compare.h"

int main(void) { return CompareWithReference(); }
