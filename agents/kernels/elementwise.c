/* Root-mean-square norm, SiLU gate and rotation of heads, with their gradients: one pass over memory each. */
#include "kernels.h"

typedef const float *restrict reads;
typedef float *restrict writes;

enum { ROWS = 32, WORK = 1 << 15 }; /* rows that a thread takes at once; numbers below which one thread takes all */

#define DIVIDE(rows, numbers, call)                                               \
    const int64_t end = (rows), many = (rows) * (numbers) > WORK;                 \
    _Pragma("omp parallel for schedule(static) if (many)")                        \
    for (int64_t from = 0; from < end; from += ROWS) {                            \
        int64_t to = from + ROWS < end ? from + ROWS : end;                       \
        call;                                                                     \
    }

CLONES static void norm_rows(reads x, reads weight, float eps, writes out, int64_t from, int64_t to, int64_t d) {
    for (int64_t n = from; n < to; n++) {
        reads row = x + n * d;
        float sum = 0;
        for (int64_t i = 0; i < d; i++) sum += row[i] * row[i];
        float inverse = 1 / sqrtf(sum / d + eps);
        for (int64_t i = 0; i < d; i++) out[n * d + i] = row[i] * inverse * weight[i];
    }
}

void agon_norm(const float *x, const float *weight, float eps, float *out, int64_t n, int64_t d) {
    DIVIDE(n, d, norm_rows(x, weight, eps, out, from, to, d))
}

/* With r = 1 / sqrt(mean(x^2) + eps) and h = g w: dx = r (h - x r^2 mean(h x)). */
CLONES static void norm_back_rows(reads grad, reads x, reads weight, float eps, writes normed, writes grad_x, int64_t from,
                                  int64_t to, int64_t d) {
    for (int64_t n = from; n < to; n++) {
        reads row = x + n * d, g = grad + n * d;
        float sum = 0, along = 0;
        for (int64_t i = 0; i < d; i++) sum += row[i] * row[i], along += g[i] * weight[i] * row[i];
        float inverse = 1 / sqrtf(sum / d + eps), slope = along / d * inverse * inverse;
        for (int64_t i = 0; i < d; i++) {
            normed[n * d + i] = row[i] * inverse * weight[i];
            grad_x[n * d + i] += inverse * (g[i] * weight[i] - row[i] * slope);
        }
    }
}

void agon_norm_back(const float *grad, const float *x, const float *weight, float eps, float *normed, float *grad_x, int64_t n,
                    int64_t d) {
    DIVIDE(n, d, norm_back_rows(grad, x, weight, eps, normed, grad_x, from, to, d))
}

INLINE float sigmoid(float x) { return 1 / (1 + power_of_two(-LOG2_E * x)); }

CLONES static void gate_rows(reads gate_up, writes out, int64_t from, int64_t to, int64_t d) {
    for (int64_t n = from; n < to; n++) {
        reads gate = gate_up + n * 2 * d, up = gate + d;
        for (int64_t i = 0; i < d; i++) out[n * d + i] = gate[i] * sigmoid(gate[i]) * up[i];
    }
}

void agon_gate(const float *gate_up, float *out, int64_t n, int64_t d) { DIVIDE(n, d, gate_rows(gate_up, out, from, to, d)) }

CLONES static void gate_back_rows(reads grad, reads gate_up, writes out, writes to_gate_up, int64_t from, int64_t to,
                                  int64_t d) {
    for (int64_t n = from; n < to; n++) {
        reads gate = gate_up + n * 2 * d, up = gate + d, g = grad + n * d;
        writes to_gate = to_gate_up + n * 2 * d, to_up = to_gate + d;
        for (int64_t i = 0; i < d; i++) {
            float share = sigmoid(gate[i]), active = gate[i] * share;
            out[n * d + i] = active * up[i];
            to_up[i] = g[i] * active;
            to_gate[i] = g[i] * up[i] * (share + active * (1 - share));
        }
    }
}

void agon_gate_back(const float *grad, const float *gate_up, float *out, float *to_gate_up, int64_t n, int64_t d) {
    DIVIDE(n, d, gate_back_rows(grad, gate_up, out, to_gate_up, from, to, d))
}

typedef struct {
    const float *qkv;    /* [N, Y, W] */
    const float *weight; /* [X, W] of the norms of the first X heads, or null: no norm */
    const float *cos, *sin; /* [N, W]; the sines of the first half with the sign that they have there */
    float eps;
    int64_t rows, heads, turned, width; /* N, Y, X, W */
} Heads;

CLONES static void turn_rows(const Heads *all, writes out, int64_t from, int64_t to) {
    const int64_t width = all->width, half = width / 2;
    for (int64_t n = from; n < to; n++) {
        reads x = all->qkv + n * all->heads * width, cos = all->cos + n * width, sin = all->sin + n * width;
        writes y = out + n * all->heads * width;
        float plain[width];
        for (int64_t h = 0; h < all->turned; h++, x += width, y += width) {
            memcpy(plain, x, width * sizeof(float));
            if (all->weight) {
                reads weight = all->weight + h * width;
                float sum = 0;
                for (int64_t i = 0; i < width; i++) sum += x[i] * x[i];
                float inverse = 1 / sqrtf(sum / width + all->eps);
                for (int64_t i = 0; i < width; i++) plain[i] *= inverse * weight[i];
            }
            for (int64_t i = 0; i < half; i++) {
                y[i] = plain[i] * cos[i] + plain[half + i] * sin[i];
                y[half + i] = plain[half + i] * cos[half + i] + plain[i] * sin[half + i];
            }
        }
        memcpy(y, x, (all->heads - all->turned) * width * sizeof(float));
    }
}

void agon_turn(const Heads *all, float *out) { DIVIDE(all->rows, all->heads * all->width, turn_rows(all, out, from, to)) }

CLONES static void turn_back_rows(const Heads *all, reads grad, writes grad_x, int64_t from, int64_t to) {
    const int64_t width = all->width, half = width / 2;
    for (int64_t n = from; n < to; n++) {
        reads x = all->qkv + n * all->heads * width, cos = all->cos + n * width, sin = all->sin + n * width;
        reads g = grad + n * all->heads * width;
        writes to_x = grad_x + n * all->heads * width;
        for (int64_t h = 0; h < all->turned; h++, x += width, g += width, to_x += width) {
            for (int64_t i = 0; i < half; i++) {
                to_x[i] = g[i] * cos[i] + g[half + i] * sin[half + i];
                to_x[half + i] = g[half + i] * cos[half + i] + g[i] * sin[i];
            }
            if (!all->weight) continue;
            reads weight = all->weight + h * width;
            float sum = 0, along = 0;
            for (int64_t i = 0; i < width; i++) sum += x[i] * x[i], along += to_x[i] * weight[i] * x[i];
            float inverse = 1 / sqrtf(sum / width + all->eps), slope = along / width * inverse * inverse;
            for (int64_t i = 0; i < width; i++) to_x[i] = inverse * (to_x[i] * weight[i] - x[i] * slope);
        }
        memcpy(to_x, g, (all->heads - all->turned) * width * sizeof(float));
    }
}

void agon_turn_back(const Heads *all, const float *grad, float *grad_x) {
    DIVIDE(all->rows, all->heads * all->width, turn_back_rows(all, grad, grad_x, from, to))
}
