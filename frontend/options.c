/* options.c: reads the command line by the rows of options.def.
 * SPDX-License-Identifier: MIT */
#include "frontend/options.h"

#include "ir/base/die.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { FORM_FLAG, FORM_EQUAL, FORM_NEXT, FORM_GLUED, FORM_PREFIX, FORM_SECTION } Form;

typedef enum {
    OPT_section,
#define SECTION(title)
#define OPTION(id, modes, form, spelling, argument, help) OPT_##id,
#include "frontend/options.def"
} Id;

enum { MOST_THREADS = 256 }; /* as the runtime has it */

/* Sets of modes. */
enum {
    RUN = 1 << MODE_run,
    TRAIN = 1 << MODE_train,
    TEST = 1 << MODE_test,
    SHOW = 1 << MODE_show,
    REPORT = 1 << MODE_report,
    SOURCE = 1 << MODE_source,
    LIBRARY = SOURCE | 1 << MODE_shared,
    CODE = SOURCE | 1 << MODE_compile | 1 << MODE_shared | 1 << MODE_executable,
    ANY = (1 << (MODE_explain + 1)) - 1
};

typedef struct {
    Id id;
    int modes;
    Form form;
    const char *spelling, *argument, *help;
} Row;

static const Row rows[] = {
#define SECTION(title) {OPT_section, ANY, FORM_SECTION, "", "", title},
#define OPTION(id, modes, form, spelling, argument, help)                                          \
    {OPT_##id, modes, FORM_##form, spelling, argument, help},
#include "frontend/options.def"
};

/* What -W and -fno- may be followed by. */
static const char *const warning_names[] = {
#define SEV_NAME_ERROR(name)
#define SEV_NAME_WARNING(name)           name,
#define SEV_NAME_EXTRA(name)             name,
#define DIAG(code, name, severity, text) SEV_NAME_##severity(#name)
#include "ir/base/diag.def"
#undef DIAG
};

typedef struct {
    const char *name;
    bool required;
} PassName;
static const PassName pass_names[] = {
#define PASS(name, required, doc) {#name, required},
#include "passes/passes.def"
#undef PASS
    {"fuse", false}, /* not of the tensor pipeline, but left out the same way */
    {"conflicts", false},
};

typedef struct {
    Arena *a;
    int argc, at;
    char *const *argv;
    Options *o;
    StrBuf *message;
    const char *mode; /* the option that chose it */
    bool given[ARRAY_LEN(rows)];
} Reader;

static bool fail(Reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool fail(Reader *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    sb_vprintf(r->message, fmt, ap);
    va_end(ap);
    return false;
}

static const char *suggestion(Reader *r, const char *word, const char *const *names, int n)
{
    const char *best = diag_nearest(word, names, n);
    return best ? arena_printf(r->a, "; did you mean '%s'?", best) : "";
}

static bool unknown_pass(Reader *r, const char *name, const char *const *known, int n)
{
    fail(r, "there is no pass '%s'%s (there are: ", name, suggestion(r, name, known, n));
    for (int i = 0; i < n; i++)
        sb_printf(r->message, "%s%s", known[i], i < n - 1 ? ", " : ")");
    return false;
}

/* ---- values ---- */

static bool read_int(Reader *r, const char *what, const char *text, long long least, long long most,
                     long long *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end || *out < least)
        return fail(r, "%s wants a whole number of at least %lld, not '%s'", what, least, text);
    if (errno || *out > most)
        return fail(r, "%s wants a number of at most %lld, not '%s'", what, most, text);
    return true;
}

static bool read_count(Reader *r, const char *what, const char *text, int *out)
{
    long long n;
    if (!read_int(r, what, text, 1, 1 << 30, &n))
        return false;
    *out = (int)n;
    return true;
}

static bool read_real(Reader *r, const char *what, const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end == text || *end || !isfinite(*out))
        return fail(r, "%s wants a finite number, not '%s'", what, text);
    return true;
}

/* The index of `text` in names, which end with NULL; -1 after a message. */
static int read_choice(Reader *r, const char *what, const char *text, const char *const *names)
{
    int n = 0;
    StrBuf list = {.a = r->a};
    for (; names[n]; n++) {
        if (!strcmp(names[n], text))
            return n;
        sb_printf(&list, "%s%s", !n ? "" : names[n + 1] ? ", " : " or ", names[n]);
    }
    fail(r, "%s is %s, not '%s'", what, sb_text(&list), text);
    return -1;
}

