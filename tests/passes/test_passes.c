/* test_passes.c: what the passes make of a program computes what the program says. Each .tir file
 * is read with f64 in place of f32 and run through all passes in every mode of remat, verified and
 * read back after each; then results are compared with the untouched program, gradients with
 * differences. test_passes FILE.tir... SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval.h"
#include "passes/fuse.h"
#include "passes/pass.h"

enum { SAMPLES = 12, MAX_SIZES = 64 };

typedef struct {
    const char *file;
    char *text;
    size_t n;
    Program *p; /* untouched */
    int64_t sizes[MAX_SIZES];
    EvalTensor slots[32];
    int failures;
} Test;

static uint64_t next(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 11;
}

static void complain(Test *t, const char *what, const char *name, double got, double want)
{
    fprintf(stderr, "%s: %s %s is %.12g, not %.12g\n", t->file, what, name, got, want);
    t->failures++;
}

static bool close_to(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * (1 + fabs(b)) || (isnan(a) && isnan(b)) || a == b;
}

/* The file's text with another float type; passes run on the second program of a pair. */
static Program *load(Test *t)
{
    Ctx *cx = ctx_create();
    uint32_t file = source_add(cx->sources, t->file, t->text, t->n, false);
    Program *p = tensor_parse(cx, file);
    if (!p) {
        StrBuf text = {.a = cx->scratch};
        diag_render(cx->diags, (DiagStyle){0}, &text);
        fprintf(stderr, "%s", sb_text(&text));
        exit(1);
    }
    return p;
}

static void fill(EvalTensor *x, uint64_t *seed)
{
    for (int64_t i = 0; i < x->n; i++)
        if (dtype_is_float(x->dtype))
            x->at[i].f = 2 * (double)next(seed) / 9007199254740992.0 - 1;
        else
            x->at[i].i = (int64_t)(next(seed) % 3);
}

static void evaluate(Test *t, Program *p, const Graph *g, const EvalTensor *in, EvalTensor *slots,
                     EvalTensor **results)
{
    Eval e = {.a = p->cx->perm, .p = p, .sizes = t->sizes, .inputs = in, .slots = slots};
    const char *error = eval_graph(&e, g);
    if (error) {
        fprintf(stderr, "%s: graph %s: %s\n", t->file, sym_text(p->cx->names, g->name), error);
        exit(1);
    }
    *results = e.results;
}

/* Slots of p by the names that the untouched program uses; new ones (gradients) are zeros. */
static void copy_slots(Test *t, const Program *p, EvalTensor *to)
{
    for (uint32_t s = 1; s < p->slots.n; s++) {
        const char *name = sym_text(p->cx->names, p->slots.at[s].name);
        to[s] = eval_of_type(p->cx->perm, p, p->slots.at[s].type, t->sizes);
        for (uint32_t k = 1; k < t->p->slots.n; k++)
            if (!strcmp(name, sym_text(t->p->cx->names, t->p->slots.at[k].name)))
                memcpy(to[s].at, t->slots[k].at, (size_t)to[s].n * sizeof *to[s].at);
    }
}

static const Graph *find(const Program *p, const char *method, GraphKind kind)
{
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        const Graph *g = p->graphs.at[i];
        if (g->kind == kind && !strcmp(sym_text(p->cx->names, g->name), method))
            return g;
    }
    return NULL;
}

static void compare(Test *t, const char *what, const char *name, const EvalTensor *got,
                    const EvalTensor *want)
{
    if (got->n != want->n) {
        complain(t, what, name, (double)got->n, (double)want->n);
        return;
    }
    for (int64_t i = 0; i < got->n; i++)
        if (!close_to(eval_at(got, i), eval_at(want, i), 1e-9)) {
            complain(t, what, name, eval_at(got, i), eval_at(want, i));
            return;
        }
}

/* --- gradients -------------------------------------------------------------------------------- */

typedef struct {
    const Graph *g; /* untouched training graph */
    EvalTensor in[16];
    EvalTensor dy[16]; /* n == 0: no cotangent */
} Training;

/* sum_i <dy_i, y_i> */
static double weighed(Test *t, const Training *tr)
{
    EvalTensor slots[32], *y;
    ArenaMark mark = arena_mark(t->p->cx->perm);
    memcpy(slots, t->slots, sizeof slots);
    evaluate(t, t->p, tr->g, tr->in, slots, &y);
    double sum = 0;
    for (uint32_t i = 0; i < tr->g->results.n; i++)
        for (int64_t k = 0; k < tr->dy[i].n; k++)
            sum += eval_at(&tr->dy[i], k) * eval_at(&y[i], k);
    arena_reset(t->p->cx->perm, mark);
    return sum;
}

