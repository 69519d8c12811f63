/* drive.c: from options to stages. SPDX-License-Identifier: MIT */
#include "frontend/drive.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int drive_messages(Drive *d)
{
    const Diags *diags = d->c->cx->diags;
    const char *no_color = getenv("NO_COLOR");
    DiagStyle style = {.json = d->o->json};
    style.color = isatty(STDERR_FILENO) && !(no_color && *no_color);
    StrBuf out = {.a = d->a};
    if (diag_count(diags))
        diag_render(diags, style, &out);
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
    c->elab.instantiate = o->instantiate;
    c->elab.inference_gradients = o->mode == MODE_run && o->grad && !o->training;
    c->elab.tests = o->mode == MODE_test || o->mode == MODE_check;
    c->pass.level = c->lower.level = o->level;
    c->debug = o->debug;
    c->pass.fast_math = c->lower.fast_math = o->fast_math;
    c->pass.deterministic = o->deterministic;
    c->pass.disabled = o->disabled.at;
    c->pass.ndisabled = (int)o->disabled.n;
    c->pass.remat = o->remat;
    c->pass.fgrad = o->gradients;
#ifndef NDEBUG
    c->pass.verify = true;
#endif
}

/* What the language or the command has and this version does not. */
static int unsupported(const Options *o)
{
    if (o->device && strcmp(o->device, "cpu") && strcmp(o->device, "auto"))
        return message_error(
            STATUS_MACHINE,
            "-device=%s: this version runs models on the CPU only; -S writes CUDA C", o->device);
    if (o->amp != DT_none)
        return message_error(STATUS_USAGE, "-famp is not supported yet");
    if (o->place_auto)
        return message_error(STATUS_USAGE, "-fplace=auto is not supported yet");
    if (o->python)
        return message_error(STATUS_USAGE, "-python is not supported yet");
    if (o->mode == MODE_report && o->report == REPORT_html)
        return message_error(STATUS_USAGE, "-report=html is not supported yet");
    return STATUS_DONE;
}

int drive_front(Drive *d)
{
    Compile *c = d->c;
    if (!compile_read(c) || !compile_elaborate(c) || !compile_passes(c)) {
        const int status = drive_messages(d);
        return status ? status : STATUS_INPUT;
    }
    return drive_messages(d);
}

Program *drive_model(Drive *d)
{
    if (d->c->models.models.n)
        return d->c->models.models.at[0];
    message_error(STATUS_INPUT, "%s has no `model`; make one with -m 'MODULE(...)'", d->o->file);
    return NULL;
}

static int check(Drive *d)
{
    Compile *c = d->c;
    if (compile_read(c))
        compile_elaborate(c);
    return drive_messages(d);
}

int drive(Drive *d)
{
    int status = unsupported(d->o);
    if (!status)
        status = check_overwrite(d->o);
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