static bool read_target(Reader *r, const char *text)
{
    static const char *const names[] = {"cpu", "cuda", "cpu,cuda", "cuda,cpu", NULL};
    const int i = read_choice(r, "-target", text, names);
    if (i < 0)
        return false;
    r->o->target_given = true;
    r->o->cpu = i != 1;
    r->o->cuda = i != 0;
    return true;
}

static bool read_arch(Reader *r, const char *text)
{
    for (const char *s = text; *s;) {
        const size_t n = strcspn(s, ",");
        const char *name = arena_strndup(r->a, s, n);
        const size_t digits = strncmp(name, "sm_", 3) ? 0 : strspn(name + 3, "0123456789");
        const char *rest = name + 3 + digits;
        const bool is_sm = digits >= 2 && (!*rest || !strcmp(rest, "a") || !strcmp(rest, "f"));
        if (!is_sm && strcmp(name, "native"))
            return fail(r, "-arch is a list of sm_NN, or native; not '%s'", name);
        vec_push(r->a, &r->o->arch, name);
        s += n + (s[n] == ',');
    }
    return r->o->arch.n ? true : fail(r, "-arch wants a list such as sm_80,sm_90a");
}

/* What the C compiler calls processors; it knows which there are. */
static bool read_march(Reader *r, const char *text)
{
    for (const char *s = text; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr("-_.+", *s))
            return fail(r, "-march is native or a processor's name, such as x86-64-v3; not '%s'",
                        text);
    r->o->march = text;
    return *text ? true : fail(r, "-march wants native or a processor's name, such as x86-64-v3");
}

static bool read_device(Reader *r, const char *text)
{
    const bool is_gpu =
        !strncmp(text, "cuda:", 5) && text[5] && strspn(text + 5, "0123456789") == strlen(text + 5);
    if (!is_gpu && strcmp(text, "cpu") && strcmp(text, "cuda") && strcmp(text, "auto"))
        return fail(r, "-device is cpu, cuda, cuda:N or auto, not '%s'", text);
    r->o->device = text;
    return true;
}

static bool read_dtype(Reader *r, const char *what, const char *text, bool may_be_none, DType *out)
{
    static const char *const floats[] = {"f32", "f64", "bf16", "f16", NULL};
    static const char *const halves[] = {"none", "bf16", "f16", NULL};
    static const DType float_types[] = {DT_f32, DT_f64, DT_bf16, DT_f16};
    static const DType half_types[] = {DT_none, DT_bf16, DT_f16};
    const int i = read_choice(r, what, text, may_be_none ? halves : floats);
    if (i >= 0)
        *out = may_be_none ? half_types[i] : float_types[i];
    return i >= 0;
}

static bool read_define(Reader *r, const char *text)
{
    const char *equal = strchr(text, '=');
    if (!equal || equal == text || !equal[1])
        return fail(r, "-D wants NAME=VALUE, not '%s'", text);
    const Define d = {arena_strndup(r->a, text, (size_t)(equal - text)), equal + 1};
    vec_push(r->a, &r->o->defines, d);
    return true;
}

static bool read_level(Reader *r, const char *text)
{
    if (!strcmp(text, "fast")) {
        r->o->level = 3;
        r->o->fast_math = true;
        return true;
    }
    if (text[0] < '0' || text[0] > '3' || text[1])
        return fail(r, "-O is followed by 0, 1, 2, 3 or fast, not '%s'", text);
    r->o->level = text[0] - '0';
    return true;
}

static bool read_warning(Reader *r, const char *text)
{
    const int n = (int)ARRAY_LEN(warning_names);
    const bool off = !strncmp(text, "no-", 3);
    const char *name = off ? text + 3 : text;
    bool found = !strcmp(name, "all");
    for (int i = 0; i < n && !found; i++)
        found = !strcmp(name, warning_names[i]);
    if (off && !strcmp(name, "error")) {
        r->o->werror = false;
        return true;
    }
    if (!found)
        return fail(r, "there is no warning '%s'%s", name, suggestion(r, name, warning_names, n));
    vec_push(r->a, &r->o->warnings, ((WarningSwitch){name, !off}));
    return true;
}

