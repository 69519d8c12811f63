/* test_kernel.c: kernel text: what the verifier and the parser refuse, and what a kernel computes.
 * SPDX-License-Identifier: MIT */
#include "ir/host.h"
#include "ir/kernel_eval.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static Kernel *parse(Program *p, const char *text)
{
    uint32_t file = source_add(p->cx->sources, "kernel", text, strlen(text), false);
    return kernel_parse(p, file);
}

static Program *program(Ctx *cx)
{
    return program_create(cx, sym_of(cx->names, "m"));
}

/* The verifier's words, or NULL. */
static void refuses(const char *text, const char *words)
{
    Ctx *cx = ctx_create();
    Program *p = program(cx);
    Kernel *k = parse(p, text);
    assert_non_null(k);
    const char *why = kernel_verify(p, k);
    if (!words)
        assert_null(why);
    else {
        assert_non_null(why);
        if (!strstr(why, words))
            fail_msg("'%s' does not say '%s'", why, words);
    }
    ctx_destroy(cx);
}

static void verifier(void **state)
{
    (void)state;
    refuses("kernel k map (x: f32[N] in, y: f32[N] out) {\n"
            "  for n in 0..N grid { store y[n] = x[n] + 1.0 } }",
            NULL);
    refuses("kernel k map (x: f32[N] in, y: f32[N] out) {\n"
            "  for n in 0..N grid { store y[n] = y[n] + x[n] } }",
            "only written");
    refuses("kernel k map (x: f32[N] in) { for n in 0..N grid { store x[n] = 1.0 } }", "only read");
    refuses("kernel k map (x: f32[N] in, y: f64[N] out) {\n"
            "  for n in 0..N grid { store y[n] = x[n] } }",
            "another type");
    refuses("kernel k map (x: f32[N, 4] in, y: f32[N] out) {\n"
            "  for n in 0..N grid { for c in 0..4 lanes { store y[n] = x[n, c] } } }",
            "same element of y");
    refuses("kernel k map (x: f32[4] in, y: f32[4] out) {\n"
            "  for c in 0..4 lanes { store y[c] = x[c + 4] } }",
            "behind its end");
    refuses("kernel k map (x: f32[4] in, y: f32[4] out) {\n"
            "  for c in 0..4 lanes { store y[c] = (x[c - 4] if 4 <= c else 0.0) } }",
            NULL);
    refuses("kernel k row (x: f32[N, 4] in, y: f32[N] out) { for n in 0..N grid {\n"
            "  acc s: add f32 for c in 0..4 lanes { s <- x[n, c] } store y[n] = s } }",
            "before its total");
    refuses("kernel k row (x: f32[N, 4] in, y: f32[N] out) { for n in 0..N grid {\n"
            "  acc s: add f32 for c in 0..4 lanes { s <- x[n, c] } total s over team\n"
            "  store y[n] = s } }",
            NULL);
}

static void unreadable(const char *text)
{
    Ctx *cx = ctx_create();
    assert_null(parse(program(cx), text));
    assert_int_equal(diag_errors(cx->diags), 1);
    ctx_destroy(cx);
}

static void parser(void **state)
{
    (void)state;
    unreadable("kernel k map (x: f32[N] in) { for n in 0..N grid { store z[n] = x[n] } }");
    unreadable("kernel k map (x: f32[N] in) { for n in 0..N grid { store x[n, n] = 1.0 } }");
    unreadable("kernel k map (x: f31[N] in) { }");
    unreadable("kernel k map (y: f32[N] out) { for n in 0..N grid { store y[n] = %gone } }");
    unreadable(
        "kernel k map (y: f32[N] out) { for n in 0..N grid { store y[n] = sin(1.0, 2.0) } }");
    unreadable("kernel k map (y: f32[N] out) { for n in 0..N grid {");
}

/* Chunks, a gather with a check, and sizes in the order of first use. */
static void computes(void **state)
{
    (void)state;
    Ctx *cx = ctx_create();
    Program *p = program(cx);
    Kernel *k =
        parse(p, "kernel k map (w: f32[V] in, t: i32[N] in, y: f32[N] out) {\n"
                 "  for g in 0..(N + 3)//4 grid {\n"
                 "    for n in 4*g .. min(N, 4*g + 4) lanes {\n"
                 "      at = cast(t[n], i64)\n"
                 "      check 0 <= at and at <= V - 1\n"
                 "      store y[n] = (w[at] if 0 <= at and at <= V - 1 else 0.0) * 2.0 } } }");
    assert_non_null(k);
    assert_null(kernel_verify(p, k));
    Symbol sizes[4];
    assert_int_equal(kernel_sizes(p, k, sizes, 4), 2);
    int64_t values[64] = {0}, offset[3] = {0}, cells;
    for (uint32_t i = 0; i < 2; i++)
        values[sizes[i].id] =
            strcmp(sym_text(cx->names, dim_symbol(cx->dims, sizes[i])->name), "V") ? 6 : 3;
    assert_true(dim_eval(cx->dims, kernel_cells(p, k), values, &cells));
    assert_int_equal(cells, 2);
    ScalarValue w[3] = {{.f = 1}, {.f = 2}, {.f = 4}}, y[6] = {{.f = 9}};
    ScalarValue t[6] = {{.i = 0}, {.i = 2}, {.i = 1}, {.i = 1}, {.i = 2}, {.i = 0}};
    KernelArray operands[] = {{DT_f32, 3, w}, {DT_i32, 6, t}, {DT_f32, 6, y}};
    bool check = true;
    assert_null(kernel_eval(p, k, operands, offset, values, &check));
    assert_true(check);
    const double want[] = {2, 8, 4, 4, 8, 2};
    for (int i = 0; i < 6; i++)
        assert_true(y[i].f == want[i]);
    t[3].i = 3;
    assert_null(kernel_eval(p, k, operands, offset, values, &check));
    assert_false(check);
    assert_true(y[3].f == 0);
    ctx_destroy(cx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verifier),
        cmocka_unit_test(parser),
        cmocka_unit_test(computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
