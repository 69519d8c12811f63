/* lower_tool.c: runs the passes and lowering over tensor IR text, prints kernels and programs, and
 * compares what they compute with the evaluator of tensor IR, graph by graph, on seeded inputs.
 *
 *   lower_tool [-cuda] [-no-fuse] [-quiet] [-size N] FILE.tir
 *
 * Status 0: every graph agrees. SPDX-License-Identifier: MIT */
#include "ir/eval.h"
#include "ir/kernel_eval.h"
#include "passes/pass.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Ctx *cx;
    Program *p;
    HostModel *m;
    int64_t *sizes;
    EvalTensor *slots;
    bool quiet;
    int64_t size; /* of symbols, where given and allowed; else small ones; -1: not given */
    uint64_t seed;
} Tool;

static double next_random(Tool *t)
{
    t->seed = t->seed * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(t->seed >> 40) / (double)(1 << 24);
}

/* Small integers stay inside what index operands may be. */
static void fill(Tool *t, EvalTensor *x)
{
    for (int64_t i = 0; i < x->n; i++) {
        double r = next_random(t);
        if (dtype_is_float(x->dtype))
            x->at[i].f = dtype_round(x->dtype, 2 * r - 1);
        else if (x->dtype == DT_bool)
            x->at[i].i = r < 0.5;
        else
            x->at[i].i = (int64_t)(3 * r);
    }
}

static void choose_sizes(Tool *t, int64_t base)
{
    DimTable *d = t->cx->dims;
    uint32_t n = dim_nsymbols(d);
    for (uint32_t i = 1; i <= n; i++) {
        const SymbolInfo *s = dim_symbol(d, (Symbol){i});
        int64_t v = base + (base % 2 && base < 9 ? i % 3 : 0);
        while (v % s->div != s->rem)
            v++;
        t->sizes[i] = v < s->lo ? s->lo : v > s->hi ? s->hi : v;
    }
    for (uint32_t i = 1; i <= n; i++) {
        Dim e = dim_symbol(d, (Symbol){i})->equals;
        if (e.id)
            dim_eval(d, e, t->sizes, &t->sizes[i]);
    }
}

static KernelArray array_copy(Tool *t, const EvalTensor *x)
{
    KernelArray k = {x->dtype, x->n, arena_array(t->cx->perm, ScalarValue, x->n + 1)};
    memcpy(k.at, x->at, (size_t)x->n * sizeof *x->at);
    return k;
}

static bool close_enough(const EvalTensor *want, int64_t i, ScalarValue got)
{
    if (!dtype_is_float(want->dtype))
        return want->at[i].i == got.i;
    double a = want->at[i].f, b = got.f;
    double eps = want->dtype == DT_f64 ? 1e-10 : want->dtype == DT_f32 ? 2e-5 : 2e-2;
    if (a != a || b != b)
        return a != a && b != b;
    return a == b || fabs(a - b) <= eps * (1 + fabs(a) + fabs(b));
}

static bool compare(Tool *t, const HostProgram *h, const char *what, const EvalTensor *want,
                    const KernelArray *got)
{
    const char *graph = sym_text(t->cx->names, h->name);
    if (got->n != want->n) {
        printf("; %s: %s has %lld elements, not %lld\n", graph, what, (long long)got->n,
               (long long)want->n);
        return false;
    }
    for (int64_t i = 0; i < want->n; i++) {
        if (!close_enough(want, i, got->at[i])) {
            printf("; %s: %s[%lld] is %.9g, not %.9g\n", graph, what, (long long)i,
                   dtype_is_float(want->dtype) ? got->at[i].f : (double)got->at[i].i,
                   eval_at(want, i));
            return false;
        }
    }
    return true;
}

