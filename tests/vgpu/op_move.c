/* op_move.c: mov, packing and unpacking, selections, logic of predicates, and what the decoder puts
 * in by itself. SPDX-License-Identifier: MIT */
#include "tests/vgpu/op_alu.h"

#include <time.h>

void exec_nop(Warp *w, const Inst *i, uint32_t mask)
{
    (void)w, (void)i, (void)mask;
}

#define GLOBAL_UNARY(name, T, A, value)                                                            \
    void name(Warp *w, const Inst *i, uint32_t mask)                                               \
    {                                                                                              \
        const A *a = REG(const A, i->a);                                                           \
        FOR_LANES(T, i->d, A x = a[l], value)                                                      \
    }
#define GLOBAL_BINARY(name, T, value)                                                              \
    void name(Warp *w, const Inst *i, uint32_t mask)                                               \
    {                                                                                              \
        const T *a = REG(const T, i->a), *b = REG(const T, i->b);                                  \
        FOR_LANES(T, i->d, T x = a[l]; T y = b[l], value)                                          \
    }
GLOBAL_UNARY(exec_move_32, uint32_t, uint32_t, x)
GLOBAL_UNARY(exec_move_64, uint64_t, uint64_t, x)
GLOBAL_UNARY(exec_widen_unsigned, uint64_t, uint32_t, x)
GLOBAL_UNARY(exec_widen_signed, int64_t, int32_t, x)
GLOBAL_UNARY(exec_narrow, uint32_t, uint64_t, x)
GLOBAL_BINARY(exec_add_32, uint32_t, x + y)
GLOBAL_BINARY(exec_add_64, uint64_t, x + y)

/* --- packing --------------------------------------------------------------------------------- */

/* d = {list[0], list[1], ..}, the first one in the low bits. */
void exec_pack(Warp *w, const Inst *i, uint32_t mask)
{
    const int n = i->nlist, bits = i->size * 8 / n;
    const uint32_t keep = bits < 32 ? (1u << bits) - 1 : UINT32_MAX;
    if (n == 2 && bits == 16) {
        const uint32_t *low = REG(const uint32_t, i->list[0]),
                       *high = REG(const uint32_t, i->list[1]);
        FOR_LANES(uint32_t, i->d, , (low[l] & 0xffff) | high[l] << 16)
        return;
    }
    uint64_t packed[LANES] = {0};
    for (int k = 0; k < n; k++) {
        const uint32_t *a = REG(const uint32_t, i->list[k]);
        EACH_LANE packed[l] |= (uint64_t)(a[l] & keep) << (bits * k);
    }
    if (i->size == 8) {
        FOR_LANES(uint64_t, i->d, , packed[l])
    } else {
        FOR_LANES(uint32_t, i->d, , packed[l])
    }
}

void exec_unpack(Warp *w, const Inst *i, uint32_t mask)
{
    const int n = i->nlist, bits = i->size * 8 / n;
    const uint32_t keep = bits < 32 ? (1u << bits) - 1 : UINT32_MAX;
    uint64_t from[LANES];
    if (i->size == 8)
        EACH_LANE from[l] = REG(const uint64_t, i->a)[l];
    else
        EACH_LANE from[l] = REG(const uint32_t, i->a)[l];
    for (int k = 0; k < n; k++) {
        FOR_LANES(uint32_t, i->list[k], , (uint32_t)(from[l] >> (bits * k)) & keep)
    }
}

/* --- predicates ------------------------------------------------------------------------------ */

/* Sources that are written with ! */
static inline uint32_t pred_a(const Warp *w, const Inst *i)
{
    return w->preds[i->a] ^ (i->a_not ? ALL_LANES : 0);
}

static inline uint32_t pred_c(const Warp *w, const Inst *i)
{
    return w->preds[i->c] ^ (i->c_not ? ALL_LANES : 0);
}

void exec_not_pred(Warp *w, const Inst *i, uint32_t mask)
{
    pred_write(w, i->d, mask, ~pred_a(w, i));
}

void exec_set_pred(Warp *w, const Inst *i, uint32_t mask)
{
    pred_write(w, i->d, mask, i->imm ? ALL_LANES : 0);
}

static void move_pred(Warp *w, const Inst *i, uint32_t mask)
{
    pred_write(w, i->d, mask, pred_a(w, i));
}

static void and_pred(Warp *w, const Inst *i, uint32_t mask)
{
    pred_write(w, i->d, mask, pred_a(w, i) & w->preds[i->b]);
}

static void or_pred(Warp *w, const Inst *i, uint32_t mask)
{
    pred_write(w, i->d, mask, pred_a(w, i) | w->preds[i->b]);
}

static void xor_pred(Warp *w, const Inst *i, uint32_t mask)
{
    pred_write(w, i->d, mask, pred_a(w, i) ^ w->preds[i->b]);
}

/* --- selections ------------------------------------------------------------------------------ */

