/* convert.c: see convert.h. Values pass through long double, which holds every integer of 64 bits
 * and every double; so there is one rounding, the one asked for. SPDX-License-Identifier: MIT */
#include "tests/vgpu/convert.h"

#include "tests/vgpu/half.h"

#include <float.h>
#include <math.h>

_Static_assert(LDBL_MANT_DIG >= 64, "long double must hold integers of 64 bits");

const Format format_f16 = {10, 5, 15, true, true}, format_bf16 = {7, 8, 127, true, true},
             format_f32 = {23, 8, 127, true, true}, format_f64 = {52, 11, 1023, true, true},
             format_tf32 = {10, 8, 127, true, true}, format_e4m3 = {3, 4, 7, false, true},
             format_e5m2 = {2, 5, 15, true, true};

/* --- formats --------------------------------------------------------------------------------- */

static long double round_integer(long double v, Rounding mode)
{
    switch (mode) {
    case ROUND_ZERO:
        return truncl(v);
    case ROUND_DOWN:
        return floorl(v);
    case ROUND_UP:
        return ceill(v);
    case ROUND_AWAY:
        return roundl(v);
    default:
        return rintl(v); /* x87's mode, which nobody changes, is to nearest even */
    }
}

static uint64_t exponent_mask(const Format *f)
{
    return (1ull << f->exponent) - 1;
}

/* Infinity, or where there is none, the NaN. */
static uint64_t top_code(const Format *f)
{
    uint64_t top = exponent_mask(f) << f->mantissa;
    return f->has_inf ? top : top | ((1ull << f->mantissa) - 1);
}

static uint64_t nan_code(const Format *f)
{
    return (1ull << (f->mantissa + f->exponent)) - 1;
}

uint64_t format_round(const Format *f, long double v, Rounding mode, bool finite)
{
    const uint64_t sign = (uint64_t)(signbit(v) != 0) << (f->mantissa + f->exponent);
    int e;
    if (v != v)
        return nan_code(f);
    if (v == 0)
        return sign;
    if (isinf(v))
        return sign | (finite || !f->has_inf ? top_code(f) - 1 : top_code(f));
    frexpl(v, &e);
    int least = 2 - f->bias; /* frexp's exponent of the smallest normal number */
    int unit = (e < least ? least : e) - 1 - f->mantissa;
    long double q = fabsl(round_integer(ldexpl(v, -unit), mode));
    /* q counts units; the codes count on through the exponents */
    uint64_t code = (uint64_t)q;
    if (e >= least)
        code += (uint64_t)(e - least) << f->mantissa;
    if (code < top_code(f))
        return sign | code;
    bool to_largest = finite || !f->has_inf || mode == ROUND_ZERO ||
                      (mode == ROUND_DOWN && !sign) || (mode == ROUND_UP && sign);
    return sign | (to_largest ? top_code(f) - 1 : top_code(f));
}

long double format_value(const Format *f, uint64_t bits)
{
    uint64_t m = bits & ((1ull << f->mantissa) - 1), e = bits >> f->mantissa & exponent_mask(f);
    bool minus = bits >> (f->mantissa + f->exponent) & 1;
    long double v;
    if ((bits & nan_code(f)) >= top_code(f))
        v = f->has_inf && !m ? (long double)INFINITY : (long double)NAN;
    else if (e)
        v = ldexpl((long double)(m + (1ull << f->mantissa)), (int)e - f->bias - f->mantissa);
    else
        v = ldexpl((long double)m, 1 - f->bias - f->mantissa);
    return minus ? -v : v;
}

/* --- types ----------------------------------------------------------------------------------- */

typedef enum { TYPE_UNSIGNED, TYPE_SIGNED, TYPE_FLOAT, TYPE_PAIR } TypeKind;

typedef struct {
    const char *name;
    uint8_t kind, bits; /* of one number; a pair has two of them */
    const Format *format;
} Type;

static const Type types[] = {
    {"u8", TYPE_UNSIGNED, 8, NULL},
    {"u16", TYPE_UNSIGNED, 16, NULL},
    {"u32", TYPE_UNSIGNED, 32, NULL},
    {"u64", TYPE_UNSIGNED, 64, NULL},
    {"s8", TYPE_SIGNED, 8, NULL},
    {"s16", TYPE_SIGNED, 16, NULL},
    {"s32", TYPE_SIGNED, 32, NULL},
    {"s64", TYPE_SIGNED, 64, NULL},
    {"f16", TYPE_FLOAT, 16, &format_f16},
    {"bf16", TYPE_FLOAT, 16, &format_bf16},
    {"f32", TYPE_FLOAT, 32, &format_f32},
    {"tf32", TYPE_FLOAT, 32, &format_tf32},
    {"f64", TYPE_FLOAT, 64, &format_f64},
    {"f16x2", TYPE_PAIR, 16, &format_f16},
    {"bf16x2", TYPE_PAIR, 16, &format_bf16},
    {"e4m3x2", TYPE_PAIR, 8, &format_e4m3},
    {"e5m2x2", TYPE_PAIR, 8, &format_e5m2},
};

