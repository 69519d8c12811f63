/* tensor_parse.c: reads the text that tensor_print.c writes. A recursive descent over the bytes;
 * every node is checked by the type rules before it is built, so a wrong text gives a message and
 * never a wrong graph. SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/tensor_internal.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Sym name;
    Val val;
} Named;

typedef struct {
    Ctx *cx;
    Program *p;
    Graph *g;
    Builder b;
    uint32_t file;
    const char *text, *at;
    bool failed;
    VEC(Named) values;       /* of the graph being read */
    VEC(const char *) texts; /* of the graphs: where "graph" stands */
    unsigned char *state;    /* of the graphs: 0 not read, 1 being read, 2 read */
} Parser;

static void fail(Parser *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void fail(Parser *q, const char *fmt, ...)
{
    if (q->failed)
        return;
    q->failed = true;
    const uint32_t at = (uint32_t)(q->at - q->text);
    va_list ap;
    va_start(ap, fmt);
    diag_vreport(q->cx->diags, DIAG_syntax, (Span){q->file, at, at + (*q->at != 0)}, fmt, ap);
    va_end(ap);
}

/* --- tokens ----------------------------------------------------------------------------------- */

static void skip(Parser *q)
{
    for (;; q->at++) {
        if (*q->at == ';')
            while (*q->at && *q->at != '\n')
                q->at++;
        if (!*q->at || !isspace((unsigned char)*q->at))
            return;
    }
}

static bool accept(Parser *q, const char *token)
{
    skip(q);
    const size_t n = strlen(token);
    if (q->failed || strncmp(q->at, token, n))
        return false;
    const unsigned char last = (unsigned char)token[n - 1], next = (unsigned char)q->at[n];
    if (isalnum(last) && (isalnum(next) || next == '_' || next == '.')) /* a longer word */
        return false;
    q->at += n;
    return true;
}

static void expect(Parser *q, const char *token)
{
    if (!accept(q, token))
        fail(q, "'%s' is expected", token);
}

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* A bare name; {0} (and a message) if there is none. */
static Sym word(Parser *q)
{
    skip(q);
    const char *start = q->at;
    while (in_name(*q->at))
        q->at++;
    if (q->at == start)
        fail(q, "a name is expected");
    return sym_intern(q->cx->names, start, (size_t)(q->at - start));
}

static const char *word_text(Parser *q)
{
    return sym_text(q->cx->names, word(q));
}

static Sym string(Parser *q)
{
    skip(q);
    if (*q->at != '"') {
        fail(q, "a string is expected");
        return (Sym){0};
    }
    StrBuf s = {.a = q->cx->scratch};
    for (q->at++; *q->at && *q->at != '"'; q->at++) {
        char c = *q->at;
        if (c == '\\' && q->at[1]) {
            c = *++q->at;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        sb_putc(&s, c);
    }
    if (!*q->at)
        fail(q, "a string does not end");
    else
        q->at++;
    return sym_intern(q->cx->names, sb_text(&s), s.n);
}

static Sym name(Parser *q)
{
    skip(q);
    return *q->at == '"' ? string(q) : word(q);
}

static int64_t integer(Parser *q)
{
    skip(q);
    char *end;
    errno = 0;
    const bool hex = q->at[0] == '0' && q->at[1] == 'x';
    const int64_t v = hex ? (int64_t)strtoull(q->at, &end, 16) : strtoll(q->at, &end, 10);
    if (end == q->at || errno)
        fail(q, "an integer is expected");
    else
        q->at = end;
    return v;
}

static int64_t integer_in(Parser *q, int64_t lo, int64_t hi)
{
    const int64_t v = integer(q);
    if (!q->failed && (v < lo || v > hi))
        fail(q, "%lld is out of range", (long long)v);
    return q->failed ? lo : v;
}

static double number(Parser *q)
{
    skip(q);
    char *end;
    const double v = strtod(q->at, &end);
    if (end == q->at)
        fail(q, "a number is expected");
    q->at = end;
    return v;
}

/* --- sizes and types -------------------------------------------------------------------------- */

static Symbol find_symbol(void *ctx, const char *s, size_t n)
{
    const Parser *q = ctx;
    const DimTable *t = q->cx->dims;
    for (uint32_t id = dim_nsymbols(t); id > 0; id--) {
        const char *known = sym_text(q->cx->names, dim_symbol(q->cx->dims, (Symbol){id})->name);
        if (strlen(known) == n && !memcmp(known, s, n))
            return (Symbol){id};
    }
    return (Symbol){0};
}

static Dim size(Parser *q)
{
    skip(q);
    Dim d;
    const char *end;
    const char *error = dim_parse(q->cx->dims, q->at, &end, find_symbol, q, &d);
    q->at = end;
    if (error)
        fail(q, "%s", error);
    else if (dim_overflowed(q->cx->dims))
        fail(q, "a size is too large");
    return d;
}

static Place place(Parser *q)
{
    if (accept(q, "@host"))
        return PLACE_HOST;
    skip(q);
    if (strncmp(q->at, "@d", 2))
        return PLACE_D0;
    q->at += 2;
    return (Place)integer_in(q, 0, PLACE_HOST - 1);
}

static Ty type(Parser *q)
{
    TypeInfo t = {.dtype = dtype_parse(word_text(q))};
    if (t.dtype == DT_none)
        fail(q, "a dtype is expected");
    expect(q, "[");
    while (!q->failed && !accept(q, "]")) {
        if (t.rank)
            expect(q, ",");
        if (t.rank == MAX_RANK)
            fail(q, "a tensor may have at most %d axes", MAX_RANK);
        else
            t.shape[t.rank++] = size(q);
    }
    t.place = place(q);
    return q->failed ? (Ty){0} : type_make(q->p, t);
}

/* --- program lines ---------------------------------------------------------------------------- */

static void parse_dim(Parser *q)
{
    const Sym s = word(q);
    if (q->failed)
        return;
    const Symbol symbol = dim_new_symbol(q->cx->dims, SYM_SIZE, s, (Dim){0});
    SymbolInfo *info = dim_symbol(q->cx->dims, symbol);
    for (;;)
        if (accept(q, "lo="))
            info->lo = integer(q);
        else if (accept(q, "hi="))
            info->hi = integer(q);
        else if (accept(q, "div="))
            info->div = integer_in(q, 1, INT64_MAX);
        else if (accept(q, "rem="))
            info->rem = integer_in(q, 0, INT64_MAX);
        else if (accept(q, "hint="))
            info->hint = integer(q);
        else
            break;
    if (!q->failed && (info->lo > info->hi || info->rem >= info->div))
        fail(q, "no size fits these facts");
}

static void parse_fact(Parser *q)
{
    const Sym s = word(q);
    const char *text = sym_text(q->cx->names, s);
    const Symbol symbol = find_symbol(q, text, strlen(text));
    expect(q, "=");
    const Dim to = size(q);
    if (!q->failed && (!symbol.id || !dim_assume_equal(q->cx->dims, dim_of(q->cx->dims, symbol), to)))
        fail(q, "this cannot be a fact about %s", text);
}

static uint32_t slot_ref(Parser *q)
{
    skip(q);
    const char *start = q->at;
    const Sym s = name(q);
    for (uint32_t i = 1; i < q->p->slots.n; i++)
        if (sym_eq(q->p->slots.at[i].name, s))
            return i;
    char *end;
    const unsigned long k = strtoul(sym_text(q->cx->names, s), &end, 10);
    if (!*end && k > 0 && k < q->p->slots.n)
        return (uint32_t)k;
    q->at = start;
    fail(q, "there is no slot '%s'", sym_text(q->cx->names, s));
    return 0;
}

static void parse_slot(Parser *q)
{
    Slot s = {.name = name(q)};
    const char *kind = word_text(q);
    int k = 0;
    while (k < SLOT_KINDS && strcmp(slot_kind_text((SlotKind)k), kind))
        k++;
    if (k == SLOT_KINDS)
        fail(q, "there is no kind of slot '%s'", kind);
    s.kind = (SlotKind)(k < SLOT_KINDS ? k : 0);
    s.type = type(q);
    s.saved = accept(q, "saved");
    if (accept(q, "initial="))
        s.initial = number(q);
    if (accept(q, "segment="))
        s.segment = slot_ref(q);
    if (!q->failed)
        program_add_slot(q->p, s);
}

static void parse_view(Parser *q)
{
    StateView v = {.name = string(q)};
    v.slot = slot_ref(q);
    expect(q, "+");
    v.offset = integer_in(q, 0, INT64_MAX);
    expect(q, ":");
    v.type = type(q);
    v.trainable = accept(q, "trainable");
    v.is_param = accept(q, "param");
    v.saved = accept(q, "saved");
    while (accept(q, "alias"))
        vec_push(q->cx->perm, &v.aliases, string(q));
    if (!q->failed)
        vec_push(q->cx->perm, &q->p->state, v);
}

static void parse_train(Parser *q)
{
    TrainInfo t = {.method = name(q)};
    expect(q, "graph=");
    t.graph_step = (uint32_t)integer_in(q, 0, UINT32_MAX);
    expect(q, "accumulate=");
    t.accumulate = (int)integer_in(q, 1, INT32_MAX);
    if (accept(q, "hypers"))
        do
            vec_push(q->cx->perm, &t.hypers, slot_ref(q));
        while (accept(q, ","));
    if (!q->failed)
        vec_push(q->cx->perm, &q->p->trains, t);
}

/* --- values ----------------------------------------------------------------------------------- */

/* The name behind a %, without the number of a result. */
static Sym value_name(Parser *q)
{
    expect(q, "%");
    return q->failed ? (Sym){0} : word(q);
}

static Val value(Parser *q)
{
    const Sym s = value_name(q);
    Val v = {0};
    for (uint32_t i = q->values.n; i-- > 0 && !v.node;)
        if (sym_eq(q->values.at[i].name, s))
            v = q->values.at[i].val;
    if (!v.node)
        fail(q, "there is no value %%%s here", sym_text(q->cx->names, s));
    if (*q->at == '#') {
        q->at++;
        v.result = (uint32_t)integer_in(q, 0, UINT32_MAX);
    }
    if (!q->failed && v.result >= graph_node(q->g, v)->nout)
        fail(q, "%%%s has no result %u", sym_text(q->cx->names, s), v.result);
    return v;
}

static void define(Parser *q, Sym s, Val v)
{
    for (uint32_t i = 0; i < q->values.n; i++)
        if (sym_eq(q->values.at[i].name, s))
            fail(q, "%%%s is defined twice", sym_text(q->cx->names, s));
    vec_push(q->cx->scratch, &q->values, ((Named){s, v}));
}

static bool is_number(const char *s)
{
    return isdigit((unsigned char)*s);
}

/* --- attributes ------------------------------------------------------------------------------- */

static void read_graph(Parser *q, uint32_t index);

/* One word of an attribute. A const's value depends on its type, which stands behind it: `later`. */
static int64_t attr_word_of(Parser *q, Op op, AttrName a, const char **later)
{
    switch (attr_kind(a)) {
    case AK_DIMS:
        return (int64_t)size(q).id;
    case AK_DTYPE:
        return dtype_parse(word_text(q));
    case AK_SYM:
        return (int64_t)string(q).id;
    case AK_REDUCER: {
        const char *s = word_text(q);
        if (!q->failed && !reducer_parse(s) && strcmp(s, "none"))
            fail(q, "there is no reducer '%s'", s);
        return reducer_parse(s);
    }
    case AK_GRAPH: {
        const int64_t k = integer_in(q, 0, q->texts.n);
        if (!q->failed && a == ATTR_graph && k < (int64_t)q->texts.n)
            read_graph(q, (uint32_t)k);
        return k;
    }
    default:
        if (op == OP_const) {
            skip(q);
            *later = q->at;
            while (*q->at && *q->at != '}' && *q->at != ',')
                q->at++;
            return 0;
        }
        return a == ATTR_slot ? slot_ref(q) : integer(q);
    }
}

typedef struct {
    Attr at[MAX_ATTRS];
    bool given[MAX_ATTRS];
    const char *value; /* of a const: its text */
} Attrs;

static Attr attr_list(Parser *q, Op op, AttrName a, const char **later)
{
    VEC(int64_t) words = {0};
    if (!accept(q, "[")) {
        const int64_t w = attr_word_of(q, op, a, later);
        vec_push(q->cx->perm, &words, w);
    } else if (!accept(q, "]")) {
        do {
            const int64_t w = attr_word_of(q, op, a, later);
            vec_push(q->cx->perm, &words, w);
        } while (accept(q, ","));
        expect(q, "]");
    }
    return (Attr){words.at, words.n};
}

static void parse_attrs(Parser *q, Op op, Attrs *as)
{
    if (!accept(q, "{"))
        return;
    do {
        const char *start = q->at;
        const char *s = word_text(q);
        const AttrName a = attr_parse(s);
        const OpInfo *info = op_info(op);
        int k = 0;
        while (k < info->nattrs && info->attrs[k] != a)
            k++;
        if (k == info->nattrs || a == ATTR_none) {
            q->at = start;
            fail(q, "%s has no attribute '%s'", info->name, s);
            return;
        }
        expect(q, "=");
        as->at[k] = attr_list(q, op, a, &as->value);
        as->given[k] = true;
    } while (accept(q, ","));
    expect(q, "}");
}

static int64_t const_word(Parser *q, const char *text, DType t)
{
    char *end;
    int64_t w = 0;
    if (dtype_is_float(t)) {
        double x = dtype_round(t, strtod(text, &end));
        x = isnan(x) ? (double)NAN : x;
        memcpy(&w, &x, sizeof x);
    } else if (t == DT_u64) {
        w = (int64_t)strtoull(text, &end, 10);
    } else {
        w = strtoll(text, &end, 10);
    }
    if (end == text)
        fail(q, "a constant needs a number");
    return w;
}

/* What the text leaves out, since the types say it. */
static void fill_attrs(Parser *q, Op op, Attrs *as, const Val *in, uint32_t nin, Ty result)
{
    const OpInfo *info = op_info(op);
    const TypeInfo r = *type_info(q->p, result);
    const uint32_t rank = nin ? val_info(q->p, q->g, in[0])->rank : 0;
    for (int i = 0; i < info->nattrs; i++) {
        const AttrDefault d = attr_default(op, info->attrs[i]);
        if (as->given[i] && !(op == OP_const && info->attrs[i] == ATTR_value))
            continue;
        const uint32_t n = d == FROM_SHAPE ? r.rank : d == FROM_DTYPE ? 1 : d == SHOWN ? 0 : rank;
        int64_t *words = arena_array(q->cx->perm, int64_t, n + 1u);
        for (uint32_t k = 0; k < n; k++)
            words[k] = d == FROM_SHAPE   ? (int64_t)r.shape[k].id
                       : d == FROM_DTYPE ? (int64_t)r.dtype
                                         : d == ALL_ONE;
        as->at[i] = (Attr){words, n};
        if (op == OP_const && info->attrs[i] == ATTR_value) {
            words[0] = const_word(q, as->value ? as->value : "", r.dtype);
            as->at[i].n = 1;
        }
    }
}

/* The words that the type rules read without asking must be there. */
static void check_counts(Parser *q, Op op, const Attrs *as)
{
    const OpInfo *info = op_info(op);
    for (int i = 0; i < info->nattrs; i++) {
        const AttrName a = info->attrs[i];
        const bool one = a == ATTR_axis || a == ATTR_mode || a == ATTR_kind || a == ATTR_slot ||
                         a == ATTR_batch || a == ATTR_site || a == ATTR_text || a == ATTR_graph ||
                         a == ATTR_grad || a == ATTR_results || a == ATTR_place ||
                         a == ATTR_value || a == ATTR_dtype || a == ATTR_name;
        if (one && as->at[i].n != 1)
            fail(q, "%s needs one value for '%s'", info->name, attr_text(a));
    }
}

/* --- nodes ------------------------------------------------------------------------------------ */

typedef struct {
    Sym name;
    const char *start;
    uint32_t nresults;
    Ty types[MAX_RESULTS];
} Line;

static void make_node(Parser *q, Line *l, Op op, const Val *in, uint32_t nin, const Attrs *as)
{
    const char *error = infer_check(&q->b, op, in, nin, as->at);
    if (error) {
        q->at = l->start;
        fail(q, "%s", error);
        return;
    }
    const Val v = build(&q->b, op, in, nin, as->at);
    const Node *n = graph_node(q->g, v);
    bool same = n->nout == l->nresults;
    for (uint32_t k = 0; same && k < n->nout; k++)
        same = n->types[k].id == l->types[k].id;
    if (!same) {
        q->at = l->start;
        fail(q, "the type of %%%s is not what is written: it is %s",
             sym_text(q->cx->names, l->name), type_text(q->p, q->cx->scratch, n->types[0]));
        return;
    }
    define(q, l->name, v);
    if (!is_number(sym_text(q->cx->names, l->name)))
        val_hint(&q->b, v, l->name);
}

static void parse_node(Parser *q)
{
    Line l = {.start = q->at};
    l.name = value_name(q);
    uint32_t named = 1;
    while (accept(q, ",")) { /* the further results are numbered names of the first */
        value_name(q);
        expect(q, "#");
        if (integer(q) != named++)
            fail(q, "results are numbered in order");
    }
    expect(q, "=");
    const char *s = word_text(q);
    const Op op = op_parse(s);
    if (!q->failed && (op == OP_none || op == OP_input))
        fail(q, "there is no op '%s'", s);
    if (q->failed)
        return;
    VEC(Val) in = {0};
    skip(q);
    while (!q->failed && *q->at == '%') {
        const Val v = value(q);
        vec_push(q->cx->scratch, &in, v);
        if (!accept(q, ","))
            break;
        skip(q);
    }
    Attrs as = {0};
    parse_attrs(q, op, &as);
    expect(q, ":");
    do {
        if (l.nresults == MAX_RESULTS)
            fail(q, "there are too many results");
        else
            l.types[l.nresults++] = type(q);
    } while (accept(q, ","));
    if (!q->failed && named != l.nresults)
        fail(q, "%u names for %u results", named, l.nresults);
    q->b.stage = accept(q, "!") ? (int)integer_in(q, 0, STAGE_UPDATE) : 0;
    if (q->failed)
        return;
    fill_attrs(q, op, &as, in.at, in.n, l.types[0]);
    check_counts(q, op, &as);
    if (!q->failed)
        make_node(q, &l, op, in.at, in.n, &as);
}

/* --- graphs ----------------------------------------------------------------------------------- */

static void parse_params(Parser *q)
{
    expect(q, "(");
    while (!q->failed && !accept(q, ")")) {
        if (q->g->params.n)
            expect(q, ",");
        const Sym s = value_name(q);
        skip(q);
        const Sym called = *q->at == '"' ? string(q) : s;
        expect(q, ":");
        const Ty t = type(q);
        if (q->failed)
            return;
        const Val v = build_input(&q->b, called, t);
        q->g->nodes.at[v.node].hint = is_number(sym_text(q->cx->names, s)) ? (Sym){0} : s;
        define(q, s, v);
        GraphParam *p = &vec_last(&q->g->params);
        p->optional = accept(q, "optional");
        p->wants_grad = accept(q, "grad");
        if (accept(q, "inout="))
            p->inout = (int32_t)integer_in(q, 0, INT32_MAX);
    }
}

/* divisible(B, 8), arch(80), ...; false if it is a comparison. */
static bool guard_call(Parser *q, GuardTerm *t)
{
    static const struct {
        const char *text;
        GuardKind kind;
    } words[] = {
        {"divisible(", G_DIVISIBLE}, {"arch(", G_ARCH}, {"has(", G_HAS}, {"want(", G_WANT}};
    size_t i = 0;
    while (i < ARRAY_LEN(words) && !accept(q, words[i].text))
        i++;
    if (i == ARRAY_LEN(words))
        return false;
    t->kind = words[i].kind;
    if (t->kind == G_DIVISIBLE) {
        t->a = size(q);
        expect(q, ",");
    }
    t->k = integer(q);
    expect(q, ")");
    return true;
}

static void guard_comparison(Parser *q, GuardTerm *t)
{
    static const struct {
        const char *text;
        GuardKind kind;
    } ops[] = {{"==", G_EQ}, {"!=", G_NE}, {"<=", G_LE}, {"<", G_LT}};
    t->a = size(q);
    size_t i = 0;
    while (i < ARRAY_LEN(ops) && !accept(q, ops[i].text))
        i++;
    if (i == ARRAY_LEN(ops)) {
        fail(q, "a comparison is expected");
        return;
    }
    t->kind = ops[i].kind;
    t->b = size(q);
}

static void parse_require(Parser *q)
{
    EntryCheck c = {0};
    if (!guard_call(q, &c.guard))
        guard_comparison(q, &c.guard);
    expect(q, ",");
    c.message = sym_text(q->cx->names, string(q));
    vec_push(q->cx->perm, &q->g->checks, c);
}

static void parse_return(Parser *q)
{
    do {
        skip(q);
        Sym s = {0};
        if (*q->at != '%') {
            s = name(q);
            expect(q, "=");
        }
        const Val v = value(q);
        graph_result(q->p, q->g, s, v, (Span){0});
    } while (accept(q, ","));
}

static void parse_body(Parser *q)
{
    expect(q, "{");
    while (!q->failed && !accept(q, "}")) {
        if (*q->at == '%') {
            parse_node(q);
        } else if (accept(q, "require")) {
            parse_require(q);
        } else if (accept(q, "commit")) {
            const uint32_t slot = slot_ref(q);
            expect(q, "<-");
            const Val v = value(q);
            if (!q->failed && val_type(q->g, v).id != q->p->slots.at[slot].type.id)
                fail(q, "the committed value has another type than its slot");
            graph_commit(q->p, q->g, slot, v);
        } else if (accept(q, "saved")) {
            do {
                const Val v = value(q);
                vec_push(q->cx->perm, &q->g->saved, v);
            } while (accept(q, ","));
        } else if (accept(q, "return")) {
            parse_return(q);
        } else {
            fail(q, "a value, 'require', 'commit', 'saved' or 'return' is expected");
        }
    }
}

static GraphKind graph_kind(Parser *q)
{
    const char *s = word_text(q);
    for (int k = 0; k < GRAPH_KINDS; k++)
        if (!strcmp(graph_kind_text((GraphKind)k), s))
            return (GraphKind)k;
    fail(q, "there is no kind of graph '%s'", s);
    return GRAPH_METHOD;
}

static void parse_graph(Parser *q)
{
    expect(q, "graph");
    expect(q, "@");
    q->g->name = name(q);
    q->g->kind = graph_kind(q);
    if (accept(q, "of"))
        q->g->method = name(q);
    q->b = builder_for(q->p, q->g);
    q->b.no_fold = true;
    parse_params(q);
    parse_body(q);
}

/* Graph number `index`, unless it has been read; calls lead here before their turn. */
static void read_graph(Parser *q, uint32_t index)
{
    if (q->state[index] == 1)
        fail(q, "graph %u calls itself", index);
    if (q->failed || q->state[index])
        return;
    const Parser outer = *q;
    q->state[index] = 1;
    q->g = q->p->graphs.at[index];
    q->at = q->texts.at[index];
    q->values.at = NULL;
    q->values.n = q->values.cap = 0;
    parse_graph(q);
    q->state[index] = 2;
    if (q->failed)
        return;
    skip(q);
    if (index + 1 < q->texts.n ? q->at != q->texts.at[index + 1] : *q->at != 0)
        fail(q, "a graph is expected");
    q->g = outer.g;
    q->b = outer.b;
    q->at = outer.at;
    q->values.at = outer.values.at;
    q->values.n = outer.values.n;
    q->values.cap = outer.values.cap;
}

/* Where each graph begins: a line that starts with "graph". */
static void find_graphs(Parser *q)
{
    for (const char *s = q->at; s; s = strchr(s, '\n')) {
        if (*s == '\n')
            s++;
        if (!strncmp(s, "graph ", 6)) {
            vec_push(q->cx->perm, &q->texts, s);
            program_add_graph(q->p, (Sym){0}, GRAPH_METHOD);
        }
        if (!*s)
            break;
    }
    q->state = arena_array(q->cx->perm, unsigned char, q->texts.n);
}

Program *tensor_parse(Ctx *cx, uint32_t file)
{
    const SourceFile *f = source_file(cx->sources, file);
    Parser q = {.cx = cx, .file = file, .text = f->text, .at = f->text};
    dim_overflowed(cx->dims);
    expect(&q, "tenon-ir");
    if (!q.failed && integer(&q) != 1)
        fail(&q, "this version of the text is not known");
    expect(&q, "program");
    q.p = program_create(cx, name(&q));
    q.p->file = f->path;
    for (;;)
        if (accept(&q, "dim"))
            parse_dim(&q);
        else if (accept(&q, "fact"))
            parse_fact(&q);
        else if (accept(&q, "slot"))
            parse_slot(&q);
        else if (accept(&q, "view"))
            parse_view(&q);
        else if (accept(&q, "train"))
            parse_train(&q);
        else
            break;
    skip(&q);
    find_graphs(&q);
    if (*q.at && (!q.texts.n || q.texts.at[0] != q.at))
        fail(&q, "'dim', 'fact', 'slot', 'view', 'train' or 'graph' is expected");
    for (uint32_t i = 0; i < q.texts.n && !q.failed; i++)
        read_graph(&q, i);
    return q.failed ? NULL : q.p;
}
