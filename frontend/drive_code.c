/* drive_code.c: modes that make code: -c, -S, -shared, executables, -run and -train.
 * SPDX-License-Identifier: MIT */
#include "codegen/output.h"
#include "frontend/device.h"
#include "frontend/drive.h"
#include "frontend/place.h"
#include "frontend/run.h"
#include "frontend/stop.h"
#include "frontend/train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- what the machine must have
 * --------------------------------------------------------------------- */

/* Compilers need a folder for temporary files: NULL, or why it is none. */
const char *drive_bad_temporary_folder(Arena *a)
{
    const char *given = getenv("TMPDIR"), *dir = given && *given ? given : "/tmp";
    struct stat st;
    const char *why = NULL;
    if (stat(dir, &st) || access(dir, W_OK | X_OK))
        why = strerror(errno);
    else if (!S_ISDIR(st.st_mode))
        why = "not a folder";
    return why ? arena_printf(a,
                              "cannot write temporary files into %s%s: %s; set TMPDIR to a folder "
                              "that can be written",
                              given && *given ? "TMPDIR=" : "", dir, why)
               : NULL;
}

/* --- dependencies for make
 * ------------------------------------------------------------------------ */

static void escaped(StrBuf *out, const char *path)
{
    for (; *path; path++) {
        if (*path == ' ' || *path == '#')
            sb_putc(out, '\\');
        if (*path == '$')
            sb_putc(out, '$');
        sb_putc(out, *path);
    }
}

static const char *without_extension(Arena *a, const char *path)
{
    const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    return dot && (!slash || dot > slash) ? arena_strndup(a, path, (size_t)(dot - path)) : path;
}

static const char *folder_of(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    return !slash ? "." : slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
}

static int check_folder(Drive *d, const char *path)
{
    const char *folder = folder_of(d->a, path);
    return access(folder, W_OK)
               ? message_error(STATUS_INPUT, "cannot write into %s: %s", folder, strerror(errno))
               : STATUS_DONE;
}

/* What can be known before the compilers run. */
static int check_depend(Drive *d)
{
    struct stat st;
    const char *path = d->o->depend ? d->o->depend_file : NULL;
    if (!path)
        return STATUS_DONE;
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        return message_error(STATUS_USAGE, "-MF %s: it is a folder", path);
    return stat(path, &st) ? check_folder(d, path) : STATUS_DONE;
}

static int write_depend(Drive *d, const OutputResult *r)
{
    if (!d->o->depend || !r->files.n)
        return STATUS_DONE;
    StrBuf out = {.a = d->a};
    for (uint32_t i = 0; i < r->files.n; i++) {
        sb_puts(&out, i ? " " : "");
        escaped(&out, r->files.at[i]);
    }
    sb_putc(&out, ':');
    for (uint32_t i = 0; i < d->c->models.files.n; i++) {
        sb_puts(&out, " \\\n  ");
        escaped(&out, d->c->models.files.at[i]);
    }
    sb_puts(&out, "\n");
    for (uint32_t i = 1; i < d->c->models.files.n; i++) { /* a removed import is no error */
        escaped(&out, d->c->models.files.at[i]);
        sb_puts(&out, ":\n");
    }
    const char *path = d->o->depend_file;
    if (!path)
        path = arena_printf(d->a, "%s.d", without_extension(d->a, r->files.at[0]));
    return drive_write(d, path, &out);
}

/* --- files
 * ------------------------------------------------------------------------------------------ */

/* Where a file goes: -o, or the model's name in the folder that -o names with a '/' at its end.
 * NULL: as codegen names it. The folder must be there and writable, which is better said before
 * compilers run. */
static int output_path(Drive *d, const Program *p, const char *before, const char *after,
                       const char **path)
{
    const char *out = d->o->output;
    *path = out;
    const size_t n = out ? strlen(out) : 0;
    if (n && out[n - 1] == '/') {
        if (mkdir(out, 0777) && errno != EEXIST)
            return message_error(STATUS_INPUT, "cannot make %s: %s", out, strerror(errno));
        *path =
            arena_printf(d->a, "%s%s%s%s", out, before, sym_text(d->c->cx->names, p->name), after);
    }
    return check_folder(d, *path ? *path : ".");
}

