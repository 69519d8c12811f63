/* compile.c: the stages in order. SPDX-License-Identifier: MIT */
#include "frontend/compile.h"

#include "frontend/data.h"

#include <errno.h>
#include <string.h>
#include <time.h>

double compile_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void compile_time(Compile *c, const char *name, double from)
{
    if (c->ntimes == STAGE_TIMES)
        return;
    const size_t bytes =
        arena_bytes(c->cx->perm) + arena_bytes(c->cx->kernels) + arena_bytes(c->cx->scratch);
    c->times[c->ntimes++] = (StageTime){name, compile_now() - from, bytes};
}

static void pass_time(void *ctx, const char *pass, double seconds)
{
    Compile *c = ctx;
    for (int i = 0; i < c->ntimes; i++)
        if (!strcmp(c->times[i].name, pass)) {
            c->times[i].ms += seconds * 1e3; /* again, for the next model */
            return;
        }
    if (c->ntimes < STAGE_TIMES)
        c->times[c->ntimes++] = (StageTime){pass, seconds * 1e3, arena_bytes(c->cx->perm)};
}

Compile *compile_create(const char *path)
{
    Ctx *cx = ctx_create();
    Compile *c = arena_new(cx->perm, Compile);
    c->cx = cx;
    c->path = path;
    c->pass.level = c->lower.level = 2;
    c->pass.deterministic = true;
    c->pass.timing = pass_time;
    c->pass.timing_ctx = c;
    return c;
}

void compile_destroy(Compile *c)
{
    if (c)
        ctx_destroy(c->cx);
}

bool compile_read(Compile *c)
{
    const double from = compile_now();
    c->file = source_read(c->cx->sources, c->path, false);
    if (!c->file) {
        diag_report(c->cx->diags, DIAG_file, (Span){0}, "cannot read %s: %s", c->path,
                    strerror(errno));
        return false;
    }
    compile_time(c, "read", from);
    return true;
}

/* `load` of a model. */
static const char *load_array(Arena *a, const char *path, const char *name, LoadedArray *out)
{
    Arrays *s = arrays_create(a);
    const char *why = arrays_load(s, path, "array");
    const Array *x = NULL;
    if (!why && !name && s->n != 1)
        why = arena_printf(a, "%s holds %d arrays: load(path, \"name\") chooses one", path, s->n);
    if (!why)
        x = name ? arrays_find(s, name) : &s->at[0];
    if (!why && !x)
        why = arena_printf(a, "%s holds no array '%s'", path, name);
    if (!why && (x->tensor.ndim > MAX_RANK || data_dtype(&x->tensor) == 0))
        why = arena_printf(a, "%s: elements or axes of this array are none of ours", path);
    if (!why) {
        *out =
            (LoadedArray){.dtype = (DType)data_dtype(&x->tensor), .rank = (uint32_t)x->tensor.ndim};
        for (uint32_t i = 0; i < out->rank; i++)
            out->shape[i] = x->tensor.shape[i];
        const size_t n = tensor_bytes(&x->tensor);
        void *data = arena_alloc(a, n + 1);
        if (n)
            memcpy(data, x->tensor.data, n);
        out->data = data;
    }
    arrays_destroy(s);
    return why;
}

bool compile_elaborate(Compile *c)
{
    c->elab.load = load_array;
    const double from = compile_now();
    const bool ok = elaborate(c->cx, c->file, &c->elab, &c->models);
    compile_time(c, "parse and elaborate", from);
    return ok && !diag_errors(c->cx->diags);
}

bool compile_passes(Compile *c)
{
    const double from = compile_now();
    for (uint32_t i = 0; i < c->models.models.n; i++)
        if (!passes_run(c->models.models.at[i], &c->pass))
            return false;
    compile_time(c, "all passes", from);
    return !diag_errors(c->cx->diags);
}

HostModel *compile_lower(Compile *c, Program *p, bool cuda)
{
    const double from = compile_now();
    LowerOptions o = c->lower;
    p->debug = c->debug;
    o.cuda = cuda;
    for (int i = 0; i < c->pass.ndisabled; i++) {
        o.no_fuse |= strcmp(c->pass.disabled[i], "fuse") == 0;
        o.no_sharing |= strcmp(c->pass.disabled[i], "conflicts") == 0;
    }
    HostModel *m = lower_program(p, &o);
    compile_time(c, cuda ? "fuse and lower for cuda" : "fuse and lower for cpu", from);
    return m;
}

void compile_print_times(const Compile *c, StrBuf *out)
{
    sb_printf(out, "%-28s %10s %12s\n", "stage", "ms", "KiB so far");
    for (int i = 0; i < c->ntimes; i++)
        sb_printf(out, "%-28s %10.3f %12zu\n", c->times[i].name, c->times[i].ms,
                  c->times[i].bytes / 1024);
}
