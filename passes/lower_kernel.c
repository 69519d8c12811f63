/* lower_kernel.c: the builder of one kernel: names, parameters, stores, and the launch step.
 * Kernels with equal structure are kept once per model; only the pointers differ.
 * SPDX-License-Identifier: MIT */
#include "ir/kernel_text.h"
#include "passes/lower_internal.h"

#include <ctype.h>
#include <string.h>

/* Words that C and CUDA C keep for themselves, and the names that printed kernels use. */
static const char *const reserved[] = {
    "auto",   "bool",     "break",     "case",   "char",     "const",    "continue", "default",
    "do",     "double",   "else",      "enum",   "extern",   "float",    "for",      "goto",
    "if",     "inline",   "int",       "long",   "register", "restrict", "return",   "short",
    "signed", "sizeof",   "static",    "struct", "switch",   "typedef",  "union",    "unsigned",
    "void",   "volatile", "while",     "class",  "new",      "delete",   "this",     "template",
    "true",   "false",    "and",       "or",     "not",      "xor",      "operator", "private",
    "public", "using",    "namespace", "asm",    "typename", "lo",       "hi",       "cell",
    "lane",   "NAN",      "INFINITY",  "NULL",   "p",        "n",        "v"};

void lower_names(Lower *l)
{
    Interner *names = l->p->cx->names;
    l->buffer_names = names_create(l->a, names);
    l->kernel_names = names_create(l->a, names);
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
        names_reserve(&l->kernel_names, sym_of(names, reserved[i]));
    for (uint32_t i = 1; i <= dim_nsymbols(l->t); i++) {
        const SymbolInfo *s = dim_symbol(l->t, (Symbol){i});
        if (s->kind == SYM_SIZE)
            names_reserve(&l->kernel_names, s->name);
    }
}

/* "layers.0.weight" -> "weight": the last word that is not a number, as a C identifier; of a
 * segment
 * ("loss.exp_avg.seg0") the word that says what it holds. */
static const char *identifier(Arena *a, const char *text)
{
    const char *start = text;
    for (const char *s = text; *s; s++) {
        bool segment = strncmp(s, ".seg", 4) == 0 && isdigit((unsigned char)s[4]);
        if (*s == '.' && !segment && (isalpha((unsigned char)s[1]) || s[1] == '_'))
            start = s + 1;
    }
    char *out = arena_strdup(a, start);
    char *end = strchr(out, '.');
    if (end)
        *end = '\0';
    for (char *s = out; *s; s++)
        if (!isalnum((unsigned char)*s))
            *s = '_';
    return isdigit((unsigned char)out[0]) || !out[0] ? arena_printf(a, "x%s", out) : out;
}

Sym kbuild_name(KBuild *b, Sym wanted, const char *otherwise)
{
    Arena *a = b->l->p->cx->scratch;
    Interner *names = b->l->p->cx->names;
    const char *base = wanted.id ? identifier(a, sym_text(names, wanted)) : otherwise;
    const bool digit = isdigit((unsigned char)base[strlen(base) - 1]);
    return names_unique(&b->l->kernel_names, sym_of(names, base), digit ? "_" : "");
}

KBuild *kbuild_begin(Lower *l, Sym name, KClass class)
{
    KBuild *b = arena_new(l->a, KBuild);
    b->l = l;
    b->kernels = arena_mark(l->p->cx->kernels);
    b->k = kernel_create(l->p, name, class);
    b->k->cuda = l->o->cuda;
    b->mark = arena_mark(l->p->cx->scratch);
    while (l->acc_nodes.n)
        l->acc_of[l->acc_nodes.at[--l->acc_nodes.n]] = 0;
    names_clear(&l->kernel_names);
    return b;
}

void kbuild_acc(KBuild *b, uint32_t node, uint32_t acc)
{
    b->l->acc_of[node] = acc + 1;
    vec_push(b->l->a, &b->l->acc_nodes, node);
}

Symbol kbuild_axis(KBuild *b, Dim extent)
{
    DimTable *t = b->l->t;
    Interner *names = b->l->p->cx->names;
    static const char letters[] = "ijklmopqrst";
    char text[] = "i";
    Symbol size;
    if (dim_is_symbol(t, extent, &size)) {
        const char *s = sym_text(names, dim_symbol(t, size)->name);
        if (isalpha((unsigned char)s[0]) && !s[1])
            text[0] = (char)tolower((unsigned char)s[0]);
    }
    for (size_t i = 0; names_has(&b->l->kernel_names, sym_of(names, text)) && letters[i]; i++)
        text[0] = letters[i];
    Symbol axis = dim_new_symbol(t, SYM_AXIS, kbuild_name(b, sym_of(names, text), "i"), extent);
    SymbolInfo *s = dim_symbol(t, axis);
    int64_t lo;
    s->lo = 0;
    dim_interval(t, extent, &lo, &s->hi);
    if (s->hi != INT64_MAX)
        s->hi--;
    return axis;
}

