/* text_test.c: names, line breaking, sizes and rows of the op table as C text.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/optext.h"
#include "codegen/paste.h"

#include <string.h>

static void test_names(void **state)
{
    (void)state;
    Names n = {.a = arena_create()};
    assert_string_equal(name_unique(&n, "layers.0.weight"), "layers_0_weight");
    assert_string_equal(name_unique(&n, "h"), "h");
    assert_string_equal(name_unique(&n, "h"), "h2");
    assert_string_equal(name_unique(&n, "h2"), "h2_2");
    assert_string_equal(name_unique(&n, "for"), "for_");
    assert_string_equal(name_unique(&n, "2x"), "t2x");
    assert_string_equal(name_unique(&n, NULL), "t");
    /* a wrong order would hide some of the list from the search */
    const char *const words[] = {"acos", "alignas", "int64_t", "lo",      "hi",    "error",
                                 "xor",  "this",    "rintf",   "wchar_t", "while", "uint8_t"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_true(name_is_reserved(words[i]));
    assert_false(name_is_reserved("weights"));
    arena_destroy(n.a);
}

static void test_breaks(void **state)
{
    (void)state;
    Arena *a = arena_create();
    StrBuf out = {.a = a};
    Emit e = {.out = &out, .depth = 1};
    emit_line(&e, "short = 1;");
    assert_string_equal(sb_text(&out), "    short = 1;\n");
    out.n = 0;
    emit_line(&e, "result = first_function_of_all(one_argument, another_argument) + "
                  "second_function(something_else_entirely, more);");
    assert_string_equal(sb_text(&out),
                        "    result = first_function_of_all(one_argument, another_argument) +\n"
                        "             second_function(something_else_entirely, more);\n");
    out.n = 0;
    emit_function(&e, "static void a_function_whose_name_is_longer_than_half_of_a_line_is",
                  "const float *restrict x, float *restrict y, int64_t lo, int64_t hi");
    for (const char *s = sb_text(&out), *end; *s; s = end + 1) {
        end = strchr(s, '\n');
        assert_true(end - s <= EMIT_WIDTH);
    }
    arena_destroy(a);
}

typedef struct {
    Ctx *cx;
    KText t;
} Scene;

static Scene scene(Target target)
{
    Scene s = {.cx = ctx_create()};
    Program *p = program_create(s.cx, sym_of(s.cx->names, "m"));
    Kernel *k = kernel_create(p, sym_of(s.cx->names, "k"), CLASS_MAP);
    StrBuf *out = arena_new(s.cx->perm, StrBuf);
    out->a = s.cx->perm;
    s.t = ktext_begin(p, k, target, out);
    return s;
}

static void test_sizes(void **state)
{
    (void)state;
    Scene s = scene(TARGET_CUDA);
    DimTable *d = s.cx->dims;
    Symbol B = dim_new_symbol(d, SYM_SIZE, sym_of(s.cx->names, "B"), (Dim){0});
    Symbol i = dim_new_symbol(d, SYM_AXIS, sym_of(s.cx->names, "i"), dim_const(d, 1000));
    ktext_symbol(&s.t, B, "B", false);
    ktext_symbol(&s.t, i, "i", false);
    Dim b = dim_of(d, B), x = dim_of(d, i), c = dim_const(d, 32);
    assert_string_equal(ktext_dim(&s.t, dim_add(d, dim_mul(d, x, c), dim_const(d, 5))).text,
                        "i * 32 + 5");
    /* B may be 2^31 - 1: the product needs 64 bit, and only there */
    assert_string_equal(ktext_dim(&s.t, dim_mul(d, b, c)).text, "(long long)B * 32");
    assert_string_equal(ktext_dim(&s.t, dim_mod(d, x, c)).text, "i % 32");
    assert_string_equal(ktext_dim(&s.t, dim_add(d, dim_mod(d, x, c), dim_const(d, 64))).text,
                        "64 + i % 32");
    assert_string_equal(ktext_dim(&s.t, dim_floordiv(d, x, c)).text, "i / 32");
    assert_string_equal(ktext_dim(&s.t, dim_sub(d, dim_const(d, 9), x)).text, "9 - i");
    /* products and sums that an int does not hold, though their parts fit */
    const Dim far = dim_const(d, 1 << 28);
    assert_string_equal(ktext_dim(&s.t, dim_mul(d, dim_mod(d, x, c), far)).text,
                        "(long long)(i % 32) * 268435456");
    assert_string_equal(ktext_dim(&s.t, dim_add(d, dim_mod(d, x, c), dim_const(d, INT32_MAX))).text,
                        "2147483647 + (long long)(i % 32)");
    const Dim huge = dim_const(d, -INT32_MAX);
    assert_string_equal(ktext_dim(&s.t, dim_add(d, dim_add(d, b, x), huge)).text,
                        "(long long)B + i - 2147483647");
    assert_string_equal(ktext_dim(&s.t, dim_const(d, 0)).text, "0");
    ctx_destroy(s.cx);
}

