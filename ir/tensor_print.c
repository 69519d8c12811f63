/* tensor_print.c: tensor IR as text; tensor_parse.c reads it back. Nodes that reach nothing are not
 * printed. SPDX-License-Identifier: MIT
 *
 *   tenon-ir 1
 *   program lltm
 *   dim B lo=1 hint=32
 *   slot seg0 param f32[1152] saved
 *   view "weights" seg0 + 0 : f32[36, 32] trainable param saved
 *   graph @forward method of forward (%x: f32[B, 32], %h: f32[B, 12] grad) {
 *     require B <= 64, "a small batch"
 *     %seg0 = state {slot=seg0} : f32[1152]
 *     %m, %m#1 = reduce %x {kind=moments, axes=1} : f32[B], f32[B] !1
 *     commit seg0 <- %p
 *     return y = %m
 *   }
 */
#include "ir/base/die.h"
#include "ir/tensor_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *slot_kind_text(SlotKind kind)
{
    static const char *const names[SLOT_KINDS] = {"param", "grad",    "moment", "buffer",
                                                  "hyper", "counter", "seed",   "calls"};
    return names[kind];
}

const char *graph_kind_text(GraphKind kind)
{
    static const char *const names[GRAPH_KINDS] = {
        "method", "training", "forward_train", "backward", "grad", "step",
        "update", "init",     "test",          "body",     "def",  "check"};
    return names[kind];
}

AttrDefault attr_default(Op op, AttrName name)
{
    if (name == ATTR_dtype)
        return FROM_DTYPE;
    if ((name == ATTR_shape && op != OP_dim) || (name == ATTR_extent && op == OP_slice))
        return FROM_SHAPE;
    return name == ATTR_interior || name == ATTR_hook ? ALL_ZERO
           : name == ATTR_step                        ? ALL_ONE
                                                      : SHOWN;
}

typedef struct {
    const Program *p;
    const Graph *g;
    StrBuf *out;
    const char **names; /* of the nodes, without % */
} Printer;

static void print_string(StrBuf *out, const char *s)
{
    sb_putc(out, '"');
    for (; *s; s++) {
        if (*s == '\n' || *s == '\t')
            sb_puts(out, *s == '\n' ? "\\n" : "\\t");
        else {
            if (*s == '"' || *s == '\\')
                sb_putc(out, '\\');
            sb_putc(out, *s);
        }
    }
    sb_putc(out, '"');
}

static bool is_name(const char *s)
{
    if (!*s)
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '_' && *s != '.')
            return false;
    return true;
}

/* A bare word where that reads back, else a string. */
static void print_name(const Program *p, Sym name, StrBuf *out)
{
    const char *s = sym_text(p->cx->names, name);
    if (is_name(s))
        sb_puts(out, s);
    else
        print_string(out, s);
}

/* --- names of values -------------------------------------------------------------------------- */

static bool is_taken(const Printer *q, uint32_t n, const char *name)
{
    for (uint32_t id = 1; id < n; id++)
        if (q->names[id] && !strcmp(q->names[id], name))
            return true;
    return false;
}

/* A hint that is no name (or a number) is spelt with what can be read back. */
static const char *clean(Arena *a, const char *hint)
{
    char *s = arena_strdup(a, hint);
    for (char *c = s; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != '.')
            *c = '_';
    return isdigit((unsigned char)*s) ? arena_printf(a, "_%s", s) : s;
}

static void name_node(Printer *q, Arena *a, Interner *seen, uint32_t *known, uint32_t id,
                      uint32_t number)
{
    const char *hint = sym_text(q->p->cx->names, q->g->nodes.at[id].hint);
    if (!*hint) {
        q->names[id] = arena_printf(a, "%u", number);
        return;
    }
    const char *base = clean(a, hint), *name = base;
    const Sym s = sym_of(seen, name);
    if (s.id <= *known)
        for (int k = 2; is_taken(q, q->g->nodes.n, name); k++)
            name = arena_printf(a, "%s_%d", base, k);
    const Sym final = sym_of(seen, name);
    *known = final.id > *known ? final.id : *known;
    q->names[id] = name;
}

