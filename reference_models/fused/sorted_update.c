/* The sparse update of merged tables on a CPU: a stable sort of the lookups' rows, and one pass over them.
 *
 * reference_models/fused/cpu_kernels.py compiles it and says what the arguments are.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Sort rows [n] stably into `ordered`, and the places that they had into `order`; `scratch` is [2 n]. */
void sort_rows(const int32_t *rows, int64_t n, int32_t num_rows, int32_t *ordered, int32_t *order, int32_t *scratch)
{
    int bits = 1;
    while (bits < 31 && (num_rows - 1) >> bits) bits++;
    const int passes = (bits + 10) / 11, width = (bits + passes - 1) / passes;
    const int32_t mask = (1 << width) - 1;
    int32_t counts[3][2048];
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i < n; i++)
        for (int pass = 0; pass < passes; pass++) counts[pass][rows[i] >> (pass * width) & mask]++;
    const int32_t *from = rows, *places = NULL;
    for (int pass = 0; pass < passes; pass++) {
        int32_t total = 0, *count = counts[pass];
        for (int digit = 0; digit <= mask; digit++) {
            const int32_t here = count[digit];
            count[digit] = total;
            total += here;
        }
        const int is_last = (passes - pass) & 1;  /* the last pass writes where it is wanted */
        int32_t *to = is_last ? ordered : scratch, *to_place = is_last ? order : scratch + n;
        for (int64_t i = 0; i < n; i++) {
            const int32_t at = count[from[i] >> (pass * width) & mask]++;
            to[at] = from[i];
            to_place[at] = places ? places[i] : (int32_t)i;
        }
        from = to;
        places = to_place;
    }
}

typedef float lanes __attribute__((vector_size(64), aligned(4), may_alias));

/* Add up the gradients of each row that starts in [start, stop) and update it, reading and writing it once. */
static inline __attribute__((always_inline)) void walk(
    const int32_t *ordered, const int32_t *order, const int32_t *bags, const float *gradients, float *weight,
    float *state, int64_t sums, int64_t n, int64_t start, int64_t stop, const int blocks, float rate, float eps)
{
    const int64_t d = 16 * blocks;
    while (start > 0 && start < n && ordered[start] == ordered[start - 1]) start++;
    for (int64_t i = start; i < stop;) {
        const int32_t row = ordered[i];
        lanes sum[8];
        if (i + 16 < n)
            for (int b = 0; b < blocks; b++) __builtin_prefetch(weight + ordered[i + 16] * d + 16 * b, 1);
        const lanes *g = (const lanes *)(gradients + bags[order[i]] * d);
        for (int b = 0; b < blocks; b++) sum[b] = g[b];
        for (i++; i < n && ordered[i] == row; i++) {
            g = (const lanes *)(gradients + bags[order[i]] * d);
            for (int b = 0; b < blocks; b++) sum[b] += g[b];
        }
        lanes *w = (lanes *)(weight + row * d), *s = (lanes *)(state + row * d);
        if (sums == 1) {
            lanes squares = sum[0] * sum[0];
            for (int b = 1; b < blocks; b++) squares += sum[b] * sum[b];
            float total = 0;
            for (int k = 0; k < 16; k++) total += squares[k];
            total = state[row] + total / (float)d;
            state[row] = total;
            const float scale = rate / (sqrtf(total) + eps);
            for (int b = 0; b < blocks; b++) w[b] -= scale * sum[b];
        } else if (sums) {
            for (int b = 0; b < blocks; b++) {
                const lanes squares = s[b] + sum[b] * sum[b];
                s[b] = squares;
                lanes root;
                for (int k = 0; k < 16; k++) root[k] = sqrtf(squares[k]);
                w[b] -= rate * sum[b] / (root + eps);
            }
        } else {
            for (int b = 0; b < blocks; b++) w[b] -= rate * sum[b];
        }
    }
}

/* The step of SGD (`sums` 0), row-wise Adagrad (1) or Adagrad (2), as MergedEmbedding.update describes it. */
void update_rows(
    const int32_t *ordered, const int32_t *order, const int32_t *bags, const float *gradients, float *weight,
    float *state, int64_t sums, int64_t n, int64_t d, float rate, float eps, int64_t num_threads)
{
#pragma omp parallel for num_threads(num_threads) schedule(static, 1)
    for (int64_t t = 0; t < num_threads; t++) {
        const int64_t start = n * t / num_threads, stop = n * (t + 1) / num_threads;
#define WALK(blocks) walk(ordered, order, bags, gradients, weight, state, sums, n, start, stop, blocks, rate, eps)
        if (d == 16) WALK(1);
        else if (d == 32) WALK(2);
        else if (d == 64) WALK(4);
        else if (d == 128) WALK(8);
    }
}