static int find_type(const char *name)
{
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (!strcmp(types[k].name, name))
            return (int)k;
    return -1;
}

/* tf32 is a float whose last 13 bits are 0. */
static uint64_t write_float(const Type *t, uint64_t code)
{
    return t->format == &format_tf32 ? code << 13 : code;
}

static long double read_number(const Type *t, uint64_t bits)
{
    switch (t->kind) {
    case TYPE_UNSIGNED:
        return (long double)(t->bits == 64 ? bits : bits & ((1ull << t->bits) - 1));
    case TYPE_SIGNED:
        return (long double)((int64_t)(bits << (64 - t->bits)) >> (64 - t->bits));
    default:
        return format_value(t->format, bits);
    }
}

/* --- the instruction ------------------------------------------------------------------------- */

/* Inst.sub: types of destination and source, rounding, flags. */
enum { FLAG_SAT = 1, FLAG_FINITE = 2, FLAG_RELU = 4, FLAG_FLUSH = 8, FLAG_TO_INTEGER = 16 };

static uint64_t to_integer(const Type *d, const Type *s, long double v, Rounding mode)
{
    const bool is_signed = d->kind == TYPE_SIGNED;
    const int bits = is_signed ? d->bits - 1 : d->bits;
    const uint64_t most = bits == 64 ? UINT64_MAX : (1ull << bits) - 1;
    if (v != v)
        return s->bits == 64 || d->bits == 64 ? 1ull << (d->bits - 1) : 0;
    v = round_integer(v, mode);
    if (v > (long double)most)
        return most;
    long double least = is_signed ? -(long double)most - 1 : 0;
    if (v < least)
        v = least;
    return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
}

/* Cuts to the type, and fills the slot with its sign. */
static uint64_t fit(const Type *d, uint64_t v)
{
    if (d->bits == 64)
        return v;
    uint64_t keep = (1ull << d->bits) - 1;
    if (d->kind == TYPE_SIGNED && v >> (d->bits - 1) & 1)
        return v | ~keep;
    return v & keep;
}

static bool is_subnormal_f32(const Type *t, long double v)
{
    return t->format == &format_f32 && v != 0 && fabsl(v) < 0x1p-126L;
}

static long double flush(const Type *t, long double v, int flags)
{
    return flags & FLAG_FLUSH && is_subnormal_f32(t, v) ? copysignl(0, v) : v;
}

static uint64_t to_float(const Type *d, long double v, Rounding mode, int flags)
{
    if (flags & FLAG_TO_INTEGER)
        v = copysignl(round_integer(v, mode), v);
    if (flags & FLAG_SAT)
        v = v > 0 ? (v < 1 ? v : 1) : 0;
    if (flags & FLAG_RELU && v < 0)
        v = 0;
    if (flags & FLAG_RELU && v == 0)
        v = 0.0L;
    uint64_t code = format_round(d->format, v, mode, flags & FLAG_FINITE);
    if (flags & FLAG_FLUSH && is_subnormal_f32(d, format_value(d->format, code)))
        code &= 1ull << 31;
    return write_float(d, code);
}

static uint64_t convert_one(const Type *d, const Type *s, uint64_t bits, Rounding mode, int flags)
{
    bool from_integer = s->kind == TYPE_SIGNED || s->kind == TYPE_UNSIGNED;
    if (d->kind == TYPE_FLOAT || d->kind == TYPE_PAIR)
        return to_float(d, flush(s, read_number(s, bits), flags), mode, flags);
    if (from_integer && !(flags & FLAG_SAT))
        return fit(d, fit(s, bits));
    long double v = flush(s, read_number(s, bits), flags);
    return fit(d, to_integer(d, s, v, from_integer ? ROUND_ZERO : mode));
}

static uint64_t read_slot(const Warp *w, uint32_t slot, bool wide, int l)
{
    return wide ? REG(const uint64_t, slot)[l] : REG(const uint32_t, slot)[l];
}

static void write_slot(const Warp *w, const Inst *i, int l, uint64_t v)
{
    if (i->wide & 1)
        REG(uint64_t, i->d)[l] = v;
    else
        REG(uint32_t, i->d)[l] = (uint32_t)v;
}

static void convert(Warp *w, const Inst *i, uint32_t mask)
{
    const Type *d = &types[i->sub[0]], *s = &types[i->sub[1]];
    EACH_LANE if (IS_ON(mask, l)) write_slot(
        w, i, l,
        convert_one(d, s, read_slot(w, i->a, i->wide & 2, l), (Rounding)i->sub[2], i->sub[3]));
}

/* d = {a, b}: a in the upper half. */
static void convert_two(Warp *w, const Inst *i, uint32_t mask)
{
    const Type *d = &types[i->sub[0]], *s = &types[i->sub[1]];
    EACH_LANE if (IS_ON(mask, l))
    {
        uint64_t high =
            convert_one(d, s, read_slot(w, i->a, false, l), (Rounding)i->sub[2], i->sub[3]);
        uint64_t low =
            convert_one(d, s, read_slot(w, i->b, false, l), (Rounding)i->sub[2], i->sub[3]);
        write_slot(w, i, l, high << d->bits | low);
    }
}

