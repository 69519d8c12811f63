/* gemm_large.c: products large enough to copy both operands. For each block of columns and each
 * block of k, threads first copy b into panels, then for each block of rows a into tiles, then
 * multiply: a panel stays in the nearest cache while the tiles pass by. Copies are read and written
 * in long runs, so strides that are multiples of a page cost nothing later.
 * SPDX-License-Identifier: MIT */
#include "runtime/dtype.h"
#include "runtime/gemm_internal.h"

#include <string.h>

enum {
    KB = TN__GEMM_KB,
    MB = 252,        /* rows of a block: 1 MiB of f32 */
    NB = 1024,       /* columns of a block: 2 MiB */
    STRIP = 16,      /* rows of b copied by one thread at a time */
    WIDEST = 14 * 4, /* bytes of a column of the highest tile of f32 */
    TEMP_ROWS = 256  /* rows of the buffer for c, as in gemm.c */
};

/* One block of the product and the copies of its operands. */
typedef struct {
    const Work *w;
    bool a_in_place, b_in_place;
    const char *a, *b; /* at the block's first element */
    char *c;
    char *tiles, *panels; /* copies: tile after tile, panel after panel, each for all of k */
    int64_t m, n, k;
    int64_t nr;        /* columns of a panel */
    int64_t tile_rows; /* of the copy: MR, the last ones lower */
    bool add;
    int64_t cell_tiles, cell_panels, row_cells;
} Block;

/* Rows are KB numbers long; when a has its rows, not its columns, next to each other, the other
 * way. */
static bool keeps_rows(const Block *b)
{
    return b->w->g.a.rows != 1 || b->w->g.a.cols == 1;
}

static void copy_rows(const Block *b, int64_t lo, int64_t hi)
{
    const int64_t size = b->w->size, rows = b->w->g.a.rows, cols = b->w->g.a.cols;
    for (int64_t m = lo; m < hi; m++) {
        const char *const from = b->a + m * rows * size;
        char *const to = b->tiles + m * b->k * size;
        if (cols == 1)
            memcpy(to, from, (size_t)(b->k * size));
        else if (size == 4)
            for (int64_t k = 0; k < b->k; k++)
                ((float *)(void *)to)[k] = ((const float *)(const void *)from)[k * cols];
        else
            for (int64_t k = 0; k < b->k; k++)
                ((double *)(void *)to)[k] = ((const double *)(const void *)from)[k * cols];
    }
}

/* Columns of a, k = lo .. hi-1, into tiles that have one column after another. */
static void copy_columns(const Block *b, int64_t lo, int64_t hi)
{
    const int64_t size = b->w->size, cols = b->w->g.a.cols, high = b->tile_rows;
    for (int64_t k = lo; k < hi; k++) {
        const char *const from = b->a + k * cols * size;
        int64_t m = 0;
        if (high * size == WIDEST) /* a few moves in place of a call */
            for (; m + high <= b->m; m += high)
                memcpy(b->tiles + (m * b->k + k * high) * size, from + m * size, WIDEST);
        for (; m < b->m; m += high) {
            const int64_t rows = least(high, b->m - m);
            memcpy(b->tiles + (m * b->k + k * rows) * size, from + m * size, (size_t)(rows * size));
        }
    }
}

static void copy_a(void *ctx, int64_t lo, int64_t hi)
{
    const Block *b = ctx;
    if (keeps_rows(b))
        copy_rows(b, lo, hi);
    else
        copy_columns(b, lo, hi);
}

/* Strips of k when the rows of b are long runs, else panels. */
static void copy_b(void *ctx, int64_t lo, int64_t hi)
{
    const Block *b = ctx;
    const Work *w = b->w;
    const int64_t rows = w->g.b.rows, cols = w->g.b.cols, size = w->size;
    const bool strips = cols == 1;
    for (int64_t cell = lo; cell < hi; cell++) {
        const int64_t k = strips ? cell * STRIP : 0, nk = strips ? least(STRIP, b->k - k) : b->k;
        const int64_t n0 = strips ? 0 : cell * b->nr, n1 = strips ? b->n : least(b->n, n0 + b->nr);
        for (int64_t n = n0; n < n1; n += b->nr)
            w->kernels->pack(b->panels + (n * b->k + k * b->nr) * size, b->nr,
                             b->b + (k * rows + n * cols) * size, rows, cols, nk,
                             least(b->nr, n1 - n), b->nr);
    }
}

/* A panel times the tiles m .. m + rows of the block. */
static void multiply_panel(const Block *b, int64_t n, int64_t m0, int64_t m1)
{
    _Alignas(64) char temp[TEMP_ROWS * TN__GEMM_MAX_NR * 4];
    const Work *w = b->w;
    const int64_t cols = least(b->nr, b->n - n), size = w->size, lanes = w->kernels->lanes;
    const int64_t width = cols > lanes ? 2 * lanes : lanes;
    const bool direct = w->g.c.cols == 1 && cols == width, rows_kept = keeps_rows(b);
    const int64_t step = rows_kept ? TEMP_ROWS / b->tile_rows * b->tile_rows : b->tile_rows;
    for (int64_t m = m0; m < m1; m += step) {
        const int64_t rows = least(step, m1 - m);
        char *const c = b->c + (m * w->g.c.rows + n * w->g.c.cols) * size;
        tn__gemm_panel p = {.m = rows,
                            .k = b->k,
                            .a = b->a_in_place ? b->a + m * w->g.a.rows * size
                                               : b->tiles + m * b->k * size,
                            .a_m = b->a_in_place ? w->g.a.rows
                                   : rows_kept   ? b->k
                                                 : 1,
                            .a_k = b->a_in_place ? w->g.a.cols
                                   : rows_kept   ? 1
                                                 : rows,
                            .b = w->g.panels     ? b->b + n * w->g.k * size
                                 : b->b_in_place ? b->b + n * size
                                                 : b->panels + n * b->k * size,
                            .b_k = b->b_in_place && !w->g.panels ? w->g.b.rows : b->nr,
                            .c = direct ? c : temp,
                            .c_m = direct ? w->g.c.rows : width,
                            .add = b->add,
                            .vectors = width > lanes ? 2 : 1};
        if (!direct && b->add)
            tn__gemm_fetch(w, c, temp, width, rows, cols);
        w->kernels->panel(&p);
        if (!direct)
            tn__gemm_put(w, c, temp, width, rows, cols);
    }
}

