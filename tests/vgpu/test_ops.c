/* test_ops.c: see test_ops.h. The instruction's own slots are filled and read: nothing but its exec
 * runs, under the mode of MXCSR that it asks for. SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_ops.h"

#include <stdio.h>
#include <stdlib.h>

#include <xmmintrin.h>

/* --- values ---------------------------------------------------------------------------------- */

static const uint64_t ints[] = {
    0,          1,          2,          3,          7,          31,         32,
    33,         255,        256,        0x7fff,     0x8000,     0xffff,     0x10000,
    0x12345678, 0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff, 0xdeadbeef};
static const uint64_t longs[] = {0,
                                 1,
                                 2,
                                 3,
                                 10,
                                 63,
                                 64,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 0x100000000,
                                 0x000fffffffffffff,
                                 0x0010000000000000,
                                 0x0010000000000001,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 0x8000000000000001,
                                 0xfffffffffffffffe,
                                 0xffffffffffffffff,
                                 0x123456789abcdef0,
                                 0xfff0000000000000,
                                 0xffefffffffffffff};
static const uint64_t shorts[] = {0,      1,      2,      15,         16,         17,
                                  0x7f,   0x80,   0xff,   0x7ffe,     0x7fff,     0x8000,
                                  0x8001, 0xfffe, 0xffff, 0xabcd1234, 0xffff8000, 0x12340000};
static const uint64_t shifts[] = {0,  1,  5,  15, 16,  17,  31,         32,
                                  33, 63, 64, 65, 255, 256, 0x80000000, 0xffffffff};
static const uint64_t pairs[] = {0,          0x00010001, 0x7fff8000, 0x8000ffff, 0xffff0001,
                                 0x12348765, 0x7fff7fff, 0x80008000, 0xffffffff, 0x00ff0100};
static const uint64_t floats[] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x3fc00000, 0x40200000, 0xc0200000, 0x40490fdb,
    0x3f000000, 0xbf000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x80800000, 0x7f7fffff,
    0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x33800000, 0x4effffff, 0x4f000000,
    0xcf000000, 0x4f800000, 0x5f000000, 0xdf000000, 0x5f800000, 0x42fe0001, 0xc2fe0001, 0x3eaaaaab,
    0x477fefff, 0x477ff000, 0x33000001, 0x38800000, 0x387fffff, 0x3f7fffff, 0x3f800001, 0x3f802000,
    0x3f803000, 0x0b3dd8ae, 0x19000000};
static const uint64_t doubles[] = {
    0x0000000000000000, 0x8000000000000000, 0x3ff0000000000000, 0xbff0000000000000,
    0x4004000000000000, 0x3fe0000000000000, 0xbfe0000000000000, 0x0000000000000001,
    0x800fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0xffefffffffffffff,
    0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x3ff0000010000000,
    0x3ff0000010000001, 0x3ff0000030000000, 0x41dfffffffc00000, 0x41dfffffffe00000,
    0x41e0000000000000, 0xc1e0000000200000, 0x43e0000000000000, 0xc3e0000000000000,
    0x43f0000000000000, 0x47efffffe0000000, 0x47effffff0000000, 0x36a0000000000000,
    0x3690000000000001, 0x4059000000000000, 0x3ff5555555555555, 0x400921fb54442d18};
static const uint64_t halves[] = {0x0000, 0x8000, 0x3c00, 0xbc00, 0x3e00, 0x3800, 0x0001, 0x8001,
                                  0x03ff, 0x0400, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7001,
                                  0x3555, 0x4248, 0x1400, 0x0c01, 0x2e66, 0xc500, 0x3bff, 0x3c01};
static const uint64_t bhalves[] = {0x0000, 0x8000, 0x3f80, 0xbf80, 0x3fc0, 0x3f00, 0x0001, 0x8001,
                                   0x007f, 0x0080, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x4049,
                                   0x3eab, 0x3c01, 0x2001, 0x1f81, 0x4380, 0x3f7f, 0x3f81};
static const uint64_t preds[] = {0, 1};
static uint64_t half_pairs[24], bhalf_pairs[23], float_pairs[43];

typedef struct {
    char letter;
    const uint64_t *at;
    uint64_t n;
} Values;

#define LIST(letter, list)                                                                         \
    {                                                                                              \
        letter, list, sizeof list / sizeof *list                                                   \
    }
