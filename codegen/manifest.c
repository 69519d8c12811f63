/* manifest.c: the model as JSON, for bindings and tools. SPDX-License-Identifier: MIT */
#include "codegen/header.h"
#include "codegen/program.h"

#include <inttypes.h>
#include <string.h>

static const char *name_of(const HostModel *m, Sym s)
{
    return sym_text(m->p->cx->names, s);
}

static const char *json_name(const HostModel *m, Arena *a, Sym s)
{
    return quoted(a, name_of(m, s));
}

/* ["B", 32, "3*B"] */
static const char *json_shape(const HostModel *m, Arena *a, const Dim *d, uint32_t n)
{
    StrBuf s = {.a = a};
    sb_putc(&s, '[');
    for (uint32_t i = 0; i < n; i++) {
        int64_t v;
        sb_puts(&s, i ? ", " : "");
        if (dim_is_const(m->p->cx->dims, d[i], &v))
            sb_printf(&s, "%" PRId64, v);
        else
            sb_puts(&s, quoted(a, dim_text(m->p->cx->dims, a, d[i])));
    }
    sb_putc(&s, ']');
    return sb_text(&s);
}

static void put_args(const HostModel *m, const HostProgram *h, uint32_t from, uint32_t to,
                     const char *what, StrBuf *out)
{
    sb_printf(out, ",\n      \"%s\": [", what);
    for (uint32_t i = from; i < to; i++) {
        const HostArg *arg = &h->args.at[i];
        const Buffer *b = &h->buffers.at[arg->buf];
        sb_printf(out, "%s\n        {\"name\": %s, \"dtype\": \"%s\", \"shape\": %s%s%s}",
                  i > from ? "," : "", json_name(m, out->a, arg->name), dtype_name(b->dtype),
                  json_shape(m, out->a, b->shape, b->rank),
                  arg->optional ? ", \"optional\": true" : "",
                  arg->inout ? ", \"inout\": true" : "");
    }
    sb_puts(out, to > from ? "\n      ]" : "]");
}

/* Sizes that stand alone in the shape of an argument, with what is known about them. */
static void put_sizes(const HostModel *m, const HostProgram *h, StrBuf *out)
{
    DimTable *d = m->p->cx->dims;
    VEC(Symbol) seen = {0};
    sb_puts(out, ",\n      \"sizes\": [");
    for (uint32_t i = 0; i < h->args.n; i++) {
        const Buffer *b = &h->buffers.at[h->args.at[i].buf];
        for (uint32_t k = 0; k < b->rank; k++) {
            Symbol s;
            bool known = !dim_is_symbol(d, b->shape[k], &s);
            for (uint32_t j = 0; j < seen.n && !known; j++)
                known = seen.at[j].id == s.id;
            if (known)
                continue;
            vec_push(out->a, &seen, s);
            const SymbolInfo *info = dim_symbol(d, s);
            sb_printf(out,
                      "%s\n        {\"name\": %s, \"min\": %" PRId64 ", \"max\": %" PRId64
                      ", \"divisor\": %" PRId64 ", \"remainder\": %" PRId64 "}",
                      seen.n > 1 ? "," : "", json_name(m, out->a, info->name), info->lo, info->hi,
                      info->div, info->rem);
        }
    }
    sb_puts(out, seen.n ? "\n      ]" : "]");
}

static void put_program(const HostModel *m, const HostProgram *h, bool first, StrBuf *out)
{
    sb_printf(out, "%s\n    {\n      \"name\": %s, \"method\": %s, \"function\": \"%s_%s\"",
              first ? "" : ",", json_name(m, out->a, h->name),
              json_name(m, out->a, h->graph->method), model_prefix(out->a, m),
              name_clean(out->a, name_of(m, h->name)));
    put_sizes(m, h, out);
    put_args(m, h, 0, h->nargs, "arguments", out);
    put_args(m, h, h->nargs, h->args.n, "results", out);
    sb_printf(out, ",\n      \"steps\": %u, \"saved\": %u\n    }", h->steps.n, h->tape.n);
}

static void put_state(const HostModel *m, StrBuf *out)
{
    sb_puts(out, ",\n  \"state\": [");
    for (uint32_t i = 0; i < m->p->state.n; i++) {
        const StateView *v = &m->p->state.at[i];
        const TypeInfo *t = type_info(m->p, v->type);
        sb_printf(out,
                  "%s\n    {\"name\": %s, \"segment\": %s, \"offset\": %" PRId64
                  ", \"dtype\": \"%s\", \"shape\": %s, \"parameter\": %s, \"trainable\": %s}",
                  i ? "," : "", json_name(m, out->a, v->name),
                  json_name(m, out->a, m->p->slots.at[v->slot].name), v->offset,
                  dtype_name(t->dtype), json_shape(m, out->a, t->shape, t->rank),
                  v->is_param ? "true" : "false", v->trainable ? "true" : "false");
    }
    sb_puts(out, m->p->state.n ? "\n  ]" : "]");
}

static void put_kernels(const HostModel *m, StrBuf *out)
{
    static const char *const classes[] = {
        [CLASS_MAP] = "map",           [CLASS_ROW] = "row",       [CLASS_REDUCE] = "reduce",
        [CLASS_CONTRACT] = "contract", [CLASS_SCALAR] = "scalar", [CLASS_COPY] = "copy",
        [CLASS_OPAQUE] = "opaque"};
    sb_puts(out, ",\n  \"kernels\": [");
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        const Kernel *k = m->kernels.at[i];
        sb_printf(out,
                  "%s\n    {\"name\": %s, \"class\": \"%s\", \"lines\": %s, \"lanes\": %d, "
                  "\"teams\": %d}",
                  i ? "," : "", json_name(m, out->a, k->name), classes[k->class],
                  quoted(out->a, kernel_where(m->p, k, out->a)), k->lanes, k->teams);
    }
    sb_puts(out, m->kernels.n ? "\n  ]" : "]");
}

void manifest_text(const HostModel *m, StrBuf *out)
{
    bool first = true;
    sb_printf(
        out, "{\n  \"model\": %s,\n  \"source\": %s,\n  \"generator\": \"tenon %s\",\n  \"abi\": 1",
        json_name(m, out->a, m->p->name), quoted(out->a, model_source(out->a, m)), TENON_VERSION);
    sb_puts(out, ",\n  \"programs\": [");
    for (uint32_t i = 0; i < m->programs.n; i++) {
        if (!program_is_entry(m->programs.at[i]))
            continue;
        put_program(m, m->programs.at[i], first, out);
        first = false;
    }
    sb_puts(out, first ? "]" : "\n  ]");
    put_state(m, out);
    put_kernels(m, out);
    sb_puts(out, "\n}\n");
}
