/* accs.c: accumulators of kernels as C text: where they live, identities, folds, joins, results.
 * SPDX-License-Identifier: MIT */
#include "codegen/ktext.h"
#include "ir/base/die.h"

#include <string.h>

/* --- where accumulators live ---------------------------------------------------------------------
 */

typedef struct {
    const KStmt *loops[16];
    int n;
} LoopStack;

/* Lanes of a loop that folds into accumulators. A maximum waits for the one before it three times
 * as long as a sum does, so four vectors of them take turns; for rows that are too short, that is
 * more to join behind the loop than it spares. */
int accs_lanes(const KText *t, const KStmt *loop)
{
    int64_t extent;
    bool any = false;
    if (dim_is_const(t->p->cx->dims, loop->hi, &extent) && extent < 2 * STRIP_WIDE)
        return STRIP_LANES;
    for (uint32_t i = 0; i < loop->body.n; i++) {
        const KStmt *s = &loop->body.at[i];
        if (s->kind == KS_FOR || s->kind == KS_WHEN)
            return STRIP_LANES;
        if (s->kind != KS_FOLD)
            continue;
        const Reducer r = t->k->accs.at[s->acc].reducer;
        if (r != RED_max && r != RED_min)
            return STRIP_LANES;
        any = true;
    }
    return any ? STRIP_WIDE : STRIP_LANES;
}

/* Loops around each statement, from outermost; `start` is the depth at which an accumulator began.
 */
static void analyse_block(KText *t, const KBlock *b, LoopStack *stack, int *start)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        AccInfo *acc = s->kind == KS_ACC || s->kind == KS_FOLD || s->kind == KS_TOTAL
                           ? &t->accs[s->acc]
                           : NULL;
        if (s->kind == KS_FOR) {
            CHECK(stack->n < 16);
            stack->loops[stack->n++] = s;
            analyse_block(t, &s->body, stack, start);
            stack->n--;
        } else if (s->kind == KS_WHEN || s->kind == KS_LAST) {
            analyse_block(t, &s->body, stack, start);
        } else if (s->kind == KS_ACC) {
            start[s->acc] = stack->n;
        } else if (s->kind == KS_FOLD) {
            for (int d = start[s->acc]; d < stack->n; d++) {
                if (stack->loops[d]->loop == FOR_LANES) {
                    const int lanes = accs_lanes(t, stack->loops[d]);
                    acc->under_lanes = true;
                    acc->lanes = acc->lanes > lanes ? acc->lanes : lanes;
                }
                acc->under_teams |= stack->loops[d]->loop == FOR_TEAMS;
            }
            if (t->k->accs.at[s->acc].side)
                for (int d = stack->n; d-- > 0;)
                    if (stack->loops[d]->loop == FOR_LANES) {
                        acc->extent = stack->loops[d]->hi;
                        break;
                    }
        } else if (s->kind == KS_TOTAL) {
            acc->has_total = true;
            acc->over_block |= s->over_block;
        }
    }
}

void accs_analyse(KText *t)
{
    uint32_t n = t->k->accs.n;
    LoopStack stack = {.n = 0};
    t->accs = arena_array(t->a, AccInfo, n ? n : 1);
    int *start = arena_array(t->a, int, n ? n : 1);
    analyse_block(t, &t->k->body, &stack, start);
    for (uint32_t i = 0; i < n; i++) {
        AccInfo *acc = &t->accs[i];
        if (t->k->accs.at[i].side)
            acc->store = ACC_SIDE;
        else if (t->target == TARGET_C && acc->under_lanes)
            acc->store = ACC_LANES;
        else
            acc->store = ACC_SCALAR;
    }
}

bool acc_is_used(const KText *t, uint32_t acc, int result)
{
    for (uint32_t i = 1; i < t->k->exprs.n; i++) {
        const KExprInfo *x = &t->k->exprs.at[i];
        if (x->kind == KE_ACC && x->acc == acc && x->field == (uint32_t)result)
            return true;
    }
    return false;
}

/* --- fields --------------------------------------------------------------------------------------
 */

static const char *field_suffix(Reducer r, int field)
{
    static const char *const moments[] = {"_n", "_mean", "_m2"};
    static const char *const logsumexp[] = {"_m", "_s"};
    if (r == RED_moments)
        return moments[field];
    if (r == RED_logsumexp)
        return logsumexp[field];
    if (r == RED_argmax || r == RED_argmin)
        return field ? "_at" : "";
    return "";
}

static bool is_index(Reducer r, int field)
{
    return (r == RED_argmax || r == RED_argmin) && field == 1;
}

/* Small integers are accumulated as they are; reducers with functions know i64 only. */
static DType field_dtype(const KAcc *acc, int field)
{
    if (is_index(acc->reducer, field))
        return DT_i64;
    if ((acc->reducer == RED_argmax || acc->reducer == RED_argmin) &&
        dtype_kind(acc->type) != DK_FLOAT)
        return DT_i64;
    return dtype_compute(acc->type);
}