static const Values values[] = {
    LIST('i', ints),       LIST('l', longs),   LIST('k', shorts),      LIST('s', shifts),
    LIST('w', pairs),      LIST('f', floats),  LIST('d', doubles),     LIST('h', halves),
    LIST('H', half_pairs), LIST('b', bhalves), LIST('B', bhalf_pairs), LIST('p', preds),
    LIST('x', float_pairs)};

static const Values *values_of(char letter)
{
    for (size_t k = 0; k < sizeof values / sizeof *values; k++)
        if (values[k].letter == letter)
            return &values[k];
    fail_msg("no values of kind %c", letter);
    return NULL;
}

/* Both halves of a pair go through all the values, in different order. */
static void make_pairs(void)
{
    for (size_t k = 0; k < 24; k++)
        half_pairs[k] = halves[k] | halves[k * 7 % 24] << 16;
    for (size_t k = 0; k < 23; k++)
        bhalf_pairs[k] = bhalves[k] | bhalves[k * 7 % 23] << 16;
    for (size_t k = 0; k < 43; k++)
        float_pairs[k] = floats[k] | floats[k * 7 % 43] << 32;
}

/* --- running --------------------------------------------------------------------------------- */

static bool is_wide(char letter)
{
    return letter == 'l' || letter == 'd' || letter == 'x';
}

static Module *load(const char *body, const char **why)
{
    static Device device;
    char text[1024];
    snprintf(text, sizeof text,
             ".version 9.0\n.target sm_100\n.address_size 64\n.visible .entry t()\n{\n"
             ".reg .b32 %%r<8>; .reg .b64 %%d<8>; .reg .pred %%p<8>;\n%s\nret;\n}\n",
             body);
    return module_load(&device, text, strlen(text), why);
}

void refused(const char *body, const char *why)
{
    const char *said = "";
    Module *m = load(body, &said);
    if (m)
        fail_msg("'%s' is accepted", body);
    if (!strstr(said, why))
        fail_msg("'%s': '%s' does not say '%s'", body, said, why);
}

static void fill_constants(const Function *f, Warp *w)
{
    for (int k = 0; k < f->nconstants; k++)
        for (int l = 0; l < LANES; l++) {
            uint8_t *to = w->regs + f->constants[k].slot + l * f->constants[k].width;
            memcpy(to, &f->constants[k].value, f->constants[k].width);
        }
}

void case_open(Case *c, const char *op, const char *signature, const char *more)
{
    char body[512];
    int n = snprintf(body, sizeof body, "%s ", op);
    make_pairs();
    *c = (Case){.op = op, .sources = (int)strlen(signature) - 1, .count = 1};
    snprintf(c->signature, sizeof c->signature, "%s", signature);
    for (int k = 0; signature[k]; k++) {
        char kind = signature[k] == 'p' ? 'p' : is_wide(signature[k]) ? 'd' : 'r';
        n += snprintf(body + n, sizeof body - (size_t)n, "%s%%%c%d", k ? ", " : "", kind, k);
        if (k)
            c->count *= values_of(signature[k])->n;
    }
    snprintf(body + n, sizeof body - (size_t)n, "%s;", more);
    const char *why = "";
    c->m = load(body, &why);
    if (!c->m)
        fail_msg("%s: %s", op, why);
    const Function *f = &c->m->functions[0];
    c->i = f->code;
    if (f->ncode < 2 || c->i[1].kind != INST_EXIT)
        fail_msg("%s becomes more than one instruction", op);
    size_t bytes = (f->reg_bytes + 63u) & ~63u;
    c->w.regs = aligned_alloc(64, bytes);
    c->w.preds = calloc((size_t)f->npreds + 1, sizeof *c->w.preds);
    assert_non_null(c->w.regs);
    memset(c->w.regs, 0x5a, bytes);
    fill_constants(f, &c->w);
}

void case_close(Case *c)
{
    free(c->w.regs);
    free(c->w.preds);
    module_unload(c->m);
}

static uint64_t read_lane(const Case *c, char letter, uint32_t slot, int l)
{
    uint64_t v = 0;
    if (letter == 'p')
        return c->w.preds[slot] >> l & 1;
    int width = is_wide(letter) ? 8 : 4;
    memcpy(&v, c->w.regs + slot + l * width, (size_t)width);
    return v;
}

