/* gemm.c: the product of matrices, cut into cells of rows and columns that threads share. The
 * loops, from the outside: cell, panel of at most two vectors of columns, block of k, register tile
 * of rows.
 *
 * - A panel of b is copied next to each other (and widened to f32) unless it lies well and is used
 * by few rows only; a is used in place, 16-bit numbers excepted.
 * - c is updated in place where its rows are full vectors; else in a buffer that is copied in the
 * end.
 * - An element of c is ((c + sum over the first block of k) + sum over the second) ..., or without
 * c. Cells, panels and tiles have no part in that. SPDX-License-Identifier: MIT */
#include "runtime/gemm.h"

#include "runtime/dtype.h"
#include "runtime/gemm_internal.h"

#include <stdbool.h>
#include <string.h>

#define TN_FN static inline __attribute__((unused))
#include <math.h>

#include "runtime/kernels/math.h"
#include "runtime/kernels/number.h"

enum {
    KB = TN__GEMM_KB,
    ROWS = 512,                /* rows of a cell */
    TEMP_ROWS = 256,           /* rows of the buffer for c */
    WIDE_ROWS = 28,            /* rows of a widened to f32 at a time */
    COPY_BYTES = 112 * KB * 4, /* of rows that are copied at a time */
    SUMS = 64,                 /* elements of a sum cell */
    RUNS = 16, /* panels, and rows, of a b that are packed together, where its rows are long runs */
    PANEL_BYTES = KB * TN__GEMM_MAX_NR * 4,
    RUN_ROWS = 6,       /* that are worth a copy of a large b, in the order in which it is read */
    CELL_COST = 1000000 /* some 10 microseconds: worth another thread */
};

static inline float load(int dtype, const void *p, int64_t i)
{
    switch (dtype) {
    case TN_BF16:
        return tn_f32_from_bf16(((const uint16_t *)p)[i]);
    case TN_F16:
        return tn_f32_from_f16(((const uint16_t *)p)[i]);
    default:
        return ((const float *)p)[i];
    }
}

static inline void store(int dtype, void *p, int64_t i, float x)
{
    switch (dtype) {
    case TN_BF16:
        ((uint16_t *)p)[i] = tn_bf16_from_f32(x);
        break;
    case TN_F16:
        ((uint16_t *)p)[i] = tn_f16_from_f32(x);
        break;
    default:
        ((float *)p)[i] = x;
    }
}

/* to[i * width + j] = from[i * rows + j * cols], and zeros from n_j to `end`. */
static inline __attribute__((always_inline)) void widen_as(int dtype, float *restrict to,
                                                           int64_t width, int64_t end,
                                                           const void *from, int64_t rows,
                                                           int64_t cols, int64_t n_i, int64_t n_j)
{
    for (int64_t i = 0; i < n_i; i++) {
        if (cols == 1)
            for (int64_t j = 0; j < n_j; j++)
                to[i * width + j] = load(dtype, from, i * rows + j);
        else
            for (int64_t j = 0; j < n_j; j++)
                to[i * width + j] = load(dtype, from, i * rows + j * cols);
        for (int64_t j = n_j; j < end; j++)
            to[i * width + j] = 0.0f;
    }
}

static void widen_slowly(int dtype, float *to, int64_t width, int64_t end, const void *from,
                         int64_t rows, int64_t cols, int64_t n_i, int64_t n_j)
{
    if (dtype == TN_BF16)
        widen_as(TN_BF16, to, width, end, from, rows, cols, n_i, n_j);
    else
        widen_as(TN_F16, to, width, end, from, rows, cols, n_i, n_j);
}

/* The processor's kernel takes whole vectors; what is left are columns and rows at the end. */
static void widen(const Work *w, float *to, int64_t width, const void *from, int64_t rows,
                  int64_t cols, int64_t n_i, int64_t n_j)
{
    const int dtype = w->g.dtype;
    int64_t i = 0, j = 0;
    if (w->kernels->widen) {
        i = n_i;
        j = n_j;
        w->kernels->widen(dtype == TN_BF16, to, width, from, rows, cols, &i, &j);
    }
    const uint16_t *const f = from;
    if (i && j < width)
        widen_slowly(dtype, to + j, width, width - j, f + j * cols, rows, cols, i, n_j - j);
    if (i < n_i)
        widen_slowly(dtype, to + i * width, width, width, f + i * rows, rows, cols, n_i - i, n_j);
}

