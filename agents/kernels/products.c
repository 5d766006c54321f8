/* Products of TILE rows at a time, whose sums stay in registers, and of matrices made of them. */
#include "kernels.h"

#ifdef _OPENMP
#include <omp.h>
#define THREADS omp_get_num_threads()
#define THREAD omp_get_thread_num()
#else
#define THREADS 1
#define THREAD 0
#endif

enum { BLOCK = 64 }; /* rows that a thread multiplies with all of its weights before it goes on */

/* `multiply` for some number of rows that is known when this is compiled. */
INLINE void multiply_rows(const float *const *a, const float *b, int64_t stride, int64_t inner, int64_t columns, int more,
                          float *const *out, const int rows) {
    int64_t j = 0;
    for (; j + LANES < columns; j += 2 * LANES) {
        lanes low[TILE] = {0}, high[TILE] = {0};
        if (more)
            for (int m = 0; m < rows; m++) low[m] = *(lanes *)(out[m] + j), high[m] = *(lanes *)(out[m] + j + LANES);
        for (int64_t i = 0; i < inner; i++) {
            lanes first = *(const lanes *)(b + i * stride + j), second = *(const lanes *)(b + i * stride + j + LANES);
            for (int m = 0; m < rows; m++) low[m] += first * a[m][i], high[m] += second * a[m][i];
        }
        for (int m = 0; m < rows; m++) *(lanes *)(out[m] + j) = low[m], *(lanes *)(out[m] + j + LANES) = high[m];
    }
    if (j < columns) {
        lanes sum[TILE] = {0};
        if (more)
            for (int m = 0; m < rows; m++) sum[m] = *(lanes *)(out[m] + j);
        for (int64_t i = 0; i < inner; i++) {
            lanes next = *(const lanes *)(b + i * stride + j);
            for (int m = 0; m < rows; m++) sum[m] += next * a[m][i];
        }
        for (int m = 0; m < rows; m++) *(lanes *)(out[m] + j) = sum[m];
    }
}

CLONES void multiply(const float *const *a, const float *b, int64_t stride, int64_t inner, int64_t columns, int more,
                     float *const *out, int64_t rows) {
    switch (rows) {
        case 1: multiply_rows(a, b, stride, inner, columns, more, out, 1); break;
        case 2: multiply_rows(a, b, stride, inner, columns, more, out, 2); break;
        case 3: multiply_rows(a, b, stride, inner, columns, more, out, 3); break;
        case 4: multiply_rows(a, b, stride, inner, columns, more, out, 4); break;
        case 5: multiply_rows(a, b, stride, inner, columns, more, out, 5); break;
        case 6: multiply_rows(a, b, stride, inner, columns, more, out, 6); break;
        case 7: multiply_rows(a, b, stride, inner, columns, more, out, 7); break;
        default: multiply_rows(a, b, stride, inner, columns, more, out, TILE);
    }
}

CLONES void multiply_transposed(const float *const *a, const float *const *b, int64_t rows, int64_t columns,
                                float *out, int64_t stride) {
    for (int64_t j = 0; j < columns; j += LANES) {
        const float *row[TILE]; /* not `a`, which might change where a sum is written */
        lanes part[TILE];
        for (int m = 0; m < TILE; m++) row[m] = a[m], part[m] = *(const lanes *)(b[m] + j);
        for (int64_t i = 0; i < rows; i++) {
            lanes sum = *(lanes *)(out + i * stride + j);
            for (int m = 0; m < TILE; m++) sum += part[m] * row[m][i];
            *(lanes *)(out + i * stride + j) = sum;
        }
    }
}

/* A part of `agon_product`: rows that stay in the cache while the weights pass by. */
static void rows_by_panels(const float *x, const float *panels, const float *plus, int64_t plus_stride, float *out,
                           int64_t from, int64_t to, int64_t inner, int64_t columns, int64_t first, int64_t last) {
    for (int64_t panel = first; panel < last; panel++)
        for (int64_t n = from; n < to; n += TILE) {
            const int64_t count = to - n < TILE ? to - n : TILE;
            const float *a[TILE];
            float *sum[TILE];
            for (int64_t m = 0; m < count; m++) {
                a[m] = x + (n + m) * inner, sum[m] = out + (n + m) * columns + panel * PANEL;
                if (plus) memcpy(sum[m], plus + (n + m) * plus_stride + panel * PANEL, PANEL * sizeof(float));
            }
            multiply(a, panels + panel * inner * PANEL, PANEL, inner, PANEL, plus != 0, sum, count);
        }
}

/* out (n, columns) = x (n, inner) times weights laid out in panels, [columns / PANEL, inner, PANEL], plus what `plus` holds. */
void agon_product(const float *x, const float *panels, const float *plus, int64_t plus_stride, float *out, int64_t n,
                  int64_t inner, int64_t columns) {
    const int64_t all = columns / PANEL, many = n * inner * columns > 1 << 19;
    #pragma omp parallel if (many)
    {
        const int64_t threads = THREADS, thread = THREAD, first = all * thread / threads, last = all * (thread + 1) / threads;
        for (int64_t from = 0; from < n; from += BLOCK)
            rows_by_panels(x, panels, plus, plus_stride, out, from, from + BLOCK < n ? from + BLOCK : n, inner, columns, first,
                           last);
    }
}
