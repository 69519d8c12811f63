/* eval_ops.c: the structural ops of the reference evaluator, each by its definition.
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/eval_internal.h"

#include <math.h>
#include <string.h>

/* --- views ------------------------------------------------------------------------------------ */

static void eval_reshape(EvalNode *q)
{
    const EvalTensor *x = q->in[0];
    if (x->n != q->out->n)
        eval_fail(q, "reshape: %lld elements become %lld", (long long)x->n, (long long)q->out->n);
    else
        memcpy(q->out->at, x->at, (size_t)x->n * sizeof *x->at);
}

static void eval_broadcast(EvalNode *q)
{
    const EvalTensor *x = q->in[0];
    const Attr dims = node_attr(q->n, ATTR_dims);
    for (int64_t k = 0; k < q->out->n; k++) {
        int64_t index[MAX_RANK], from[MAX_RANK];
        eval_unravel(q->out, k, index);
        for (uint32_t i = 0; i < x->rank; i++)
            from[i] = x->shape[i] == 1 ? 0 : index[dims.at[i]];
        q->out->at[k] = x->at[eval_ravel(x, from)];
    }
}

static void eval_transpose(EvalNode *q)
{
    const EvalTensor *x = q->in[0];
    const Attr perm = node_attr(q->n, ATTR_perm);
    for (int64_t k = 0; k < q->out->n; k++) {
        int64_t index[MAX_RANK], from[MAX_RANK];
        eval_unravel(q->out, k, index);
        for (uint32_t i = 0; i < x->rank; i++)
            from[perm.at[i]] = index[i];
        q->out->at[k] = x->at[eval_ravel(x, from)];
    }
}

static void eval_slice(EvalNode *q)
{
    const EvalTensor *x = q->in[0];
    const Attr step = node_attr(q->n, ATTR_step);
    int64_t start[MAX_RANK];
    for (uint32_t i = 0; i < x->rank; i++) {
        if (!eval_size(q, node_dim(q->n, ATTR_start, i), &start[i])) {
            eval_fail(q, "slice: a size cannot be computed");
            return;
        }
        const int64_t last = start[i] + step.at[i] * (q->out->shape[i] - 1);
        if (q->out->shape[i] > 0 &&
            (start[i] < 0 || last < 0 || start[i] >= x->shape[i] || last >= x->shape[i])) {
            eval_fail(q, "slice: axis %u of size %lld has no range %lld to %lld", i,
                      (long long)x->shape[i], (long long)start[i], (long long)last);
            return;
        }
    }
    for (int64_t k = 0; k < q->out->n; k++) {
        int64_t index[MAX_RANK];
        eval_unravel(q->out, k, index);
        for (uint32_t i = 0; i < x->rank; i++)
            index[i] = start[i] + step.at[i] * index[i];
        q->out->at[k] = x->at[eval_ravel(x, index)];
    }
}

static void eval_pad(EvalNode *q)
{
    const EvalTensor *x = q->in[0];
    const Attr interior = node_attr(q->n, ATTR_interior);
    int64_t lo[MAX_RANK];
    for (uint32_t i = 0; i < x->rank; i++)
        if (!eval_size(q, node_dim(q->n, ATTR_lo, i), &lo[i]) || lo[i] < 0) {
            eval_fail(q, "pad: a size cannot be computed");
            return;
        }
    for (int64_t k = 0; k < q->out->n; k++)
        q->out->at[k] = q->in[1]->at[0];
    for (int64_t k = 0; k < x->n; k++) {
        int64_t index[MAX_RANK];
        eval_unravel(x, k, index);
        for (uint32_t i = 0; i < x->rank; i++)
            index[i] = lo[i] + index[i] * (interior.at[i] + 1);
        q->out->at[eval_ravel(q->out, index)] = x->at[k];
    }
}

static void eval_concat(EvalNode *q)
{
    const int64_t axis = node_int(q->n, ATTR_axis);
    int64_t offset = 0;
    for (uint32_t i = 0; i < q->n->nin; i++) {
        const EvalTensor *x = q->all[i];
        for (uint32_t d = 0; d < x->rank; d++)
            if (d != axis && x->shape[d] != q->out->shape[d]) {
                eval_fail(q, "concat: the sizes of axis %u differ", d);
                return;
            }
        for (int64_t k = 0; k < x->n; k++) {
            int64_t index[MAX_RANK];
            eval_unravel(x, k, index);
            index[axis] += offset;
            q->out->at[eval_ravel(q->out, index)] = x->at[k];
        }
        offset += x->shape[axis];
    }
}