static void multiply(void *ctx, int64_t lo, int64_t hi)
{
    const Block *b = ctx;
    for (int64_t cell = lo; cell < hi; cell++) {
        const int64_t m0 = cell / b->row_cells * b->cell_tiles * b->tile_rows;
        const int64_t m1 = least(b->m, m0 + b->cell_tiles * b->tile_rows);
        const int64_t n0 = cell % b->row_cells * b->cell_panels * b->nr;
        const int64_t n1 = least(b->n, n0 + b->cell_panels * b->nr);
        for (int64_t n = n0; n < n1; n += b->nr)
            multiply_panel(b, n, m0, m1);
    }
}

/* Cells of the product: whole columns of the block if they are enough for all threads. */
static int64_t plan(Block *b, int threads)
{
    const int64_t tiles = divide_up(b->m, b->tile_rows), panels = divide_up(b->n, b->nr);
    const int64_t wanted = threads > 1 ? 4 * threads : 1;
    b->cell_panels = divide_up(panels, least(panels, wanted));
    b->row_cells = divide_up(panels, b->cell_panels);
    const int64_t columns = divide_up(wanted, b->row_cells);
    b->cell_tiles = divide_up(tiles, least(divide_up(tiles, 2), columns));
    return divide_up(tiles, b->cell_tiles) * b->row_cells;
}

static void run_batch(Block *b, const char *a, const char *b_, char *c, tn__pool *pool)
{
    const Work *w = b->w;
    const tn__gemm_args *g = &w->g;
    b->a_in_place = g->a.cols == 1 && g->a.rows * w->size % PAGE != 0;
    b->b_in_place = g->panels || (g->b.cols == 1 && g->m <= IN_PLACE_ROWS && g->n % b->nr == 0);
    for (int64_t n = 0; n < g->n; n += NB)
        for (int64_t k = 0; k < g->k; k += KB) {
            b->n = least(NB, g->n - n);
            b->k = least(KB, g->k - k);
            b->add = k > 0 || g->accumulate;
            b->b = g->panels ? (const char *)g->panels + (n * g->k + k * b->nr) * w->size
                             : b_ + (k * g->b.rows + n * g->b.cols) * w->size;
            const int64_t strips = g->b.cols == 1 ? divide_up(b->k, STRIP) : divide_up(b->n, b->nr);
            if (!b->b_in_place)
                tn__pool_run(pool, copy_b, b, strips, 1);
            for (int64_t m = 0; m < g->m; m += MB) {
                b->m = least(MB, g->m - m);
                b->a = a + (m * g->a.rows + k * g->a.cols) * w->size;
                b->c = c + (m * g->c.rows + n * g->c.cols) * w->size;
                if (!b->a_in_place)
                    tn__pool_run(pool, copy_a, b, keeps_rows(b) ? b->m : b->k, STRIP);
                tn__pool_run(pool, multiply, b, plan(b, tn__pool_threads(pool)), 1);
            }
        }
}

bool tn__gemm_is_large(const Work *w)
{
    const tn__gemm_args *g = &w->g;
    const int64_t size = (int64_t)(g->dtype == TN_F64 ? sizeof(double) : sizeof(float));
    const int64_t few = least(g->m, g->n), many = g->m + g->n - few;
    if (w->narrow || g->k < 32 || few * many < 128 * 128)
        return false;
    /* with few rows (or columns) the other operand is only worth a copy if it cannot be used in
     * place */
    const bool b_in_rows = g->m == few ? g->b.cols == 1 : g->a.rows == 1;
    if (g->b.cols == 1 && g->m <= IN_PLACE_ROWS) /* b is used in place; is a better copied? */
        return g->m > 3 * w->kernels->mr && g->k > KB && g->a.cols == 1 &&
               g->a.rows * size % PAGE == 0 && g->n % (2 * w->kernels->lanes) == 0;
    return few >= 96 || (few > 3 * w->kernels->mr && b_in_rows);
}

bool tn__gemm_large(const Work *w, tn__pool *pool)
{
    const tn__gemm_args *g = &w->g;
    Block b = {.w = w, .nr = 2 * w->kernels->lanes, .tile_rows = w->kernels->mr};
    const int64_t k = least(KB, g->k), m = least(MB, g->m);
    const int64_t n = divide_up(least(NB, g->n), b.nr) * b.nr;
    char *const scratch = tn__pool_take(pool, (size_t)((m + n) * k * w->size));
    if (!scratch)
        return false;
    b.panels = scratch;
    b.tiles = scratch + n * k * w->size;
    for (int64_t i = 0; i < batches(g); i++)
        run_batch(&b, at_batch(g, &g->a, w->size, i), at_batch(g, &g->b, w->size, i),
                  at_batch(g, &g->c, w->size, i), pool);
    tn__pool_give(pool, scratch);
    return true;
}
