/* gemm_step.c: the gemm step of a program, on the CPU. SPDX-License-Identifier: MIT */
#include "runtime/exec.h"
#include "runtime/gemm.h"

static tn__gemm_operand operand(const Call *c, const tn_gemm_operand *o)
{
    tn__gemm_operand out = {0};
    if (!o->buf)
        return out;
    const int64_t *d = c->plan->dims;
    const int64_t size = (int64_t)tn__dtype_size(c->p->buffers[o->buf].dtype);
    out.data = (char *)c->at[o->buf] + d[o->offset] * size;
    out.rows = d[o->rows];
    out.cols = d[o->cols];
    out.batch[0] = d[o->batch0];
    out.batch[1] = d[o->batch1];
    return out;
}

tn_status tn__step_gemm(Call *c, const tn_gemm_step *g)
{
    const int64_t *d = c->plan->dims;
    tn__gemm_args args = {
        .dtype = c->p->buffers[g->a.buf].dtype,
        .c_dtype = c->p->buffers[g->c.buf].dtype,
        .m = d[g->m],
        .n = d[g->n],
        .k = d[g->k],
        .batch = {d[g->batch0], d[g->batch1], 1},
        .a = operand(c, &g->a),
        .b = operand(c, &g->b),
        .c = operand(c, &g->c),
        .sum_a = operand(c, &g->sum_a),
        .sum_b = operand(c, &g->sum_b),
        .accumulate = g->accumulate,
        .accumulate_sums = g->accumulate,
    };
    if (tn__gemm(&args, c->m->ctx->pool))
        return tn__fail(TN_ABI, "%s: a product has operands that do not fit", c->p->name);
    return TN_OK;
}
