/* tensor.c: contexts, programs, slots, interned types, attributes, liveness.
 * SPDX-License-Identifier: MIT */
#include "ir/tensor.h"

#include "ir/base/die.h"
#include "ir/tensor_internal.h"

#include <string.h>

Ctx *ctx_create(void)
{
    Arena *a = arena_create();
    Ctx *cx = arena_new(a, Ctx);
    cx->perm = a;
    cx->scratch = arena_create();
    cx->kernels = arena_create();
    cx->names = intern_create(a);
    cx->sources = sources_create(a);
    cx->diags = diags_create(a, cx->sources);
    cx->dims = dims_create(a, cx->names);
    return cx;
}

void ctx_destroy(Ctx *cx)
{
    if (!cx)
        return;
    arena_destroy(cx->scratch);
    arena_destroy(cx->kernels);
    arena_destroy(cx->perm); /* holds cx itself */
}

Program *program_create(Ctx *cx, Sym name)
{
    Program *p = arena_new(cx->perm, Program);
    p->cx = cx;
    p->name = name;
    vec_push(cx->perm, &p->slots, ((Slot){0}));
    vec_push(cx->perm, &p->types, ((TypeInfo){0}));
    return p;
}

uint32_t program_add_slot(Program *p, Slot slot)
{
    vec_push(p->cx->perm, &p->slots, slot);
    return p->slots.n - 1;
}

Graph *program_add_graph(Program *p, Sym name, GraphKind kind)
{
    Graph *g = arena_new(p->cx->perm, Graph);
    g->name = name;
    g->kind = kind;
    vec_push(p->cx->perm, &g->nodes, ((Node){0}));
    vec_push(p->cx->perm, &p->graphs, g);
    return g;
}

Graph *program_find_graph(const Program *p, Sym method, GraphKind kind)
{
    for (uint32_t i = 0; i < p->graphs.n; i++)
        if (p->graphs.at[i]->kind == kind && sym_eq(p->graphs.at[i]->method, method))
            return p->graphs.at[i];
    return NULL;
}

/* --- types ------------------------------------------------------------------------------------ */

static uint64_t type_hash(const TypeInfo *t)
{
    uint64_t h = hash_word(HASH_START,
                           (uint64_t)t->dtype | (uint64_t)t->rank << 8 | (uint64_t)t->place << 16);
    for (uint32_t i = 0; i < t->rank; i++)
        h = hash_word(h, t->shape[i].id);
    return h;
}

static bool type_same(const TypeInfo *a, const TypeInfo *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->place != b->place)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (!dim_same(a->shape[i], b->shape[i]))
            return false;
    return true;
}

static void types_grow(Program *p)
{
    if (p->type_table_size && p->types.n * 2 < p->type_table_size)
        return;
    p->type_table_size = p->type_table_size ? p->type_table_size * 2 : 128;
    p->type_table = arena_array(p->cx->perm, uint32_t, p->type_table_size);
    for (uint32_t id = 1; id < p->types.n; id++) {
        uint32_t h = (uint32_t)type_hash(&p->types.at[id]) & (p->type_table_size - 1);
        while (p->type_table[h])
            h = (h + 1) & (p->type_table_size - 1);
        p->type_table[h] = id;
    }
}

Ty type_make(Program *p, TypeInfo info)
{
    CHECK(info.rank <= MAX_RANK && info.dtype > DT_none && info.dtype < DT_COUNT);
    for (uint32_t i = 0; i < MAX_RANK; i++) {
        CHECK(i >= info.rank || info.shape[i].id);
        if (i >= info.rank)
            info.shape[i] = (Dim){0};
    }
    types_grow(p);
    uint32_t h = (uint32_t)type_hash(&info) & (p->type_table_size - 1);
    for (; p->type_table[h]; h = (h + 1) & (p->type_table_size - 1))
        if (type_same(&p->types.at[p->type_table[h]], &info))
            return (Ty){p->type_table[h]};
    p->type_table[h] = p->types.n;
    vec_push(p->cx->perm, &p->types, info);
    return (Ty){p->types.n - 1};
}

Ty type_of(Program *p, DType dtype, const Dim *shape, uint32_t rank, Place place)
{
    CHECK(rank <= MAX_RANK);
    TypeInfo t = {.dtype = dtype, .rank = (uint8_t)rank, .place = place};
    for (uint32_t i = 0; i < rank; i++)
        t.shape[i] = shape[i];
    return type_make(p, t);
}

Dim type_numel(Program *p, Ty t)
{
    const TypeInfo *i = type_info(p, t);
    return dim_product(p->cx->dims, i->shape, i->rank);
}