static bool read_no_pass(Reader *r, const char *name)
{
    const char *known[ARRAY_LEN(pass_names) + 1] = {"deterministic"};
    int n = 1;
    if (!strcmp(name, "cublas")) {
        r->o->cublas = false;
        return true;
    }
    if (!strcmp(name, "deterministic")) {
        r->o->deterministic = false;
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(pass_names); i++) {
        if (strcmp(name, pass_names[i].name)) {
            if (!pass_names[i].required)
                known[n++] = pass_names[i].name;
            continue;
        }
        if (pass_names[i].required)
            return fail(r, "pass '%s' cannot be left out: the ones behind it need it", name);
        vec_push(r->a, &r->o->disabled, name);
        return true;
    }
    return unknown_pass(r, name, known, n);
}

static bool read_show(Reader *r, const char *text)
{
    static const char *const names[] = {"model", "ast", "ir", "kernels", "host", "dot", NULL};
    if (!strncmp(text, "ir:", 3)) {
        const char *known[ARRAY_LEN(pass_names)];
        bool found = false;
        for (size_t i = 0; i < ARRAY_LEN(pass_names); i++) {
            known[i] = pass_names[i].name;
            found |= !strcmp(known[i], text + 3);
        }
        if (!found)
            return unknown_pass(r, text + 3, known, (int)ARRAY_LEN(known));
        r->o->show = SHOW_ir;
        r->o->show_pass = text + 3;
        return true;
    }
    const int i = read_choice(r, "-E", text, names);
    if (i >= 0)
        r->o->show = (ShowStage)i;
    return i >= 0;
}

static bool read_remat(Reader *r, const char *text)
{
    if (!*text || (strspn(text, "0123456789") != strlen(text) && strcmp(text, "none") &&
                   strcmp(text, "auto") && strcmp(text, "all")))
        return fail(r, "-fremat is none, auto, all or a number of bytes, not '%s'", text);
    r->o->remat = text;
    return true;
}

/* ---- one option ---- */

static bool is_about(Mode mode)
{
    return mode == MODE_help || mode == MODE_version;
}

static bool set_mode(Reader *r, Mode mode, const char *spelling)
{
    if (r->mode && is_about(r->o->mode)) /* `tenon -run --help` asks for help */
        return true;
    if (r->mode && !is_about(mode) && r->o->mode != mode)
        return fail(r, "%s and %s: choose one", r->mode, spelling);
    r->o->mode = mode;
    r->mode = spelling;
    return true;
}

static bool apply_mode(Reader *r, const Row *row, const char *value)
{
    static const char *const forms[] = {"text", "json", "html", NULL};
    Options *o = r->o;
    int i;
    switch (row->id) {
    case OPT_compile:
        return set_mode(r, MODE_compile, row->spelling);
    case OPT_source:
        return set_mode(r, MODE_source, row->spelling);
    case OPT_shared:
        return set_mode(r, MODE_shared, row->spelling);
    case OPT_run:
        return set_mode(r, MODE_run, row->spelling);
    case OPT_train:
        return set_mode(r, MODE_train, row->spelling);
    case OPT_test:
        return set_mode(r, MODE_test, row->spelling);
    case OPT_check:
        return set_mode(r, MODE_check, row->spelling);
    case OPT_show:
        return set_mode(r, MODE_show, row->spelling);
    case OPT_show_stage:
        return set_mode(r, MODE_show, row->spelling) && read_show(r, value);
    case OPT_report:
        return set_mode(r, MODE_report, row->spelling);
    case OPT_report_form:
        i = read_choice(r, row->spelling, value, forms);
        o->report = i < 0 ? REPORT_text : (ReportForm)i;
        return i >= 0 && set_mode(r, MODE_report, row->spelling);
    case OPT_help:
        return set_mode(r, MODE_help, row->spelling);
    case OPT_version:
        return set_mode(r, MODE_version, row->spelling);
    case OPT_explain:
        o->explain = value;
        return set_mode(r, MODE_explain, row->spelling);
    default:
        die("option %s does nothing", row->spelling);
    }
}

