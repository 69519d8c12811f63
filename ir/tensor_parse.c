/* tensor_parse.c: reads the text that tensor_print.c writes. A recursive descent over the bytes;
 * every node is checked by the type rules before it is built, so a wrong text gives a message and
 * never a wrong graph. SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/tensor_scan.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- program lines ---------------------------------------------------------------------------- */

static void parse_dim(Scan *q)
{
    const Sym s = text_word(q);
    if (q->failed)
        return;
    const Symbol symbol = dim_new_symbol(q->cx->dims, SYM_SIZE, s, (Dim){0});
    SymbolInfo *info = dim_symbol(q->cx->dims, symbol);
    for (;;)
        if (text_accept(q, "lo="))
            info->lo = text_integer(q);
        else if (text_accept(q, "hi="))
            info->hi = text_integer(q);
        else if (text_accept(q, "div="))
            info->div = text_integer_in(q, 1, INT64_MAX);
        else if (text_accept(q, "rem="))
            info->rem = text_integer_in(q, 0, INT64_MAX);
        else if (text_accept(q, "hint="))
            info->hint = text_integer(q);
        else
            break;
    if (!q->failed && (info->lo > info->hi || info->rem >= info->div))
        text_fail(q, "no size fits these facts");
}

static void parse_loop(Scan *q)
{
    const Sym s = text_word(q);
    const Dim trip = text_size(q);
    if (!q->failed)
        dim_new_symbol(q->cx->dims, SYM_LOOP, s, trip);
}

static void parse_fact(Scan *q)
{
    const Dim size = text_size(q);
    text_expect(q, "=");
    const Dim to = text_size(q);
    if (!q->failed && !dim_assume_equal(q->cx->dims, size, to))
        text_fail(q, "this is no fact: what is known already says otherwise");
}

static uint32_t slot_ref(Scan *q)
{
    text_skip(q);
    const char *start = q->at;
    const Sym s = text_name(q);
    for (uint32_t i = 1; i < q->p->slots.n; i++)
        if (sym_eq(q->p->slots.at[i].name, s))
            return i;
    char *end;
    const unsigned long k = strtoul(sym_text(q->cx->names, s), &end, 10);
    if (!*end && k > 0 && k < q->p->slots.n)
        return (uint32_t)k;
    q->at = start;
    text_fail(q, "there is no slot '%s'", sym_text(q->cx->names, s));
    return 0;
}

static void parse_slot(Scan *q)
{
    Slot s = {.name = text_name(q)};
    const char *kind = text_word_text(q);
    int k = 0;
    while (k < SLOT_KINDS && strcmp(slot_kind_text((SlotKind)k), kind))
        k++;
    if (k == SLOT_KINDS)
        text_fail(q, "there is no kind of slot '%s'", kind);
    s.kind = (SlotKind)(k < SLOT_KINDS ? k : 0);
    s.type = text_type(q);
    s.saved = text_accept(q, "saved");
    if (text_accept(q, "initial="))
        s.initial = text_number(q);
    if (text_accept(q, "segment="))
        s.segment = slot_ref(q);
    if (!q->failed)
        program_add_slot(q->p, s);
}

