/* step.c: runs a `train` with the reference evaluator: elab_step FILE STEPS [-f64] [-update] <
 * INPUTS INPUTS: one argument a line: NAME DIM,DIM,... VALUES. Prints NAME VALUES of every
 * parameter. -update: gradients are put into the gradient segments, then UPDATE runs.
 * SPDX-License-Identifier: MIT */
#include "frontend/elaborate.h"
#include "ir/eval.h"
#include "passes/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Program *p;
    Arena *a;
    int64_t *sizes;
    EvalTensor *slots;
} Run;

static const char *run_graph(Run *r, const Graph *g, const EvalTensor *in, EvalTensor **results)
{
    Eval e = {.a = r->a, .p = r->p, .sizes = r->sizes, .inputs = in, .slots = r->slots};
    const char *why = eval_graph(&e, g);
    if (results)
        *results = e.results;
    return why ? why : e.failed;
}

static void read_inputs(Run *r, const Graph *g, EvalTensor *in)
{
    Program *p = r->p;
    char name[64], shape[64];
    while (scanf("%63s %63s", name, shape) == 2) {
        int64_t dims[MAX_RANK], n = 1;
        uint32_t rank = 0;
        for (char *s = strtok(shape, ","); s && rank < MAX_RANK; s = strtok(NULL, ","))
            n *= dims[rank++] = strtoll(s, NULL, 10);
        double *v = arena_array(r->a, double, n);
        for (int64_t i = 0; i < n; i++)
            if (scanf("%lf", &v[i]) != 1)
                exit(2);
        for (uint32_t k = 0; k < g->params.n; k++) {
            if (strcmp(sym_text(p->cx->names, g->params.at[k].name), name) != 0)
                continue;
            const TypeInfo *t = val_info(p, g, g->params.at[k].val);
            for (uint32_t i = 0; i < rank; i++) {
                Symbol s;
                if (dim_is_symbol(p->cx->dims, t->shape[i], &s))
                    r->sizes[s.id] = dims[i];
            }
            in[k] = eval_tensor(r->a, t->dtype, dims, rank);
            for (int64_t i = 0; i < n; i++) {
                if (dtype_is_float(t->dtype))
                    in[k].at[i].f = dtype_round(t->dtype, v[i]);
                else
                    in[k].at[i].i = (int64_t)v[i];
            }
        }
    }
}

static void print_params(const Run *r)
{
    const Program *p = r->p;
    for (uint32_t i = 0; i < p->state.n; i++) {
        const StateView *v = &p->state.at[i];
        if (!v->is_param)
            continue;
        int64_t n = 0;
        dim_is_const(p->cx->dims, type_numel(r->p, v->type), &n);
        printf("%s", sym_text(p->cx->names, v->name));
        for (int64_t k = 0; k < n; k++)
            printf(" %.17g", eval_at(&r->slots[v->slot], v->offset + k));
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    ElabOptions o = {0};
    bool update = false;
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "-f64") == 0)
            o.default_float = DT_f64;
        update |= strcmp(argv[i], "-update") == 0;
    }
    if (argc < 3)
        return 2;
    Ctx *cx = ctx_create();
    Elaborated out = {0};
    uint32_t file = source_read(cx->sources, argv[1], false);
    StrBuf text = {.a = cx->perm};
    bool ok = file && elaborate(cx, file, &o, &out) && out.models.n;
    diag_render(cx->diags, (DiagStyle){0}, &text);
    fputs(sb_text(&text), stderr);
    if (!ok || out.models.at[0]->trains.n == 0)
        return 1;
    Run r = {.p = out.models.at[0], .a = cx->perm};
    Program *p = r.p;
    r.sizes = arena_array(cx->perm, int64_t, dim_nsymbols(cx->dims) + 1);
    r.slots = arena_array(cx->perm, EvalTensor, p->slots.n);
    const Graph *step = p->graphs.at[p->trains.at[0].graph_step], *apply = NULL, *init = NULL;
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        if (p->graphs.at[i]->kind == GRAPH_UPDATE)
            apply = p->graphs.at[i];
        if (p->graphs.at[i]->kind == GRAPH_INIT)
            init = p->graphs.at[i];
    }
    EvalTensor *in = arena_array(cx->perm, EvalTensor, step->params.n);
    read_inputs(&r, step, in);
    for (uint32_t i = 1; i < p->slots.n; i++) {
        r.slots[i] = eval_of_type(cx->perm, p, p->slots.at[i].type, r.sizes);
        if (p->slots.at[i].kind == SLOT_HYPER)
            r.slots[i].at[0].f = p->slots.at[i].initial;
    }
    const char *why = run_graph(&r, init, NULL, NULL);
    for (int k = 0; !why && k < atoi(argv[2]); k++) {
        if (!update) {
            why = run_graph(&r, step, in, NULL);
            continue;
        }
        /* the gradient is what plain descent at rate 1 would take away: here from the TRAINING
         * graph */
        Graph *g = program_find_graph(p, p->trains.at[0].method, GRAPH_TRAINING);
        Builder b = builder_for(p, g);
        for (uint32_t s = 1; s < p->slots.n; s++) {
            if (p->slots.at[s].kind != SLOT_GRAD)
                continue;
            Val wrt = build_state(&b, p->slots.at[s].segment), zero = {0, 0}, d;
            if (k == 0 && differentiate(&b, &g->results.at[0].val, &zero, 1, &wrt, 1, &d) && d.node)
                graph_commit(p, g, s, d);
        }
        why = run_graph(&r, g, in, NULL);
        if (!why)
            why = run_graph(&r, apply, NULL, NULL);
    }
    if (why)
        fprintf(stderr, "%s\n", why);
    print_params(&r);
    ctx_destroy(cx);
    return why ? 1 : 0;
}
