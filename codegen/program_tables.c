/* program_tables.c: one host program as tables. Sizes are numbered where they are first needed;
 * size 0 is the number 0. SPDX-License-Identifier: MIT */
#include "codegen/program.h"
#include "ir/base/die.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct {
    const HostModel *m;
    const HostProgram *h;
    Arena *a;
    const char *name;   /* of the tables */
    const char *prefix; /* of all names: "" or "cuda_" */
    SizeCode *code;     /* of the model */
    VEC(Dim) dims;
    uint32_t *table, size; /* dims by their hash, plus 1; 0 is free; a power of two */
    VEC(uint32_t) starts;  /* where the code of each size begins */
    VEC(Symbol) symbols;
    VEC(int32_t) lists;
    VEC(const char *) guards;
    uint32_t noperands, ngemms;
    StrBuf operands, gemms, steps, strips, buffers, data, checks, args;
} Tables;

static DimTable *dims(const Tables *t)
{
    return t->m->p->cx->dims;
}

static const char *text_of(const Tables *t, Sym s)
{
    return sym_text(t->m->p->cx->names, s);
}

/* --- sizes ---------------------------------------------------------------------------------------
 */

static uint32_t symbol_number(Tables *t, Symbol s)
{
    for (uint32_t i = 0; i < t->symbols.n; i++)
        if (t->symbols.at[i].id == s.id)
            return i;
    vec_push(t->a, &t->symbols, s);
    return t->symbols.n - 1;
}

static void put_code(Tables *t, Dim d, StrBuf *out);

static void put_atom(Tables *t, const Atom *atom, StrBuf *out)
{
    if (atom->kind == ATOM_SYMBOL) {
        sb_printf(out, "TN_D_SYM, %u, ", symbol_number(t, atom->symbol));
        return;
    }
    put_code(t, atom->a, out);
    put_code(t, atom->b, out);
    sb_puts(out, atom->kind == ATOM_FLOORDIV ? "TN_D_DIV, "
                 : atom->kind == ATOM_MIN    ? "TN_D_MIN, "
                                             : "TN_D_MAX, ");
}

static void put_term(Tables *t, const Term *term, StrBuf *out)
{
    bool started = false;
    for (uint32_t i = 0; i < term->n; i++)
        for (int power = 0; power < term->factors[i].power; power++) {
            put_atom(t, &term->factors[i].atom, out);
            if (started)
                sb_puts(out, "TN_D_MUL, ");
            started = true;
        }
    if (started && term->coefficient == 1)
        return;
    sb_printf(out, "TN_D_CONST, %" PRId64 ", ", term->coefficient);
    if (started)
        sb_puts(out, "TN_D_MUL, ");
}

static void put_code(Tables *t, Dim d, StrBuf *out)
{
    const Term *terms;
    uint32_t n = dim_terms(dims(t), d, &terms);
    if (!n)
        sb_puts(out, "TN_D_CONST, 0, ");
    for (uint32_t i = 0; i < n; i++) {
        put_term(t, &terms[i], out);
        if (i)
            sb_puts(out, "TN_D_ADD, ");
    }
}

static uint32_t dim_place(const Tables *t, Dim d)
{
    uint32_t h = (uint32_t)hash_word(HASH_START, d.id) & (t->size - 1);
    while (t->table[h] && !dim_same(t->dims.at[t->table[h] - 1], d))
        h = (h + 1) & (t->size - 1);
    return h;
}

static void add_dim(Tables *t, Dim d)
{
    vec_push(t->a, &t->dims, d);
    if (t->dims.n * 2 <= t->size) {
        t->table[dim_place(t, d)] = t->dims.n;
        return;
    }
    t->size = t->size ? t->size * 2 : 64;
    t->table = arena_array(t->a, uint32_t, t->size);
    for (uint32_t i = 0; i < t->dims.n; i++)
        t->table[dim_place(t, t->dims.at[i])] = i + 1;
}

