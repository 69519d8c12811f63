/* test_ops_int.c: integers, bits, moves and predicates. SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_ops.h"

#include <stdlib.h>

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 Uwide;

#define S(v)       ((int32_t)(uint32_t)(v))
#define U(v)       ((uint32_t)(v))
#define SH(v)      ((int16_t)(v))
#define UH(v)      ((uint32_t)(uint16_t)(v))
#define SL(v)      ((int64_t)(v))
#define MIN_(a, b) ((a) < (b) ? (a) : (b))
#define MAX_(a, b) ((a) > (b) ? (a) : (b))

static int64_t clamp32(int64_t v)
{
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
}

static void adds(void **state)
{
    (void)state;
    CHECK("add.s32", "iii", x + y);
    CHECK("add.u32", "iii", x + y);
    CHECK("add.s64", "lll", x + y);
    CHECK("add.u64", "lll", x + y);
    CHECK("add.s16", "kkk", x + y);
    CHECK("add.u16", "kkk", x + y);
    CHECK("add.sat.s32", "iii", clamp32((int64_t)S(x) + S(y)));
    CHECK("add.u16x2", "www", UH(x + y) | UH((x >> 16) + (y >> 16)) << 16);
    CHECK("sub.s32", "iii", x - y);
    CHECK("sub.u64", "lll", x - y);
    CHECK("sub.s16", "kkk", x - y);
    CHECK("sub.sat.s32", "iii", clamp32((int64_t)S(x) - S(y)));
    CHECK("neg.s32", "ii", 0 - x);
    CHECK("neg.s64", "ll", 0 - x);
    CHECK("neg.s16", "kk", 0 - x);
    CHECK("abs.s32", "ii", S(x) < 0 ? 0 - x : x);
    CHECK("abs.s64", "ll", SL(x) < 0 ? 0 - x : x);
    CHECK("abs.s16", "kk", SH(x) < 0 ? 0 - x : x);
    CHECK("sad.u32", "iiii", (U(x) > U(y) ? x - y : y - x) + z);
    CHECK("sad.s32", "iiii", (S(x) > S(y) ? x - y : y - x) + z);
    CHECK("sad.s16", "kkkk", (SH(x) > SH(y) ? x - y : y - x) + z);
    CHECK("sad.u64", "llll", (x > y ? x - y : y - x) + z);
}

static void products(void **state)
{
    (void)state;
    CHECK("mul.lo.s32", "iii", x * y);
    CHECK("mul.lo.u16", "kkk", x * y);
    CHECK("mul.lo.s64", "lll", x * y);
    CHECK("mul.hi.s32", "iii", (int64_t)S(x) * S(y) >> 32);
    CHECK("mul.hi.u32", "iii", x * y >> 32);
    CHECK("mul.hi.s64", "lll", (Uwide)((Wide)SL(x) * SL(y)) >> 64);
    CHECK("mul.hi.u64", "lll", (Uwide)x * y >> 64);
    CHECK("mul.hi.s16", "kkk", SH(x) * SH(y) >> 16);
    CHECK("mul.hi.u16", "kkk", (uint32_t)UH(x) * UH(y) >> 16);
    CHECK("mul.wide.s16", "ikk", SH(x) * SH(y));
    CHECK("mul.wide.u16", "ikk", (uint32_t)UH(x) * UH(y));
    CHECK("mul.wide.s32", "lii", (int64_t)S(x) * S(y));
    CHECK("mul.wide.u32", "lii", x * y);
    CHECK("mul24.lo.s32", "iii", (S(U(x) << 8) >> 8) * (int64_t)(S(U(y) << 8) >> 8));
    CHECK("mul24.lo.u32", "iii", (x & 0xffffff) * (y & 0xffffff));
    CHECK("mul24.hi.u32", "iii", (x & 0xffffff) * (y & 0xffffff) >> 16);
    CHECK("mad.lo.s32", "iiii", x * y + z);
    CHECK("mad.lo.u64", "llll", x * y + z);
    CHECK("mad.lo.s16", "kkkk", x * y + z);
    CHECK("mad.hi.u32", "iiii", (x * y >> 32) + z);
    CHECK("mad.hi.s32", "iiii", (uint64_t)((int64_t)S(x) * S(y) >> 32) + z);
    CHECK("mad.hi.sat.s32", "iiii", clamp32(((int64_t)S(x) * S(y) >> 32) + S(z)));
    CHECK("mad.hi.u64", "llll", (uint64_t)((Uwide)x * y >> 64) + z);
    CHECK("mad.wide.s32", "liil", (uint64_t)((int64_t)S(x) * S(y)) + z);
    CHECK("mad.wide.u32", "liil", x * y + z);
    CHECK("mad.wide.u16", "ikki", (uint64_t)UH(x) * UH(y) + z);
    CHECK("mad24.lo.u32", "iiii", (x & 0xffffff) * (y & 0xffffff) + z);
}

static void divisions(void **state)
{
    (void)state;
    /* by zero: all ones, and the dividend as remainder; the quotient that overflows wraps */
    CHECK("div.u32", "iii", y ? x / y : UINT32_MAX);
    CHECK("rem.u32", "iii", y ? x % y : x);
    CHECK("div.s32", "iii", y ? (int64_t)S(x) / S(y) : -1);
    CHECK("rem.s32", "iii", y ? (int64_t)S(x) % S(y) : S(x));
    CHECK("div.u64", "lll", y ? x / y : UINT64_MAX);
    CHECK("rem.u64", "lll", y ? x % y : x);
    CHECK("div.s64", "lll", y ? (Wide)SL(x) / SL(y) : -1);
    CHECK("rem.s64", "lll", y ? (Wide)SL(x) % SL(y) : SL(x));
    CHECK("div.s16", "kkk", UH(y) ? SH(x) / SH(y) : -1);
    CHECK("rem.s16", "kkk", UH(y) ? SH(x) % SH(y) : SH(x));
    CHECK("div.u16", "kkk", UH(y) ? UH(x) / UH(y) : 0xffff);
    CHECK("rem.u16", "kkk", UH(y) ? UH(x) % UH(y) : UH(x));
}

