/* cuda_tile.c: products as tiles: the hooks that runtime/kernels/tile.cuh calls, members of a
 * struct of the kernel's parameters, and the kernel that hands them over.
 *
 *   struct y_hooks {
 *       typedef float T, S;
 *       enum { W = 4 };
 *       const float *x, *w, *bias;  float *y;  int B;
 *       void a(int m, int k, T *to) const { tn_copy<16>(to, x + m * 768 + k, ..); }
 *       void b(int n, int k, T *to) const { tn_copy<16>(to, w + n * 768 + k, ..); }
 *       void store(int m, int n, const S (&sum)[W]) const { y[..] = sum + bias .. }
 *   };
 *
 * SPDX-License-Identifier: MIT */
#include "codegen/cuda_internal.h"
#include "ir/base/die.h"

#include <string.h>

typedef struct {
    Cuda *c;
    const KStmt *grid[4]; /* loops over shares of k, batches, m, n */
    int ngrid;
    const KStmt *m, *n, *k;
    const KStmt *fold, *summed; /* the product; an operand that is summed, or NULL */
    const KBlock *cell;
    KExpr a, b; /* the two loads, or selects of a load and 0 */
} Tile;

enum { TN_PLAIN, TN_TF32, TN_BF16, TN_F16 };

static KExpr load_of(const Kernel *k, KExpr e)
{
    while (kexpr(k, e)->kind == KE_CAST)
        e = kexpr(k, e)->in[0];
    const KExprInfo *x = kexpr(k, e);
    if (x->kind != KE_LOAD && (x->kind != KE_SELECT || kexpr(k, x->in[0])->kind != KE_LOAD))
        die("a tile's operand is no load");
    return e;
}

static void find_parts(Tile *w)
{
    const Kernel *k = w->c->t.k;
    const KBlock *body = &k->body;
    while (body->n == 1 && body->at[0].kind == KS_FOR && body->at[0].loop == FOR_GRID) {
        CHECK(w->ngrid < 4);
        w->grid[w->ngrid++] = &body->at[0];
        body = &body->at[0].body;
    }
    CHECK(w->ngrid >= 2);
    w->m = w->grid[w->ngrid - 2];
    w->n = w->grid[w->ngrid - 1];
    w->cell = body;
    for (uint32_t i = 0; i < body->n; i++)
        if (body->at[i].kind == KS_FOR)
            w->k = &body->at[i];
    CHECK(w->k);
    for (uint32_t i = 0; i < w->k->body.n; i++) {
        const KStmt *s = &w->k->body.at[i];
        if (s->kind == KS_FOLD && !w->fold)
            w->fold = s;
        else if (s->kind == KS_FOLD)
            w->summed = s;
    }
    CHECK(w->fold);
    const KExprInfo *x = kexpr(k, w->fold->expr);
    CHECK(x->kind == KE_OP && x->op == OP_mul);
    w->a = load_of(k, x->in[0]);
    w->b = load_of(k, x->in[1]);
}

static bool sums_a(const Tile *w)
{
    return load_of(w->c->t.k, w->summed->expr).id == w->a.id;
}

static const KExprInfo *access_of(const Tile *w, KExpr operand)
{
    const KExprInfo *x = kexpr(w->c->t.k, operand);
    return x->kind == KE_SELECT ? kexpr(w->c->t.k, x->in[0]) : x;
}

static const KParam *param_of(const Tile *w, KExpr operand)
{
    return &w->c->t.k->params.at[access_of(w, operand)->param];
}

static int math_of(const Tile *w)
{
    const DType t = param_of(w, w->a)->dtype;
    return t == DT_bf16                            ? TN_BF16
           : t == DT_f16                           ? TN_F16
           : t == DT_f32 && w->c->t.k->tile.tensor ? TN_TF32
                                                   : TN_PLAIN;
}

/* --- hooks ---------------------------------------------------------------------------------------
 */

static const char *place_text(Tile *w, KExpr load)
{
    KText *t = &w->c->t;
    const KExprInfo *x = kexpr(t->k, load);
    const Dim at = ktext_offset(t, x->param, x->at);
    if (dim_is_zero(cuda_dims(w->c), at))
        return t->param[x->param];
    return arena_printf(t->a, "%s + %s", t->param[x->param], ktext_dim_at(t, at, PREC_SUM));
}

