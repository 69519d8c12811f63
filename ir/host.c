/* host.c: the verifier of host IR. SPDX-License-Identifier: MIT */
#include "ir/host.h"

typedef struct {
    const HostModel *m;
    const HostProgram *h;
    bool *written; /* buffers that hold something */
} Verify;

static const char *bad(const Verify *v, uint32_t step, const char *what)
{
    return arena_printf(v->m->p->cx->scratch, "program %s, step %u: %s",
                        sym_text(v->m->p->cx->names, v->h->name), step, what);
}

static bool valid(const Verify *v, uint32_t buf)
{
    return buf > 0 && buf < v->h->buffers.n;
}

static bool readable(const Verify *v, uint32_t buf)
{
    return v->written[host_root(v->h, buf)];
}

static void write_to(Verify *v, uint32_t buf)
{
    v->written[host_root(v->h, buf)] = true;
}

static const char *verify_launch(Verify *v, uint32_t i, const Step *s)
{
    if (s->kernel >= v->m->kernels.n)
        return bad(v, i, "no such kernel");
    const Kernel *k = v->m->kernels.at[s->kernel];
    if (s->operands.n != k->params.n)
        return bad(v, i, "number of operands");
    Symbol sizes[64];
    if (s->ints.n != kernel_sizes(v->m->p, k, sizes, 64))
        return bad(v, i, "number of sizes");
    for (uint32_t j = 0; j < s->operands.n; j++) {
        uint32_t buf = s->operands.at[j].buf;
        if (!valid(v, buf))
            return bad(v, i, "operand without a buffer");
        if (v->h->buffers.at[buf].dtype != k->params.at[j].dtype)
            return bad(v, i, "dtype of an operand");
        if (k->params.at[j].mode != K_OUT && !readable(v, buf))
            return bad(v, i, "reads a buffer that nothing wrote");
    }
    for (uint32_t j = 0; j < s->operands.n; j++)
        if (k->params.at[j].mode != K_IN)
            write_to(v, s->operands.at[j].buf);
    return NULL;
}

static const char *verify_gemm(Verify *v, uint32_t i, const Step *s)
{
    if (!valid(v, s->a.buf) || !valid(v, s->b.buf) || !valid(v, s->c.buf))
        return bad(v, i, "operand without a buffer");
    if (!readable(v, s->a.buf) || !readable(v, s->b.buf) ||
        (s->bias.buf && !readable(v, s->bias.buf)))
        return bad(v, i, "reads a buffer that nothing wrote");
    write_to(v, s->c.buf);
    if (s->sum_a.buf)
        write_to(v, s->sum_a.buf);
    if (s->sum_b.buf)
        write_to(v, s->sum_b.buf);
    return NULL;
}

static const char *verify_step(Verify *v, uint32_t i)
{
    const Step *s = &v->h->steps.at[i];
    switch (s->kind) {
    case STEP_LAUNCH:
        return verify_launch(v, i, s);
    case STEP_GEMM:
        return verify_gemm(v, i, s);
    case STEP_COPY:
        if (!valid(v, s->src) || !valid(v, s->dst) || !readable(v, s->src))
            return bad(v, i, "copies from nothing");
        write_to(v, s->dst);
        return NULL;
    case STEP_FILL:
        if (!valid(v, s->dst))
            return bad(v, i, "fills nothing");
        write_to(v, s->dst);
        return NULL;
    case STEP_LOOP:
        return s->other > i && s->other < v->h->steps.n &&
                       v->h->steps.at[s->other].kind == STEP_END &&
                       v->h->steps.at[s->other].other == i
                   ? NULL
                   : bad(v, i, "a loop without an end");
    case STEP_END:
        return s->other < i && v->h->steps.at[s->other].kind == STEP_LOOP
                   ? NULL
                   : bad(v, i, "an end without a loop");
    case STEP_SWAP:
        if (!valid(v, s->src) || !valid(v, s->dst) || v->h->buffers.at[s->src].of ||
            v->h->buffers.at[s->dst].of)
            return bad(v, i, "swaps what is no buffer of its own");
        write_to(v, s->src);
        return NULL;
    case STEP_PRINT:
        return valid(v, s->src) && readable(v, s->src) ? NULL : bad(v, i, "prints nothing");
    }
    return bad(v, i, "unknown step");
}

const char *host_verify(const HostModel *m, const HostProgram *h)
{
    Verify v = {m, h, arena_array(m->p->cx->scratch, bool, h->buffers.n)};
    for (uint32_t i = 1; i < h->buffers.n; i++) {
        const Buffer *b = &h->buffers.at[i];
        if (b->of && (!valid(&v, b->of) || b->of == i))
            return bad(&v, 0, "a piece of nothing");
        /* a tape is written by forward_train and read by backward; results that share an argument's
         * memory hold it from the start */
        v.written[i] = b->kind == BUF_ARG || b->kind == BUF_STATE || b->kind == BUF_CONST ||
                       (b->kind == BUF_TAPE && h->graph->kind == GRAPH_BACKWARD);
    }
    for (uint32_t i = 0; i < h->steps.n; i++) {
        const char *why = verify_step(&v, i);
        if (why)
            return why;
    }
    for (uint32_t i = h->nargs; i < h->args.n; i++)
        if (!readable(&v, h->args.at[i].buf))
            return bad(&v, h->steps.n, "a result that nothing wrote");
    return NULL;
}
