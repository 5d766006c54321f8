/* Draws one token for each row of logits by inverting the running sum of its probabilities. */
#include "kernels.h"

enum { PART = 256 }; /* tokens whose sum is looked at as one */

CLONES static void draw_row(const float *logits, int64_t vocabulary, float temperature, double uniform, float *weight,
                            int64_t *token, float *logprob) {
    const float scale = temperature > 0 ? 1 / temperature : 1, top = greatest(logits, vocabulary);
    double total = 0, sum = 0;
    int64_t found = 0;
    for (int64_t v = 0; v < vocabulary; v++) weight[v] = power_of_two((logits[v] - top) * (scale * LOG2_E));
    for (int64_t v = 0; v < vocabulary; v++) total += weight[v];
    if (temperature > 0) {
        const double target = uniform * total;
        int64_t from = 0;
        for (; from < vocabulary; from += PART) { /* the part in which the sum passes the target */
            const int64_t to = from + PART < vocabulary ? from + PART : vocabulary;
            double part = 0;
            for (int64_t v = from; v < to; v++) part += weight[v];
            if (sum + part > target) break;
            sum += part;
        }
        /* Sums of other parts are rounded otherwise: the token is the last one with a weight if the target is never passed. */
        for (int64_t v = from < vocabulary ? from : 0; v < vocabulary; v++) {
            if (weight[v] > 0) found = v;
            sum += weight[v];
            if (from < vocabulary && sum > target) break;
        }
    } else {
        while (found < vocabulary - 1 && logits[found] != top) found++;
    }
    *token = found;
    *logprob = (logits[found] - top) * scale - (float)log(total);
}

/* Tokens and their log-probabilities, [R], from logits (R, V) whose rows are `stride` apart. At temperature 0 the most likely
   token, with its log-probability at 1. Returns 0, or 1 where there was no memory. */
int agon_draw(const float *logits, int64_t stride, const double *uniform, float temperature, int64_t *token, float *logprob,
              int64_t rows, int64_t vocabulary) {
    int failed = 0;
    #pragma omp parallel reduction(| : failed)
    {
        float *weight = malloc(vocabulary * sizeof(float));
        failed = !weight;
        #pragma omp for schedule(static)
        for (int64_t r = 0; r < rows; r++)
            if (weight) draw_row(logits + r * stride, vocabulary, temperature, uniform[r], weight, token + r, logprob + r);
        free(weight);
    }
    return failed;
}