/* Elements one by one: of sizes, or at addresses, that no copy takes. */
static void print_gather(Tile *w, KExpr load, const KStmt *rows, bool by_k, int each)
{
    KText *t = &w->c->t;
    DimTable *d = cuda_dims(w->c);
    const KExprInfo *x = access_of(w, load), *whole = kexpr(t->k, load);
    const Symbol along = by_k ? w->k->axis : rows->axis;
    Symbol j = dim_new_symbol(d, SYM_AXIS, sym_of(t->p->cx->names, "j"), dim_const(d, each));
    const char *m = t->symbol[rows->axis.id], *k = t->symbol[w->k->axis.id];
    t->symbol[j.id] = "j";
    t->wide[j.id] = false;
    emit_line(&t->e, "tn_tile_vector<T, %d> chunk;", each);
    emit_raw(&t->e, "#pragma unroll\n");
    emit_in(&t->e, "for (int j = 0; j < %d; j++)", each);
    const char *edge = arena_printf(t->a, "%s%s < %s && %s%s < %s", m, by_k ? "" : " + j",
                                    ktext_dim_at(t, rows->hi, PREC_LESS), k, by_k ? " + j" : "",
                                    ktext_dim_at(t, w->k->hi, PREC_LESS));
    CHECK(t->nsubst < MAX_SUBST);
    t->subst[t->nsubst++] = (DimSubst){along, dim_add(d, dim_of(d, along), dim_of(d, j))};
    if (whole->kind == KE_SELECT)
        edge = arena_printf(t->a, "%s && %s", edge,
                            ktext_wrap(t, ktext_guard(t, whole->pred), PREC_AND));
    emit_line(&t->e, "chunk.v[j] = %s ? %s : (T)0;", edge, ktext_access(t, x->param, x->at));
    t->nsubst--;
    emit_out(&t->e);
    emit_line(&t->e, "*(tn_tile_vector<T, %d> *)to = chunk;", each);
}

static void print_loader(Tile *w, const char *name, KExpr load, const KStmt *rows, bool by_k,
                         int bytes)
{
    KText *t = &w->c->t;
    DimTable *d = cuda_dims(w->c);
    const int size = dtype_size(param_of(w, load)->dtype);
    const char *m = t->symbol[rows->axis.id], *k = t->symbol[w->k->axis.id];
    emit_line(&t->e, "__device__ __forceinline__ void %s(int %s, int %s, T *to) const", name, m, k);
    emit_open(&t->e, "{");
    if (bytes) {
        const KStmt *edge = by_k ? rows : w->k, *along = by_k ? w->k : rows;
        const Dim left = dim_sub(d, along->hi, dim_of(d, along->axis));
        emit_line(&t->e, "tn_copy<%d>(to, %s, %s < %s ? %d * %s : 0);", bytes, place_text(w, load),
                  t->symbol[edge->axis.id], ktext_dim_at(t, edge->hi, PREC_LESS), size,
                  ktext_dim_at(t, left, PREC_UNARY));
    } else {
        print_gather(w, load, rows, by_k, 16 / size);
    }
    emit_close(&t->e, "");
}

/* The statements around the sum, for W neighbours along n. */
static void print_store(Tile *w, uint32_t acc)
{
    Cuda *c = w->c;
    KText *t = &c->t;
    const int width = t->k->tile.width;
    KStmt loop = *w->n;
    loop.body = (KBlock){0};
    for (uint32_t i = 0; i < w->cell->n; i++) {
        const KStmt *s = &w->cell->at[i];
        if (s->kind == KS_LET || s->kind == KS_STORE)
            vec_push(t->a, &loop.body, *s);
    }
    Scope scope = scope_begin(t);
    const char *sum = name_unique(&t->names, "sum");
    emit_line(&t->e,
              "__device__ __forceinline__ void store(int %s, int %s, const S (&%s)[W]) const",
              t->symbol[w->m->axis.id], t->symbol[w->n->axis.id], sum);
    emit_open(&t->e, "{");
    t->accs[acc].totalled = true;
    t->accs[acc].result[0] = arena_printf(t->a, "%s[%s]", sum, width > 1 ? "k" : "0");
    c->in_lanes = true;
    c->cell_per_lane = true;
    cuda_lane_body(c, &loop, width, "0");
    emit_close(&t->e, "");
    scope_end(t, scope);
}

