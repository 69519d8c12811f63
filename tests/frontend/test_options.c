/* test_options.c: the command line. SPDX-License-Identifier: MIT */
#include "frontend/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 32 };

typedef struct {
    Arena *a;
    Options o;
    const char *message;
    bool ok;
} Result;

/* Splits at spaces; `~` stands for a space inside a word. */
static Result parse(Arena *a, const char *line)
{
    Result r = {.a = a};
    char *argv[MOST] = {"tenon"};
    int argc = 1;
    StrBuf message = {.a = a};
    char *text = arena_strdup(a, line);
    for (char *s = strtok(text, " "); s && argc < MOST; s = strtok(NULL, " ")) {
        for (char *c = s; *c; c++)
            if (*c == '~')
                *c = ' ';
        argv[argc++] = s;
    }
    r.ok = options_parse(a, argc, argv, &r.o, &message);
    r.message = sb_text(&message);
    return r;
}

static Result good(void **state, const char *line)
{
    const Result r = parse(*state, line);
    if (!r.ok)
        fail_msg("%s: %s", line, r.message);
    return r;
}

static void bad(void **state, const char *line, const char *message)
{
    const Result r = parse(*state, line);
    if (r.ok)
        fail_msg("%s: no message", line);
    assert_string_equal(r.message, message);
}

static int setup(void **state)
{
    *state = arena_create();
    return 0;
}

static int teardown(void **state)
{
    arena_destroy(*state);
    return 0;
}

static void defaults(void **state)
{
    const Options o = good(state, "m.tn").o;
    assert_int_equal(o.mode, MODE_executable);
    assert_string_equal(o.file, "m.tn");
    assert_true(o.cpu && o.cuda && !o.target_given);
    assert_true(o.deterministic && o.cublas && !o.fast_math);
    assert_int_equal(o.level, 2);
    assert_string_equal(o.device, "auto");
    assert_null(o.output);
}

static void modes(void **state)
{
    assert_int_equal(good(state, "-c m.tn").o.mode, MODE_compile);
    assert_int_equal(good(state, "m.tn -S").o.mode, MODE_source);
    assert_int_equal(good(state, "-shared m.tn").o.mode, MODE_shared);
    assert_int_equal(good(state, "-test m.tn").o.mode, MODE_test);
    assert_int_equal(good(state, "-check m.tn").o.mode, MODE_check);
    assert_int_equal(good(state, "--help").o.mode, MODE_help);
    assert_int_equal(good(state, "--version").o.mode, MODE_version);
    const Options ir = good(state, "-E=ir:simplify m.tn").o;
    assert_int_equal(ir.mode, MODE_show);
    assert_int_equal(ir.show, SHOW_ir);
    assert_string_equal(ir.show_pass, "simplify");
    assert_int_equal(good(state, "-E=host m.tn").o.show, SHOW_host);
    assert_int_equal(good(state, "-E m.tn").o.show, SHOW_model);
    assert_int_equal(good(state, "-report=json m.tn B=4").o.report, REPORT_json);
    assert_string_equal(good(state, "--explain E0401").o.explain, "E0401");
}

static void run_takes_operands(void **state)
{
    const Options o =
        good(state, "m.tn forward x=@x.npy -run B=16 -load w.npz -grad d_y=ones d=3 -seed 7").o;
    assert_int_equal(o.mode, MODE_run);
    assert_string_equal(o.method, "forward");
    assert_int_equal(o.operands.n, 3);
    assert_string_equal(o.operands.at[0], "x=@x.npy");
    assert_string_equal(o.operands.at[2], "d=3");
    assert_int_equal(o.cotangents.n, 1);
    assert_string_equal(o.cotangents.at[0], "d_y=ones");
    assert_string_equal(o.load, "w.npz");
    assert_true(o.seed_given);
    assert_int_equal(o.seed, 7);
    const Options none = good(state, "-run m.tn d_x=1").o;
    assert_null(none.method);
    assert_int_equal(none.operands.n, 1);
}

static void train_takes_data(void **state)
{
    const Options o = good(state, "-train m.tn d.npz -epochs 20 -batch 64 -lr 1e-3 -val 0.1 "
                                  "-save w.safetensors -resume r.npz -threads 2")
                          .o;
    assert_string_equal(o.data, "d.npz");
    assert_int_equal(o.epochs, 20);
    assert_int_equal(o.batch, 64);
    assert_true(o.lr == 1e-3 && o.val == 0.1);
    assert_string_equal(o.save, "w.safetensors");
    assert_string_equal(o.resume, "r.npz");
    assert_int_equal(o.threads, 2);
}