/* Element k of a slot belongs to a parameter that does not move (slot 0: no slot). */
static bool frozen(const Test *t, uint32_t slot, int64_t k)
{
    for (uint32_t i = 0; i < t->p->state.n; i++) {
        const StateView *v = &t->p->state.at[i];
        int64_t n = 0;
        dim_is_const(t->p->cx->dims, type_numel(t->p, v->type), &n);
        if (slot && v->slot == slot && !v->trainable && k >= v->offset && k < v->offset + n)
            return true;
    }
    return false;
}

static void check_gradient(Test *t, const Training *tr, const char *name, EvalTensor *x,
                           const EvalTensor *d, uint32_t slot)
{
    uint64_t seed = 99;
    const double h = 1e-5;
    if (d->n != x->n) {
        complain(t, "size of gradient", name, (double)d->n, (double)x->n);
        return;
    }
    for (int i = 0; i < SAMPLES && x->n; i++) {
        int64_t k = (int64_t)(next(&seed) % (uint64_t)x->n);
        double old = x->at[k].f;
        x->at[k].f = old + h;
        double up = weighed(t, tr);
        x->at[k].f = old - h;
        double down = weighed(t, tr);
        x->at[k].f = old;
        double want = frozen(t, slot, k) ? 0 : (up - down) / (2 * h);
        if (!close_to(eval_at(d, k), want, 1e-6))
            complain(t, "gradient", name, eval_at(d, k), want);
    }
}

static void check_slots(Test *t, const Training *tr, const Program *p, const EvalTensor *slots)
{
    for (uint32_t s = 1; s < p->slots.n; s++) {
        if (p->slots.at[s].kind != SLOT_GRAD)
            continue;
        const char *segment = sym_text(p->cx->names, p->slots.at[p->slots.at[s].segment].name);
        for (uint32_t k = 1; k < t->p->slots.n; k++)
            if (!strcmp(segment, sym_text(t->p->cx->names, t->p->slots.at[k].name)))
                check_gradient(t, tr, segment, &t->slots[k], &slots[s], k);
    }
}

static void check_backward(Test *t, Training *tr, Program *p, const char *name)
{
    const Graph *forward = find(p, name, GRAPH_FORWARD_TRAIN);
    const Graph *backward = find(p, name, GRAPH_BACKWARD);
    EvalTensor slots[32], *y, *want, *d, in[64];
    bool any_float = false;
    for (uint32_t i = 0; i < tr->g->results.n; i++)
        any_float |= dtype_is_float(val_info(t->p, tr->g, tr->g->results.at[i].val)->dtype);
    if (!forward && !backward && !any_float)
        return;
    if (!forward || !backward) {
        fprintf(stderr, "%s: %s has no backward\n", t->file, name);
        t->failures++;
        return;
    }
    Graph taped = *forward; /* saved values as results */
    taped.results.cap = taped.results.n;
    for (uint32_t i = 0; i < forward->saved.n; i++)
        graph_result(p, &taped, (Sym){0}, forward->saved.at[i], (Span){0});
    copy_slots(t, p, slots);
    evaluate(t, p, &taped, tr->in, slots, &y);
    EvalTensor old[32];
    memcpy(old, t->slots, sizeof old);
    evaluate(t, t->p, tr->g, tr->in, old, &want);
    for (uint32_t i = 0; i < tr->g->results.n; i++)
        compare(t, "forward_train's", name, &y[i], &want[i]);
    uint32_t n = 0, ncotangents = backward->params.n - forward->saved.n;
    memset(tr->dy, 0, sizeof tr->dy);
    uint64_t seed = 7;
    for (; n < ncotangents; n++) {
        const GraphParam *param = &backward->params.at[n];
        in[n] = eval_of_type(p->cx->perm, p, val_type(backward, param->val), t->sizes);
        fill(&in[n], &seed);
        const char *of = sym_text(p->cx->names, param->name) + 2;
        for (uint32_t i = 0; i < tr->g->results.n; i++)
            if (!strcmp(of, sym_text(t->p->cx->names, tr->g->results.at[i].name)))
                tr->dy[i] = in[n];
    }
    for (uint32_t i = 0; i < forward->saved.n; i++)
        in[n++] = y[forward->results.n + i];
    evaluate(t, p, backward, in, slots, &d);
    for (uint32_t i = 0; i < backward->results.n; i++) {
        const char *of = sym_text(p->cx->names, backward->results.at[i].name) + 2;
        for (uint32_t k = 0; k < tr->g->params.n; k++)
            if (!strcmp(of, sym_text(t->p->cx->names, tr->g->params.at[k].name)))
                check_gradient(t, tr, of, &tr->in[k], &d[i], 0);
    }
    check_slots(t, tr, p, slots);
}