/* Between c and its buffer, whose rows are `width` long. */
void tn__gemm_fetch(const Work *w, const char *c, void *temp, int64_t width, int64_t m, int64_t n)
{
    const tn__gemm_operand *o = &w->g.c;
    const int64_t rows = o->rows, cols = o->cols;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < width; j++) {
            const int64_t at = i * rows + j * cols;
            if (w->g.dtype == TN_F64)
                ((double *)temp)[i * width + j] = j < n ? ((const double *)(const void *)c)[at] : 0;
            else
                ((float *)temp)[i * width + j] = j < n ? load(w->g.c_dtype, c, at) : 0;
        }
}

void tn__gemm_put(const Work *w, char *c, const void *temp, int64_t width, int64_t m, int64_t n)
{
    const int64_t rows = w->g.c.rows, cols = w->g.c.cols;
    if (rows == 1 && w->g.c_dtype == w->g.dtype && !w->narrow) {
        w->kernels->pack(c, cols, temp, 1, width, n, m, m); /* transposed */
    } else if (w->g.dtype == TN_F64) {
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                ((double *)(void *)c)[i * rows + j * cols] = ((const double *)temp)[i * width + j];
    } else {
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                store(w->g.c_dtype, c, i * rows + j * cols, ((const float *)temp)[i * width + j]);
    }
}

/* One block of k of a panel: rows of a times b, which is packed or lies well. */
static void run_panel(const Work *w, tn__gemm_panel *p, const char *a)
{
    const int64_t a_m = w->g.a.rows, a_k = w->g.a.cols;
    p->a_m = a_m;
    p->a_k = a_k;
    if (!w->narrow) {
        p->a = a;
        w->kernels->panel(p);
        return;
    }
    float wide[WIDE_ROWS * KB];
    tn__gemm_panel part = *p;
    for (int64_t m = 0; m < p->m; m += WIDE_ROWS) {
        part.m = least(WIDE_ROWS, p->m - m);
        part.c = (float *)p->c + m * p->c_m;
        part.a = wide;
        if (a_k == 1 || a_m != 1) {
            widen(w, wide, p->k, a + m * a_m * w->size, a_m, a_k, part.m, p->k);
            part.a_m = p->k;
            part.a_k = 1;
        } else {
            widen(w, wide, part.m, a + m * w->size, a_k, 1, p->k, part.m);
            part.a_m = 1;
            part.a_k = part.m;
        }
        w->kernels->panel(&part);
    }
}

/* c[0 .. m, 0 .. cols) for all k; cols <= width = vectors * lanes. */
static void panel_cell(const Work *w, const char *a, const char *b, char *c, int64_t m,
                       int64_t cols, int vectors)
{
    _Alignas(64) char packed[PANEL_BYTES];
    _Alignas(64) char temp[TEMP_ROWS * TN__GEMM_MAX_NR * 4];
    const tn__gemm_args *g = &w->g;
    const int64_t width = vectors * w->kernels->lanes;
    const bool direct = !w->narrow && g->c.cols == 1 && cols == width;
    const bool in_place = g->panels || (!w->narrow && g->b.cols == 1 && cols == width &&
                                        reads_in_place(m, g->k * g->n * w->size));
    const int64_t b_k = g->panels ? 2 * w->kernels->lanes : g->b.rows;
    tn__gemm_panel p = {.m = m, .c = c, .c_m = g->c.rows, .vectors = vectors};
    if (!direct) {
        p.c = temp;
        p.c_m = width;
        if (g->accumulate)
            tn__gemm_fetch(w, c, temp, width, m, cols);
    }
    int64_t k = 0;
    do {
        p.k = least(KB, g->k - k);
        p.add = k > 0 || g->accumulate;
        const char *const from = b + k * b_k * w->size;
        p.b = in_place ? from : packed;
        p.b_k = in_place ? b_k : width;
        if (w->narrow)
            widen(w, (float *)(void *)packed, width, from, g->b.rows, g->b.cols, p.k, cols);
        else if (!in_place)
            w->kernels->pack(packed, width, from, g->b.rows, g->b.cols, p.k, cols, width);
        run_panel(w, &p, a + k * g->a.cols * w->size);
        k += KB;
    } while (k < g->k);
    if (!direct)
        tn__gemm_put(w, c, temp, width, m, cols);
}

