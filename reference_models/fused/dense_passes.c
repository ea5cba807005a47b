/* What a training step does around its matrix products on a CPU, each in one pass over memory.
 *
 * reference_models/fused/cpu_kernels.py compiles it and says what the arguments are. All arrays are float32 by rows
 * without gaps. Threads divide samples: halves of one row would be fetched and written by both. Sums over samples are
 * the same for any number of threads: blocks of ROWS samples are added up each, then the blocks in their order.
 */
#include "lanes.h"

#define MAX_FEATURES 64
#define MAX_WIDTH 128
#ifndef ROWS
#error "ROWS, the samples of a block, is cpu_kernels.py's: it makes room for a sum of each"
#endif
#define COLUMNS 1024      /* columns whose sums are made at a time, on the stack */
/* Numbers that are worth more than one thread: of so many two add a bias in 0.9 of the time of one, of 65536 in 0.77
 * (Intel Xeon, family 6 model 207). */
#define LEAST_WORK 32768

static int64_t worth(int64_t work, int64_t num_threads)
{
    return work < LEAST_WORK ? 1 : num_threads;
}

/* The first column of part t of [0, n), a multiple of 16. */
static int64_t edge(int64_t n, int64_t t, int64_t parts)
{
    return t == parts ? n : n * t / parts / 16 * 16;
}

/* y [n, m] += bias [m], then perhaps max(y, 0). */
void add_bias(float *y, const float *bias, int64_t has_relu, int64_t n, int64_t m, int64_t num_threads)
{
#pragma omp parallel for num_threads(worth(n * m, num_threads)) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        float *row = y + i * m;
        if (has_relu)
            for (int64_t j = 0; j < m; j++) row[j] = row[j] + bias[j] < 0 ? 0 : row[j] + bias[j];
        else
            for (int64_t j = 0; j < m; j++) row[j] += bias[j];
    }
}

static int64_t count_blocks(int64_t n)
{
    return (n + ROWS - 1) / ROWS;
}

/* Row 0 of sums [1 + blocks, m] = the sum of its other rows, added in their order. */
static void add_blocks(float *sums, int64_t blocks, int64_t m)
{
    memset(sums, 0, m * sizeof(float));
    for (int64_t b = 0; b < blocks; b++) {
        const float *row = sums + (1 + b) * m;
        for (int64_t j = 0; j < m; j++) sums[j] += row[j];
    }
}

/* dy [n, m] = 0 where y <= 0, unless y is NULL; row 0 of sums [1 + blocks, m] of its columns, unless that is NULL. */
void differentiate_relu(float *dy, const float *y, float *sums, int64_t n, int64_t m, int64_t num_threads)
{
    const int64_t blocks = count_blocks(n);
#pragma omp parallel for num_threads(worth(n * m, num_threads)) schedule(static)
    for (int64_t b = 0; b < blocks; b++) {
        float part[COLUMNS];
        for (int64_t c = 0; c < m; c += COLUMNS) {
            const int64_t width = m - c < COLUMNS ? m - c : COLUMNS;
            memset(part, 0, width * sizeof(float));
            for (int64_t i = b * ROWS; i < n && i < (b + 1) * ROWS; i++) {
                float *g = dy + i * m + c;
                if (y) {
                    const float *value = y + i * m + c;
                    for (int64_t j = 0; j < width; j++) g[j] = value[j] <= 0 ? 0 : g[j];
                }
                if (sums)
                    for (int64_t j = 0; j < width; j++) part[j] += g[j];
            }
            if (sums) memcpy(sums + (1 + b) * m + c, part, width * sizeof(float));
        }
    }
    if (sums) add_blocks(sums, blocks, m);
}

