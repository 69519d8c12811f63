/* ops.c: the tables behind ops.h, made of ops.def, attrs.def and reducers.def.
 * SPDX-License-Identifier: MIT */
#include "ir/ops.h"

#include "ir/base/die.h"

#include <stddef.h>
#include <string.h>

#define IS_COMMUTATIVE(op)                                                                         \
    ((op) == OP_add || (op) == OP_mul || (op) == OP_min || (op) == OP_max || (op) == OP_and ||     \
     (op) == OP_or || (op) == OP_xor || (op) == OP_eq || (op) == OP_ne)

/* The gradient columns are dropped; the scalar column is kept as text. */
const OpInfo op_infos[OP_COUNT] = {
    [OP_none] = {.name = "none", .doc = "no operator"},
#define POINTWISE(n, arity, dom, res, w, expr, ga, gb, gc, text)                                   \
    [OP_##n] = {.name = #n,                                                                        \
                .doc = text,                                                                       \
                .pointwise = true,                                                                 \
                .nmin = arity,                                                                     \
                .nmax = arity,                                                                     \
                .domain = DOM_##dom,                                                               \
                .result = RES_##res,                                                               \
                .weight = w,                                                                       \
                .scalar = #expr,                                                                   \
                .commutative = IS_COMMUTATIVE(OP_##n)},
#define STRUCTURAL(n, least, most, text, ...)                                                      \
    [OP_##n] = {.name = #n,                                                                        \
                .doc = text,                                                                       \
                .nmin = least,                                                                     \
                .nmax = most,                                                                      \
                .attrs = {__VA_ARGS__},                                                            \
                .nattrs = (int)ARRAY_LEN(((const AttrName[]){__VA_ARGS__}))},
#include "ir/ops.def"
#undef POINTWISE
#undef STRUCTURAL
};

static const struct {
    const char *name;
    AttrKind kind;
} attrs[ATTR_COUNT] = {
    [ATTR_none] = {"none", AK_INTS},
#define ATTR(n, k, doc) [ATTR_##n] = {#n, k},
#include "ir/attrs.def"
#undef ATTR
};

static const ReducerInfo reducers[RED_COUNT] = {
    [RED_none] = {"none", "no reducer", 0, 0},
#define REDUCER(n, results, fields, text) [RED_##n] = {#n, text, results, fields},
#include "ir/reducers.def"
#undef REDUCER
};

Op op_parse(const char *name)
{
    for (int i = 1; i < OP_COUNT; i++)
        if (!strcmp(op_infos[i].name, name))
            return (Op)i;
    return OP_none;
}

const char *attr_text(AttrName a)
{
    CHECK((unsigned)a < ATTR_COUNT);
    return attrs[a].name;
}

AttrKind attr_kind(AttrName a)
{
    CHECK((unsigned)a < ATTR_COUNT);
    return attrs[a].kind;
}

AttrName attr_parse(const char *name)
{
    for (int i = 1; i < ATTR_COUNT; i++)
        if (!strcmp(attrs[i].name, name))
            return (AttrName)i;
    return ATTR_none;
}

const ReducerInfo *reducer_info(Reducer r)
{
    CHECK((unsigned)r < RED_COUNT);
    return &reducers[r];
}

Reducer reducer_parse(const char *name)
{
    for (int i = 1; i < RED_COUNT; i++)
        if (!strcmp(reducers[i].name, name))
            return (Reducer)i;
    return RED_none;
}