static void write_lane(Case *c, char letter, uint32_t slot, int l, uint64_t v)
{
    int width = is_wide(letter) ? 8 : 4;
    if (letter == 'p')
        c->w.preds[slot] = (c->w.preds[slot] & ~(1u << l)) | (uint32_t)v << l;
    else
        memcpy(c->w.regs + slot + l * width, &v, (size_t)width);
}

bool case_next(Case *c)
{
    const uint32_t slots[] = {c->i->a, c->i->b, c->i->c, c->i->e};
    if (c->at >= c->count)
        return false;
    for (int l = 0; l < LANES; l++) {
        uint64_t which = (c->at + (uint64_t)l) % c->count;
        for (int k = 0; k < c->sources; k++) {
            const Values *v = values_of(c->signature[k + 1]);
            c->in[k][l] = v->at[which % v->n];
            which /= v->n;
            write_lane(c, c->signature[k + 1], slots[k], l, c->in[k][l]);
        }
        c->before[l] = read_lane(c, c->signature[0], c->i->d, l);
    }
    c->mask = c->at / LANES % 3 == 1 ? 0x5a5a0ff1 : ALL_LANES;
    c->at += LANES;
    uint32_t mode = _mm_getcsr();
    _mm_setcsr(c->i->mxcsr ? c->i->mxcsr : 0x1f80);
    c->i->exec(&c->w, c->i, c->mask);
    _mm_setcsr(mode);
    return true;
}

/* --- comparing ------------------------------------------------------------------------------- */

static bool same_half(uint64_t got, uint64_t want, uint64_t inf)
{
    return got == want || ((got & 0x7fff) > inf && (want & 0x7fff) > inf);
}

static bool same_f32(const Case *c, uint64_t got, uint64_t want)
{
    double g = (double)test_f32(got), w = (double)test_f32(want);
    if (g != g || w != w)
        return g != g && w != w;
    if (got == want)
        return true;
    double error = fabs(g - w);
    return (c->relative > 0 || c->absolute > 0) && !isinf(g) && !isinf(w) &&
           error <= fmax(c->absolute, c->relative * fabs(w));
}

static bool same(const Case *c, uint64_t got, uint64_t want)
{
    switch (c->signature[0]) {
    case 'i':
    case 'w':
        return (uint32_t)got == (uint32_t)want;
    case 'k':
        return (uint16_t)got == (uint16_t)want;
    case 'h':
        return same_half(got & 0xffff, want & 0xffff, 0x7c00);
    case 'b':
        return same_half(got & 0xffff, want & 0xffff, 0x7f80);
    case 'H':
        return same_half(got & 0xffff, want & 0xffff, 0x7c00) &&
               same_half(got >> 16, want >> 16 & 0xffff, 0x7c00);
    case 'B':
        return same_half(got & 0xffff, want & 0xffff, 0x7f80) &&
               same_half(got >> 16, want >> 16 & 0xffff, 0x7f80);
    case 'f':
        return same_f32(c, got, want);
    case 'x':
        return same_f32(c, got & UINT32_MAX, want & UINT32_MAX) &&
               same_f32(c, got >> 32, want >> 32);
    case 'd':
        return got == want || (test_f64(got) != test_f64(got) && test_f64(want) != test_f64(want));
    default:
        return got == want;
    }
}

void case_check(Case *c, int l, uint64_t want)
{
    uint64_t got = read_lane(c, c->signature[0], c->i->d, l);
    bool on = c->mask >> l & 1;
    if (c->signature[0] == 'p')
        want = want != 0;
    if (on ? same(c, got, want) : got == c->before[l])
        return;
    fail_msg("%s of 0x%llx 0x%llx 0x%llx 0x%llx: 0x%llx, not 0x%llx%s", c->op,
             (unsigned long long)c->in[0][l], (unsigned long long)c->in[1][l],
             (unsigned long long)c->in[2][l], (unsigned long long)c->in[3][l],
             (unsigned long long)got, (unsigned long long)(on ? want : c->before[l]),
             on ? "" : " (the lane is off)");
}

void case_check_second(Case *c, int l, bool want)
{
    if (c->mask >> l & 1 && (c->w.preds[c->i->d2] >> l & 1) != want)
        fail_msg("%s: the second predicate is wrong", c->op);
}

int main(void)
{
    return test_integers() + test_floats() + test_halves() + test_conversions() + test_modules();
}