/* The sum of an operand's row or column goes where its own statement, in a condition, says. */
static void print_sum(Tile *w)
{
    Cuda *c = w->c;
    KText *t = &c->t;
    const KStmt *when = NULL;
    for (uint32_t i = 0; i < w->cell->n; i++)
        if (w->cell->at[i].kind == KS_WHEN)
            when = &w->cell->at[i];
    CHECK(when);
    Scope scope = scope_begin(t);
    const char *sum = name_unique(&t->names, "sum");
    emit_line(&t->e, "__device__ __forceinline__ void sum(int %s, S %s) const",
              t->symbol[(sums_a(w) ? w->m : w->n)->axis.id], sum);
    emit_open(&t->e, "{");
    t->accs[w->summed->acc].totalled = true;
    t->accs[w->summed->acc].result[0] = sum;
    c->in_lanes = true;
    c->cell_per_lane = true;
    cuda_block(c, &when->body);
    emit_close(&t->e, "");
    scope_end(t, scope);
}

/* What the last block at a tile does with each element. */
static void print_last(Tile *w, const KStmt *last)
{
    Cuda *c = w->c;
    KText *t = &c->t;
    Scope scope = scope_begin(t);
    emit_line(&t->e, "__device__ __forceinline__ void last(int %s, int %s) const",
              t->symbol[w->m->axis.id], t->symbol[w->n->axis.id]);
    emit_open(&t->e, "{");
    c->in_lanes = true;
    c->cell_per_lane = true;
    cuda_block(c, &last->body);
    emit_close(&t->e, "");
    scope_end(t, scope);
}

static const KStmt *last_of(const Tile *w)
{
    const KStmt *s = w->cell->n ? &w->cell->at[w->cell->n - 1] : NULL;
    return s && s->kind == KS_LAST ? s : NULL;
}

static void print_members(Tile *w, const Symbol *sizes, uint32_t nsizes)
{
    KText *t = &w->c->t;
    for (uint32_t i = 0; i < t->k->params.n; i++)
        emit_line(&t->e, "%s%s *__restrict__ %s;", t->k->params.at[i].mode == K_IN ? "const " : "",
                  ktext_element(t, t->k->params.at[i].dtype), t->param[i]);
    for (uint32_t i = 0; i < nsizes; i++)
        emit_line(&t->e, "%s %s;", t->wide[sizes[i].id] ? "long long" : "int",
                  t->symbol[sizes[i].id]);
    for (int i = 0; i + 2 < w->ngrid; i++)
        emit_line(&t->e, "long long %s;", t->symbol[w->grid[i]->axis.id]);
}

static void print_hooks(Tile *w, const char *name, const Symbol *sizes, uint32_t nsizes)
{
    KText *t = &w->c->t;
    const KTile *tile = &t->k->tile;
    const DType d = param_of(w, w->a)->dtype;
    emit_open(&t->e, "struct %s_hooks {", name);
    emit_line(&t->e, "typedef %s T;", ktext_element(t, d));
    emit_line(&t->e, "typedef %s S;", d == DT_f64 ? "double" : "float");
    emit_line(&t->e, "enum { W = %d };", tile->width);
    print_members(w, sizes, nsizes);
    emit_line(&t->e, "%s", "");
    print_loader(w, "a", w->a, w->m, tile->a_by_k, tile->a_bytes);
    print_loader(w, "b", w->b, w->n, tile->b_by_k, tile->b_bytes);
    print_store(w, w->fold->acc);
    if (w->summed)
        print_sum(w);
    if (last_of(w))
        print_last(w, last_of(w));
    emit_close(&t->e, ";");
    emit_line(&t->e, "%s", "");
}

/* --- the kernel ----------------------------------------------------------------------------------
 */