/* Quotients just below and at integers, over the whole range: what the division through doubles has
 * to get right. */
static void near_quotients(void **state)
{
    (void)state;
    Case c, s;
    uint64_t seed = 88172645463325252u;
    case_open(&c, "div.u64", "lll", "");
    case_open(&s, "div.u32", "iii", "");
    for (int round = 0; round < 2000; round++) {
        uint64_t q[LANES], d[LANES], n[LANES];
        for (int l = 0; l < LANES; l++) {
            uint64_t bits = random_next(&seed);
            d[l] = random_next(&seed) >> (12 + bits % 52) | 1;
            q[l] = ((1ull << 52) - 1) / d[l];
            q[l] -= q[l] ? bits >> 32 & 1 & q[l] : 0;
            n[l] = q[l] * d[l] - (bits >> 40 & 1 && q[l]);
            memcpy(c.w.regs + c.i->a + 8 * l, &n[l], 8);
            memcpy(c.w.regs + c.i->b + 8 * l, &d[l], 8);
            memcpy(s.w.regs + s.i->a + 4 * l, &n[l], 4);
            memcpy(s.w.regs + s.i->b + 4 * l, &d[l], 4);
        }
        c.i->exec(&c.w, c.i, ALL_LANES);
        s.i->exec(&s.w, s.i, ALL_LANES);
        for (int l = 0; l < LANES; l++) {
            uint64_t got;
            uint32_t small;
            memcpy(&got, c.w.regs + c.i->d + 8 * l, 8);
            memcpy(&small, s.w.regs + s.i->d + 4 * l, 4);
            assert_int_equal(got, n[l] / d[l]);
            if ((uint32_t)d[l])
                assert_int_equal(small, (uint32_t)n[l] / (uint32_t)d[l]);
        }
    }
    case_close(&c);
    case_close(&s);
}