/* y = x + x_0 (z + bias), all [n, m] but bias [m]. */
void cross(
    const float *x, const float *x_0, const float *z, const float *bias, float *y, int64_t n, int64_t m,
    int64_t num_threads)
{
#pragma omp parallel for num_threads(worth(n * m, num_threads)) schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i * m;
        for (int64_t j = 0; j < m; j++) y[at + j] = x[at + j] + x_0[at + j] * (z[at + j] + bias[j]);
    }
}

/* Differentiate `cross` by x_0, z and bias: dx_0 (+)= dy (z + bias), perhaps + dy; z = dy x_0; row 0 of sums
 * [1 + blocks, m] = the sums of the new z's columns. */
void differentiate_cross(
    const float *dy, const float *x_0, float *z, const float *bias, float *dx_0, float *sums, int64_t adds,
    int64_t adds_dy, int64_t n, int64_t m, int64_t num_threads)
{
    const int64_t blocks = count_blocks(n);
    const float own = adds_dy ? 1 : 0;
#pragma omp parallel for num_threads(worth(n * m, num_threads)) schedule(static)
    for (int64_t b = 0; b < blocks; b++) {
        float part[COLUMNS];
        for (int64_t c = 0; c < m; c += COLUMNS) {
            const int64_t width = m - c < COLUMNS ? m - c : COLUMNS;
            memset(part, 0, width * sizeof(float));
            for (int64_t i = b * ROWS; i < n && i < (b + 1) * ROWS; i++) {
                const int64_t at = i * m + c;
                const float *g = dy + at, *x = x_0 + at, *add = bias + c;
                float *value = z + at, *into = dx_0 + at;
                for (int64_t j = 0; j < width; j++) {
                    const float change = g[j] * (value[j] + add[j] + own);
                    into[j] = adds ? into[j] + change : change;
                    value[j] = g[j] * x[j];
                    part[j] += value[j];
                }
            }
            memcpy(sums + (1 + b) * m + c, part, width * sizeof(float));
        }
    }
    add_blocks(sums, blocks, m);
}

/* Adagrad of n weights: squares += g^2; value -= lr g / (sqrt(squares) + eps). */
void adagrad(
    float *restrict value, float *restrict squares, const float *restrict g, int64_t n, float lr, float eps,
    int64_t num_threads)
{
    const int64_t parts = worth(n, num_threads);
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int64_t t = 0; t < parts; t++) {
        const int64_t from = edge(n, t, parts), to = edge(n, t + 1, parts);
        for (int64_t j = from; j < to; j++) {
            squares[j] += g[j] * g[j];
            value[j] -= lr * g[j] / (sqrtf(squares[j]) + eps);
        }
    }
}

/* The columns [d, stride] of features [f, d]: those from f on are zero, since what a stack held before may be subnormal
 * numbers, by which some CPUs multiply far more slowly. */
static inline __attribute__((always_inline)) void transpose(
    const float *features, int64_t f, const int64_t d, int64_t stride, float *columns)
{
#if LANES == 16  /* one instruction shuffles two vectors; else one by one is faster */
    for (int64_t j = 0; j < stride; j += LANES)
        for (int64_t c = 0; c < d; c += LANES) {
            lanes square[LANES] = {{0}};
            for (int64_t r = 0; r < LANES && j + r < f; r++) square[r] = *(const lanes *)(features + (j + r) * d + c);
#pragma GCC unroll 4
            for (int s = 1; s < LANES; s *= 2) {  /* exchange the blocks of s off the diagonal of each of 2 s */
                lane_places low, high;
                for (int k = 0; k < LANES; k++) low[k] = k & s ? LANES + k - s : k, high[k] = low[k] + s;
#pragma GCC unroll 16
                for (int r = 0; r < LANES; r++)
                    if (!(r & s)) {
                        const lanes a = square[r], b = square[r + s];
                        square[r] = __builtin_shuffle(a, b, low);
                        square[r + s] = __builtin_shuffle(a, b, high);
                    }
            }
#pragma GCC unroll 16
            for (int64_t r = 0; r < LANES; r++) *(lanes *)(columns + (c + r) * stride + j) = square[r];
        }
#else
    for (int64_t j = 0; j < f; j++)
        for (int64_t k = 0; k < d; k++) columns[k * stride + j] = features[j * d + k];
    for (int64_t k = 0; k < d; k++) memset(columns + k * stride + f, 0, (stride - f) * sizeof(float));
#endif
}