static void values_are_glued_or_follow(void **state)
{
    const Options o = good(state, "-Da=1 -D b=2 -I x -Iy -oout -m L(1,~2) -MF d -MD -O3 m.tn").o;
    assert_int_equal(o.defines.n, 2);
    assert_string_equal(o.defines.at[0].name, "a");
    assert_string_equal(o.defines.at[1].value, "2");
    assert_int_equal(o.include_dirs.n, 2);
    assert_string_equal(o.include_dirs.at[1], "y");
    assert_string_equal(o.output, "out");
    assert_string_equal(o.instantiate, "L(1, 2)");
    assert_true(o.depend);
    assert_string_equal(o.depend_file, "d");
    assert_int_equal(o.level, 3);
}

static void choices(void **state)
{
    const Options o =
        good(state, "-target=cpu -arch=sm_80,sm_90a -device=cuda:1 -fdtype=bf16 "
                    "-famp=f16 -fgrad=x,h -only=f,loss.step -fno-remat -fno-cublas -ftf32 -g "
                    "-fno-deterministic -fremat=all -fplace=auto m.tn")
            .o;
    assert_true(o.cpu && !o.cuda && o.target_given);
    assert_int_equal(o.arch.n, 2);
    assert_string_equal(o.arch.at[1], "sm_90a");
    assert_string_equal(o.device, "cuda:1");
    assert_int_equal(o.dtype, DT_bf16);
    assert_int_equal(o.amp, DT_f16);
    assert_string_equal(o.gradients, "x,h");
    assert_string_equal(o.only, "f,loss.step");
    assert_string_equal(o.disabled.at[0], "remat");
    assert_true(!o.cublas && o.tf32 && o.debug && !o.deterministic && o.place_auto);
}

static void warnings_reach_the_messages(void **state)
{
    Arena *a = *state;
    const Options o = good(state, "-Wall -Wno-broadcast -Werror m.tn").o;
    Diags *d = diags_create(a, sources_create(a));
    options_warnings(&o, d);
    diag_report(d, DIAG_broadcast, (Span){0}, "b");
    assert_int_equal(diag_count(d), 0);
    diag_report(d, DIAG_unused, (Span){0}, "u");
    assert_int_equal(diag_errors(d), 1);
}

static void mistakes(void **state)
{
    bad(state, "", "no file: tenon [options] FILE.tn (--help lists the options)");
    bad(state, "-tset m.tn", "unknown option '-tset'; did you mean '-test'?");
    bad(state, "-ffast-maht m.tn", "unknown option '-ffast-maht'; did you mean '-ffast-math'?");
    bad(state, "-quux m.tn", "unknown option '-quux'");
    bad(state, "-c -run m.tn", "-c and -run: choose one");
    bad(state, "-target=tpu m.tn", "-target is cpu, cuda, cpu,cuda or cuda,cpu, not 'tpu'");
    bad(state, "-target m.tn", "-target wants a value: -target=cpu|cuda|cpu,cuda");
    bad(state, "-seed=3 m.tn", "-seed takes its value as the next word");
    bad(state, "-seed x m.tn", "-seed wants a whole number of at least 0, not 'x'");
    bad(state, "-c=1 m.tn", "-c takes no value");
    bad(state, "-c m.tn -o", "-o wants FILE");
    bad(state, "-c m.tn n.tn", "'n.tn' is one word too many");
    bad(state, "-run m.tn a b", "'b' is one word too many");
    bad(state, "-train m.tn", "-train wants a file of arrays behind the model: m.tn DATA.npz");
    bad(state, "-D x m.tn", "-D wants NAME=VALUE, not 'x'");
    bad(state, "-O9 m.tn", "-O is followed by 0, 1, 2, 3 or fast, not '9'");
    bad(state, "-Wbroadcats m.tn", "there is no warning 'broadcats'; did you mean 'broadcast'?");
    bad(state, "-fno-broadcast m.tn",
        "pass 'broadcast' cannot be left out: the ones behind it need it");
    bad(state, "-fno-remta m.tn",
        "there is no pass 'remta'; did you mean 'remat'? (there are: deterministic, outline, "
        "remat, series, twice, fuse, conflicts)");
    bad(state, "-E=ir:nope m.tn",
        "there is no pass 'nope' (there are: broadcast, simplify, outline, differentiate, scan, "
        "remat, split, conv, series, dot, twice, settle, fuse, conflicts)");
    bad(state, "-E=ir:fues m.tn",
        "there is no pass 'fues'; did you mean 'fuse'? (there are: broadcast, simplify, outline, "
        "differentiate, scan, remat, split, conv, series, dot, twice, settle, fuse, conflicts)");
    bad(state, "-arch=80 m.tn", "-arch is a list of sm_NN, or native; not '80'");
    bad(state, "-O9 m.tn", "-O is followed by 0, 1, 2, 3 or fast, not '9'");
    bad(state, "-val 1 -train m.tn d", "-val wants a number X with 0 <= X < 1, not '1'");
    bad(state, "-val nan -train m.tn d", "-val wants a finite number, not 'nan'");
    bad(state, "-lr inf -train m.tn d", "-lr wants a finite number, not 'inf'");
    bad(state, "-batch 0 -train m.tn d", "-batch wants a whole number of at least 1, not '0'");
    bad(state, "-batch -5 -train m.tn d", "-batch wants a whole number of at least 1, not '-5'");
    bad(state, "-batch 99999999999999999999 -train m.tn d",
        "-batch wants a number of at most 1073741824, not '99999999999999999999'");
    bad(state, "-lr -1 -train m.tn d", "-lr wants a number above 0, not '-1'");
}