static void extremes(void **state)
{
    (void)state;
    CHECK("min.s32", "iii", MIN_(S(x), S(y)));
    CHECK("max.s32", "iii", MAX_(S(x), S(y)));
    CHECK("min.u32", "iii", MIN_(x, y));
    CHECK("max.u32", "iii", MAX_(x, y));
    CHECK("min.s64", "lll", MIN_(SL(x), SL(y)));
    CHECK("max.u64", "lll", MAX_(x, y));
    CHECK("min.s16", "kkk", MIN_(SH(x), SH(y)));
    CHECK("max.u16", "kkk", MAX_(UH(x), UH(y)));
    CHECK("max.relu.s32", "iii", MAX_(MAX_(S(x), S(y)), 0));
    CHECK("min.s16x2", "www",
          UH(MIN_(SH(x), SH(y))) | (uint32_t)UH(MIN_(SH(x >> 16), SH(y >> 16))) << 16);
    CHECK("max.u16x2", "www", MAX_(UH(x), UH(y)) | (uint32_t)MAX_(UH(x >> 16), UH(y >> 16)) << 16);
}

static void bits(void **state)
{
    (void)state;
    CHECK("and.b32", "iii", x & y);
    CHECK("or.b64", "lll", x | y);
    CHECK("xor.b16", "kkk", x ^ y);
    CHECK("not.b32", "ii", ~x);
    CHECK("not.b64", "ll", ~x);
    CHECK("cnot.b32", "ii", x == 0);
    CHECK("cnot.b16", "kk", UH(x) == 0);
    CHECK("shl.b32", "iis", y < 32 ? x << y : 0);
    CHECK("shl.b64", "lls", y < 64 ? x << y : 0);
    CHECK("shl.b16", "kks", y < 16 ? x << y : 0);
    CHECK("shr.u32", "iis", y < 32 ? x >> y : 0);
    CHECK("shr.b64", "lls", y < 64 ? x >> y : 0);
    CHECK("shr.u16", "kks", y < 16 ? (uint64_t)UH(x) >> y : 0);
    CHECK("shr.s32", "iis", S(x) >> MIN_(y, 31));
    CHECK("shr.s64", "lls", SL(x) >> MIN_(y, 63));
    CHECK("shr.s16", "kks", SH(x) >> MIN_(y, 15));
    CHECK("shf.l.wrap.b32", "iiis", (y << 32 | x) << (z & 31) >> 32);
    CHECK("shf.r.wrap.b32", "iiis", (y << 32 | x) >> (z & 31));
    CHECK("shf.l.clamp.b32", "iiis", (y << 32 | x) << MIN_(z, 32) >> 32);
    CHECK("shf.r.clamp.b32", "iiis", (y << 32 | x) >> MIN_(z, 32));
    CHECK_MORE("lop3.b32", "iiii", ", 0x96", 0.0, 0.0, x ^ y ^ z);
    CHECK_MORE("lop3.b32", "iiii", ", 0xe8", 0.0, 0.0, (x & y) | (x & z) | (y & z));
    CHECK_MORE("lop3.b32", "iiii", ", 0xca", 0.0, 0.0, (x & y) | (~x & z));
}

static uint64_t slow_count(uint64_t v, int from, int to, int step)
{
    uint64_t n = 0;
    for (int k = from; k != to; k += step, n++)
        if (v >> k & 1)
            return n;
    return n;
}

static uint64_t slow_popc(uint64_t v)
{
    uint64_t n = 0;
    for (; v; v &= v - 1)
        n++;
    return n;
}

static uint64_t slow_reverse(uint64_t v, int width)
{
    uint64_t r = 0;
    for (int k = 0; k < width; k++)
        r |= (v >> k & 1) << (width - 1 - k);
    return r;
}

static uint64_t slow_find(uint64_t v, int width, bool is_signed, bool amount)
{
    if (is_signed && v >> (width - 1) & 1)
        v = ~v;
    for (int k = width - 1; k >= 0; k--)
        if (v >> k & 1)
            return (uint64_t)(amount ? width - 1 - k : k);
    return UINT32_MAX;
}

/* Bit by bit, as the manual describes it. */
static uint64_t slow_extract(uint64_t v, uint64_t at, uint64_t n, int width, bool is_signed)
{
    uint64_t r = 0;
    at &= 255, n &= 255;
    uint64_t sign_at = MIN_(at + n - 1, (uint64_t)width - 1);
    uint64_t sign = is_signed && n ? v >> sign_at & 1 : 0;
    for (uint64_t k = 0; k < (uint64_t)width; k++)
        r |= (k < n && at + k < (uint64_t)width ? v >> (at + k) & 1 : sign) << k;
    return r;
}

