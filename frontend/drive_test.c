/* drive_test.c: -test: compiled tests, and gradient checks by the reference evaluator in f64.
 * SPDX-License-Identifier: MIT */
#include "codegen/output.h"
#include "frontend/data.h"
#include "frontend/device.h"
#include "frontend/drive.h"
#include "frontend/gradcheck.h"
#include "runtime/include/tenon_program.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    Drive *d;
    Program *p;
    tn_context *ctx;
    tn_model *m;
    const tn_model_desc *desc;
    int passed, failed;
} Tests;

static const Graph *test_graph(const Tests *t, const char *name)
{
    for (uint32_t i = 0; i < t->p->graphs.n; i++) {
        const Graph *g = t->p->graphs.at[i];
        if (g->kind == GRAPH_TEST && !strcmp(sym_text(t->p->cx->names, g->name), name))
            return g;
    }
    return NULL;
}

static const char *where(const Tests *t, Span at)
{
    return source_where(t->p->cx->sources, t->d->a, at, false);
}

/* The compiled body: every result is an assertion. Lines for what does not hold go to `out`. */
static bool run_body(Tests *t, int program, StrBuf *out)
{
    const tn_program *p = &t->desc->programs[program];
    const Graph *g = test_graph(t, p->name);
    DLTensor *results = arena_array(t->d->a, DLTensor, p->nargs + 1);
    const DLTensor **args = arena_array(t->d->a, const DLTensor *, p->nargs + 1);
    for (int i = 0; i < p->nargs; i++)
        args[i] = &results[i];
    if (tn_call(t->m, NULL, program, args, p->nargs, NULL)) {
        sb_printf(out, "  %s\n", tn_last_error());
        return false;
    }
    bool ok = true;
    for (int i = 0; i < p->nargs; i++) {
        bool holds = true;
        for (int64_t k = 0; k < tensor_numel(&results[i]); k++)
            holds = holds && tensor_get(&results[i], k) != 0;
        if (!holds)
            sb_printf(out, "  %s: does not hold: %s\n",
                      g && i < (int)g->results.n ? where(t, g->results.at[i].at) : "",
                      p->args[i].name);
        ok = ok && holds;
        tn_tensor_release(&results[i]);
    }
    return ok;
}

static bool run_gradchecks(Tests *t, const char *test, StrBuf *out)
{
    bool ok = true;
    for (uint32_t i = 0; i < t->p->gradchecks.n; i++) {
        const GradCheck *c = &t->p->gradchecks.at[i];
        if (strcmp(sym_text(t->p->cx->names, c->test), test))
            continue;
        const char *bad = gradcheck_run(t->p, c, t->d->o->seed);
        if (bad)
            sb_printf(out, "  %s: %s: %s\n", where(t, c->at), c->text, bad);
        ok = ok && !bad;
    }
    return ok;
}

static void run_tests(Tests *t)
{
    for (int i = 0; i < t->desc->nprograms; i++) {
        const tn_program *p = &t->desc->programs[i];
        if (p->kind != TN_TEST)
            continue;
        StrBuf out = {.a = t->d->a};
        const bool body = run_body(t, i, &out), gradients = run_gradchecks(t, p->name, &out);
        printf("%s %s\n%s", body && gradients ? "ok  " : "FAIL", p->name, sb_text(&out));
        if (body && gradients)
            t->passed++;
        else
            t->failed++;
        fflush(stdout);
    }
}

static int test_model(Drive *d, Program *p, int *passed, int *failed)
{
    bool any = false;
    for (uint32_t i = 0; i < p->graphs.n; i++)
        any = any || p->graphs.at[i]->kind == GRAPH_TEST;
    if (!any)
        return STATUS_DONE;
    LoadedModel loaded;
    DLDevice device;
    int status = device_load(d, p, &loaded, &device);
    if (status)
        return status;
    Tests t = {.d = d, .p = p, .desc = loaded.desc};
    const tn_context_options co = {.size = sizeof co, .threads = d->o->threads};
    const tn_model_options mo = {.size = sizeof mo, .seed = d->o->seed, .device = device};
    if (!tn_context_create(&co, &t.ctx))
        tn_context_set_print(t.ctx, tensor_show, NULL);
    if (!t.ctx || tn_model_create(t.ctx, t.desc, &mo, &t.m))
        status = message_error(STATUS_INPUT, "%s", tn_last_error());
    else
        run_tests(&t);
    tn_model_destroy(t.m);
    tn_context_destroy(t.ctx);
    *passed += t.passed;
    *failed += t.failed;
    return status;
}

int drive_test(Drive *d)
{
    int status = drive_front(d), passed = 0, failed = 0;
    for (uint32_t i = 0; i < d->c->models.models.n && !status; i++)
        status = test_model(d, d->c->models.models.at[i], &passed, &failed);
    if (status) {
        drive_messages(d);
        return status;
    }
    if (passed + failed == 0)
        return message_error(STATUS_INPUT, "%s has no tests", d->o->file);
    printf("%d passed, %d failed\n", passed, failed);
    return failed ? STATUS_INPUT : STATUS_DONE;
}
