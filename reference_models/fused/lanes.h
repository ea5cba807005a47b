/* Vectors as wide as the processor's, and one compiled copy of a loop for each width of a row. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t lane_places __attribute__((vector_size(4 * LANES)));

#define OF_WIDTH(call) \
    if (d == 16) { call(16); } else if (d == 32) { call(32); } else if (d == 64) { call(64); } else { call(128); }
