/* exprtext.c: expressions of kernels as C text. What has a LET in scope is its name, the rest
 * stands in place. SPDX-License-Identifier: MIT */
#include "codegen/ktext.h"
#include "codegen/optext.h"
#include "ir/base/die.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- types ---------------------------------------------------------------------------------------
 */

static const char *cuda_type(DType d)
{
    switch (d) {
    case DT_f64:
        return "double";
    case DT_f32:
        return "float";
    case DT_i64:
        return "long long";
    case DT_i32:
        return "int";
    case DT_i16:
        return "short";
    case DT_i8:
        return "signed char";
    case DT_u8:
    case DT_bool:
        return "unsigned char";
    case DT_u64:
        return "unsigned long long";
    default:
        return "unsigned short";
    }
}

const char *ktext_element(const KText *t, DType dtype)
{
    return t->target == TARGET_CUDA ? cuda_type(dtype) : dtype_ctype(dtype);
}

const char *ktext_value(const KText *t, DType dtype)
{
    if (dtype == DT_bool)
        return "int";
    return ktext_element(t, dtype_compute(dtype));
}

/* --- constants -----------------------------------------------------------------------------------
 */

/* The shortest decimal text that reads back as the same number. */
static const char *float_text(KText *t, double v, bool single)
{
    char text[40];
    if (isnan(v))
        return "tn_nan()";
    if (isinf(v))
        return v < 0 ? "-tn_inf()" : "tn_inf()";
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        double back = strtod(text, NULL);
        if (single ? (float)back == (float)v : back == v)
            break;
    }
    if (!strpbrk(text, ".e"))
        strcat(text, ".0");
    return arena_printf(t->a, "%s%s", text, single ? "f" : "");
}

static Text constant(KText *t, const KExprInfo *x)
{
    if (dtype_is_float(x->type)) {
        const char *text = float_text(t, x->value, x->type != DT_f64);
        return (Text){text, *text == '-' ? PREC_UNARY : PREC_PRIMARY};
    }
    if (x->type == DT_u64 && x->word >= 0 && x->word <= INT32_MAX)
        return (Text){arena_printf(t->a, "%" PRId64, x->word), PREC_PRIMARY};
    if (x->type == DT_u64)
        return (Text){arena_printf(t->a, "0x%" PRIx64 "%s", (uint64_t)x->word,
                                   t->target == TARGET_CUDA ? "ULL" : "u"),
                      PREC_PRIMARY};
    if (x->word == INT64_MIN)
        return (Text){"-9223372036854775807LL - 1", PREC_SUM};
    bool small = x->word > INT32_MIN && x->word <= INT32_MAX;
    return (Text){arena_printf(t->a, "%" PRId64 "%s", x->word, small ? "" : "LL"),
                  x->word < 0 ? PREC_UNARY : PREC_PRIMARY};
}

/* --- conversions ---------------------------------------------------------------------------------
 */

static Text call(KText *t, const char *function, const char *argument)
{
    return (Text){arena_printf(t->a, "%s(%s)", function, argument), PREC_PRIMARY};
}

static Text c_cast(KText *t, const char *type, Text x)
{
    return (Text){arena_printf(t->a, "(%s)%s", type, ktext_wrap(t, x, PREC_UNARY)), PREC_UNARY};
}

/* The 16 bits of a half type, from a value held in `from`. */
static Text half_bits(KText *t, Text x, DType from, DType half)
{
    if (!dtype_is_float(from))
        x = c_cast(t, "float", x);
    const char *f =
        arena_printf(t->a, "tn_%s_from_%s", dtype_name(half), from == DT_f64 ? "f64" : "f32");
    return call(t, f, x.text);
}

static Text from_half(KText *t, Text bits, DType half)
{
    return call(t, half == DT_bf16 ? "tn_f32_from_bf16" : "tn_f32_from_f16", bits.text);
}

static bool is_half(DType d)
{
    return d == DT_f16 || d == DT_bf16;
}

static Text convert(KText *t, Text x, DType from, DType to)
{
    if (from == to || (is_half(from) && to == DT_f32))
        return x;
    if (is_half(to))
        return from_half(t, half_bits(t, x, from, to), to);
    if (to == DT_bool)
        return (Text){arena_printf(t->a, "%s != 0", ktext_wrap(t, x, PREC_EQUAL + 1)), PREC_EQUAL};
    if (dtype_is_float(from) && !dtype_is_float(to)) {
        const char *f =
            arena_printf(t->a, "tn_%s_from_%s", dtype_name(to), from == DT_f64 ? "f64" : "f32");
        return call(t, f, x.text);
    }
    return c_cast(t, ktext_value(t, to), x);
}