/* The number of a size; one that is absent is 0. */
static int32_t number(Tables *t, Dim d)
{
    d = d.id ? dim_normalize(dims(t), d) : dim_const(dims(t), 0);
    const uint32_t at = t->size ? t->table[dim_place(t, d)] : 0;
    if (at)
        return (int32_t)at - 1;
    add_dim(t, d);
    return (int32_t)t->dims.n - 1;
}

/* An offset in elements: -1 is none. */
static int32_t offset(Tables *t, Dim d)
{
    return !d.id || dim_is_zero(dims(t), dim_normalize(dims(t), d)) ? -1 : number(t, d);
}

/* Where the numbers stand in the lists; a sequence that is there already is shared. */
static uint32_t list_numbers(Tables *t, const int32_t *at, uint32_t n)
{
    for (uint32_t i = 0; i + n <= t->lists.n; i++)
        if (!memcmp(t->lists.at + i, at, n * sizeof *at))
            return i;
    uint32_t first = t->lists.n;
    for (uint32_t i = 0; i < n; i++)
        vec_push(t->a, &t->lists, at[i]);
    return first;
}

static uint32_t list_dims(Tables *t, const Dim *d, uint32_t n)
{
    int32_t *at = arena_array(t->a, int32_t, n + 1);
    for (uint32_t i = 0; i < n; i++)
        at[i] = number(t, d[i]);
    return list_numbers(t, at, n);
}

static uint32_t words(const char *code) /* commas, as each word has one behind it */
{
    uint32_t n = 0;
    for (; *code; code++)
        n += *code == ',';
    return n;
}

/* Equal code is there once for all programs of the model. */
static uint32_t pool_code(Tables *t, const char *code, Dim d)
{
    SizeCode *c = t->code;
    const uint32_t line = sym_of(c->lines, code).id - 1;
    if (line < c->starts.n)
        return c->starts.at[line];
    vec_push(t->a, &c->starts, c->words);
    vec_push(t->a, &c->comments, dim_text(dims(t), t->a, d));
    c->words += words(code);
    return c->starts.at[line];
}

static void code_sizes(Tables *t)
{
    for (uint32_t i = 0; i < t->dims.n; i++) {
        StrBuf text = {.a = t->a};
        put_code(t, t->dims.at[i], &text);
        sb_puts(&text, "TN_D_END,");
        vec_push(t->a, &t->starts, pool_code(t, sb_text(&text), t->dims.at[i]));
    }
}

void program_size_code(const SizeCode *code, const char *prefix, StrBuf *out)
{
    Emit e = {.out = out};
    if (!code->starts.n)
        return;
    emit_open(&e, "static const int64_t %ssize_code[] = {", prefix);
    for (uint32_t i = 0; i < code->starts.n; i++)
        emit_line(&e, "%s /* at %u: %s */", sym_text(code->lines, (Sym){i + 1}), code->starts.at[i],
                  code->comments.at[i]);
    emit_close(&e, ";");
    emit_line(&e, "%s", "");
}

static void print_numbers(Tables *t, Emit *e, const char *what, const int32_t *at, uint32_t n)
{
    StrBuf s = {.a = t->a};
    for (uint32_t i = 0; i < n; i++)
        sb_printf(&s, "%s%d", i ? ", " : "", at[i]);
    if (n)
        emit_line(e, "static const int32_t %s_%s[] = {%s};", t->name, what, sb_text(&s));
}