static void convert_pair(Warp *w, const Inst *i, uint32_t mask)
{
    const Type *d = &types[i->sub[0]], *s = &types[i->sub[1]];
    EACH_LANE if (IS_ON(mask, l))
    {
        uint64_t from = read_slot(w, i->a, false, l), keep = (1ull << s->bits) - 1;
        uint64_t low = convert_one(d, s, from & keep, (Rounding)i->sub[2], i->sub[3]);
        uint64_t high = convert_one(d, s, from >> s->bits & keep, (Rounding)i->sub[2], i->sub[3]);
        write_slot(w, i, l, high << d->bits | low);
    }
}

static bool modifiers(const Opcode *o, Rule *out)
{
    static const struct {
        const char *name;
        uint8_t rounding, flags;
        bool rounds;
    } table[] = {{"rn", ROUND_NEAREST, 0, true},
                 {"rz", ROUND_ZERO, 0, true},
                 {"rm", ROUND_DOWN, 0, true},
                 {"rp", ROUND_UP, 0, true},
                 {"rna", ROUND_AWAY, 0, true},
                 {"rni", ROUND_NEAREST, FLAG_TO_INTEGER, true},
                 {"rzi", ROUND_ZERO, FLAG_TO_INTEGER, true},
                 {"rmi", ROUND_DOWN, FLAG_TO_INTEGER, true},
                 {"rpi", ROUND_UP, FLAG_TO_INTEGER, true},
                 {"sat", 0, FLAG_SAT, false},
                 {"satfinite", 0, FLAG_FINITE, false},
                 {"relu", 0, FLAG_RELU, false},
                 {"ftz", 0, FLAG_FLUSH, false}};
    for (int k = 1; k < o->n - 2; k++) {
        size_t n = 0;
        while (n < sizeof table / sizeof *table && strcmp(table[n].name, o->part[k]))
            n++;
        if (n == sizeof table / sizeof *table)
            return false;
        out->sub[3] |= table[n].flags;
        if (table[n].rounds)
            out->sub[2] = table[n].rounding;
    }
    return true;
}

/* cvt.pack.sat.{u16,s16}.s32 d, a, b and .{u8,s8}.s32.b32 d, a, b, c: c holds what is shifted up.
 */
static void pack_16(Warp *w, const Inst *i, uint32_t mask)
{
    const Type *d = &types[i->sub[0]], *s = &types[i->sub[1]];
    const uint32_t *a = REG(const uint32_t, i->a), *b = REG(const uint32_t, i->b);
    uint32_t *to = REG(uint32_t, i->d);
    const uint32_t keep = (1u << d->bits) - 1;
    EACH_LANE if (IS_ON(mask, l))
    {
        uint32_t high = (uint32_t)convert_one(d, s, a[l], ROUND_ZERO, FLAG_SAT) & keep;
        uint32_t low = (uint32_t)convert_one(d, s, b[l], ROUND_ZERO, FLAG_SAT) & keep;
        uint32_t above = i->c == NO_SLOT ? 0 : REG(const uint32_t, i->c)[l];
        to[l] = above << (d->bits & 15) * 2 | high << d->bits | low;
    }
}

static bool rule_pack(const Opcode *o, Rule *out)
{
    if (o->n < 5 || strcmp(o->part[1], "pack") || strcmp(o->part[2], "sat"))
        return false;
    int d = find_type(o->part[3]), s = find_type(o->part[4]);
    if (d < 0 || s < 0 || strcmp(o->part[4], "s32") || types[d].format || types[d].bits > 16)
        return false;
    bool bytes = types[d].bits == 8;
    if (bytes ? o->n != 6 || strcmp(o->part[5], "b32") : o->n != 5)
        return false;
    *out = (Rule){.exec = pack_16,
                  .count = COUNT_CONVERT,
                  .takes = {TAKES_32, TAKES_32, TAKES_32, bytes ? TAKES_32 : TAKES_NONE},
                  .sub = {(uint8_t)d, (uint8_t)s}};
    return true;
}

bool rule_convert(const Opcode *o, Rule *out)
{
    *out = (Rule){.count = COUNT_CONVERT};
    if (rule_pack(o, out))
        return true;
    int d = o->n < 3 ? -1 : find_type(o->part[o->n - 2]),
        s = o->n < 3 ? -1 : find_type(o->part[o->n - 1]);
    if (d < 0 || s < 0 || !modifiers(o, out))
        return false;
    const bool to_pair = types[d].kind == TYPE_PAIR, from_pair = types[s].kind == TYPE_PAIR;
    if ((from_pair && !to_pair) || (to_pair && !from_pair && types[s].format != &format_f32))
        return false;
    out->exec = from_pair ? convert_pair : to_pair ? convert_two : convert;
    out->sub[0] = (uint8_t)d;
    out->sub[1] = (uint8_t)s;
    out->takes[0] = !to_pair && types[d].bits == 64 ? TAKES_64 : TAKES_32;
    out->takes[1] = !from_pair && types[s].bits == 64 ? TAKES_64 : TAKES_32;
    if (to_pair && !from_pair)
        out->takes[2] = TAKES_32;
    return true;
}
