/* Merged tables on a CPU: bags are read, lookups sorted by their row, and each row is updated, in one pass.
 *
 * reference_models/fused/cpu_kernels.py compiles it and says what the arguments are. Ids [n, hot] are a batch's, of n
 * samples; a row of the merged weight is an id plus its table's shift.
 */
#include "lanes.h"

/* On an Intel Xeon (family 6 model 207) AHEAD 8 takes 0.5 % longer for a step of 26 lookups at width 16, 48 no less;
 * MOST 4096 takes 0.7 % longer, 65536 no less. */
#define AHEAD 24     /* lookups between asking for a row and using it; best of 4 to 32 (AMD EPYC, family 25 model 1) */
#define MOST 16384   /* rows of a table that are counted one by one: as many counts as a core's cache holds */

typedef struct { int32_t row, bag; } lookup;

/* Sort by row, stably, into to[0] the lookups ids [n * hot] of one table: `hot` of each sample's bag number `bag`. */
static void sort_table(
    const int32_t *ids, int64_t n, int64_t hot, int64_t num_rows, int32_t shift, int32_t bag, int64_t num_bags,
    lookup *to[2])
{
    int32_t counts[MOST];
    int bits = 1;
    while ((num_rows - 1) >> bits) bits++;
    const int passes = num_rows <= MOST && num_rows <= 4 * n * hot ? 1 : (bits + 10) / 11;
    const int width = (bits + passes - 1) / passes;
    const int32_t mask = (1 << width) - 1;
    for (int pass = 0; pass < passes; pass++) {
        const int into = (passes - 1 - pass) & 1, from = 1 - into, low = pass * width;
        memset(counts, 0, sizeof(int32_t) << width);
        if (pass == 0)
            for (int64_t i = 0; i < n * hot; i++) counts[ids[i] & mask]++;
        else
            for (int64_t i = 0; i < n * hot; i++) counts[(to[from][i].row - shift) >> low & mask]++;
        int32_t total = 0;
        for (int32_t digit = 0; digit <= mask; digit++) {
            const int32_t here = counts[digit];
            counts[digit] = total;
            total += here;
        }
        if (pass == 0)
            for (int64_t s = 0; s < n; s++)
                for (int64_t i = s * hot; i < (s + 1) * hot; i++)
                    to[into][counts[ids[i] & mask]++] = (lookup){ids[i] + shift, (int32_t)(s * num_bags) + bag};
        else
            for (int64_t i = 0; i < n * hot; i++) {
                const lookup one = to[from][i];
                to[into][counts[(one.row - shift) >> low & mask]++] = one;
            }
    }
}

/* Sort all lookups by row into `ordered`; `scratch` is as large, and `by_table` [n * hot]. Table t has num_rows[t]
 * rows, from shifts[t] on, and the lookups starts[t + 1] to starts[t + 2] - 1 of each sample, which are bag t + 1. */
void sort_rows(
    const int64_t *ids, const int32_t *starts, const int64_t *shifts, const int64_t *num_rows, lookup *ordered,
    lookup *scratch, int32_t *by_table, int64_t n, int64_t num_tables, int64_t num_threads)
{
    const int64_t hot = starts[num_tables + 1];
#pragma omp parallel for num_threads(num_threads) schedule(static)
    for (int64_t s = 0; s < n; s++)
        for (int64_t t = 0; t < num_tables; t++) {
            const int64_t first = starts[t + 1], size = starts[t + 2] - first;
            for (int64_t c = 0; c < size; c++) by_table[n * first + s * size + c] = (int32_t)ids[s * hot + first + c];
        }
#pragma omp parallel for num_threads(num_threads) schedule(dynamic, 1)
    for (int64_t t = 0; t < num_tables; t++) {
        const int64_t first = starts[t + 1], size = starts[t + 2] - first, at = n * first;
        lookup *to[2] = {ordered + at, scratch + at};
        sort_table(by_table + at, n, size, num_rows[t], (int32_t)shifts[t], (int32_t)t + 1, num_tables + 1, to);
    }
}

static inline __attribute__((always_inline)) void fetch(const float *row, const int64_t d, const int writes)
{
    for (int64_t k = 0; k < d; k += 16)
        if (writes) __builtin_prefetch(row + k, 1);
        else __builtin_prefetch(row + k, 0);
}

