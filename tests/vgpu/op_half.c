/* op_half.c: f16, bf16 and pairs of them. Sums and products of f16 are exact enough in float that
 * rounding twice does no harm; fma, and products of bf16 below float's range, go through double and
 * round to odd. SPDX-License-Identifier: MIT */
#include "tests/vgpu/approximate.h"
#include "tests/vgpu/half.h"
#include "tests/vgpu/op_compare.h"

#include <math.h>

/* --- one number: x, y, z are slots whose upper halves mean nothing --------------------------- */

static inline uint32_t f16_add(uint32_t x, uint32_t y)
{
    return float_to_half(half_to_float(x) + half_to_float(y));
}

static inline uint32_t f16_sub(uint32_t x, uint32_t y)
{
    return float_to_half(half_to_float(x) - half_to_float(y));
}

static inline uint32_t f16_mul(uint32_t x, uint32_t y)
{
    return float_to_half(half_to_float(x) * half_to_float(y));
}

static inline uint32_t f16_fma(uint32_t x, uint32_t y, uint32_t z)
{
    return double_to_half((double)half_to_float(x) * (double)half_to_float(y) +
                          (double)half_to_float(z));
}

static inline uint32_t bf16_add(uint32_t x, uint32_t y)
{
    return float_to_bf16(bf16_to_float(x) + bf16_to_float(y));
}

static inline uint32_t bf16_sub(uint32_t x, uint32_t y)
{
    return float_to_bf16(bf16_to_float(x) - bf16_to_float(y));
}

static inline uint32_t bf16_mul(uint32_t x, uint32_t y)
{
    return double_to_bf16((double)bf16_to_float(x) * (double)bf16_to_float(y));
}

static inline uint32_t bf16_fma(uint32_t x, uint32_t y, uint32_t z)
{
    return double_to_bf16(
        add_to_odd((double)bf16_to_float(x) * (double)bf16_to_float(y), (double)bf16_to_float(z)));
}

#define HALF_NEG(x) (((x)&0xffff) ^ 0x8000)
#define HALF_ABS(x) ((x)&0x7fff)

/* Smaller numbers have smaller integers. */
static inline int32_t order_of(uint32_t h)
{
    int32_t v = (int16_t)h;
    return v ^ (int32_t)((uint32_t)(v >> 31) >> 17);
}

static inline bool f16_is_nan(uint32_t h)
{
    return (h & 0x7fff) > 0x7c00;
}

static inline bool bf16_is_nan(uint32_t h)
{
    return (h & 0x7fff) > 0x7f80;
}

#define MIN_MAX_OF(f, op, less)                                                                    \
    static inline uint32_t f##_##op(uint32_t x, uint32_t y)                                        \
    {                                                                                              \
        uint32_t m = order_of(x) less order_of(y) ? x : y;                                         \
        m = f##_is_nan(x) ? (f##_is_nan(y) ? (uint32_t)NAN_HALF : y) : f##_is_nan(y) ? x : m;      \
        return m & 0xffff;                                                                         \
    }                                                                                              \
    static inline uint32_t f##_##op##_nan(uint32_t x, uint32_t y)                                  \
    {                                                                                              \
        return f##_is_nan(x) | f##_is_nan(y) ? (uint32_t)NAN_HALF : f##_##op(x, y);                \
    }                                                                                              \
    static inline uint32_t f##_##op##_xorsign(uint32_t x, uint32_t y)                              \
    {                                                                                              \
        uint32_t m = f##_##op(x & 0x7fff, y & 0x7fff);                                             \
        return f##_is_nan(m) ? m : m | ((x ^ y) & 0x8000);                                         \
    }                                                                                              \
    static inline uint32_t f##_##op##_nan_xorsign(uint32_t x, uint32_t y)                          \
    {                                                                                              \
        return f##_is_nan(x) | f##_is_nan(y) ? (uint32_t)NAN_HALF : f##_##op##_xorsign(x, y);      \
    }
MIN_MAX_OF(f16, min, <)
MIN_MAX_OF(f16, max, >)
MIN_MAX_OF(bf16, min, <)
MIN_MAX_OF(bf16, max, >)

