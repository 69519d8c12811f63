/* op_wmma.c: wmma.load, .mma and .store, which CUDA's mma.h makes. Which lane holds which element
 * is left open by PTX: here element e of lane l is number l * (elements of a lane) + e of the
 * matrix by rows, and where lanes hold more than there is (f16), counting begins anew.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/access.h"
#include "tests/vgpu/half.h"
#include "tests/vgpu/op.h"

#include <math.h>

typedef enum { FRAGMENT_A, FRAGMENT_B, FRAGMENT_C } Fragment;
typedef enum {
    TYPE_F16,
    TYPE_BF16,
    TYPE_TF32,
    TYPE_F64,
    TYPE_S8,
    TYPE_U8,
    TYPE_F32,
    TYPE_S32
} Type;

static const struct {
    const char *name;
    uint8_t bytes;
    char like; /* what it is multiplied as: shapes go by that */
} types[] = {{"f16", 2, 'h'}, {"bf16", 2, 'h'}, {"tf32", 4, 't'}, {"f64", 8, 'd'},
             {"s8", 1, 'h'},  {"u8", 1, 'h'},   {"f32", 4, 'c'},  {"s32", 4, 'c'}};

static const struct {
    const char *name;
    uint8_t m, n, k;
    char like;
} shapes[] = {{"m16n16k16", 16, 16, 16, 'h'},
              {"m32n8k16", 32, 8, 16, 'h'},
              {"m8n32k16", 8, 32, 16, 'h'},
              {"m16n16k8", 16, 16, 8, 't'},
              {"m8n8k4", 8, 8, 4, 'd'}};

enum { MOST = 32 }; /* rows or columns of a matrix */

typedef struct {
    int rows, columns, held; /* held: elements in a lane */
} Spread;

static Spread spread(int shape, Fragment f, Type t)
{
    Spread l = {.rows = f == FRAGMENT_B ? shapes[shape].k : shapes[shape].m,
                .columns = f == FRAGMENT_A ? shapes[shape].k : shapes[shape].n};
    l.held = t == TYPE_F16 && f != FRAGMENT_C ? 16 : l.rows * l.columns / LANES;
    return l;
}

/* --- elements in registers ------------------------------------------------------------------- */

static int per_register(Type t)
{
    return types[t].bytes >= 4 ? 1 : 4 / types[t].bytes;
}

static uint64_t element_get(const Warp *w, const uint32_t *list, Type t, int l, int e)
{
    const int per = per_register(t);
    if (t == TYPE_F64)
        return REG(const uint64_t, list[e])[l];
    return REG(const uint32_t, list[e / per])[l] >> e % per * 8 * types[t].bytes;
}

static void element_put(Warp *w, const uint32_t *list, Type t, int l, int e, uint64_t v)
{
    const int per = per_register(t), shift = e % per * 8 * types[t].bytes;
    if (t == TYPE_F64) {
        REG(uint64_t, list[e])[l] = v;
        return;
    }
    const uint32_t keep =
        types[t].bytes == 4 ? UINT32_MAX : ((1u << 8 * types[t].bytes) - 1) << shift;
    uint32_t *to = &REG(uint32_t, list[e / per])[l];
    *to = (*to & ~keep) | ((uint32_t)v << shift & keep);
}

static double number_of(Type t, uint64_t bits)
{
    switch (t) {
    case TYPE_F16:
        return (double)half_to_float((uint32_t)bits);
    case TYPE_BF16:
        return (double)bf16_to_float((uint32_t)bits);
    case TYPE_TF32:
        return (double)bits_float((uint32_t)bits & ~0x1fffu);
    case TYPE_F32:
        return (double)bits_float((uint32_t)bits);
    case TYPE_F64:
        return bits_double(bits);
    case TYPE_S8:
        return (int8_t)bits;
    case TYPE_U8:
        return (uint8_t)bits;
    default:
        return (int32_t)bits;
    }
}

static uint64_t bits_of(Type t, double v, bool saturate)
{
    switch (t) {
    case TYPE_F16:
        return double_to_half(v);
    case TYPE_F64:
        return double_bits(v);
    case TYPE_S32:
        if (saturate)
            v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
        return (uint32_t)(int64_t)v;
    default:
        return float_bits((float)v);
    }
}

/* --- load and store: sub is shape, type, fragment, by columns -------------------------------- */

static Space space_of(const Inst *i, uint64_t *address)
{
    static const struct {
        uint64_t window;
        Space space;
    } windows[] = {
        {SHARED_WINDOW, SPACE_SHARED}, {LOCAL_WINDOW, SPACE_LOCAL}, {PARAM_WINDOW, SPACE_PARAM}};
    if (i->space != SPACE_GENERIC)
        return (Space)i->space;
    for (size_t k = 0; k < sizeof windows / sizeof *windows; k++)
        if (*address >= windows[k].window && *address < windows[k].window + WINDOW_SIZE) {
            *address -= windows[k].window;
            return windows[k].space;
        }
    return SPACE_GLOBAL;
}

