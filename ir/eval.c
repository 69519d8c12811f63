/* eval.c: walks a graph; pointwise ops, leaves, calls and random numbers. The structural ops are in
 * eval_ops.c. SPDX-License-Identifier: MIT */
#include "ir/eval.h"

#include "ir/base/die.h"
#include "ir/eval_internal.h"
#include "ir/scalar.h"
#include "ir/tensor_internal.h"

#include <math.h>
#include <string.h>

EvalTensor eval_tensor(Arena *a, DType t, const int64_t *shape, uint32_t rank)
{
    CHECK(rank <= MAX_RANK);
    EvalTensor x = {.dtype = t, .rank = rank, .n = 1};
    for (uint32_t i = 0; i < rank; i++) {
        x.shape[i] = shape[i];
        x.n *= shape[i];
    }
    CHECK(x.n >= 0);
    x.at = arena_array(a, ScalarValue, x.n);
    return x;
}

EvalTensor eval_of_type(Arena *a, const Program *p, Ty t, const int64_t *sizes)
{
    const TypeInfo info = *type_info(p, t);
    int64_t shape[MAX_RANK];
    for (uint32_t i = 0; i < info.rank; i++)
        if (!dim_eval(p->cx->dims, info.shape[i], sizes, &shape[i]) || shape[i] < 0 ||
            shape[i] > INT32_MAX)
            return (EvalTensor){.n = -1};
    return eval_tensor(a, info.dtype, shape, info.rank);
}

void eval_unravel(const EvalTensor *x, int64_t k, int64_t *index)
{
    for (uint32_t i = x->rank; i-- > 0; k /= x->shape[i])
        index[i] = k % x->shape[i];
}

int64_t eval_ravel(const EvalTensor *x, const int64_t *index)
{
    int64_t k = 0;
    for (uint32_t i = 0; i < x->rank; i++)
        k = k * x->shape[i] + index[i];
    return k;
}

bool eval_size(const EvalNode *q, Dim d, int64_t *value)
{
    return dim_eval(q->e->p->cx->dims, d, q->e->sizes, value);
}

void eval_fail(EvalNode *q, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!q->error)
        q->error = arena_vprintf(q->e->a, fmt, ap);
    va_end(ap);
}

/* --- pointwise -------------------------------------------------------------------------------- */

/* Where an operand, aligned at the last axis and stretched, has the element of a result's index. */
static int64_t stretched(const EvalTensor *x, const int64_t *index, uint32_t rank)
{
    int64_t k = 0;
    for (uint32_t i = 0; i < x->rank; i++)
        k = k * x->shape[i] + (x->shape[i] == 1 ? 0 : index[rank - x->rank + i]);
    return k;
}

static void check_stretch(EvalNode *q, const EvalTensor *x)
{
    for (uint32_t i = 0; i < x->rank; i++)
        if (x->shape[i] != 1 && x->shape[i] != q->out->shape[q->out->rank - x->rank + i])
            eval_fail(q, "%s: the sizes %lld and %lld differ", op_name(q->n->op),
                      (long long)x->shape[i], (long long)q->out->shape[q->out->rank - x->rank + i]);
}

static void eval_pointwise(EvalNode *q)
{
    const uint32_t n = q->n->nin;
    const ScalarExpr *text = NULL;
    if (q->n->op == OP_extern) {
        static const char *const names[3] = {"a", "b", "c"};
        const char *error;
        uint32_t at;
        const Sym s = {(uint32_t)node_int(q->n, ATTR_text)};
        text = scalar_parse(q->e->a, sym_text(q->e->p->cx->names, s), names, n, &error, &at);
        if (!text)
            eval_fail(q, "extern: %s", error);
    }
    for (uint32_t i = 0; i < n; i++)
        check_stretch(q, q->in[i]);
    const DType t = q->in[n - 1]->dtype;
    for (int64_t k = 0; k < q->out->n && !q->error; k++) {
        int64_t index[MAX_RANK];
        ScalarValue x[3];
        double f[3] = {0};
        eval_unravel(q->out, k, index);
        for (uint32_t i = 0; i < n; i++) {
            x[i] = q->in[i]->at[stretched(q->in[i], index, q->out->rank)];
            f[i] = x[i].f;
        }
        if (text)
            q->out->at[k].f = dtype_round(t, scalar_eval(text, f));
        else
            q->out->at[k] = eval_row(q->n->op, t, x);
    }
}

/* --- random numbers --------------------------------------------------------------------------- */