/* What a mode has no use for is refused, except how code is made: scripts pass that always. */
static void each_mode_has_its_options(void **state)
{
    bad(state, "-epochs 3 -c m.tn", "-epochs does not go with -c; it goes with -train");
    bad(state, "-val 0 -run m.tn", "-val does not go with -run; it goes with -train");
    bad(state, "-o w.npz -train m.tn d.npz",
        "-o does not go with -train: -save FILE says where the state goes");
    bad(state, "-target=cuda -train m.tn d.npz",
        "-target does not go with -train: -device says where it runs");
    bad(state, "-target=cpu -run m.tn",
        "-target does not go with -run: -device says where it runs");
    bad(state, "-o x -check m.tn",
        "-o does not go with -check; it goes with an executable, -c, -S, -shared, -run, -E and "
        "-report");
    bad(state, "-load w.npz m.tn",
        "-load does not go with an executable; it goes with -run and -train");
    bad(state, "-seed 3 -report m.tn",
        "-seed does not go with -report; it goes with -run, -train and -test");
    bad(state, "-MD -run m.tn",
        "-MD does not go with -run; it goes with an executable, -c, -S and -shared");
    bad(state, "-grad -train m.tn d", "-grad does not go with -train; it goes with -run");
    bad(state, "-python m.tn",
        "-python does not go with an executable; it goes with -S and -shared");
    bad(state, "-c -MF d m.tn", "-MF names the file that -MD writes: give -MD too");
    bad(state, "-train m.tn d -load a.npz -resume b.npz",
        "-load and -resume: choose one; -resume brings the weights too");
    static const char *const all[] = {"-c", "-S",     "-shared", "-run", "-train",
                                      "-E", "-check", "-report", "-test"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        StrBuf line = {.a = *state};
        sb_printf(&line, "%s m.tn %s -v -w -g -Wall -Werror -O3 -ffast-math -I x -D a=1 -threads 2",
                  all[i], strcmp(all[i], "-train") ? "" : "d.npz");
        good(state, sb_text(&line));
    }
}

static void help_goes_with_anything(void **state)
{
    assert_int_equal(good(state, "-run --help").o.mode, MODE_help);
    assert_int_equal(good(state, "--help -c m.tn n.tn").o.mode, MODE_help);
    assert_int_equal(good(state, "-train --version").o.mode, MODE_version);
}

/* A row without an effect would end the process in options.c; here each is given once. */
static void every_row_does_something(void **state)
{
    OptionRow row;
    for (int i = 0; options_row(i, &row); i++) {
        if (row.section)
            continue;
        StrBuf line = {.a = *state};
        sb_printf(&line, "%s", row.spelling);
        char first[64];
        const size_t n = strcspn(row.argument, "|");
        snprintf(first, sizeof first, "%.*s", (int)(n < 60 ? n : 60), row.argument);
        if (*row.argument)
            sb_printf(&line, "%s%s", *row.separator ? row.separator : "", first);
        parse(*state, sb_text(&line));
        assert_true(*row.help);
    }
}

static void help_lists_every_row(void **state)
{
    StrBuf help = {.a = *state};
    options_help(&help);
    OptionRow row;
    for (int i = 0; options_row(i, &row); i++)
        assert_non_null(strstr(sb_text(&help), row.section ? row.section : row.spelling));
    const char *line = sb_text(&help);
    for (const char *end; (end = strchr(line, '\n')); line = end + 1)
        assert_true(end - line <= 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(modes, setup, teardown),
        cmocka_unit_test_setup_teardown(run_takes_operands, setup, teardown),
        cmocka_unit_test_setup_teardown(train_takes_data, setup, teardown),
        cmocka_unit_test_setup_teardown(values_are_glued_or_follow, setup, teardown),
        cmocka_unit_test_setup_teardown(choices, setup, teardown),
        cmocka_unit_test_setup_teardown(warnings_reach_the_messages, setup, teardown),
        cmocka_unit_test_setup_teardown(mistakes, setup, teardown),
        cmocka_unit_test_setup_teardown(each_mode_has_its_options, setup, teardown),
        cmocka_unit_test_setup_teardown(help_goes_with_anything, setup, teardown),
        cmocka_unit_test_setup_teardown(every_row_does_something, setup, teardown),
        cmocka_unit_test_setup_teardown(help_lists_every_row, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