static bool same_loc(const KBuild *b, uint32_t param, const Loc *loc)
{
    const KParam *q = &b->k->params.at[param];
    const LaunchOperand *o = &b->operands.at[param];
    if (o->buf != loc->buf || !dim_same(o->offset, loc->offset) || q->rank != loc->rank)
        return false;
    for (uint32_t i = 0; i < q->rank; i++)
        if (!dim_same(q->shape[i], loc->shape[i]) || !dim_same(q->stride[i], loc->stride[i]))
            return false;
    return true;
}

uint32_t kbuild_param(KBuild *b, const Loc *loc, DType dtype, KMode mode, Sym name)
{
    for (uint32_t i = 0; i < b->k->params.n; i++) {
        if (same_loc(b, i, loc)) {
            KParam *q = &b->k->params.at[i];
            if (q->mode != mode)
                q->mode = K_INOUT;
            return i;
        }
    }
    KParam q = {.name = kbuild_name(b, name, "x"),
                .dtype = dtype,
                .rank = loc->rank,
                .mode = mode,
                .readonly_scalar = loc->rank == 0};
    memcpy(q.shape, loc->shape, sizeof q.shape);
    memcpy(q.stride, loc->stride, sizeof q.stride);
    vec_push(b->l->a, &b->k->params, q);
    vec_push(b->l->a, &b->operands, ((LaunchOperand){loc->buf, loc->offset}));
    return b->k->params.n - 1;
}

void kbuild_store(KBuild *b, KBlock *block, Val v, const Dim *at)
{
    KExpr e = kbuild_value(b, v, at);
    const Loc *loc = lower_loc(b->l, v);
    DType dtype = val_info(b->l->p, b->l->g, v)->dtype;
    uint32_t param = kbuild_param(b, loc, dtype, K_OUT, lower_name(b->l, v));
    KStmt *s = kblock_add(b->l->p, block, KS_STORE);
    s->expr = e;
    s->param = param;
    s->site = graph_node(b->l->g, v)->site;
    for (uint32_t i = 0; i < loc->rank; i++)
        s->at[i] = dim_is_one(b->l->t, loc->shape[i]) ? dim_const(b->l->t, 0) : at[i];
}

KStmt *kbuild_for(KBuild *b, KBlock *block, Symbol axis, ForKind kind)
{
    KStmt *s = kblock_add(b->l->p, block, KS_FOR);
    s->axis = axis;
    s->lo = dim_const(b->l->t, 0);
    s->hi = dim_symbol(b->l->t, axis)->extent;
    s->loop = kind;
    s->vec = 1;
    return s;
}

/* --- the end
 * ---------------------------------------------------------------------------------------- */

static void add_line(KBuild *b, Span at)
{
    if (!at.file)
        return;
    for (uint32_t i = 0; i < b->k->lines.n; i++) {
        Span *s = &b->k->lines.at[i];
        if (s->file == at.file && s->start == at.start)
            return;
    }
    vec_push(b->l->a, &b->k->lines, at);
}

static Sym unique_kernel_name(Lower *l, Sym name)
{
    Interner *names = l->p->cx->names;
    const char *base = sym_text(names, name);
    for (int i = 2;; i++) {
        uint32_t j = 0;
        while (j < l->lm->names.n && !sym_eq(l->lm->names.at[j], name))
            j++;
        if (j == l->lm->names.n)
            break;
        name = sym_of(names, arena_printf(l->p->cx->scratch, "%s_%d", base, i));
    }
    vec_push(l->a, &l->lm->names, name);
    return name;
}

static uint64_t hash_block(uint64_t h, const Kernel *k, const KBlock *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        h = hash_word(h, (uint64_t)s->kind << 32 | (uint64_t)s->loop << 16 | (unsigned)s->vec);
        h = hash_word(h, (uint64_t)s->param << 32 | s->acc);
        if (s->expr.id)
            h = hash_word(h, (uint64_t)kexpr(k, s->expr)->kind << 32 | kexpr(k, s->expr)->op);
        h = hash_block(h, k, &s->body);
    }
    return h;
}

/* Kernels that differ here differ; most do, and then their texts need not be made. */
static uint64_t outline(const Kernel *k)
{
    uint64_t h = hash_word(HASH_START, (uint64_t)k->class << 32 | (uint64_t)k->cuda << 31 |
                                           (uint64_t)k->accs.n);
    h = hash_word(h, (uint64_t)k->lanes << 32 | (unsigned)k->teams);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KParam *q = &k->params.at[i];
        h = hash_word(h, (uint64_t)q->dtype << 32 | q->rank << 8 | (uint64_t)q->mode);
    }
    return hash_block(h, k, &k->body);
}