static const char *row(Scene *s, Op op, DType type, const char *a, const char *b)
{
    bool atoms = !strchr(a, ' ');
    Text in[] = {{a, atoms ? PREC_PRIMARY : PREC_SUM}, {b, PREC_PRIMARY}, {"z", PREC_PRIMARY}};
    return op_text(&s->t, op, type, in, (uint32_t)op_info(op)->nmax).text;
}

static void test_rows(void **state)
{
    (void)state;
    Scene s = scene(TARGET_C);
    assert_string_equal(row(&s, OP_add, DT_f32, "x", "y"), "x + y");
    assert_string_equal(row(&s, OP_mul, DT_f32, "x + 1.0f", "y"), "(x + 1.0f) * y");
    assert_string_equal(row(&s, OP_exp, DT_f32, "x + y", ""), "tn_exp(x + y)");
    assert_string_equal(row(&s, OP_exp, DT_f64, "x + y", ""), "exp(x + y)");
    assert_string_equal(row(&s, OP_neg, DT_f32, "x + y", ""), "-(x + y)");
    assert_string_equal(row(&s, OP_relu, DT_f32, "x", ""), "x < 0.0f ? 0.0f : x");
    assert_string_equal(row(&s, OP_relu, DT_f32, "x + y", ""), "tn_relu(x + y)");
    assert_string_equal(row(&s, OP_square, DT_f64, "x - y", ""), "tn_square_f64(x - y)");
    assert_string_equal(row(&s, OP_add, DT_i32, "x", "y"), "(int32_t)((uint32_t)x + (uint32_t)y)");
    assert_string_equal(row(&s, OP_not, DT_bool, "x", ""), "!x");
    assert_string_equal(row(&s, OP_floordiv, DT_i64, "x", "y"), "tn_floordiv_i64(x, y)");
    assert_string_equal(row(&s, OP_where, DT_f32, "c", "x"), "c ? x : z");
    assert_string_equal(row(&s, OP_isfinite, DT_f64, "x", ""),
                        "fabs(x) <= 1.7976931348623157e+308");
    ctx_destroy(s.cx);
}

/* Every row prints for every type of its domain, and what it calls can be pasted. */
static void test_all_rows(void **state)
{
    (void)state;
    static const DType types[] = {DT_f64, DT_f32, DT_i64, DT_i32, DT_i16, DT_i8, DT_u8, DT_bool};
    for (int target = TARGET_C; target <= TARGET_CUDA; target++) {
        Scene s = scene((Target)target);
        for (int op = 1; op < OP_COUNT; op++) {
            const OpInfo *info = op_info((Op)op);
            for (size_t i = 0; info->pointwise && i < sizeof types / sizeof *types; i++) {
                bool real = dtype_is_float(types[i]), number = types[i] != DT_bool;
                if ((info->domain == DOM_FLOAT && !real) ||
                    (info->domain == DOM_NUMBER && !number) || (info->domain == DOM_BITS && real))
                    continue;
                const char *text = row(&s, (Op)op, types[i], "x + y", "y");
                StrBuf needed = {.a = s.cx->perm};
                paste_functions(s.cx->perm, (Target)target, text, &needed);
                for (const char *call = strstr(text, "tn_"); call; call = strstr(call + 1, "tn_")) {
                    const char *name = arena_strndup(s.cx->perm, call, strcspn(call, "("));
                    assert_non_null(
                        strstr(sb_text(&needed), arena_printf(s.cx->perm, "%s(", name)));
                }
            }
        }
        ctx_destroy(s.cx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names), cmocka_unit_test(test_breaks),   cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_rows),  cmocka_unit_test(test_all_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