static Text bitcast(KText *t, Text x, DType from, DType to)
{
    if (from == to)
        return x;
    if (to == DT_f32)
        return call(t, "tn_float_bits",
                    c_cast(t, t->target == TARGET_CUDA ? "unsigned" : "uint32_t", x).text);
    if (from == DT_f32)
        return c_cast(t, ktext_value(t, to), call(t, "tn_bits_float", x.text));
    if (to == DT_f64)
        return call(t, "tn_double_bits", c_cast(t, ktext_value(t, DT_u64), x).text);
    if (from == DT_f64)
        return c_cast(t, ktext_value(t, to), call(t, "tn_bits_double", x.text));
    Text bits = is_half(from) ? half_bits(t, x, DT_f32, from) : x;
    if (is_half(to))
        return from_half(
            t, c_cast(t, t->target == TARGET_CUDA ? "unsigned short" : "uint16_t", bits), to);
    return c_cast(t, ktext_value(t, to), bits);
}

/* --- memory --------------------------------------------------------------------------------------
 */

const char *ktext_access(KText *t, uint32_t param, const Dim *at)
{
    Dim offset = ktext_offset(t, param, at);
    if (dim_is_zero(t->p->cx->dims, offset))
        return arena_printf(t->a, t->k->params.at[param].rank ? "%s[0]" : "*%s", t->param[param]);
    return arena_printf(t->a, "%s[%s]", t->param[param], ktext_dim(t, offset).text);
}

static Text load(KText *t, const KExprInfo *x, const Text *vector)
{
    DType d = t->k->params.at[x->param].dtype;
    Text element;
    if (vector->text) {
        element = *vector;
    } else {
        const char *text = ktext_access(t, x->param, x->at);
        element = (Text){text, *text == '*' ? PREC_UNARY : PREC_PRIMARY};
    }
    return is_half(d) ? from_half(t, element, d) : element;
}

const char *ktext_to_memory(KText *t, uint32_t param, KExpr e)
{
    DType d = t->k->params.at[param].dtype, from = kexpr(t->k, e)->type;
    const KExprInfo *info = kexpr(t->k, e);
    if (is_half(d) && info->kind == KE_CAST && from == d && !t->let[e.id].text) {
        e = info->in[0]; /* the bits are wanted, not the value again */
        from = kexpr(t->k, e)->type;
    }
    Text x = ktext_expr(t, e);
    if (is_half(d))
        return half_bits(t, x, is_half(from) ? DT_f32 : from, d).text;
    if (d != from)
        x = convert(t, x, from, d);
    return x.text;
}

/* --- expressions ---------------------------------------------------------------------------------
 */

static Text index_text(KText *t, const KExprInfo *x)
{
    DimTable *d = t->p->cx->dims;
    Dim at = t->nsubst ? dim_substitute(d, x->index, t->subst, t->nsubst) : x->index;
    Text text = ktext_dim(t, at);
    if (x->type == DT_i32 ? ktext_fits_int(t, at) : ktext_is_wide(t, at))
        return text;
    return c_cast(t, ktext_value(t, x->type), text);
}

static Text random_text(KText *t, const KExprInfo *x)
{
    static const char *const functions[] = {
        [RANDOM_BITS] = "tn_random_bits",
        [RANDOM_UNIFORM] = "tn_uniform",
        [RANDOM_NORMAL] = "tn_normal",
    };
    DimTable *d = t->p->cx->dims;
    CHECK(x->field < ARRAY_LEN(functions));
    Dim at = t->nsubst ? dim_substitute(d, x->index, t->subst, t->nsubst) : x->index;
    Text index = c_cast(t, ktext_value(t, DT_u64), ktext_dim(t, at));
    return (Text){arena_printf(t->a, "%s(%s, %s)", functions[x->field],
                               ktext_expr_at(t, x->in[0], PREC_TERNARY), index.text),
                  PREC_PRIMARY};
}

