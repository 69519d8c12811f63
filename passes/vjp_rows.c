/* vjp_rows.c: derivatives of the pointwise rows. The gradient columns of ops.def are builder calls:
 *   POINTWISE(exp, .., MUL(dy, y), NONE, NONE, ..)   =>   d_a = mul %dy, %y
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/vjp.h"

#include <string.h>

/* A value inside a column; `back` is set once dy took part. */
typedef struct {
    Val v;
    bool back;
} G;

static G g1(Reverse *r, Op op, G x)
{
    return (G){vjp_op1(r, x.back, op, x.v), x.back};
}

static G g2(Reverse *r, Op op, G x, G y)
{
    bool back = x.back || y.back;
    return (G){vjp_op2(r, back, op, x.v, y.v), back};
}

static G constant(Reverse *r, double v, G like)
{
    TypeInfo t = *val_info(r->p, r->g, like.v);
    vjp_stage(r, -1);
    return (G){vjp_full(r, v, &t), false};
}

static G mask(Reverse *r, G cond, G t)
{
    G zero = constant(r, 0, t);
    return (G){vjp_op3(r, t.back, OP_where, cond.v, t.v, zero.v), t.back};
}

#define NONE           ((G){{0, 0}, false})
#define K(v)           constant(r, (v), y)
#define MASK(cond, t)  mask(r, cond, t)
#define ADD(x, z)      g2(r, OP_add, x, z)
#define SUB(x, z)      g2(r, OP_sub, x, z)
#define MUL(x, z)      g2(r, OP_mul, x, z)
#define DIV(x, z)      g2(r, OP_div, x, z)
#define FLOORDIV(x, z) g2(r, OP_floordiv, x, z)
#define POW(x, z)      g2(r, OP_pow, x, z)
#define EQ(x, z)       g2(r, OP_eq, x, z)
#define NE(x, z)       g2(r, OP_ne, x, z)
#define LT(x, z)       g2(r, OP_lt, x, z)
#define LE(x, z)       g2(r, OP_le, x, z)
#define GT(x, z)       g2(r, OP_gt, x, z)
#define GE(x, z)       g2(r, OP_ge, x, z)
#define AND(x, z)      g2(r, OP_and, x, z)
#define OR(x, z)       g2(r, OP_or, x, z)
#define NOT(x)         g1(r, OP_not, x)
#define NEG(x)         g1(r, OP_neg, x)
#define SIGN(x)        g1(r, OP_sign, x)
#define EXP(x)         g1(r, OP_exp, x)
#define LOG(x)         g1(r, OP_log, x)
#define SQRT(x)        g1(r, OP_sqrt, x)
#define SIN(x)         g1(r, OP_sin, x)
#define COS(x)         g1(r, OP_cos, x)
#define SINH(x)        g1(r, OP_sinh, x)
#define COSH(x)        g1(r, OP_cosh, x)

typedef G Column(Reverse *r, G a, G b, G c, G y, G dy);

#define COLUMN(name, k, expr)                                                                      \
    static G name##_##k(Reverse *r, G a, G b, G c, G y, G dy)                                      \
    {                                                                                              \
        (void)r, (void)a, (void)b, (void)c, (void)y, (void)dy;                                     \
        return expr;                                                                               \
    }
#define STRUCTURAL(name, nmin, nmax, doc, ...)
#define POINTWISE(name, arity, domain, result, weight, scalar, ga, gb, gc, doc)                    \
    COLUMN(name, 0, ga) COLUMN(name, 1, gb) COLUMN(name, 2, gc)
#include "ir/ops.def"
#undef POINTWISE

static Column *const columns[OP_COUNT][3] = {
#define POINTWISE(name, arity, domain, result, weight, scalar, ga, gb, gc, doc)                    \
    [OP_##name] = {name##_0, name##_1, name##_2},
#include "ir/ops.def"
#undef POINTWISE
};

/* A column of NONE is text here, before NONE is expanded. */
static const char *const column_text[OP_COUNT][3] = {
#define POINTWISE(name, arity, domain, result, weight, scalar, ga, gb, gc, doc)                    \
    [OP_##name] = {#ga, #gb, #gc},
#include "ir/ops.def"
#undef POINTWISE
#undef STRUCTURAL
};

bool vjp_row_exists(Op op)
{
    for (int k = 0; k < 3; k++)
        if (column_text[op][k] && strcmp(column_text[op][k], "NONE") != 0)
            return true;
    return false;
}

void vjp_pointwise(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    Val y = {id, 0};
    TypeInfo t = *val_info(r->p, r->g, y);
    G in[3] = {NONE, NONE, NONE};
    /* operands take the result's shape first, so that no column meets implicit broadcasting */
    vjp_stage(r, -1);
    for (uint32_t k = 0; k < n->nin; k++)
        in[k].v = build_broadcast_to(r->b, n->in[k], t.shape, t.rank);
    for (uint32_t k = 0; k < n->nin; k++) {
        if (!vjp_wants(r, n, k))
            continue;
        G d = columns[n->op][k](r, in[0], in[1], in[2], (G){y, false}, (G){dy[0], true});
        if (!d.v.node)
            continue;
        TypeInfo to = *val_info(r->p, r->g, n->in[k]);
        vjp_give(r, n, k, vjp_unbroadcast(r, d.v, &to));
    }
}
