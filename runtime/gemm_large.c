/* gemm_large.c: products large enough to copy the right operand. For each block of columns and each
 * block of k, threads first copy b into panels, which then lie in the second cache; a tile of rows
 * of a stays in the nearest one while the panels pass by. An a whose rows are not long runs is
 * copied into tiles, a block of rows at a time. SPDX-License-Identifier: MIT */
#include "runtime/dtype.h"
#include "runtime/gemm_internal.h"

#include <string.h>

enum {
    KB = TN__GEMM_KB,
    MB = 252,        /* rows of a block: 1 MiB of f32 */
    NB = 1024,       /* columns of a block: 2 MiB */
    STRIP = 16,      /* rows of b copied by one thread at a time */
    WIDEST = 14 * 4, /* bytes of a column of the highest tile of f32 */
    TILE_MOST = 14   /* rows of the highest tile of f32; those of f64 have less than half of it */
};

/* One block of the product and the copies of its operands. */
typedef struct {
    const Work *w;
    bool a_in_place;
    int64_t rows;      /* of c, of all blocks */
    const char *a, *b; /* at the block's first element */
    char *c;
    char *tiles, *panels; /* copies: tile after tile, panel after panel, each for all of k; tiles
                             have one column after another */
    int64_t m, n, k;
    int64_t nr; /* columns of a panel */
    int64_t tile_rows, m_tiles;
    bool add;
    int64_t cell_tiles, cell_panels, row_cells;
} Block;

static int64_t tile_start(const Block *b, int64_t tile);

/* Tiles lo .. hi-1 of an a that has neither its rows nor its columns next to each other. */
static void copy_tiles(const Block *b, int64_t lo, int64_t hi)
{
    const int64_t size = b->w->size, rows = b->w->g.a.rows, cols = b->w->g.a.cols;
    for (int64_t t = lo; t < hi; t++) {
        const int64_t m = tile_start(b, t), high = tile_start(b, t + 1) - m;
        b->w->kernels->pack(b->tiles + m * b->k * size, high, b->a + m * rows * size, cols, rows,
                            b->k, high, high);
    }
}

/* Columns of a, k = lo .. hi-1, that are long runs. */
static void copy_columns(const Block *b, int64_t lo, int64_t hi)
{
    const int64_t size = b->w->size, cols = b->w->g.a.cols;
    for (int64_t k = lo; k < hi; k++) {
        const char *const from = b->a + k * cols * size;
        for (int64_t t = 0, m = 0; t < b->m_tiles; t++) {
            const int64_t end = tile_start(b, t + 1), rows = end - m;
            char *const to = b->tiles + (m * b->k + k * rows) * size;
            if (rows * size == WIDEST) /* a few moves in place of a call */
                memcpy(to, from + m * size, WIDEST);
            else
                memcpy(to, from + m * size, (size_t)(rows * size));
            m = end;
        }
    }
}

