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

/* --- elements -------------------------------------------------------------------------------- */

/* Element k of every lane's register as double; each type has a loop of its own. */
#define WIDEN(value)                                                                               \
    EACH_LANE                                                                                      \
    {                                                                                              \
        const uint32_t v = from[l] >> shift;                                                       \
        out[l] = (double)(value);                                                                  \
    }                                                                                              \
    break

static void widen(const uint32_t *from, Element e, int shift, double *restrict out)
{
    switch (e) {
    case ELEMENT_F16:
        WIDEN(half_to_float(v));
    case ELEMENT_BF16:
        WIDEN(bf16_to_float(v));
    case ELEMENT_TF32: /* the hardware does not look at the last 13 bits */
        WIDEN(bits_float(v & ~0x1fffu));
    case ELEMENT_S8:
        WIDEN((int8_t)v);
    case ELEMENT_U8:
        WIDEN((uint8_t)v);
    case ELEMENT_S4:
        WIDEN((int32_t)(v << 28) >> 28);
    case ELEMENT_U4:
        WIDEN(v & 15);
    case ELEMENT_E4M3:
        WIDEN(format_value(&format_e4m3, v & 255));
    default:
        WIDEN(format_value(&format_e5m2, v & 255));
    }
}

/* Where the elements of a register are: of A and B a lane holds neighbours along k, 4 lanes make a
 * block, and the next register has the rows 8 below, then the next block. */
static void gather_a(const Warp *w, const uint32_t *list, int n, int m, Element e,
                     double out[][MAX_K])
{
    const int bits = elements[e].bits, per = bits == 64 ? 1 : 32 / bits, rows = m / 8;
    for (int r = 0; r < n; r++)
        for (int k = 0; k < per; k++) {
            double lanes[LANES], *to = &out[r % rows * 8][r / rows * 4 * per + k];
            if (e == ELEMENT_F64)
                memcpy(lanes, w->regs + list[r], sizeof lanes);
            else
                widen(REG(const uint32_t, list[r]), e, k * bits, lanes);
            for (int row = 0; row < 8; row++)
                for (int l = 0; l < 4; l++)
                    to[row * MAX_K + l * per] = lanes[row * 4 + l];
        }
}

/* B stands with its columns as rows of N: what the product reads in one go. */
static void gather_b(const Warp *w, const uint32_t *list, int n, Element e, double out[][N])
{
    const int bits = elements[e].bits, per = bits == 64 ? 1 : 32 / bits;
    for (int r = 0; r < n; r++)
        for (int k = 0; k < per; k++) {
            double lanes[LANES];
            if (e == ELEMENT_F64)
                memcpy(lanes, w->regs + list[r], sizeof lanes);
            else
                widen(REG(const uint32_t, list[r]), e, k * bits, lanes);
            for (int l = 0; l < 4; l++)
                for (int column = 0; column < N; column++)
                    out[(r * 4 + l) * per + k][column] = lanes[column * 4 + l];
        }
}

/* Of a sum a lane holds two neighbours in a row; of f16 in one register. */
static void gather_sum(const Warp *w, const uint32_t *list, int n, Sum s, double out[][N])
{
    for (int r = 0; r < n; r++) {
        double *to = s == SUM_F16 ? out[8 * r] : &out[8 * (r >> 1)][r & 1];
        switch (s) {
        case SUM_F16:
            EACH_LANE to[2 * l] = (double)half_to_float(REG(const uint32_t, list[r])[l]);
            EACH_LANE to[2 * l + 1] = (double)half_to_float(REG(const uint32_t, list[r])[l] >> 16);
            break;
        case SUM_F64:
            EACH_LANE to[2 * l] = REG(const double, list[r])[l];
            break;
        case SUM_F32:
            EACH_LANE to[2 * l] = (double)REG(const float, list[r])[l];
            break;
        case SUM_S32:
            EACH_LANE to[2 * l] = REG(const int32_t, list[r])[l];
            break;
        }
    }
}

/* Integers wrap, or stop at the ends. */
static int32_t to_s32(double v, bool saturate)
{
    if (saturate)
        return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
    return (int32_t)(uint32_t)(int64_t)v;
}

static void scatter_sum(Warp *w, const uint32_t *list, int n, Sum s, bool saturate, double sum[][N])
{
    for (int r = 0; r < n; r++) {
        const double *from = s == SUM_F16 ? sum[8 * r] : &sum[8 * (r >> 1)][r & 1];
        switch (s) {
        case SUM_F16:
            EACH_LANE REG(uint32_t, list[r])[l] =
                double_to_half(from[2 * l]) | double_to_half(from[2 * l + 1]) << 16;
            break;
        case SUM_F64:
            EACH_LANE REG(double, list[r])[l] = from[2 * l];
            break;
        case SUM_F32:
            EACH_LANE REG(float, list[r])[l] = (float)from[2 * l];
            break;
        case SUM_S32:
            EACH_LANE REG(int32_t, list[r])[l] = to_s32(from[2 * l], saturate);
            break;
        }
    }
}

typedef double Eight __attribute__((vector_size(N * sizeof(double))));

/* Products are exact in double, but for those of f64: these are fused with their sum, as dmma's
 * are. */
static void multiply(double a[][MAX_K], double b[][N], double sum[][N], int m, int k)
{
    for (int row = 0; row < m; row += 4) {
        Eight s[4], column;
        memcpy(s, sum[row], sizeof s);
        for (int x = 0; x < k; x++) {
            memcpy(&column, b[x], sizeof column);
            s[0] += a[row][x] * column;
            s[1] += a[row + 1][x] * column;
            s[2] += a[row + 2][x] * column;
            s[3] += a[row + 3][x] * column;
        }
        memcpy(sum[row], s, sizeof s);
    }
}

static void multiply_fused(double a[][MAX_K], double b[][N], double sum[][N], int m, int k)
{
    for (int row = 0; row < m; row++)
        for (int x = 0; x < k; x++)
            for (int n = 0; n < N; n++)
                sum[row][n] = __builtin_fma(a[row][x], b[x][n], sum[row][n]);
}

/* sub: k, types of A and B, type of the sum, rows; flag of .satfinite in the rows' upper bit. */
static void mma(Warp *w, const Inst *i, uint32_t mask)
{
    const Element a_type = (Element)(i->sub[1] & 15), b_type = (Element)(i->sub[1] >> 4);
    const Sum s = (Sum)i->sub[2];
    const int k = i->sub[0], m = i->sub[3] & 31,
              per = elements[a_type].bits == 64 ? 1 : 32 / elements[a_type].bits;
    const int na = k / (4 * per) * (m / 8), nb = k / (4 * per), nc = s == SUM_F16 ? m / 8 : m / 4;
    double a[MAX_M][MAX_K], b[MAX_K][N], sum[MAX_M][N];
    if (mask != ALL_LANES)
        finding_kernel(FINDING_WARP_SYNC, w, i, __builtin_ctz(~mask), 0, "mma needs all 32 lanes");
    gather_a(w, i->list + nc, na, m, a_type, a);
    gather_b(w, i->list + nc + na, nb, b_type, b);
    gather_sum(w, i->list + nc + na + nb, nc, s, sum);
    (a_type == ELEMENT_F64 ? multiply_fused : multiply)(a, b, sum, m, k);
    scatter_sum(w, i->list, nc, s, i->sub[3] & 128, sum);
}

/* --- the rule -------------------------------------------------------------------------------- */

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