static uint64_t slow_insert(uint64_t v, uint64_t into, uint64_t at, uint64_t n, int width)
{
    at &= 255, n &= 255;
    for (uint64_t k = 0; k < n && at + k < (uint64_t)width; k++)
        into = (into & ~(1ull << (at + k))) | (v >> k & 1) << (at + k);
    return into;
}

static uint64_t slow_permute(uint64_t x, uint64_t y, uint64_t z)
{
    uint64_t r = 0;
    for (int k = 0; k < 4; k++) {
        uint64_t n = z >> 4 * k & 15, byte = (n & 4 ? y : x) >> 8 * (n & 3) & 255;
        r |= (n & 8 ? (byte & 128 ? 255 : 0) : byte) << 8 * k;
    }
    return r;
}

static uint64_t slow_dot4(uint64_t x, uint64_t y, uint64_t z, bool sx, bool sy)
{
    for (int k = 0; k < 4; k++) {
        int p = sx ? (int8_t)(x >> 8 * k) : (uint8_t)(x >> 8 * k);
        int q = sy ? (int8_t)(y >> 8 * k) : (uint8_t)(y >> 8 * k);
        z += (uint64_t)(int64_t)(p * q);
    }
    return z;
}

static uint64_t slow_nth(uint64_t bits, uint64_t base, uint64_t n)
{
    int64_t left = S(n), at = S(base);
    if (left == 0)
        return at >= 0 && at < 32 && bits >> at & 1 ? base : UINT32_MAX;
    for (; at >= 0 && at<32; at += left> 0 ? 1 : -1)
        if (bits >> at & 1) {
            left += left > 0 ? -1 : 1;
            if (!left)
                return (uint64_t)at;
        }
    return UINT32_MAX;
}

static void fields(void **state)
{
    (void)state;
    CHECK("popc.b32", "ii", slow_popc(x));
    CHECK("popc.b64", "il", slow_popc(x));
    CHECK("clz.b32", "ii", slow_count(x, 31, -1, -1));
    CHECK("clz.b64", "il", slow_count(x, 63, -1, -1));
    CHECK("brev.b32", "ii", slow_reverse(x, 32));
    CHECK("brev.b64", "ll", slow_reverse(x, 64));
    CHECK("bfind.u32", "ii", slow_find(x, 32, false, false));
    CHECK("bfind.s32", "ii", slow_find(x, 32, true, false));
    CHECK("bfind.s64", "il", slow_find(x, 64, true, false));
    CHECK("bfind.shiftamt.u32", "ii", slow_find(x, 32, false, true));
    CHECK("bfind.shiftamt.s64", "il", slow_find(x, 64, true, true));
    CHECK("bfe.u32", "iiss", slow_extract(x, y, z, 32, false));
    CHECK("bfe.s32", "iiss", slow_extract(x, y, z, 32, true));
    CHECK("bfe.u64", "llss", slow_extract(x, y, z, 64, false));
    CHECK("bfe.s64", "llss", slow_extract(x, y, z, 64, true));
    CHECK("bfi.b32", "iiiss", slow_insert(x, y, z, u, 32));
    CHECK("bfi.b64", "lllss", slow_insert(x, y, z, u, 64));
    CHECK("bmsk.clamp.b32", "iss", x > 31 ? 0 : ((1ull << MIN_(y, 32)) - 1) << x);
    CHECK("bmsk.wrap.b32", "iss", ((1ull << (y & 31)) - 1) << (x & 31));
    CHECK("szext.clamp.u32", "iis", x & ((1ull << MIN_(y, 32)) - 1));
    CHECK("szext.wrap.s32", "iis", slow_extract(x, 0, y & 31, 32, true));
    CHECK("fns.b32", "iiss", slow_nth(x, y, z));
    CHECK("prmt.b32", "iiii", slow_permute(x, y, z));
    CHECK("prmt.b32.f4e", "iiii", (y << 32 | x) >> 8 * (z & 3));
    CHECK("prmt.b32.rc8", "iiii", (x >> 8 * (z & 3) & 255) * 0x01010101);
    CHECK("prmt.b32.rc16", "iiii", (x >> 16 * (z & 1) & 0xffff) * 0x00010001);
    CHECK("dp4a.s32.s32", "iiii", slow_dot4(x, y, z, true, true));
    CHECK("dp4a.u32.s32", "iiii", slow_dot4(x, y, z, false, true));
    CHECK("dp4a.u32.u32", "iiii", slow_dot4(x, y, z, false, false));
    CHECK("dp2a.lo.s32.u32", "iiii",
          (uint64_t)(SH(x) * (int)(y & 255) + SH(x >> 16) * (int)(y >> 8 & 255)) + z);
    CHECK("dp2a.hi.u32.u32", "iiii", UH(x) * (y >> 16 & 255) + UH(x >> 16) * (y >> 24 & 255) + z);
}