/* One sample's products of pairs of its features [f, d], f (f - 1) / 2 of them, row by row of the lower triangle. */
static inline __attribute__((always_inline)) void multiply_pairs(
    const float *features, int64_t f, const int64_t d, float *pairs)
{
    float columns[MAX_WIDTH * MAX_FEATURES], rows[4][MAX_FEATURES], all[MAX_FEATURES * MAX_FEATURES / 2 + 64];
    const int64_t stride = (f + 2 * LANES - 1) / (2 * LANES) * (2 * LANES);
    transpose(features, f, d, stride, columns);
    float *out = all;
    for (int64_t i = 0; i < f; i += 4) {
        const float *x[4];
        for (int64_t r = 0; r < 4; r++) x[r] = features + (i + r < f ? i + r : i) * d;
        for (int64_t c = 0; c < i + 3; c += 2 * LANES) {  /* four rows and two columns of lanes: eight sums */
            lanes sum[4][2] = {{{0}}};
            for (int64_t k = 0; k < d; k++) {
                const lanes a = *(const lanes *)(columns + k * stride + c);
                const lanes b = *(const lanes *)(columns + k * stride + c + LANES);
#pragma GCC unroll 4
                for (int64_t r = 0; r < 4; r++) sum[r][0] += x[r][k] * a, sum[r][1] += x[r][k] * b;
            }
#pragma GCC unroll 4
            for (int64_t r = 0; r < 4; r++) {
                *(lanes *)(rows[r] + c) = sum[r][0];
                *(lanes *)(rows[r] + c + LANES) = sum[r][1];
            }
        }
        /* Whole lanes are copied: what is beyond a row's end is where the next row goes. */
        for (int64_t r = 0; r < 4 && i + r < f; out += i + r, r++)
            for (int64_t c = 0; c < i + r; c += LANES) *(lanes *)(out + c) = *(const lanes *)(rows[r] + c);
    }
    memcpy(pairs, all, f * (f - 1) / 2 * sizeof(float));
}

/* Gradients of one sample's features from those of its pairs' products.
 *
 * Eight vectors are summed at a time: of eight features where a feature is one vector, else of four. Product (i, j)
 * stands in the lower triangle alone; what is above the diagonal is read there, but for the blocks on the diagonal,
 * which are made whole. */
