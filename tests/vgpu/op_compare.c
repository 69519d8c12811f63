/* op_compare.c: setp, set and testp of integers, f32 and f64; what combines and writes the results
 * is op_half.c's too. SPDX-License-Identifier: MIT */
#include "tests/vgpu/op_compare.h"

#include "tests/vgpu/op_alu.h"

COMPARISON(eq_16, uint32_t, (uint16_t)x == (uint16_t)y)
COMPARISON(ne_16, uint32_t, (uint16_t)x != (uint16_t)y)
#define ORDER(type, T, cut)                                                                        \
    COMPARISON(lt_##type, T, cut(x) < cut(y))                                                      \
    COMPARISON(le_##type, T, cut(x) <= cut(y))                                                     \
    COMPARISON(gt_##type, T, cut(x) > cut(y))                                                      \
    COMPARISON(ge_##type, T, cut(x) >= cut(y))
ORDER(s16, uint32_t, (int16_t))
ORDER(u16, uint32_t, (uint16_t))
ORDER(s32, int32_t, )
ORDER(u32, uint32_t, )
ORDER(s64, int64_t, )
ORDER(u64, uint64_t, )
COMPARISON(eq_32, uint32_t, x == y)
COMPARISON(ne_32, uint32_t, x != y)
COMPARISON(eq_64, uint64_t, x == y)
COMPARISON(ne_64, uint64_t, x != y)

/* Of floats: without u both must be numbers, with u a NaN makes it true. */
#define FLOATS(type, T)                                                                            \
    ORDER(type, T, )                                                                               \
    COMPARISON(eq_##type, T, x == y)                                                               \
    COMPARISON(ne_##type, T, (x < y) | (x > y))                                                    \
    COMPARISON(equ_##type, T, !((x < y) | (x > y)))                                                \
    COMPARISON(neu_##type, T, x != y)                                                              \
    COMPARISON(ltu_##type, T, !(x >= y))                                                           \
    COMPARISON(leu_##type, T, !(x > y))                                                            \
    COMPARISON(gtu_##type, T, !(x <= y))                                                           \
    COMPARISON(geu_##type, T, !(x < y))                                                            \
    COMPARISON(num_##type, T, (x == x) & (y == y))                                                 \
    COMPARISON(nan_##type, T, (x != x) | (y != y))
FLOATS(f32, float)
FLOATS(f64, double)

#define EQUAL(type, n, T) COMPARE_ROW("eq." type, eq_##n, T), COMPARE_ROW("ne." type, ne_##n, T)
#define ORDER_ROWS(type, name, T)                                                                  \
    COMPARE_ROW("lt." type, lt_##name, T), COMPARE_ROW("le." type, le_##name, T),                  \
        COMPARE_ROW("gt." type, gt_##name, T), COMPARE_ROW("ge." type, ge_##name, T)
#define LOW_HIGH(type, name, T)                                                                    \
    COMPARE_ROW("lo." type, lt_##name, T), COMPARE_ROW("ls." type, le_##name, T),                  \
        COMPARE_ROW("hi." type, gt_##name, T), COMPARE_ROW("hs." type, ge_##name, T)
#define FLOAT_ROWS(type, name, T)                                                                  \
    ORDER_ROWS(type, name, T), EQUAL(type, name, T), COMPARE_ROW("equ." type, equ_##name, T),      \
        COMPARE_ROW("neu." type, neu_##name, T), COMPARE_ROW("ltu." type, ltu_##name, T),          \
        COMPARE_ROW("leu." type, leu_##name, T), COMPARE_ROW("gtu." type, gtu_##name, T),          \
        COMPARE_ROW("geu." type, geu_##name, T), COMPARE_ROW("num." type, num_##name, T),          \
        COMPARE_ROW("nan." type, nan_##name, T)

static const CompareRow rows[] = {
    EQUAL("b16", 16, 32),       EQUAL("s16", 16, 32),       EQUAL("u16", 16, 32),
    EQUAL("b32", 32, 32),       EQUAL("s32", 32, 32),       EQUAL("u32", 32, 32),
    EQUAL("b64", 64, 64),       EQUAL("s64", 64, 64),       EQUAL("u64", 64, 64),
    ORDER_ROWS("s16", s16, 32), ORDER_ROWS("u16", u16, 32), ORDER_ROWS("s32", s32, 32),
    ORDER_ROWS("u32", u32, 32), ORDER_ROWS("s64", s64, 64), ORDER_ROWS("u64", u64, 64),
    LOW_HIGH("u16", u16, 32),   LOW_HIGH("u32", u32, 32),   LOW_HIGH("u64", u64, 64),
    FLOAT_ROWS("f32", f32, 32), FLOAT_ROWS("f64", f64, 64),
};

/* setp.lt.and.ftz.f32: comparison, combination and type; the rest is dropped. */
bool compare_split(const Opcode *o, int types, char *key, size_t size, Combine *combine, int *last)
{
    bool combined = o->n > 2 && (!strcmp(o->part[2], "and") || !strcmp(o->part[2], "or") ||
                                 !strcmp(o->part[2], "xor"));
    int at = combined ? 3 : 2;
    *combine = !combined                    ? COMBINE_NONE
               : !strcmp(o->part[2], "and") ? COMBINE_AND
               : !strcmp(o->part[2], "or")  ? COMBINE_OR
                                            : COMBINE_XOR;
    at += at < o->n && !strcmp(o->part[at], "ftz");
    *last = o->n - 1;
    if (o->n != at + types || o->n < 3)
        return false;
    size_t need = strlen(o->part[1]) + strlen(o->part[*last]) + 2;
    if (need > size)
        return false;
    strcpy(key, o->part[1]);
    strcat(strcat(key, "."), o->part[*last]);
    return true;
}

bool compare_rule(const Opcode *o, const CompareRow *table, size_t n, Rule *out)
{
    const bool set = !strcmp(o->part[0], "set");
    char key[48];
    Combine combine;
    int last;
    if ((!set && strcmp(o->part[0], "setp")) ||
        !compare_split(o, set ? 2 : 1, key, sizeof key, &combine, &last))
        return false;
    for (size_t k = 0; k < n; k++) {
        const CompareRow *r = &table[k];
        if (strcmp(r->key, key))
            continue;
        const uint8_t takes[] = {TAKES_PRED, r->takes, r->takes, TAKES_PRED};
        memcpy(out->takes, takes, sizeof takes);
        if (combine == COMBINE_NONE)
            out->takes[3] = TAKES_NONE;
        out->two_dests = !set;
        out->sub[0] = (uint8_t)combine;
        out->count = o->part[last][0] == 'f' || o->part[last][0] == 'b'
                         ? (uint8_t)(r->takes == TAKES_64 ? COUNT_DOUBLE : COUNT_FLOAT)
                         : (uint8_t)COUNT_INT;
        out->mxcsr = opcode_has(o, "ftz")      ? MXCSR_NEAREST | MXCSR_FLUSH
                     : o->part[last][0] == 'f' ? MXCSR_NEAREST
                                               : 0;
        out->exec = r->plain;
        if (!set)
            return true;
        const char *to = o->part[last - 1];
        out->takes[0] = TAKES_32;
        out->exec = r->set;
        out->sub[1] = !strcmp(to, "f32")                             ? SET_F32
                      : !strcmp(to, "u32") || !strcmp(to, "s32")     ? SET_MASK
                      : !strcmp(to, "u16") || !strcmp(to, "s16")     ? SET_MASK
                      : !strcmp(to, "f16") || !strcmp(to, "f16x2")   ? SET_F16
                      : !strcmp(to, "bf16") || !strcmp(to, "bf16x2") ? SET_BF16
                                                                     : SET_NONE;
        return out->sub[1] != SET_NONE;
    }
    return false;
}

void compare_write(Warp *w, const Inst *i, uint32_t mask, uint32_t p)
{
    uint32_t q = ~p;
    if (i->sub[0] != COMBINE_NONE) {
        const uint32_t c = w->preds[i->c] ^ (i->c_not ? ALL_LANES : 0);
        p = i->sub[0] == COMBINE_AND ? p & c : i->sub[0] == COMBINE_OR ? p | c : p ^ c;
        q = i->sub[0] == COMBINE_AND ? q & c : i->sub[0] == COMBINE_OR ? q | c : q ^ c;
    }
    pred_write(w, i->d, mask, p);
    if (i->d2 != NO_SLOT)
        pred_write(w, i->d2, mask, q);
}

void compare_set(Warp *w, const Inst *i, uint32_t mask, uint32_t p)
{
    static const uint32_t ones[] = {
        [SET_F32] = 0x3f800000, [SET_MASK] = UINT32_MAX, [SET_F16] = 0x3c00, [SET_BF16] = 0x3f80};
    const uint32_t one = ones[i->sub[1]];
    if (i->sub[0] != COMBINE_NONE) {
        const uint32_t c = w->preds[i->c] ^ (i->c_not ? ALL_LANES : 0);
        p = i->sub[0] == COMBINE_AND ? p & c : i->sub[0] == COMBINE_OR ? p | c : p ^ c;
    }
    FOR_LANES(uint32_t, i->d, , IS_ON(p, l) ? one : 0)
}

/* --- testp ----------------------------------------------------------------------------------- */

#define TEST(name, T, value)                                                                       \
    static void name(Warp *w, const Inst *i, uint32_t mask)                                        \
    {                                                                                              \
        const T *a = REG(const T, i->a);                                                           \
        uint32_t is[LANES] __attribute__((aligned(64)));                                           \
        EACH_LANE                                                                                  \
        {                                                                                          \
            T x = a[l] & ((T)-1 >> 1);                                                             \
            is[l] = (value) ? UINT32_MAX : 0;                                                      \
        }                                                                                          \
        pred_write(w, i->d, mask, lanes_to_mask(is));                                              \
    }
/* by their bits: below one is subnormal, from inf on there are no numbers */
#define TESTS(type, T, one, inf)                                                                   \
    TEST(finite_##type, T, x < (inf))                                                              \
    TEST(infinite_##type, T, x == (inf))                                                           \
    TEST(number_##type, T, x <= (inf))                                                             \
    TEST(notanumber_##type, T, x > (inf))                                                          \
    TEST(normal_##type, T, x >= (one) && x < (inf))                                                \
    TEST(subnormal_##type, T, x<(one) && x> 0)
TESTS(f32, uint32_t, 0x00800000u, 0x7f800000u)
TESTS(f64, uint64_t, 0x0010000000000000u, 0x7ff0000000000000u)

#define TEST_ROWS(type, T)                                                                         \
    {"testp.finite." #type, finite_##type, COUNT_FLOAT, {TAKES_PRED, TAKES_##T}},                  \
        {"testp.infinite." #type, infinite_##type, COUNT_FLOAT, {TAKES_PRED, TAKES_##T}},          \
        {"testp.number." #type, number_##type, COUNT_FLOAT, {TAKES_PRED, TAKES_##T}},              \
        {"testp.notanumber." #type, notanumber_##type, COUNT_FLOAT, {TAKES_PRED, TAKES_##T}},      \
        {"testp.normal." #type, normal_##type, COUNT_FLOAT, {TAKES_PRED, TAKES_##T}},              \
    {                                                                                              \
        "testp.subnormal." #type, subnormal_##type, COUNT_FLOAT,                                   \
        {                                                                                          \
            TAKES_PRED, TAKES_##T                                                                  \
        }                                                                                          \
    }

static const Row tests[] = {TEST_ROWS(f32, 32), TEST_ROWS(f64, 64)};

bool rule_compare(const Opcode *o, Rule *out)
{
    static const char *const none[] = {NULL};
    char key[64];
    if (compare_rule(o, rows, sizeof rows / sizeof *rows, out))
        return true;
    return opcode_key(o, none, key, sizeof key) &&
           row_rule(row_find(tests, sizeof tests / sizeof *tests, key), out);
}
