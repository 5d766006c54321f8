/* Attention of packed rows, and its gradient: a root sees itself, a branch sees its root and itself, always what came before.

   All of it for one root and one head of keys is one task, so that no two threads add to the same numbers and the order of
   sums does not depend on their number. Scores exist for TILE queries at a time; the backward pass computes them again from
   the logarithm of their sum, for a block of keys at a time, which stays in the cache while all queries pass by. */
#include "kernels.h"

enum { BLOCK = 512 }; /* keys of the backward pass; a multiple of LANES */

typedef struct {
    const float *qkv;             /* [S, H + 2 K, W] */
    const int64_t *root, *branch; /* first token and length of each run, [U, 2] and [R, 2], the branches root by root */
    const int64_t *first;         /* where each root's branches begin, [U + 1] */
    float *out;                   /* [S, H, W] */
    float *top;                   /* logarithm to the base 2 of the sum of all weights, [S, H] */
    float scale;
    int64_t roots, heads, kv_heads, width, longest_root, longest_branch;
} Tree;

/* A run of tokens as keys: where it begins, and its keys with the tokens along the last dimension. */
typedef struct {
    int64_t start, length;
    float *keys;
} Run;

INLINE int64_t across(const Tree *tree) { return (tree->heads + 2 * tree->kv_heads) * tree->width; }

INLINE void transpose(const float *from, int64_t stride, int64_t length, int64_t width, float *to) {
    const int64_t columns = rounded(length);
    for (int64_t w = 0; w < width; w++)
        for (int64_t l = length; l < columns; l++) to[w * columns + l] = 0;
    for (int64_t l = 0; l < length; l++)
        for (int64_t w = 0; w < width; w++) to[w * columns + l] = from[l * stride + w];
}

INLINE void read_run(const Tree *tree, const int64_t *run, int64_t head, Run *to) {
    const float *keys = tree->qkv + run[0] * across(tree) + (tree->heads + head) * tree->width;
    to->start = run[0], to->length = run[1];
    transpose(keys, across(tree), run[1], tree->width, to->keys);
}

/* At most TILE queries of one head, and what they look at: all of `root` unless it is null, and `own` up to each of them. Those
   that are missing are the first one again. */
typedef struct {
    const float *q[TILE];
    int64_t at, count;           /* first query within its run, and how many there are */
    int64_t known, seen, stride; /* keys of the root and own keys, rounded, and both */
} Queries;

INLINE Queries queries_of(const Tree *tree, const Run *root, const Run *own, int64_t at, int64_t head) {
    Queries some = {.at = at, .count = own->length - at < TILE ? own->length - at : TILE};
    some.known = root ? rounded(root->length) : 0;
    some.seen = rounded(at + some.count);
    some.stride = some.known + some.seen;
    for (int64_t m = 0; m < TILE; m++)
        some.q[m] = tree->qkv + (own->start + at + (m < some.count ? m : 0)) * across(tree) + head * tree->width;
    return some;
}

/* Products of the queries with the keys of the root and the own run, side by side. */
INLINE void products(const Queries *some, const Run *root, const Run *own, int64_t width, float *out) {
    float *to[TILE], *next[TILE];
    for (int64_t m = 0; m < TILE; m++) to[m] = out + m * some->stride, next[m] = to[m] + some->known;
    if (root) multiply(some->q, root->keys, some->known, width, some->known, 0, to, some->count);
    multiply(some->q, own->keys, rounded(own->length), width, some->seen, 0, next, some->count);
}

/* Sums of the values of the root and the own run, at `place` within a token, by the weights of each query. */
INLINE void sums(const Tree *tree, const Queries *some, const float *weight, const Run *root, const Run *own, int64_t place,
                 float *const out[TILE]) {
    const float *of_root[TILE], *of_own[TILE], *from = tree->qkv + place;
    const int64_t step = across(tree);
    for (int64_t m = 0; m < TILE; m++) of_root[m] = weight + m * some->stride, of_own[m] = of_root[m] + some->known;
    if (root) multiply(of_root, from + root->start * step, step, root->length, tree->width, 0, out, some->count);
    multiply(of_own, from + own->start * step, step, some->at + some->count, tree->width, root != 0, out, some->count);
}

INLINE void hide(const Queries *some, const Run *root, int64_t m, float *score) {
    if (root)
        for (int64_t l = root->length; l < some->known; l++) score[l] = LOWEST;
    for (int64_t l = some->at + m + 1; l < some->seen; l++) score[some->known + l] = LOWEST;
}

