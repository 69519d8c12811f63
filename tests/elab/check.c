/* check.c: runs a file's tests and gradient checks with the reference evaluator; prints one line
 * each. elab_check FILE...       status 0: all hold SPDX-License-Identifier: MIT */
#include "frontend/elaborate.h"
#include "ir/eval.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    Program *p;
    EvalTensor *slots;
    int64_t *sizes;
    int bad, done;
} Run;

static const char *eval(Run *r, const Graph *g, const EvalTensor *in, EvalTensor **results)
{
    Eval e = {.a = r->p->cx->perm, .p = r->p, .sizes = r->sizes, .inputs = in, .slots = r->slots};
    const char *why = eval_graph(&e, g);
    *results = e.results;
    return why ? why : e.failed;
}

static void init_slots(Run *r)
{
    Program *p = r->p;
    r->sizes = arena_array(p->cx->perm, int64_t, dim_nsymbols(p->cx->dims) + 1);
    r->slots = arena_array(p->cx->perm, EvalTensor, p->slots.n);
    for (uint32_t i = 1; i < p->slots.n; i++) {
        const Slot *s = &p->slots.at[i];
        r->slots[i] = eval_of_type(p->cx->perm, p, s->type, r->sizes);
        if (s->kind == SLOT_HYPER)
            r->slots[i].at[0].f = s->initial;
        if (s->kind == SLOT_SEED)
            r->slots[i].at[0].i = 1;
    }
    for (uint32_t i = 0; i < p->graphs.n; i++)
        if (p->graphs.at[i]->kind == GRAPH_INIT) {
            EvalTensor *none;
            const char *why = eval(r, p->graphs.at[i], NULL, &none);
            if (why) {
                printf("init of %s: %s\n", sym_text(p->cx->names, p->name), why);
                r->bad++;
            }
        }
}

static void run_test(Run *r, const Graph *g)
{
    const Interner *names = r->p->cx->names;
    EvalTensor *results;
    const char *why = eval(r, g, NULL, &results);
    if (why) {
        printf("FAILED  %s: %s\n", sym_text(names, g->name), why);
        r->bad++;
        return;
    }
    bool ok = true;
    for (uint32_t i = 0; i < g->results.n; i++) {
        r->done++;
        if (results[i].at[0].i)
            continue;
        const Span at = g->results.at[i].at;
        int line = 0, col = 0;
        source_position(r->p->cx->sources, at.file, at.start, &line, &col);
        printf("FAILED  %s: line %d: %s\n", sym_text(names, g->name), line,
               sym_text(names, g->results.at[i].name));
        ok = false;
        r->bad++;
    }
    if (ok)
        printf("ok      %s\n", sym_text(names, g->name));
}

static uint64_t next(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    return *s ^= *s << 17;
}

static double loss_at(Run *r, const Graph *g, const EvalTensor *in)
{
    EvalTensor *out;
    return eval(r, g, in, &out) ? NAN : eval_at(&out[0], 0);
}

/* One random direction over everything that is differentiated: d loss . v against a difference. */
static bool check_direction(Run *r, const Graph *g, EvalTensor *in, const EvalTensor *out,
                            uint64_t *seed, double *got, double *want)
{
    Arena *a = r->p->cx->perm;
    EvalTensor *moved = arena_array(a, EvalTensor, g->params.n);
    double *v[256];
    *want = 0;
    for (uint32_t k = 1; k < g->results.n; k++) {
        v[k] = arena_array(a, double, out[k].n);
        for (int64_t i = 0; i < out[k].n; i++) {
            v[k][i] = (double)(next(seed) >> 40) / (1 << 23) - 1;
            *want += v[k][i] * eval_at(&out[k], i);
        }
    }
    for (double h = 1e-5; h > 1e-9; h /= 10) {
        double y[2];
        for (int side = 0; side < 2; side++) {
            uint32_t k = 1;
            for (uint32_t j = 0; j < g->params.n; j++) {
                moved[j] = in[j];
                const char *d =
                    k < g->results.n ? sym_text(r->p->cx->names, g->results.at[k].name) : "";
                if (strcmp(d + (*d ? 2 : 0), sym_text(r->p->cx->names, g->params.at[j].name)) != 0)
                    continue;
                moved[j].at = arena_array(a, ScalarValue, in[j].n);
                for (int64_t i = 0; i < in[j].n; i++)
                    moved[j].at[i].f = in[j].at[i].f + (side ? h : -h) * v[k][i];
                k++;
            }
            y[side] = loss_at(r, g, moved);
        }
        *got = (y[1] - y[0]) / (2 * h);
        if (fabs(*got - *want) <= 1e-6 * fmax(1, fabs(*want)))
            return true;
    }
    return false;
}

static void run_gradcheck(Run *r, const GradCheck *c)
{
    Program *p = r->p;
    const Graph *inputs = program_find_graph(p, c->inputs, GRAPH_CHECK);
    const Graph *loss = program_find_graph(p, c->loss, GRAPH_CHECK);
    EvalTensor *in, *out;
    const char *why = eval(r, inputs, NULL, &in);
    if (!why)
        why = eval(r, loss, in, &out);
    r->done++;
    if (why || loss->results.n > 256) {
        printf("FAILED  %s: %s\n", c->text, why ? why : "too many values");
        r->bad++;
        return;
    }
    uint64_t seed = 88172645463325252ull;
    double got = 0, want = 0;
    for (int turn = 0; turn < 3; turn++)
        if (!check_direction(r, loss, in, out, &seed, &got, &want)) {
            printf("FAILED  %s: derivative %.9g, difference %.9g\n", c->text, want, got);
            r->bad++;
            return;
        }
    printf("ok      %s (%.6g)\n", c->text, want);
}

static int run_file(const char *path)
{
    Ctx *cx = ctx_create();
    uint32_t file = source_read(cx->sources, path, false);
    Elaborated out = {0};
    ElabOptions o = {.tests = true, .f64_tests = true};
    bool ok = file && elaborate(cx, file, &o, &out);
    StrBuf text = {.a = cx->perm};
    diag_render(cx->diags, (DiagStyle){0}, &text);
    fputs(sb_text(&text), stdout);
    int bad = !ok, done = 0;
    for (uint32_t i = 0; i < out.models.n; i++) {
        Run r = {.p = out.models.at[i]};
        init_slots(&r);
        for (uint32_t k = 0; k < r.p->graphs.n; k++)
            if (r.p->graphs.at[k]->kind == GRAPH_TEST)
                run_test(&r, r.p->graphs.at[k]);
        for (uint32_t k = 0; k < r.p->gradchecks.n; k++)
            run_gradcheck(&r, &r.p->gradchecks.at[k]);
        bad += r.bad;
        done += r.done;
    }
    printf("%s: %d checks, %d wrong\n", path, done, bad);
    ctx_destroy(cx);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = argc < 2;
    for (int i = 1; i < argc; i++)
        bad += run_file(argv[i]);
    return bad ? 1 : 0;
}