static void name_nodes(Printer *q, const bool *shown)
{
    Arena *a = q->p->cx->scratch;
    q->names = arena_array(a, const char *, q->g->nodes.n);
    Interner *seen = intern_create(a); /* is a name taken: a cheap first test */
    uint32_t known = 0;
    /* parameters are read first, whatever their place among the nodes */
    uint32_t *order = arena_array(a, uint32_t, q->g->nodes.n), n = 0;
    bool *listed = arena_array(a, bool, q->g->nodes.n);
    for (uint32_t i = 0; i < q->g->params.n; i++) {
        order[n++] = q->g->params.at[i].val.node;
        listed[q->g->params.at[i].val.node] = true;
    }
    for (uint32_t id = 1; id < q->g->nodes.n; id++)
        if (shown[id] && !listed[id])
            order[n++] = id;
    for (uint32_t i = 0; i < n; i++)
        name_node(q, a, seen, &known, order[i], i + 1);
}

static void print_val(const Printer *q, Val v)
{
    sb_printf(q->out, "%%%s", q->names[v.node]);
    if (v.result)
        sb_printf(q->out, "#%u", v.result);
}

/* --- types and attributes --------------------------------------------------------------------- */

static void print_type(const Program *p, Ty t, StrBuf *out)
{
    const TypeInfo *i = type_info(p, t);
    sb_puts(out, type_text(p, p->cx->scratch, t));
    if (i->place == PLACE_HOST)
        sb_puts(out, " @host");
    else if (i->place)
        sb_printf(out, " @d%d", i->place);
}