const char *acc_field_type(const KText *t, uint32_t acc, int field)
{
    return ktext_value(t, field_dtype(&t->k->accs.at[acc], field));
}

const char *acc_suffix(const KText *t, uint32_t acc, int field)
{
    return field_suffix(t->k->accs.at[acc].reducer, field);
}

/* --- identities ----------------------------------------------------------------------------------
 */

static const char *zero_text(DType d)
{
    return d == DT_f32 ? "0.0f" : d == DT_f64 ? "0.0" : "0";
}

static const char *one_text(DType d)
{
    return d == DT_f32 ? "1.0f" : d == DT_f64 ? "1.0" : "1";
}

/* Decimal texts, so that no header is needed. */
static const char *lowest_text(DType d)
{
    switch (d) {
    case DT_f64:
    case DT_f32:
        return "-tn_inf()";
    case DT_i64:
        return "-9223372036854775807LL - 1";
    case DT_i32:
        return "-2147483647 - 1";
    case DT_i16:
        return "-32768";
    case DT_i8:
        return "-128";
    default:
        return "0";
    }
}

static const char *highest_text(DType d)
{
    switch (d) {
    case DT_f64:
    case DT_f32:
        return "tn_inf()";
    case DT_i64:
        return "9223372036854775807LL";
    case DT_i32:
        return "2147483647";
    case DT_i16:
        return "32767";
    case DT_i8:
        return "127";
    case DT_u8:
        return "255";
    case DT_u64:
        return "18446744073709551615ULL";
    default:
        return "1";
    }
}

const char *acc_identity(KText *t, uint32_t acc, int field)
{
    const KAcc *a = &t->k->accs.at[acc];
    DType d = field_dtype(a, field);
    switch (a->reducer) {
    case RED_mul:
        return one_text(d);
    case RED_max:
        return lowest_text(d);
    case RED_min:
        return highest_text(d);
    case RED_argmax:
        return field ? highest_text(DT_i64) : lowest_text(d);
    case RED_argmin:
        return field ? highest_text(DT_i64) : highest_text(d);
    case RED_and:
        return d == DT_bool ? "1" : d == DT_u8 ? "255" : "-1";
    case RED_logsumexp:
        if (field)
            return zero_text(d);
        return d == DT_f32 ? "-3.40282347e+38f" : "-1.7976931348623157e+308";
    default:
        return zero_text(d);
    }
}

/* --- texts of fields -----------------------------------------------------------------------------
 */

Text acc_lane_field(KText *t, uint32_t acc, int field, const char *lane)
{
    return (Text){arena_printf(t->a, "%s[%s]", t->accs[acc].field[field], lane), PREC_PRIMARY};
}

Text acc_field(KText *t, uint32_t acc, int field)
{
    const AccInfo *info = &t->accs[acc];
    switch (info->store) {
    case ACC_LANES:
    case ACC_STRIP:
        return acc_lane_field(t, acc, field, t->strip ? t->strip : "0");
    case ACC_SIDE:
        if (t->target == TARGET_CUDA)
            return acc_lane_field(t, acc, field, t->keep_index.text);
        Dim at = dim_of(t->p->cx->dims, t->lane_axis);
        if (t->nsubst)
            at = dim_substitute(t->p->cx->dims, at, t->subst, t->nsubst);
        return acc_lane_field(t, acc, field, ktext_dim(t, at).text);
    default:
        return (Text){info->field[field], PREC_PRIMARY};
    }
}

/* --- folds and joins -----------------------------------------------------------------------------
 */

/* What a function of math.h or reducers.h for this type is called by; NULL: there is an operator.
 */
static const char *join_function(const KAcc *a)
{
    DType d = field_dtype(a, 0);
    bool wide = d == DT_i64 || d == DT_u64;
    switch (a->reducer) {
    case RED_max:
        return d == DT_f32   ? "tn_max"
               : d == DT_f64 ? "tn_max_f64"
               : wide        ? "tn_max_i64"
                             : "tn_max_i32";
    case RED_min:
        return d == DT_f32   ? "tn_min"
               : d == DT_f64 ? "tn_min_f64"
               : wide        ? "tn_min_i64"
                             : "tn_min_i32";
    case RED_argmax:
        return d == DT_f32 ? "tn_argmax_f32" : d == DT_f64 ? "tn_argmax_f64" : "tn_argmax_i64";
    case RED_argmin:
        return d == DT_f32 ? "tn_argmin_f32" : d == DT_f64 ? "tn_argmin_f64" : "tn_argmin_i64";
    case RED_moments:
        return d == DT_f32 ? "tn_moments_f32" : "tn_moments_f64";
    case RED_logsumexp:
        return d == DT_f32 ? "tn_logsumexp_f32" : "tn_logsumexp_f64";
    default:
        return NULL;
    }
}