static bool apply_number(Reader *r, const Row *row, const char *value)
{
    Options *o = r->o;
    long long n;
    switch (row->id) {
    case OPT_seed:
        if (!read_int(r, row->spelling, value, 0, INT64_MAX, &n))
            return false;
        o->seed = (uint64_t)n;
        o->seed_given = true;
        return true;
    case OPT_epochs:
        return read_count(r, row->spelling, value, &o->epochs);
    case OPT_batch:
        return read_count(r, row->spelling, value, &o->batch);
    case OPT_threads:
        if (!read_int(r, row->spelling, value, 1, MOST_THREADS, &n))
            return false;
        o->threads = (int)n;
        return true;
    case OPT_lr:
        if (!read_real(r, row->spelling, value, &o->lr))
            return false;
        return o->lr > 0 || fail(r, "-lr wants a number above 0, not '%s'", value);
    case OPT_val:
        if (!read_real(r, row->spelling, value, &o->val))
            return false;
        return (o->val >= 0 && o->val < 1) ||
               fail(r, "-val wants a number X with 0 <= X < 1, not '%s'", value);
    default:
        return apply_mode(r, row, value);
    }
}

static bool apply_choice(Reader *r, const Row *row, const char *value)
{
    static const char *const places[] = {"none", "auto", NULL};
    static const char *const forms[] = {"text", "json", NULL};
    Options *o = r->o;
    int i;
    switch (row->id) {
    case OPT_define:
        return read_define(r, value);
    case OPT_target:
        return read_target(r, value);
    case OPT_arch:
        return read_arch(r, value);
    case OPT_march:
        return read_march(r, value);
    case OPT_device:
        return read_device(r, value);
    case OPT_place:
        i = read_choice(r, row->spelling, value, places);
        o->place_auto = i == 1;
        return i >= 0;
    case OPT_dtype:
        return read_dtype(r, row->spelling, value, false, &o->dtype);
    case OPT_amp:
        return read_dtype(r, row->spelling, value, true, &o->amp);
    case OPT_remat:
        return read_remat(r, value);
    case OPT_level:
        return read_level(r, value);
    case OPT_no_pass:
        return read_no_pass(r, value);
    case OPT_warning:
        return read_warning(r, value);
    case OPT_diagnostics:
        i = read_choice(r, row->spelling, value, forms);
        o->json = i == 1;
        return i >= 0;
    default:
        return apply_number(r, row, value);
    }
}

/* Where an option is just a text or a switch, the place that it goes to. */
static const char **text_of(Options *o, Id id)
{
    switch (id) {
    case OPT_output:
        return &o->output;
    case OPT_instantiate:
        return &o->instantiate;
    case OPT_depend_file:
        return &o->depend_file;
    case OPT_only:
        return &o->only;
    case OPT_gradients:
        return &o->gradients;
    case OPT_load:
        return &o->load;
    case OPT_save:
        return &o->save;
    case OPT_resume:
        return &o->resume;
    default:
        return NULL;
    }
}

static bool *switch_of(Options *o, Id id)
{
    switch (id) {
    case OPT_bench:
        return &o->bench;
    case OPT_python:
        return &o->python;
    case OPT_depend:
        return &o->depend;
    case OPT_fast_math:
        return &o->fast_math;
    case OPT_tune:
        return &o->tune;
    case OPT_tf32:
        return &o->tf32;
    case OPT_deterministic:
        return &o->deterministic;
    case OPT_debug:
        return &o->debug;
    case OPT_werror:
    case OPT_wx:
        return &o->werror;
    case OPT_no_warnings:
        return &o->no_warnings;
    case OPT_grad:
        return &o->grad;
    case OPT_training:
        return &o->training;
    case OPT_verbose:
        return &o->verbose;
    default:
        return NULL;
    }
}

static bool apply(Reader *r, const Row *row, const char *value)
{
    const char **text = text_of(r->o, row->id);
    bool *on = switch_of(r->o, row->id);
    if (on) {
        *on = true;
    } else if (text) {
        if (!*value)
            return fail(r, "%s wants %s", row->spelling, row->argument);
        *text = value;
    } else if (row->id == OPT_include) {
        vec_push(r->a, &r->o->include_dirs, value);
    } else if (row->id == OPT_all_warnings) {
        vec_push(r->a, &r->o->warnings, ((WarningSwitch){"all", true}));
    } else {
        return apply_choice(r, row, value);
    }
    return true;
}

