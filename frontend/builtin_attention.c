/* builtin_attention.c: _attention(q, k, v, bias, causal, scale, dropout), behind `attention` of the
 * prelude. q [B, H, T, D], k [B, G, S, D], v [B, G, S, E]; H is a multiple of G.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <math.h>

enum { LONGEST = 128 }; /* vectors that the functions of runtime/kernels/attention.h take */

static bool vectors(Elab *e, const Call *c, uint32_t i, Val *out)
{
    static const char *const names[] = {"q", "k", "v"};
    if (!arg_float_tensor(e, c, i, out))
        return false;
    if (type_at(e, *out)->rank == 4)
        return true;
    elab_error(e, DIAG_shape_mismatch, c->at,
               "attention: %s has %u axes, where q has another number", names[i],
               type_at(e, *out)->rank);
    return false;
}

static bool same_types(Elab *e, const Call *c, const Val *x)
{
    const DType t = type_at(e, x[0])->dtype;
    for (int i = 1; i < 3; i++)
        if (type_at(e, x[i])->dtype != t) {
            elab_error(e, DIAG_dtype_mismatch, c->at, "attention: q is of %s, but %s of %s",
                       dtype_name(t), i == 1 ? "k" : "v", dtype_name(type_at(e, x[i])->dtype));
            return false;
        }
    return true;
}

static bool same_size(Elab *e, const Call *c, Dim a, Dim b, const char *what)
{
    if (prove_equal(e, c->at, a, b))
        return true;
    elab_error(e, DIAG_shape_mismatch, c->at, "attention: %s: %s and %s", what, dim_str(e, a),
               dim_str(e, b));
    return false;
}

static bool sizes_fit(Elab *e, const Call *c, const Val *x)
{
    const TypeInfo q = *type_at(e, x[0]), k = *type_at(e, x[1]), v = *type_at(e, x[2]);
    int64_t h, g;
    if (!same_size(e, c, q.shape[0], k.shape[0], "the batches of q and k differ") ||
        !same_size(e, c, k.shape[0], v.shape[0], "the batches of k and v differ") ||
        !same_size(e, c, q.shape[3], k.shape[3], "the vectors of q and k are not of one length") ||
        !same_size(e, c, k.shape[1], v.shape[1], "the heads of k and v differ") ||
        !same_size(e, c, k.shape[2], v.shape[2], "k and v are of different lengths"))
        return false;
    if (dim_is_const(e->dims, q.shape[1], &h) && dim_is_const(e->dims, k.shape[1], &g) &&
        (g ? h % g == 0 : h == 0))
        return true;
    elab_error(e, DIAG_shape_mismatch, c->at,
               "attention: q has %s heads, which is no multiple of the %s of k and v",
               dim_str(e, q.shape[1]), dim_str(e, k.shape[1]));
    return false;
}

/* The bias with four axes, each 1 or that of the scores. */
static bool bias_of(Elab *e, const Call *c, const Val *x, Val *bias)
{
    const TypeInfo q = *type_at(e, x[0]), k = *type_at(e, x[1]);
    const Dim scores[] = {q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
    if (!arg_float_tensor(e, c, 3, bias))
        return false;
    const TypeInfo t = *type_at(e, *bias);
    Dim shape[4];
    if (t.rank > 4) {
        elab_error(e, DIAG_shape_mismatch, c->at,
                   "attention: the mask has %u axes, the scores have 4", t.rank);
        return false;
    }
    for (uint32_t i = 0; i < 4; i++) {
        const bool has = i + t.rank >= 4;
        shape[i] = has ? t.shape[i + t.rank - 4] : dim_const(e->dims, 1);
        if (has && !dim_is_one(e->dims, shape[i]) && !prove_equal(e, c->at, shape[i], scores[i])) {
            elab_error(e, DIAG_shape_mismatch, c->at,
                       "attention: the mask is %s, the scores are [%s, %s, %s, %s]",
                       val_shape_str(e, *bias), dim_str(e, scores[0]), dim_str(e, scores[1]),
                       dim_str(e, scores[2]), dim_str(e, scores[3]));
            return false;
        }
    }
    *bias = build_reshape(&e->b, *bias, shape, 4);
    return true;
}

static bool is_short(Elab *e, Dim d)
{
    int64_t n;
    return dim_is_const(e->dims, d, &n) && n >= 1 && n <= LONGEST;
}

/* row->op: 0. Whether scores need not be in memory: the types and sizes that there are functions
 * for. */
static bool has_function(Elab *e, const Val *x)
{
    return type_at(e, x[0])->dtype != DT_f64 && is_short(e, type_at(e, x[0])->shape[3]) &&
           is_short(e, type_at(e, x[2])->shape[3]);
}

bool builtin_attention(Elab *e, const Call *c, Value *out)
{
    Val x[3];
    Attention how = {0};
    for (uint32_t i = 0; i < 3; i++)
        if (!vectors(e, c, i, &x[i]))
            return false;
    if (!same_types(e, c, x) || !sizes_fit(e, c, x) || !arg_bool(e, c, 4, &how.causal) ||
        !arg_float(e, c, 5, &how.scale) || !arg_float(e, c, 6, &how.drop))
        return false;
    if (arg_given(c, 3) && !bias_of(e, c, x, &how.bias))
        return false;
    if (how.drop > 0 && e->training)
        how.key = draw_key(e, "attention");
    for (int i = 0; i < 3; i++)
        x[i] = build_transpose(&e->b, x[i], (int64_t[]){0, 2, 1, 3});
    Val y;
    if (has_function(e, x)) {
        if (how.bias.node)
            how.bias = build_cast(&e->b, how.bias, DT_f32);
        y = build_attention(&e->b, x[0], x[1], x[2], &how);
    } else {
        y = build_attention_plain(&e->b, x[0], x[1], x[2], &how);
    }
    return give(e, build_transpose(&e->b, y, (int64_t[]){0, 2, 1, 3}), out);
}
