/* test_diag.c: how messages are shown. SPDX-License-Identifier: MIT */
#include "ir/base/diag.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
    Arena *a;
    Sources *sources;
    Diags *d;
    uint32_t file;
    const char *text;
} World;

static World begin(const char *text)
{
    World w = {.a = arena_create(), .text = text};
    w.sources = sources_create(w.a);
    w.d = diags_create(w.a, w.sources);
    w.file = source_add(w.sources, "m.tn", text, strlen(text), false);
    return w;
}

/* The first place of `part` in the text. */
static Span at(const World *w, const char *part)
{
    const char *s = strstr(w->text, part);
    assert_non_null(s);
    const uint32_t start = (uint32_t)(s - w->text);
    return (Span){w->file, start, start + (uint32_t)strlen(part)};
}

static void expect(World *w, DiagStyle style, const char *want)
{
    StrBuf out = {.a = w->a};
    diag_render(w->d, style, &out);
    assert_string_equal(sb_text(&out), want);
    arena_destroy(w->a);
}

static void caret_ranges_and_notes(void **state)
{
    (void)state;
    World w = begin("    let gates = cat([h, x]) @ weights.T + bias\n");
    Diag *d = diag_report(w.d, DIAG_shape_mismatch, at(&w, "@"), "cannot multiply %s by %s",
                          "[B, f]", "[2, f]");
    diag_range(d, at(&w, "cat([h, x])"));
    diag_range(d, at(&w, "weights.T"));
    diag_note(w.d, d, (Span){0}, "inner dims are f and 2");
    diag_note(w.d, d, at(&w, "bias"), "declared here");
    diag_fix(w.d, d, at(&w, "weights.T"), "weights");
    expect(&w, (DiagStyle){0},
           "m.tn:1:29: error: cannot multiply [B, f] by [2, f]\n"
           "    let gates = cat([h, x]) @ weights.T + bias\n"
           "                ~~~~~~~~~~~ ^ ~~~~~~~~~\n"
           "note: inner dims are f and 2\n"
           "m.tn:1:43: note: declared here\n"
           "    let gates = cat([h, x]) @ weights.T + bias\n"
           "                                          ^~~~\n"
           "fix: write 'weights' for 'weights.T'\n");
}

static void sorted_once_each_and_limited(void **state)
{
    (void)state;
    World w = begin("a\nb\nc\n");
    diag_report(w.d, DIAG_unknown_name, at(&w, "c"), "third");
    diag_report(w.d, DIAG_unknown_name, at(&w, "a"), "first");
    diag_report(w.d, DIAG_unknown_name, at(&w, "b"), "second");
    diag_report(w.d, DIAG_unknown_name, at(&w, "a"), "first");
    assert_int_equal(diag_errors(w.d), 4);
    expect(&w, (DiagStyle){.limit = 2},
           "m.tn:1:1: error: first\na\n^\n"
           "m.tn:2:1: error: second\nb\n^\n"
           "1 more error not shown\n");
}

static void columns_of_tabs_and_wide_text(void **state)
{
    (void)state;
    World w = begin("\tx = \"h\xC3\xA9\xE6\x97\xA5\" + y\n");
    diag_report(w.d, DIAG_unknown_name, at(&w, "y"), "no y");
    expect(&w, (DiagStyle){0},
           "m.tn:1:17: error: no y\n"
           "    x = \"h\xC3\xA9\xE6\x97\xA5\" + y\n"
           "                 ^\n");
}

static void bytes_that_are_no_text_do_no_harm(void **state)
{
    (void)state;
    World w = begin("a\x1b[31m\xff b\n");
    diag_report(w.d, DIAG_unknown_name, at(&w, "b"), "no b");
    expect(&w, (DiagStyle){0},
           "m.tn:1:9: error: no b\n"
           "a\xEF\xBF\xBD[31m\xEF\xBF\xBD b\n"
           "        ^\n");
}

static void past_the_end_of_a_line(void **state)
{
    (void)state;
    World w = begin("ab");
    diag_report(w.d, DIAG_syntax, (Span){w.file, 2, 2}, "unexpected end of file");
    expect(&w, (DiagStyle){0}, "m.tn:1:3: error: unexpected end of file\nab\n  ^\n");
}

static void without_a_place(void **state)
{
    (void)state;
    World w = begin("");
    diag_report(w.d, DIAG_file, (Span){0}, "no such file");
    expect(&w, (DiagStyle){0}, "tenon: error: no such file\n");
}