/* Add up the gradients of each row that starts in [start, stop) and update it, reading and writing it once. */
static inline __attribute__((always_inline)) void walk(
    const lookup *ordered, const float *gradients, float *weight, float *state, int64_t sums,
    int64_t n, int64_t start, int64_t stop, const int64_t d, float rate, float eps)
{
    const int blocks = d / LANES;
    while (start > 0 && start < n && ordered[start].row == ordered[start - 1].row) start++;
    for (int64_t i = start; i < stop;) {
        const int32_t row = ordered[i].row;
        lanes sum[128 / LANES] = {{0}};
        for (; i < n && ordered[i].row == row; i++) {
            if (i + AHEAD < n) {
                const int32_t next = ordered[i + AHEAD].row;
                fetch(gradients + ordered[i + AHEAD].bag * d, d, 0);
                if (next != ordered[i + AHEAD - 1].row) {
                    fetch(weight + next * d, d, 1);
                    if (sums == 1) __builtin_prefetch(state + next, 1);
                    else if (sums) fetch(state + next * d, d, 1);
                }
            }
            const lanes *g = (const lanes *)(gradients + ordered[i].bag * d);
            for (int b = 0; b < blocks; b++) sum[b] += g[b];
        }
        lanes *w = (lanes *)(weight + row * d), *s = (lanes *)(state + row * d);
        if (sums == 1) {
            lanes squares = sum[0] * sum[0];
            for (int b = 1; b < blocks; b++) squares += sum[b] * sum[b];
            float total = 0;
            for (int k = 0; k < LANES; k++) total += squares[k];
            total = state[row] + total / (float)d;
            state[row] = total;
            const float scale = rate / (sqrtf(total) + eps);
            for (int b = 0; b < blocks; b++) w[b] -= scale * sum[b];
        } else if (sums) {
            for (int b = 0; b < blocks; b++) {
                const lanes squares = s[b] + sum[b] * sum[b];
                s[b] = squares;
                lanes root;
                for (int k = 0; k < LANES; k++) root[k] = sqrtf(squares[k]);
                w[b] -= rate * sum[b] / (root + eps);
            }
        } else {
            for (int b = 0; b < blocks; b++) w[b] -= rate * sum[b];
        }
    }
}

/* The step of SGD (`sums` 0), row-wise Adagrad (1) or Adagrad (2), as MergedEmbedding.update describes it. */
void update_rows(
    const lookup *ordered, const float *gradients, float *weight, float *state, int64_t sums,
    int64_t n, int64_t d, float rate, float eps, int64_t num_threads)
{
#pragma omp parallel for num_threads(num_threads) schedule(static, 1)
    for (int64_t t = 0; t < num_threads; t++) {
        const int64_t start = n * t / num_threads, stop = n * (t + 1) / num_threads;
#define WALK(w) walk(ordered, gradients, weight, state, sums, n, start, stop, w, rate, eps)
        OF_WIDTH(WALK)
    }
}

static inline __attribute__((always_inline)) void add_rows(
    const int64_t *ids, const int64_t *shifts, const int32_t *starts, const float *weight, float *out, int64_t n,
    int64_t begin, int64_t end, int64_t num_bags, const int64_t d)
{
    const int blocks = d / LANES;
    const int64_t hot = starts[num_bags];
    int64_t ahead = AHEAD % hot;
    for (int64_t s = begin; s < end; s++)
        for (int64_t bag = 0; bag < num_bags; bag++) {
            lanes sum[128 / LANES] = {{0}};
            for (int64_t c = starts[bag]; c < starts[bag + 1]; c++) {
                const int64_t i = s * hot + c;
                if (i + AHEAD < n * hot) fetch(weight + (ids[i + AHEAD] + shifts[ahead]) * d, d, 0);
                if (++ahead == hot) ahead = 0;
                const lanes *w = (const lanes *)(weight + (ids[i] + shifts[c]) * d);
                for (int b = 0; b < blocks; b++) sum[b] += w[b];
            }
            lanes *into = (lanes *)(out + (s * num_bags + bag) * d);
            for (int b = 0; b < blocks; b++) into[b] = sum[b];
        }
}

/* Sums of bags [n, bags, d] of rows of `weight`: bag f is of the lookups starts[f] to starts[f + 1] - 1 of each sample.
 * `shifts` and `limits` [hot] are each lookup's. Returns the place of an id beyond its limit, and then reads no row;
 * else -1. */
int64_t read_bags(
    const int64_t *ids, const int64_t *shifts, const int64_t *limits, const int32_t *starts, const float *weight,
    float *out, int64_t n, int64_t num_bags, int64_t d, int64_t num_threads)
{
    const int64_t hot = starts[num_bags];
    for (int64_t s = 0; s < n; s++) {
        int is_bad = 0;
        for (int64_t c = 0; c < hot; c++) is_bad |= ids[s * hot + c] < 0 || ids[s * hot + c] >= limits[c];
        for (int64_t c = 0; is_bad && c < hot; c++)
            if (ids[s * hot + c] < 0 || ids[s * hot + c] >= limits[c]) return s * hot + c;
    }
#pragma omp parallel for num_threads(num_threads) schedule(static, 1)
    for (int64_t t = 0; t < num_threads; t++) {
        const int64_t begin = n * t / num_threads, end = n * (t + 1) / num_threads;
#define ADD(w) add_rows(ids, shifts, starts, weight, out, n, begin, end, num_bags, w)
        OF_WIDTH(ADD)
    }
    return -1;
}