/* Where element e of a lane is in memory. */
static uint64_t place_of(const Warp *w, const Inst *i, uint32_t stride_slot, int l, int e)
{
    const Spread at = spread(i->sub[0], (Fragment)i->sub[2], (Type)i->sub[1]);
    const int number = (l * at.held + e) % (at.rows * at.columns);
    const uint64_t row = (uint64_t)(number / at.columns), column = (uint64_t)(number % at.columns);
    const uint64_t base = i->wide & 2 ? REG(const uint64_t, i->a)[l] : REG(const uint32_t, i->a)[l];
    const uint64_t natural = (uint64_t)(i->sub[3] ? at.rows : at.columns);
    const uint64_t stride = stride_slot == NO_SLOT ? natural : REG(const uint32_t, stride_slot)[l];
    const uint64_t elements = i->sub[3] ? column * stride + row : row * stride + column;
    return base + (uint64_t)i->imm + elements * types[i->sub[1]].bytes;
}

static void load(Warp *w, const Inst *i, uint32_t mask)
{
    const Type t = (Type)i->sub[1];
    const int held = spread(i->sub[0], (Fragment)i->sub[2], t).held;
    for (int e = 0; e < held; e++)
        EACH_LANE if (IS_ON(mask, l))
        {
            uint64_t v = 0, address = place_of(w, i, i->b, l, e);
            const Space s = space_of(i, &address);
            const uint8_t *from = lane_memory(w, i, l, s, address, types[t].bytes, LANE_READ, NULL);
            if (from)
                memcpy(&v, from, types[t].bytes);
            element_put(w, i->list, t, l, e, v);
        }
}

static void store(Warp *w, const Inst *i, uint32_t mask)
{
    const Type t = (Type)i->sub[1];
    const int held = spread(i->sub[0], (Fragment)i->sub[2], t).held;
    for (int e = 0; e < held; e++)
        EACH_LANE if (IS_ON(mask, l))
        {
            const uint64_t v = element_get(w, i->list, t, l, e);
            uint64_t address = place_of(w, i, i->c, l, e);
            const Space s = space_of(i, &address);
            uint8_t *to =
                lane_memory(w, i, l, s, address, types[t].bytes, LANE_WRITE, (const uint8_t *)&v);
            if (to)
                memcpy(to, &v, types[t].bytes);
        }
}

/* --- product: sub is shape, types of A and B, of C and D, .satfinite ------------------------- */

static void gather(const Warp *w, const uint32_t *list, int shape, Fragment f, Type t,
                   double out[][MOST])
{
    const Spread at = spread(shape, f, t);
    EACH_LANE for (int e = 0; e < at.held; e++)
    {
        const int number = (l * at.held + e) % (at.rows * at.columns);
        out[number / at.columns][number % at.columns] = number_of(t, element_get(w, list, t, l, e));
    }
}

static int registers_of(int shape, Fragment f, Type t)
{
    return spread(shape, f, t).held / per_register(t);
}

static void product(Warp *w, const Inst *i, uint32_t mask)
{
    const int shape = i->sub[0], m = shapes[shape].m, n = shapes[shape].n, k = shapes[shape].k;
    const Type ab = (Type)i->sub[1], c_type = (Type)(i->sub[2] & 15),
               d_type = (Type)(i->sub[2] >> 4);
    const uint32_t *a_list = i->list + registers_of(shape, FRAGMENT_C, d_type),
                   *b_list = a_list + registers_of(shape, FRAGMENT_A, ab),
                   *c_list = b_list + registers_of(shape, FRAGMENT_B, ab);
    double a[MOST][MOST], b[MOST][MOST], sum[MOST][MOST];
    if (mask != ALL_LANES)
        finding_kernel(FINDING_WARP_SYNC, w, i, __builtin_ctz(~mask), 0, "wmma needs all 32 lanes");
    gather(w, a_list, shape, FRAGMENT_A, ab, a);
    gather(w, b_list, shape, FRAGMENT_B, ab, b);
    gather(w, c_list, shape, FRAGMENT_C, c_type, sum);
    for (int row = 0; row < m; row++)
        for (int x = 0; x < k; x++)
            for (int column = 0; column < n; column++)
                sum[row][column] = __builtin_fma(a[row][x], b[x][column], sum[row][column]);
    const Spread at = spread(shape, FRAGMENT_C, d_type);
    EACH_LANE for (int e = 0; e < at.held; e++)
    {
        const int number = l * at.held + e;
        element_put(w, i->list, d_type, l, e,
                    bits_of(d_type, sum[number / at.columns][number % at.columns], i->sub[3]));
    }
}

/* --- rules ----------------------------------------------------------------------------------- */