static void print_sizes(Tables *t, Emit *e)
{
    if (t->symbols.n) {
        emit_open(e, "static const tn_symbol %s_symbols[] = {", t->name);
        for (uint32_t i = 0; i < t->symbols.n; i++) {
            const SymbolInfo *s = dim_symbol(dims(t), t->symbols.at[i]);
            emit_line(e, "{%s, %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %d},",
                      quoted(t->a, text_of(t, s->name)), s->lo, s->hi, s->div, s->rem,
                      s->kind == SYM_LOOP ? 2 : 0);
        }
        emit_close(e, ";");
    }
    StrBuf text = {.a = t->a};
    for (uint32_t i = 0; i < t->dims.n; i++)
        sb_printf(&text, "%s%u: %s", i ? "   " : "", i, dim_text(dims(t), t->a, t->dims.at[i]));
    emit_line(e, "/* sizes %s */", sb_text(&text));
    print_numbers(t, e, "dims", (const int32_t *)t->starts.at, t->starts.n);
}

/* --- guards --------------------------------------------------------------------------------------
 */

static const char *guard_text(Tables *t, const GuardTerm *g)
{
    static const char *const kinds[] = {[G_EQ] = "TN_G_EQ",
                                        [G_NE] = "TN_G_NE",
                                        [G_LT] = "TN_G_LT",
                                        [G_LE] = "TN_G_LE",
                                        [G_DIVISIBLE] = "TN_G_DIVISIBLE",
                                        [G_ARCH] = "TN_G_ARCH",
                                        [G_HAS] = "TN_G_HAS",
                                        [G_WANT] = "TN_G_WANT",
                                        [G_CHOICE] = "TN_G_CHOICE"};
    return arena_printf(t->a, "{%s, %d, %d, %" PRId64 "}", kinds[g->kind], number(t, g->a),
                        number(t, g->b), g->k);
}

static uint32_t list_guards(Tables *t, Guard g)
{
    const char **text = arena_array(t->a, const char *, g.n);
    for (uint32_t i = 0; i < g.n; i++)
        text[i] = guard_text(t, &g.at[i]);
    for (uint32_t first = 0; first + g.n <= t->guards.n; first++) {
        uint32_t same = 0;
        while (same < g.n && !strcmp(t->guards.at[first + same], text[same]))
            same++;
        if (same == g.n)
            return first;
    }
    for (uint32_t i = 0; i < g.n; i++)
        vec_push(t->a, &t->guards, text[i]);
    return t->guards.n - g.n;
}

/* --- buffers -------------------------------------------------------------------------------------
 */

/* Elements of a constant, as words of its size: bits are exact in every type. */
static void print_data(Tables *t, uint32_t i)
{
    static const char *const words_of[] = {
        [1] = "uint8_t", [2] = "uint16_t", [4] = "uint32_t", [8] = "uint64_t"};
    const Buffer *b = &t->h->buffers.at[i];
    int64_t n = 0;
    int size = dtype_size(b->dtype);
    if (!dim_is_const(dims(t), dim_product(dims(t), b->shape, b->rank), &n))
        die("constant %s has no fixed size", text_of(t, b->name));
    sb_printf(&t->data, "static const %s %s_data%u[] = {", words_of[size], t->name, i);
    for (int64_t k = 0; k < n; k++) {
        uint64_t w = 0;
        memcpy(&w, (const char *)b->data + k * size, (size_t)size);
        sb_printf(&t->data, "%s%#" PRIx64 ",", k % 8 ? " " : "\n    ", w);
    }
    sb_puts(&t->data, n ? "\n};\n" : "0};\n");
}