/* Lowers for the targets asked for. */
static int lower_targets(Drive *d, Program *p, Output *out)
{
    bool cpu, cuda;
    Texts archs = {0};
    const int bad = device_targets(d, p, out->kind == OUTPUT_SOURCES, &cpu, &cuda, &archs);
    if (bad)
        return bad;
    out->archs = archs.at;
    out->narchs = (int)archs.n;
    out->cpu = cpu ? compile_lower(d->c, p, false) : NULL;
    const bool gpu = program_gpu(p) < 0 || device_default_gpu(d->o, p);
    out->cuda = cuda ? compile_lower(d->c, p, gpu) : NULL;
    return (cpu && !out->cpu) || (cuda && !out->cuda) ? STATUS_INPUT : STATUS_DONE;
}

static int write_model(Drive *d, Program *p, OutputResult *all)
{
    const Options *o = d->o;
    Output out = {.level = o->level, .debug = o->debug, .march = o->march};
    out.kind = o->mode == MODE_source   ? OUTPUT_SOURCES
               : o->mode == MODE_shared ? OUTPUT_SHARED
                                        : OUTPUT_OBJECT;
    out.out = o->output;
    out.python = o->python;
    out.runtime = o->python ? place_library(d->a, "libtenon.so") : NULL;
    if (out.kind != OUTPUT_SOURCES) {
        const bool object = out.kind == OUTPUT_OBJECT;
        const int unwritable =
            output_path(d, p, object ? "" : "lib", object ? ".o" : ".so", &out.out);
        if (unwritable)
            return unwritable;
    }
    const int bad = lower_targets(d, p, &out);
    if (bad)
        return bad;
    const double from = compile_now();
    const char *include[2];
    out.include_dirs = include;
    out.ninclude_dirs = place_include_dirs(d->a, include, 2);
    const OutputResult r = codegen_write(d->a, &out);
    compile_time(d->c, "print and write", from);
    for (uint32_t i = 0; i < r.files.n; i++)
        vec_push(d->a, &all->files, r.files.at[i]);
    return r.status ? message_error(r.status, "%s", r.message) : STATUS_DONE;
}

static int compile_executable(Drive *d, const char *source, const char *lib, const char *exe)
{
    const char *made = arena_printf(d->a, "%s.%ld.tmp", exe, (long)getpid());
    const char *args[] = {
        "-std=c11",
        "-O2",
        "-ftree-vectorize",
        "-fvect-cost-model=dynamic",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-fno-trapping-math",
        arena_printf(d->a, "-march=%s", d->o->march ? d->o->march : "native"),
        "-DTN_ONE_TARGET",
#if defined __x86_64__
        "-mprefer-vector-width=512",
#endif
        d->o->debug ? "-g" : "-g0",
        "-o",
        made,
        source,
        lib,
        "-lzip",
        "-lcjson",
        "-lm",
        "-lpthread",
        "-ldl",
        NULL
    };
    const char *log = "";
    int status = codegen_cc(d->a, args, &log);
    if (status)
        message_error(status, "%s%s", status == STATUS_MACHINE ? "" : "the C compiler failed:\n",
                      log);
    else if (rename(made, exe))
        status = message_error(STATUS_INPUT, "cannot write %s", exe);
    if (status)
        unlink(made);
    return status;
}

/* The text of an executable: the object's, and a main of three lines. */
static int write_executable_text(Drive *d, const CText *what, const char *name, const char *source)
{
    StrBuf text = {.a = d->a};
    codegen_c_text(what, &text);
    sb_printf(
        &text,
        "\nint tn_run_main(const tn_model_desc *desc, int argc, char **argv);\n"
        "int main(int argc, char **argv)\n{\n    return tn_run_main(&%s_desc, argc, argv);\n}\n",
        name);
    const char *bad = codegen_write_file(d->a, source, sb_text(&text), text.n);
    return bad ? message_error(STATUS_INPUT, "%s", bad) : STATUS_DONE;
}

/* An executable: that text, compiled and linked with the driver's library. */
static int link_executable(Drive *d, Program *p, OutputResult *all)
{
    const char *name = sym_text(d->c->cx->names, p->name), *exe, *bad = NULL;
    Output out = {.kind = OUTPUT_OBJECT, .debug = d->o->debug};
    int status = output_path(d, p, "", "", &exe);
    if (!status)
        status = lower_targets(d, p, &out);
    if (status)
        return status;
    exe = exe ? exe : name;
    const char *lib = place_library(d->a, "libtenon_run.a");
    if (!lib)
        return message_error(STATUS_MACHINE, "libtenon_run.a is not beside the command or in lib/");
    const char *prefix = arena_printf(d->a, "%s.%ld", exe, (long)getpid());
    const char *source = arena_printf(d->a, "%s.c", prefix);
    CText what = {.cpu = out.cpu, .cuda = out.cuda};
    if (out.cuda) {
        status =
            codegen_image_files(d->a, &out, arena_printf(d->a, "%s.image", prefix), &what, &bad);
        if (status)
            message_error(status, "%s", bad);
    }
    if (!status)
        status = write_executable_text(d, &what, name, source);
    if (!status)
        status = compile_executable(d, source, lib, exe);
    unlink(source);
    codegen_image_files_remove(&what);
    if (!status)
        vec_push(d->a, &all->files, exe);
    return status;
}