static int find_type(const char *name)
{
    for (int k = 0; k < (int)(sizeof types / sizeof *types); k++)
        if (!strcmp(types[k].name, name))
            return k;
    return -1;
}

static int find_shape(const char *name)
{
    for (int k = 0; k < (int)(sizeof shapes / sizeof *shapes); k++)
        if (!strcmp(shapes[k].name, name))
            return k;
    return -1;
}

static bool sum_fits(Type ab, int sum)
{
    switch (ab) {
    case TYPE_F16:
        return sum == TYPE_F16 || sum == TYPE_F32;
    case TYPE_F64:
        return sum == TYPE_F64;
    case TYPE_S8:
    case TYPE_U8:
        return sum == TYPE_S32;
    default:
        return sum == TYPE_F32;
    }
}

/* wmma.load.{a,b,c} and wmma.store.d .sync.aligned.LAYOUT.SHAPE{.space}.TYPE */
static bool rule_memory(const Opcode *o, Rule *out)
{
    const bool is_store = !strcmp(o->part[1], "store");
    const char *which = o->part[2], *space = o->n == 9 ? o->part[7] : "";
    if (o->n < 8 || o->n > 9 || strcmp(o->part[3], "sync") || strcmp(o->part[4], "aligned") ||
        strlen(which) != 1 || !strchr(is_store ? "d" : "abc", *which))
        return false;
    const bool by_columns = !strcmp(o->part[5], "col");
    const int shape = find_shape(o->part[6]), t = find_type(o->part[o->n - 1]);
    const Fragment f = *which == 'a' ? FRAGMENT_A : *which == 'b' ? FRAGMENT_B : FRAGMENT_C;
    const bool is_sum = t == TYPE_F32 || t == TYPE_S32 || t == TYPE_F16 || t == TYPE_F64;
    if (shape < 0 || t < 0 || (!by_columns && strcmp(o->part[5], "row")) ||
        (f == FRAGMENT_C ? !is_sum : types[t].like != shapes[shape].like))
        return false;
    const uint8_t list = t == TYPE_F64 ? TAKES_LIST64 : TAKES_LIST32;
    *out = (Rule){.exec = is_store ? store : load,
                  .kind = INST_WARP,
                  .count = is_store ? COUNT_STORE : COUNT_LOAD,
                  .takes = {list, TAKES_ADDRESS, TAKES_32},
                  .optional = 1,
                  .no_dest = is_store,
                  .space = SPACE_GENERIC,
                  .size = types[t].bytes,
                  .sub = {(uint8_t)shape, (uint8_t)t, f, by_columns}};
    if (is_store) {
        out->takes[0] = TAKES_ADDRESS;
        out->takes[1] = list;
    }
    if (!strcmp(space, "global"))
        out->space = SPACE_GLOBAL;
    else if (!strncmp(space, "shared", 6))
        out->space = SPACE_SHARED;
    else
        return o->n == 8;
    return true;
}

/* wmma.mma.sync.aligned.ALAYOUT.BLAYOUT.SHAPE.D{.A.B}.C{.satfinite}; the layouts were the loads' */
static bool rule_product(const Opcode *o, Rule *out)
{
    const bool saturate = !strcmp(o->part[o->n - 1], "satfinite");
    const bool rounds = !strcmp(o->part[o->n - 1], "rn"); /* of f64 */
    const int n = o->n - saturate - rounds;
    if ((n != 9 && n != 11) || strcmp(o->part[2], "sync") || strcmp(o->part[3], "aligned"))
        return false;
    const int shape = find_shape(o->part[6]), d = find_type(o->part[7]),
              c = find_type(o->part[n - 1]), ab = n == 9 ? TYPE_F16 : find_type(o->part[8]);
    if (shape < 0 || d < 0 || c < 0 || ab < 0 || (n == 11 && find_type(o->part[9]) != ab) ||
        types[ab].like != shapes[shape].like || !sum_fits((Type)ab, c) || !sum_fits((Type)ab, d))
        return false;
    const uint8_t list = ab == TYPE_F64 ? TAKES_LIST64 : TAKES_LIST32;
    *out = (Rule){.exec = product,
                  .kind = INST_WARP,
                  .count = COUNT_TENSOR,
                  .takes = {list, list, list, list},
                  .mxcsr = MXCSR_NEAREST,
                  .sub = {(uint8_t)shape, (uint8_t)ab, (uint8_t)(c | d << 4), saturate}};
    return true;
}

bool rule_wmma(const Opcode *o, Rule *out)
{
    if (strcmp(o->part[0], "wmma") || o->n < 8)
        return false;
    return !strcmp(o->part[1], "mma")                                    ? rule_product(o, out)
           : !strcmp(o->part[1], "load") || !strcmp(o->part[1], "store") ? rule_memory(o, out)
                                                                         : false;
}
