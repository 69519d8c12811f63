/* gemm_large.c: products large enough to copy the right operand. c is cut into cells of rows and
 * columns, each multiplied by one thread with memory of its own: for each block of k, panels of b
 * are copied, while the first tile of rows meets them, to where they lie in the second cache of
 * that thread; a tile of rows of a stays in the nearest one while the panels pass by.
 * SPDX-License-Identifier: MIT */
#include "runtime/dtype.h"
#include "runtime/gemm_internal.h"

#include <stdatomic.h>
#include <string.h>

enum {
    KB = TN__GEMM_KB,
    NB = 1024,      /* columns that are multiplied at a time: 1 MiB of f32 */
    TILE_MOST = 14, /* rows of the highest tile of f32; those of f64 have less than half of it */
    WIDEST = TILE_MOST * 4, /* bytes of a column of it */
    MAX_SLOTS = 64,         /* threads that work at the same time */
    CELLS = 4               /* for each thread, where finer ones cost no more */
};

/* Columns, rows and a block of k, multiplied by one thread. */
typedef struct {
    const Work *w;
    const char *a, *b; /* at the first element; b: NULL for packed panels */
    char *c, *panels;  /* panel after panel, each for all of k */
    int64_t m, n, k;
    int64_t panel_bytes; /* from one panel to the next */
    int64_t nr;          /* columns of a panel */
    int64_t tiles;
    bool add;
} Block;

/* The first tile is a whole one, as kernels that copy are; the others have nearly equal height: a
 * last one of a row or two would waste registers. */
static int64_t tile_start(const Block *b, int64_t tile)
{
    const int64_t whole = least(b->w->kernels->mr, b->m);
    return tile < 1 ? 0 : whole + (b->m - whole) * (tile - 1) / (b->tiles > 1 ? b->tiles - 1 : 1);
}

/* Rows m .. m + rows - 1 of an a whose columns are long runs, one column after another. */
static void copy_columns(const Block *b, int64_t m, int64_t rows, char *to)
{
    const int64_t size = b->w->size, step = b->w->g.a.cols * size;
    const char *from = b->a + m * size;
    for (int64_t k = 0; k < b->k; k++, from += step, to += rows * size)
        if (rows * size == WIDEST) /* a few moves in place of a call */
            memcpy(to, from, WIDEST);
        else
            memcpy(to, from, (size_t)(rows * size));
}

/* Rows m .. m + p->m - 1 of a as the kernel reads them. Rows that lie a multiple of a page apart
 * meet in one place of the nearest cache, which holds fewer than a tile has: they are copied. */
static void take_tile(const Block *b, tn__gemm_panel *p, int64_t m, char *copy)
{
    const tn__gemm_operand *o = &b->w->g.a;
    const int64_t size = b->w->size;
    p->a = copy;
    if (o->cols != 1) {
        p->a_m = 1;
        p->a_k = p->m;
        if (o->rows == 1)
            copy_columns(b, m, p->m, copy);
        else
            b->w->kernels->pack(copy, p->m, b->a + m * o->rows * size, o->cols, o->rows, b->k, p->m,
                                p->m);
        return;
    }
    p->a_k = 1;
    p->a_m = b->k;
    if (o->rows * size % PAGE) {
        p->a = b->a + m * o->rows * size;
        p->a_m = o->rows;
        return;
    }
    for (int64_t i = 0; i < p->m; i++)
        memcpy(copy + i * b->k * size, b->a + (m + i) * o->rows * size, (size_t)(b->k * size));
}

/* Runs of memory that are met later. */
typedef struct {
    const char *at; /* the first one that was not asked for */
    int64_t left, step, bytes;
    int64_t each; /* how many are asked for at a time */
} Runs;

/* Some of them are asked for, so that they are near when their turn comes. */
static void fetch(Runs *r)
{
    for (int64_t i = least(r->each, r->left); i > 0; i--) {
        for (int64_t at = 0; at < r->bytes; at += 2 * LINE)
            __builtin_prefetch(r->at + at, 0, 2);
        __builtin_prefetch(r->at + r->bytes - 1, 0, 2);
        r->at += r->step;
        r->left--;
    }
}

/* Rows by columns of an operand. */
static Runs runs_of(const Work *w, const tn__gemm_operand *o, const char *at, int64_t rows,
                    int64_t cols)
{
    const int64_t size = w->size;
    if (o->cols == 1)
        return (Runs){at, rows, o->rows * size, cols * size, 0};
    return (Runs){at, cols, o->cols * size, (o->rows == 1 ? rows : 1) * size, 0};
}

static Runs next_tile(const Block *b, int64_t tile)
{
    const tn__gemm_operand *o = &b->w->g.a;
    if (tile >= b->tiles)
        return (Runs){0};
    const int64_t m = tile_start(b, tile);
    return runs_of(b->w, o, b->a + m * o->rows * b->w->size, tile_start(b, tile + 1) - m, b->k);
}