static void add_buffer(Tables *t, uint32_t i)
{
    static const char *const kinds[] = {
        [BUF_ARG] = "ARG",   [BUF_RESULT] = "RESULT", [BUF_STATE] = "STATE",
        [BUF_TAPE] = "TAPE", [BUF_TEMP] = "TEMP",     [BUF_CONST] = "CONST"};
    const Buffer *b = &t->h->buffers.at[i];
    StrBuf s = {.a = t->a};
    sb_printf(&s, "{.kind = TN_BUF_%s, .dtype = %d", kinds[b->kind], (int)b->dtype);
    if (b->rank)
        sb_printf(&s, ", .rank = %u, .shape = %u", b->rank, list_dims(t, b->shape, b->rank));
    if (b->slot)
        sb_printf(&s, ", .index = %u", b->slot);
    if (b->of)
        sb_printf(&s, ", .of = %u, .offset = %d", b->of, number(t, b->offset));
    if (b->kind == BUF_TEMP && !b->of)
        sb_printf(&s, ", .first = %u, .last = %u", b->first, b->last);
    if (b->strip)
        sb_printf(&s, ", .strip = %u", b->strip);
    if (host_place(t->m, b->place))
        sb_printf(&s, ", .place = %u", host_place(t->m, b->place));
    if (b->kind == BUF_CONST && b->data) {
        print_data(t, i);
        sb_printf(&s, ", .data = %s_data%u", t->name, i);
    }
    Emit e = {.out = &t->buffers, .depth = 1};
    const char *shape = shape_text(t->m->p, t->a, b->shape, b->rank);
    emit_line(&e, "/* %u: %s %s%s */", i, text_of(t, b->name), dtype_name(b->dtype), shape);
    emit_line(&e, "%s},", sb_text(&s));
}

/* --- steps ---------------------------------------------------------------------------------------
 */

static uint32_t add_operand(Tables *t, uint32_t buf, Dim at)
{
    Emit e = {.out = &t->operands, .depth = 1};
    emit_line(&e, "{%u, %d}, /* %s */", buf, offset(t, at), text_of(t, t->h->buffers.at[buf].name));
    return t->noperands++;
}

static const char *gemm_operand(Tables *t, const GemmOperand *o)
{
    if (!o->buf)
        return "{0}";
    return arena_printf(t->a, "{%u, %d, %d, %d, %d, %d}", o->buf, number(t, o->offset),
                        number(t, o->rows), number(t, o->cols), number(t, o->batch[0]),
                        number(t, o->batch[1]));
}

static int32_t count(Tables *t, Dim d) /* a batch that is absent is one */
{
    return number(t, d.id ? d : dim_const(dims(t), 1));
}

static void add_gemm(Tables *t, const Step *s)
{
    Emit e = {.out = &t->gemms, .depth = 1};
    StrBuf text = {.a = t->a};
    sb_printf(&text, "{.m = %d, .n = %d, .k = %d, .batch0 = %d, .batch1 = %d", number(t, s->m),
              number(t, s->n), number(t, s->k), count(t, s->batch[0]), count(t, s->batch[1]));
    sb_printf(&text, ", .a = %s, .b = %s, .c = %s", gemm_operand(t, &s->a), gemm_operand(t, &s->b),
              gemm_operand(t, &s->c));
    if (s->sum_a.buf)
        sb_printf(&text, ", .sum_a = %s", gemm_operand(t, &s->sum_a));
    if (s->sum_b.buf)
        sb_printf(&text, ", .sum_b = %s", gemm_operand(t, &s->sum_b));
    if (s->bias.buf)
        sb_printf(&text, ", .bias = %s", gemm_operand(t, &s->bias));
    if (s->accumulate)
        sb_puts(&text, ", .accumulate = 1");
    if (s->tf32)
        sb_puts(&text, ", .tf32 = 1");
    emit_line(&e, "%s},", sb_text(&text));
    t->ngemms++;
}

static void put_launch(Tables *t, const Step *s, StrBuf *out)
{
    uint32_t first = t->noperands;
    for (uint32_t i = 0; i < s->operands.n; i++)
        add_operand(t, s->operands.at[i].buf, s->operands.at[i].offset);
    sb_printf(out, ", .kernel = %u, .operands = %u, .nops = %u", s->kernel, first, s->operands.n);
    if (s->ints.n)
        sb_printf(out, ", .ints = %u, .nints = %u", list_dims(t, s->ints.at, s->ints.n), s->ints.n);
    sb_printf(out, ", .cells = %d", count(t, s->cells));
}

