/* pass.c: runs the table of passes: time, verify, read back, dump.
 * SPDX-License-Identifier: MIT */
#include "passes/pass.h"

#include "ir/base/die.h"
#include "passes/fuse.h"
#include "passes/pipeline.h"

#include <string.h>
#include <time.h>

static const PassInfo infos[] = {
#define PASS(name, required, doc) {#name, doc, required},
#include "passes/passes.def"
#undef PASS
    {"fuse", "merge the kernels that save traffic; without it one kernel a stored value", false},
    {"conflicts", "let temporaries that are never alive at once share memory", false},
};

static bool (*const entries[])(Pipeline *) = {
#define PASS(name, required, doc) pass_##name,
#include "passes/passes.def"
#undef PASS
};

const PassInfo *pass_infos(int *n)
{
    *n = (int)ARRAY_LEN(infos);
    return infos;
}

bool pass_enabled(const PassOptions *o, const char *name)
{
    for (int i = 0; i < o->ndisabled; i++)
        if (!strcmp(o->disabled[i], name))
            return false;
    return true;
}

const Joint *pipeline_joint(const Pipeline *pl, uint32_t graph)
{
    for (uint32_t i = 0; i < pl->joints.n; i++)
        if (pl->joints.at[i].graph == graph)
            return &pl->joints.at[i];
    return NULL;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The printed program must read back as the same text. */
static void round_trip(const Program *p, const char *pass)
{
    Ctx *cx = ctx_create();
    StrBuf first = {.a = p->cx->scratch}, second = {.a = p->cx->scratch};
    tensor_print(p, &first);
    uint32_t file = source_add(cx->sources, "round-trip.tir", sb_text(&first), first.n, false);
    Program *copy = tensor_parse(cx, file);
    if (!copy) {
        StrBuf text = {.a = p->cx->scratch};
        diag_render(cx->diags, (DiagStyle){0}, &text);
        die("the printed program does not parse after pass %s:\n%s", pass, sb_text(&text));
    }
    tensor_print(copy, &second);
    if (strcmp(sb_text(&first), sb_text(&second)) != 0)
        die("the printed program reads back differently after pass %s", pass);
    ctx_destroy(cx);
}

static void verify(const Program *p, const char *pass, bool explicit_shapes)
{
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        const char *error = tensor_verify(p, p->graphs.at[i], explicit_shapes);
        if (error)
            die("after pass %s, graph %s: %s", pass, sym_text(p->cx->names, p->graphs.at[i]->name),
                error);
    }
    round_trip(p, pass);
}

static bool has_hook(const Node *n)
{
    return (n->op == OP_attention || n->op == OP_attention_grad) && node_int(n, ATTR_hook) > 0;
}

/* The bodies of scans and the hooks of attentions that a graph still has. */
static void mark_bodies(const Program *p, const Graph *g, bool *used)
{
    const bool *live = graph_live(p, g);
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        const Node *n = &g->nodes.at[id];
        if (live[id] && has_hook(n))
            used[node_int(n, ATTR_hook) - 1] = true;
        if (!live[id] || n->op != OP_scan || used[node_int(n, ATTR_body)])
            continue;
        used[node_int(n, ATTR_body)] = true;
        mark_bodies(p, p->graphs.at[node_int(n, ATTR_body)], used);
    }
}

/* Graphs have other numbers now. Nothing is built any more, so that nodes may change; those of a
 * hook share their word with others. */
static void renumber_bodies(Arena *a, Graph *g, const uint32_t *moved)
{
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        Node *n = &g->nodes.at[id];
        if (n->op == OP_scan) {
            int64_t *word = (int64_t *)(uintptr_t)node_attr(n, ATTR_body).at;
            *word = moved[*word];
        } else if (has_hook(n)) {
            const OpInfo *info = op_info(n->op);
            Attr *attrs = arena_array(a, Attr, (size_t)info->nattrs);
            int64_t *word = arena_new(a, int64_t);
            *word = moved[node_int(n, ATTR_hook) - 1] + 1;
            for (int i = 0; i < info->nattrs; i++)
                attrs[i] = info->attrs[i] == ATTR_hook ? (Attr){word, 1} : n->attrs[i];
            n->attrs = attrs;
        }
    }
}

/* Training graphs that have nothing to differentiate, and definitions, which are inlined by now. */
static void drop_finished(Program *p)
{
    bool *used = arena_array(p->cx->scratch, bool, p->graphs.n);
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        const GraphKind kind = p->graphs.at[i]->kind;
        used[i] |= kind != GRAPH_TRAINING && kind != GRAPH_DEF && kind != GRAPH_BODY;
        if (kind != GRAPH_TRAINING && kind != GRAPH_DEF && kind != GRAPH_BODY)
            mark_bodies(p, p->graphs.at[i], used);
    }
    uint32_t *moved = arena_array(p->cx->scratch, uint32_t, p->graphs.n), n = 0;
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        moved[i] = n;
        if (used[i])
            p->graphs.at[n++] = p->graphs.at[i];
    }
    p->graphs.n = n;
    for (uint32_t i = 0; i < n; i++)
        renumber_bodies(p->cx->perm, p->graphs.at[i], moved);
    for (uint32_t i = 0; i < p->trains.n; i++)
        p->trains.at[i].graph_step = moved[p->trains.at[i].graph_step];
}

static void dump_groups(Program *p, bool merge, StrBuf *out)
{
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        const Fusion *f = fuse_graph(p, p->graphs.at[i], merge);
        if (f)
            fuse_print(f, out);
    }
}

/* Costs are counted at hint sizes, where no extent shall be nothing. */
static void choose_hints(const Program *p)
{
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        const Graph *g = p->graphs.at[i];
        for (uint32_t id = 1; id < g->nodes.n; id++)
            for (uint32_t r = 0; r < g->nodes.at[id].nout; r++) {
                const TypeInfo *type = val_info(p, g, (Val){id, r});
                int64_t fixed;
                for (uint32_t k = 0; k < type->rank; k++)
                    if (!dim_is_const(p->cx->dims, type->shape[k], &fixed))
                        dim_hint_some(p->cx->dims, type->shape[k]);
            }
    }
}

bool passes_run(Program *p, const PassOptions *o)
{
    Pipeline pl = {.p = p, .o = o};
    choose_hints(p);
    for (uint32_t i = 0; i < ARRAY_LEN(entries); i++) {
        const PassInfo *info = &infos[i];
        if (!info->required && !pass_enabled(o, info->name))
            continue;
        ArenaMark mark = arena_mark(p->cx->scratch);
        double start = now();
        die_context(info->name, sym_text(p->cx->names, p->name));
        bool ok = entries[i](&pl);
        if (o->timing)
            o->timing(o->timing_ctx, info->name, now() - start);
        if (!ok || diag_errors(p->cx->diags)) {
            die_context(NULL, NULL);
            return false;
        }
        if (o->verify)
            verify(p, info->name, true);
        arena_reset(p->cx->scratch, mark);
        if (o->stop_after && !strcmp(o->stop_after, info->name)) {
            tensor_print(p, o->dump);
            die_context(NULL, NULL);
            return true;
        }
    }
    drop_finished(p);
    if (o->stop_after && !strcmp(o->stop_after, "fuse"))
        dump_groups(p, pass_enabled(o, "fuse"), o->dump);
    die_context(NULL, NULL);
    return true;
}