static uint64_t slow_differences(uint64_t x, uint64_t y, uint64_t z, int bits, bool add)
{
    uint64_t r = add ? z : 0, keep = (1u << bits) - 1;
    for (int k = 0; k < 32; k += bits) {
        int64_t d = (int64_t)(x >> k & keep) - (int64_t)(y >> k & keep);
        r += (uint64_t)(d < 0 ? -d : d) << (add ? 0 : k);
    }
    return r;
}

static void differences(void **state)
{
    (void)state;
    CHECK("vabsdiff4.u32.u32.u32", "iiii", slow_differences(x, y, z, 8, false));
    CHECK("vabsdiff4.u32.u32.u32.add", "iiii", slow_differences(x, y, z, 8, true));
    CHECK("vabsdiff2.u32.u32.u32.add", "iiii", slow_differences(x, y, z, 16, true));
    CHECK("min.s16x2.relu", "www",
          UH(MAX_(MIN_(SH(x), SH(y)), 0)) | (uint32_t)UH(MAX_(MIN_(SH(x >> 16), SH(y >> 16)), 0))
                                                << 16);
}

/* Carries pass from instruction to instruction: 128-bit sums in halves. */
static void carries(void **state)
{
    (void)state;
    const char *why = "";
    static Device device;
    static const char text[] = ".version 9.0\n.target sm_80\n.address_size 64\n"
                               ".visible .entry k() { .reg .b64 %d<8>;\n"
                               "add.cc.u64 %d0, %d1, %d2; addc.cc.u64 %d0, %d1, %d2;\n"
                               "addc.u64 %d3, %d0, %d0; mad.lo.cc.u64 %d4, %d1, %d2, %d1;\n"
                               "madc.hi.u64 %d5, %d1, %d2, %d2; sub.cc.u64 %d6, %d1, %d2;\n"
                               "subc.u64 %d7, %d2, %d1; ret; }";
    Module *m = module_load(&device, text, sizeof text - 1, &why);
    if (!m)
        fail_msg("%s", why);
    const Function *f = &m->functions[0];
    Warp w = {.regs = aligned_alloc(64, (f->reg_bytes + 63u) & ~63u)};
    uint64_t seed = 99;
    const Inst *i = f->code;
    for (int round = 0; round < 100; round++) {
        uint64_t x = random_next(&seed), y = random_next(&seed) >> round % 64, got[8];
        for (int l = 0; l < LANES; l++) {
            memcpy(w.regs + i[0].a + 8 * l, &x, 8);
            memcpy(w.regs + i[0].b + 8 * l, &y, 8);
        }
        for (int k = 0; k < 7; k++) {
            i[k].exec(&w, &i[k], ALL_LANES);
            memcpy(&got[k], w.regs + i[k].d + 8 * 17, 8);
        }
        Uwide sum = (Uwide)x + y, product = (Uwide)x * y + x;
        uint64_t carry = (uint64_t)(sum >> 64), again = (uint64_t)(((Uwide)x + y + carry) >> 64);
        assert_int_equal(got[0], x + y);
        assert_int_equal(got[1], x + y + carry);
        assert_int_equal(got[2], 2 * got[1] + again);
        assert_int_equal(got[3], (uint64_t)product);
        assert_int_equal(got[4], (uint64_t)(product >> 64) + y);
        assert_int_equal(got[5], x - y);
        assert_int_equal(got[6], y - x - (x < y));
    }
    free(w.regs);
    module_unload(m);
}