/* Rows by columns n0 .. n1-1 of c where k runs along the memory of a and b. */
static void dot_cell(const Work *w, const char *a, const char *b, char *c, int64_t m, int64_t n0,
                     int64_t n1)
{
    const tn__gemm_args *g = &w->g;
    const tn__gemm_dots p = {.m = m,
                             .n = n1 - n0,
                             .k = g->k,
                             .a = a,
                             .a_m = g->a.rows,
                             .b = b + n0 * g->b.cols * w->size,
                             .b_n = g->b.cols,
                             .c = c + n0 * g->c.cols * w->c_size,
                             .c_m = g->c.rows,
                             .c_n = g->c.cols,
                             .add = g->accumulate};
    w->kernels->dots(&p);
}

/* Where a panel of b begins, for the block of k from `k` on. */
static const char *panel_of(const Work *w, const char *b, int64_t n, int64_t k)
{
    const tn__gemm_args *g = &w->g;
    return g->panels ? (const char *)g->panels + (n * g->k + k * 2 * w->kernels->lanes) * w->size
                     : b + (k * g->b.rows + n * g->b.cols) * w->size;
}

/* Rows of a that lie a multiple of a page apart meet in one place of the first cache, which holds
 * fewer than a tile has. A block of them is copied together, for all panels of b. */
static bool wants_rows_copied(const Work *w, int64_t m)
{
    const tn__gemm_args *g = &w->g;
    return !w->narrow && g->a.cols == 1 && g->a.rows * w->size % PAGE == 0 && g->k > KB && m >= 8 &&
           (g->panels || (g->b.cols == 1 && g->n % (2 * w->kernels->lanes) == 0));
}

static void copied_rows(const Work *w, const char *a, const char *b, char *c, int64_t m, int64_t n0,
                        int64_t n1)
{
    const tn__gemm_args *g = &w->g;
    _Alignas(64) char rows[COPY_BYTES];
    _Alignas(64) char temp[COPY_BYTES / KB * TN__GEMM_MAX_NR];
    const int lanes = w->kernels->lanes;
    for (int64_t k = 0; k < g->k; k += KB) {
        tn__gemm_panel p = {.m = m, .k = least(KB, g->k - k), .a = rows, .a_k = 1};
        p.a_m = p.k;
        p.b_k = g->panels ? 2 * lanes : g->b.rows;
        p.add = k > 0 || g->accumulate;
        for (int64_t i = 0; i < m; i++)
            memcpy(rows + i * p.k * w->size, a + (i * g->a.rows + k) * w->size,
                   (size_t)(p.k * w->size));
        for (int64_t n = n0; n < n1; n += 2 * lanes) {
            const int64_t cols = least(n1 - n, 2 * lanes);
            p.vectors = cols > lanes ? 2 : 1;
            const int64_t width = p.vectors * lanes;
            char *const to = c + n * g->c.cols * w->c_size;
            const bool direct = g->c.cols == 1 && cols == width;
            p.b = panel_of(w, b, n, k);
            p.c = direct ? to : temp;
            p.c_m = direct ? g->c.rows : width;
            if (!direct && p.add)
                tn__gemm_fetch(w, to, temp, width, m, cols);
            w->kernels->panel(&p);
            if (!direct)
                tn__gemm_put(w, to, temp, width, m, cols);
        }
    }
}

/* The width of tiles of so few rows that the memory of b decides; 0: it does not. */
static int wide_vectors(const Work *w, int64_t m)
{
    const tn__gemm_args *g = &w->g;
    if (m > TN__GEMM_WIDE_ROWS || g->panels || w->narrow || g->b.cols != 1 || g->c.cols != 1)
        return 0;
    return w->kernels->wide;
}

