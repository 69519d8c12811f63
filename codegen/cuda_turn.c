/* cuda_turn.c: maps whose operands lie across: a block works on 32 x 32 results, and turns what
 * lies along their other axis in shared memory, so that loads and stores are whole rows.
 *
 *   for i in 0..I grid { for j in 0..J grid { store y[i, j] = relu(x[j, i]) } }      turned
 *
 * A row of the shared memory has 33 elements: neither its rows nor its columns meet in a bank.
 * SPDX-License-Identifier: MIT */
#include "codegen/cuda_internal.h"
#include "ir/base/die.h"

enum { SIDE = 32, MAX_LOADS = 6, SHARED_BYTES = 48 << 10 /* that every GPU gives a block */ };

typedef struct {
    Cuda *c;
    const KStmt *grid[8];
    int n;
    const KStmt *i, *j; /* the last two loops */
    const KBlock *body;
    KExpr load[MAX_LOADS];
    const char *shared[MAX_LOADS], *i0, *j0; /* the tile's first result */
    int nloads, bytes;                       /* of shared memory */
} Turn;

static void find_loops(Turn *w)
{
    w->body = &w->c->t.k->body;
    while (w->body->n == 1 && w->body->at[0].kind == KS_FOR && w->body->at[0].loop == FOR_GRID) {
        CHECK(w->n < 8);
        w->grid[w->n++] = &w->body->at[0];
        w->body = &w->body->at[0].body;
    }
    CHECK(w->n >= 2);
    w->i = w->grid[w->n - 2];
    w->j = w->grid[w->n - 1];
}

/* Neighbours along i are neighbours in memory, those along j are not. */
static bool lies_across(const Turn *w, const KExprInfo *x)
{
    DimTable *d = cuda_dims(w->c);
    const Dim at = ktext_offset(&w->c->t, x->param, x->at);
    const Dim rest = dim_sub(d, at, dim_of(d, w->i->axis));
    return dim_mentions(d, at, w->j->axis) && !dim_mentions(d, rest, w->i->axis) &&
           !dim_mentions_kind(d, at, SYM_LOADED);
}

static void find_loads(Turn *w, KExpr e)
{
    KText *t = &w->c->t;
    const KExprInfo *x = kexpr(t->k, e);
    if (!e.id || t->seen[e.id] == t->mark)
        return;
    t->seen[e.id] = t->mark;
    if (x->kind == KE_LOAD && w->nloads < MAX_LOADS && lies_across(w, x)) {
        const int bytes = SIDE * (SIDE + 1) * dtype_size(t->k->params.at[x->param].dtype);
        if (w->bytes + bytes <= SHARED_BYTES) { /* else it is read as it lies */
            w->load[w->nloads++] = e;
            w->bytes += bytes;
        }
    }
    for (uint32_t i = 0; i < x->nin && x->kind != KE_SELECT; i++)
        find_loads(w, x->in[i]);
}

/* Tiles of a row next to each other, then rows, then what is outside. */
static void print_place(Turn *w)
{
    Cuda *c = w->c;
    KText *t = &c->t;
    DimTable *d = cuda_dims(c);
    const Dim side = dim_const(d, SIDE);
    Dim inner = dim_ceildiv(d, w->j->hi, side);
    const char *columns = ktext_dim_at(t, inner, PREC_UNARY);
    w->j0 = name_unique(&t->names, "j0");
    w->i0 = name_unique(&t->names, "i0");
    emit_line(&t->e, "const long long %s = (long long)(blockIdx.x %% %s) * %d;", w->j0, columns,
              SIDE);
    const Dim rows = dim_ceildiv(d, w->i->hi, side);
    emit_line(&t->e, "const long long %s = (long long)(blockIdx.x / %s%s%s) * %d;", w->i0, columns,
              w->n > 2 ? " % " : "", w->n > 2 ? ktext_dim_at(t, rows, PREC_UNARY) : "", SIDE);
    inner = dim_mul(d, inner, rows);
    for (int g = w->n - 3; g >= 0; g--) {
        const char *name = ktext_symbol(t, w->grid[g]->axis,
                                        cuda_name(c, dim_symbol(d, w->grid[g]->axis)->name), true);
        emit_line(&t->e, "const long long %s = blockIdx.x / %s%s%s;", name,
                  ktext_dim_at(t, inner, PREC_UNARY), g ? " % " : "",
                  g ? ktext_dim_at(t, w->grid[g]->hi, PREC_UNARY) : "");
        inner = dim_mul(d, inner, w->grid[g]->hi);
    }
}

static void open_tile(Turn *w, const char *i, const char *j, bool by_j)
{
    KText *t = &w->c->t;
    emit_raw(&t->e, "#pragma unroll\n");
    emit_open(&t->e, "for (int q = threadIdx.y; q < %d; q += %d) {", SIDE, w->c->teams);
    emit_line(&t->e, "const long long %s = %s + %s, %s = %s + %s;", i, w->i0,
              by_j ? "threadIdx.x" : "q", j, w->j0, by_j ? "q" : "threadIdx.x");
    emit_open(&t->e, "if (%s < %s && %s < %s) {", i, ktext_dim_at(t, w->i->hi, PREC_LESS), j,
              ktext_dim_at(t, w->j->hi, PREC_LESS));
}

static void close_tile(Turn *w)
{
    emit_close(&w->c->t.e, "");
    emit_close(&w->c->t.e, "");
}

void cuda_turned(Cuda *c)
{
    KText *t = &c->t;
    DimTable *d = cuda_dims(c);
    Turn w = {.c = c};
    find_loops(&w);
    t->mark++;
    for (uint32_t s = 0; s < w.body->n; s++)
        find_loads(&w, w.body->at[s].expr);
    print_place(&w);
    const char *i = ktext_symbol(t, w.i->axis, cuda_name(c, dim_symbol(d, w.i->axis)->name), true);
    const char *j = ktext_symbol(t, w.j->axis, cuda_name(c, dim_symbol(d, w.j->axis)->name), true);
    for (int n = 0; n < w.nloads; n++) {
        const KParam *q = &t->k->params.at[kexpr(t->k, w.load[n])->param];
        w.shared[n] =
            name_unique(&t->names, arena_printf(t->a, "%s_turned", cuda_name(c, q->name)));
        emit_line(&t->e, "__shared__ %s %s[%d][%d];", ktext_element(t, q->dtype), w.shared[n], SIDE,
                  SIDE + 1);
    }
    open_tile(&w, i, j, true);
    for (int n = 0; n < w.nloads; n++) {
        const KExprInfo *x = kexpr(t->k, w.load[n]);
        emit_line(&t->e, "%s[q][threadIdx.x] = %s;", w.shared[n], ktext_access(t, x->param, x->at));
    }
    close_tile(&w);
    emit_line(&t->e, "__syncthreads();");
    for (int n = 0; n < w.nloads; n++)
        t->vector[w.load[n].id] =
            (Text){arena_printf(t->a, "%s[threadIdx.x][q]", w.shared[n]), PREC_PRIMARY};
    open_tile(&w, i, j, false);
    c->in_lanes = c->in_teams = true;
    cuda_block(c, w.body);
    close_tile(&w);
}
