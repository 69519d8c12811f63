/* host_print.c: host IR as text: buffers, then one step a line. ir.md section 5.
 * SPDX-License-Identifier: MIT */
#include "ir/host.h"

#include <inttypes.h>

static const char *const buf_kinds[] = {"arg", "result", "state", "tape", "temp", "const"};

typedef struct {
    const HostModel *m;
    const HostProgram *h;
    StrBuf *out;
} Print;

static void put_dim(Print *w, Dim d)
{
    dim_print(w->m->p->cx->dims, d, w->out);
}

static void put_name(Print *w, uint32_t buf)
{
    sb_puts(w->out, sym_text(w->m->p->cx->names, w->h->buffers.at[buf].name));
}

static void put_place(Print *w, Place place)
{
    if (place == PLACE_HOST)
        sb_puts(w->out, " @host");
    else if (place != PLACE_D0)
        sb_printf(w->out, " @d%d", place);
}

static void put_offset(Print *w, Dim d)
{
    if (d.id && !dim_is_zero(w->m->p->cx->dims, d)) {
        sb_puts(w->out, " + ");
        put_dim(w, d);
    }
}

static void put_buffer(Print *w, uint32_t i)
{
    const Buffer *b = &w->h->buffers.at[i];
    sb_puts(w->out, "  buffer ");
    put_name(w, i);
    sb_printf(w->out, " %s[", dtype_name(b->dtype));
    for (uint32_t k = 0; k < b->rank; k++) {
        if (k)
            sb_puts(w->out, ", ");
        put_dim(w, b->shape[k]);
    }
    sb_printf(w->out, "] %s", buf_kinds[b->kind]);
    if (b->kind != BUF_TEMP && b->kind != BUF_CONST)
        sb_printf(w->out, " %u", b->slot);
    if (b->of) {
        sb_puts(w->out, " at ");
        put_name(w, b->of);
        put_offset(w, b->offset);
    }
    if (b->strip)
        sb_puts(w->out, " strip");
    if (b->kind == BUF_TEMP && !b->of && b->first <= b->last)
        sb_printf(w->out, " live %u..%u", b->first, b->last);
    put_place(w, b->place);
    sb_putc(w->out, '\n');
}

static void put_operand(Print *w, const GemmOperand *o)
{
    put_name(w, o->buf);
    sb_putc(w->out, '(');
    put_dim(w, o->rows);
    sb_puts(w->out, ", ");
    put_dim(w, o->cols);
    DimTable *t = w->m->p->cx->dims;
    for (int i = 0; i < 2; i++) {
        if (o->batch[i].id && !dim_is_zero(t, o->batch[i])) {
            sb_puts(w->out, i ? ", batch1 " : ", batch0 ");
            put_dim(w, o->batch[i]);
        }
    }
    put_offset(w, o->offset);
    sb_putc(w->out, ')');
}

static void put_gemm(Print *w, const Step *s)
{
    sb_puts(w->out, "gemm ");
    put_operand(w, &s->c);
    sb_puts(w->out, s->accumulate ? " += " : " = ");
    put_operand(w, &s->a);
    sb_puts(w->out, " * ");
    put_operand(w, &s->b);
    sb_puts(w->out, " {m=");
    put_dim(w, s->m);
    sb_puts(w->out, ", n=");
    put_dim(w, s->n);
    sb_puts(w->out, ", k=");
    put_dim(w, s->k);
    for (int i = 0; i < 2; i++) {
        if (!dim_is_one(w->m->p->cx->dims, s->batch[i])) {
            sb_printf(w->out, ", batch%d=", i);
            put_dim(w, s->batch[i]);
        }
    }
    sb_puts(w->out, s->tf32 ? ", tf32}" : "}");
    if (s->bias.buf) {
        sb_puts(w->out, " + ");
        put_operand(w, &s->bias);
    }
    const GemmOperand *sums[] = {&s->sum_a, &s->sum_b};
    for (int i = 0; i < 2; i++) {
        if (sums[i]->buf) {
            sb_puts(w->out, i ? " sum_b " : " sum_a ");
            put_operand(w, sums[i]);
        }
    }
}

static void put_launch(Print *w, const Step *s)
{
    const Kernel *k = w->m->kernels.at[s->kernel];
    sb_printf(w->out, "launch %s (", sym_text(w->m->p->cx->names, k->name));
    for (uint32_t i = 0; i < s->operands.n; i++) {
        if (i)
            sb_puts(w->out, ", ");
        put_name(w, s->operands.at[i].buf);
        put_offset(w, s->operands.at[i].offset);
    }
    for (uint32_t i = 0; i < s->ints.n; i++) {
        sb_puts(w->out, i ? ", " : "; ");
        put_dim(w, s->ints.at[i]);
    }
    sb_puts(w->out, ") cells ");
    put_dim(w, s->cells);
}

