/* cuda_turn.c: maps whose operands lie across: a block works on 32 x 32 results, and turns what
 * lies along their other axis in shared memory, so that loads and stores are whole rows.
 *
 *   for i in 0..I grid { for j in 0..J grid { store y[i, j] = relu(x[j, i]) } }      turned
 *
 * A row of the shared memory has 33 elements: neither its rows nor its columns meet in a bank.
 * Where one axis is short, such as the channels of an image, a tile is all of it by 64 or 128: it
 * goes through shared memory in the order in which the short axis' neighbours are neighbours, and
 * something is left out wherever lanes along the other axis would meet in a bank again.
 * SPDX-License-Identifier: MIT */
#include "codegen/cuda_internal.h"
#include "ir/base/die.h"

enum {
    SIDE = TURN_SIDE,
    MAX_LOADS = 6,
    SHARED_BYTES = 48 << 10 /* that every GPU gives a block */
};

typedef struct {
    Cuda *c;
    const KStmt *grid[8];
    int n;
    const KStmt *i, *j; /* the last two loops */
    const KBlock *body;
    KExpr load[MAX_LOADS];
    const char *shared[MAX_LOADS], *i0, *j0; /* the tile's first result */
    int nloads, bytes;                       /* of shared memory */
    KTurn tile;
    const char *e; /* short axis: the element of the tile */
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
    w->tile = kernel_turn(cuda_dims(w->c), w->i->hi, w->j->hi);
}

/* Elements of the tile between two gaps: 32 banks of words, a small element has one to itself. */
static int run_of(const Turn *w, int size)
{
    int n = w->tile.few;
    while (n % (size == 8 ? 16 : 32))
        n += w->tile.few;
    return n;
}

static int elements(const Turn *w, int size)
{
    const int n = w->tile.i * w->tile.j;
    if (!w->tile.few)
        return SIDE * (SIDE + 1);
    return (n + n / run_of(w, size)) * (size < 4 ? 4 / size : 1);
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
        const int size = dtype_size(t->k->params.at[x->param].dtype);
        const int bytes = elements(w, size) * size;
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
    Dim inner = dim_ceildiv(d, w->j->hi, dim_const(d, w->tile.j));
    const Dim rows = dim_ceildiv(d, w->i->hi, dim_const(d, w->tile.i));
    const char *columns = ktext_dim_at(t, inner, PREC_UNARY);
    w->j0 = name_unique(&t->names, "j0");
    w->i0 = name_unique(&t->names, "i0");
    if (w->tile.few) {
        const bool last = w->n == 2;
        emit_line(&t->e, "const long long %s = (long long)(blockIdx.x%s%s) * %d;",
                  w->tile.few_i ? w->j0 : w->i0, last ? "" : " % ",
                  last            ? ""
                  : w->tile.few_i ? columns
                                  : ktext_dim_at(t, rows, PREC_UNARY),
                  w->tile.few_i ? w->tile.j : w->tile.i);
    } else {
        emit_line(&t->e, "const long long %s = (long long)(blockIdx.x %% %s) * %d;", w->j0, columns,
                  SIDE);
        emit_line(&t->e, "const long long %s = (long long)(blockIdx.x / %s%s%s) * %d;", w->i0,
                  columns, w->n > 2 ? " % " : "", w->n > 2 ? ktext_dim_at(t, rows, PREC_UNARY) : "",
                  SIDE);
    }
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

/* In the order of memory along the short axis (flat), or 32 lanes along the other one. */
static void open_strip(Turn *w, const char *i, const char *j, bool flat)
{
    KText *t = &w->c->t;
    const int few = w->tile.few, n = w->tile.i * w->tile.j;
    const char *longer = w->tile.few_i ? j : i, *from = w->tile.few_i ? w->j0 : w->i0;
    const char *shorter = w->tile.few_i ? i : j;
    emit_raw(&t->e, "#pragma unroll\n");
    if (flat) {
        emit_open(&t->e, "for (int %s = %d * threadIdx.y + threadIdx.x; %s < %d; %s += %d) {", w->e,
                  SIDE, w->e, n, w->e, SIDE * w->c->teams);
        emit_line(&t->e, "const long long %s = %s + %s / %d, %s = %s %% %d;", longer, from, w->e,
                  few, shorter, w->e, few);
    } else {
        emit_open(&t->e, "for (int q = threadIdx.y; q < %d; q += %d) {", n / SIDE, w->c->teams);
        emit_line(&t->e, "const int %s = (q / %d * %d + threadIdx.x) * %d + q %% %d;", w->e, few,
                  SIDE, few, few);
        emit_line(&t->e, "const long long %s = %s + %s / %d, %s = q %% %d;", longer, from, w->e,
                  few, shorter, few);
    }
    emit_open(&t->e, "if (%s < %s) {", longer,
              ktext_dim_at(t, (w->tile.few_i ? w->j : w->i)->hi, PREC_LESS));
}

static void open_tile(Turn *w, const char *i, const char *j, bool load)
{
    KText *t = &w->c->t;
    if (w->tile.few) {
        open_strip(w, i, j, load == w->tile.few_i);
        return;
    }
    emit_raw(&t->e, "#pragma unroll\n");
    emit_open(&t->e, "for (int q = threadIdx.y; q < %d; q += %d) {", SIDE, w->c->teams);
    emit_line(&t->e, "const long long %s = %s + %s, %s = %s + %s;", i, w->i0,
              load ? "threadIdx.x" : "q", j, w->j0, load ? "q" : "threadIdx.x");
    emit_open(&t->e, "if (%s < %s && %s < %s) {", i, ktext_dim_at(t, w->i->hi, PREC_LESS), j,
              ktext_dim_at(t, w->j->hi, PREC_LESS));
}

/* An element of the tile in shared memory. */
static const char *turned(const Turn *w, int n, bool load)
{
    Arena *a = w->c->t.a;
    const int size = dtype_size(w->c->t.k->params.at[kexpr(w->c->t.k, w->load[n])->param].dtype);
    if (!w->tile.few)
        return arena_printf(a, load ? "%s[q][threadIdx.x]" : "%s[threadIdx.x][q]", w->shared[n]);
    const int run = run_of(w, size);
    const char *at = w->e;
    if (run < w->tile.i * w->tile.j)
        at = arena_printf(a, "%s + %s / %d", at, at, run);
    return size < 4 ? arena_printf(a, "%s[(%s) * %d]", w->shared[n], at, 4 / size)
                    : arena_printf(a, "%s[%s]", w->shared[n], at);
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
        if (w.tile.few)
            emit_line(&t->e, "__shared__ %s %s[%d];", ktext_element(t, q->dtype), w.shared[n],
                      elements(&w, dtype_size(q->dtype)));
        else
            emit_line(&t->e, "__shared__ %s %s[%d][%d];", ktext_element(t, q->dtype), w.shared[n],
                      SIDE, SIDE + 1);
    }
    w.e = name_unique(&t->names, "e");
    open_tile(&w, i, j, true);
    for (int n = 0; n < w.nloads; n++) {
        const KExprInfo *x = kexpr(t->k, w.load[n]);
        emit_line(&t->e, "%s = %s;", turned(&w, n, true), ktext_access(t, x->param, x->at));
    }
    close_tile(&w);
    emit_line(&t->e, "__syncthreads();");
    for (int n = 0; n < w.nloads; n++)
        t->vector[w.load[n].id] = (Text){turned(&w, n, false), PREC_PRIMARY};
    open_tile(&w, i, j, false);
    c->in_lanes = c->in_teams = true;
    cuda_block(c, w.body);
    close_tile(&w);
}