/* Rows m0 .. m0 + m - 1 and columns n0 .. n1 - 1 of c. */
static void product_part(const Work *w, int64_t batch, int64_t m0, int64_t m, int64_t n0,
                         int64_t n1)
{
    const tn__gemm_args *g = &w->g;
    const int lanes = w->kernels->lanes;
    const char *const a = (char *)at_batch(g, &g->a, w->size, batch) + m0 * g->a.rows * w->size;
    const char *const b = at_batch(g, &g->b, w->size, batch);
    char *const c = (char *)at_batch(g, &g->c, w->c_size, batch) + m0 * g->c.rows * w->c_size;
    if (w->dots) {
        dot_cell(w, a, b, c, m, n0, n1);
        return;
    }
    if (wants_rows_copied(w, m)) {
        const int64_t step = COPY_BYTES / KB / w->size;
        for (int64_t i = 0; i < m; i += step)
            copied_rows(w, a + i * g->a.rows * w->size, b, c + i * g->c.rows * w->c_size,
                        least(step, m - i), n0, n1);
        return;
    }
    const int wide = wide_vectors(w, m);
    for (int64_t n = n0; n < n1;) {
        const int64_t left = n1 - n;
        const int vectors = wide && left >= 2 * lanes ? (int)least(wide, left / lanes)
                            : left > lanes            ? 2
                                                      : 1;
        const int64_t cols = least(left, vectors * lanes);
        const bool whole = !w->narrow && g->c.cols == 1 && cols == vectors * lanes;
        for (int64_t i = 0; i < m;) {
            const int64_t rows = least(m - i, whole ? m : TEMP_ROWS);
            panel_cell(w, a + i * g->a.rows * w->size, panel_of(w, b, n, 0),
                       c + (i * g->c.rows + n * g->c.cols) * w->c_size, rows, cols, vectors);
            i += rows;
        }
        n += cols;
    }
}

static void product_cell(const Work *w, int64_t cell)
{
    const tn__gemm_args *g = &w->g;
    const int64_t m0 = cell / w->n_cells % w->m_cells * w->rows;
    const int64_t n0 = cell % w->n_cells * w->panels * 2 * w->kernels->lanes;
    product_part(w, cell / (w->m_cells * w->n_cells), m0, least(w->rows, g->m - m0), n0,
                 least(g->n, n0 + w->panels * 2 * w->kernels->lanes));
}

/* sums[i] = sum over k of x[i * step + k * k_step]: block by block of k, each from the start. */
static inline __attribute__((always_inline)) void sum_as(int dtype, const void *x, int64_t step,
                                                         int64_t k_step, int64_t k, int64_t n,
                                                         float *restrict sums)
{
    for (int64_t k0 = 0; k0 < k; k0 += KB) {
        float part[SUMS] = {0};
        for (int64_t l = k0; l < least(k, k0 + KB); l++)
            for (int64_t i = 0; i < n; i++)
                part[i] += load(dtype, x, i * step + l * k_step);
        for (int64_t i = 0; i < n; i++)
            sums[i] += part[i];
    }
}

/* What is not as frequent is one small function. */
static __attribute__((noinline, cold)) void sum_any(int dtype, const void *x, int64_t step,
                                                    int64_t k_step, int64_t k, int64_t n,
                                                    float *restrict sums)
{
    sum_as(dtype, x, step, k_step, k, n, sums);
}

static void sum_f64(const double *x, int64_t step, int64_t k_step, int64_t k, int64_t n,
                    double *restrict sums)
{
    for (int64_t k0 = 0; k0 < k; k0 += KB) {
        double part[SUMS] = {0};
        for (int64_t l = k0; l < least(k, k0 + KB); l++)
            for (int64_t i = 0; i < n; i++)
                part[i] += x[i * step + l * k_step];
        for (int64_t i = 0; i < n; i++)
            sums[i] += part[i];
    }
}

static void sum_cell(const Work *w, const void *x, int64_t step, int64_t k_step, int64_t n,
                     void *to, int64_t to_step)
{
    const int dtype = w->g.dtype, c_dtype = w->g.c_dtype;
    const int64_t k = w->g.k;
    const bool add = w->g.accumulate_sums;
    if (dtype == TN_F64) {
        double sums[SUMS] = {0}, *const out = to;
        sum_f64(x, step, k_step, k, n, sums);
        for (int64_t i = 0; i < n; i++)
            out[i * to_step] = add ? out[i * to_step] + sums[i] : sums[i];
        return;
    }
    float sums[SUMS] = {0};
    if (dtype == TN_F32 && step == 1)
        sum_as(TN_F32, x, 1, k_step, k, n, sums);
    else
        sum_any(dtype, x, step, k_step, k, n, sums);
    for (int64_t i = 0; i < n; i++)
        store(c_dtype, to, i * to_step, add ? load(c_dtype, to, i * to_step) + sums[i] : sums[i]);
}