static void parse_view(Scan *q)
{
    StateView v = {.name = text_string(q)};
    v.slot = slot_ref(q);
    text_expect(q, "+");
    v.offset = text_integer_in(q, 0, INT64_MAX);
    text_expect(q, ":");
    v.type = text_type(q);
    v.trainable = text_accept(q, "trainable");
    v.is_param = text_accept(q, "param");
    v.saved = text_accept(q, "saved");
    while (text_accept(q, "alias"))
        vec_push(q->cx->perm, &v.aliases, text_string(q));
    if (!q->failed)
        vec_push(q->cx->perm, &q->p->state, v);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Its bytes, up to a full stop. */
static void parse_table(Scan *q)
{
    ConstTable t = {.key = text_string(q)};
    t.type = text_type(q);
    text_expect(q, "=");
    text_skip(q);
    int64_t n = 0;
    if (q->failed || !dim_is_const(q->cx->dims, type_numel(q->p, t.type), &n))
        return;
    n *= dtype_size(type_info(q->p, t.type)->dtype);
    unsigned char *data = arena_alloc(q->cx->perm, (size_t)n + 1);
    for (int64_t k = 0; k < n && !q->failed; k++, q->at += 2) {
        const int hi = hex_digit(q->at[0]), lo = hi < 0 ? -1 : hex_digit(q->at[1]);
        if (lo < 0)
            text_fail(q, "a table of %lld bytes ends early", (long long)n);
        else
            data[k] = (unsigned char)(hi << 4 | lo);
    }
    t.data = data;
    if (!q->failed && *q->at == '.')
        q->at++;
    else
        text_fail(q, "a table ends in a full stop");
    if (!q->failed)
        vec_push(q->cx->perm, &q->p->tables, t);
}

static void parse_train(Scan *q)
{
    TrainInfo t = {.method = text_name(q)};
    text_expect(q, "graph=");
    t.graph_step = (uint32_t)text_integer_in(q, 0, UINT32_MAX);
    text_expect(q, "accumulate=");
    t.accumulate = (int)text_integer_in(q, 1, INT32_MAX);
    if (text_accept(q, "scale"))
        t.scale = slot_ref(q);
    if (text_accept(q, "hypers"))
        do
            vec_push(q->cx->perm, &t.hypers, slot_ref(q));
        while (text_accept(q, ","));
    if (!q->failed)
        vec_push(q->cx->perm, &q->p->trains, t);
}

static void parse_gradcheck(Scan *q)
{
    GradCheck c = {.test = text_name(q)};
    text_expect(q, "inputs=");
    c.inputs = text_name(q);
    text_expect(q, "loss=");
    c.loss = text_name(q);
    c.text = sym_text(q->cx->names, text_string(q));
    if (!q->failed)
        vec_push(q->cx->perm, &q->p->gradchecks, c);
}

/* --- values ----------------------------------------------------------------------------------- */

/* The name behind a %, without the number of a result. */
static Sym value_name(Scan *q)
{
    text_expect(q, "%");
    return q->failed ? (Sym){0} : text_word(q);
}

static Val value(Scan *q)
{
    const Sym s = value_name(q);
    Val v = {0};
    for (uint32_t i = q->values.n; i-- > 0 && !v.node;)
        if (sym_eq(q->values.at[i].name, s))
            v = q->values.at[i].val;
    if (!v.node)
        text_fail(q, "there is no value %%%s here", sym_text(q->cx->names, s));
    if (*q->at == '#') {
        q->at++;
        v.result = (uint32_t)text_integer_in(q, 0, UINT32_MAX);
    }
    if (!q->failed && v.result >= graph_node(q->g, v)->nout)
        text_fail(q, "%%%s has no result %u", sym_text(q->cx->names, s), v.result);
    return v;
}

static void define(Scan *q, Sym s, Val v)
{
    for (uint32_t i = 0; i < q->values.n; i++)
        if (sym_eq(q->values.at[i].name, s))
            text_fail(q, "%%%s is defined twice", sym_text(q->cx->names, s));
    vec_push(q->cx->scratch, &q->values, ((Named){s, v}));
}

static bool is_number(const char *s)
{
    return isdigit((unsigned char)*s);
}

/* --- attributes ------------------------------------------------------------------------------- */

static void read_graph(Scan *q, uint32_t index);

/* One word of an attribute. A const's value depends on its type, which stands behind it: `later`.
 */
static int64_t attr_word_of(Scan *q, Op op, AttrName a, const char **later)
{
    switch (attr_kind(a)) {
    case AK_DIMS:
        return (int64_t)text_size(q).id;
    case AK_DTYPE:
        return dtype_parse(text_word_text(q));
    case AK_SYM:
        return (int64_t)text_string(q).id;
    case AK_REDUCER: {
        const char *s = text_word_text(q);
        if (!q->failed && !reducer_parse(s) && strcmp(s, "none"))
            text_fail(q, "there is no reducer '%s'", s);
        return reducer_parse(s);
    }
    case AK_GRAPH: {
        const int64_t k = text_integer_in(q, 0, q->texts.n);
        if (!q->failed && (a == ATTR_graph || a == ATTR_body) && k < (int64_t)q->texts.n)
            read_graph(q, (uint32_t)k);
        if (!q->failed && a == ATTR_hook && k > 0)
            read_graph(q, (uint32_t)k - 1);
        return k;
    }
    default:
        if (op == OP_const) {
            text_skip(q);
            *later = q->at;
            while (*q->at && *q->at != '}' && *q->at != ',')
                q->at++;
            return 0;
        }
        return a == ATTR_slot ? slot_ref(q) : text_integer(q);
    }
}

typedef struct {
    Attr at[MAX_ATTRS];
    bool given[MAX_ATTRS];
    const char *value; /* of a const: its text */
} Attrs;

static Attr attr_list(Scan *q, Op op, AttrName a, const char **later)
{
    VEC(int64_t) words = {0};
    if (!text_accept(q, "[")) {
        const int64_t w = attr_word_of(q, op, a, later);
        vec_push(q->cx->perm, &words, w);
    } else if (!text_accept(q, "]")) {
        do {
            const int64_t w = attr_word_of(q, op, a, later);
            vec_push(q->cx->perm, &words, w);
        } while (text_accept(q, ","));
        text_expect(q, "]");
    }
    return (Attr){words.at, words.n};
}

static void parse_attrs(Scan *q, Op op, Attrs *as)
{
    if (!text_accept(q, "{"))
        return;
    do {
        const char *start = q->at;
        const char *s = text_word_text(q);
        const AttrName a = attr_parse(s);
        const OpInfo *info = op_info(op);
        int k = 0;
        while (k < info->nattrs && info->attrs[k] != a)
            k++;
        if (k == info->nattrs || a == ATTR_none) {
            q->at = start;
            text_fail(q, "%s has no attribute '%s'", info->name, s);
            return;
        }
        text_expect(q, "=");
        as->at[k] = attr_list(q, op, a, &as->value);
        as->given[k] = true;
    } while (text_accept(q, ","));
    text_expect(q, "}");
}

static int64_t const_word(Scan *q, const char *text, DType t)
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
        text_fail(q, "a constant needs a number");
    return w;
}

