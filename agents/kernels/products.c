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

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
#define FLOATS 16
#define ROWS 8
#include "tiles.h"
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#define FLOATS 8
#define ROWS 4
#include "tiles.h"
#pragma GCC pop_options
#endif
#define FLOATS 4
#define ROWS 4
#include "tiles.h"

/* The vectors of this processor. */
static int floats = 4;

__attribute__((constructor)) static void look(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    floats = __builtin_cpu_supports("x86-64-v4") ? 16 : __builtin_cpu_supports("x86-64-v3") ? 8 : 4;
#endif
}

#if defined(__x86_64__)
#define BEST(name) (floats == 16 ? name##_16 : floats == 8 ? name##_8 : name##_4)
#else
#define BEST(name) name##_4
#endif

void multiply(const float *const *a, const float *b, int64_t stride, int64_t inner, int64_t columns, int more,
              float *const *out, int64_t rows) {
    BEST(multiply)(a, b, stride, inner, columns, more, out, rows);
}

void multiply_transposed(const float *const *a, const float *const *b, int64_t rows, int64_t columns, float *out,
                         int64_t stride) {
    BEST(multiply_transposed)(a, b, rows, columns, out, stride);
}

/* Tells Python that this was compiled for it. */
int agon_interface(void) { return INTERFACE; }

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
