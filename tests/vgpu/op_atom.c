/* op_atom.c: atom and red, on device and shared memory. Blocks of launches with atomics on device
 * memory run one after another (grid.c), so that sums of floats come out the same each time; the
 * operations are atomic nevertheless, since the host may look at pinned memory meanwhile.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/access.h"
#include "tests/vgpu/half.h"
#include "tests/vgpu/op.h"

enum {
    ATOM_ADD,
    ATOM_MIN,
    ATOM_MAX,
    ATOM_AND,
    ATOM_OR,
    ATOM_XOR,
    ATOM_EXCH,
    ATOM_CAS,
    ATOM_INC,
    ATOM_DEC
};
enum { TYPE_UNSIGNED, TYPE_SIGNED, TYPE_FLOAT, TYPE_HALF, TYPE_HALF2, TYPE_BF16, TYPE_BF16X2 };

static uint64_t pairs(uint32_t type, uint64_t x, uint64_t y)
{
    bool half = type == TYPE_HALF || type == TYPE_HALF2;
    uint32_t sum = 0;
    for (uint32_t shift = 0; shift < 32; shift += 16) {
        uint32_t p = (uint32_t)(x >> shift) & 0xffff, q = (uint32_t)(y >> shift) & 0xffff;
        uint32_t r = half ? float_to_half(half_to_float(p) + half_to_float(q))
                          : float_to_bf16(bf16_to_float(p) + bf16_to_float(q));
        sum |= (r & 0xffff) << shift;
    }
    return sum;
}

static uint64_t add(const Inst *i, uint64_t x, uint64_t y)
{
    if (i->sub[3] == TYPE_FLOAT)
        return i->size == 4 ? float_bits(bits_float((uint32_t)x) + bits_float((uint32_t)y))
                            : double_bits(bits_double(x) + bits_double(y));
    return i->sub[3] > TYPE_FLOAT ? pairs(i->sub[3], x, y) : x + y;
}

static bool less(const Inst *i, uint64_t x, uint64_t y)
{
    if (i->sub[3] != TYPE_SIGNED)
        return x < y;
    return i->size == 4 ? (int32_t)x < (int32_t)y : (int64_t)x < (int64_t)y;
}

/** What stands in memory afterwards. */
static uint64_t modified(const Inst *i, uint64_t old, uint64_t b, uint64_t c)
{
    switch (i->sub[0]) {
    case ATOM_ADD:
        return add(i, old, b);
    case ATOM_MIN:
        return less(i, b, old) ? b : old;
    case ATOM_MAX:
        return less(i, old, b) ? b : old;
    case ATOM_AND:
        return old & b;
    case ATOM_OR:
        return old | b;
    case ATOM_XOR:
        return old ^ b;
    case ATOM_EXCH:
        return b;
    case ATOM_CAS:
        return old == b ? c : old;
    case ATOM_INC:
        return old >= b ? 0 : old + 1;
    default:
        return !old || old > b ? b : old - 1;
    }
}

