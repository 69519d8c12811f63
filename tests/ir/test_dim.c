/* test_dim.c: the algebra of sizes. SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/dim.h"

typedef struct {
    Arena *a;
    Interner *names;
    DimTable *t;
    Symbol B, T, H, i, j;
} Fix;

static Symbol lookup(void *ctx, const char *name, size_t n)
{
    const Fix *f = ctx;
    for (uint32_t id = 1; id <= dim_nsymbols(f->t); id++) {
        const char *s = sym_text(f->names, dim_symbol(f->t, (Symbol){id})->name);
        if (strlen(s) == n && !memcmp(s, name, n))
            return (Symbol){id};
    }
    return (Symbol){0};
}

static Dim parse(Fix *f, const char *text)
{
    Dim d;
    const char *end, *error = dim_parse(f->t, text, &end, lookup, f, &d);
    if (error || *end)
        fail_msg("%s: %s", text, error ? error : end);
    return d;
}

static int setup(void **state)
{
    Arena *a = arena_create();
    Fix *f = arena_new(a, Fix);
    f->a = a;
    f->names = intern_create(a);
    f->t = dims_create(a, f->names);
    f->B = dim_new_symbol(f->t, SYM_SIZE, sym_of(f->names, "B"), (Dim){0});
    f->T = dim_new_symbol(f->t, SYM_SIZE, sym_of(f->names, "T"), (Dim){0});
    f->H = dim_new_symbol(f->t, SYM_SIZE, sym_of(f->names, "H"), (Dim){0});
    f->i = dim_new_symbol(f->t, SYM_AXIS, sym_of(f->names, "i"), dim_of(f->t, f->B));
    f->j = dim_new_symbol(f->t, SYM_AXIS, sym_of(f->names, "j"), dim_const(f->t, 128));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    arena_destroy(((Fix *)*state)->a);
    return 0;
}

/* Each text must give the size that the second one gives, and print so. */
static void test_normal_form(void **state)
{
    Fix *f = *state;
    static const char *const cases[][2] = {
        {"T + B", "B + T"},
        {"B*T + T*B", "2*B*T"},
        {"(B + 1)*(B - 1)", "B*B - 1"},
        {"1 - B", "-B + 1"},
        {"(2*B + 4)//2", "B + 2"},
        {"(B*T + T)//T", "B + 1"},
        {"(4*B + 2)//4", "B"},
        {"(4*B + 5)//4", "B + 1"},
        {"(6*B)//4", "B + B//2"},
        {"B//2//3", "B//6"},
        {"(B//2 + T)//3", "(B + 2*T)//6"},
        {"B - 2*(B//2)", "B % 2"},
        {"2*(B//2) + B % 2", "B"},
        {"T*(B//T) + B % T", "B"},
        {"(128*i + j)//128", "i"},
        {"(128*i + j) % 128", "j"},
        {"(B*T)//(B*H)", "T//H"},
        {"min(B, B + 1)", "B"},
        {"max(T + 3, T - 2)", "T + 3"},
        {"min(T, B)", "min(B, T)"},
        {"max(B, 0)", "B"},
        {"-(B//2)", "-(B//2)"},
        {"3*(B % 4) + 1", "3*(B % 4) + 1"},
        {"i//B", "0"},
        {"7//2 + 7 % 2 - -1", "5"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const Dim d = parse(f, cases[k][0]);
        if (!dim_same(d, parse(f, cases[k][1])))
            fail_msg("%s is %s, not %s", cases[k][0], dim_text(f->t, f->a, d), cases[k][1]);
        if (!dim_same(parse(f, dim_text(f->t, f->a, d)), d))
            fail_msg("%s prints as %s", cases[k][0], dim_text(f->t, f->a, d));
    }
    assert_string_equal(dim_text(f->t, f->a, parse(f, "B % 2")), "B % 2");
    assert_string_equal(dim_text(f->t, f->a, parse(f, "1 + T*3 + B*T")), "B*T + 3*T + 1");
    assert_string_equal(dim_text(f->t, f->a, parse(f, "2*(H//2)")), "2*(H//2)");
    assert_string_equal(dim_text(f->t, f->a, parse(f, "0 - T")), "-T");
}

static void test_questions(void **state)
{
    Fix *f = *state;
    DimTable *t = f->t;
    assert_int_equal(dim_equal(t, parse(f, "B"), parse(f, "T")), UNKNOWN);
    assert_int_equal(dim_equal(t, parse(f, "B"), parse(f, "B + 1")), NO);
    assert_int_equal(dim_equal(t, parse(f, "2*B"), parse(f, "2*T + 1")), NO);
    assert_int_equal(dim_equal(t, parse(f, "2*(H//2)"), parse(f, "H")), UNKNOWN);
    assert_int_equal(dim_le(t, parse(f, "2*(H//2)"), parse(f, "H")), YES);
    assert_int_equal(dim_le(t, parse(f, "i"), parse(f, "B - 1")), YES);
    assert_int_equal(dim_le(t, parse(f, "B*128 - 1"), parse(f, "i*128 + j")), UNKNOWN);
    assert_int_equal(dim_le(t, parse(f, "i*128 + j"), parse(f, "B*128 - 1")), YES);
    assert_int_equal(dim_le(t, parse(f, "B"), parse(f, "i")), NO);
    assert_int_equal(dim_le(t, parse(f, "B"), parse(f, "T")), UNKNOWN);
    assert_int_equal(dim_le(t, parse(f, "min(B, T)"), parse(f, "T")), YES);
    assert_int_equal(dim_le(t, parse(f, "B"), parse(f, "B*T")), UNKNOWN);
    dim_symbol(t, f->T)->lo = 1;
    assert_int_equal(dim_le(t, parse(f, "B"), parse(f, "B*T")), YES);
    assert_int_equal(dim_divisible(t, parse(f, "4*B + 8"), 4), YES);
    assert_int_equal(dim_divisible(t, parse(f, "4*B + 6"), 4), NO);
    assert_int_equal(dim_divisible(t, parse(f, "2*B"), 4), UNKNOWN);
    assert_true(dim_assume_equal(t, parse(f, "H % 8"), parse(f, "0")));
    assert_int_equal(dim_symbol(t, f->H)->div, 8);
    assert_int_equal(dim_equal(t, parse(f, "2*(H//2)"), parse(f, "H")), YES);
    assert_int_equal(dim_divisible(t, parse(f, "H*B"), 8), YES);
    assert_int_equal(dim_divisible(t, parse(f, "H + 1"), 8), NO);
    assert_true(dim_assume_equal(t, parse(f, "4*((T + 3)//4)"), parse(f, "T")));
    assert_int_equal(dim_symbol(t, f->T)->div, 4);
    assert_int_equal(dim_symbol(t, f->T)->rem, 0);
    assert_int_equal(dim_equal(t, parse(f, "4*((T + 3)//4)"), parse(f, "T")), YES);
    assert_true(dim_assume_equal(t, parse(f, "2*((B + 2)//2)"), parse(f, "B + 1")));
    assert_int_equal(dim_symbol(t, f->B)->div, 2);
    assert_int_equal(dim_symbol(t, f->B)->rem, 1);
}

static void test_equalities(void **state)
{
    Fix *f = *state;
    DimTable *t = f->t;
    assert_true(dim_assume_equal(t, parse(f, "T"), parse(f, "2*B + 1")));
    assert_int_equal(dim_equal(t, parse(f, "T*H"), parse(f, "2*B*H + H")), YES);
    assert_true(dim_same(dim_normalize(t, parse(f, "T//2")), parse(f, "B")));
    assert_false(dim_assume_equal(t, parse(f, "T"), parse(f, "2*B")));
    assert_true(dim_assume_equal(t, parse(f, "B"), parse(f, "4")));
    assert_true(dim_same(dim_normalize(t, parse(f, "T")), dim_const(t, 9)));
    assert_false(dim_equal_by_zeros(t, parse(f, "T"), parse(f, "9")));
    assert_true(dim_assume_equal(t, parse(f, "2*(H//2)"), parse(f, "3*(H//3)")));
    assert_int_equal(dim_equal(t, parse(f, "4*(H//2) + 1"), parse(f, "6*(H//3) + 1")), YES);
    assert_true(dim_equal_by_zeros(t, parse(f, "4*(H//2)"), parse(f, "6*(H//3)")));
    assert_int_equal(dim_equal(t, parse(f, "H//2"), parse(f, "H//3")), UNKNOWN);
    assert_int_equal(dim_equal(t, parse(f, "2*(H//2) + 1"), parse(f, "3*(H//3)")), NO);
    assert_int_equal(dim_le(t, parse(f, "i + 2*(H//2)"), parse(f, "3*(H//3)")), UNKNOWN);
    assert_int_equal(dim_le(t, parse(f, "2*(H//2)"), parse(f, "3*(H//3)")), YES);
    assert_int_equal(dim_divisible(t, parse(f, "3*(H//3)"), 3), YES);
    const Dim *zeros;
    assert_int_equal(dim_zeros(t, &zeros), 1);
    assert_true(dim_assume_equal(t, parse(f, "H % 2"), parse(f, "0")));
    assert_int_equal(dim_equal(t, parse(f, "H"), parse(f, "3*(H//3)")), YES);
    Dim num;
    int64_t den;
    assert_true(dim_solve(t, parse(f, "3*H + 1"), parse(f, "i"), f->H, &num, &den));
    assert_int_equal(den, 3);
    assert_true(dim_same(num, parse(f, "i - 1")));
    assert_false(dim_solve(t, parse(f, "H*H"), parse(f, "i"), f->H, &num, &den));
}

static void test_overflow(void **state)
{
    Fix *f = *state;
    DimTable *t = f->t;
    const Dim big = dim_const(t, INT64_MAX);
    assert_false(dim_overflowed(t));
    dim_add(t, big, dim_const(t, 1));
    assert_true(dim_overflowed(t));
    assert_false(dim_overflowed(t));
    dim_floordiv(t, dim_of(t, f->B), dim_const(t, 0));
    assert_true(dim_overflowed(t));
    int64_t values[8] = {0}, v;
    values[f->B.id] = INT64_MAX;
    assert_false(dim_eval(t, parse(f, "2*B"), values, &v));
    assert_false(dim_eval(t, parse(f, "B//T"), values, &v));
}

/* --- random sizes: what the table says must agree with plain arithmetic --------------------------
 */

typedef struct {
    uint64_t state;
} Rng;

static uint32_t rng(Rng *r, uint32_t n)
{
    r->state = r->state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)(r->state >> 33) % n;
}

