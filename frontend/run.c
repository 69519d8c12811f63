/* run.c: `tenon -run`: arguments from files and words, results to the terminal or a file.
 * SPDX-License-Identifier: MIT */
#include "frontend/run.h"

#include "frontend/message.h"
#include "frontend/values.h"
#include "ir/base/strbuf.h"
#include "runtime/dtype.h"
#include "runtime/rt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    Arena *a;
    const tn_model_desc *desc;
    const RunOptions *o;
    tn_context *ctx;
    tn_model *m;
    Arrays *in, *out; /* what is passed; what comes out */
} Run;

#define fail(...) message_error(1, __VA_ARGS__)

/* The last failure of the runtime. */
static int failed(const Run *r, tn_status s)
{
    const CallSite site = {.files = r->o->files, .nfiles = r->o->nfiles};
    return runtime_error(r->a, (int)s, &site);
}

static int failed_call(const Run *r, tn_status s, const tn_program *p, const DLTensor **args)
{
    Array *given = arena_array(r->a, Array, p->nargs + 1);
    CallSite site = {.files = r->o->files, .nfiles = r->o->nfiles, .args = given};
    for (int i = 0; i < p->nargs; i++)
        if (!p->args[i].is_result && args[i])
            given[site.nargs++] = (Array){p->args[i].name, *args[i]};
    return runtime_error(r->a, (int)s, &site);
}

/* --- choosing a program --------------------------------------------------------------------------
 */

static const char *methods(const Run *r)
{
    StrBuf s = {.a = r->a};
    for (int i = 0; i < r->desc->nprograms; i++)
        if (r->desc->programs[i].kind == TN_METHOD)
            sb_printf(&s, "%s%s", s.n ? ", " : "", r->desc->programs[i].name);
    return sb_text(&s);
}

static int find_method(const Run *r, const char **name)
{
    int program = -1;
    for (int i = 0; i < r->desc->nprograms; i++) {
        const tn_program *p = &r->desc->programs[i];
        if (p->kind != TN_METHOD)
            continue;
        if (*name ? !strcmp(p->name, *name) : program < 0 || !strcmp(p->name, "forward"))
            program = i;
    }
    if (program < 0)
        fail("model %s %s method '%s' (it has: %s)%s%s", r->desc->name,
             r->o->inner ? "does not export its" : "has no", *name ? *name : "", methods(r),
             r->o->inner ? ": " : "", r->o->inner ? r->o->inner : "");
    else
        *name = r->desc->programs[program].name;
    return program;
}

static int find_program(const Run *r, const char *method, int kind)
{
    for (int i = 0; i < r->desc->nprograms; i++)
        if (r->desc->programs[i].kind == kind && !strcmp(r->desc->programs[i].method, method))
            return i;
    return -1;
}

/* --- arguments
 * ------------------------------------------------------------------------------------- */