/* The files of each model, or the executable of the one. */
static int write_models(Drive *d, OutputResult *all)
{
    const Elaborated *made = &d->c->models;
    if (d->o->mode == MODE_executable) {
        Program *p = drive_model(d);
        return p ? link_executable(d, p, all) : STATUS_INPUT;
    }
    int status = STATUS_DONE;
    for (uint32_t i = 0; i < made->models.n && !status; i++)
        status = write_model(d, made->models.at[i], all);
    return status;
}

int drive_code(Drive *d)
{
    int status = drive_front(d);
    if (!status)
        status = check_depend(d);
    if (status)
        return status;
    const char *no_folder = d->o->mode == MODE_source ? NULL : drive_bad_temporary_folder(d->a);
    if (no_folder)
        return message_error(STATUS_MACHINE, "%s", no_folder);
    const uint32_t n = d->c->models.models.n;
    if (!n) {
        drive_model(d);
        return STATUS_INPUT;
    }
    const char *out = d->o->output;
    if (n > 1 && out && *out && out[strlen(out) - 1] != '/' && d->o->mode != MODE_source &&
        d->o->mode != MODE_executable)
        return message_error(STATUS_USAGE, "%s has %u models: -o names one file; leave it out",
                             d->o->file, n);
    OutputResult all = {0};
    StopGuard guard;
    stop_guard(&guard);
    status = write_models(d, &all);
    const int messages = drive_messages(d);
    status = status ? status : messages;
    if (stop_signal())
        status = 128 + stop_signal();
    if (!status)
        status = write_depend(d, &all);
    for (uint32_t i = 0; i < all.files.n; i++)
        if (status)
            unlink(all.files.at[i]); /* all of it or nothing */
        else if (d->o->verbose)
            fprintf(stderr, "wrote %s\n", all.files.at[i]);
    stop_release(&guard);
    return status;
}

/* --- in memory
 * -------------------------------------------------------------------------------------- */

static int load(Drive *d, LoadedModel *model, DLDevice *device)
{
    const int status = drive_front(d);
    if (status)
        return status;
    Program *p = drive_model(d);
    return p ? device_load(d, p, model, device) : STATUS_INPUT;
}

/* Why the method asked for is not among those of the compiled model, or NULL. */
static const char *why_inner(const Drive *d, const char *model)
{
    const Elaborated *made = &d->c->models;
    for (uint32_t i = 0; d->method && i < made->inner.n; i++)
        if (!strcmp(made->inner.at[i].name, d->method) && !strcmp(made->inner.at[i].model, model))
            return made->inner.at[i].why;
    return NULL;
}

int drive_run(Drive *d)
{
    LoadedModel model;
    DLDevice device;
    const int status = load(d, &model, &device);
    if (status)
        return status;
    const Options *o = d->o;
    const RunOptions run = {
        .method = d->method,
        .inner = why_inner(d, ((const tn_model_desc *)model.desc)->name),
        .operands = o->operands.at,
        .noperands = (int)o->operands.n,
        .grad = o->grad,
        .training = o->training,
        .cotangents = o->cotangents.at,
        .ncotangents = (int)o->cotangents.n,
        .load = o->load,
        .out = o->output,
        .seed = o->seed,
        .files = d->c->models.files.at,
        .nfiles = (int)d->c->models.files.n,
        .threads = o->threads,
        .device = device,
        .repeat = o->bench && !o->grad ? 50 : 0,
    };
    return run_method(d->a, model.desc, &run);
}

int drive_train(Drive *d)
{
    LoadedModel model;
    DLDevice device;
    const int status = load(d, &model, &device);
    if (status)
        return status;
    const Options *o = d->o;
    const TrainOptions train = {
        .epochs = o->epochs ? o->epochs : 10,
        .batch = o->batch,
        .lr = o->lr,
        .val = o->val,
        .seed = o->seed,
        .seed_given = o->seed_given,
        .files = d->c->models.files.at,
        .nfiles = (int)d->c->models.files.n,
        .load = o->load,
        .save = o->save,
        .resume = o->resume,
        .data = o->data,
        .threads = o->threads,
        .device = device,
    };
    return train_run(d->a, model.desc, &train);
}
