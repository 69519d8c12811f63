/* gemm_internal.h: shared by the two ways to multiply. SPDX-License-Identifier: MIT */
#ifndef TENON_RUNTIME_GEMM_INTERNAL_H
#define TENON_RUNTIME_GEMM_INTERNAL_H

#include "runtime/gemm_kernels.h"

#include <stdbool.h>

enum {
    LINE = 64,             /* bytes of a cache line */
    PAGE = 4096,           /* rows at multiples of it share few places of the caches */
    IN_PLACE_ROWS = 320,   /* with more rows a copy of b pays in any case, */
    FEW_ROWS = 96,         /* with fewer never, if columns are neighbours; */
    SMALL_BYTES = 1 << 20, /* else if b is larger */
    DOT_ROWS = 4           /* with more rows it pays to copy a b that has its rows, not its columns,
                               next to each other */
};

typedef struct {
    tn__gemm_args g; /* c is not transposed: its columns are the vectors */
    const tn__gemm_kernels *kernels;
    int64_t size, c_size;    /* bytes of an element */
    bool narrow;             /* 16-bit a and b */
    bool dots;               /* sums along k */
    int64_t rows, m_cells;   /* rows of a cell; cells in a column */
    int64_t panels, n_cells; /* panels of a cell; cells in a row */
    int64_t products;        /* cells that are products; then those of sum_a, then of sum_b */
    int64_t sum_a_cells, sum_b_cells; /* for each batch index */
} Work;

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/** Whether a b whose columns are neighbours is best read where it lies. */
static inline bool reads_in_place(int64_t m, int64_t b_bytes)
{
    return m <= FEW_ROWS || (m <= IN_PLACE_ROWS && b_bytes <= SMALL_BYTES);
}

static inline int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t batches(const tn__gemm_args *g)
{
    return g->batch[0] * g->batch[1] * g->batch[2];
}

/** Where the matrix of a batch index begins. */
static inline void *at_batch(const tn__gemm_args *g, const tn__gemm_operand *o, int64_t size,
                             int64_t i)
{
    const int64_t i2 = i % g->batch[2], i1 = i / g->batch[2] % g->batch[1],
                  i0 = i / g->batch[2] / g->batch[1];
    return (char *)o->data + size * (i0 * o->batch[0] + i1 * o->batch[1] + i2 * o->batch[2]);
}

/** Between m x n elements of c and a buffer of rows of `width`, zero beyond n. */
void tn__gemm_fetch(const Work *w, const char *c, void *temp, int64_t width, int64_t m, int64_t n);
void tn__gemm_put(const Work *w, char *c, const void *temp, int64_t width, int64_t m, int64_t n);

/** Whether the way of gemm_large.c suits this product. */
bool tn__gemm_is_large(const Work *w);
/** The products (not the sums). False: no memory, nothing done. */
bool tn__gemm_large(const Work *w, tn__pool *pool);
/** Rows m0 .. m0 + m - 1 of c by packed panels, in this thread; false: it does not suit. */
bool tn__gemm_large_rows(const Work *w, int64_t batch, int64_t m0, int64_t m);

#endif