static inline __attribute__((always_inline)) void differentiate_pairs(
    const float *features, const float *pairs, int64_t f, const int64_t d, float *gradients)
{
    enum { STRIDE = MAX_FEATURES + LANES };
    float lower[(MAX_FEATURES + 8) * STRIDE], all[MAX_FEATURES * MAX_FEATURES / 2 + LANES];
    const int many = d > LANES ? 4 : 8, wide = d > LANES ? 2 : 1;
    const int64_t last = (f + many - 1) / many * many;
    memcpy(all, pairs, f * (f - 1) / 2 * sizeof(float));
    const float *row = all;
    for (int64_t i = 0; i < f; row += i, i++)  /* whole lanes: what is beyond a row's end is not read */
        for (int64_t c = 0; c < i; c += LANES) *(lanes *)(lower + i * STRIDE + c) = *(const lanes *)(row + c);
    for (int64_t i = f; i < last; i++) memset(lower + i * STRIDE, 0, last * sizeof(float));
    for (int64_t i = 0; i < last; i += many)
        for (int64_t r = i; r < i + many; r++) {
            lower[r * STRIDE + r] = 0;
            for (int64_t c = i; c < r; c++) lower[c * STRIDE + r] = lower[r * STRIDE + c];
        }
    for (int64_t i = 0; i < last; i += many)
        for (int64_t c = 0; c < d; c += wide * LANES) {
            lanes sum[8] = {{0}};
            const float *left = lower + i * STRIDE, *below = lower + i;
            for (int64_t j = 0; j < f; j++) {
                const lanes a = *(const lanes *)(features + j * d + c);
                const lanes b = *(const lanes *)(features + j * d + c + (wide - 1) * LANES);
                if (j < i + many)
#pragma GCC unroll 8
                    for (int r = 0; r < many; r++) {
                        sum[r] += left[r * STRIDE + j] * a;
                        if (wide == 2) sum[many + r] += left[r * STRIDE + j] * b;
                    }
                else
#pragma GCC unroll 8
                    for (int r = 0; r < many; r++) {
                        sum[r] += below[j * STRIDE + r] * a;
                        if (wide == 2) sum[many + r] += below[j * STRIDE + r] * b;
                    }
            }
#pragma GCC unroll 8
            for (int r = 0; r < many; r++)
                if (i + r < f) {
                    *(lanes *)(gradients + (i + r) * d + c) = sum[r];
                    if (wide == 2) *(lanes *)(gradients + (i + r) * d + c + LANES) = sum[many + r];
                }
        }
}

/* y [n, width]: of features [n, f, d] the first one, then the products of all pairs. */
void dot(const float *features, float *y, int64_t n, int64_t f, int64_t d, int64_t width, int64_t num_threads)
{
#pragma omp parallel for num_threads(worth(n * f * d, num_threads)) schedule(static)
    for (int64_t s = 0; s < n; s++) {
        const float *x = features + s * f * d;
        memcpy(y + s * width, x, d * sizeof(float));
#define PAIRS(w) multiply_pairs(x, f, w, y + s * width + w)
        OF_WIDTH(PAIRS)
    }
}

/* Gradients [n, f, d] of `dot`'s features from dy [n, width]. */
void differentiate_dot(
    const float *features, const float *dy, float *gradients, int64_t n, int64_t f, int64_t d, int64_t width,
    int64_t num_threads)
{
#pragma omp parallel for num_threads(worth(n * f * d, num_threads)) schedule(static)
    for (int64_t s = 0; s < n; s++) {
        const float *x = features + s * f * d, *g = dy + s * width;
        float *into = gradients + s * f * d;
#define GRADIENTS(w) differentiate_pairs(x, g + w, f, w, into)
        OF_WIDTH(GRADIENTS)
        for (int64_t k = 0; k < d; k++) into[k] += g[k];
    }
}

typedef void (*sgemm)(
    int order, int turns_a, int turns_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
    const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/* c [m, n] = a b, or c += a b, by cblas_sgemm on one thread each for a part of c. `a` [m, k] and `b` [k, n] are
stored
 * by rows, or by columns where they turn; lda, ldb and ldc are the numbers between those. */
void multiply(
    sgemm cblas, int64_t turns_a, int64_t turns_b, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
    const float *b, int64_t ldb, int64_t adds, float *c, int64_t ldc, int64_t num_threads)
{
    const int64_t parts = worth(m * n, num_threads), by_rows = m >= n;
#pragma omp parallel for num_threads(parts) schedule(static, 1)
    for (int64_t t = 0; t < parts; t++) {
        const int64_t from = edge(by_rows ? m : n, t, parts), size = edge(by_rows ? m : n, t + 1, parts) - from;
        const int64_t row = by_rows ? from : 0, column = by_rows ? 0 : from;
        if (size)
            cblas(101, turns_a ? 112 : 111, turns_b ? 112 : 111, by_rows ? size : m, by_rows ? n : size, k, 1,
                  a + row * (turns_a ? 1 : lda), lda, b + column * (turns_b ? ldb : 1), ldb, adds ? 1 : 0,
                  c + row * ldc + column, ldc);
    }
}