static void sum_a_cell(const Work *w, int64_t cell)
{
    const tn__gemm_args *g = &w->g;
    const int64_t batch = cell / w->sum_a_cells, i = cell % w->sum_a_cells * SUMS;
    const char *const a = at_batch(g, &g->a, w->size, batch);
    char *const to = at_batch(g, &g->sum_a, w->c_size, batch);
    sum_cell(w, a + i * g->a.rows * w->size, g->a.rows, g->a.cols, least(SUMS, g->m - i),
             to + i * g->sum_a.rows * w->c_size, g->sum_a.rows);
}

static void sum_b_cell(const Work *w, int64_t cell)
{
    const tn__gemm_args *g = &w->g;
    const int64_t batch = cell / w->sum_b_cells, i = cell % w->sum_b_cells * SUMS;
    const char *const b = at_batch(g, &g->b, w->size, batch);
    char *const to = at_batch(g, &g->sum_b, w->c_size, batch);
    sum_cell(w, b + i * g->b.cols * w->size, g->b.cols, g->b.rows, least(SUMS, g->n - i),
             to + i * g->sum_b.cols * w->c_size, g->sum_b.cols);
}

static void run_cells(void *ctx, int64_t lo, int64_t hi)
{
    const Work *w = ctx;
    const int64_t sum_a_end = w->products + w->sum_a_cells * batches(&w->g);
    for (int64_t cell = lo; cell < hi; cell++)
        if (cell < w->products)
            product_cell(w, cell);
        else if (cell < sum_a_end)
            sum_a_cell(w, cell - w->products);
        else
            sum_b_cell(w, cell - sum_a_end);
}