static inline uint32_t f16_ex2(uint32_t x)
{
    return float_to_half(exp2_of(half_to_float(x)));
}

static inline uint32_t bf16_ex2(uint32_t x)
{
    return float_to_bf16(exp2_of(bf16_to_float(x)));
}

static uint32_t f16_tanh(uint32_t x)
{
    return float_to_half(tanhf(half_to_float(x)));
}

static uint32_t bf16_tanh(uint32_t x)
{
    return float_to_bf16(tanhf(bf16_to_float(x)));
}

/* --- modifiers: Inst.sub[0] ------------------------------------------------------------------ */

enum { FLAG_FLUSH = 1, FLAG_SAT = 2, FLAG_RELU = 4 };

static inline uint32_t f16_flush(uint32_t h)
{
    return h & 0x7c00 ? h & 0xffff : h & 0x8000;
}

static inline uint32_t bf16_flush(uint32_t h)
{
    return h & 0x7f80 ? h & 0xffff : h & 0x8000;
}

static inline uint32_t f16_finish(uint32_t h, int flags)
{
    if (flags & FLAG_FLUSH)
        h = f16_flush(h);
    if (flags & FLAG_SAT)
        h = f16_is_nan(h) || h & 0x8000 ? 0 : h > 0x3c00 ? 0x3c00 : h;
    if (flags & FLAG_RELU)
        h = f16_is_nan(h) ? (uint32_t)NAN_HALF : h & 0x8000 ? 0 : h;
    return h;
}

static inline uint32_t bf16_finish(uint32_t h, int flags)
{
    if (flags & FLAG_FLUSH)
        h = bf16_flush(h);
    if (flags & FLAG_SAT)
        h = bf16_is_nan(h) || h & 0x8000 ? 0 : h > 0x3f80 ? 0x3f80 : h;
    if (flags & FLAG_RELU)
        h = bf16_is_nan(h) ? (uint32_t)NAN_HALF : h & 0x8000 ? 0 : h;
    return h;
}

/* --- instructions ---------------------------------------------------------------------------- */

/* All lanes of one half of the sources. */
typedef void Lanes(const uint32_t *x, const uint32_t *y, const uint32_t *z, int shift,
                   uint32_t *restrict out);
typedef void Finish(uint32_t *lanes, int flags);
typedef void Flush(const uint32_t *x, uint32_t *restrict out);

#define FORMAT_LANES(f)                                                                            \
    static void f##_flush_lanes(const uint32_t *x, uint32_t *restrict out)                         \
    {                                                                                              \
        EACH_LANE out[l] = f##_flush(x[l]) | f##_flush(x[l] >> 16) << 16;                          \
    }                                                                                              \
    static void f##_finish_lanes(uint32_t *lanes, int flags)                                       \
    {                                                                                              \
        EACH_LANE lanes[l] = f##_finish(lanes[l], flags);                                          \
    }
FORMAT_LANES(f16)
FORMAT_LANES(bf16)

/* One or both halves of each lane, through arrays: short loops stay in vectors. */
__attribute__((always_inline)) static inline void run(Warp *w, const Inst *i, uint32_t mask,
                                                      Lanes *lanes, bool both)
{
    uint32_t low[LANES], high[LANES];
    const uint32_t *x = REG(const uint32_t, i->a);
    const uint32_t *y = i->b == NO_SLOT ? x : REG(const uint32_t, i->b);
    const uint32_t *z = i->c == NO_SLOT ? y : REG(const uint32_t, i->c);
    lanes(x, y, z, 0, low);
    if (both)
        lanes(x, y, z, 16, high);
    FOR_LANES(uint32_t, i->d, , both ? low[l] | high[l] << 16 : low[l])
}