static void quoted_control_characters_are_not_shown(void **state)
{
    (void)state;
    World w = begin("ab");
    Diag *d = diag_report(w.d, DIAG_assertion, at(&w, "b"), "say \"\033[31m\x80\xC3\xA9\"");
    diag_note(w.d, d, (Span){0}, "a\rb");
    expect(&w, (DiagStyle){0},
           "m.tn:1:2: error: say \"\xEF\xBF\xBD[31m\xEF\xBF\xBD\xC3\xA9\"\nab\n ^\n"
           "note: a\xEF\xBF\xBD"
           "b\n");
}

static void a_line_with_a_zero_byte_is_not_shown(void **state)
{
    (void)state;
    Arena *a = arena_create();
    Sources *s = sources_create(a);
    const uint32_t file = source_add(s, "m.tn", "a\0b", 3, false);
    Diags *d = diags_create(a, s);
    diag_report(d, DIAG_file, (Span){file, 1, 2}, "no text");
    StrBuf out = {.a = a};
    diag_render(d, (DiagStyle){0}, &out);
    assert_string_equal(sb_text(&out), "m.tn:1:2: error: no text\n");
    arena_destroy(a);
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    char text[2001];
    memset(text, 'x', 2000);
    text[1000] = 'y';
    text[2000] = 0;
    World w = begin(text);
    StrBuf out = {.a = w.a};
    diag_report(w.d, DIAG_unknown_name, at(&w, "y"), "no y");
    diag_render(w.d, (DiagStyle){0}, &out);
    const char *line = strchr(sb_text(&out), '\n') + 1;
    const char *under = strchr(line, '\n') + 1;
    assert_true(under - line < 300);
    assert_int_equal(strchr(line, 'y') - line, strchr(under, '^') - under);
    arena_destroy(w.a);
}

static void json(void **state)
{
    (void)state;
    World w = begin("a \"q\"\n");
    Diag *d = diag_report(w.d, DIAG_unknown_name, at(&w, "a"), "no \"a\"\n");
    diag_note(w.d, d, (Span){0}, "a\\b");
    diag_fix(w.d, d, at(&w, "a"), "b");
    expect(&w, (DiagStyle){.json = true},
           "[{\"severity\": \"error\", \"code\": \"E0201\", \"name\": \"unknown_name\", "
           "\"message\": \"no \\\"a\\\"\\n\", \"file\": \"m.tn\", \"line\": 1, \"column\": 1, "
           "\"end_line\": 1, \"end_column\": 2, \"ranges\": [], \"notes\": [{\"message\": "
           "\"a\\\\b\"}], \"fix\": {\"file\": \"m.tn\", \"line\": 1, \"column\": 1, "
           "\"end_line\": 1, \"end_column\": 2, \"text\": \"b\"}}]\n");
    World none = begin("");
    expect(&none, (DiagStyle){.json = true}, "[]\n");
}

static void warning_switches(void **state)
{
    (void)state;
    World w = begin("a\n");
    diag_report(w.d, DIAG_broadcast, at(&w, "a"), "larger");
    assert_int_equal(diag_errors(w.d), 0);
    assert_int_equal(diag_count(w.d), 1);
    diag_warnings_are_errors(w.d, true);
    assert_int_equal(diag_errors(w.d), 1);
    diag_no_warnings(w.d, true);
    assert_int_equal(diag_count(w.d), 0);
    diag_no_warnings(w.d, false);
    assert_true(diag_enable(w.d, "broadcast", false));
    assert_int_equal(diag_count(w.d), 0);
    assert_false(diag_enable(w.d, "syntax", true));
    assert_true(diag_enable(w.d, "all", true));
    diag_warnings_are_errors(w.d, false);
    expect(&w, (DiagStyle){0}, "m.tn:1:1: warning: larger [-Wbroadcast]\na\n^\n");
}

static void nearest(void **state)
{
    (void)state;
    static const char *const names[] = {"softmax", "sigmoid", "relu", "b"};
    assert_string_equal(diag_nearest("sofmtax", names, 4), "softmax");
    assert_string_equal(diag_nearest("ReLU", names, 4), "relu");
    assert_null(diag_nearest("a", names, 4));
    assert_null(diag_nearest("linear", names, 4));
    assert_null(diag_nearest("relu", NULL, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caret_ranges_and_notes),
        cmocka_unit_test(sorted_once_each_and_limited),
        cmocka_unit_test(columns_of_tabs_and_wide_text),
        cmocka_unit_test(bytes_that_are_no_text_do_no_harm),
        cmocka_unit_test(past_the_end_of_a_line),
        cmocka_unit_test(without_a_place),
        cmocka_unit_test(quoted_control_characters_are_not_shown),
        cmocka_unit_test(a_line_with_a_zero_byte_is_not_shown),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(json),
        cmocka_unit_test(warning_switches),
        cmocka_unit_test(nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