/* ---- which option is it ---- */

/* Whether the word has the row's form; *value gets what it says, NULL: the next word does. */
static bool fits(const Row *row, const char *word, const char **value)
{
    const size_t n = strlen(row->spelling);
    *value = "";
    if (row->form == FORM_SECTION || strncmp(word, row->spelling, n))
        return false;
    const char *rest = word + n;
    switch (row->form) {
    case FORM_FLAG:
        return !*rest;
    case FORM_EQUAL:
        *value = rest + 1;
        return *rest == '=';
    case FORM_NEXT:
        *value = NULL;
        return !*rest;
    case FORM_GLUED:
        *value = *rest ? rest : NULL;
        return true;
    default:
        *value = rest;
        return *rest;
    }
}

static const Row *find_row(const char *word, const char **value)
{
    const Row *best = NULL;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *v;
        if (!fits(&rows[i], word, &v) ||
            (best && strlen(best->spelling) >= strlen(rows[i].spelling)))
            continue;
        best = &rows[i];
        *value = v;
    }
    return best;
}

static bool unknown(Reader *r, const char *word)
{
    const char *names[ARRAY_LEN(rows)];
    int n = 0;
    const size_t stem = strcspn(word, "=");
    const bool has_value = word[stem] == '=';
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].form == FORM_PREFIX && !strcmp(rows[i].spelling, word))
            return fail(r, "%s wants %s right behind it", word, rows[i].argument);
        if (rows[i].form == FORM_SECTION || rows[i].form == FORM_PREFIX)
            continue;
        /* the option without its value, or with one that it does not take */
        if (!has_value && !strcmp(rows[i].spelling, word))
            return fail(r, "%s wants a value: %s=%s", word, word, rows[i].argument);
        if (has_value && strlen(rows[i].spelling) == stem && !strncmp(rows[i].spelling, word, stem))
            return fail(r,
                        rows[i].form == FORM_NEXT ? "%s takes its value as the next word"
                                                  : "%s takes no value",
                        rows[i].spelling);
        names[n++] = rows[i].spelling;
    }
    const char *name = arena_strndup(r->a, word, stem);
    return fail(r, "unknown option '%s'%s", word, suggestion(r, name, names, n));
}

/* An option that is spelt like a short one with its value glued on, but is a long one misspelt:
 * `-outptu` is no `-o`. Only files and folders may be glued to -o, -m; nothing that is nearly a
 * row. */
static bool is_misspelt(Reader *r, const Row *row, const char *word)
{
    if (row->form != FORM_GLUED || strlen(word) == strlen(row->spelling) || strlen(word) < 5)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *one[] = {rows[i].spelling};
        if (rows[i].form != FORM_SECTION && strlen(one[0]) > 3 && diag_nearest(word, one, 1))
            return fail(r, "unknown option '%s'; did you mean '%s'?", word, one[0]), true;
    }
    return false;
}

static bool read_option(Reader *r, const char *word)
{
    const char *value = NULL;
    const Row *row = find_row(word, &value);
    if (!row)
        return unknown(r, word);
    if (is_misspelt(r, row, word))
        return false;
    if (!value) {
        if (r->at == r->argc)
            return fail(r, "%s wants %s", row->spelling, row->argument);
        value = r->argv[r->at++];
    }
    r->given[row - rows] = true;
    return apply(r, row, value);
}

/* ---- operands ---- */

/* Words that are no option: the file, then what the mode takes. They are sorted out at the end,
 * since the mode may come last. */
static bool place_operand(Reader *r, const char *word, bool after_grad)
{
    Options *o = r->o;
    const char *equal = strchr(word, '=');
    const bool named = equal && equal != word;
    if (!o->file) {
        o->file = word;
    } else if (named && o->mode == MODE_run) {
        if (after_grad && !strncmp(word, "d_", 2))
            vec_push(r->a, &o->cotangents, word);
        else
            vec_push(r->a, &o->operands, word);
    } else if (named && o->mode == MODE_report) {
        vec_push(r->a, &o->operands, word);
    } else if (o->mode == MODE_run && !o->method) {
        o->method = word;
    } else if (o->mode == MODE_train && !o->data) {
        o->data = word;
    } else {
        return fail(r, "'%s' is one word too many", word);
    }
    return true;
}