/* The number of the kernel, or of an equal earlier one. */
static uint32_t register_kernel(KBuild *b, bool *is_new)
{
    Lower *l = b->l;
    const uint64_t hash = outline(b->k);
    const char *text = NULL;
    for (uint32_t i = 0; i < l->lm->known.n; i++) {
        KnownKernel *known = &l->lm->known.at[i];
        if (known->hash != hash || l->m->kernels.at[known->kernel]->cuda != b->k->cuda)
            continue;
        if (!text)
            text = kernel_structure(l->p, b->k);
        if (!known->text)
            known->text =
                arena_strdup(l->a, kernel_structure(l->p, l->m->kernels.at[known->kernel]));
        if (strcmp(known->text, text) == 0)
            return known->kernel;
    }
    *is_new = true;
    b->k->name = unique_kernel_name(l, b->k->name);
    vec_push(l->a, &l->m->kernels, b->k);
    const uint32_t number = l->m->kernels.n - 1;
    text = text ? arena_strdup(l->a, text) : NULL;
    vec_push(l->a, &l->lm->known, ((KnownKernel){hash, text, number}));
    return number;
}

static Guard cells_guard(Lower *l, Dim cells)
{
    DimTable *t = l->t;
    if (dim_le(t, dim_const(t, 1), cells) == YES)
        return (Guard){0};
    GuardTerm *g = arena_new(l->a, GuardTerm);
    *g = (GuardTerm){.kind = G_LT, .a = dim_const(t, 0), .b = cells};
    return (Guard){g, 1};
}

enum { MOST_LIFTED = 16 /* a launch gives a kernel 64 sizes at most */ };

/* Numbers that are made of sizes alone come from the launch, on GPUs: kernels that differ in
 * nothing but these (the place of a layer in what all of them share) are one kernel. */
static void lift_sizes(KBuild *b)
{
    DimTable *t = b->l->t;
    for (uint32_t i = 1; i < b->k->exprs.n && b->l->o->cuda; i++) {
        KExprInfo *x = &b->k->exprs.at[i];
        int64_t n;
        Symbol s;
        if (x->kind != KE_INDEX || dim_is_const(t, x->index, &n) ||
            dim_is_symbol(t, x->index, &s) || dim_mentions_kind(t, x->index, SYM_AXIS) ||
            dim_mentions_kind(t, x->index, SYM_LOADED))
            continue;
        const Dim size = x->index;
        uint32_t j = 0;
        while (j < b->lifted.n && !dim_same(b->lifted.at[j].to, size))
            j++;
        if (j == MOST_LIFTED)
            continue;
        if (j == b->lifted.n) {
            s = dim_new_symbol(t, SYM_SIZE, kbuild_name(b, (Sym){0}, "size"), (Dim){0});
            dim_interval(t, size, &dim_symbol(t, s)->lo, &dim_symbol(t, s)->hi);
            vec_push(b->l->a, &b->lifted, ((DimSubst){s, size}));
        }
        x->index = dim_of(t, b->lifted.at[j].from);
    }
}

/* What all accesses of a parameter have at an axis, if that is one number. */
typedef struct {
    Dim at;
    bool differs;
} AxisPlace;

static void note_place(const DimTable *t, AxisPlace *p, const Dim *at, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++) {
        int64_t n;
        p[i].differs |= !dim_is_const(t, at[i], &n) || (p[i].at.id && !dim_same(p[i].at, at[i]));
        p[i].at = at[i];
    }
}

static bool note_stores(const KBuild *b, const KBlock *block, AxisPlace (*places)[MAX_RANK])
{
    for (uint32_t i = 0; i < block->n; i++) {
        const KStmt *s = &block->at[i];
        if (s->kind == KS_CALL || !note_stores(b, &s->body, places))
            return false;
        if (s->kind == KS_STORE)
            note_place(b->l->t, places[s->param], s->at, b->k->params.at[s->param].rank);
    }
    return true;
}

static void clear_stores(const KBuild *b, KBlock *block, uint32_t param, uint32_t axis)
{
    for (uint32_t i = 0; i < block->n; i++) {
        KStmt *s = &block->at[i];
        if (s->kind == KS_STORE && s->param == param)
            s->at[axis] = dim_const(b->l->t, 0);
        clear_stores(b, &s->body, param, axis);
    }
}

/* A number that all accesses have at an axis (of a layer, in what all layers share) is part of the
 * operand's place: kernels that differ in nothing else are one kernel. */
