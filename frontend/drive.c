/* drive.c: from options to stages. SPDX-License-Identifier: MIT */
#include "frontend/drive.h"
#include "frontend/choose.h"
#include "frontend/device.h"

#include "codegen/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int drive_messages(Drive *d)
{
    const Diags *diags = d->c->cx->diags;
    const char *no_color = getenv("NO_COLOR");
    DiagStyle style = {.json = d->o->json, .from = d->said};
    style.color = isatty(STDERR_FILENO) && !(no_color && *no_color);
    StrBuf out = {.a = d->a};
    if (diag_count(diags) > d->said)
        diag_render(diags, style, &out);
    d->said = diag_count(diags);
    fputs(sb_text(&out), stderr);
    return diag_errors(diags) ? STATUS_INPUT : STATUS_DONE;
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return a && b && !stat(a, &x) && !stat(b, &y) && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* What would be written over what is read. */
static int check_overwrite(const Options *o)
{
    const char *out[] = {o->output, o->save, o->depend_file}, *in[] = {o->file, o->data, o->load};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            if (same_file(out[i], in[k]))
                return message_error(STATUS_USAGE, "%s would be written over: it is an input",
                                     in[k]);
    return STATUS_DONE;
}

static bool is_name(const char *s)
{
    const size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return n && !s[n] && (*s < '0' || *s > '9');
}

/* -m NAME and -run FILE NAME.METHOD mean a model of the file; -m 'EXPR' makes another. */
static void choose_model(Drive *d)
{
    const char *m = d->o->instantiate, *dot = d->o->method ? strchr(d->o->method, '.') : NULL;
    d->method = dot ? dot + 1 : d->o->method;
    if (dot)
        d->c->elab.only_model = arena_strndup(d->a, d->o->method, (size_t)(dot - d->o->method));
    if (m && is_name(m))
        d->c->elab.only_model = m;
    else
        d->c->elab.instantiate = m;
}

/* Nothing but files can be replaced: not a device, a pipe, or a folder. */
static int check_outputs(const Options *o)
{
    struct stat st;
    const bool code =
        o->mode == MODE_executable || o->mode == MODE_compile || o->mode == MODE_shared;
    const char *out[] = {code ? o->output : NULL, o->save, o->mode == MODE_run ? o->output : NULL};
    for (int i = 0; i < 3; i++) {
        const size_t n = out[i] ? strlen(out[i]) : 0;
        if (n && out[i][n - 1] != '/' && !stat(out[i], &st) && !S_ISREG(st.st_mode))
            return message_error(STATUS_USAGE, "%s is %s, not a file%s", out[i],
                                 S_ISDIR(st.st_mode) ? "a folder" : "a device or a pipe",
                                 code && S_ISDIR(st.st_mode) ? ": write a / behind it" : "");
    }
    if (o->mode == MODE_source && o->output && !stat(o->output, &st) && !S_ISDIR(st.st_mode))
        return message_error(STATUS_USAGE, "%s is no folder: -S writes several files", o->output);
    return STATUS_DONE;
}

static void set_options(Drive *d)
{
    const Options *o = d->o;
    Compile *c = d->c;
    options_warnings(o, c->cx->diags);
    c->elab.defines = o->defines.at;
    c->elab.ndefines = (int)o->defines.n;
    c->elab.include_dirs = o->include_dirs.at;
    c->elab.ninclude_dirs = (int)o->include_dirs.n;
    c->elab.default_float = o->dtype;
    c->elab.amp = o->amp;
    c->elab.device = o->device;
    c->elab.gpus = device_gpus(o);
    choose_model(d);
    c->elab.inference_gradients = o->mode == MODE_run && o->grad && !o->training;
    c->elab.check = o->mode == MODE_check;
    c->elab.tests = o->mode == MODE_test || o->mode == MODE_check;
    c->pass.level = c->lower.level = o->level;
    c->debug = o->debug;
    c->pass.fast_math = c->lower.fast_math = o->fast_math;
    c->lower.tf32 = o->tf32;
    c->lower.tune = o->tune || o->level >= 3;
    c->lower.no_cublas = !o->cublas;
    c->pass.deterministic = o->deterministic;
    c->pass.disabled = o->disabled.at;
    c->pass.ndisabled = (int)o->disabled.n;
    c->elab.no_outline = o->level == 0 || !pass_enabled(&c->pass, "outline");
    c->pass.remat = o->remat;
    c->pass.fgrad = o->gradients;
#ifndef NDEBUG
    c->pass.verify = true;
#endif
}

/* What -fgrad= may name in a program: float arguments of its methods. Parameters are no mistake,
 * though their gradients are always made. */
static void add_differentiable(Drive *d, const Program *p, Texts *names)
{
    const Interner *texts = d->c->cx->names;
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        const Graph *g = p->graphs.at[i];
        for (uint32_t k = 0; k < g->params.n && g->kind == GRAPH_METHOD; k++)
            if (dtype_is_float(val_info(p, g, g->params.at[k].val)->dtype))
                vec_push(d->a, names, sym_text(texts, g->params.at[k].name));
    }
    for (uint32_t i = 0; i < p->state.n; i++)
        if (p->state.at[i].is_param)
            vec_push(d->a, names, sym_text(texts, p->state.at[i].name));
}