static const char *unsigned_type(const KText *t, DType d)
{
    if (d == DT_i64)
        return t->target == TARGET_CUDA ? "unsigned long long" : "uint64_t";
    return t->target == TARGET_CUDA ? "unsigned" : "uint32_t";
}

static const char *join_simple(KText *t, const KAcc *a, const char *to, Text from)
{
    DType d = field_dtype(a, 0);
    bool is_signed = dtype_kind(d) == DK_INT;
    const char *op = a->reducer == RED_add   ? "+"
                     : a->reducer == RED_mul ? "*"
                     : a->reducer == RED_or  ? "|"
                                             : "&";
    if (a->reducer == RED_max || a->reducer == RED_min)
        return arena_printf(t->a, "%s = %s(%s, %s)", to, join_function(a), to, from.text);
    if (is_signed && (a->reducer == RED_add || a->reducer == RED_mul)) {
        const char *u = unsigned_type(t, d); /* integers wrap */
        return arena_printf(t->a, "%s = (%s)((%s)%s %s (%s)%s)", to, ktext_value(t, d), u, to, op,
                            u, ktext_wrap(t, from, PREC_UNARY));
    }
    return arena_printf(t->a, "%s %s= %s", to, op, from.text);
}

const char *acc_join(KText *t, uint32_t acc, const Text *to, const Text *from)
{
    const KAcc *a = &t->k->accs.at[acc];
    int n = reducer_info(a->reducer)->nfields;
    if (n == 1)
        return join_simple(t, a, to[0].text, from[0]);
    StrBuf out = {.a = t->a};
    sb_printf(&out, "%s(", join_function(a));
    for (int f = 0; f < n; f++)
        sb_printf(&out, "%s&%s", f ? ", " : "", to[f].text);
    for (int f = 0; f < n; f++)
        sb_printf(&out, ", %s", from[f].text);
    sb_puts(&out, ")");
    return sb_text(&out);
}

const char *acc_fold(KText *t, uint32_t acc, const char *value, const char *index)
{
    const KAcc *a = &t->k->accs.at[acc];
    DType d = field_dtype(a, 0);
    Text to[MAX_FIELDS], from[MAX_FIELDS];
    int n = reducer_info(a->reducer)->nfields;
    for (int f = 0; f < n; f++)
        to[f] = acc_field(t, acc, f);
    from[0] = (Text){value, PREC_TERNARY};
    if (a->reducer == RED_argmax || a->reducer == RED_argmin) {
        from[1] = (Text){index, PREC_TERNARY};
    } else if (a->reducer == RED_logsumexp) {
        from[1] = (Text){one_text(d), PREC_PRIMARY};
    } else if (a->reducer == RED_moments) {
        from[1] = from[0];
        from[0] = (Text){one_text(d), PREC_PRIMARY};
        from[2] = (Text){zero_text(d), PREC_PRIMARY};
    }
    return acc_join(t, acc, to, from);
}

/* The maximum and the sum of exp(x - maximum). The field m is finite: a sum of 0 says that all x
 * are -inf, an infinite one that an x is inf, and then exp(x - maximum) is no number. */
static Text exponentials(KText *t, int result, const Text *fields, DType d)
{
    const char *m = fields[0].text, *s = fields[1].text;
    if (result == 2)
        return (Text){arena_printf(t->a, "%s + (%s - %s)", s, s, s), PREC_SUM};
    return (Text){arena_printf(t->a, "%s < %s ? %s > %s ? %s : %s : %s", s, highest_text(d), s,
                               zero_text(d), m, lowest_text(d), s),
                  PREC_TERNARY};
}

const char *acc_result_suffix(Reducer reducer, int result)
{
    if (reducer == RED_moments)
        return result ? "_var" : "_mean";
    if (reducer == RED_logsumexp)
        return !result ? "" : result == 1 ? "_max" : "_sum";
    return result ? "_at" : "";
}

Text acc_finish(KText *t, uint32_t acc, int result, const Text *fields)
{
    const KAcc *a = &t->k->accs.at[acc];
    DType d = field_dtype(a, 0);
    if (a->reducer == RED_moments) {
        if (result == 0)
            return fields[1];
        return (Text){arena_printf(t->a, "%s / %s", fields[2].text, fields[0].text), PREC_PRODUCT};
    }
    if (a->reducer == RED_logsumexp && result)
        return exponentials(t, result, fields, d);
    if (a->reducer == RED_logsumexp)
        return (Text){arena_printf(t->a, "%s(%s) + %s", d == DT_f32 ? "tn_log" : "log",
                                   fields[1].text, fields[0].text),
                      PREC_SUM};
    return fields[result];
}