static const tn__gemm_kernels *kernels_for(int dtype, tn__gemm_processor most)
{
#if defined(__x86_64__)
    if (most >= TN__GEMM_AVX512 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
        return dtype == TN_F64 ? &tn__gemm_f64_avx512 : &tn__gemm_f32_avx512;
    if (most >= TN__GEMM_AVX2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("f16c"))
        return dtype == TN_F64 ? &tn__gemm_f64_avx2 : &tn__gemm_f32_avx2;
#endif
    (void)most;
    return dtype == TN_F64 ? &tn__gemm_f64_base : &tn__gemm_f32_base;
}

static tn__gemm_operand transposed(tn__gemm_operand o)
{
    const int64_t rows = o.rows;
    o.rows = o.cols;
    o.cols = rows;
    return o;
}

/* c' = b' a': the same numbers in the same order. */
static void transpose(tn__gemm_args *g)
{
    const tn__gemm_operand a = g->a, sum_a = g->sum_a;
    const int64_t m = g->m;
    g->m = g->n;
    g->n = m;
    g->a = transposed(g->b);
    g->b = transposed(a);
    g->c = transposed(g->c);
    g->sum_a = transposed(g->sum_b);
    g->sum_b = transposed(sum_a);
}

/* What a product costs beside the multiplications, in copied numbers: b, twice as much when its
 * rows are not neighbours, nothing when it is used in place; c, when it goes through a buffer. */
static int64_t side_cost(int64_t m, int64_t n, int64_t k, int64_t b_cols, int64_t c_cols)
{
    const int64_t b = b_cols != 1 ? 2 * k * n : reads_in_place(m, k * n * 4) ? 0 : k * n;
    return b + (c_cols == 1 ? 0 : 2 * m * n);
}

static bool wants_transpose(const Work *w)
{
    const tn__gemm_args *g = &w->g;
    if (tn__gemm_is_large(w)) /* both are copied in any case */
        return g->c.rows == 1 && g->c.cols != 1;
    return side_cost(g->n, g->m, g->k, g->a.rows, g->c.rows) <
           side_cost(g->m, g->n, g->k, g->b.cols, g->c.cols);
}

/* Few rows, or few columns, and k along the memory of both. */
static bool wants_dots(const Work *w)
{
    const tn__gemm_args *g = &w->g;
    return !w->narrow && (g->a.cols == 1 || g->k == 1) && (g->b.rows == 1 || g->k == 1) &&
           least(g->m, g->n) <= DOT_ROWS && g->k >= 16;
}

/* Cells: enough for all threads, none too small. */
static void plan_cells(Work *w, int threads)
{
    const tn__gemm_args *g = &w->g;
    const int64_t all = divide_up(g->n, 2 * w->kernels->lanes), mr = w->kernels->mr,
                  count = batches(g);
    w->rows = least(g->m, ROWS / mr * mr);
    w->panels = all;
    const int64_t each = wide_vectors(w, g->m) ? 1 : 4; /* long runs of memory, or small rests */
    const int64_t wanted = threads > 1 ? each * threads : 1;
    for (;;) {
        w->m_cells = divide_up(g->m, w->rows);
        w->n_cells = divide_up(all, w->panels);
        if (count * w->m_cells * w->n_cells >= wanted)
            break;
        if (w->panels > 1)
            w->panels = divide_up(w->panels, 2);
        else if (w->rows > 2 * mr)
            w->rows = divide_up(divide_up(w->rows, 2), mr) * mr;
        else
            break;
    }
    w->products = count * w->m_cells * w->n_cells;
}

int tn__gemm(const tn__gemm_args *args, tn__pool *pool)
{
    return tn__gemm_on(args, pool, TN__GEMM_AVX512);
}

/* What does not depend on cells; -1: it makes no sense. */
static int prepare(Work *w, const tn__gemm_args *args, tn__gemm_processor most)
{
    tn__gemm_args *const g = &w->g;
    w->g = *args;
    g->c_dtype = g->c_dtype ? g->c_dtype : g->dtype;
    if (!g->batch[0] && !g->batch[1] && !g->batch[2])
        g->batch[0] = g->batch[1] = g->batch[2] = 1;
    w->narrow = g->dtype == TN_BF16 || g->dtype == TN_F16;
    if ((g->dtype != TN_F32 && g->dtype != TN_F64 && !w->narrow) ||
        (g->c_dtype != g->dtype && !(w->narrow && g->c_dtype == TN_F32)) || g->m < 0 || g->n < 0 ||
        g->k < 0 || g->batch[0] < 0 || g->batch[1] < 0 || g->batch[2] < 0)
        return -1;
    g->sum_a.rows = g->sum_a.rows ? g->sum_a.rows : g->sum_a.cols;
    g->sum_b.cols = g->sum_b.cols ? g->sum_b.cols : g->sum_b.rows;
    w->kernels = kernels_for(g->dtype, most);
    w->dots = wants_dots(w);
    if (w->dots || w->narrow)
        g->panels = NULL;
    w->size = (int64_t)tn__dtype_size(g->dtype);
    w->c_size = (int64_t)tn__dtype_size(g->c_dtype);
    return 0;
}

static void plan_sums(Work *w)
{
    w->sum_a_cells = w->g.sum_a.data ? divide_up(w->g.m, SUMS) : 0;
    w->sum_b_cells = w->g.sum_b.data ? divide_up(w->g.n, SUMS) : 0;
}

static void run_all(Work *w, tn__pool *pool, double cost)
{
    const int64_t cells = w->products + (w->sum_a_cells + w->sum_b_cells) * batches(&w->g);
    const double each = cost / (double)(cells ? cells : 1);
    const int64_t grain = cost < 2 * CELL_COST ? cells : (int64_t)(CELL_COST / (each + 1.0));
    tn__pool_run(pool, run_cells, w, cells, grain);
}

/* Operations, and bytes of the larger operand, which take as long: with few rows it is memory that
 * counts, and a part of b that stays in the cache of each thread is worth more than the whole in
 * none. */
static double cost_of(const Work *w)
{
    const tn__gemm_args *g = &w->g;
    const double m = (double)g->m, n = (double)g->n, k = (double)g->k;
    return (2.0 * m * n * k + (m < n ? n : m) * k * (double)w->size) * (double)batches(g);
}

int tn__gemm_on(const tn__gemm_args *args, tn__pool *pool, tn__gemm_processor most)
{
    Work w = {0};
    if (prepare(&w, args, most))
        return -1;
    const tn__gemm_args *const g = &w.g;
    if (!batches(g))
        return 0;
    if (w.dots ? g->m > g->n : !g->panels && wants_transpose(&w))
        transpose(&w.g);
    const double cost = cost_of(&w);
    const bool done = !w.dots && tn__gemm_is_large(&w) && tn__gemm_large(&w, pool);
    if (g->m && g->n && !done)
        plan_cells(&w, cost < 2 * CELL_COST ? 1 : tn__pool_threads(pool));
    plan_sums(&w);
    if (!done || w.sum_a_cells || w.sum_b_cells)
        run_all(&w, pool, cost);
    return 0;
}

int tn__gemm_rows(const tn__gemm_args *args, int64_t lo, int64_t hi)
{
    Work w = {0};
    if (prepare(&w, args, TN__GEMM_AVX512))
        return -1;
    while (lo < hi) {
        const int64_t m0 = lo % w.g.m, m = least(w.g.m - m0, hi - lo);
        if (!tn__gemm_large_rows(&w, lo / w.g.m, m0, m))
            product_part(&w, lo / w.g.m, m0, m, 0, w.g.n);
        lo += m;
    }
    return 0;
}

int tn__gemm_sums(const tn__gemm_args *args, tn__pool *pool)
{
    Work w = {0};
    if (prepare(&w, args, TN__GEMM_AVX512))
        return -1;
    plan_sums(&w);
    if (batches(&w.g) && (w.sum_a_cells || w.sum_b_cells))
        run_all(&w, pool, 2.0 * (double)w.g.k * (double)(w.g.m + w.g.n) * (double)batches(&w.g));
    return 0;
}

/* --- b packed beforehand -----------------------------------------------------------------------
 */

typedef struct {
    const Work *w;
    char *to;
} Packing;

/* Panels lo .. hi-1: two vectors of columns each, zero beyond the last one, all of k. */
static void pack_panels(void *ctx, int64_t lo, int64_t hi)
{
    const Packing *p = ctx;
    const Work *w = p->w;
    const tn__gemm_args *g = &w->g;
    const int64_t nr = 2 * w->kernels->lanes, step = g->b.cols == 1 ? RUNS : KB;
    for (int64_t k = 0; k < g->k; k += step)
        for (int64_t i = lo; i < hi; i++) {
            const int64_t n = i * nr;
            w->kernels->pack(p->to + (n * g->k + k * nr) * w->size, nr,
                             (const char *)g->b.data + (k * g->b.rows + n * g->b.cols) * w->size,
                             g->b.rows, g->b.cols, least(step, g->k - k), least(nr, g->n - n), nr);
        }
}

static int64_t panels_of(const Work *w)
{
    return divide_up(w->g.n, 2 * w->kernels->lanes);
}

/* A b whose columns are neighbours: what lies in no cache is met sooner in one run. */
static bool is_best_in_place(const Work *w, bool kept)
{
    const int64_t bytes = w->g.k * w->g.n * w->size;
    if (w->g.b.cols != 1)
        return false;
    return reads_in_place(w->g.m, bytes) &&
           !(kept && w->g.m >= RUN_ROWS && bytes > 2 * SMALL_BYTES);
}

size_t tn__gemm_pack_bytes(const tn__gemm_args *args, bool kept)
{
    Work w = {0};
    if (prepare(&w, args, TN__GEMM_AVX512) || w.narrow || w.dots || w.g.c.cols != 1 || w.g.m < 2 ||
        is_best_in_place(&w, kept))
        return 0;
    for (int i = 0; i < TN__GEMM_BATCHES; i++)
        if (w.g.batch[i] > 1 && w.g.b.batch[i])
            return 0;
    return (size_t)(panels_of(&w) * 2 * w.kernels->lanes * w.g.k * w.size);
}

void tn__gemm_pack(const tn__gemm_args *args, void *to, tn__pool *pool)
{
    Work w = {0};
    if (prepare(&w, args, TN__GEMM_AVX512))
        return;
    Packing p = {&w, to};
    tn__pool_run(pool, pack_panels, &p, panels_of(&w),
                 w.g.b.cols == 1 ? RUNS : 1 + 32768 / (w.g.k + 1) / 32);
}