static bool has_text(const Texts *t, const char *text)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (!strcmp(t->at[i], text))
            return true;
    return false;
}

/* Each name of -fgrad= is one of some model. */
static int check_gradients(Drive *d)
{
    const char *list = d->o->gradients;
    const Elaborated *made = &d->c->models;
    Texts names = {0};
    if (!list || !strcmp(list, "all") || !strcmp(list, "none") || !made->models.n)
        return STATUS_DONE;
    for (uint32_t i = 0; i < made->models.n; i++)
        add_differentiable(d, made->models.at[i], &names);
    for (const char *at = list;; at++) {
        const size_t n = strcspn(at, ",");
        const char *name = arena_strndup(d->a, at, n);
        if (!has_text(&names, name)) {
            const char *near = diag_nearest(name, names.at, (int)names.n);
            return message_error(
                STATUS_INPUT, "-fgrad=%s: no method has a float argument '%s'%s%s%s", list, name,
                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        }
        at += n;
        if (!*at)
            return STATUS_DONE;
    }
}

/* What this mode has no use for goes through no pass. */
static int choose(Drive *d)
{
    const char *list = d->o->only;
    if (d->o->mode == MODE_train)
        choose_trained(d->c);
    if (d->o->mode == MODE_run && d->method) /* its own message says which methods there are */
        (void)choose_named(d->c, d->method, d->o->grad || d->o->training);
    const char *unknown = list ? choose_named(d->c, list, true) : NULL;
    if (!unknown)
        return STATUS_DONE;
    int n;
    const char **names = choose_names(d->c, &n), *near = diag_nearest(unknown, names, n);
    return message_error(STATUS_INPUT, "-only=%s: there is no method or training step '%s'%s%s%s",
                         list, unknown, near ? "; did you mean '" : "", near ? near : "",
                         near ? "'?" : "");
}

int drive_front(Drive *d)
{
    Compile *c = d->c;
    const bool made = compile_read(c) && compile_elaborate(c);
    int bad = made ? check_gradients(d) : STATUS_DONE;
    if (made && !bad)
        bad = choose(d);
    if (bad) {
        drive_messages(d);
        return bad;
    }
    if (!made || !compile_passes(c)) {
        const int status = drive_messages(d);
        return status ? status : STATUS_INPUT;
    }
    return drive_messages(d);
}

/* Whether a mode has something to do with a model: -train its `train`, -run the method. */
static bool is_meant(const Drive *d, const Program *p)
{
    if (d->o->mode == MODE_train)
        return p->trains.n > 0;
    if (d->o->mode != MODE_run || !d->method)
        return true;
    for (uint32_t i = 0; i < p->graphs.n; i++)
        if (p->graphs.at[i]->kind == GRAPH_METHOD &&
            !strcmp(sym_text(d->c->cx->names, p->graphs.at[i]->name), d->method))
            return true;
    return false;
}

Program *drive_model(Drive *d)
{
    Program *one = NULL;
    StrBuf names = {.a = d->a};
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->c->models.models.n; i++) {
        Program *p = d->c->models.models.at[i];
        if (!is_meant(d, p))
            continue;
        sb_printf(&names, "%s%s", n++ ? ", " : "", sym_text(d->c->cx->names, p->name));
        one = p;
    }
    if (n == 1)
        return one;
    if (!d->c->models.models.n)
        message_error(STATUS_INPUT, "%s has no `model`; make one with -m 'MODULE(...)'",
                      d->o->file);
    else if (n)
        message_error(STATUS_INPUT, "%s has %u models to choose from (%s): choose one with -m NAME",
                      d->o->file, n, sb_text(&names));
    else /* its message says what is missing */
        return d->c->models.models.at[0];
    return NULL;
}

int drive_write(Drive *d, const char *path, const StrBuf *text)
{
    struct stat st;
    if (stat(path, &st) || S_ISREG(st.st_mode)) {
        const char *bad = codegen_write_file(d->a, path, sb_text(text), text->n);
        return bad ? message_error(STATUS_INPUT, "%s", bad) : STATUS_DONE;
    }
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(sb_text(text), 1, text->n, f) == text->n;
    if (f)
        ok = !fclose(f) && ok;
    return ok ? STATUS_DONE
              : message_error(STATUS_INPUT, "cannot write %s: %s", path, strerror(errno));
}

static int check(Drive *d)
{
    Compile *c = d->c;
    const int bad = compile_read(c) && compile_elaborate(c) ? check_gradients(d) : STATUS_DONE;
    const int status = drive_messages(d);
    return status ? status : bad;
}

int drive(Drive *d)
{
    int status = check_overwrite(d->o);
    if (!status)
        status = check_outputs(d->o);
    if (status)
        return status;
    set_options(d);
    switch (d->o->mode) {
    case MODE_check:
        status = check(d);
        break;
    case MODE_show:
        status = drive_show(d);
        break;
    case MODE_report:
        status = drive_report(d);
        break;
    case MODE_run:
        status = drive_run(d);
        break;
    case MODE_train:
        status = drive_train(d);
        break;
    case MODE_test:
        status = drive_test(d);
        break;
    default:
        status = drive_code(d);
        break;
    }
    if (d->o->bench && !status) {
        StrBuf out = {.a = d->a};
        compile_print_times(d->c, &out);
        fputs(sb_text(&out), stdout);
    }
    return status;
}