static void moves(void **state)
{
    (void)state;
    CHECK("mov.b32", "ii", x);
    CHECK("mov.u64", "ll", x);
    CHECK("mov.pred", "pp", x);
    CHECK("selp.b32", "iiip", z ? x : y);
    CHECK("selp.f64", "lllp", z ? x : y);
    CHECK("selp.u16", "kkkp", z ? x : y);
    CHECK("slct.u32.s32", "iiii", S(z) >= 0 ? x : y);
    CHECK("slct.b64.f32", "lllf", test_f32(z) >= 0 ? x : y);
    CHECK("and.pred", "ppp", x & y);
    CHECK("or.pred", "ppp", x | y);
    CHECK("xor.pred", "ppp", x ^ y);
    CHECK("not.pred", "pp", !x);
}

static void comparisons(void **state)
{
    (void)state;
    CHECK("setp.eq.s32", "pii", x == y);
    CHECK("setp.ne.b64", "pll", x != y);
    CHECK("setp.lt.s32", "pii", S(x) < S(y));
    CHECK("setp.lt.u32", "pii", x < y);
    CHECK("setp.le.s64", "pll", SL(x) <= SL(y));
    CHECK("setp.gt.u64", "pll", x > y);
    CHECK("setp.ge.s16", "pkk", SH(x) >= SH(y));
    CHECK("setp.gt.u16", "pkk", UH(x) > UH(y));
    CHECK("setp.hi.u32", "pii", x > y);
    CHECK("setp.ls.u64", "pll", x <= y);
    CHECK("setp.eq.b16", "pkk", UH(x) == UH(y));
    CHECK("setp.lt.and.s32", "piip", (S(x) < S(y)) & z);
    CHECK("setp.lt.or.s32", "piip", (S(x) < S(y)) | z);
    CHECK("setp.lt.xor.u64", "pllp", (x < y) ^ z);
    CHECK("set.lt.u32.s32", "iii", S(x) < S(y) ? UINT32_MAX : 0);
    CHECK("set.ge.f32.u64", "fll", x >= y ? 0x3f800000 : 0);
    CHECK("set.eq.and.s32.u32", "iiip", (x == y) & z ? UINT32_MAX : 0);
}

/* setp p|q: the second is the opposite, combined as the first is. */
static void two_predicates(void **state)
{
    (void)state;
    const char *why = "";
    Case c = {.op = "setp p|q", .signature = "pii", .mask = ALL_LANES};
    case_open(&c, "setp.lt.and.s32 %p5|%p6, %r1, %r2, !%p3; //", "pi", "");
    (void)why;
    for (int l = 0; l < LANES; l++) {
        int32_t x = l - 16, y = 0;
        memcpy(c.w.regs + c.i->a + 4 * l, &x, 4);
        memcpy(c.w.regs + c.i->b + 4 * l, &y, 4);
    }
    c.w.preds[c.i->c] = 0xff00ff00;
    c.w.preds[c.i->d] = c.w.preds[c.i->d2] = 0;
    c.i->exec(&c.w, c.i, 0x7fffffff);
    assert_int_equal(c.w.preds[c.i->d], 0x0000ffffu & 0x00ff00ff);
    assert_int_equal(c.w.preds[c.i->d2], 0x7fff0000u & 0x00ff00ff);
    case_close(&c);
}

int test_integers(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds),        cmocka_unit_test(products),
        cmocka_unit_test(divisions),   cmocka_unit_test(near_quotients),
        cmocka_unit_test(extremes),    cmocka_unit_test(bits),
        cmocka_unit_test(fields),      cmocka_unit_test(moves),
        cmocka_unit_test(comparisons), cmocka_unit_test(two_predicates),
        cmocka_unit_test(differences), cmocka_unit_test(carries),
    };
    return cmocka_run_group_tests_name("integers", tests, NULL, NULL);
}