static int unknown_operand(Run *r, const tn_program *p, const char *name)
{
    enum { MOST = 2 * TN_MAX_ARGS };
    const char *names[MOST];
    int n = 0;
    StrBuf all = {.a = r->a};
    for (int k = 0; k < p->nargs && n < TN_MAX_ARGS; k++)
        if (!p->args[k].is_result)
            names[n++] = p->args[k].name;
    for (int k = 0; k < p->nsymbols && n < MOST; k++)
        names[n++] = p->symbols[k].name;
    for (int k = 0; k < n; k++)
        sb_printf(&all, "%s%s", k ? ", " : "", names[k]);
    const char *near = diag_nearest(name, names, n);
    if (!r->o->grad && !strncmp(name, "d_", 2) && !near)
        return fail("%s has no argument or size '%s'; gradients of results stand behind -grad",
                    p->name, name);
    return fail("%s has no argument or size '%s'%s%s%s (it has: %s)", p->name, name,
                near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", sb_text(&all));
}

static int check_operands(Run *r, const tn_program *p)
{
    for (int i = 0; i < r->o->noperands; i++) {
        const char *text = r->o->operands[i], *eq = strchr(text, '=');
        if (!eq)
            return fail("'%s': expected NAME=VALUE", text);
        const char *name = arena_strndup(r->a, text, (size_t)(eq - text));
        bool known = false;
        for (int k = 0; k < p->nargs; k++)
            known = known || (!p->args[k].is_result && !strcmp(p->args[k].name, name));
        for (int k = 0; k < p->nsymbols; k++)
            known = known || !strcmp(p->symbols[k].name, name);
        if (!known)
            return unknown_operand(r, p, name);
    }
    return 0;
}

/* All arguments of a program as tensors; absent optional ones stay NULL. */
static int make_arguments(Run *r, const tn_program *p, const char *const *given, int ngiven,
                          const DLTensor **args)
{
    Sizes sizes;
    const char *bad = sizes_begin(&sizes, r->a, p);
    for (int i = 0; i < ngiven && !bad; i++)
        bad = sizes_operand(&sizes, r->in, given[i]);
    for (int i = 0; i < p->nargs && !bad; i++)
        if (!p->args[i].is_result)
            bad = sizes_argument(&sizes, r->in, i, r->o->seed, &args[i]);
    return bad ? message_error(sizes.no_memory ? 3 : 1, "%s", bad) : 0;
}

/* --- results
 * --------------------------------------------------------------------------------------- */

static int show(Run *r)
{
    if (r->o->out) {
        const char *bad = arrays_save(r->out, r->o->out);
        return bad ? fail("%s", bad) : 0;
    }
    for (int i = 0; i < r->out->n; i++)
        tensor_show(NULL, r->out->at[i].name, &r->out->at[i].tensor);
    return 0;
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* One call; results are kept in memory of ours and, with `keep`, listed for the output. */
static int call(Run *r, int program, const DLTensor **args, DLTensor *results, tn_tape **tape)
{
    const tn_program *p = &r->desc->programs[program];
    for (int i = 0; i < p->nargs; i++) {
        if (!p->args[i].is_result)
            continue;
        for (int k = 0; k < p->nargs; k++) /* updated in place: one tensor for both */
            if (args[k] && !p->args[k].is_result && p->args[k].inout &&
                !strcmp(p->args[k].name, p->args[i].name))
                results[i] = *args[k];
        args[i] = &results[i];
    }
    const tn_status s = tn_call(r->m, NULL, program, args, p->nargs, tape);
    return s ? failed_call(r, s, p, args) : 0;
}

static void list_results(Run *r, int program, DLTensor *results, const char *const *only)
{
    const tn_program *p = &r->desc->programs[program];
    for (int i = 0; i < p->nargs; i++)
        if (p->args[i].is_result && results[i].data && (!only || only[i]))
            arrays_add(r->out, p->args[i].name, results[i]);
}

static int repeat(Run *r, int program, const DLTensor **args)
{
    const tn_program *p = &r->desc->programs[program];
    double *ms = arena_array(r->a, double, r->o->repeat);
    for (int i = 0; i < r->o->repeat; i++) {
        DLTensor results[TN_MAX_ARGS] = {{0}};
        tn_tape *tape = NULL;
        const double from = now_ms();
        const int status = call(r, program, args, results, &tape);
        if (status)
            return status;
        ms[i] = now_ms() - from;
        tn_tape_release(tape);
        for (int k = 0; k < p->nargs; k++)
            if (p->args[k].is_result && !p->args[k].inout)
                tn_tensor_release(&results[k]);
    }
    qsort(ms, (size_t)r->o->repeat, sizeof *ms, by_value);
    size_t temps, saved;
    tn_model_last_memory(r->m, &temps, &saved);
    printf("%s: median of %d calls %.4f ms, least %.4f ms; temporaries %zu bytes, tape %zu bytes\n",
           p->name, r->o->repeat, ms[r->o->repeat / 2], ms[0], temps, saved);
    return 0;
}

/* --- gradients
 * ------------------------------------------------------------------------------------- */

/* The cotangent of a result: given, or ones for a scalar first result, or zeros. */
static int make_cotangents(Run *r, int forward, int backward, const DLTensor *results,
                           const DLTensor **args)
{
    const tn_program *f = &r->desc->programs[forward], *b = &r->desc->programs[backward];
    bool any = false;
    for (int i = 0; i < b->nargs; i++) {
        if (b->args[i].is_result)
            continue;
        const char *name = b->args[i].name;
        const DLTensor *of = NULL;
        bool first = true;
        for (int k = 0, n = 0; k < f->nargs; k++)
            if (f->args[k].is_result) {
                if (!strncmp(name, "d_", 2) && !strcmp(name + 2, f->args[k].name)) {
                    of = &results[k];
                    first = n == 0;
                }
                n++;
            }
        if (!of)
            return fail("internal: no result for the cotangent %s", name);
        DLTensor t = arrays_make(r->in, data_dtype(of), of->ndim, of->shape);
        if (!t.data)
            return message_error(3, "out of memory for '%s'", name);
        bool given = false;
        for (int k = 0; k < r->o->ncotangents; k++) {
            const char *text = r->o->cotangents[k], *eq = strchr(text, '=');
            if (!eq || (size_t)(eq - text) != strlen(name) || strncmp(text, name, strlen(name)))
                continue;
            const char *bad = value_fill(r->a, r->in, name, eq + 1, r->o->seed, &t);
            if (bad)
                return fail("%s", bad);
            given = true;
        }
        if (!given && first && tensor_numel(of) == 1 && of->ndim == 0) {
            tensor_set(&t, 0, 1.0);
            given = true;
        }
        any = any || given;
        DLTensor *kept = arena_new(r->a, DLTensor);
        *kept = t;
        args[i] = kept;
    }
    return any ? 0 : fail("-grad needs a cotangent d_NAME=... of a result of %s", f->method);
}

static int check_cotangents(const Run *r, const tn_program *b)
{
    for (int k = 0; k < r->o->ncotangents; k++) {
        const char *text = r->o->cotangents[k], *eq = strchr(text, '=');
        if (!eq)
            return fail("'%s': expected d_NAME=VALUE", text);
        bool known = false;
        for (int i = 0; i < b->nargs; i++)
            known =
                known || (!b->args[i].is_result && strlen(b->args[i].name) == (size_t)(eq - text) &&
                          !strncmp(b->args[i].name, text, (size_t)(eq - text)));
        for (int i = 0; i < k; i++)
            if (!strncmp(r->o->cotangents[i], text, (size_t)(eq - text) + 1))
                return fail("'%.*s' is given twice", (int)(eq - text), text);
        if (!known)
            return fail("'%.*s': %s has no differentiable result of this name", (int)(eq - text),
                        text, b->method);
    }
    return 0;
}

/* Gradients of the parameters, which lie where these do. */
static int list_gradients(Run *r)
{
    for (int i = 0; i < tn_model_state_count(r->m); i++) {
        tn_state_entry e;
        if (tn_model_state(r->m, i, &e) || !e.grad.data)
            continue;
        DLTensor host = arrays_make(r->out, data_dtype(&e.grad), e.grad.ndim, e.grad.shape);
        const tn_status s = tn_copy(&host, &e.grad, tn_stream_default(r->ctx, e.grad.device), 0);
        if (s)
            return failed(r, s);
        arrays_add(r->out, arena_printf(r->a, "d_%s", e.name), host);
    }
    return 0;
}

static int with_gradients(Run *r, const char *method)
{
    const int forward = find_program(r, method, TN_FORWARD_TRAIN);
    const int backward = find_program(r, method, TN_BACKWARD);
    if (forward < 0 || backward < 0)
        return fail("%s has nothing to differentiate", method);
    const tn_program *f = &r->desc->programs[forward], *b = &r->desc->programs[backward];
    const DLTensor *args[TN_MAX_ARGS] = {0}, *back[TN_MAX_ARGS] = {0};
    DLTensor *results = arena_array(r->a, DLTensor, f->nargs + 1);
    DLTensor *grads = arena_array(r->a, DLTensor, b->nargs + 1);
    int status = check_cotangents(r, b);
    if (!status)
        status = make_arguments(r, f, r->o->operands, r->o->noperands, args);
    if (status)
        return status;
    const tn_status s = tn_model_zero_grad(r->m);
    if (s)
        return failed(r, s);
    tn_tape *tape = NULL;
    status = call(r, forward, args, results, &tape);
    if (status)
        return status;
    list_results(r, forward, results, NULL);
    status = make_cotangents(r, forward, backward, results, back);
    if (status) {
        tn_tape_release(tape);
        return status;
    }
    status = call(r, backward, back, grads, &tape);
    if (status)
        return status;
    list_results(r, backward, grads, NULL);
    status = list_gradients(r);
    return status ? status : show(r);
}

static int without_gradients(Run *r, int program)
{
    const tn_program *p = &r->desc->programs[program];
    const DLTensor *args[TN_MAX_ARGS] = {0};
    DLTensor *results = arena_array(r->a, DLTensor, p->nargs + 1);
    int status = make_arguments(r, p, r->o->operands, r->o->noperands, args);
    if (status)
        return status;
    if (r->o->repeat > 0)
        return repeat(r, program, args);
    status = call(r, program, args, results, NULL);
    if (status)
        return status;
    list_results(r, program, results, NULL);
    return show(r);
}

/* The training form: what its backward would need is kept, and dropped. */
static int in_training(Run *r, const char *method)
{
    const int forward = find_program(r, method, TN_FORWARD_TRAIN);
    if (forward < 0)
        return fail("%s has no training form: there is nothing to differentiate", method);
    const tn_program *f = &r->desc->programs[forward];
    const DLTensor *args[TN_MAX_ARGS] = {0};
    DLTensor *results = arena_array(r->a, DLTensor, f->nargs + 1);
    int status = make_arguments(r, f, r->o->operands, r->o->noperands, args);
    if (status)
        return status;
    if (r->o->repeat > 0)
        return repeat(r, forward, args);
    tn_tape *tape = NULL;
    status = call(r, forward, args, results, &tape);
    if (status)
        return status;
    tn_tape_release(tape);
    list_results(r, forward, results, NULL);
    return show(r);
}

static int begin(Run *r)
{
    const tn_context_options co = {.size = sizeof co, .threads = r->o->threads};
    tn_status s = tn_context_create(&co, &r->ctx);
    if (s)
        return failed(r, s);
    tn_context_set_print(r->ctx, tensor_show, NULL);
    const tn_model_options mo = {.size = sizeof mo, .seed = r->o->seed, .device = r->o->device};
    s = tn_model_create(r->ctx, r->desc, &mo, &r->m);
    if (!s && r->o->load)
        s = tn_model_load(r->m, r->o->load);
    return s ? failed(r, s) : 0;
}

int run_method(Arena *a, const tn_model_desc *desc, const RunOptions *o)
{
    Run r = {.a = a, .desc = desc, .o = o, .in = arrays_create(a), .out = arrays_create(a)};
    const char *bad = o->out ? arrays_can_save(a, o->out) : NULL;
    if (bad)
        return message_error(1, "%s", bad);
    const char *name = o->method;
    const int program = find_method(&r, &name);
    int status = program < 0 || check_operands(&r, &desc->programs[program]);
    if (!status)
        status = begin(&r);
    if (!status)
        status = o->grad       ? with_gradients(&r, name)
                 : o->training ? in_training(&r, name)
                               : without_gradients(&r, program);
    /* results that the runtime made are released here: the arrays only point at them */
    for (int i = 0; i < r.out->n; i++)
        tn_tensor_release(&r.out->at[i].tensor);
    tn_model_destroy(r.m);
    tn_context_destroy(r.ctx);
    arrays_destroy(r.in);
    arrays_destroy(r.out);
    return status;
}