INLINE void attend_run(const Tree *tree, const Run *root, const Run *own, int64_t head, float *score) {
    const int64_t width = tree->width, value = (tree->heads + tree->kv_heads + head / (tree->heads / tree->kv_heads)) * width;
    const float scale = tree->scale * LOG2_E;
    for (int64_t at = 0; at < own->length; at += TILE) {
        Queries some = queries_of(tree, root, own, at, head);
        float *out[TILE], share[TILE];
        products(&some, root, own, width, score);
        for (int64_t m = 0; m < some.count; m++) {
            float *mine = score + m * some.stride, sum = 0;
            hide(&some, root, m, mine);
            const float top = greatest(mine, some.stride);
            for (int64_t l = 0; l < some.stride; l++) sum += mine[l] = power_of_two((mine[l] - top) * scale);
            tree->top[(own->start + at + m) * tree->heads + head] = top * scale + log2f(sum);
            share[m] = 1 / sum;
        }
        for (int64_t m = 0; m < TILE; m++)
            out[m] = tree->out + ((own->start + at + (m < some.count ? m : 0)) * tree->heads + head) * width;
        sums(tree, &some, score, root, own, value, out);
        for (int64_t m = 0; m < some.count; m++)
            for (int64_t w = 0; w < width; w++) out[m][w] *= share[m];
    }
}

/* A root with its branches under the queries of one head of keys. */
CLONES static void attend_task(const Tree *tree, int64_t number, int64_t head, float *scratch) {
    const int64_t group = tree->heads / tree->kv_heads, root_size = rounded(tree->longest_root) * tree->width;
    Run root = {.keys = scratch}, branch = {.keys = scratch + root_size};
    float *score = scratch + root_size + rounded(tree->longest_branch) * tree->width;
    read_run(tree, tree->root + 2 * number, head, &root);
    for (int64_t g = 0; g < group; g++) attend_run(tree, 0, &root, head * group + g, score);
    for (int64_t r = tree->first[number]; r < tree->first[number + 1]; r++) {
        read_run(tree, tree->branch + 2 * r, head, &branch);
        for (int64_t g = 0; g < group; g++) attend_run(tree, &root, &branch, head * group + g, score);
    }
}

/* At most BLOCK neighbouring keys of a run, their values, and what is gathered for both. */
typedef struct {
    int64_t place, length;      /* of the first key within the run, and how many there are */
    float *rows;                /* keys, [length, W] */
    float *keys, *values;       /* with the tokens along the last dimension */
    float *to_keys, *to_values; /* gradients, [length, W] */
    float *weight, *slope;      /* of TILE queries, [TILE, length] */
} Block;

/* The queries of a run under one head of a block of its own keys, or of its root's, all of which it sees. With p the weights, o
   the result, g the gradient to it: that to a score is p (g v - g o), that to a value p g. */
INLINE void block_back(const Tree *tree, const int64_t *run, int is_own, const Block *block, int64_t head, const float *grad,
                       float *grad_qkv) {
    const int64_t width = tree->width, step = across(tree), stride = rounded(block->length);
    const float scale = tree->scale * LOG2_E;
    for (int64_t at = is_own ? block->place : 0; at < run[1]; at += TILE) {
        const int64_t count = run[1] - at < TILE ? run[1] - at : TILE, ahead = at + count - block->place;
        const int64_t known = is_own && ahead < block->length ? ahead : block->length; /* keys that any of them sees */
        const float *q[TILE], *g[TILE], *weights[TILE], *slopes[TILE];
        float *to_q[TILE], *p[TILE], *s[TILE];
        for (int64_t m = 0; m < TILE; m++) { /* those that are missing are the first one again, with weights of 0 */
            const int64_t token = run[0] + at + (m < count ? m : 0);
            q[m] = tree->qkv + token * step + head * width, to_q[m] = grad_qkv + token * step + head * width;
            g[m] = grad + (token * tree->heads + head) * width;
            weights[m] = p[m] = block->weight + m * stride, slopes[m] = s[m] = block->slope + m * stride;
        }
        multiply(q, block->keys, stride, width, rounded(known), 0, p, count);
        multiply(g, block->values, stride, width, rounded(known), 0, s, count);
        for (int64_t m = 0; m < count; m++) {
            const int64_t token = (run[0] + at + m) * tree->heads + head, mine = at + m + 1 - block->place;
            const float *out = tree->out + token * width, top = tree->top[token];
            float along = 0;
            for (int64_t w = 0; w < width; w++) along += g[m][w] * out[w];
            for (int64_t l = is_own && mine < known ? mine : known; l < known; l++) p[m][l] = LOWEST;
            for (int64_t l = 0; l < known; l++) {
                p[m][l] = power_of_two(p[m][l] * scale - top);
                s[m][l] = p[m][l] * (s[m][l] - along) * tree->scale;
            }
        }
        for (int64_t m = count; m < TILE; m++)
            memset(p[m], 0, known * sizeof(float)), memset(s[m], 0, known * sizeof(float));
        multiply(slopes, block->rows, width, known, width, 1, to_q, count);
        multiply_transposed(slopes, q, known, width, block->to_keys, width);
        multiply_transposed(weights, g, known, width, block->to_values, width);
    }
}