/* --- reductions ------------------------------------------------------------------------------- */

/* Folds one list of values: what a reducer makes of x[0..n). */
typedef struct {
    const ScalarValue *x;
    int64_t n;
    DType t;
} List;

static ScalarValue identity(Reducer kind, DType t)
{
    const bool is_float = dtype_is_float(t);
    ScalarValue r = {0};
    if (kind == RED_mul) {
        if (is_float)
            r.f = 1;
        else
            r.i = 1;
    } else if (kind == RED_max || kind == RED_min || kind == RED_argmax || kind == RED_argmin) {
        const double low = kind == RED_max || kind == RED_argmax ? -INFINITY : INFINITY;
        if (is_float)
            r.f = low;
        else
            r = eval_cast(DT_f64, t, (ScalarValue){.f = low});
    } else if (kind == RED_and) {
        r.i = t == DT_bool ? 1 : eval_wrap(t, -1);
    }
    return r;
}

/* b replaces a: larger (smaller), or the first NaN. */
static bool is_better(Reducer kind, DType t, ScalarValue b, ScalarValue a)
{
    if (dtype_is_float(t)) {
        if (isnan(a.f) || isnan(b.f))
            return !isnan(a.f);
        return kind == RED_max || kind == RED_argmax ? b.f > a.f : b.f < a.f;
    }
    if (t == DT_u64)
        return kind == RED_max || kind == RED_argmax ? (uint64_t)b.i > (uint64_t)a.i
                                                     : (uint64_t)b.i < (uint64_t)a.i;
    return kind == RED_max || kind == RED_argmax ? b.i > a.i : b.i < a.i;
}

static ScalarValue join(Reducer kind, DType t, ScalarValue a, ScalarValue b)
{
    const uint64_t x = (uint64_t)a.i, y = (uint64_t)b.i;
    switch (kind) {
    case RED_add:
        if (dtype_is_float(t))
            a.f += b.f;
        else
            a.i = eval_wrap(t, (int64_t)(x + y));
        return a;
    case RED_mul:
        if (dtype_is_float(t))
            a.f *= b.f;
        else
            a.i = eval_wrap(t, (int64_t)(x * y));
        return a;
    case RED_or:
        a.i |= b.i;
        return a;
    case RED_and:
        a.i &= b.i;
        return a;
    default:
        return is_better(kind, t, b, a) ? b : a;
    }
}

static ScalarValue rounded(DType t, ScalarValue x)
{
    if (dtype_is_float(t))
        x.f = dtype_round(t, x.f);
    return x;
}

static void reduce_moments(const List *l, ScalarValue *mean, ScalarValue *var)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < l->n; i++)
        sum += l->x[i].f;
    const double m = sum / (double)l->n;
    for (int64_t i = 0; i < l->n; i++)
        squares += (l->x[i].f - m) * (l->x[i].f - m);
    mean->f = dtype_round(l->t, m);
    var->f = dtype_round(l->t, squares / (double)l->n);
}

static double reduce_logsumexp(const List *l)
{
    double m = -INFINITY, sum = 0;
    for (int64_t i = 0; i < l->n; i++) {
        if (isnan(l->x[i].f))
            return l->x[i].f;
        m = l->x[i].f > m ? l->x[i].f : m;
    }
    if (isinf(m))
        return m;
    for (int64_t i = 0; i < l->n; i++)
        sum += exp(l->x[i].f - m);
    return m + log(sum);
}

static void reduce_list(Reducer kind, const List *l, ScalarValue *out, ScalarValue *second)
{
    if (kind == RED_moments) {
        reduce_moments(l, out, second);
        return;
    }
    if (kind == RED_logsumexp) {
        out->f = dtype_round(l->t, reduce_logsumexp(l));
        return;
    }
    ScalarValue acc = l->n ? l->x[0] : identity(kind, l->t);
    int64_t at = 0;
    const bool index = kind == RED_argmax || kind == RED_argmin;
    for (int64_t i = 1; i < l->n; i++) {
        if (index && is_better(kind, l->t, l->x[i], acc)) {
            acc = l->x[i];
            at = i;
        } else if (!index) {
            acc = join(kind, l->t, acc, l->x[i]);
        }
    }
    *out = rounded(l->t, acc);
    if (second)
        second->i = at;
}

static bool is_listed(Attr a, uint32_t axis)
{
    for (uint32_t i = 0; i < a.n; i++)
        if (a.at[i] == (int64_t)axis)
            return true;
    return false;
}