#define MODIFY(T)                                                                                  \
    static uint64_t modify_##T(const Inst *i, T *at, uint64_t b, uint64_t c)                       \
    {                                                                                              \
        T old = __atomic_load_n(at, __ATOMIC_RELAXED);                                             \
        while (!__atomic_compare_exchange_n(at, &old, (T)modified(i, old, (T)b, (T)c), true,       \
                                            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {                 \
        }                                                                                          \
        return old;                                                                                \
    }
MODIFY(uint16_t)
MODIFY(uint32_t)
MODIFY(uint64_t)

static uint64_t operand(const Warp *w, const Inst *i, uint32_t slot, int l)
{
    if (slot == NO_SLOT)
        return 0;
    return i->size == 8 ? REG(const uint64_t, slot)[l] : REG(const uint32_t, slot)[l];
}

static void atomic_lane(Warp *w, const Inst *i, int l, uint8_t *at)
{
    uint64_t b = operand(w, i, i->b, l), c = operand(w, i, i->c, l);
    uint64_t old = i->size == 8   ? modify_uint64_t(i, (uint64_t *)(void *)at, b, c)
                   : i->size == 4 ? modify_uint32_t(i, (uint32_t *)(void *)at, b, c)
                                  : modify_uint16_t(i, (uint16_t *)(void *)at, b, c);
    if (i->d == NO_SLOT)
        return;
    if (i->size == 8)
        REG(uint64_t, i->d)[l] = old;
    else
        REG(uint32_t, i->d)[l] = (uint32_t)old;
}

static void atomic_lanes(Warp *w, const Inst *i, uint32_t mask, Space space, const uint64_t *at)
{
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        uint8_t *to = lane_memory(w, i, l, space, at[l], i->size, LANE_ATOMIC, NULL);
        if (to)
            atomic_lane(w, i, l, to);
    }
}

static void exec_atom(Warp *w, const Inst *i, uint32_t mask)
{
    Request r;
    request_make(&r, w, i, mask, i->size);
    w->block->counters->atomics++;
    while (i->space == SPACE_GENERIC && mask) {
        Space space;
        uint32_t lanes = request_space(&r, mask, &space);
        atomic_lanes(w, i, lanes, space, r.at);
        mask &= ~lanes;
    }
    Alloc *a = mask && i->space == SPACE_GLOBAL ? request_alloc(&r, w, i) : NULL;
    for (; a && mask; mask &= mask - 1) {
        int l = __builtin_ctz(mask);
        uint8_t *to = lane_atomic(w, i, l, a, r.at[l], i->size);
        if (to)
            atomic_lane(w, i, l, to);
    }
    if (mask)
        atomic_lanes(w, i, mask, (Space)i->space, r.at);
}

/* --- opcodes
 * ---------------------------------------------------------------------------------------- */

static bool type_of(const char *text, Rule *out)
{
    static const struct {
        const char *text;
        uint8_t size, type;
    } types[] = {{"u32", 4, TYPE_UNSIGNED}, {"u64", 8, TYPE_UNSIGNED}, {"b32", 4, TYPE_UNSIGNED},
                 {"b64", 8, TYPE_UNSIGNED}, {"b16", 2, TYPE_UNSIGNED}, {"s32", 4, TYPE_SIGNED},
                 {"s64", 8, TYPE_SIGNED},   {"f32", 4, TYPE_FLOAT},    {"f64", 8, TYPE_FLOAT},
                 {"f16", 2, TYPE_HALF},     {"f16x2", 4, TYPE_HALF2},  {"bf16", 2, TYPE_BF16},
                 {"bf16x2", 4, TYPE_BF16X2}};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        if (!strcmp(text, types[k].text)) {
            out->size = types[k].size;
            out->sub[3] = types[k].type;
            return true;
        }
    }
    return false;
}

static bool operation(const char *text, Rule *out)
{
    static const char *const names[] = {"add", "min",  "max", "and", "or",
                                        "xor", "exch", "cas", "inc", "dec"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        if (!strcmp(text, names[k])) {
            out->sub[0] = (uint8_t)k;
            return true;
        }
    }
    return false;
}

/* .sem, .scope and .noftz say nothing here beyond release; order of blocks is blocks.c's. */
static bool qualifier(const char *text, Rule *out)
{
    static const char *const known[] = {"relaxed", "acquire", "release", "acq_rel", "cta",
                                        "gpu",     "sys",     "cluster", "noftz"};
    if (!strcmp(text, "global") || !strcmp(text, "shared") || !strcmp(text, "shared::cta")) {
        out->space = text[0] == 'g' ? SPACE_GLOBAL : SPACE_SHARED;
        return true;
    }
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        if (!strcmp(text, known[k])) {
            out->sub[2] |= !strcmp(text, "release") || !strcmp(text, "acq_rel");
            return true;
        }
    }
    return false;
}

bool rule_atom(const Opcode *o, Rule *out)
{
    bool result = !strcmp(o->part[0], "atom"), found = false;
    if ((!result && strcmp(o->part[0], "red")) || o->n < 3 || !type_of(o->part[o->n - 1], out))
        return false;
    out->space = SPACE_GENERIC;
    for (int k = 1; k < o->n - 1; k++) {
        bool is_operation = !found && operation(o->part[k], out);
        found |= is_operation;
        if (!is_operation && !qualifier(o->part[k], out))
            return false;
    }
    bool adds = out->sub[0] == ATOM_ADD, cas = out->sub[0] == ATOM_CAS;
    bool floats = out->sub[3] >= TYPE_FLOAT;
    if (!found || (floats && !adds) || (out->size == 2 && !floats && !cas))
        return false;
    uint8_t value = out->size == 8 ? TAKES_64 : TAKES_32;
    uint8_t all[] = {value, TAKES_ADDRESS, value, cas ? value : TAKES_NONE};
    for (int k = 0; k < 4 - !result; k++)
        out->takes[k] = all[k + !result];
    out->no_dest = !result;
    out->exec = exec_atom;
    out->count = COUNT_ATOMIC;
    out->mxcsr = floats ? MXCSR_NEAREST : 0;
    return true;
}