static void lift_places(KBuild *b)
{
    DimTable *t = b->l->t;
    Kernel *k = b->k;
    AxisPlace(*places)[MAX_RANK] =
        arena_alloc(b->l->p->cx->scratch, sizeof *places * (k->params.n + 1));
    memset(places, 0, sizeof *places * (k->params.n + 1));
    if (!b->l->o->cuda || k->class == CLASS_CONTRACT || !note_stores(b, &k->body, places))
        return;
    for (uint32_t i = 1; i < k->exprs.n; i++)
        if (k->exprs.at[i].kind == KE_LOAD)
            note_place(t, places[k->exprs.at[i].param], k->exprs.at[i].at,
                       k->params.at[k->exprs.at[i].param].rank);
    for (uint32_t i = 0; i < k->params.n; i++) {
        for (uint32_t j = 0; j < k->params.at[i].rank; j++) {
            const AxisPlace *p = &places[i][j];
            if (p->differs || !p->at.id || dim_is_zero(t, p->at))
                continue;
            b->operands.at[i].offset =
                dim_add(t, b->operands.at[i].offset, dim_mul(t, p->at, k->params.at[i].stride[j]));
            for (uint32_t e = 1; e < k->exprs.n; e++)
                if (k->exprs.at[e].kind == KE_LOAD && k->exprs.at[e].param == i)
                    k->exprs.at[e].at[j] = dim_const(t, 0);
            clear_stores(b, &k->body, i, j);
        }
    }
}

/* The size that the launch hands over for a symbol of the kernel. */
static Dim given_size(const KBuild *b, Symbol s)
{
    for (uint32_t i = 0; i < b->lifted.n; i++)
        if (b->lifted.at[i].from.id == s.id)
            return b->lifted.at[i].to;
    return dim_of(b->l->t, s);
}

Step *kbuild_end(KBuild *b, Site site, const char *text)
{
    Lower *l = b->l;
    add_line(b, site.at);
    for (uint32_t i = 0; i < b->sites.n; i++)
        add_line(b, b->sites.at[i].at);
    b->k->doc = text;
    lift_sizes(b);
    lift_places(b);
    kernel_lets(b);
    kernel_traffic(l->p, b->k);
    const char *why = kernel_verify(l->p, b->k);
    if (why)
        die("%s", why);
    bool is_new = false;
    uint32_t number = register_kernel(b, &is_new);
    Step *s = lower_step(l, STEP_LAUNCH, site);
    s->kernel = number;
    s->text = text;
    s->operands.at = b->operands.at;
    s->operands.n = s->operands.cap = b->operands.n;
    /* by this kernel's own symbols: an equal one of another graph has others of the same names */
    Symbol sizes[64];
    uint32_t n = kernel_sizes(l->p, b->k, sizes, 64);
    for (uint32_t i = 0; i < n; i++)
        vec_push(l->a, &s->ints, given_size(b, sizes[i]));
    s->cells = kernel_cells(l->p, b->k);
    arena_reset(l->p->cx->scratch, b->mark);
    if (!is_new)
        arena_reset(l->p->cx->kernels, b->kernels);
    s->when = cells_guard(l, s->cells);
    return s;
}

/* The value that names the group's kernel: the last stored one that the model names. */
static Val naming_value(const Lower *l, const FuseGroup *grp)
{
    for (uint32_t i = grp->outputs.n; i-- > 0;) {
        Val v = grp->outputs.at[i];
        if (graph_node(l->g, v)->hint.id)
            return v;
        for (uint32_t k = 0; k < l->g->results.n; k++)
            if (val_eq(l->g->results.at[k].val, v))
                return v;
    }
    if (grp->outputs.n)
        return vec_last(&grp->outputs);
    return grp->roots.n ? vec_last(&grp->roots).val : (Val){0};
}

/* model_k3_name. */
Sym lower_kernel_name(Lower *l, const FuseGroup *grp)
{
    Interner *names = l->p->cx->names;
    Val v = naming_value(l, grp);
    const char *text = v.node ? sym_text(names, lower_name(l, v)) : "step";
    const char *dot = strrchr(text, '.');
    const char *other = l->o->cuda == l->m->cuda ? "" : l->o->cuda ? "_gpu" : "_cpu";
    char *name = arena_printf(l->a, "%s_k%u_%s%s", sym_text(names, l->p->name), l->m->kernels.n,
                              dot ? dot + 1 : text, other);
    for (char *s = name; *s; s++)
        if (!(*s >= '0' && *s <= '9') && !(*s >= 'a' && *s <= 'z') && !(*s >= 'A' && *s <= 'Z'))
            *s = '_';
    return sym_of(names, name);
}