/* What the step does, in words: the comment above it. */
static const char *step_comment(Tables *t, const Step *s)
{
    const char *where = where_text(t->m->p, t->a, s->site.at);
    const char *text = s->text ? s->text : "";
    const char *what = "";
    if (s->kind == STEP_LAUNCH)
        what = text_of(t, t->m->kernels.at[s->kernel]->name);
    if (s->kind == STEP_GEMM)
        what = arena_printf(t->a, "%s %s %s * %s", text_of(t, t->h->buffers.at[s->c.buf].name),
                            s->accumulate ? "+=" : "=", text_of(t, t->h->buffers.at[s->a.buf].name),
                            text_of(t, t->h->buffers.at[s->b.buf].name));
    if (s->kind == STEP_COPY)
        what = arena_printf(t->a, "%s = %s", text_of(t, t->h->buffers.at[s->dst].name),
                            text_of(t, t->h->buffers.at[s->src].name));
    if (s->kind == STEP_LOOP)
        what = arena_printf(t->a, "loop %s", text_of(t, dim_symbol(dims(t), s->loop)->name));
    if (s->kind == STEP_PRINT)
        what = arena_printf(t->a, "print %s", text_of(t, t->h->buffers.at[s->src].name));
    if (s->kind == STEP_FILL)
        what = arena_printf(t->a, "%s = %g", text_of(t, t->h->buffers.at[s->dst].name), s->value);
    char *line = arena_printf(t->a, "%s%s%s%s%s", where, *where ? ": " : "", what,
                              *what && *text ? ": " : "", text);
    for (char *c = line; *c; c++)
        if ((c[0] == '*' && c[1] == '/') || *c == '\n')
            *c = ' ';
    return line;
}

/* A double as a constant expression of C. */
static const char *constant_text(Tables *t, double v)
{
    if (isnan(v))
        return "0.0 / 0.0";
    if (isinf(v))
        return v > 0 ? "1.0 / 0.0" : "-1.0 / 0.0";
    return arena_printf(t->a, "%.17g", v);
}

static void add_step(Tables *t, const Step *s)
{
    static const char *const kinds[] = {
        [STEP_LAUNCH] = "LAUNCH", [STEP_GEMM] = "GEMM", [STEP_COPY] = "COPY", [STEP_FILL] = "FILL",
        [STEP_PRINT] = "PRINT",   [STEP_LOOP] = "LOOP", [STEP_END] = "END",   [STEP_SWAP] = "SWAP"};
    StrBuf text = {.a = t->a};
    sb_printf(&text, "{.kind = TN_STEP_%s", kinds[s->kind]);
    if (s->kind == STEP_LAUNCH)
        put_launch(t, s, &text);
    if (s->kind == STEP_GEMM) {
        sb_printf(&text, ", .kernel = %u", t->ngemms);
        add_gemm(t, s);
    }
    if (s->kind == STEP_LOOP)
        sb_printf(&text, ", .kernel = %u, .operands = %u, .nops = %d, .cells = %d",
                  symbol_number(t, s->loop), s->other, s->reverse, count(t, s->cells));
    if (s->kind == STEP_LOOP && s->rows.id)
        sb_printf(&text, ", .ints = %d, .nints = 1", number(t, s->rows));
    if (s->kind == STEP_END)
        sb_printf(&text, ", .operands = %u", s->other);
    if (s->kind == STEP_COPY || s->kind == STEP_SWAP) {
        sb_printf(&text, ", .operands = %u, .nops = 2", add_operand(t, s->dst, (Dim){0}));
        add_operand(t, s->src, (Dim){0});
    }
    if (s->kind == STEP_PRINT)
        sb_printf(&text, ", .operands = %u, .nops = 1, .text = %s",
                  add_operand(t, s->src, (Dim){0}), quoted(t->a, s->text ? s->text : ""));
    if (s->kind == STEP_FILL)
        sb_printf(&text, ", .operands = %u, .nops = 1, .value = %s",
                  add_operand(t, s->dst, (Dim){0}), constant_text(t, s->value));
    if (s->when.n)
        sb_printf(&text, ", .when = {%u, %u}", list_guards(t, s->when), s->when.n);
    if (host_place(t->m, s->place))
        sb_printf(&text, ", .place = %u", host_place(t->m, s->place));
    Emit e = {.out = &t->steps, .depth = 1};
    emit_line(&e, "/* %s */", step_comment(t, s));
    const char *where = where_text(t->m->p, t->a, s->site.at);
    if (*where && s->kind != STEP_LAUNCH) /* kernels know their lines */
        sb_printf(&text, ", .where = %s", quoted(t->a, where));
    emit_line(&e, "%s},", sb_text(&text));
}

