/* op_mma.c: mma.sync, the product of small matrices that lie spread over a warp's registers.
 * Products are exact and summed in double, rounded once: the hardware's order of summation is
 * nowhere defined. SPDX-License-Identifier: MIT */
#include "tests/vgpu/convert.h"
#include "tests/vgpu/half.h"

#include <math.h>

enum { MAX_M = 16, N = 8, MAX_K = 64 };

typedef enum {
    ELEMENT_F16,
    ELEMENT_BF16,
    ELEMENT_TF32,
    ELEMENT_F64,
    ELEMENT_S8,
    ELEMENT_U8,
    ELEMENT_S4,
    ELEMENT_U4,
    ELEMENT_E4M3,
    ELEMENT_E5M2
} Element;
typedef enum { SUM_F32, SUM_F16, SUM_F64, SUM_S32 } Sum;

static const struct {
    const char *name;
    uint8_t bits;
} elements[] = {
    [ELEMENT_F16] = {"f16", 16}, [ELEMENT_BF16] = {"bf16", 16}, [ELEMENT_TF32] = {"tf32", 32},
    [ELEMENT_F64] = {"f64", 64}, [ELEMENT_S8] = {"s8", 8},      [ELEMENT_U8] = {"u8", 8},
    [ELEMENT_S4] = {"s4", 4},    [ELEMENT_U4] = {"u4", 4},      [ELEMENT_E4M3] = {"e4m3", 8},
    [ELEMENT_E5M2] = {"e5m2", 8}};
static const char *const sums[] = {
    [SUM_F32] = "f32", [SUM_F16] = "f16", [SUM_F64] = "f64", [SUM_S32] = "s32"};

static double small_float(const Format *f, uint32_t bits)
{
    return (double)format_value(f, bits & 255);
}

static inline double element(Element e, uint32_t bits)
{
    switch (e) {
    case ELEMENT_F16:
        return (double)half_to_float(bits);
    case ELEMENT_BF16:
        return (double)bf16_to_float(bits);
    case ELEMENT_TF32: /* the hardware does not look at the last 13 bits */
        return (double)bits_float(bits & ~0x1fffu);
    case ELEMENT_S8:
        return (int8_t)bits;
    case ELEMENT_U8:
        return (uint8_t)bits;
    case ELEMENT_S4:
        return (int8_t)(bits << 4) >> 4;
    case ELEMENT_U4:
        return bits & 15;
    case ELEMENT_E4M3:
        return small_float(&format_e4m3, bits);
    default:
        return small_float(&format_e5m2, bits);
    }
}

/* Where the elements of a register are: of A and B a lane holds neighbours along k, 4 lanes make a
 * block, and the next register the rows 8 below, then the next block. */
static void gather(const Warp *w, const uint32_t *list, int n, bool two_rows, Element e,
                   double out[][MAX_K])
{
    const int bits = elements[e].bits, per = bits == 64 ? 1 : 32 / bits;
    for (int r = 0; r < n; r++) {
        const int row = two_rows ? 8 * (r & 1) : 0, block = (two_rows ? r >> 1 : r) * 4 * per;
        EACH_LANE
        {
            double *to = &out[row + l / 4][block + l % 4 * per];
            if (e == ELEMENT_F64) {
                *to = REG(const double, list[r])[l];
                continue;
            }
            const uint32_t v = REG(const uint32_t, list[r])[l];
            for (int k = 0; k < per; k++)
                to[k] = element(e, v >> (k * bits % 32));
        }
    }
}

static void gather_sum(const Warp *w, const uint32_t *list, int n, Sum s, double out[][N])
{
    for (int r = 0; r < n; r++)
        EACH_LANE
        {
            const int column = l % 4 * 2;
            if (s == SUM_F16) {
                const uint32_t v = REG(const uint32_t, list[r])[l];
                out[8 * r + l / 4][column] = (double)half_to_float(v);
                out[8 * r + l / 4][column + 1] = (double)half_to_float(v >> 16);
                continue;
            }
            out[8 * (r >> 1) + l / 4][column + (r & 1)] =
                s == SUM_F64   ? REG(const double, list[r])[l]
                : s == SUM_F32 ? (double)REG(const float, list[r])[l]
                               : (double)REG(const int32_t, list[r])[l];
        }
}

/* Integers wrap, or stop at the ends. */
static int32_t to_s32(double v, bool saturate)
{
    if (saturate)
        return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
    return (int32_t)(uint32_t)(int64_t)v;
}

static void scatter_sum(Warp *w, const uint32_t *list, int n, Sum s, bool saturate,
                        double from[][N])
{
    for (int r = 0; r < n; r++)
        EACH_LANE
        {
            const double *two = &from[8 * r + l / 4][l % 4 * 2];
            if (s == SUM_F16) {
                REG(uint32_t, list[r])
                [l] = double_to_half(two[0]) | double_to_half(two[1]) << 16;
                continue;
            }
            const double v = from[8 * (r >> 1) + l / 4][l % 4 * 2 + (r & 1)];
            if (s == SUM_F64)
                REG(double, list[r])[l] = v;
            else if (s == SUM_F32)
                REG(float, list[r])[l] = (float)v;
            else
                REG(int32_t, list[r])[l] = to_s32(v, saturate);
        }
}