static void copy_a(void *ctx, int64_t lo, int64_t hi)
{
    const Block *b = ctx;
    if (b->w->g.a.rows == 1)
        copy_columns(b, lo, hi);
    else
        copy_tiles(b, lo, hi);
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

/* A tile of rows from m on times a panel of columns from n on; a: the tile. */
static void multiply_tile(const Block *b, tn__gemm_panel *p, int64_t m, int64_t n)
{
    _Alignas(64) char temp[TILE_MOST * TN__GEMM_MAX_NR * 4];
    const Work *w = b->w;
    const tn__gemm_args *g = &w->g;
    const int64_t cols = least(b->nr, b->n - n), size = w->size, lanes = w->kernels->lanes;
    const int64_t width = cols > lanes ? 2 * lanes : lanes;
    const bool direct = g->c.cols == 1 && cols == width;
    char *const c = b->c + (m * g->c.rows + n * g->c.cols) * size;
    p->b = g->panels ? b->b + n * g->k * size : b->panels + n * b->k * size;
    p->c = direct ? c : temp;
    p->c_m = direct ? g->c.rows : width;
    p->vectors = width > lanes ? 2 : 1;
    if (!direct && b->add)
        tn__gemm_fetch(w, c, temp, width, p->m, cols);
    w->kernels->panel(p);
    if (!direct)
        tn__gemm_put(w, c, temp, width, p->m, cols);
}

/* Tiles of nearly equal height: a last one of a row or two would waste registers. */
static int64_t tile_start(const Block *b, int64_t tile)
{
    return b->m * tile / b->m_tiles;
}

/* Rows m .. m + p->m - 1 of a as the kernel reads them. Rows that lie a multiple of a page apart
 * meet in one place of the nearest cache, which holds fewer than a tile has: they are copied. */
static void take_tile(const Block *b, tn__gemm_panel *p, int64_t m, char *copy)
{
    const tn__gemm_operand *o = &b->w->g.a;
    const int64_t size = b->w->size;
    p->a = b->tiles + m * b->k * size;
    p->a_m = 1;
    p->a_k = p->m;
    if (!b->a_in_place)
        return;
    p->a = b->a + m * o->rows * size;
    p->a_m = o->rows;
    p->a_k = 1;
    if (o->rows * size % PAGE)
        return;
    for (int64_t i = 0; i < p->m; i++)
        memcpy(copy + i * b->k * size, b->a + (m + i) * o->rows * size, (size_t)(b->k * size));
    p->a = copy;
    p->a_m = b->k;
}

/* A tile stays in the nearest cache while the panels pass by: rows of c are met in long runs. */
static void multiply(void *ctx, int64_t lo, int64_t hi)
{
    _Alignas(64) char copy[TILE_MOST * KB * 4];
    const Block *b = ctx;
    for (int64_t cell = lo; cell < hi; cell++) {
        const int64_t t0 = cell / b->row_cells * b->cell_tiles;
        const int64_t n0 = cell % b->row_cells * b->cell_panels * b->nr;
        const int64_t n1 = least(b->n, n0 + b->cell_panels * b->nr);
        for (int64_t t = t0; t < least(b->m_tiles, t0 + b->cell_tiles); t++) {
            const int64_t m = tile_start(b, t);
            tn__gemm_panel p = {
                .m = tile_start(b, t + 1) - m, .k = b->k, .b_k = b->nr, .add = b->add};
            take_tile(b, &p, m, copy);
            for (int64_t n = n0; n < n1; n += b->nr)
                multiply_tile(b, &p, m, n);
        }
    }
}

/* Cells of the product: whole rows of the block if they are enough for all threads. */
static int64_t plan(Block *b, int threads)
{
    const int64_t panels = divide_up(b->n, b->nr), wanted = threads > 1 ? 4 * threads : 1;
    b->cell_tiles = divide_up(b->m_tiles, least(b->m_tiles, wanted));
    const int64_t columns = divide_up(b->m_tiles, b->cell_tiles);
    b->cell_panels = divide_up(panels, least(panels, divide_up(wanted, columns)));
    b->row_cells = divide_up(panels, b->cell_panels);
    return columns * b->row_cells;
}

/* All rows, for a block of columns and of k. */
static void run_rows(Block *b, const char *a, char *c, tn__pool *pool)
{
    const Work *w = b->w;
    const tn__gemm_args *g = &w->g;
    const int64_t step = b->a_in_place ? b->rows : MB;
    for (int64_t m = 0; m < b->rows; m += step) {
        b->m = least(step, b->rows - m);
        b->m_tiles = divide_up(b->m, b->tile_rows);
        b->a = a + m * g->a.rows * w->size;
        b->c = c + m * g->c.rows * w->size;
        if (!b->a_in_place)
            tn__pool_run(pool, copy_a, b, g->a.rows == 1 ? b->k : b->m_tiles,
                         g->a.rows == 1 ? STRIP : 1);
        tn__pool_run(pool, multiply, b, plan(b, tn__pool_threads(pool)), 1);
    }
}

static void run_batch(Block *b, const char *a, const char *b_, char *c, tn__pool *pool)
{
    const Work *w = b->w;
    const tn__gemm_args *g = &w->g;
    for (int64_t n = 0; n < g->n; n += NB)
        for (int64_t k = 0; k < g->k; k += KB) {
            b->n = least(NB, g->n - n);
            b->k = least(KB, g->k - k);
            b->add = k > 0 || g->accumulate;
            if (g->panels) {
                b->b = (const char *)g->panels + (n * g->k + k * b->nr) * w->size;
            } else {
                b->b = b_ + (k * g->b.rows + n * g->b.cols) * w->size;
                tn__pool_run(pool, copy_b, b,
                             g->b.cols == 1 ? divide_up(b->k, STRIP) : divide_up(b->n, b->nr), 1);
            }
            run_rows(b, a + k * g->a.cols * w->size, c + n * g->c.cols * w->size, pool);
        }
}

static Block block_of(const Work *w)
{
    return (Block){.w = w,
                   .a_in_place = w->g.a.cols == 1,
                   .rows = w->g.m,
                   .nr = 2 * w->kernels->lanes,
                   .tile_rows = w->kernels->mr};
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
    if (g->panels)
        return g->m > FEW_ROWS;
    if (g->b.cols == 1 && reads_in_place(g->m, g->k * g->n * size))
        return false;
    return few >= 96 || (few > 3 * w->kernels->mr && b_in_rows);
}

bool tn__gemm_large(const Work *w, tn__pool *pool)
{
    const tn__gemm_args *g = &w->g;
    Block b = block_of(w);
    const int64_t k = least(KB, g->k), m = b.a_in_place ? 0 : least(MB, g->m);
    const int64_t n = g->panels ? 0 : divide_up(least(NB, g->n), b.nr) * b.nr;
    char *const scratch = m + n ? tn__pool_take(pool, (size_t)((m + n) * k * w->size)) : NULL;
    if (!scratch && m + n)
        return false;
    b.panels = scratch;
    b.tiles = scratch + n * k * w->size;
    for (int64_t i = 0; i < batches(g); i++)
        run_batch(&b, at_batch(g, &g->a, w->size, i), at_batch(g, &g->b, w->size, i),
                  at_batch(g, &g->c, w->size, i), pool);
    tn__pool_give(pool, scratch);
    return true;
}

bool tn__gemm_large_rows(const Work *w, int64_t batch, int64_t m0, int64_t m)
{
    const tn__gemm_args *g = &w->g;
    Block b = block_of(w);
    if (!g->panels || !b.a_in_place || m <= FEW_ROWS)
        return false;
    b.rows = m;
    run_batch(&b, (char *)at_batch(g, &g->a, w->size, batch) + m0 * g->a.rows * w->size, NULL,
              (char *)at_batch(g, &g->c, w->size, batch) + m0 * g->c.rows * w->size, NULL);
    return true;
}
