/* Attention of packed rows, and its gradient: a root sees itself, a branch sees its root and itself, always what came before.

   All of it for one root and one head of keys is one task, so that no two threads add to the same numbers and the order of
   sums does not depend on their number. Scores exist for TILE queries at a time; the backward pass computes them again from
   the logarithm of their sum. */
#include "kernels.h"

typedef struct {
    const float *qkv;             /* [S, H + 2 K, W] */
    const int64_t *root, *branch; /* first token and length of each run, [U, 2] and [R, 2], the branches root by root */
    const int64_t *first;         /* where each root's branches begin, [U + 1] */
    float *out;                   /* [S, H, W] */
    float *top;                   /* logarithm to the base 2 of the sum of all weights, [S, H] */
    float scale;
    int64_t roots, heads, kv_heads, width, longest_root, longest_branch;
} Tree;

/* A run of tokens as keys: where it begins, and its keys and values with the tokens along the last dimension. */
typedef struct {
    int64_t start, length;
    float *keys, *values;
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
    to->start = run[0], to->length = run[1];
    const float *keys = tree->qkv + run[0] * across(tree) + (tree->heads + head) * tree->width;
    transpose(keys, across(tree), run[1], tree->width, to->keys);
    if (to->values) transpose(keys + tree->kv_heads * tree->width, across(tree), run[1], tree->width, to->values);
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

/* Products of a vector for each query with the keys, or values, of the root and the own run, side by side. */
INLINE void products(const Queries *some, const float *const x[TILE], const float *root, const float *own, int64_t own_stride,
                     int64_t width, float *out) {
    float *to[TILE], *next[TILE];
    for (int64_t m = 0; m < TILE; m++) to[m] = out + m * some->stride, next[m] = to[m] + some->known;
    if (root) multiply(x, root, some->known, width, some->known, 0, to, some->count);
    multiply(x, own, own_stride, width, some->seen, 0, next, some->count);
}

/* Sums of the keys, or values, of the root and the own run, at `place` within a token, by the weights of each query. */
INLINE void sums(const Tree *tree, const Queries *some, const float *weight, const Run *root, const Run *own, int64_t place,
                 float *const out[TILE]) {
    const float *of_root[TILE], *of_own[TILE], *from = tree->qkv + place;
    const int64_t step = across(tree);
    for (int64_t m = 0; m < TILE; m++) of_root[m] = weight + m * some->stride, of_own[m] = of_root[m] + some->known;
    if (root) multiply(of_root, from + root->start * step, step, root->length, tree->width, 0, out, some->count);
    multiply(of_own, from + own->start * step, step, some->at + some->count, tree->width, root != 0, out, some->count);
}

/* Adds the products of TILE queries' weights, 0 for those that are missing, with their vectors to what is gathered for the
   keys, or values. */
INLINE void scatter(const Tree *tree, const Queries *some, const float *weight, const float *const x[TILE], const Run *root,
                    const Run *own, float *to) {
    const float *of_root[TILE], *of_own[TILE];
    const int64_t step = across(tree);
    for (int64_t m = 0; m < TILE; m++) of_root[m] = weight + m * some->stride, of_own[m] = of_root[m] + some->known;
    if (root) multiply_transposed(of_root, x, root->length, tree->width, to + root->start * step, step);
    multiply_transposed(of_own, x, some->at + some->count, tree->width, to + own->start * step, step);
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
        products(&some, some.q, root ? root->keys : 0, own->keys, rounded(own->length), width, score);
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

/* With p the weights, o the result, g the gradient to it: that to a score is p (g v - g o), that to a value p g. */
INLINE void run_back(const Tree *tree, const Run *root, const Run *own, int64_t head, const float *grad, float *grad_qkv,
                     float *weight, float *slope) {
    const int64_t width = tree->width, key = (tree->heads + head / (tree->heads / tree->kv_heads)) * width;
    for (int64_t at = 0; at < own->length; at += TILE) {
        Queries some = queries_of(tree, root, own, at, head);
        const float *g[TILE];
        float *to_q[TILE];
        for (int64_t m = 0; m < TILE; m++) {
            const int64_t token = own->start + at + (m < some.count ? m : 0);
            g[m] = grad + (token * tree->heads + head) * width;
            to_q[m] = grad_qkv + token * across(tree) + head * width;
        }
        products(&some, some.q, root ? root->keys : 0, own->keys, rounded(own->length), width, weight);
        products(&some, g, root ? root->values : 0, own->values, rounded(own->length), width, slope);
        for (int64_t m = 0; m < some.count; m++) {
            const int64_t token = (own->start + at + m) * tree->heads + head;
            float *p = weight + m * some.stride, *s = slope + m * some.stride, along = 0;
            for (int64_t w = 0; w < width; w++) along += g[m][w] * tree->out[token * width + w];
            hide(&some, root, m, p);
            for (int64_t l = 0; l < some.stride; l++) {
                p[l] = power_of_two(p[l] * (tree->scale * LOG2_E) - tree->top[token]);
                s[l] = p[l] * (s[l] - along) * tree->scale;
            }
        }
        const int64_t missing = (TILE - some.count) * some.stride * sizeof(float);
        memset(weight + some.count * some.stride, 0, missing);
        memset(slope + some.count * some.stride, 0, missing);
        sums(tree, &some, slope, root, own, key, to_q);
        scatter(tree, &some, slope, some.q, root, own, grad_qkv + key);
        scatter(tree, &some, weight, g, root, own, grad_qkv + key + tree->kv_heads * width);
    }
}

/* A root with its branches under the queries of one head of keys; forward where there is no gradient. */
CLONES static void run_task(const Tree *tree, int64_t task, const float *grad, float *grad_qkv, float *scratch) {
    const int64_t width = tree->width, group = tree->heads / tree->kv_heads;
    const int64_t number = task / tree->kv_heads, head = task % tree->kv_heads;
    const int64_t root_size = rounded(tree->longest_root) * width, branch_size = rounded(tree->longest_branch) * width;
    Run root = {.keys = scratch, .values = grad ? scratch + root_size : 0};
    Run branch = {.keys = scratch + 2 * root_size, .values = grad ? scratch + 2 * root_size + branch_size : 0};
    float *score = scratch + 2 * (root_size + branch_size);
    float *slope = score + TILE * rounded(tree->longest_root) + TILE * rounded(tree->longest_branch);
    read_run(tree, tree->root + 2 * number, head, &root);
    for (int64_t r = tree->first[number] - 1; r < tree->first[number + 1]; r++) {
        int is_root = r < tree->first[number]; /* the root itself comes first */
        if (!is_root) read_run(tree, tree->branch + 2 * r, head, &branch);
        for (int64_t g = 0; g < group; g++) {
            const Run *before = is_root ? 0 : &root, *own = is_root ? &root : &branch;
            if (grad) run_back(tree, before, own, head * group + g, grad, grad_qkv, score, slope);
            else attend_run(tree, before, own, head * group + g, score);
        }
    }
}

/* Attends, or with `grad`, [S, H, W], adds the gradient of `qkv` to `grad_qkv`. Returns 0, or 1 where there was no memory. */
int agon_attend(const Tree *tree, const float *grad, float *grad_qkv) {
    const int64_t tasks = tree->roots * tree->kv_heads;
    const int64_t positions = rounded(tree->longest_root) + rounded(tree->longest_branch);
    int failed = 0;
    #pragma omp parallel reduction(| : failed)
    {
        float *scratch = malloc(2 * positions * (tree->width + TILE) * sizeof(float));
        failed = !scratch;
        #pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < tasks; task++)
            if (scratch) run_task(tree, task, grad, grad_qkv, scratch);
        free(scratch);
    }
    return failed;
}