/* The counter of a loop goes into the upper half of the count of calls. */
static Text key_text(KText *t, const KExprInfo *x)
{
    Text calls = ktext_expr(t, x->in[1]);
    const char *u64 = ktext_value(t, DT_u64);
    if (x->nin > 2)
        calls.text = arena_printf(t->a, "(%s & 0xffffffffu) | (%s)%s << 32",
                                  ktext_wrap(t, calls, PREC_UNARY), u64,
                                  ktext_expr_at(t, x->in[2], PREC_UNARY));
    else if (kexpr(t->k, x->in[1])->kind != KE_CONST)
        calls.text = arena_printf(t->a, "%s & 0xffffffffu", ktext_wrap(t, calls, PREC_UNARY));
    return (Text){arena_printf(t->a, "tn_key(%s, %s, 0x%" PRIx64 "%s)",
                               ktext_expr(t, x->in[0]).text, calls.text, (uint64_t)x->word,
                               t->target == TARGET_CUDA ? "ULL" : "u"),
                  PREC_PRIMARY};
}

static Text accumulated(KText *t, const KExprInfo *x)
{
    const AccInfo *acc = &t->accs[x->acc];
    CHECK((int)x->field < kacc_results(&t->k->accs.at[x->acc]));
    if (acc->totalled)
        return (Text){acc->result[x->field], PREC_PRIMARY};
    Text fields[MAX_FIELDS];
    int n = reducer_info(t->k->accs.at[x->acc].reducer)->nfields;
    for (int f = 0; f < n; f++)
        fields[f] = acc_field(t, x->acc, f);
    return acc_finish(t, x->acc, (int)x->field, fields);
}

static Text kept(KText *t, const KExprInfo *x)
{
    DimTable *d = t->p->cx->dims;
    const char *name = t->keeps[x->keep];
    if (t->target == TARGET_CUDA)
        return (Text){arena_printf(t->a, "%s[%s]", name, t->keep_index.text), PREC_PRIMARY};
    Dim at = x->index.id ? x->index : dim_of(d, t->lane_axis);
    if (t->nsubst)
        at = dim_substitute(d, at, t->subst, t->nsubst);
    return (Text){arena_printf(t->a, "%s[%s]", name, ktext_dim(t, at).text), PREC_PRIMARY};
}

/* Rounding to a half type changes nothing behind these. */
static bool keeps_values(Op op)
{
    return op == OP_where || op == OP_min || op == OP_max || op == OP_neg || op == OP_abs ||
           op == OP_relu || op == OP_clamp || op == OP_detach || op == OP_sign;
}

static bool is_select(const KText *t, KExpr e)
{
    const KExprInfo *x = kexpr(t->k, e);
    return x->kind == KE_OP && x->op == OP_where && !t->let[e.id].text;
}

/* Several selects by one condition, which has a name then: C compilers make branches of it, and no
 * vectors of the loop around. Selects inside of each other cost them twice as many steps. */
static bool picks(const KText *t, const KExprInfo *x)
{
    return t->target == TARGET_C && x->kind == KE_OP && x->op == OP_where &&
           dtype_compute(x->type) == DT_f32 &&
           (t->picking || t->let[x->in[0].id].text || is_select(t, x->in[1]) ||
            is_select(t, x->in[2]));
}

static Text operation(KText *t, const KExprInfo *x)
{
    Text in[3];
    const bool picked = picks(t, x), outside = t->picking;
    for (uint32_t i = 0; i < x->nin; i++) {
        t->picking = picked && i > 0 && is_select(t, x->in[i]);
        in[i] = ktext_expr(t, x->in[i]);
    }
    t->picking = outside;
    if (picked)
        return (Text){
            arena_printf(t->a, "tn_pick(%s, %s, %s)", in[0].text, in[1].text, in[2].text),
            PREC_PRIMARY};
    DType type = x->nin ? kexpr(t->k, x->in[x->nin - 1])->type : x->type;
    type = dtype_compute(type);
    Text y = x->kind == KE_EXTERN
                 ? extern_text(t, sym_text(t->p->cx->names, x->text), type, in, x->nin)
                 : op_text(t, x->op, type, in, x->nin);
    if (is_half(x->type) && (x->kind == KE_EXTERN || !keeps_values(x->op)))
        y = from_half(t, half_bits(t, y, DT_f32, x->type), x->type);
    return y;
}