static void add_strip(Tables *t, const StepStrip *s)
{
    Emit e = {.out = &t->strips, .depth = 1};
    emit_line(&e, "{%u, %u, %d, %d},", s->first, s->n, s->depth, number(t, s->rows));
}

/* --- arguments, checks ---------------------------------------------------------------------------
 */

static void add_arg(Tables *t, uint32_t i)
{
    const HostArg *a = &t->h->args.at[i];
    Emit e = {.out = &t->args, .depth = 1};
    emit_line(&e, "{%s, %u, %d, %d, %d},", quoted(t->a, text_of(t, a->name)), a->buf, a->optional,
              a->inout, i >= t->h->nargs);
}

static void add_check(Tables *t, const EntryCheck *c)
{
    Emit e = {.out = &t->checks, .depth = 1};
    emit_line(&e, "{%s, %s, %s},", guard_text(t, &c->guard), quoted(t->a, c->message),
              quoted(t->a, where_text(t->m->p, t->a, c->at)));
}

/* --- the whole -----------------------------------------------------------------------------------
 */

static void print_table(Emit *e, const char *type, const char *name, const char *what,
                        const StrBuf *rows)
{
    if (!rows->n)
        return;
    emit_line(e, "static const %s %s_%s[] = {", type, name, what);
    emit_raw(e, sb_text(rows));
    emit_line(e, "};");
}

static Tables collect(const HostModel *m, const HostProgram *h, const char *prefix, SizeCode *code,
                      Arena *a)
{
    Tables t = {.m = m, .h = h, .a = a, .prefix = prefix, .code = code};
    t.name = name_clean(a, sym_text(m->p->cx->names, h->name));
    if (h->graph->kind == GRAPH_TEST) /* named by a sentence, which may clean to a method's name */
        for (uint32_t i = 0; i < m->programs.n; i++)
            if (m->programs.at[i] == h)
                t.name = arena_printf(a, "test%u_%s", i, t.name);
    t.name = arena_printf(a, "%s%s", prefix, t.name);
    StrBuf *texts[] = {&t.operands, &t.gemms, &t.steps,  &t.strips,
                       &t.buffers,  &t.data,  &t.checks, &t.args};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        texts[i]->a = a;
    number(&t, dim_const(dims(&t), 0));
    for (uint32_t i = 1; i < h->buffers.n; i++)
        add_buffer(&t, i);
    for (uint32_t i = 0; i < h->args.n; i++)
        add_arg(&t, i);
    for (uint32_t i = 0; i < h->graph->checks.n; i++)
        add_check(&t, &h->graph->checks.at[i]);
    for (uint32_t i = 0; i < h->steps.n; i++)
        add_step(&t, &h->steps.at[i]);
    for (uint32_t i = 0; i < h->strips.n; i++)
        add_strip(&t, &h->strips.at[i]);
    code_sizes(&t);
    return t;
}

static void put_pointer(Tables *t, StrBuf *out, const char *member, bool there)
{
    if (there)
        sb_printf(out, ", .%s = %s_%s", member, t->name,
                  !strcmp(member, "dim_code") ? "dims" : member);
}