static void check_grad(Test *t, Training *tr, Program *p, const char *name)
{
    const Graph *g = find(p, name, GRAPH_GRAD);
    EvalTensor slots[32], *y;
    if (!g)
        return;
    copy_slots(t, p, slots);
    evaluate(t, p, g, tr->in, slots, &y);
    memset(tr->dy, 0, sizeof tr->dy);
    tr->dy[0] = eval_tensor(p->cx->perm, DT_f64, NULL, 0);
    tr->dy[0].at[0].f = 1;
    check_slots(t, tr, p, slots);
}

/* --- one file --------------------------------------------------------------------------------- */

static void check_graph(Test *t, const Graph *g, Program *p)
{
    const char *name = sym_text(t->p->cx->names, g->name);
    Training tr = {.g = g};
    uint64_t seed = 3;
    for (uint32_t i = 0; i < g->params.n; i++) {
        tr.in[i] = eval_of_type(t->p->cx->perm, t->p, val_type(g, g->params.at[i].val), t->sizes);
        fill(&tr.in[i], &seed);
    }
    if (g->kind == GRAPH_TRAINING) {
        check_backward(t, &tr, p, name);
        check_grad(t, &tr, p, name);
        return;
    }
    const Graph *after = find(p, name, g->kind);
    if (!after)
        return;
    EvalTensor before_slots[32], after_slots[32], *want, *got;
    memcpy(before_slots, t->slots, sizeof before_slots);
    copy_slots(t, p, after_slots);
    evaluate(t, t->p, g, tr.in, before_slots, &want);
    evaluate(t, p, after, tr.in, after_slots, &got);
    for (uint32_t i = 0; i < g->results.n; i++)
        compare(t, "result of", name, &got[i], &want[i]);
    for (uint32_t i = 0; i < g->commits.n; i++)
        compare(t, "slot after", name, &after_slots[g->commits.at[i].slot],
                &before_slots[g->commits.at[i].slot]);
}

static void check_file(Test *t, const char *remat)
{
    t->p = load(t);
    Program *p = load(t);
    uint64_t seed = 1;
    for (uint32_t s = 1; s <= dim_nsymbols(t->p->cx->dims) && s < MAX_SIZES; s++)
        t->sizes[s] = 2 + s;
    for (uint32_t s = 1; s < t->p->slots.n; s++) {
        t->slots[s] = eval_of_type(t->p->cx->perm, t->p, t->p->slots.at[s].type, t->sizes);
        if (t->p->slots.at[s].kind != SLOT_GRAD) /* gradients start at 0 */
            fill(&t->slots[s], &seed);
    }
    PassOptions o = {.level = 2, .deterministic = true, .remat = remat, .verify = true};
    if (!passes_run(p, &o)) {
        StrBuf text = {.a = p->cx->scratch};
        diag_render(p->cx->diags, (DiagStyle){0}, &text);
        fprintf(stderr, "%s", sb_text(&text));
        t->failures++;
        return;
    }
    for (uint32_t i = 0; i < t->p->graphs.n; i++)
        if (t->p->graphs.at[i]->kind != GRAPH_DEF && t->p->graphs.at[i]->kind != GRAPH_BODY)
            check_graph(t, t->p->graphs.at[i], p);
    for (uint32_t i = 0; i < p->graphs.n; i++)
        if (!fuse_graph(p, p->graphs.at[i], true) || !fuse_graph(p, p->graphs.at[i], false))
            t->failures++;
    ctx_destroy(p->cx);
    ctx_destroy(t->p->cx);
}

static bool read_text(Test *t)
{
    FILE *f = fopen(t->file, "rb");
    if (!f)
        return false;
    static const size_t most = 1 << 20;
    t->text = malloc(most);
    t->n = fread(t->text, 1, most - 1, f);
    t->text[t->n] = 0;
    fclose(f);
    for (char *line = t->text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t n = strcspn(line, "\n");
        char *random = strstr(line, "= random"); /* draws are f32 */
        if (random && random < line + n)
            continue;
        for (char *at = strstr(line, "f32"); at && at < line + n; at = strstr(at, "f32"))
            memcpy(at, "f64", 3);
    }
    return true;
}

int main(int argc, char **argv)
{
    static const char *const modes[] = {"none", "auto", "all"};
    int failures = argc < 2;
    for (int i = 1; i < argc; i++) {
        Test t = {.file = argv[i]};
        if (!read_text(&t)) {
            fprintf(stderr, "cannot read %s\n", argv[i]);
            return 1;
        }
        for (int k = 0; k < 3; k++)
            check_file(&t, modes[k]);
        printf("%s: %s\n", argv[i], t.failures ? "wrong" : "as it should be");
        failures += t.failures;
        free(t.text);
    }
    return failures != 0;
}