static Text select_text(KText *t, const KExprInfo *x)
{
    Text when = ktext_guard(t, x->pred);
    return (Text){arena_printf(t->a, "%s ? %s : %s", ktext_wrap(t, when, PREC_OR),
                               ktext_expr_at(t, x->in[0], PREC_OR),
                               ktext_expr_at(t, x->in[1], PREC_TERNARY)),
                  PREC_TERNARY};
}

Text ktext_expr(KText *t, KExpr e)
{
    const KExprInfo *x = kexpr(t->k, e);
    if (t->let[e.id].text)
        return t->let[e.id];
    switch (x->kind) {
    case KE_CONST:
        return constant(t, x);
    case KE_INDEX:
        return index_text(t, x);
    case KE_LOAD:
        return load(t, x, &t->vector[e.id]);
    case KE_OP:
    case KE_EXTERN:
        return operation(t, x);
    case KE_CAST:
        return convert(t, ktext_expr(t, x->in[0]), kexpr(t->k, x->in[0])->type, x->type);
    case KE_BITCAST:
        return bitcast(t, ktext_expr(t, x->in[0]), kexpr(t->k, x->in[0])->type, x->type);
    case KE_SELECT:
        return select_text(t, x);
    case KE_ACC:
        return accumulated(t, x);
    case KE_KEEP:
        return kept(t, x);
    case KE_KEY:
        return key_text(t, x);
    case KE_RANDOM: /* drawn with its neighbours, or alone */
        return t->vector[e.id].text ? t->vector[e.id] : random_text(t, x);
    }
    die("kernel %s: expression of unknown kind", sym_text(t->p->cx->names, t->k->name));
}

const char *ktext_expr_at(KText *t, KExpr e, int prec)
{
    return ktext_wrap(t, ktext_expr(t, e), prec);
}

/* --- questions -----------------------------------------------------------------------------------
 */

/* An index that was loaded may depend on anything. */
static bool mentions(const KText *t, Dim d, Symbol s)
{
    return d.id &&
           (dim_mentions(t->p->cx->dims, d, s) || dim_mentions_kind(t->p->cx->dims, d, SYM_LOADED));
}

static bool dims_mention(const KText *t, const Dim *at, uint32_t n, Symbol s)
{
    for (uint32_t i = 0; i < n; i++)
        if (mentions(t, at[i], s))
            return true;
    return false;
}

static bool guard_mentions(const KText *t, Guard g, Symbol s)
{
    for (uint32_t i = 0; i < g.n; i++)
        if (mentions(t, g.at[i].a, s) || mentions(t, g.at[i].b, s))
            return true;
    return false;
}

static bool depends(KText *t, KExpr e, Symbol s)
{
    const KExprInfo *x = kexpr(t->k, e);
    if (t->seen[e.id] == t->mark)
        return false;
    t->seen[e.id] = t->mark;
    if (x->kind == KE_LOAD && dims_mention(t, x->at, t->k->params.at[x->param].rank, s))
        return true;
    if (mentions(t, x->index, s))
        return true;
    if (x->kind == KE_SELECT && guard_mentions(t, x->pred, s))
        return true;
    if (x->kind == KE_ACC || x->kind == KE_KEEP)
        return true; /* lives in a cell */
    for (uint32_t i = 0; i < x->nin; i++)
        if (depends(t, x->in[i], s))
            return true;
    return false;
}

bool kexpr_depends(KText *t, KExpr e, Symbol s)
{
    t->mark++;
    return depends(t, e, s);
}

static bool uses(KText *t, KExpr e, KExpr what)
{
    if (e.id == what.id)
        return true;
    if (t->seen[e.id] == t->mark)
        return false;
    t->seen[e.id] = t->mark;
    const KExprInfo *x = kexpr(t->k, e);
    for (uint32_t i = 0; i < x->nin; i++)
        if (uses(t, x->in[i], what))
            return true;
    return false;
}

static bool stmt_uses(KText *t, const KStmt *s, KExpr what)
{
    if (s->expr.id && uses(t, s->expr, what))
        return true;
    for (uint32_t i = 0; i < s->body.n; i++)
        if (stmt_uses(t, &s->body.at[i], what))
            return true;
    return false;
}

bool kstmt_uses(KText *t, const KStmt *s, KExpr what)
{
    t->mark++;
    return stmt_uses(t, s, what);
}

bool kblock_has_loop(const KBlock *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (b->at[i].kind == KS_FOR || kblock_has_loop(&b->at[i].body))
            return true;
    return false;
}