/* The graph's entry checks, which a caller would be told about. */
static bool sizes_allowed(Tool *t, const Graph *g)
{
    for (uint32_t i = 0; i < g->checks.n; i++) {
        const GuardTerm *x = &g->checks.at[i].guard;
        int64_t a = 0, b = 0;
        if ((x->a.id && !dim_eval(t->cx->dims, x->a, t->sizes, &a)) ||
            (x->b.id && !dim_eval(t->cx->dims, x->b, t->sizes, &b)))
            return false;
        if ((x->kind == G_EQ && a != b) || (x->kind == G_NE && a == b) ||
            (x->kind == G_LT && a >= b) || (x->kind == G_LE && a > b) ||
            (x->kind == G_DIVISIBLE && a % x->k))
            return false;
    }
    return true;
}

static void make_slots(Tool *t)
{
    t->slots = arena_array(t->cx->perm, EvalTensor, t->p->slots.n + 1);
    for (uint32_t i = 1; i < t->p->slots.n; i++) {
        t->slots[i] = eval_of_type(t->cx->perm, t->p, t->p->slots.at[i].type, t->sizes);
        fill(t, &t->slots[i]);
        for (int64_t k = 0; t->p->slots.at[i].kind == SLOT_MOMENT && k < t->slots[i].n; k++)
            t->slots[i].at[k].f = fabs(t->slots[i].at[k].f);
    }
}

static bool run_graph(Tool *t, const HostProgram *h)
{
    const Graph *g = h->graph;
    Arena *a = t->cx->perm;
    static const int64_t bases[] = {5, 8, 12, 7, 4, 3, 2, 1, 64};
    t->sizes = arena_array(a, int64_t, dim_nsymbols(t->cx->dims) + 1);
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        choose_sizes(t, i == 0 && t->size >= 0 ? t->size : bases[i]);
        const Graph *forward = g;
        if (g->kind == GRAPH_BACKWARD)
            forward = program_find_graph(t->p, g->method, GRAPH_FORWARD_TRAIN);
        if (sizes_allowed(t, forward))
            break;
    }
    make_slots(t);
    Eval e = {.a = a, .p = t->p, .sizes = t->sizes};
    EvalTensor *inputs = arena_array(a, EvalTensor, g->params.n + 1);
    KernelArray *buffers = arena_array(a, KernelArray, h->buffers.n);
    for (uint32_t i = 0; i < g->params.n; i++) {
        inputs[i] = eval_of_type(a, t->p, val_type(g, g->params.at[i].val), t->sizes);
        fill(t, &inputs[i]);
        uint32_t buf = i < h->nargs ? h->args.at[i].buf : h->tape.at[i - h->nargs];
        buffers[buf] = array_copy(t, &inputs[i]);
    }
    e.inputs = inputs;
    e.slots = arena_array(a, EvalTensor, t->p->slots.n + 1);
    memcpy(e.slots, t->slots, t->p->slots.n * sizeof *e.slots);
    for (uint32_t i = 1; i < h->buffers.n; i++)
        if (h->buffers.at[i].kind == BUF_STATE && !h->buffers.at[i].of)
            buffers[i] = array_copy(t, &t->slots[h->buffers.at[i].slot]);
    /* saved values are results of the graph too, here */
    e.results = arena_array(a, EvalTensor, g->results.n + 1);
    const char *why = eval_graph(&e, g);
    bool check = true, fine = true;
    if (!why)
        why = host_eval(t->m, h, buffers, t->sizes, &check);
    if (why) {
        printf("; %s: %s\n", sym_text(t->cx->names, h->name), why);
        return false;
    }
    if (check != !e.failed) {
        printf("; %s: a check %s\n", sym_text(t->cx->names, h->name), check ? "held" : "failed");
        return false;
    }
    for (uint32_t i = 0; i < g->results.n; i++)
        fine &= compare(t, h, sym_text(t->cx->names, g->results.at[i].name), &e.results[i],
                        &buffers[h->args.at[h->nargs + i].buf]);
    for (uint32_t i = 1; i < h->buffers.n; i++)
        if (h->buffers.at[i].kind == BUF_STATE && !h->buffers.at[i].of)
            fine &= compare(t, h, sym_text(t->cx->names, h->buffers.at[i].name),
                            &e.slots[h->buffers.at[i].slot], &buffers[i]);
    printf("; %s: %s\n", sym_text(t->cx->names, h->name), fine ? "agrees" : "differs");
    return fine;
}

