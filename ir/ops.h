/* ops.h: the op table (ops.def), attributes, and reducers (reducers.def).
 * SPDX-License-Identifier: MIT */
#ifndef TENON_OPS_H
#define TENON_OPS_H

#include "ir/base/die.h"
#include "ir/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    OP_none,
#define POINTWISE(name, arity, domain, result, weight, scalar, ga, gb, gc, doc) OP_##name,
#define STRUCTURAL(name, nmin, nmax, doc, ...)                                  OP_##name,
#include "ir/ops.def"
#undef POINTWISE
#undef STRUCTURAL
    OP_COUNT
} Op;

typedef enum {
    ATTR_none,
#define ATTR(name, kind, doc) ATTR_##name,
#include "ir/attrs.def"
#undef ATTR
    ATTR_COUNT
} AttrName;

/* What the words of an attribute are. */
typedef enum { AK_INTS, AK_DIMS, AK_DTYPE, AK_SYM, AK_REDUCER, AK_F64, AK_WORD, AK_GRAPH } AttrKind;

typedef enum {
    RED_none,
#define REDUCER(name, nresults, nfields, doc) RED_##name,
#include "ir/reducers.def"
#undef REDUCER
    RED_COUNT
} Reducer;

typedef enum {
    DOM_FLOAT,  /* float types */
    DOM_NUMBER, /* floats and integers */
    DOM_BITS,   /* integers and bool */
    DOM_ANY     /* all */
} Domain;
typedef enum { RES_SAME, RES_BOOL } ResultKind; /* SAME: dtype of the last operand */

enum { MAX_ATTRS = 8 };

typedef struct {
    const char *name, *doc;
    bool pointwise;
    int nmin, nmax; /* operands; nmax -1: any number */
    Domain domain;  /* pointwise */
    ResultKind result;
    int weight;         /* pointwise: cost, 1 an add, 2 a division, 8 an exp */
    const char *scalar; /* pointwise: C expression over a, b, c */
    AttrName attrs[MAX_ATTRS];
    int nattrs;
    bool commutative;
} OpInfo;

extern const OpInfo op_infos[OP_COUNT];
static inline const OpInfo *op_info(Op op)
{
    CHECK((unsigned)op < OP_COUNT);
    return &op_infos[op];
}
Op op_parse(const char *name); /* OP_none if there is none */
static inline const char *op_name(Op op)
{
    return op_info(op)->name;
}
static inline bool op_is_pointwise(Op op)
{
    return op_info(op)->pointwise;
}

const char *attr_text(AttrName a);
AttrKind attr_kind(AttrName a);
AttrName attr_parse(const char *name);

typedef struct {
    const char *name, *doc;
    int nresults, nfields; /* fields of the accumulator */
} ReducerInfo;
const ReducerInfo *reducer_info(Reducer r);
Reducer reducer_parse(const char *name);

#endif