static void eval_reduce(EvalNode *q)
{
    const EvalTensor *x = q->in[0];
    const Attr axes = node_attr(q->n, ATTR_axes);
    const Reducer kind = (Reducer)node_int(q->n, ATTR_kind);
    int64_t n = 1;
    for (uint32_t i = 0; i < axes.n; i++)
        n *= x->shape[axes.at[i]];
    List l = {.n = n, .t = x->dtype};
    ScalarValue *list = arena_array(q->e->a, ScalarValue, n);
    l.x = list;
    for (int64_t k = 0; k < q->out->n; k++) {
        int64_t kept[MAX_RANK], index[MAX_RANK];
        eval_unravel(q->out, k, kept);
        for (int64_t r = 0; r < n; r++) {
            int64_t rest = r, at = (int64_t)q->out->rank;
            for (uint32_t i = x->rank; i-- > 0;)
                if (is_listed(axes, i)) {
                    index[i] = rest % x->shape[i];
                    rest /= x->shape[i];
                } else {
                    index[i] = kept[--at];
                }
            list[r] = x->at[eval_ravel(x, index)];
        }
        reduce_list(kind, &l, &q->out[0].at[k], q->n->nout > 1 ? &q->out[1].at[k] : NULL);
    }
}

/* y = a * y' + b along the axis. */
static void eval_linear(EvalNode *q, int64_t axis, int64_t mode)
{
    const EvalTensor *a = q->in[0], *b = q->in[1], *init = q->in[2];
    const int64_t n = a->shape[axis];
    const bool reverse = mode & CUMULATE_REVERSE, full = mode & CUMULATE_FULL;
    for (int64_t k = 0; k < init->n; k++) {
        int64_t outer[MAX_RANK], index[MAX_RANK], to[MAX_RANK];
        eval_unravel(init, k, outer);
        for (uint32_t i = 0; i < a->rank; i++)
            to[i] = index[i] = i == axis ? 0 : outer[i > axis ? i - 1 : i];
        double y = init->at[k].f, factor = 0;
        to[axis] = reverse ? n : 0;
        if (full)
            q->out->at[eval_ravel(q->out, to)].f = y;
        for (int64_t t = 0; t < n; t++) {
            index[axis] = reverse ? n - 1 - t : t;
            to[axis] = index[axis] + (full && !reverse);
            const int64_t at = eval_ravel(a, index);
            const double before = y, own = a->at[at].f, x = b->at[at].f;
            if (mode & CUMULATE_BEHIND)
                y = dtype_round(a->dtype, t ? factor * y + x : x);
            else
                y = dtype_round(a->dtype, own * y + x);
            factor = own;
            q->out->at[eval_ravel(q->out, to)].f = mode & CUMULATE_EXCLUSIVE ? before : y;
        }
    }
}

static void eval_cumulate(EvalNode *q)
{
    const EvalTensor *x = q->in[0];
    const int64_t axis = node_int(q->n, ATTR_axis), mode = node_int(q->n, ATTR_mode);
    const bool reverse = mode & 1, exclusive = mode & 2;
    const Reducer kind = (Reducer)node_int(q->n, ATTR_kind);
    const int64_t n = x->shape[axis];
    if (q->n->nin == 3) {
        eval_linear(q, axis, mode);
        return;
    }
    if (q->n->nout == 2) {
        eval_chosen(q);
        return;
    }
    for (int64_t k = 0; k < x->n; k++) {
        int64_t index[MAX_RANK];
        eval_unravel(x, k, index);
        if (index[axis] != 0)
            continue;
        ScalarValue acc = identity(kind, x->dtype);
        for (int64_t t = 0; t < n; t++) {
            index[axis] = reverse ? n - 1 - t : t;
            const int64_t at = eval_ravel(x, index);
            const ScalarValue before = acc;
            acc = join(kind, x->dtype, acc, x->at[at]);
            q->out->at[at] = rounded(x->dtype, exclusive ? before : acc);
        }
    }
}

/* --- products and choice ---------------------------------------------------------------------- */

/* The axes of an operand that are neither batch nor contracted, in order. */
static uint32_t free_axes(const EvalTensor *x, Attr batch, Attr contract, uint32_t *axes)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->rank; i++)
        if (!is_listed(batch, i) && !is_listed(contract, i))
            axes[n++] = i;
    return n;
}