static void print_number(DType t, double x, StrBuf *out)
{
    if (isnan(x) || isinf(x)) {
        sb_puts(out, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    char s[40];
    for (int digits = 1; digits <= 17; digits++) { /* the shortest that reads back */
        snprintf(s, sizeof s, "%.*g", digits, x);
        const double y = strtod(s, NULL);
        if (y == x || (t == DT_f32 && (float)y == (float)x))
            break;
    }
    sb_puts(out, s);
}

static void print_slot(const Program *p, uint32_t slot, StrBuf *out)
{
    const Sym name = p->slots.at[slot].name;
    for (uint32_t i = 1; i < p->slots.n; i++)
        if (i != slot && sym_eq(p->slots.at[i].name, name)) {
            sb_printf(out, "%u", slot);
            return;
        }
    print_name(p, name, out);
}

static void print_word(const Printer *q, const Node *n, AttrName name, int64_t w)
{
    const Program *p = q->p;
    switch (attr_kind(name)) {
    case AK_DIMS:
        dim_print(p->cx->dims, (Dim){(uint32_t)w}, q->out);
        return;
    case AK_DTYPE:
        sb_puts(q->out, dtype_name((DType)w));
        return;
    case AK_SYM:
        print_string(q->out, sym_text(p->cx->names, (Sym){(uint32_t)w}));
        return;
    case AK_REDUCER:
        sb_puts(q->out, reducer_info((Reducer)w)->name);
        return;
    case AK_WORD:
        if (n->op == OP_const && dtype_is_float(type_info(p, n->types[0])->dtype))
            print_number(type_info(p, n->types[0])->dtype, node_f64(n, ATTR_value), q->out);
        else if (n->op == OP_const)
            sb_printf(q->out, "%lld", (long long)w);
        else
            sb_printf(q->out, "0x%llx", (unsigned long long)w);
        return;
    default:
        if (name == ATTR_slot)
            print_slot(p, (uint32_t)w, q->out);
        else
            sb_printf(q->out, "%lld", (long long)w);
    }
}

static bool is_default(const Node *n, AttrName name, Attr a)
{
    const AttrDefault d = attr_default(n->op, name);
    if (d == ALL_ZERO || d == ALL_ONE) {
        for (uint32_t i = 0; i < a.n; i++)
            if (a.at[i] != (d == ALL_ONE))
                return false;
        return true;
    }
    return d != SHOWN || a.n == 0;
}

static void print_attrs(const Printer *q, const Node *n)
{
    const OpInfo *info = op_info(n->op);
    const char *before = " {";
    for (int i = 0; i < info->nattrs; i++) {
        const AttrName name = info->attrs[i];
        const Attr a = n->attrs[i];
        if (is_default(n, name, a))
            continue;
        sb_printf(q->out, "%s%s=", before, attr_text(name));
        before = ", ";
        if (a.n != 1)
            sb_putc(q->out, '[');
        for (uint32_t k = 0; k < a.n; k++) {
            sb_puts(q->out, k ? ", " : "");
            print_word(q, n, name, a.at[k]);
        }
        if (a.n != 1)
            sb_putc(q->out, ']');
    }
    if (*before == ',')
        sb_putc(q->out, '}');
}

/* --- graphs ----------------------------------------------------------------------------------- */

static void print_node(const Printer *q, uint32_t id)
{
    const Node *n = &q->g->nodes.at[id];
    sb_puts(q->out, "  ");
    for (uint32_t k = 0; k < n->nout; k++) {
        sb_puts(q->out, k ? ", " : "");
        print_val(q, (Val){id, k});
    }
    sb_printf(q->out, " = %s", op_name(n->op));
    for (uint32_t i = 0; i < n->nin; i++) {
        sb_puts(q->out, i ? ", " : " ");
        print_val(q, n->in[i]);
    }
    print_attrs(q, n);
    sb_puts(q->out, " : ");
    for (uint32_t k = 0; k < n->nout; k++) {
        sb_puts(q->out, k ? ", " : "");
        print_type(q->p, n->types[k], q->out);
    }
    if (n->stage)
        sb_printf(q->out, " !%d", n->stage);
    sb_putc(q->out, '\n');
}

static void print_check(const Program *p, const EntryCheck *c, StrBuf *out)
{
    static const char *const ops[] = {[G_EQ] = "==", [G_NE] = "!=", [G_LT] = "<", [G_LE] = "<="};
    const GuardTerm *t = &c->guard;
    sb_puts(out, "  require ");
    switch (t->kind) {
    case G_DIVISIBLE:
        sb_puts(out, "divisible(");
        dim_print(p->cx->dims, t->a, out);
        sb_printf(out, ", %lld)", (long long)t->k);
        break;
    case G_ARCH:
    case G_HAS:
    case G_WANT:
    case G_CHOICE:
        sb_printf(out, "%s(%lld)",
                  t->kind == G_ARCH  ? "arch"
                  : t->kind == G_HAS ? "has"
                                     : "want",
                  (long long)t->k);
        break;
    default:
        dim_print(p->cx->dims, t->a, out);
        sb_printf(out, " %s ", ops[t->kind]);
        dim_print(p->cx->dims, t->b, out);
    }
    sb_puts(out, ", ");
    print_string(out, c->message ? c->message : "");
    sb_putc(out, '\n');
}

static void print_header(const Printer *q)
{
    const Graph *g = q->g;
    sb_puts(q->out, "graph @");
    print_name(q->p, g->name, q->out);
    sb_printf(q->out, " %s", graph_kind_text(g->kind));
    if (g->method.id) {
        sb_puts(q->out, " of ");
        print_name(q->p, g->method, q->out);
    }
    sb_puts(q->out, " (");
    for (uint32_t i = 0; i < g->params.n; i++) {
        const GraphParam *x = &g->params.at[i];
        sb_puts(q->out, i ? ", " : "");
        print_val(q, x->val);
        if (strcmp(sym_text(q->p->cx->names, x->name), q->names[x->val.node])) {
            sb_putc(q->out, ' ');
            print_string(q->out, sym_text(q->p->cx->names, x->name));
        }
        sb_puts(q->out, ": ");
        print_type(q->p, val_type(g, x->val), q->out);
        sb_puts(q->out, x->optional ? " optional" : "");
        sb_puts(q->out, x->wants_grad ? " grad" : "");
        if (x->inout >= 0)
            sb_printf(q->out, " inout=%d", x->inout);
    }
    sb_puts(q->out, ") {\n");
}

static void print_vals(const Printer *q, const char *word, const Val *v, uint32_t n)
{
    if (!n)
        return;
    sb_printf(q->out, "  %s ", word);
    for (uint32_t i = 0; i < n; i++) {
        sb_puts(q->out, i ? ", " : "");
        print_val(q, v[i]);
    }
    sb_putc(q->out, '\n');
}

static void print_tail(const Printer *q)
{
    const Graph *g = q->g;
    for (uint32_t i = 0; i < g->commits.n; i++) {
        sb_puts(q->out, "  commit ");
        print_slot(q->p, g->commits.at[i].slot, q->out);
        sb_puts(q->out, " <- ");
        print_val(q, g->commits.at[i].val);
        sb_putc(q->out, '\n');
    }
    print_vals(q, "saved", g->saved.at, g->saved.n);
    for (uint32_t i = 0; i < g->results.n; i++) {
        sb_puts(q->out, i ? ", " : "  return ");
        if (g->results.at[i].name.id) {
            print_name(q->p, g->results.at[i].name, q->out);
            sb_puts(q->out, " = ");
        }
        print_val(q, g->results.at[i].val);
    }
    sb_puts(q->out, g->results.n ? "\n}\n" : "}\n");
}

void tensor_print_graph(const Program *p, const Graph *g, StrBuf *out)
{
    Printer q = {.p = p, .g = g, .out = out};
    bool *shown = graph_live(p, g);
    for (uint32_t i = 0; i < g->params.n; i++)
        shown[g->params.at[i].val.node] = true;
    name_nodes(&q, shown);
    print_header(&q);
    for (uint32_t i = 0; i < g->checks.n; i++)
        print_check(p, &g->checks.at[i], out);
    for (uint32_t id = 1; id < g->nodes.n; id++)
        if (shown[id] && g->nodes.at[id].op != OP_input)
            print_node(&q, id);
    print_tail(&q);
}

/* --- programs --------------------------------------------------------------------------------- */

/* Symbols of one name (of several methods) are told apart while printing. */
static Sym *rename_symbols(const Program *p)
{
    DimTable *t = p->cx->dims;
    const uint32_t n = dim_nsymbols(t);
    Sym *old = arena_array(p->cx->scratch, Sym, n + 1u);
    for (uint32_t id = 1; id <= n; id++) {
        SymbolInfo *s = dim_symbol(t, (Symbol){id});
        old[id] = s->name;
        const char *base = sym_text(p->cx->names, s->name);
        if (!is_name(base) || isdigit((unsigned char)*base) || strchr(base, '.'))
            base = arena_printf(p->cx->scratch, "s%u", id);
        s->name = sym_of(p->cx->names, base);
        for (uint32_t k = 1, tries = 2; k < id; k++)
            if (sym_eq(dim_symbol(t, (Symbol){k})->name, s->name)) {
                s->name =
                    sym_of(p->cx->names, arena_printf(p->cx->scratch, "%s_%u", base, tries++));
                k = 0;
            }
    }
    return old;
}

static void print_symbols(const Program *p, StrBuf *out)
{
    DimTable *t = p->cx->dims;
    const uint32_t n = dim_nsymbols(t);
    for (uint32_t id = 1; id <= n; id++) {
        const SymbolInfo *s = dim_symbol(t, (Symbol){id});
        if (s->kind == SYM_LOOP) {
            sb_printf(out, "loop %s ", sym_text(p->cx->names, s->name));
            dim_print(t, s->extent, out);
            sb_putc(out, '\n');
        }
        if (s->kind != SYM_SIZE)
            continue;
        sb_printf(out, "dim %s", sym_text(p->cx->names, s->name));
        if (s->lo != 0)
            sb_printf(out, " lo=%lld", (long long)s->lo);
        if (s->hi != INT32_MAX)
            sb_printf(out, " hi=%lld", (long long)s->hi);
        if (s->div != 1)
            sb_printf(out, " div=%lld rem=%lld", (long long)s->div, (long long)s->rem);
        if (s->hint != 64)
            sb_printf(out, " hint=%lld", (long long)s->hint);
        sb_putc(out, '\n');
    }
    for (uint32_t id = 1; id <= n; id++) {
        const SymbolInfo *s = dim_symbol(t, (Symbol){id});
        if (!s->equals.id)
            continue;
        sb_printf(out, "fact %s = ", sym_text(p->cx->names, s->name));
        dim_print(t, s->equals, out);
        sb_putc(out, '\n');
    }
    const Dim *zeros;
    const uint32_t nzeros = dim_zeros(t, &zeros);
    for (uint32_t i = 0; i < nzeros; i++) {
        sb_puts(out, "fact ");
        dim_print(t, zeros[i], out);
        sb_puts(out, " = 0\n");
    }
}

static void print_state(const Program *p, StrBuf *out)
{
    for (uint32_t i = 1; i < p->slots.n; i++) {
        const Slot *s = &p->slots.at[i];
        sb_puts(out, "slot ");
        print_name(p, s->name, out);
        sb_printf(out, " %s ", slot_kind_text(s->kind));
        print_type(p, s->type, out);
        sb_puts(out, s->saved ? " saved" : "");
        if (s->initial != 0) {
            sb_puts(out, " initial=");
            print_number(DT_f64, s->initial, out);
        }
        if (s->segment) {
            sb_puts(out, " segment=");
            print_slot(p, s->segment, out);
        }
        sb_putc(out, '\n');
    }
    for (uint32_t i = 0; i < p->state.n; i++) {
        const StateView *v = &p->state.at[i];
        sb_puts(out, "view ");
        print_string(out, sym_text(p->cx->names, v->name));
        sb_putc(out, ' ');
        print_slot(p, v->slot, out);
        sb_printf(out, " + %lld : ", (long long)v->offset);
        print_type(p, v->type, out);
        sb_puts(out, v->trainable ? " trainable" : "");
        sb_puts(out, v->is_param ? " param" : "");
        sb_puts(out, v->saved ? " saved" : "");
        for (uint32_t k = 0; k < v->aliases.n; k++) {
            sb_puts(out, " alias ");
            print_string(out, sym_text(p->cx->names, v->aliases.at[k]));
        }
        sb_putc(out, '\n');
    }
}

static void print_tables(const Program *p, StrBuf *out)
{
    static const char digits[] = "0123456789abcdef";
    for (uint32_t i = 0; i < p->tables.n; i++) {
        const ConstTable *t = &p->tables.at[i];
        int64_t n = 0;
        dim_is_const(p->cx->dims, type_numel((Program *)p, t->type), &n);
        sb_puts(out, "table ");
        print_string(out, sym_text(p->cx->names, t->key));
        sb_putc(out, ' ');
        print_type(p, t->type, out);
        sb_puts(out, " = ");
        const unsigned char *data = t->data;
        for (int64_t k = 0; k < n * dtype_size(type_info(p, t->type)->dtype); k++) {
            sb_putc(out, digits[data[k] >> 4]);
            sb_putc(out, digits[data[k] & 15]);
        }
        sb_puts(out, ".\n");
    }
}

static void print_gradchecks(const Program *p, StrBuf *out)
{
    for (uint32_t i = 0; i < p->gradchecks.n; i++) {
        const GradCheck *c = &p->gradchecks.at[i];
        sb_puts(out, "gradcheck ");
        print_name(p, c->test, out);
        sb_puts(out, " inputs=");
        print_name(p, c->inputs, out);
        sb_puts(out, " loss=");
        print_name(p, c->loss, out);
        sb_putc(out, ' ');
        print_string(out, c->text ? c->text : "");
        sb_putc(out, '\n');
    }
}

static void print_trains(const Program *p, StrBuf *out)
{
    for (uint32_t i = 0; i < p->trains.n; i++) {
        const TrainInfo *t = &p->trains.at[i];
        sb_puts(out, "train ");
        print_name(p, t->method, out);
        sb_printf(out, " graph=%u accumulate=%d", t->graph_step, t->accumulate);
        if (t->scale) {
            sb_puts(out, " scale ");
            print_slot(p, t->scale, out);
        }
        for (uint32_t k = 0; k < t->hypers.n; k++) {
            sb_puts(out, k ? ", " : " hypers ");
            print_slot(p, t->hypers.at[k], out);
        }
        sb_putc(out, '\n');
    }
}

void tensor_print(const Program *p, StrBuf *out)
{
    Sym *old = rename_symbols(p);
    sb_puts(out, "tenon-ir 1\nprogram ");
    print_name(p, p->name, out);
    sb_putc(out, '\n');
    print_symbols(p, out);
    print_state(p, out);
    print_tables(p, out);
    print_trains(p, out);
    print_gradchecks(p, out);
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        sb_putc(out, '\n');
        tensor_print_graph(p, p->graphs.at[i], out);
    }
    for (uint32_t id = 1; id <= dim_nsymbols(p->cx->dims); id++)
        dim_symbol(p->cx->dims, (Symbol){id})->name = old[id];
}