static void put_element(Tables *t, StrBuf *out)
{
    static const char *const kinds[] = {[GRAPH_METHOD] = "METHOD",
                                        [GRAPH_TRAINING] = "METHOD",
                                        [GRAPH_FORWARD_TRAIN] = "FORWARD_TRAIN",
                                        [GRAPH_BACKWARD] = "BACKWARD",
                                        [GRAPH_GRAD] = "GRAD",
                                        [GRAPH_STEP] = "STEP",
                                        [GRAPH_UPDATE] = "UPDATE",
                                        [GRAPH_INIT] = "INIT",
                                        [GRAPH_TEST] = "TEST",
                                        [GRAPH_BODY] = "METHOD",
                                        [GRAPH_DEF] = "METHOD"};
    const HostProgram *h = t->h;
    StrBuf s = {.a = t->a};
    sb_printf(&s, "{.name = %s, .method = %s, .kind = TN_%s", quoted(t->a, text_of(t, h->name)),
              quoted(t->a, text_of(t, h->graph->method)), kinds[h->graph->kind]);
    sb_printf(&s, ", .nsymbols = %u, .ndims = %u, .nbuffers = %u, .nargs = %u, .nsteps = %u",
              t->symbols.n, t->dims.n, h->buffers.n, h->args.n, h->steps.n);
    sb_printf(&s, ", .nchecks = %u, .ntape = %u", h->graph->checks.n, h->tape.n);
    put_pointer(t, &s, "symbols", t->symbols.n);
    sb_printf(&s, ", .code = %ssize_code", t->prefix);
    put_pointer(t, &s, "dim_code", true);
    put_pointer(t, &s, "lists", t->lists.n);
    put_pointer(t, &s, "guards", t->guards.n);
    put_pointer(t, &s, "checks", h->graph->checks.n);
    put_pointer(t, &s, "buffers", true);
    put_pointer(t, &s, "args", h->args.n);
    put_pointer(t, &s, "tape", h->tape.n);
    put_pointer(t, &s, "operands", t->noperands);
    put_pointer(t, &s, "gemms", t->ngemms);
    put_pointer(t, &s, "steps", h->steps.n);
    if (h->strips.n) {
        sb_printf(&s, ", .nstrips = %u", h->strips.n);
        put_pointer(t, &s, "strips", true);
    }
    Emit e = {.out = out, .depth = 1};
    emit_line(&e, "%s},", sb_text(&s));
}

void program_table(const HostModel *m, const HostProgram *h, const char *prefix, SizeCode *code,
                   StrBuf *out, StrBuf *element)
{
    Tables t = collect(m, h, prefix, code, out->a);
    Emit e = {.out = out};
    StrBuf guards = {.a = t.a};
    for (uint32_t i = 0; i < t.guards.n; i++)
        sb_printf(&guards, "    %s,\n", t.guards.at[i]);
    print_sizes(&t, &e);
    print_numbers(&t, &e, "lists", t.lists.at, t.lists.n);
    print_table(&e, "tn_guard", t.name, "guards", &guards);
    print_table(&e, "tn_check", t.name, "checks", &t.checks);
    emit_raw(&e, sb_text(&t.data));
    emit_line(&e, "static const tn_buffer %s_buffers[] = {", t.name);
    emit_raw(&e, "    {0},\n");
    emit_raw(&e, sb_text(&t.buffers));
    emit_line(&e, "};");
    print_table(&e, "tn_arg", t.name, "args", &t.args);
    print_numbers(&t, &e, "tape", (const int32_t *)h->tape.at, h->tape.n);
    print_table(&e, "tn_operand", t.name, "operands", &t.operands);
    print_table(&e, "tn_gemm_step", t.name, "gemms", &t.gemms);
    print_table(&e, "tn_step", t.name, "steps", &t.steps);
    print_table(&e, "tn_strip", t.name, "strips", &t.strips);
    emit_line(&e, "%s", "");
    put_element(&t, element);
}