static int64_t floor_of(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

enum { SAMPLES = 12 };

/* A random size together with its value at each sample. */
static Dim random_dim(Fix *f, Rng *r, int depth, int64_t values[SAMPLES][8], int64_t out[SAMPLES])
{
    DimTable *t = f->t;
    if (depth == 0 || rng(r, 6) == 0) {
        if (rng(r, 3) == 0) {
            const int64_t c = (int64_t)rng(r, 9) - 3;
            for (int k = 0; k < SAMPLES; k++)
                out[k] = c;
            return dim_const(t, c);
        }
        const Symbol s = {1 + rng(r, 5)};
        for (int k = 0; k < SAMPLES; k++)
            out[k] = values[k][s.id];
        return dim_of(t, s);
    }
    int64_t x[SAMPLES], y[SAMPLES];
    const Dim a = random_dim(f, r, depth - 1, values, x),
              b = random_dim(f, r, depth - 1, values, y);
    const uint32_t op = rng(r, 7);
    const int64_t c = 1 + rng(r, 6);
    for (int k = 0; k < SAMPLES; k++)
        out[k] = op == 0   ? x[k] + y[k]
                 : op == 1 ? x[k] - y[k]
                 : op == 2 ? x[k] * y[k]
                 : op == 3 ? floor_of(x[k], c)
                 : op == 4 ? x[k] - c * floor_of(x[k], c)
                 : op == 5 ? (x[k] < y[k] ? x[k] : y[k])
                           : (x[k] > y[k] ? x[k] : y[k]);
    return op == 0   ? dim_add(t, a, b)
           : op == 1 ? dim_sub(t, a, b)
           : op == 2 ? dim_mul(t, a, b)
           : op == 3 ? dim_floordiv(t, a, dim_const(t, c))
           : op == 4 ? dim_mod(t, a, dim_const(t, c))
           : op == 5 ? dim_min(t, a, b)
                     : dim_max(t, a, b);
}

static void check_against(Fix *f, Dim d, Dim e, int64_t values[SAMPLES][8], const int64_t *x,
                          const int64_t *y)
{
    int64_t lo, hi, v;
    dim_interval(f->t, d, &lo, &hi);
    const Answer eq = dim_equal(f->t, d, e), le = dim_le(f->t, d, e),
                 div = dim_divisible(f->t, d, 4);
    const Dim again = parse(f, dim_text(f->t, f->a, d));
    const char *text = dim_text(f->t, f->a, d);
    for (int k = 0; k < SAMPLES; k++) {
        if (!dim_eval(f->t, d, values[k], &v) || v != x[k])
            fail_msg("%s is %lld, not %lld", text, (long long)v, (long long)x[k]);
        if (!dim_eval(f->t, again, values[k], &v) || v != x[k])
            fail_msg("%s reads back as something else", text);
        if (x[k] < lo || x[k] > hi)
            fail_msg("%s has value %lld outside its interval", text, (long long)x[k]);
        if ((eq == YES && x[k] != y[k]) || (eq == NO && x[k] == y[k]))
            fail_msg("%s == %s: wrong answer", text, dim_text(f->t, f->a, e));
        if ((le == YES && x[k] > y[k]) || (le == NO && x[k] <= y[k]))
            fail_msg("%s <= %s: wrong answer", text, dim_text(f->t, f->a, e));
        if ((div == YES && x[k] % 4) || (div == NO && x[k] % 4 == 0))
            fail_msg("%s %% 4: wrong answer", text);
    }
}

static void test_random(void **state)
{
    Fix *f = *state;
    SymbolInfo *b = dim_symbol(f->t, f->B), *h = dim_symbol(f->t, f->H);
    b->lo = 1;
    b->hi = 9;
    h->div = 4;
    h->rem = 1;
    dim_symbol(f->t, f->T)->hi = 30;
    dim_symbol(f->t, f->j)->extent = dim_const(f->t, 16);
    Rng r = {20240917};
    for (int round = 0; round < 1500; round++) {
        int64_t values[SAMPLES][8] = {{0}}, x[SAMPLES], y[SAMPLES];
        for (int k = 0; k < SAMPLES; k++) {
            values[k][f->B.id] = k < 2 ? 1 + 8 * k : 1 + (int)rng(&r, 9);
            values[k][f->T.id] = k < 4 ? 30 * (k / 2) : (int)rng(&r, 31);
            values[k][f->H.id] = 4 * (int64_t)rng(&r, 20) + 1;
            values[k][f->i.id] = rng(&r, (uint32_t)values[k][f->B.id]);
            values[k][f->j.id] = rng(&r, 16);
        }
        const Dim d = random_dim(f, &r, 4, values, x), e = random_dim(f, &r, 3, values, y);
        if (!dim_overflowed(f->t))
            check_against(f, d, e, values, x, y);
        const DimSubst map = {f->T, dim_add(f->t, dim_of(f->t, f->H), dim_const(f->t, -1))};
        const Dim s = dim_substitute(f->t, d, &map, 1);
        int64_t v, w;
        values[0][f->H.id] = 13;
        values[0][f->T.id] = 12;
        if (dim_eval(f->t, d, values[0], &v) && dim_eval(f->t, s, values[0], &w))
            if (v != w && !dim_overflowed(f->t))
                fail_msg("%s becomes %s", dim_text(f->t, f->a, d), dim_text(f->t, f->a, s));
    }
}

/* Where texts are cut into pieces, one has some; what cannot be helped stays as it was. */
static void test_hints(void **state)
{
    Fix *f = *state;
    const Dim B = dim_of(f->t, f->B), T = dim_of(f->t, f->T), H = dim_of(f->t, f->H);
    const Dim pieces = dim_mul(f->t, B, dim_floordiv(f->t, T, dim_const(f->t, 512)));
    assert_true(dim_hint(f->t, pieces) == 0);
    dim_hint_some(f->t, pieces);
    assert_true(dim_hint(f->t, pieces) == 64);
    assert_true(dim_hint(f->t, B) == 64);
    assert_true(dim_hint(f->t, T) == 512);
    const Dim none = dim_sub(f->t, dim_const(f->t, 0), H);
    dim_hint_some(f->t, none);
    assert_true(dim_hint(f->t, H) == 64);
    const Dim rest = dim_sub(f->t, H, T);
    dim_hint_some(f->t, rest);
    assert_true(dim_hint(f->t, rest) == 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hints, setup, teardown),
        cmocka_unit_test_setup_teardown(test_normal_form, setup, teardown),
        cmocka_unit_test_setup_teardown(test_questions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_equalities, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overflow, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random, setup, teardown),
    };
    return cmocka_run_group_tests_name("dim", tests, NULL, NULL);
}