/* The same between flushing and saturating: Inst.sub[0]. */
__attribute__((always_inline)) static inline void run_with(Warp *w, const Inst *i, uint32_t mask,
                                                           Lanes *lanes, bool both, Flush *flush,
                                                           Finish *finish)
{
    uint32_t low[LANES], high[LANES], flushed[3][LANES];
    const uint32_t slots[] = {i->a, i->b, i->c == NO_SLOT ? i->b : i->c}, *from[3];
    const int flags = i->sub[0];
    for (int k = 0; k < 3; k++) {
        from[k] = REG(const uint32_t, slots[k]);
        if (flags & FLAG_FLUSH) {
            flush(from[k], flushed[k]);
            from[k] = flushed[k];
        }
    }
    lanes(from[0], from[1], from[2], 0, low);
    finish(low, flags);
    if (both) {
        lanes(from[0], from[1], from[2], 16, high);
        finish(high, flags);
    }
    FOR_LANES(uint32_t, i->d, , both ? low[l] | high[l] << 16 : low[l])
}

#define HALF(f, name, value)                                                                       \
    static void f##_##name##_lanes(const uint32_t *x, const uint32_t *y, const uint32_t *z,        \
                                   int shift, uint32_t *restrict out)                              \
    {                                                                                              \
        (void)y, (void)z;                                                                          \
        EACH_LANE out[l] = f##_##name value;                                                       \
    }                                                                                              \
    static void f##_##name##_one(Warp *w, const Inst *i, uint32_t mask)                            \
    {                                                                                              \
        run(w, i, mask, f##_##name##_lanes, false);                                                \
    }                                                                                              \
    static void f##_##name##_two(Warp *w, const Inst *i, uint32_t mask)                            \
    {                                                                                              \
        run(w, i, mask, f##_##name##_lanes, true);                                                 \
    }
#define HALF_WITH(f, name)                                                                         \
    static void f##_##name##_one_with(Warp *w, const Inst *i, uint32_t mask)                       \
    {                                                                                              \
        run_with(w, i, mask, f##_##name##_lanes, false, f##_flush_lanes, f##_finish_lanes);        \
    }                                                                                              \
    static void f##_##name##_two_with(Warp *w, const Inst *i, uint32_t mask)                       \
    {                                                                                              \
        run_with(w, i, mask, f##_##name##_lanes, true, f##_flush_lanes, f##_finish_lanes);         \
    }
#define HALF_1(f, name) HALF(f, name, (x[l] >> shift))
#define HALF_2(f, name)                                                                            \
    HALF(f, name, (x[l] >> shift, y[l] >> shift))                                                  \
    HALF_WITH(f, name)
#define HALF_3(f, name)                                                                            \
    HALF(f, name, (x[l] >> shift, y[l] >> shift, z[l] >> shift))                                   \
    HALF_WITH(f, name)
#define FORMAT(f)                                                                                  \
    HALF_2(f, add)                                                                                 \
    HALF_2(f, sub)                                                                                 \
    HALF_2(f, mul)                                                                                 \
    HALF_3(f, fma)                                                                                 \
    HALF_2(f, min)                                                                                 \
    HALF_2(f, max)                                                                                 \
    HALF_2(f, min_nan)                                                                             \
    HALF_2(f, max_nan)                                                                             \
    HALF_2(f, min_xorsign)                                                                         \
    HALF_2(f, max_xorsign)                                                                         \
    HALF_2(f, min_nan_xorsign)                                                                     \
    HALF_2(f, max_nan_xorsign)                                                                     \
    HALF_1(f, ex2)                                                                                 \
    HALF_1(f, tanh)
FORMAT(f16)
FORMAT(bf16)
UNARY(neg_one, uint32_t, uint32_t, HALF_NEG(x))
UNARY(neg_two, uint32_t, uint32_t, x ^ 0x80008000u)
UNARY(abs_one, uint32_t, uint32_t, HALF_ABS(x))
UNARY(abs_two, uint32_t, uint32_t, x & 0x7fff7fffu)
#define HI(x) ((x) >> 16)
UNARY(neg_ftz_one, uint32_t, uint32_t, HALF_NEG(f16_flush(x)))
UNARY(neg_ftz_two, uint32_t, uint32_t, (f16_flush(x) | f16_flush(HI(x)) << 16) ^ 0x80008000u)
UNARY(abs_ftz_one, uint32_t, uint32_t, HALF_ABS(f16_flush(x)))
UNARY(abs_ftz_two, uint32_t, uint32_t, (f16_flush(x) | f16_flush(HI(x)) << 16) & 0x7fff7fffu)

/* --- comparisons ----------------------------------------------------------------------------- */

#define COMPARE_HALF(f, to)                                                                        \
    COMPARISON(eq_##f, uint32_t, to(x) == to(y))                                                   \
    COMPARISON(ne_##f, uint32_t, (to(x) < to(y)) | (to(x) > to(y)))                                \
    COMPARISON(lt_##f, uint32_t, to(x) < to(y))                                                    \
    COMPARISON(le_##f, uint32_t, to(x) <= to(y))                                                   \
    COMPARISON(gt_##f, uint32_t, to(x) > to(y))                                                    \
    COMPARISON(ge_##f, uint32_t, to(x) >= to(y))                                                   \
    COMPARISON(equ_##f, uint32_t, !((to(x) < to(y)) | (to(x) > to(y))))                            \
    COMPARISON(neu_##f, uint32_t, to(x) != to(y))                                                  \
    COMPARISON(ltu_##f, uint32_t, !(to(x) >= to(y)))                                               \
    COMPARISON(leu_##f, uint32_t, !(to(x) > to(y)))                                                \
    COMPARISON(gtu_##f, uint32_t, !(to(x) <= to(y)))                                               \
    COMPARISON(geu_##f, uint32_t, !(to(x) < to(y)))                                                \
    COMPARISON(num_##f, uint32_t, !(f##_is_nan(x) | f##_is_nan(y)))                                \
    COMPARISON(nan_##f, uint32_t, f##_is_nan(x) | f##_is_nan(y))
COMPARE_HALF(f16, half_to_float)
COMPARE_HALF(bf16, bf16_to_float)

#define COMPARE_ROWS(f)                                                                            \
    COMPARE_ROW("eq." #f, eq_##f, 32), COMPARE_ROW("ne." #f, ne_##f, 32),                          \
        COMPARE_ROW("lt." #f, lt_##f, 32), COMPARE_ROW("le." #f, le_##f, 32),                      \
        COMPARE_ROW("gt." #f, gt_##f, 32), COMPARE_ROW("ge." #f, ge_##f, 32),                      \
        COMPARE_ROW("equ." #f, equ_##f, 32), COMPARE_ROW("neu." #f, neu_##f, 32),                  \
        COMPARE_ROW("ltu." #f, ltu_##f, 32), COMPARE_ROW("leu." #f, leu_##f, 32),                  \
        COMPARE_ROW("gtu." #f, gtu_##f, 32), COMPARE_ROW("geu." #f, geu_##f, 32),                  \
        COMPARE_ROW("num." #f, num_##f, 32), COMPARE_ROW("nan." #f, nan_##f, 32)
static const CompareRow compare_rows[] = {COMPARE_ROWS(f16), COMPARE_ROWS(bf16)};

/* Pairs: one comparison for each half. sub[1]: what set writes, sub[2]: which comparison, sub[3]:
 * flags. */
enum { PAIR_BF16 = 1, PAIR_FLUSH = 2 };
static const char *const comparisons[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                          "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

static bool compare_floats(int which, float x, float y)
{
    const bool unordered = x != x || y != y;
    switch (which) {
    case 12:
        return !unordered;
    case 13:
        return unordered;
    case 0:
    case 6:
        return unordered ? which == 6 : x == y;
    case 1:
    case 7:
        return unordered ? which == 7 : x != y;
    case 2:
    case 8:
        return unordered ? which == 8 : x < y;
    case 3:
    case 9:
        return unordered ? which == 9 : x <= y;
    case 4:
    case 10:
        return unordered ? which == 10 : x > y;
    default:
        return unordered ? which == 11 : x >= y;
    }
}

static void compare_pair(const Warp *w, const Inst *i, uint32_t out[2])
{
    const uint32_t *a = REG(const uint32_t, i->a), *b = REG(const uint32_t, i->b);
    out[0] = out[1] = 0;
    EACH_LANE for (int k = 0; k < 2; k++)
    {
        uint32_t x = a[l] >> 16 * k, y = b[l] >> 16 * k;
        if (i->sub[3] & PAIR_FLUSH)
            x = f16_flush(x), y = f16_flush(y);
        bool bf16 = i->sub[3] & PAIR_BF16;
        bool is = compare_floats(i->sub[2], bf16 ? bf16_to_float(x) : half_to_float(x),
                                 bf16 ? bf16_to_float(y) : half_to_float(y));
        out[k] |= (uint32_t)is << l;
    }
    if (i->sub[0] == COMBINE_NONE)
        return;
    const uint32_t c = w->preds[i->c] ^ (i->c_not ? ALL_LANES : 0);
    for (int k = 0; k < 2; k++)
        out[k] = i->sub[0] == COMBINE_AND  ? out[k] & c
                 : i->sub[0] == COMBINE_OR ? out[k] | c
                                           : out[k] ^ c;
}

/* setp.eq.f16x2 p|q: p for the lower, q for the upper half. */
static void setp_pair(Warp *w, const Inst *i, uint32_t mask)
{
    uint32_t p[2];
    compare_pair(w, i, p);
    pred_write(w, i->d, mask, p[0]);
    if (i->d2 != NO_SLOT)
        pred_write(w, i->d2, mask, p[1]);
}

static void set_pair(Warp *w, const Inst *i, uint32_t mask)
{
    uint32_t p[2];
    const uint32_t one = i->sub[1] == SET_F16 ? 0x3c00 : i->sub[1] == SET_BF16 ? 0x3f80 : 0xffff;
    compare_pair(w, i, p);
    FOR_LANES(uint32_t, i->d, , (IS_ON(p[0], l) ? one : 0) | (IS_ON(p[1], l) ? one << 16 : 0))
}

static bool rule_pair(const Opcode *o, Rule *out)
{
    const bool set = !strcmp(o->part[0], "set");
    char key[48];
    Combine combine;
    int last;
    if ((!set && strcmp(o->part[0], "setp")) ||
        !compare_split(o, set ? 2 : 1, key, sizeof key, &combine, &last))
        return false;
    const bool f16 = !strcmp(o->part[last], "f16x2");
    if (!f16 && strcmp(o->part[last], "bf16x2"))
        return false;
    for (uint8_t k = 0; k < sizeof comparisons / sizeof *comparisons; k++) {
        if (strcmp(comparisons[k], o->part[1]))
            continue;
        const char *to = o->part[last - 1];
        *out = (Rule){.exec = set ? set_pair : setp_pair,
                      .count = COUNT_HALF,
                      .takes = {set ? TAKES_32 : TAKES_PRED, TAKES_32, TAKES_32,
                                combine == COMBINE_NONE ? TAKES_NONE : TAKES_PRED},
                      .two_dests = !set,
                      .sub = {(uint8_t)combine, SET_MASK, k, f16 ? 0 : PAIR_BF16},
                      .mxcsr = MXCSR_NEAREST};
        if (set)
            out->sub[1] = !strcmp(to, "f16x2")    ? SET_F16
                          : !strcmp(to, "bf16x2") ? SET_BF16
                                                  : SET_MASK;
        if (opcode_has(o, "ftz"))
            out->sub[3] |= PAIR_FLUSH;
        return true;
    }
    return false;
}

/* --- the table ------------------------------------------------------------------------------- */

typedef struct {
    const char *key; /* without type, .rn, .ftz, .sat, .relu */
    uint8_t sources;
    Exec *exec[2][2]; /* by format f16, bf16; one, two */
    Exec *with[2][2]; /* with modifiers; NULL: there are none */
} HalfRow;

#define FORMS(name)                                                                                \
    {                                                                                              \
        {f16_##name##_one, f16_##name##_two},                                                      \
        {                                                                                          \
            bf16_##name##_one, bf16_##name##_two                                                   \
        }                                                                                          \
    }
#define FORMS_WITH(name)                                                                           \
    {                                                                                              \
        {f16_##name##_one_with, f16_##name##_two_with},                                            \
        {                                                                                          \
            bf16_##name##_one_with, bf16_##name##_two_with                                         \
        }                                                                                          \
    }
#define SAME(name)                                                                                 \
    {                                                                                              \
        {name##_one, name##_two},                                                                  \
        {                                                                                          \
            name##_one, name##_two                                                                 \
        }                                                                                          \
    }
#define NONE                                                                                       \
    {                                                                                              \
        {NULL, NULL},                                                                              \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }
#define FLUSHING(name)                                                                             \
    {                                                                                              \
        {name##_ftz_one, name##_ftz_two},                                                          \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

static const HalfRow rows[] = {
    {"add", 2, FORMS(add), FORMS_WITH(add)},
    {"sub", 2, FORMS(sub), FORMS_WITH(sub)},
    {"mul", 2, FORMS(mul), FORMS_WITH(mul)},
    {"fma", 3, FORMS(fma), FORMS_WITH(fma)},
    {"min", 2, FORMS(min), FORMS_WITH(min)},
    {"max", 2, FORMS(max), FORMS_WITH(max)},
    {"min.NaN", 2, FORMS(min_nan), FORMS_WITH(min_nan)},
    {"max.NaN", 2, FORMS(max_nan), FORMS_WITH(max_nan)},
    {"min.xorsign.abs", 2, FORMS(min_xorsign), FORMS_WITH(min_xorsign)},
    {"max.xorsign.abs", 2, FORMS(max_xorsign), FORMS_WITH(max_xorsign)},
    {"min.NaN.xorsign.abs", 2, FORMS(min_nan_xorsign), FORMS_WITH(min_nan_xorsign)},
    {"max.NaN.xorsign.abs", 2, FORMS(max_nan_xorsign), FORMS_WITH(max_nan_xorsign)},
    {"neg", 1, SAME(neg), FLUSHING(neg)},
    {"abs", 1, SAME(abs), FLUSHING(abs)},
    {"ex2.approx", 1, FORMS(ex2), NONE},
    {"tanh.approx", 1, FORMS(tanh), NONE},
};

static bool format_of(const char *type, int *format, int *two)
{
    *format = type[0] == 'b';
    type += *format;
    *two = !strcmp(type, "f16x2");
    return *two || !strcmp(type, "f16");
}

static bool rule_arithmetic(const Opcode *o, Rule *out)
{
    static const char *const modifiers[] = {"rn",    "ftz",  "sat",    "relu", "f16",
                                            "f16x2", "bf16", "bf16x2", NULL};
    char key[64];
    int format, two;
    if (o->n < 2 || !format_of(o->part[o->n - 1], &format, &two) ||
        !opcode_key(o, modifiers, key, sizeof key))
        return false;
    uint8_t flags =
        (uint8_t)((opcode_has(o, "ftz") ? FLAG_FLUSH : 0) | (opcode_has(o, "sat") ? FLAG_SAT : 0) |
                  (opcode_has(o, "relu") ? FLAG_RELU : 0));
    if (!strncmp(key, "ex2", 3))
        flags = 0; /* of bf16 it flushes, as the exact result does */
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const HalfRow *r = &rows[k];
        if (strcmp(r->key, key))
            continue;
        out->exec = flags ? r->with[format][two] : r->exec[format][two];
        out->count = r->exec[0][0] == f16_ex2_one || r->exec[0][0] == f16_tanh_one ? COUNT_SPECIAL
                                                                                   : COUNT_HALF;
        for (int t = 0; t <= r->sources; t++)
            out->takes[t] = TAKES_32;
        out->sub[0] = flags;
        out->mxcsr = MXCSR_NEAREST;
        return out->exec != NULL;
    }
    return false;
}

bool rule_half(const Opcode *o, Rule *out)
{
    if (rule_arithmetic(o, out) || rule_pair(o, out))
        return true;
    if (!compare_rule(o, compare_rows, sizeof compare_rows / sizeof *compare_rows, out) ||
        opcode_has(o, "ftz"))
        return false;
    out->count = COUNT_HALF;
    out->mxcsr = MXCSR_NEAREST;
    return true;
}
