/* test_write.c: an expression that is written and read again is the same expression.
 * SPDX-License-Identifier: MIT */
#include "frontend/ast.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Reads one expression, writes it in the user's way. */
static const char *rewrite(Arena *a, const char *text)
{
    Interner *names = intern_create(a);
    Sources *sources = sources_create(a);
    Diags *diags = diags_create(a, sources);
    const ParseCtx ctx = {a, names, sources, diags};
    const AstExpr *e = parse_expr(&ctx, source_add(sources, "-m", text, strlen(text), false));
    if (!e)
        return NULL;
    StrBuf out = {.a = a};
    ast_write_expr(&out, names, e);
    return sb_text(&out);
}

static void written_as_read(void **state)
{
    (void)state;
    static const char *const same[] = {
        "2 * state",
        "-a ** 2",
        "(-a) ** 2",
        "a ** -b",
        "(a ** b) ** c",
        "a - (b - c)",
        "a - b - c",
        "(a + b) * c",
        "not a == b",
        "(a or b) and c",
        "a ? b : c ? d : e",
        "(a ? b : c) ? d : e",
        "x[0, a:b, ::2, ..., none]",
        "f(a, axis = 1, *xs)",
        "[f(a, b) for a, b in xs if c]",
        "m.blocks[0].weight.T @ x",
        "[a, *b]",
        "\"a\\n\"",
        "1.0",
        "cuda:1",
        "bf16",
        "(a == b) == c",
        "a not in b",
        "LLTM(32, 128)",
        "~a & b",
        "(a, b)[0]",
        "1e-05",
        "true",
    };
    static const char *const becomes[][2] = {{"(a, b)[0]", "[a, b][0]"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        Arena *a = arena_create();
        const char *want = same[i];
        for (size_t k = 0; k < sizeof becomes / sizeof *becomes; k++)
            if (!strcmp(want, becomes[k][0]))
                want = becomes[k][1];
        const char *got = rewrite(a, same[i]);
        assert_non_null(got);
        assert_string_equal(got, want);
        arena_destroy(a);
    }
}

static void only_one_expression(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",   "a b",   "let x = 1",           "a;b",
                                        "f(", "x = 1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Arena *a = arena_create();
        assert_null(rewrite(a, wrong[i]));
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_as_read),
        cmocka_unit_test(only_one_expression),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
