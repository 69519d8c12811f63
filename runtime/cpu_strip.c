/* cpu_strip.c: a product and the kernels around it, block of rows by block of rows, so that what
 * passes between them stays in the cache. Buffers that nobody else sees have memory for a block
 * only: kernels are given a place before it, so that their rows come to lie in it.
 *
 *   rows    threads take blocks; in each block, every step in order
 *   whole   too few rows for the threads: one block, and the threads share the work of each step
 *   depth   rows are the product's k: blocks follow each other, and each adds to the result
 *
 * SPDX-License-Identifier: MIT */
#include "runtime/cpu.h"

#include <string.h>

enum {
    BLOCK_BYTES = 768 << 10,  /* of a block's buffers: a part of the second cache, */
    LARGE_BYTES = 8 << 20,    /* or of the third where each block reads much else, too */
    SMALL_BYTES = 1 << 20,    /* of a product's other operand that stays in the second */
    DEPTH_BYTES = 2 << 20,    /* the same, where threads share a block */
    OPERAND_BYTES = 24 << 20, /* of a product's other operand, which each block reads again */
    LEAST_ROWS = 32,
    SHARED_ROWS = 64, /* blocks of fewer rows are not worth a thread */
    MOST_ROWS = 256,
    DEPTH = 256, /* k's of a block are a multiple of it: the sums are those of the whole product */
    MAX_SLOTS = 64
};

/* How a strip is cut. */
typedef struct {
    int64_t rows, block; /* rows of a block */
    int64_t per, size;   /* blocks of each batch of `size` rows, where a block is a part of one */
    int64_t blocks;
    int slots;    /* blocks at work at the same time */
    size_t bytes; /* of a slot */
    int nbuffers;
    int32_t buffer[TN_STRIP_BUFFERS];
    int64_t row_bytes[TN_STRIP_BUFFERS];
    size_t place[TN_STRIP_BUFFERS]; /* in a slot */
    size_t panels[TN_STRIP_STEPS];  /* packed operands of products, behind the slots: offset + 1 */
    size_t shared;                  /* their bytes */
} Cut;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void cut_rows(Cut *c, const tn_program *p, const tn_strip *s, const int64_t *d,
                     int64_t width, int threads)
{
    int64_t m = 1, operand = 0, widest = 1;
    for (int i = s->first; i < s->first + s->n; i++)
        if (p->steps[i].kind == TN_STEP_GEMM) {
            const tn_gemm_step *g = &p->gemms[p->steps[i].kernel];
            m = d[g->m];
            operand += d[g->n] * d[g->k] * 4;
            widest = d[g->n] > widest ? d[g->n] : widest;
        }
    width = width > 0 ? width : 4 * widest;
    int64_t goal = least((operand > SMALL_BYTES ? LARGE_BYTES : BLOCK_BYTES) / width, MOST_ROWS);
    goal = goal > LEAST_ROWS ? goal : LEAST_ROWS;
    const int64_t share = (c->rows + 2 * threads - 1) / (2 * threads);
    if (threads > 1 && goal > share)
        goal = share;
    if ((threads > 1 && goal < SHARED_ROWS && share < SHARED_ROWS) || operand > OPERAND_BYTES) {
        c->block = c->rows;
    } else if (goal >= m) {
        c->block = goal / m * m;
    } else {
        c->per = (m + goal - 1) / goal;
        c->block = (m + c->per - 1) / c->per;
        c->size = m;
    }
}

/* The product of a step, without memory: what packing asks for. */
static tn__gemm_args shape_of(const tn_program *p, const tn_gemm_step *g, const int64_t *d)
{
    return (tn__gemm_args){
        .dtype = p->buffers[g->a.buf].dtype,
        .c_dtype = p->buffers[g->c.buf].dtype,
        .m = d[g->m],
        .n = d[g->n],
        .k = d[g->k],
        .batch = {d[g->batch0], d[g->batch1], 1},
        .a = {NULL, d[g->a.rows], d[g->a.cols], {0, 0, 0}},
        .b = {NULL, d[g->b.rows], d[g->b.cols], {d[g->b.batch0], d[g->b.batch1], 0}},
        .c = {NULL, d[g->c.rows], d[g->c.cols], {0, 0, 0}}};
}

