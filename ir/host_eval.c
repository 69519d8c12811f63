/* host_eval.c: the interpreter of host IR; see kernel_eval.h. SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/kernel_eval.h"

#include <math.h>
#include <string.h>

typedef struct {
    HostModel *m;
    Program *p;
    const HostProgram *h;
    KernelArray *buffers;
    int64_t *values;
    const char *failed;
    bool *check;
} Run;

static int64_t size(Run *r, Dim d)
{
    int64_t v = 0;
    if (d.id && !dim_eval(r->p->cx->dims, d, r->values, &v))
        r->failed = "a size cannot be evaluated";
    return v;
}

/* A guard as the plan evaluates it: every result is wanted, no library exists. */
static bool holds(Run *r, Guard g)
{
    for (uint32_t i = 0; i < g.n; i++) {
        const GuardTerm *x = &g.at[i];
        int64_t a = size(r, x->a), b = size(r, x->b);
        if ((x->kind == G_EQ && a != b) || (x->kind == G_NE && a == b) ||
            (x->kind == G_LT && a >= b) || (x->kind == G_LE && a > b) ||
            (x->kind == G_DIVISIBLE && a % x->k) || (x->kind == G_CHOICE && x->k % 256 == 0) ||
            ((x->kind == G_ARCH || x->kind == G_HAS) && x->k > 0))
            return false;
    }
    return true;
}

/* The array of a buffer from its own first element on. */
static KernelArray array_of(Run *r, uint32_t buf)
{
    const Buffer *b = &r->h->buffers.at[buf];
    if (!b->of) {
        KernelArray *x = &r->buffers[buf];
        if (!x->at) {
            x->dtype = b->dtype;
            x->n = size(r, dim_product(r->p->cx->dims, b->shape, b->rank));
            x->at = arena_array(r->p->cx->perm, ScalarValue, x->n + 1);
            for (int64_t i = 0; i < x->n; i++) { /* what nobody wrote shows */
                if (dtype_is_float(b->dtype))
                    x->at[i].f = NAN;
                else
                    x->at[i].i = 0x55;
            }
        }
        return *x;
    }
    KernelArray x = array_of(r, b->of);
    int64_t offset = size(r, b->offset);
    x.at += offset;
    x.n = size(r, dim_product(r->p->cx->dims, b->shape, b->rank));
    return x;
}

static void launch(Run *r, const Step *s)
{
    const Kernel *k = r->m->kernels.at[s->kernel];
    Arena *a = r->p->cx->perm;
    KernelArray *operands = arena_array(a, KernelArray, k->params.n + 1);
    int64_t *offset = arena_array(a, int64_t, k->params.n + 1);
    for (uint32_t i = 0; i < k->params.n; i++) {
        operands[i] = array_of(r, s->operands.at[i].buf);
        offset[i] = size(r, s->operands.at[i].offset);
    }
    Symbol sizes[64];
    int64_t old[64];
    uint32_t n = kernel_sizes(r->p, k, sizes, 64);
    /* also the shapes, which only this interpreter checks, are in the launcher's sizes */
    for (uint32_t i = 0; i < n; i++) {
        old[i] = r->values[sizes[i].id];
        r->values[sizes[i].id] = size(r, s->ints.at[i]);
    }
    if (!r->failed)
        r->failed = kernel_eval(r->p, k, operands, offset, r->values, r->check);
    for (uint32_t i = 0; i < n; i++)
        r->values[sizes[i].id] = old[i];
}

typedef struct {
    KernelArray x;
    int64_t offset, rows, cols, batch[2];
} Operand;

static Operand operand_of(Run *r, const GemmOperand *o)
{
    Operand q = {{0}, 0, 0, 0, {0, 0}};
    if (!o->buf)
        return q;
    q.x = array_of(r, o->buf);
    q.offset = size(r, o->offset);
    q.rows = size(r, o->rows);
    q.cols = size(r, o->cols);
    q.batch[0] = size(r, o->batch[0]);
    q.batch[1] = size(r, o->batch[1]);
    return q;
}

static double *at(Run *r, const Operand *o, int64_t b0, int64_t b1, int64_t row, int64_t col)
{
    int64_t i = o->offset + b0 * o->batch[0] + b1 * o->batch[1] + row * o->rows + col * o->cols;
    if (i < 0 || i >= o->x.n) {
        r->failed = "gemm: index out of memory";
        return NULL;
    }
    return &o->x.at[i].f;
}