/* The panel from column n on before its first use: copied, or to be copied by the kernel as it
 * reads. */
static void take_panel(const Block *b, tn__gemm_panel *p, int64_t n, int64_t cols)
{
    const Work *w = b->w;
    const tn__gemm_operand *o = &w->g.b;
    const char *const from = b->b + n * o->cols * w->size;
    char *const to = b->panels + n / b->nr * b->panel_bytes;
    if (w->kernels->copies && o->cols == 1 && cols == b->nr && p->m == w->kernels->mr) {
        p->b = from;
        p->b_k = o->rows;
        p->copy = to;
        return;
    }
    w->kernels->pack(to, b->nr, from, o->rows, o->cols, b->k, cols, b->nr);
}

/* A tile of rows, from m on, times the panel of columns from n on. */
static void multiply_tile(const Block *b, tn__gemm_panel *p, int64_t m, int64_t n, bool first)
{
    _Alignas(64) char temp[TILE_MOST * TN__GEMM_MAX_NR * 4];
    const Work *w = b->w;
    const tn__gemm_args *g = &w->g;
    const int64_t cols = least(b->nr, b->n - n), size = w->size, lanes = w->kernels->lanes;
    const int64_t width = cols > lanes ? 2 * lanes : lanes;
    const bool direct = g->c.cols == 1 && cols == width;
    char *const c = b->c + (m * g->c.rows + n * g->c.cols) * size;
    p->b = b->panels + n / b->nr * b->panel_bytes;
    p->b_k = b->nr;
    p->copy = NULL;
    if (first)
        take_panel(b, p, n, cols);
    p->c = direct ? c : temp;
    p->c_m = direct ? g->c.rows : width;
    p->vectors = width > lanes ? 2 : 1;
    if (!direct && b->add)
        tn__gemm_fetch(w, c, temp, width, p->m, cols);
    w->kernels->panel(p);
    if (!direct)
        tn__gemm_put(w, c, temp, width, p->m, cols);
}

/* A tile stays in the nearest cache while the panels pass by: rows of c are met in long runs. */
static void multiply(Block *b, Runs *next)
{
    _Alignas(64) char copy[TILE_MOST * KB * 4];
    const int64_t panels = divide_up(b->n, b->nr);
    b->tiles = divide_up(b->m, b->w->kernels->mr);
    next->each = divide_up(next->left, b->tiles * panels);
    for (int64_t t = 0; t < b->tiles; t++) {
        const int64_t m = tile_start(b, t);
        tn__gemm_panel p = {.m = tile_start(b, t + 1) - m, .k = b->k, .add = b->add};
        Runs tile = next_tile(b, t + 1);
        tile.each = divide_up(tile.left, panels);
        take_tile(b, &p, m, copy);
        for (int64_t i = 0; i < panels; i++) {
            multiply_tile(b, &p, m, i * b->nr, t == 0 && b->b);
            fetch(&tile);
            fetch(next);
        }
    }
}

/* What b has for the block that comes after that of columns from n on and k's from k on. */
static Runs next_block(const Work *w, const char *b, int64_t n, int64_t k, int64_t n1)
{
    const tn__gemm_args *g = &w->g;
    k += KB;
    if (k >= g->k) {
        k = 0;
        n += NB;
    }
    if (n >= n1)
        return (Runs){0};
    return runs_of(w, &g->b, b + (k * g->b.rows + n * g->b.cols) * w->size, least(KB, g->k - k),
                   least(NB, n1 - n));
}

/* All k, for rows m0 .. m0 + m - 1 and columns n0 .. n1 - 1, by NB columns at a time. */
static void multiply_cell(const Work *w, int64_t batch, int64_t m0, int64_t m, int64_t n0,
                          int64_t n1, char *scratch)
{
    const tn__gemm_args *g = &w->g;
    const int64_t size = w->size, nr = 2 * w->kernels->lanes;
    const char *const a = (char *)at_batch(g, &g->a, size, batch) + m0 * g->a.rows * size;
    const char *const b = g->panels ? NULL : at_batch(g, &g->b, size, batch);
    char *const c = (char *)at_batch(g, &g->c, size, batch) + m0 * g->c.rows * size;
    for (int64_t n = n0; n < n1; n += NB)
        for (int64_t k = 0; k < g->k; k += KB) {
            Block block = {.w = w,
                           .a = a + k * g->a.cols * size,
                           .c = c + n * g->c.cols * size,
                           .panels = scratch,
                           .m = m,
                           .n = least(NB, n1 - n),
                           .k = least(KB, g->k - k),
                           .nr = nr,
                           .add = k > 0 || g->accumulate};
            block.panel_bytes = block.k * nr * size;
            Runs next = {0};
            if (b) {
                block.b = b + (k * g->b.rows + n * g->b.cols) * size;
                next = next_block(w, b, n, k, n1);
            } else {
                block.panel_bytes = g->k * nr * size;
                block.panels = (char *)(uintptr_t)g->panels + (n * g->k + k * nr) * size;
            }
            multiply(&block, &next);
        }
}