#define SELECT(name, T)                                                                            \
    static void name(Warp *w, const Inst *i, uint32_t mask)                                        \
    {                                                                                              \
        const T *a = REG(const T, i->a), *b = REG(const T, i->b);                                  \
        const uint32_t p = pred_c(w, i);                                                           \
        FOR_LANES(T, i->d, T x = a[l]; T y = b[l], IS_ON(p, l) ? x : y)                            \
    }
SELECT(selp_32, uint32_t)
SELECT(selp_64, uint64_t)

/* slct: by the sign of z; a NaN selects y, a negative zero x. */
TERNARY(slct_32_s32, uint32_t, uint32_t, uint32_t, int32_t, z >= 0 ? x : y)
TERNARY(slct_64_s32, uint64_t, uint64_t, uint64_t, int32_t, z >= 0 ? x : y)
TERNARY(slct_32_f32, uint32_t, uint32_t, uint32_t, float, z >= 0 ? x : y)
TERNARY(slct_64_f32, uint64_t, uint64_t, uint64_t, float, z >= 0 ? x : y)

/* --- clocks ---------------------------------------------------------------------------------- */

/* Clocks count the warp's instructions, so that runs repeat; the global timer is the host's. */
void exec_clock(Warp *w, const Inst *i, uint32_t mask)
{
    uint64_t now = w->executed;
    if (i->imm == SPECIAL_GLOBALTIMER) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    }
    if (i->size == 8) {
        FOR_LANES(uint64_t, i->d, , now)
    } else {
        FOR_LANES(uint32_t, i->d, , now)
    }
}

/* --- the table ------------------------------------------------------------------------------- */

#define SELECT_ROWS(type, n)                                                                       \
    {"selp." type, selp_##n, COUNT_MOVE, {TAKES_##n, TAKES_##n, TAKES_##n, TAKES_PRED}},           \
        {"slct." type ".s32",                                                                      \
         slct_##n##_s32,                                                                           \
         COUNT_MOVE,                                                                               \
         {TAKES_##n, TAKES_##n, TAKES_##n, TAKES_32}},                                             \
    {                                                                                              \
        "slct." type ".f32", slct_##n##_f32, COUNT_MOVE,                                           \
        {                                                                                          \
            TAKES_##n, TAKES_##n, TAKES_##n, TAKES_32                                              \
        }                                                                                          \
    }
#define MOVE_ROW(type, n)                                                                          \
    {                                                                                              \
        "mov." type, exec_move_##n, COUNT_MOVE,                                                    \
        {                                                                                          \
            TAKES_LIST_OR_##n, TAKES_LIST_OR_##n                                                   \
        }                                                                                          \
    }
#define PREDS_2                                                                                    \
    {                                                                                              \
        TAKES_PRED, TAKES_PRED                                                                     \
    }
#define PREDS_3                                                                                    \
    {                                                                                              \
        TAKES_PRED, TAKES_PRED, TAKES_PRED                                                         \
    }

static const Row rows[] = {
    MOVE_ROW("b16", 32),
    MOVE_ROW("u16", 32),
    MOVE_ROW("s16", 32),
    MOVE_ROW("b32", 32),
    MOVE_ROW("u32", 32),
    MOVE_ROW("s32", 32),
    MOVE_ROW("f32", 32),
    MOVE_ROW("b64", 64),
    MOVE_ROW("u64", 64),
    MOVE_ROW("s64", 64),
    MOVE_ROW("f64", 64),
    MOVE_ROW("f16", 32),
    MOVE_ROW("f16x2", 32),
    MOVE_ROW("bf16", 32),
    MOVE_ROW("bf16x2", 32),
    SELECT_ROWS("b16", 32),
    SELECT_ROWS("u16", 32),
    SELECT_ROWS("s16", 32),
    SELECT_ROWS("b32", 32),
    SELECT_ROWS("u32", 32),
    SELECT_ROWS("s32", 32),
    SELECT_ROWS("f32", 32),
    SELECT_ROWS("b64", 64),
    SELECT_ROWS("u64", 64),
    SELECT_ROWS("s64", 64),
    SELECT_ROWS("f64", 64),
    {"mov.pred", move_pred, COUNT_MOVE, PREDS_2},
    {"not.pred", exec_not_pred, COUNT_INT, PREDS_2},
    {"and.pred", and_pred, COUNT_INT, PREDS_3},
    {"or.pred", or_pred, COUNT_INT, PREDS_3},
    {"xor.pred", xor_pred, COUNT_INT, PREDS_3},
};

bool rule_move(const Opcode *o, Rule *out)
{
    /* slct.ftz only flushes the sign's number, whose sign stays */
    static const char *const dropped[] = {"ftz", NULL};
    char key[64];
    if (!strcmp(o->part[0], "nanosleep") && o->n == 2) {
        *out = (Rule){.exec = exec_nop, .count = COUNT_MOVE, .no_dest = true, .takes = {TAKES_32}};
        return true;
    }
    if (!opcode_key(o, dropped, key, sizeof key) ||
        !row_rule(row_find(rows, sizeof rows / sizeof *rows, key), out))
        return false;
    out->size = out->takes[0] == TAKES_LIST_OR_64         ? 8
                : strstr(key, "16") && !strstr(key, "x2") ? 2
                                                          : 4;
    return true;
}