static void put_when(Print *w, Guard g)
{
    static const char *const words[] = {"==", "!=", "<", "<="};
    for (uint32_t i = 0; i < g.n; i++) {
        const GuardTerm *t = &g.at[i];
        sb_puts(w->out, i ? " and " : " when ");
        if (t->kind <= G_LE) {
            put_dim(w, t->a);
            sb_printf(w->out, " %s ", words[t->kind]);
            put_dim(w, t->b);
        } else if (t->kind == G_DIVISIBLE) {
            put_dim(w, t->a);
            sb_printf(w->out, " %% %" PRId64, t->k);
        } else {
            sb_printf(w->out, "%s %" PRId64,
                      t->kind == G_WANT     ? "want"
                      : t->kind == G_CHOICE ? "choice"
                      : t->kind == G_ARCH   ? "arch"
                                            : "has",
                      t->k);
        }
    }
}

/* strip B rows { or strip K deep { before the first of its steps; } behind the last one. */
static void put_strip(Print *w, uint32_t step, bool end)
{
    for (uint32_t i = 0; i < w->h->strips.n; i++) {
        const StepStrip *s = &w->h->strips.at[i];
        if (end && s->first + s->n == step + 1)
            sb_puts(w->out, "  }\n");
        if (end || s->first != step)
            continue;
        sb_puts(w->out, "  strip ");
        put_dim(w, s->rows);
        sb_puts(w->out, s->depth ? " deep {\n" : " rows {\n");
    }
}

static void put_step(Print *w, const Step *s)
{
    sb_puts(w->out, "  ");
    switch (s->kind) {
    case STEP_LAUNCH:
        put_launch(w, s);
        break;
    case STEP_GEMM:
        put_gemm(w, s);
        break;
    case STEP_COPY:
        sb_puts(w->out, "copy ");
        put_name(w, s->dst);
        sb_puts(w->out, " = ");
        put_name(w, s->src);
        break;
    case STEP_FILL:
        sb_puts(w->out, "fill ");
        put_name(w, s->dst);
        sb_printf(w->out, " = %.9g", s->value);
        break;
    case STEP_LOOP:
        sb_printf(w->out, "loop %s in ",
                  sym_text(w->m->p->cx->names, dim_symbol(w->m->p->cx->dims, s->loop)->name));
        if (!s->reverse)
            sb_puts(w->out, "0..");
        put_dim(w, s->cells);
        if (s->reverse)
            sb_puts(w->out, "..0");
        if (s->rows.id) {
            sb_puts(w->out, " rows ");
            put_dim(w, s->rows);
        }
        break;
    case STEP_END:
        sb_puts(w->out, "end");
        break;
    case STEP_SWAP:
        sb_puts(w->out, "swap ");
        put_name(w, s->dst);
        sb_puts(w->out, ", ");
        put_name(w, s->src);
        break;
    case STEP_PRINT:
        sb_puts(w->out, "print ");
        put_name(w, s->src);
        break;
    }
    put_when(w, s->when);
    if (s->text && s->text[0])
        sb_printf(w->out, "   ; %s", s->text);
    sb_putc(w->out, '\n');
}

void host_print(const HostModel *m, const HostProgram *h, StrBuf *out)
{
    Print w = {m, h, out};
    const Interner *names = m->p->cx->names;
    sb_printf(out, "program %s.%s (", sym_text(names, m->p->name), sym_text(names, h->name));
    for (uint32_t i = 0; i < h->args.n; i++) {
        if (i == h->nargs)
            sb_puts(out, ") -> (");
        else if (i)
            sb_puts(out, ", ");
        sb_printf(out, "%s", sym_text(names, h->args.at[i].name));
        if (h->args.at[i].optional)
            sb_putc(out, '?');
        if (h->args.at[i].inout)
            sb_puts(out, " inout");
    }
    if (h->nargs == h->args.n)
        sb_puts(out, ") -> (");
    sb_puts(out, ") {\n");
    for (uint32_t i = 1; i < h->buffers.n; i++)
        put_buffer(&w, i);
    for (uint32_t i = 0; i < h->steps.n; i++) {
        put_strip(&w, i, false);
        put_step(&w, &h->steps.at[i]);
        put_strip(&w, i, true);
    }
    sb_puts(out, "}\n");
}