/* --- cells --------------------------------------------------------------------------------------
 */

typedef struct {
    _Alignas(LINE) atomic_int_fast64_t next; /* first cell of this share that nobody took */
    int64_t end;
} Share;

typedef struct {
    const Work *w;
    int64_t m_cells, n_cells; /* of each batch */
    char *scratch;            /* NULL: none is needed */
    size_t slot_bytes;
    int slots;
    Share share[MAX_SLOTS];
} Cells;

static void run_cell(const Cells *l, int64_t cell, int slot)
{
    const Work *w = l->w;
    const int64_t nr = 2 * w->kernels->lanes, mr = w->kernels->mr;
    const int64_t panels = divide_up(w->g.n, nr), tiles = divide_up(w->g.m, mr);
    const int64_t i = cell / l->n_cells % l->m_cells, j = cell % l->n_cells;
    const int64_t m0 = least(w->g.m, tiles * i / l->m_cells * mr),
                  m1 = least(w->g.m, tiles * (i + 1) / l->m_cells * mr),
                  n0 = panels * j / l->n_cells * nr,
                  n1 = least(w->g.n, panels * (j + 1) / l->n_cells * nr);
    if (m0 < m1 && n0 < n1)
        multiply_cell(w, cell / l->n_cells / l->m_cells, m0, m1 - m0, n0, n1,
                      l->scratch ? l->scratch + (size_t)slot * l->slot_bytes : NULL);
}

/* Slots lo .. hi-1: each takes the cells of its share, the same ones whenever this product is made,
 * then those that others have left. */
static void run_slots(void *ctx, int64_t lo, int64_t hi)
{
    Cells *l = ctx;
    for (int slot = (int)lo; slot < (int)hi; slot++)
        for (int i = 0; i < l->slots; i++) {
            Share *s = &l->share[(slot + i) % l->slots];
            for (int64_t cell; (cell = atomic_fetch_add(&s->next, 1)) < s->end;)
                run_cell(l, cell, slot);
        }
}

/* How many cells each batch has: what the busiest thread does decides, in tiles times panels; a
 * panel is copied in every cell of its columns, a tile met in every cell of its rows. */
static void plan(Cells *l, int threads)
{
    const Work *w = l->w;
    const int64_t panels = divide_up(w->g.n, 2 * w->kernels->lanes),
                  tiles = divide_up(w->g.m, w->kernels->mr), count = batches(&w->g);
    const double copy = w->g.panels ? 0 : w->g.b.cols == 1 ? 0.5 : 2;
    const int64_t most = threads > 1 ? CELLS * threads : 1;
    double best = 0;
    for (int64_t n = 1; n <= least(most, panels); n++)
        for (int64_t m = 1; m <= least(most / n, tiles); m++) {
            const double t = (double)divide_up(tiles, m), p = (double)divide_up(panels, n);
            const double cost =
                (double)divide_up(count * m * n, threads) * (t * p + copy * p + 0.5 * t);
            if (best > 0 && cost >= best)
                continue;
            best = cost;
            l->m_cells = m;
            l->n_cells = n;
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
    if (g->panels)
        return g->m > FEW_ROWS;
    if (g->b.cols == 1 && reads_in_place(g->m, g->k * g->n * size))
        return false;
    return few >= 96 || (few > 3 * w->kernels->mr && b_in_rows);
}

bool tn__gemm_large(const Work *w, tn__pool *pool)
{
    const tn__gemm_args *g = &w->g;
    const int64_t nr = 2 * w->kernels->lanes;
    Cells l = {.w = w};
    plan(&l, tn__pool_threads(pool));
    const int64_t cells = batches(g) * l.m_cells * l.n_cells;
    l.slots = (int)least(least(tn__pool_threads(pool), MAX_SLOTS), cells);
    if (!g->panels) {
        const int64_t cols = least(NB, divide_up(divide_up(g->n, nr), l.n_cells) * nr);
        l.slot_bytes = (size_t)(divide_up(least(KB, g->k) * cols * w->size, PAGE) * PAGE);
        l.scratch = tn__pool_take(pool, l.slot_bytes * (size_t)l.slots);
        if (!l.scratch)
            return false;
    }
    for (int i = 0; i < l.slots; i++) {
        atomic_init(&l.share[i].next, cells * i / l.slots);
        l.share[i].end = cells * (i + 1) / l.slots;
    }
    tn__pool_run(pool, run_slots, &l, l.slots, 1);
    if (l.scratch)
        tn__pool_give(pool, l.scratch);
    return true;
}

bool tn__gemm_large_rows(const Work *w, int64_t batch, int64_t m0, int64_t m)
{
    if (!w->g.panels || w->g.a.cols != 1 || m <= FEW_ROWS)
        return false;
    multiply_cell(w, batch, m0, m, 0, w->g.n, NULL);
    return true;
}
