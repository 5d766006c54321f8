/* Attention of one new token for each row, over the row's own tokens and its prompt's, which is read once for all rows. */
#include "kernels.h"

typedef struct {
    const float *qkv;               /* [R, H + 2 K, W], turned */
    float *own_keys, *own_values;   /* [R, K, room, W]; the new token is added at `seen` - 1 */
    const float *keys, *values;     /* of the prompts, [U, K, W, L] and [U, K, L, W]; L is a multiple of LANES */
    const int64_t *length;          /* tokens of each prompt, [U] */
    const int64_t *row, *first;     /* the rows prompt by prompt, [R], and where each prompt's begin, [U + 1] */
    float *out;                     /* [R, H, W] */
    float scale;
    int64_t prompts, heads, kv_heads, width, room, longest, seen;
} Step;

INLINE void add_token(const Step *step, int64_t row, int64_t head) {
    const float *key = step->qkv + (row * (step->heads + 2 * step->kv_heads) + step->heads + head) * step->width;
    int64_t place = ((row * step->kv_heads + head) * step->room + step->seen - 1) * step->width;
    memcpy(step->own_keys + place, key, step->width * sizeof(float));
    memcpy(step->own_values + place, key + step->kv_heads * step->width, step->width * sizeof(float));
}

/* The weights of `count` (1 … TILE) queries of a prompt, and the sums of values by them. */
INLINE void attend_tile(const Step *step, int64_t prompt, int64_t head, const int64_t *query, int64_t count, float *score,
                        const int64_t width) {
    const int64_t group = step->heads / step->kv_heads, length = step->length[prompt], seen = step->seen;
    const int64_t known = rounded(length), all = known + seen, stride = rounded(all);
    const float *q[TILE], *own[TILE];
    float *out[TILE], *scores[TILE], share[TILE];
    for (int64_t m = 0; m < count; m++) {
        int64_t one = query[m], row = one / group, of = head * group + one % group;
        q[m] = step->qkv + (row * (step->heads + 2 * step->kv_heads) + of) * width;
        out[m] = step->out + (row * step->heads + of) * width;
        scores[m] = score + m * stride;
        own[m] = step->own_keys + (row * step->kv_heads + head) * step->room * width;
    }
    const float *keys = step->keys + (prompt * step->kv_heads + head) * width * step->longest;
    multiply(q, keys, step->longest, width, known, 0, scores, count);
    for (int64_t m = 0; m < count; m++) {
        float *mine = scores[m], sum = 0;
        for (int64_t l = length; l < known; l++) mine[l] = LOWEST;
        const float *next = m + 1 < count ? own[m + 1] : own[0] + (step->own_values - step->own_keys);
        for (int64_t t = 0; t < seen; t++) {
            float product = 0;
            __builtin_prefetch(next + t * width), __builtin_prefetch(next + t * width + LANES);
            for (int64_t w = 0; w < width; w++) product += q[m][w] * own[m][t * width + w];
            mine[known + t] = product;
        }
        const float top = greatest(mine, all);
        for (int64_t l = 0; l < all; l++) sum += mine[l] = power_of_two((mine[l] - top) * (step->scale * LOG2_E));
        share[m] = 1 / sum;
    }
    const float *values = step->values + (prompt * step->kv_heads + head) * step->longest * width;
    multiply((const float *const *)scores, values, width, length, width, 0, out, count);
    for (int64_t m = 0; m < count; m++) {
        const float *weight = scores[m] + known;
        multiply(&weight, own[m] + (step->own_values - step->own_keys), width, seen, width, 1, out + m, 1);
        for (int64_t w = 0; w < width; w++) out[m][w] *= share[m];
    }
}

CLONES static void attend_prompt(const Step *step, int64_t prompt, int64_t head, float *score) {
    const int64_t group = step->heads / step->kv_heads, *rows = step->row + step->first[prompt];
    const int64_t queries = (step->first[prompt + 1] - step->first[prompt]) * group;
    for (int64_t i = 0; i < queries; i += group) add_token(step, rows[i / group], head);
    for (int64_t i = 0; i < queries; i += TILE) {
        int64_t count = queries - i < TILE ? queries - i : TILE, query[TILE];
        for (int64_t m = 0; m < count; m++) query[m] = rows[(i + m) / group] * group + (i + m) % group;
        switch (step->width) { /* a width that is known lets the compiler keep sums in registers */
            case 32: attend_tile(step, prompt, head, query, count, score, 32); break;
            case 64: attend_tile(step, prompt, head, query, count, score, 64); break;
            case 128: attend_tile(step, prompt, head, query, count, score, 128); break;
            default: attend_tile(step, prompt, head, query, count, score, step->width);
        }
    }
}

/* Returns 0, or 1 where there was no memory. */
int agon_decode(const Step *step) {
    const int64_t tasks = step->prompts * step->kv_heads;
    int failed = 0;
    #pragma omp parallel reduction(| : failed)
    {
        float *score = malloc(TILE * rounded(step->longest + step->seen) * sizeof(float));
        failed = !score;
        #pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < tasks; task++)
            if (score) attend_prompt(step, task / step->kv_heads, task % step->kv_heads, score);
        free(score);
    }
    return failed;
}