const char *shape_text(const Program *p, Arena *a, const Dim *shape, uint32_t rank)
{
    StrBuf b = {.a = a};
    sb_putc(&b, '[');
    for (uint32_t i = 0; i < rank; i++) {
        if (i)
            sb_puts(&b, ", ");
        dim_print(p->cx->dims, shape[i], &b);
    }
    sb_putc(&b, ']');
    return sb_text(&b);
}

const char *type_text(const Program *p, Arena *a, Ty t)
{
    const TypeInfo *i = type_info(p, t);
    return arena_printf(a, "%s%s", dtype_name(i->dtype), shape_text(p, a, i->shape, i->rank));
}

/* --- attributes ------------------------------------------------------------------------------- */

int attr_index(Op op, AttrName name)
{
    const OpInfo *info = op_info(op);
    for (int i = 0; i < info->nattrs; i++)
        if (info->attrs[i] == name)
            return i;
    die("op %s has no attribute %s", info->name, attr_text(name));
}

Attr node_attr(const Node *n, AttrName name)
{
    return n->attrs[attr_index(n->op, name)];
}

int64_t node_int(const Node *n, AttrName name)
{
    const Attr a = node_attr(n, name);
    CHECK(a.n > 0);
    return a.at[0];
}

double node_f64(const Node *n, AttrName name)
{
    const int64_t word = node_int(n, name);
    double d;
    memcpy(&d, &word, sizeof d);
    return d;
}

Dim node_dim(const Node *n, AttrName name, uint32_t i)
{
    const Attr a = node_attr(n, name);
    CHECK(i < a.n);
    return attr_dim(a, i);
}

/* --- results, commits, uses ------------------------------------------------------------------- */

bool program_has_places(const Program *p)
{
    for (uint32_t i = 1; i < p->types.n; i++)
        if (p->types.at[i].place != PLACE_D0)
            return true;
    return false;
}

int program_gpu(const Program *p)
{
    int first = -1;
    for (uint32_t i = 1; i < p->types.n; i++) {
        const Place at = p->types.at[i].place;
        if (at != PLACE_D0 && at != PLACE_HOST && (first < 0 || at - PLACE_CUDA < first))
            first = at - PLACE_CUDA;
    }
    return first;
}

void graph_result(Program *p, Graph *g, Sym name, Val v, Span at)
{
    vec_push(p->cx->perm, &g->results, ((GraphResult){name, v, at}));
}

void graph_commit(Program *p, Graph *g, uint32_t slot, Val v)
{
    Builder b = builder_for(p, g);
    if (graph_node(g, v)->loose != LOOSE_NO)
        v = build_at_place(&b, v, type_info(p, p->slots.at[slot].type)->place);
    for (uint32_t i = 0; i < g->commits.n; i++)
        if (g->commits.at[i].slot == slot) {
            g->commits.at[i].val = v;
            return;
        }
    vec_push(p->cx->perm, &g->commits, ((Commit){slot, v}));
}

bool *graph_live(const Program *p, const Graph *g)
{
    bool *live = arena_array(p->cx->scratch, bool, g->nodes.n);
    for (uint32_t i = 0; i < g->results.n; i++)
        live[g->results.at[i].val.node] = true;
    for (uint32_t i = 0; i < g->commits.n; i++)
        live[g->commits.at[i].val.node] = true;
    for (uint32_t i = 0; i < g->effects.n; i++)
        live[g->effects.at[i].node] = true;
    for (uint32_t i = 0; i < g->saved.n; i++)
        live[g->saved.at[i].node] = true;
    for (uint32_t id = g->nodes.n; id-- > 1;)
        for (uint32_t k = 0; live[id] && k < g->nodes.at[id].nin; k++)
            live[g->nodes.at[id].in[k].node] = true;
    live[0] = false;
    return live;
}

uint32_t *graph_uses(const Program *p, const Graph *g, const bool *live)
{
    uint32_t *uses = arena_array(p->cx->scratch, uint32_t, g->nodes.n);
    for (uint32_t id = 1; id < g->nodes.n; id++)
        for (uint32_t k = 0; (!live || live[id]) && k < g->nodes.at[id].nin; k++)
            uses[g->nodes.at[id].in[k].node]++;
    for (uint32_t i = 0; i < g->results.n; i++)
        uses[g->results.at[i].val.node]++;
    for (uint32_t i = 0; i < g->commits.n; i++)
        uses[g->commits.at[i].val.node]++;
    for (uint32_t i = 0; i < g->effects.n; i++)
        uses[g->effects.at[i].node]++;
    for (uint32_t i = 0; i < g->saved.n; i++)
        uses[g->saved.at[i].node]++;
    uses[0] = 0;
    return uses;
}