static bool run_all(Tool *t)
{
    bool fine = true;
    for (uint32_t i = 0; i < t->m->programs.n; i++)
        fine &= run_graph(t, t->m->programs.at[i]);
    return fine;
}

static Kernel *read_back(Tool *t, const Kernel *k, StrBuf *text)
{
    kernel_print(t->p, k, text);
    uint32_t file = source_add(t->cx->sources, "kernel", sb_text(text), text->n, false);
    return kernel_parse(t->p, file);
}

/* print(parse(text)) == text. The first text is read once before: the terms of its indices are in
 * order of its axes' age, those of a text that was read in order of its loops. */
static bool reads_back(Tool *t, const Kernel *k)
{
    StrBuf text[3] = {{.a = t->cx->perm}, {.a = t->cx->perm}, {.a = t->cx->perm}};
    Kernel *again = read_back(t, k, &text[0]),
           *twice = again ? read_back(t, again, &text[1]) : NULL;
    if (!twice)
        return false;
    kernel_print(t->p, twice, &text[2]);
    const char *why = kernel_verify(t->p, twice);
    if (!why && text[0].n == text[1].n && !strcmp(sb_text(&text[1]), sb_text(&text[2])))
        return true;
    printf("; %s\n%s; reads back as\n%s", why ? why : "another text", sb_text(&text[0]),
           sb_text(&text[2]));
    return false;
}

static int finish(Tool *t, int status)
{
    StrBuf out = {.a = t->cx->perm};
    diag_render(t->cx->diags, (DiagStyle){0}, &out);
    fputs(sb_text(&out), stderr);
    ctx_destroy(t->cx);
    return status;
}

int main(int argc, char **argv)
{
    Tool t = {.cx = ctx_create(), .size = -1, .seed = 1};
    LowerOptions o = {.level = 2};
    const char *path = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-cuda"))
            o.cuda = true;
        else if (!strcmp(argv[i], "-own")) /* products by kernels of our own */
            o.no_cublas = true;
        else if (!strcmp(argv[i], "-tf32"))
            o.tf32 = true;
        else if (!strcmp(argv[i], "-tune"))
            o.tune = true;
        else if (!strcmp(argv[i], "-no-fuse"))
            o.no_fuse = true;
        else if (!strcmp(argv[i], "-size") && i + 1 < argc)
            t.size = atoll(argv[++i]);
        else if (!strcmp(argv[i], "-quiet"))
            t.quiet = true;
        else
            path = argv[i];
    }
    if (!path) {
        fprintf(stderr,
                "usage: lower_tool [-cuda [-own] [-tf32] [-tune]] [-no-fuse] [-quiet] [-size N] "
                "FILE.tir\n");
        return finish(&t, 2);
    }
    uint32_t file = source_read(t.cx->sources, path, false);
    t.p = file ? tensor_parse(t.cx, file) : NULL;
    PassOptions po = {.level = 2, .verify = true};
    if (!t.p || !passes_run(t.p, &po) || !(t.m = lower_program(t.p, &o)))
        return finish(&t, 1);
    StrBuf out = {.a = t.cx->perm};
    for (uint32_t i = 0; i < t.m->kernels.n; i++)
        kernel_print(t.p, t.m->kernels.at[i], &out);
    for (uint32_t i = 0; i < t.m->programs.n; i++)
        host_print(t.m, t.m->programs.at[i], &out);
    if (!t.quiet)
        fputs(sb_text(&out), stdout);
    bool fine = run_all(&t);
    for (uint32_t i = 0; i < t.m->kernels.n; i++)
        fine &= reads_back(&t, t.m->kernels.at[i]);
    return finish(&t, fine ? 0 : 1);
}