/* Blocks share a packed copy of what each of them multiplies by. */
static void cut_panels(Cut *c, const tn_program *p, const tn_strip *s, const int64_t *d)
{
    for (int i = 0; i < s->n && i < TN_STRIP_STEPS && c->blocks > 1 && !s->depth; i++) {
        const tn_step *t = &p->steps[s->first + i];
        const tn_gemm_step *g = t->kind == TN_STEP_GEMM ? &p->gemms[t->kernel] : NULL;
        if (!g || tn__cpu_has_panels(p, g))
            continue;
        const tn__gemm_args shape = shape_of(p, g, d);
        const size_t bytes = tn__gemm_pack_bytes(&shape, false);
        if (bytes) {
            c->panels[i] = c->shared + 1;
            c->shared += (bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
        }
    }
}

static void place_buffers(Cut *c)
{
    c->bytes = 0;
    for (int i = 0; i < c->nbuffers; i++) {
        c->place[i] = c->bytes;
        c->bytes += ((size_t)(c->block * c->row_bytes[i]) + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
    }
}

/* Where packed operands would take more memory than all rows do, the rows are one block. */
static Cut cut(const tn_program *p, const int64_t *d, const size_t *bytes, int strip, int threads)
{
    const tn_strip *s = &p->strips[strip];
    Cut c = {.rows = d[s->rows], .slots = 1};
    int64_t width = 0;
    if (c.rows <= 0)
        return c;
    for (int i = 1; i < p->nbuffers && c.nbuffers < TN_STRIP_BUFFERS; i++)
        if (p->buffers[i].strip == strip + 1) {
            c.buffer[c.nbuffers] = i;
            c.row_bytes[c.nbuffers] = (int64_t)bytes[i] / c.rows;
            width += c.row_bytes[c.nbuffers++];
        }
    if (s->depth)
        c.block = width < DEPTH_BYTES / DEPTH ? DEPTH_BYTES / (width + 1) / DEPTH * DEPTH : DEPTH;
    else
        cut_rows(&c, p, s, d, width, threads);
    c.block = c.block < 1 ? 1 : least(c.block, c.rows);
    c.blocks = c.per ? c.rows / c.size * c.per : (c.rows + c.block - 1) / c.block;
    if (!s->depth)
        c.slots = (int)least(least(c.blocks, threads), MAX_SLOTS);
    place_buffers(&c);
    cut_panels(&c, p, s, d);
    if (c.shared && (size_t)(c.rows * width) <= c.shared + (size_t)c.slots * c.bytes) {
        c.block = c.rows;
        c.blocks = c.slots = 1;
        c.per = 0;
        c.shared = 0;
        memset(c.panels, 0, sizeof c.panels);
        place_buffers(&c);
    }
    return c;
}

size_t tn__cpu_strip_bytes(const tn__device *d, const tn_program *p, const tn__plan *plan,
                           int strip)
{
    const Cut c = cut(p, plan->dims, plan->bytes, strip, tn__pool_threads(d->ctx->pool));
    return (size_t)c.slots * c.bytes + c.shared;
}

/* --- the steps ----------------------------------------------------------------------------------
 */

/* A step in its strip: kernels' pointers and products' operands that lie in a buffer of the strip
 * are set anew for each block. */
typedef struct {
    bool product;
    const tn_kernel *kernel;
    tn_cpu_kernel *code;
    int64_t cells; /* to a row */
    const tn_step *step;
    int64_t n[TN_MAX_SIZES];
    tn__gemm_args gemm;
    const tn_gemm_step *operands;
} Part;

typedef struct {
    Call *c;
    const tn_strip *s;
    Cut cut;
    Part part[TN_STRIP_STEPS];
    int nparts;
    char *memory;
    atomic_int_fast64_t next; /* block */
} Strip;

/* Where a buffer of the strip would begin if all of it had memory, and the block's rows lay at
 * `slot`; NULL: it is none. */
static char *virtual_base(const Strip *s, int buffer, const char *slot, int64_t lo)
{
    for (int i = 0; i < s->cut.nbuffers; i++)
        if (s->cut.buffer[i] == buffer)
            return (char *)((uintptr_t)slot + s->cut.place[i] -
                            (uintptr_t)(lo * s->cut.row_bytes[i]));
    return NULL;
}

typedef struct {
    tn_cpu_kernel *fn;
    void *const *p;
    const int64_t *n;
    int64_t first;
} Launch;

static void launch_cells(void *ctx, int64_t lo, int64_t hi)
{
    const Launch *l = ctx;
    l->fn(l->p, l->n, l->first + lo, l->first + hi);
}

static void run_kernel(const Strip *s, const Part *part, char *slot, int64_t lo, int64_t hi,
                       tn__pool *pool)
{
    void *p[TN_MAX_OPERANDS];
    const Call *c = s->c;
    for (int i = 0; i < part->step->nops; i++) {
        const tn_operand *o = &c->p->operands[part->step->operands + i];
        char *base = virtual_base(s, o->buf, slot, lo);
        const int64_t offset = o->offset >= 0 ? c->plan->dims[o->offset] : 0;
        p[i] = base ? (void *)((uintptr_t)base +
                               (uintptr_t)(offset *
                                           (int64_t)tn__dtype_size(c->p->buffers[o->buf].dtype)))
                    : tn__operand(c, part->step->operands + i);
    }
    p[part->step->nops] = c->m->error;
    Launch l = {part->code, p, part->n, lo * part->cells};
    const int64_t cells = (hi - lo) * part->cells;
    if (pool)
        tn__pool_run(pool, launch_cells, &l, cells, tn__cpu_grain(part->kernel));
    else
        launch_cells(&l, 0, cells);
}

static void place_operand(const Strip *s, const tn_gemm_operand *from, tn__gemm_operand *to,
                          const char *slot, int64_t lo)
{
    char *base = from->buf ? virtual_base(s, from->buf, slot, lo) : NULL;
    if (base)
        to->data =
            (void *)((uintptr_t)base +
                     (uintptr_t)(s->c->plan->dims[from->offset] *
                                 (int64_t)tn__dtype_size(s->c->p->buffers[from->buf].dtype)));
}

static tn__gemm_args placed(const Strip *s, const Part *part, const char *slot, int64_t lo)
{
    tn__gemm_args g = part->gemm;
    place_operand(s, &part->operands->a, &g.a, slot, lo);
    place_operand(s, &part->operands->b, &g.b, slot, lo);
    place_operand(s, &part->operands->c, &g.c, slot, lo);
    return g;
}

/* --- the ways to run ----------------------------------------------------------------------------
 */

static void run_block(const Strip *s, char *slot, int64_t lo, int64_t hi)
{
    for (int i = 0; i < s->nparts; i++) {
        const Part *part = &s->part[i];
        if (part->product) {
            const tn__gemm_args g = placed(s, part, slot, lo);
            tn__gemm_rows(&g, lo, hi);
        } else {
            run_kernel(s, part, slot, lo, hi, NULL);
        }
    }
}

/* Slots lo .. hi-1: each takes blocks as long as there are any. */
static void run_slots(void *ctx, int64_t lo, int64_t hi)
{
    Strip *s = ctx;
    const Cut *c = &s->cut;
    for (int64_t i = lo; i < hi; i++)
        for (;;) {
            const int64_t block = atomic_fetch_add(&s->next, 1);
            if (block >= c->blocks)
                break;
            int64_t from = block * c->block, to = least(from + c->block, c->rows);
            if (c->per) {
                const int64_t batch = block / c->per * c->size;
                from = batch + block % c->per * c->block;
                to = least(from + c->block, batch + c->size);
            }
            if (from < to)
                run_block(s, s->memory + (size_t)i * c->bytes, from, to);
        }
}

/* One block, or one at a time: the threads share each step. */
static void run_shared(const Strip *s, tn__pool *pool)
{
    for (int64_t lo = 0; lo < s->cut.rows; lo += s->cut.block) {
        const int64_t hi = least(lo + s->cut.block, s->cut.rows);
        for (int i = 0; i < s->nparts; i++) {
            const Part *part = &s->part[i];
            if (!part->product) {
                run_kernel(s, part, s->memory, lo, hi, pool);
                continue;
            }
            tn__gemm_args g = placed(s, part, s->memory, lo);
            g.sum_a.data = g.sum_b.data = NULL;
            if (s->s->depth) {
                const int64_t size = (int64_t)tn__dtype_size(g.dtype);
                g.a.data = (void *)((uintptr_t)g.a.data + (uintptr_t)(lo * g.a.cols * size));
                g.b.data = (void *)((uintptr_t)g.b.data + (uintptr_t)(lo * g.b.rows * size));
                g.k = hi - lo;
                g.accumulate |= lo > 0;
            }
            tn__gemm(&g, pool);
        }
    }
}

static tn_status make_part(Strip *s, int step)
{
    Call *c = s->c;
    const tn_step *t = &c->p->steps[step];
    Part *part = &s->part[s->nparts];
    part->step = t;
    if (t->kind == TN_STEP_GEMM) {
        part->product = true;
        part->gemm = tn__cpu_gemm_args(c, step);
        part->operands = &c->p->gemms[t->kernel];
        tn__cpu_use_panels(c, step, &part->gemm);
        const size_t at = s->cut.panels[step - s->s->first];
        if (at && !part->gemm.panels) {
            char *to = (char *)c->m->arena + c->plan->strips + (size_t)s->cut.slots * s->cut.bytes;
            tn__gemm_pack(&part->gemm, to + at - 1, c->m->ctx->pool);
            part->gemm.panels = to + at - 1;
        }
    } else {
        part->kernel = &c->m->d->kernels[t->kernel];
        part->code = tn__cpu_code(part->kernel, c->m->ctx->level);
        part->cells = c->plan->dims[t->cells] / s->cut.rows;
        if (!part->code || t->nops > TN_MAX_OPERANDS - 1 || t->nints > TN_MAX_SIZES)
            return tn__fail(TN_ABI, "%s: kernel %s cannot run in a strip", c->p->name,
                            part->kernel->name);
        for (int i = 0; i < t->nints; i++)
            part->n[i] = c->plan->dims[c->p->lists[t->ints + i]];
    }
    s->nparts++;
    return TN_OK;
}

static tn_status run(Strip *s)
{
    Call *c = s->c;
    tn__pool *pool = c->m->ctx->pool;
    tn_status e = TN_OK;
    for (int i = s->s->first; i < s->s->first + s->s->n && !e; i++)
        if (c->plan->active[i])
            e = make_part(s, i);
    if (e)
        return e;
    for (int i = 0; i < s->nparts; i++)
        if (s->part[i].product && tn__gemm_sums(&s->part[i].gemm, pool))
            return tn__fail(TN_ABI, "%s: a product has operands that do not fit", c->p->name);
    s->memory = (char *)c->m->arena + c->plan->strips;
    if (s->s->depth || s->cut.blocks < 2)
        run_shared(s, pool);
    else
        tn__pool_run(pool, run_slots, s, s->cut.slots, 1);
    return tn__index_error_within(c, s->s->first, s->s->first + s->s->n);
}

tn_status tn__cpu_strip(Call *c, int strip)
{
    Strip s = {.c = c, .s = &c->p->strips[strip]};
    s.cut = cut(c->p, c->plan->dims, c->plan->bytes, strip, tn__pool_threads(c->m->ctx->pool));
    if (s.cut.rows <= 0)
        return TN_OK;
    if (s.s->n > TN_STRIP_STEPS)
        return tn__fail(TN_ABI, "%s: a strip has too many steps", c->p->name);
    return run(&s);
}