void eval_philox(uint64_t counter_lo, uint64_t counter_hi, uint64_t key, uint32_t out[4])
{
    uint32_t c[4] = {(uint32_t)counter_lo, (uint32_t)(counter_lo >> 32), (uint32_t)counter_hi,
                     (uint32_t)(counter_hi >> 32)};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t x = 0xD2511F53ull * c[0], y = 0xCD9E8D57ull * c[2];
        const uint32_t next[4] = {(uint32_t)(y >> 32) ^ c[1] ^ k0, (uint32_t)y,
                                  (uint32_t)(x >> 32) ^ c[3] ^ k1, (uint32_t)x};
        memcpy(c, next, sizeof c);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

double eval_normal(uint32_t u, uint32_t v, bool odd)
{
    const double r = sqrt(-2 * log(((double)(u >> 8) + 1) * 0x1p-24));
    const uint32_t quarter = (v + 0x20000000u) >> 30;
    const int32_t rest = (int32_t)(v - (quarter << 30));
    const double turns = (double)quarter / 4 + floor((double)rest / 64) * 0x1p-26;
    const double angle = 2 * 3.14159265358979323846 * turns;
    return r * (odd ? sin(angle) : cos(angle));
}

void eval_random(EvalNode *q)
{
    if (q->n->op == OP_key) {
        const uint64_t seed = (uint64_t)q->in[0]->at[0].i, calls = (uint64_t)q->in[1]->at[0].i;
        const uint64_t loop = q->n->nin > 2 ? (uint64_t)q->in[2]->at[0].i : 0;
        uint32_t w[4];
        eval_philox((uint64_t)node_int(q->n, ATTR_site), (calls & UINT32_MAX) | loop << 32, seed,
                    w);
        q->out->at[0].i = (int64_t)((uint64_t)w[1] << 32 | w[0]);
        return;
    }
    const int64_t mode = node_int(q->n, ATTR_mode);
    const uint64_t key = (uint64_t)q->in[0]->at[0].i;
    for (int64_t k = 0; k < q->out->n; k++) {
        uint32_t w[4];
        eval_philox((uint64_t)k / 4, 0, key, w);
        const uint32_t word = w[k % 4];
        if (mode == RANDOM_BITS)
            q->out->at[k].i = eval_wrap(DT_i32, word);
        else if (mode == RANDOM_UNIFORM)
            q->out->at[k].f = (double)(word >> 8) * 0x1p-24;
        else
            q->out->at[k].f = dtype_round(
                DT_f32, eval_normal(w[k % 4 / 2 * 2], w[k % 4 / 2 * 2 + 1], k % 2 != 0));
    }
}

/* --- calls and effects ------------------------------------------------------------------------ */

static void eval_call(EvalNode *q)
{
    const Graph *g = q->e->p->graphs.at[node_int(q->n, ATTR_graph)];
    EvalTensor *inputs = arena_array(q->e->a, EvalTensor, g->params.n);
    for (uint32_t i = 0; i < g->params.n; i++)
        inputs[i] = *q->all[i];
    Eval inner = *q->e;
    inner.inputs = inputs;
    const char *error = eval_graph(&inner, g);
    if (error) {
        eval_fail(q, "%s", error);
        return;
    }
    q->e->failed = inner.failed;
    for (uint32_t k = 0; k < q->n->nout; k++)
        q->out[k] = inner.results[k];
}

static void show(EvalNode *q)
{
    const EvalTensor *x = q->in[0];
    StrBuf *b = q->e->printed;
    if (!b)
        return;
    sb_puts(b, sym_text(q->e->p->cx->names, (Sym){(uint32_t)node_int(q->n, ATTR_text)}));
    for (int64_t k = 0; k < x->n; k++)
        sb_printf(b, " %.9g", eval_at(x, k));
    sb_putc(b, '\n');
}

static void eval_effect(EvalNode *q)
{
    const EvalTensor *x = q->in[0];
    memcpy(q->out->at, x->at, (size_t)x->n * sizeof *x->at);
    if (q->n->op == OP_print)
        show(q);
    for (int64_t k = 0; q->n->op == OP_check && k < x->n && !q->e->failed; k++)
        if (!x->at[k].i)
            q->e->failed = sym_text(q->e->p->cx->names, (Sym){(uint32_t)node_int(q->n, ATTR_text)});
}

/* --- leaves ----------------------------------------------------------------------------------- */

static void eval_table(EvalNode *q)
{
    const ConstTable *table = &q->e->p->tables.at[node_int(q->n, ATTR_table)];
    const size_t size = (size_t)dtype_size(q->out->dtype);
    for (int64_t k = 0; k < q->out->n; k++) {
        uint64_t bits = 0;
        memcpy(&bits, (const char *)table->data + (size_t)k * size, size);
        q->out->at[k] = eval_from_bits(q->out->dtype, bits);
    }
}

static void eval_leaf(EvalNode *q)
{
    const Node *n = q->n;
    int64_t v;
    switch (n->op) {
    case OP_const:
        if (dtype_is_float(q->out->dtype))
            q->out->at[0].f = node_f64(n, ATTR_value);
        else
            q->out->at[0].i = node_int(n, ATTR_value);
        return;
    case OP_dim:
        if (eval_size(q, node_dim(n, ATTR_shape, 0), &v))
            q->out->at[0].i = v;
        else
            eval_fail(q, "a size cannot be computed");
        return;
    case OP_table:
        eval_table(q);
        return;
    default:
        for (int64_t k = 0; k < q->out->n; k++) {
            int64_t index[MAX_RANK];
            eval_unravel(q->out, k, index);
            q->out->at[k].i = index[node_int(n, ATTR_axis)];
        }
    }
}

static void eval_conversion(EvalNode *q)
{
    const EvalTensor *x = q->in[0];
    for (int64_t k = 0; k < x->n; k++)
        q->out->at[k] = q->n->op == OP_cast
                            ? eval_cast(x->dtype, q->out->dtype, x->at[k])
                            : eval_from_bits(q->out->dtype, eval_to_bits(x->dtype, x->at[k]));
}

static void eval_op(EvalNode *q)
{
    switch (q->n->op) {
    case OP_const:
    case OP_dim:
    case OP_iota:
    case OP_table:
        eval_leaf(q);
        return;
    case OP_key:
    case OP_random:
        eval_random(q);
        return;
    case OP_cast:
    case OP_bitcast:
        eval_conversion(q);
        return;
    case OP_call:
        eval_call(q);
        return;
    case OP_scan:
        eval_scan(q);
        return;
    case OP_print:
    case OP_check:
    case OP_transfer:
        eval_effect(q);
        return;
    case OP_extern:
        eval_pointwise(q);
        return;
    default:
        if (op_is_pointwise(q->n->op))
            eval_pointwise(q);
        else
            eval_structural(q);
    }
}

/* --- graphs ----------------------------------------------------------------------------------- */

static const char *check_input(Eval *e, const Graph *g, uint32_t i)
{
    const EvalTensor want = eval_of_type(e->a, e->p, val_type(g, g->params.at[i].val), e->sizes);
    const EvalTensor *x = &e->inputs[i];
    bool same = x->dtype == want.dtype && x->rank == want.rank && want.n >= 0;
    for (uint32_t k = 0; same && k < want.rank; k++)
        same = x->shape[k] == want.shape[k];
    return same ? NULL
                : arena_printf(e->a, "input %s does not have its type",
                               sym_text(e->p->cx->names, g->params.at[i].name));
}

static const char *eval_node(Eval *e, const Graph *g, uint32_t id, EvalTensor **values)
{
    const Node *n = &g->nodes.at[id];
    EvalNode q = {.e = e, .g = g, .n = n};
    q.out = values[id] = arena_array(e->a, EvalTensor, n->nout);
    if (n->op == OP_state) {
        q.out[0] = e->slots[node_int(n, ATTR_slot)];
        return NULL;
    }
    q.all = arena_array(e->a, const EvalTensor *, n->nin);
    for (uint32_t i = 0; i < n->nin; i++) {
        q.all[i] = &values[n->in[i].node][n->in[i].result];
        if (i < ARRAY_LEN(q.in))
            q.in[i] = q.all[i];
    }
    for (uint32_t k = 0; k < n->nout; k++) {
        q.out[k] = eval_of_type(e->a, e->p, n->types[k], e->sizes);
        if (q.out[k].n < 0)
            return arena_printf(e->a, "a size of %s cannot be computed or is negative",
                                op_name(n->op));
    }
    eval_op(&q);
    return q.error;
}

const char *eval_graph(Eval *e, const Graph *g)
{
    EvalTensor **values = arena_array(e->a, EvalTensor *, g->nodes.n);
    const bool *live = graph_live(e->p, g);
    for (uint32_t i = 0; i < g->params.n; i++) {
        const char *error = check_input(e, g, i);
        if (error)
            return error;
        EvalTensor *x = arena_new(e->a, EvalTensor);
        *x = e->inputs[i];
        values[g->params.at[i].val.node] = x;
    }
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        const char *error =
            live[id] && g->nodes.at[id].op != OP_input ? eval_node(e, g, id, values) : NULL;
        if (error)
            return error;
    }
    e->results = arena_array(e->a, EvalTensor, g->results.n);
    for (uint32_t i = 0; i < g->results.n; i++)
        e->results[i] = values[g->results.at[i].val.node][g->results.at[i].val.result];
    for (uint32_t i = 0; i < g->commits.n; i++)
        e->slots[g->commits.at[i].slot] =
            values[g->commits.at[i].val.node][g->commits.at[i].val.result];
    return NULL;
}
