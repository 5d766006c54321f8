/* `multiply` and `multiply_transposed` for vectors of FLOATS numbers, of which there are registers for ROWS rows by two. */
#define JOIN(name, number) name##_##number
#define NAMED(name, number) JOIN(name, number)
#define vector NAMED(vector, FLOATS)
#define multiply_rows NAMED(multiply_rows, FLOATS)

typedef float vector __attribute__((vector_size(4 * FLOATS), aligned(4), may_alias));

/* For some number of rows that is known when this is compiled. */
INLINE void multiply_rows(const float *const *a, const float *b, int64_t stride, int64_t inner, int64_t columns, int more,
                          float *const *out, const int rows) {
    int64_t j = 0;
    for (; j + FLOATS < columns; j += 2 * FLOATS) {
        vector low[ROWS] = {0}, high[ROWS] = {0};
        if (more)
            for (int m = 0; m < rows; m++) low[m] = *(vector *)(out[m] + j), high[m] = *(vector *)(out[m] + j + FLOATS);
        for (int64_t i = 0; i < inner; i++) {
            vector first = *(const vector *)(b + i * stride + j), second = *(const vector *)(b + i * stride + j + FLOATS);
            for (int m = 0; m < rows; m++) low[m] += first * a[m][i], high[m] += second * a[m][i];
        }
        for (int m = 0; m < rows; m++) *(vector *)(out[m] + j) = low[m], *(vector *)(out[m] + j + FLOATS) = high[m];
    }
    if (j < columns) {
        vector sum[ROWS] = {0};
        if (more)
            for (int m = 0; m < rows; m++) sum[m] = *(vector *)(out[m] + j);
        for (int64_t i = 0; i < inner; i++) {
            vector next = *(const vector *)(b + i * stride + j);
            for (int m = 0; m < rows; m++) sum[m] += next * a[m][i];
        }
        for (int m = 0; m < rows; m++) *(vector *)(out[m] + j) = sum[m];
    }
}

static void NAMED(multiply, FLOATS)(const float *const *a, const float *b, int64_t stride, int64_t inner, int64_t columns,
                                    int more, float *const *out, int64_t rows) {
    for (int64_t m = 0; m < rows; m += ROWS, a += ROWS, out += ROWS) switch (rows - m) {
            case 1: multiply_rows(a, b, stride, inner, columns, more, out, 1); break;
            case 2: multiply_rows(a, b, stride, inner, columns, more, out, 2); break;
            case 3: multiply_rows(a, b, stride, inner, columns, more, out, 3); break;
#if ROWS > 4
            case 4: multiply_rows(a, b, stride, inner, columns, more, out, 4); break;
            case 5: multiply_rows(a, b, stride, inner, columns, more, out, 5); break;
            case 6: multiply_rows(a, b, stride, inner, columns, more, out, 6); break;
            case 7: multiply_rows(a, b, stride, inner, columns, more, out, 7); break;
#endif
            default: multiply_rows(a, b, stride, inner, columns, more, out, ROWS);
        }
}

static void NAMED(multiply_transposed, FLOATS)(const float *const *a, const float *const *b, int64_t rows, int64_t columns,
                                               float *out, int64_t stride) {
    for (int64_t from = 0; from < TILE; from += ROWS) {
        const float *row[ROWS]; /* not `a`, which might change where a sum is written */
        for (int m = 0; m < ROWS; m++) row[m] = a[from + m];
        int64_t j = 0;
        for (; j + FLOATS < columns; j += 2 * FLOATS) {
            vector low[ROWS], high[ROWS];
            for (int m = 0; m < ROWS; m++)
                low[m] = *(const vector *)(b[from + m] + j), high[m] = *(const vector *)(b[from + m] + j + FLOATS);
            for (int64_t i = 0; i < rows; i++) {
                vector *to = (vector *)(out + i * stride + j), *next = (vector *)(out + i * stride + j + FLOATS);
                vector sum = *to, more = *next;
                for (int m = 0; m < ROWS; m++) sum += low[m] * row[m][i], more += high[m] * row[m][i];
                *to = sum, *next = more;
            }
        }
        if (j < columns) {
            vector part[ROWS];
            for (int m = 0; m < ROWS; m++) part[m] = *(const vector *)(b[from + m] + j);
            for (int64_t i = 0; i < rows; i++) {
                vector sum = *(vector *)(out + i * stride + j);
                for (int m = 0; m < ROWS; m++) sum += part[m] * row[m][i];
                *(vector *)(out + i * stride + j) = sum;
            }
        }
    }
}

#undef multiply_rows
#undef vector
#undef NAMED
#undef JOIN
#undef ROWS
#undef FLOATS