/* Which tile a block works on: those of a row next to each other, then rows, then batches. */
static void print_body(Tile *w, const char *name, const Symbol *sizes, uint32_t nsizes)
{
    KText *t = &w->c->t;
    DimTable *d = cuda_dims(w->c);
    const KTile *tile = &t->k->tile;
    StrBuf members = {.a = t->a};
    const Dim columns = dim_ceildiv(d, w->n->hi, dim_const(d, tile->n));
    const Dim rows = dim_ceildiv(d, w->m->hi, dim_const(d, tile->m));
    emit_line(&t->e, "const int columns = %s, rows = %s;", ktext_dim(t, columns).text,
              ktext_dim(t, rows).text);
    const char *tile_of = "blockIdx.x / columns / rows";
    for (int i = w->ngrid - 3; i >= 0; i--) {
        const char *batch = t->symbol[w->grid[i]->axis.id];
        const char *extent = ktext_dim_at(t, w->grid[i]->hi, PREC_UNARY);
        if (i)
            emit_line(&t->e, "const long long %s = %s %% %s;", batch, tile_of, extent);
        else
            emit_line(&t->e, "const long long %s = %s;", batch, tile_of);
        tile_of = arena_printf(t->a, "%s / %s", tile_of, extent);
    }
    for (uint32_t i = 0; i < t->k->params.n; i++)
        sb_printf(&members, "%s%s", i ? ", " : "", t->param[i]);
    for (uint32_t i = 0; i < nsizes; i++)
        sb_printf(&members, ", %s", t->symbol[sizes[i].id]);
    for (int i = 0; i + 2 < w->ngrid; i++)
        sb_printf(&members, ", %s", t->symbol[w->grid[i]->axis.id]);
    emit_line(&t->e, "const %s_hooks h = {%s};", name, sb_text(&members));
    emit_line(&t->e, "const int m0 = blockIdx.x / columns %% rows * %d;", tile->m);
    emit_line(&t->e, "const int n0 = blockIdx.x %% columns * %d;", tile->n);
    emit_line(&t->e, "tn_%stile<%d, %d, %d, %s, %s%s>(h, m0, n0, %s, %s, %s);",
              tile->tensor ? "tensor_" : "", math_of(w), tile->m, tile->n,
              tile->a_by_k ? "true" : "false", tile->b_by_k ? "true" : "false",
              !w->summed  ? ""
              : sums_a(w) ? ", 1"
                          : ", 2",
              ktext_dim(t, w->m->hi).text, ktext_dim(t, w->n->hi).text,
              ktext_dim(t, w->k->hi).text);
}

/* Shares of k are the outermost loop: all tiles of one share, then those of the next. */
static void print_join(Tile *w)
{
    KText *t = &w->c->t;
    const KTile *tile = &t->k->tile;
    const char *tiles = "columns * rows";
    for (int i = w->ngrid - 3; i > 0; i--)
        tiles = arena_printf(t->a, "%s * %s", tiles, ktext_dim_at(t, w->grid[i]->hi, PREC_UNARY));
    emit_line(&t->e, "const int tiles = %s;", tiles);
    emit_in(&t->e, "if (tn_last_block(arrived + blockIdx.x %% tiles, gridDim.x / tiles))");
    emit_in(&t->e, "for (int e = threadIdx.x; e < %d; e += %d)", tile->m * tile->n, w->c->lanes);
    emit_in(&t->e, "if (m0 + e / %d < %s && n0 + e %% %d < %s)", tile->n,
            ktext_dim_at(t, w->m->hi, PREC_SUM), tile->n, ktext_dim_at(t, w->n->hi, PREC_SUM));
    emit_line(&t->e, "h.last(m0 + e / %d, n0 + e %% %d);", tile->n, tile->n);
    emit_out(&t->e);
    emit_out(&t->e);
    emit_out(&t->e);
}

void cuda_tile(Cuda *c, const char *name, const Symbol *sizes, uint32_t nsizes, StrBuf *hooks)
{
    KText *t = &c->t;
    Tile w = {.c = c};
    Emit body = t->e;
    find_parts(&w);
    for (int i = 0; i < w.ngrid; i++)
        ktext_symbol(t, w.grid[i]->axis,
                     cuda_name(c, dim_symbol(cuda_dims(c), w.grid[i]->axis)->name),
                     i + 2 < w.ngrid);
    ktext_symbol(t, w.k->axis, cuda_name(c, dim_symbol(cuda_dims(c), w.k->axis)->name), false);
    t->e = ktext_frame(t, hooks);
    t->e.depth = 0;
    print_hooks(&w, name, sizes, nsizes);
    t->e = body;
    print_body(&w, name, sizes, nsizes);
    if (last_of(&w))
        print_join(&w);
}