/* How messages name a mode. */
static const char *mode_name(Mode mode)
{
    static const char *const names[] = {[MODE_executable] = "an executable",
                                        [MODE_compile] = "-c",
                                        [MODE_source] = "-S",
                                        [MODE_shared] = "-shared",
                                        [MODE_run] = "-run",
                                        [MODE_train] = "-train",
                                        [MODE_test] = "-test",
                                        [MODE_check] = "-check",
                                        [MODE_show] = "-E",
                                        [MODE_report] = "-report"};
    return names[mode];
}

/* No option is silently without effect: each given one belongs to the mode. */
static bool check_modes(Reader *r)
{
    const Mode mode = r->o->mode;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (!r->given[i] || rows[i].modes >> mode & 1)
            continue;
        if (rows[i].id == OPT_output && mode == MODE_train)
            return fail(r, "-o does not go with -train: -save FILE says where the state goes");
        if (rows[i].id == OPT_target && mode <= MODE_test)
            return fail(r, "-target does not go with %s: -device says where it runs",
                        mode_name(mode));
        StrBuf others = {.a = r->a};
        int last = MODE_report;
        while (!(rows[i].modes >> last & 1))
            last--;
        for (int m = MODE_executable; m <= last; m++)
            if (rows[i].modes >> m & 1)
                sb_printf(&others, "%s%s",
                          !others.n   ? ""
                          : m == last ? " and "
                                      : ", ",
                          mode_name((Mode)m));
        return fail(r, "%s does not go with %s; it goes with %s", rows[i].spelling, mode_name(mode),
                    sb_text(&others));
    }
    return true;
}

static bool check_whole(Reader *r)
{
    const Options *o = r->o;
    if (is_about(o->mode) || o->mode == MODE_explain)
        return true;
    if (!o->file)
        return fail(r, "no file: tenon [options] FILE.tn (--help lists the options)");
    if (!*o->file)
        return fail(r, "the file's name is empty");
    if (o->mode == MODE_train && (!o->data || !*o->data))
        return fail(r, "-train wants a file of arrays behind the model: %s DATA.npz", o->file);
    if (o->depend_file && !o->depend)
        return fail(r, "-MF names the file that -MD writes: give -MD too");
    if (o->load && o->resume)
        return fail(r, "-load and -resume: choose one; -resume brings the weights too");
    return check_modes(r);
}

bool options_parse(Arena *a, int argc, char *const *argv, Options *out, StrBuf *message)
{
    *out = (Options){.device = "auto", .level = 2, .deterministic = true, .cublas = true};
    out->cpu = out->cuda = true;
    Reader r = {.a = a, .argc = argc, .at = 1, .argv = argv, .o = out, .message = message};
    const char **words = arena_array(a, const char *, argc + 1);
    bool *behind_grad = arena_array(a, bool, argc + 1);
    int nwords = 0;
    bool only_words = false;
    while (r.at < argc) {
        const char *word = argv[r.at++];
        if (only_words || word[0] != '-' || !word[1]) {
            behind_grad[nwords] = out->grad;
            words[nwords++] = word;
        } else if (!strcmp(word, "--")) {
            only_words = true;
        } else if (!read_option(&r, word)) {
            return false;
        }
    }
    for (int i = 0; i < nwords && !is_about(out->mode); i++)
        if (!place_operand(&r, words[i], behind_grad[i]))
            return false;
    return check_whole(&r);
}

void options_warnings(const Options *o, Diags *d)
{
    for (uint32_t i = 0; i < o->warnings.n; i++)
        diag_enable(d, o->warnings.at[i].name, o->warnings.at[i].on);
    diag_warnings_are_errors(d, o->werror);
    diag_no_warnings(d, o->no_warnings);
}

/* ---- help ---- */

bool options_row(int i, OptionRow *out)
{
    if (i < 0 || i >= (int)ARRAY_LEN(rows))
        return false;
    static const char *const separators[] = {"", "=", " ", " ", "", ""};
    const Row *row = &rows[i];
    const bool section = row->form == FORM_SECTION;
    *out = (OptionRow){section ? row->help : NULL, row->spelling, separators[row->form],
                       row->argument, section ? "" : row->help};
    return true;
}
