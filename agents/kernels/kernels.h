/* What the kernels share: the exponential, the greatest number, and the products of small tiles.

   Every function that computes is compiled for several processors (CLONES) and the dynamic linker takes the best one; the
   products, which name their vectors, choose in products.c.
   Those functions hold no OpenMP pragma, since the compiler would take such a part out of them and compile it for the least
   processor; the functions that divide the work call them. */
#ifndef AGON_KERNELS_H
#define AGON_KERNELS_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#if !defined(__linux__) || !defined(__GNUC__) || defined(__clang__) || __GNUC__ < 12
#error "on x86-64 these kernels need GCC 12 or later on Linux: without its vectors they are slower than torch"
#endif
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

/* Counted up, here and in library.py, when a function is called otherwise than before. */
enum { INTERFACE = 1 };

/* Widths are multiples of LANES; rows, and columns of weights, that are computed at once. */
enum { LANES = 16, TILE = 8, PANEL = 32 };

#define LOG2_E 1.44269504088896340736f
#define LOWEST -1e30f /* a score that has no weight; finite, so that no difference of two is undefined */

/* 2 to the power of x, to about one unit in the last place, 0 below the least normal number; Cephes' polynomial. */
INLINE float power_of_two(float x) {
    float whole = rintf(x > 127.f ? 127.f : x), part = x - whole, sum = 1.535336188319500e-4f;
    sum = sum * part + 1.339887440266574e-3f;
    sum = sum * part + 9.618437357674640e-3f;
    sum = sum * part + 5.550332471162809e-2f;
    sum = sum * part + 2.402264791363012e-1f;
    sum = sum * part + 6.931472028550421e-1f;
    sum = sum * part + 1.f;
    union { uint32_t bits; float value; } scale = {.bits = (uint32_t)((int32_t)whole + 127) << 23};
    return x < -126.f ? 0.f : sum * scale.value;
}

/* Floats in the order of integers, and back. GCC makes vectors of a loop that looks for the greatest integer, but not of one for
   the greatest float, since NaN has no place in the order of floats. */
INLINE int32_t ordered(int32_t bits) { return bits ^ ((bits >> 31) & INT32_MAX); }

INLINE float greatest(const float *x, int64_t length) {
    union { float value; int32_t bits; } top = {-INFINITY}, next;
    int32_t found = ordered(top.bits);
    for (int64_t i = 0; i < length; i++) {
        next.value = x[i];
        int32_t order = ordered(next.bits);
        found = order > found ? order : found;
    }
    top.bits = ordered(found);
    return top.value;
}

INLINE int64_t rounded(int64_t length) { return (length + LANES - 1) / LANES * LANES; }

/* out[m][j] = sum over i of a[m][i] b[i][j], for at most TILE rows m, added to what is there if there is `more`; `columns` is a
   multiple of LANES. A row's sums do not depend on the other rows. */
void multiply(const float *const *a, const float *b, int64_t stride, int64_t inner, int64_t columns, int more,
              float *const *out, int64_t rows);

/* out[i][j] += sum over m of a[m][i] b[m][j], for TILE rows m. */
void multiply_transposed(const float *const *a, const float *const *b, int64_t rows, int64_t columns, float *out,
                         int64_t stride);

#endif