/* The keys of a run, with the queries of the run and of its branches. */
INLINE void run_back(const Tree *tree, const int64_t *run, const int64_t *branches, int64_t count, Block *block, int64_t head,
                     const float *grad, float *grad_qkv) {
    const int64_t width = tree->width, step = across(tree), group = tree->heads / tree->kv_heads, size = width * sizeof(float);
    for (block->place = 0; block->place < run[1]; block->place += BLOCK) {
        const int64_t left = run[1] - block->place, place = (run[0] + block->place) * step + (tree->heads + head) * width;
        const float *keys = tree->qkv + place, *values = keys + tree->kv_heads * width;
        block->length = left < BLOCK ? left : BLOCK;
        transpose(keys, step, block->length, width, block->keys);
        transpose(values, step, block->length, width, block->values);
        for (int64_t l = 0; l < block->length; l++) memcpy(block->rows + l * width, keys + l * step, size);
        memset(block->to_keys, 0, block->length * size), memset(block->to_values, 0, block->length * size);
        for (int64_t h = head * group; h < (head + 1) * group; h++) {
            block_back(tree, run, 1, block, h, grad, grad_qkv);
            for (int64_t r = 0; r < count; r++) block_back(tree, branches + 2 * r, 0, block, h, grad, grad_qkv);
        }
        float *to_keys = grad_qkv + place, *to_values = to_keys + tree->kv_heads * width;
        for (int64_t l = 0; l < block->length; l++) {
            memcpy(to_keys + l * step, block->to_keys + l * width, size);
            memcpy(to_values + l * step, block->to_values + l * width, size);
        }
    }
}

/* The gradient of `attend_task`. */
CLONES static void back_task(const Tree *tree, int64_t number, int64_t head, const float *grad, float *grad_qkv,
                             float *scratch) {
    const int64_t size = BLOCK * tree->width;
    Block block = {.rows = scratch, .keys = scratch + size, .values = scratch + 2 * size, .to_keys = scratch + 3 * size,
                   .to_values = scratch + 4 * size, .weight = scratch + 5 * size, .slope = scratch + 5 * size + TILE * BLOCK};
    const int64_t *branches = tree->branch + 2 * tree->first[number], count = tree->first[number + 1] - tree->first[number];
    run_back(tree, tree->root + 2 * number, branches, count, &block, head, grad, grad_qkv);
    for (int64_t r = 0; r < count; r++) run_back(tree, branches + 2 * r, 0, 0, &block, head, grad, grad_qkv);
}

/* Attends, or with `grad`, [S, H, W], adds the gradient of `qkv` to `grad_qkv`. Returns 0, or 1 where there was no memory. */
int agon_attend(const Tree *tree, const float *grad, float *grad_qkv) {
    const int64_t tasks = tree->roots * tree->kv_heads;
    const int64_t positions = rounded(tree->longest_root) + rounded(tree->longest_branch);
    const int64_t numbers = grad ? BLOCK * (5 * tree->width + 2 * TILE) : positions * (tree->width + TILE);
    int failed = 0;
    #pragma omp parallel reduction(| : failed)
    {
        float *scratch = malloc(numbers * sizeof(float));
        failed = !scratch;
        #pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < tasks; task++) {
            const int64_t number = task / tree->kv_heads, head = task % tree->kv_heads;
            if (scratch && grad) back_task(tree, number, head, grad, grad_qkv, scratch);
            else if (scratch) attend_task(tree, number, head, scratch);
        }
        free(scratch);
    }
    return failed;
}