static void eval_dot(EvalNode *q)
{
    const EvalTensor *a = q->in[0], *b = q->in[1];
    const Attr ba = node_attr(q->n, ATTR_batch_a), bb = node_attr(q->n, ATTR_batch_b);
    const Attr ca = node_attr(q->n, ATTR_contract_a), cb = node_attr(q->n, ATTR_contract_b);
    uint32_t fa[MAX_RANK], fb[MAX_RANK];
    const uint32_t nfa = free_axes(a, ba, ca, fa), nfb = free_axes(b, bb, cb, fb);
    int64_t total = 1;
    for (uint32_t i = 0; i < ca.n; i++) {
        if (a->shape[ca.at[i]] != b->shape[cb.at[i]])
            eval_fail(q, "dot: the contracted sizes differ");
        total *= a->shape[ca.at[i]];
    }
    for (int64_t k = 0; k < q->out->n && !q->error; k++) {
        int64_t index[MAX_RANK], ia[MAX_RANK], ib[MAX_RANK];
        eval_unravel(q->out, k, index);
        for (uint32_t i = 0; i < ba.n; i++) {
            ia[ba.at[i]] = index[i];
            ib[bb.at[i]] = index[i];
        }
        for (uint32_t i = 0; i < nfa; i++)
            ia[fa[i]] = index[ba.n + i];
        for (uint32_t i = 0; i < nfb; i++)
            ib[fb[i]] = index[ba.n + nfa + i];
        double sum = 0;
        uint64_t isum = 0;
        for (int64_t r = 0; r < total; r++) {
            int64_t rest = r;
            for (uint32_t i = ca.n; i-- > 0;) {
                ia[ca.at[i]] = ib[cb.at[i]] = rest % a->shape[ca.at[i]];
                rest /= a->shape[ca.at[i]];
            }
            const ScalarValue x = a->at[eval_ravel(a, ia)], y = b->at[eval_ravel(b, ib)];
            if (dtype_is_float(a->dtype))
                sum += x.f * y.f;
            else
                isum += (uint64_t)x.i * (uint64_t)y.i;
        }
        if (dtype_is_float(a->dtype))
            q->out->at[k].f = dtype_round(q->out->dtype, sum);
        else
            q->out->at[k].i = eval_wrap(q->out->dtype, (int64_t)isum);
    }
}

static void eval_gather(EvalNode *q)
{
    const EvalTensor *x = q->in[0], *idx = q->in[1];
    const int64_t axis = node_int(q->n, ATTR_axis), batch = node_int(q->n, ATTR_batch);
    const int64_t mode = node_int(q->n, ATTR_mode), n = x->shape[axis];
    const uint32_t nidx = idx->rank - (uint32_t)batch;
    for (int64_t k = 0; k < q->out->n; k++) {
        int64_t index[MAX_RANK], at[MAX_RANK], from[MAX_RANK];
        eval_unravel(q->out, k, index);
        for (uint32_t i = 0; i < batch; i++)
            at[i] = index[i];
        for (uint32_t i = 0; i < nidx; i++)
            at[batch + i] = index[axis + i];
        int64_t chosen = idx->at[eval_ravel(idx, at)].i;
        if (mode == GATHER_CLAMP)
            chosen = chosen < 0 ? 0 : chosen >= n ? n - 1 : chosen;
        if (chosen < 0 || chosen >= n) { /* reads nothing: the element stays 0 */
            if (mode == GATHER_CHECK && !q->e->failed)
                q->e->failed = arena_printf(q->e->a, "index %lld is out of range 0 to %lld",
                                            (long long)chosen, (long long)n - 1);
            continue;
        }
        for (uint32_t i = 0; i < x->rank; i++)
            from[i] = i < axis ? index[i] : i == axis ? chosen : index[i - 1 + nidx];
        q->out->at[k] = x->at[eval_ravel(x, from)];
    }
}

void eval_structural(EvalNode *q)
{
    switch (q->n->op) {
    case OP_reshape:
        eval_reshape(q);
        return;
    case OP_broadcast:
        eval_broadcast(q);
        return;
    case OP_transpose:
        eval_transpose(q);
        return;
    case OP_slice:
        eval_slice(q);
        return;
    case OP_pad:
        eval_pad(q);
        return;
    case OP_concat:
        eval_concat(q);
        return;
    case OP_reduce:
        eval_reduce(q);
        return;
    case OP_cumulate:
        eval_cumulate(q);
        return;
    case OP_dot:
        eval_dot(q);
        return;
    case OP_gather:
        eval_gather(q);
        return;
    case OP_scatter:
    case OP_sort:
        eval_chosen(q);
        return;
    case OP_attention:
    case OP_attention_grad:
        eval_attention(q);
        return;
    case OP_window:
    case OP_fold:
    case OP_unwindow:
    case OP_conv:
        eval_windows(q);
        return;
    default:
        die("op %s has no evaluation", op_name(q->n->op));
    }
}