/* What the text leaves out, since the types say it. */
static void fill_attrs(Scan *q, Op op, Attrs *as, const Val *in, uint32_t nin, Ty result)
{
    const OpInfo *info = op_info(op);
    const TypeInfo r = *type_info(q->p, result);
    const uint32_t rank = nin ? val_info(q->p, q->g, in[0])->rank : 0;
    for (int i = 0; i < info->nattrs; i++) {
        const AttrDefault d = attr_default(op, info->attrs[i]);
        if (as->given[i] && !(op == OP_const && info->attrs[i] == ATTR_value))
            continue;
        const uint32_t n = d == FROM_SHAPE                                  ? r.rank
                           : d == FROM_DTYPE || info->attrs[i] == ATTR_hook ? 1
                           : d == SHOWN                                     ? 0
                                                                            : rank;
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
static void check_counts(Scan *q, Op op, const Attrs *as)
{
    const OpInfo *info = op_info(op);
    for (int i = 0; i < info->nattrs; i++) {
        const AttrName a = info->attrs[i];
        const bool one = a == ATTR_axis || a == ATTR_mode || a == ATTR_kind || a == ATTR_slot ||
                         a == ATTR_batch || a == ATTR_site || a == ATTR_text || a == ATTR_graph ||
                         a == ATTR_grad || a == ATTR_results || a == ATTR_place ||
                         a == ATTR_value || a == ATTR_dtype || a == ATTR_name || a == ATTR_trip ||
                         a == ATTR_loop || a == ATTR_body || a == ATTR_hook || a == ATTR_scale ||
                         a == ATTR_drop;
        if (one && as->at[i].n != 1)
            text_fail(q, "%s needs one value for '%s'", info->name, attr_text(a));
    }
}

/* --- nodes ------------------------------------------------------------------------------------ */

typedef struct {
    Sym name;
    const char *start;
    uint32_t nresults;
    Ty types[MAX_RESULTS];
} Line;

static void make_node(Scan *q, Line *l, Op op, const Val *in, uint32_t nin, const Attrs *as)
{
    q->b.place = nin ? PLACE_D0 : type_info(q->p, l->types[0])->place;
    const char *error = infer_check(&q->b, op, in, nin, as->at);
    if (error) {
        q->at = l->start;
        text_fail(q, "%s", error);
        return;
    }
    const Val v = build(&q->b, op, in, nin, as->at);
    const Node *n = graph_node(q->g, v);
    bool same = n->nout == l->nresults;
    for (uint32_t k = 0; same && k < n->nout; k++)
        same = n->types[k].id == l->types[k].id;
    if (!same) {
        q->at = l->start;
        text_fail(q, "the type of %%%s is not what is written: it is %s",
                  sym_text(q->cx->names, l->name), type_text(q->p, q->cx->scratch, n->types[0]));
        return;
    }
    define(q, l->name, v);
    if (!is_number(sym_text(q->cx->names, l->name)))
        val_hint(&q->b, v, l->name);
}

static void parse_node(Scan *q)
{
    Line l = {.start = q->at};
    l.name = value_name(q);
    uint32_t named = 1;
    while (text_accept(q, ",")) { /* the further results are numbered names of the first */
        value_name(q);
        text_expect(q, "#");
        if (text_integer(q) != named++)
            text_fail(q, "results are numbered in order");
    }
    text_expect(q, "=");
    const char *s = text_word_text(q);
    const Op op = op_parse(s);
    if (!q->failed && (op == OP_none || op == OP_input))
        text_fail(q, "there is no op '%s'", s);
    if (q->failed)
        return;
    VEC(Val) in = {0};
    text_skip(q);
    while (!q->failed && *q->at == '%') {
        const Val v = value(q);
        vec_push(q->cx->scratch, &in, v);
        if (!text_accept(q, ","))
            break;
        text_skip(q);
    }
    Attrs as = {0};
    parse_attrs(q, op, &as);
    text_expect(q, ":");
    do {
        if (l.nresults == MAX_RESULTS)
            text_fail(q, "there are too many results");
        else
            l.types[l.nresults++] = text_type(q);
    } while (text_accept(q, ","));
    if (!q->failed && named != l.nresults)
        text_fail(q, "%u names for %u results", named, l.nresults);
    q->b.stage = text_accept(q, "!") ? (int)text_integer_in(q, 0, STAGE_UPDATE) : 0;
    if (q->failed)
        return;
    fill_attrs(q, op, &as, in.at, in.n, l.types[0]);
    check_counts(q, op, &as);
    if (!q->failed)
        make_node(q, &l, op, in.at, in.n, &as);
}

/* --- graphs ----------------------------------------------------------------------------------- */

static void parse_params(Scan *q)
{
    text_expect(q, "(");
    while (!q->failed && !text_accept(q, ")")) {
        if (q->g->params.n)
            text_expect(q, ",");
        const Sym s = value_name(q);
        text_skip(q);
        const Sym called = *q->at == '"' ? text_string(q) : s;
        text_expect(q, ":");
        const Ty t = text_type(q);
        if (q->failed)
            return;
        const Val v = build_input(&q->b, called, t);
        q->g->nodes.at[v.node].hint = is_number(sym_text(q->cx->names, s)) ? (Sym){0} : s;
        define(q, s, v);
        GraphParam *p = &vec_last(&q->g->params);
        p->optional = text_accept(q, "optional");
        p->wants_grad = text_accept(q, "grad");
        if (text_accept(q, "inout="))
            p->inout = (int32_t)text_integer_in(q, 0, INT32_MAX);
    }
}

/* divisible(B, 8), arch(80), ...; false if it is a comparison. */
static bool guard_call(Scan *q, GuardTerm *t)
{
    static const struct {
        const char *text;
        GuardKind kind;
    } words[] = {
        {"divisible(", G_DIVISIBLE}, {"arch(", G_ARCH}, {"has(", G_HAS}, {"want(", G_WANT}};
    size_t i = 0;
    while (i < ARRAY_LEN(words) && !text_accept(q, words[i].text))
        i++;
    if (i == ARRAY_LEN(words))
        return false;
    t->kind = words[i].kind;
    if (t->kind == G_DIVISIBLE) {
        t->a = text_size(q);
        text_expect(q, ",");
    }
    t->k = text_integer(q);
    text_expect(q, ")");
    return true;
}

static void guard_comparison(Scan *q, GuardTerm *t)
{
    static const struct {
        const char *text;
        GuardKind kind;
    } ops[] = {{"==", G_EQ}, {"!=", G_NE}, {"<=", G_LE}, {"<", G_LT}};
    t->a = text_size(q);
    size_t i = 0;
    while (i < ARRAY_LEN(ops) && !text_accept(q, ops[i].text))
        i++;
    if (i == ARRAY_LEN(ops)) {
        text_fail(q, "a comparison is expected");
        return;
    }
    t->kind = ops[i].kind;
    t->b = text_size(q);
}

static void parse_require(Scan *q)
{
    EntryCheck c = {0};
    if (!guard_call(q, &c.guard))
        guard_comparison(q, &c.guard);
    text_expect(q, ",");
    c.message = sym_text(q->cx->names, text_string(q));
    vec_push(q->cx->perm, &q->g->checks, c);
}

static void parse_return(Scan *q)
{
    do {
        text_skip(q);
        Sym s = {0};
        if (*q->at != '%') {
            s = text_name(q);
            text_expect(q, "=");
        }
        const Val v = value(q);
        graph_result(q->p, q->g, s, v, (Span){0});
    } while (text_accept(q, ","));
}

static void parse_body(Scan *q)
{
    text_expect(q, "{");
    while (!q->failed && !text_accept(q, "}")) {
        if (*q->at == '%') {
            parse_node(q);
        } else if (text_accept(q, "require")) {
            parse_require(q);
        } else if (text_accept(q, "commit")) {
            const uint32_t slot = slot_ref(q);
            text_expect(q, "<-");
            const Val v = value(q);
            if (!q->failed && val_type(q->g, v).id != q->p->slots.at[slot].type.id)
                text_fail(q, "the committed value has another type than its slot");
            graph_commit(q->p, q->g, slot, v);
        } else if (text_accept(q, "saved")) {
            do {
                const Val v = value(q);
                vec_push(q->cx->perm, &q->g->saved, v);
            } while (text_accept(q, ","));
        } else if (text_accept(q, "return")) {
            parse_return(q);
        } else {
            text_fail(q, "a value, 'require', 'commit', 'saved' or 'return' is expected");
        }
    }
}

static GraphKind graph_kind(Scan *q)
{
    const char *s = text_word_text(q);
    for (int k = 0; k < GRAPH_KINDS; k++)
        if (!strcmp(graph_kind_text((GraphKind)k), s))
            return (GraphKind)k;
    text_fail(q, "there is no kind of graph '%s'", s);
    return GRAPH_METHOD;
}

static void parse_graph(Scan *q)
{
    text_expect(q, "graph");
    text_expect(q, "@");
    q->g->name = text_name(q);
    q->g->kind = graph_kind(q);
    if (text_accept(q, "of"))
        q->g->method = text_name(q);
    q->b = builder_for(q->p, q->g);
    q->b.no_fold = true;
    parse_params(q);
    parse_body(q);
}

/* Graph number `index`, unless it has been read; calls lead here before their turn. */
static void read_graph(Scan *q, uint32_t index)
{
    if (q->state[index] == 1)
        text_fail(q, "graph %u calls itself", index);
    if (q->failed || q->state[index])
        return;
    const Scan outer = *q;
    q->state[index] = 1;
    q->g = q->p->graphs.at[index];
    q->at = q->texts.at[index];
    q->values.at = NULL;
    q->values.n = q->values.cap = 0;
    parse_graph(q);
    q->state[index] = 2;
    if (q->failed)
        return;
    text_skip(q);
    const char *error = tensor_verify(q->p, q->g, false); /* what concerns the graph as a whole */
    if (error) {
        q->at = q->texts.at[index];
        text_fail(q, "%s", error);
    }
    if (index + 1 < q->texts.n ? q->at != q->texts.at[index + 1] : *q->at != 0)
        text_fail(q, "a graph is expected");
    q->g = outer.g;
    q->b = outer.b;
    q->at = outer.at;
    q->values.at = outer.values.at;
    q->values.n = outer.values.n;
    q->values.cap = outer.values.cap;
}

/* Where each graph begins: a line that starts with "graph". */
static void find_graphs(Scan *q)
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
    Scan q = {.cx = cx, .file = file, .text = f->text, .at = f->text};
    dim_overflowed(cx->dims);
    text_expect(&q, "tenon-ir");
    if (!q.failed && text_integer(&q) != 1)
        text_fail(&q, "this version of the text is not known");
    text_expect(&q, "program");
    q.p = program_create(cx, text_name(&q));
    q.p->file = f->path;
    for (;;)
        if (text_accept(&q, "dim"))
            parse_dim(&q);
        else if (text_accept(&q, "loop"))
            parse_loop(&q);
        else if (text_accept(&q, "fact"))
            parse_fact(&q);
        else if (text_accept(&q, "slot"))
            parse_slot(&q);
        else if (text_accept(&q, "view"))
            parse_view(&q);
        else if (text_accept(&q, "table"))
            parse_table(&q);
        else if (text_accept(&q, "train"))
            parse_train(&q);
        else if (text_accept(&q, "gradcheck"))
            parse_gradcheck(&q);
        else
            break;
    text_skip(&q);
    find_graphs(&q);
    if (*q.at && (!q.texts.n || q.texts.at[0] != q.at))
        text_fail(&q, "'dim', 'loop', 'fact', 'slot', 'view', 'table', 'train', 'gradcheck' or "
                      "'graph' is expected");
    for (uint32_t i = 0; i < q.texts.n && !q.failed; i++)
        read_graph(&q, i);
    return q.failed ? NULL : q.p;
}