static void gemm(Run *r, const Step *s)
{
    Operand a = operand_of(r, &s->a), b = operand_of(r, &s->b), c = operand_of(r, &s->c);
    int64_t m = size(r, s->m), n = size(r, s->n), k = size(r, s->k);
    int64_t n0 = size(r, s->batch[0]), n1 = size(r, s->batch[1]);
    for (int64_t i = 0; i < n0 * n1 * m * n && !r->failed; i++) {
        int64_t b0 = i / (n1 * m * n), b1 = i / (m * n) % n1, row = i / n % m, col = i % n;
        double *to = at(r, &c, b0, b1, row, col), sum = s->accumulate && to ? *to : 0;
        for (int64_t l = 0; l < k && !r->failed; l++) {
            const double *x = at(r, &a, b0, b1, row, l), *y = at(r, &b, b0, b1, l, col);
            if (x && y)
                sum += *x * *y;
        }
        if (to && s->bias.buf) {
            Operand bias = operand_of(r, &s->bias);
            const double *x = at(r, &bias, 0, 0, 0, col);
            sum = dtype_round(c.x.dtype, sum) + (x ? *x : 0);
        }
        if (to)
            *to = dtype_round(c.x.dtype, sum);
    }
    for (int which = 0; which < 2; which++) {
        const GemmOperand *o = which ? &s->sum_b : &s->sum_a;
        if (!o->buf)
            continue;
        Operand to = operand_of(r, o), *from = which ? &b : &a;
        for (int64_t i = 0; i < (which ? n : m) && !r->failed; i++) {
            double *x = which ? at(r, &to, 0, 0, 0, i) : at(r, &to, 0, 0, i, 0);
            double sum = s->accumulate && x ? *x : 0;
            for (int64_t l = 0; l < k && !r->failed; l++) {
                const double *y = which ? at(r, from, 0, 0, l, i) : at(r, from, 0, 0, i, l);
                sum += y ? *y : 0;
            }
            if (x)
                *x = dtype_round(to.x.dtype, sum);
        }
    }
}

static void swap_buffers(Run *r, const Step *s)
{
    array_of(r, s->dst);
    array_of(r, s->src);
    const KernelArray x = r->buffers[s->dst];
    r->buffers[s->dst] = r->buffers[s->src];
    r->buffers[s->src] = x;
}

static void run_step(Run *r, const Step *s)
{
    KernelArray dst, src;
    switch (s->kind) {
    case STEP_LAUNCH:
        launch(r, s);
        break;
    case STEP_GEMM:
        gemm(r, s);
        break;
    case STEP_COPY:
        dst = array_of(r, s->dst);
        src = array_of(r, s->src);
        if (dst.n != src.n)
            r->failed = "copy of another size";
        else
            memmove(dst.at, src.at, (size_t)dst.n * sizeof *dst.at);
        break;
    case STEP_FILL:
        dst = array_of(r, s->dst);
        for (int64_t i = 0; i < dst.n; i++) {
            if (dtype_is_float(dst.dtype))
                dst.at[i].f = dtype_round(dst.dtype, s->value);
            else
                dst.at[i].i = (int64_t)s->value;
        }
        break;
    case STEP_SWAP:
        swap_buffers(r, s);
        break;
    case STEP_PRINT:
    case STEP_LOOP:
    case STEP_END:
        break;
    }
}

static void run_steps(Run *r, uint32_t from, uint32_t to);

static void run_loop(Run *r, uint32_t first, const Step *s)
{
    const int64_t trip = size(r, s->cells);
    for (int64_t turn = 0; turn < trip && !r->failed; turn++) {
        r->values[s->loop.id] = s->reverse ? trip - 1 - turn : turn;
        run_steps(r, first + 1, s->other);
    }
    r->values[s->loop.id] = 0;
}

static void run_steps(Run *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to && !r->failed; i++) {
        const Step *s = &r->h->steps.at[i];
        const bool runs = holds(r, s->when);
        if (s->kind == STEP_LOOP) {
            if (runs)
                run_loop(r, i, s);
            i = s->other;
        } else if (runs) {
            run_step(r, s);
        }
    }
}

const char *host_eval(HostModel *m, const HostProgram *h, KernelArray *buffers, int64_t *values,
                      bool *check)
{
    Run r = {m, m->p, h, buffers, values, NULL, check};
    run_steps(&r, 0, h->steps.n);
    for (uint32_t i = 1; i < h->buffers.n && !r.failed; i++)
        array_of(&r, i);
    return r.failed;
}