/* Of f64 each product is fused with its sum, as dmma does. */
static void multiply(double a[][MAX_K], double b[][MAX_K], double sum[][N], int m, int k)
{
    double columns[MAX_K][N];
    for (int x = 0; x < k; x++)
        for (int n = 0; n < N; n++)
            columns[x][n] = b[n][x];
    for (int row = 0; row < m; row++)
        for (int x = 0; x < k; x++)
            for (int n = 0; n < N; n++)
                sum[row][n] = __builtin_fma(a[row][x], columns[x][n], sum[row][n]);
}

/* sub: k, types of A and B, type of the sum, rows; flag of .satfinite in the rows' upper bit. */
static void mma(Warp *w, const Inst *i, uint32_t mask)
{
    const Element a_type = (Element)(i->sub[1] & 15), b_type = (Element)(i->sub[1] >> 4);
    const Sum s = (Sum)i->sub[2];
    const int k = i->sub[0], m = i->sub[3] & 31,
              per = elements[a_type].bits == 64 ? 1 : 32 / elements[a_type].bits;
    const int na = k / (4 * per) * (m / 8), nb = k / (4 * per), nc = s == SUM_F16 ? m / 8 : m / 4;
    double a[MAX_M][MAX_K], b[N][MAX_K], sum[MAX_M][N];
    if (mask != ALL_LANES)
        finding_kernel(FINDING_WARP_SYNC, w, i, __builtin_ctz(~mask), 0, "mma needs all 32 lanes");
    gather(w, i->list + nc, na, m == 16, a_type, a);
    gather(w, i->list + nc + na, nb, false, b_type, b);
    gather_sum(w, i->list + nc + na + nb, nc, s, sum);
    multiply(a, b, sum, m, k);
    scatter_sum(w, i->list, nc, s, i->sub[3] & 128, sum);
}

/* --- the rule
 * ------------------------------------------------------------------------------------------- */

static int find(const char *name, bool sum)
{
    for (int k = 0; sum && k < (int)(sizeof sums / sizeof *sums); k++)
        if (!strcmp(sums[k], name))
            return k;
    for (int k = 0; !sum && k < (int)(sizeof elements / sizeof *elements); k++)
        if (!strcmp(elements[k].name, name))
            return k;
    return -1;
}

/* Which shapes there are of which types; what is not here does not load. */
static const struct {
    const char *shape;
    uint8_t m, k, bits; /* of an element */
} shapes[] = {{"m16n8k4", 16, 4, 32},   {"m16n8k8", 16, 8, 32},  {"m16n8k8", 16, 8, 16},
              {"m16n8k16", 16, 16, 16}, {"m8n8k16", 8, 16, 8},   {"m16n8k16", 16, 16, 8},
              {"m16n8k32", 16, 32, 8},  {"m8n8k32", 8, 32, 4},   {"m16n8k32", 16, 32, 4},
              {"m16n8k64", 16, 64, 4},  {"m8n8k4", 8, 4, 64},    {"m16n8k4", 16, 4, 64},
              {"m16n8k8", 16, 8, 64},   {"m16n8k16", 16, 16, 64}};

static bool sum_fits(Element a, Sum s)
{
    switch (a) {
    case ELEMENT_F64:
        return s == SUM_F64;
    case ELEMENT_F16:
    case ELEMENT_E4M3:
    case ELEMENT_E5M2:
        return s == SUM_F32 || s == SUM_F16;
    case ELEMENT_BF16:
    case ELEMENT_TF32:
        return s == SUM_F32;
    default:
        return s == SUM_S32;
    }
}

/* mma.sync.aligned.SHAPE.row.col[.kind::..][.satfinite].D.A.B.C */
bool rule_mma(const Opcode *o, Rule *out)
{
    const int n = o->n;
    if (strcmp(o->part[0], "mma") || n < 10 || n > 11 || strcmp(o->part[1], "sync") ||
        strcmp(o->part[2], "aligned") || strcmp(o->part[4], "row") || strcmp(o->part[5], "col") ||
        (n == 11 && strcmp(o->part[6], "satfinite") && strcmp(o->part[6], "kind::f8f6f4")))
        return false;
    const int d = find(o->part[n - 4], true), a = find(o->part[n - 3], false),
              b = find(o->part[n - 2], false), c = find(o->part[n - 1], true);
    if (d < 0 || a < 0 || b < 0 || c != d || elements[a].bits != elements[b].bits ||
        !sum_fits((Element)a, (Sum)d) || !sum_fits((Element)b, (Sum)d) ||
        (a != b && elements[a].bits > 8))
        return false;
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        if (strcmp(shapes[k].shape, o->part[3]) || shapes[k].bits != elements[a].bits)
            continue;
        const uint8_t list = a == ELEMENT_F64 ? TAKES_LIST64 : TAKES_LIST32;
        *out = (Rule){.exec = mma,
                      .kind = INST_WARP,
                      .count = COUNT_TENSOR,
                      .takes = {list, list, list, list},
                      .mxcsr = MXCSR_NEAREST,
                      .sub = {shapes[k].k, (uint8_t)(a | b << 4), (uint8_t)d, shapes[k].m}};
        if (!strcmp(o->part[6], "satfinite"))
            out->sub[3] |= 128;
        return true;
    }
    return false;
}
