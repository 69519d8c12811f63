/* cuda.c: see cuda.h. A grid cell belongs to a team (threadIdx.y) of lanes (threadIdx.x), or to a
 * lane; where loops are spread over teams, a block works on one cell (or a cell a lane) together.
 * SPDX-License-Identifier: MIT */
#include "codegen/cuda_internal.h"
#include "ir/base/die.h"
#include "ir/host.h"

#include <inttypes.h>
#include <string.h>

const char *cuda_name(const Cuda *c, Sym s)
{
    return sym_text(c->t.p->cx->names, s);
}

static const char *axis_name(const Cuda *c, Symbol s)
{
    return cuda_name(c, dim_symbol(cuda_dims(c), s)->name);
}

/* --- statements ----------------------------------------------------------------------------------
 */

static void print_let(Cuda *c, const KStmt *s)
{
    KText *t = &c->t;
    ktext_line(t, s);
    const char *value = ktext_expr(t, s->expr).text;
    const char *type = s->axis.id ? "long long" : ktext_value(t, kexpr(t->k, s->expr)->type);
    const char *name = ktext_let_name(t, s);
    emit_line(&t->e, "const %s %s = %s;", type, name, value);
    ktext_let(t, s->expr, (Text){name, PREC_PRIMARY});
}

static void print_fold(Cuda *c, const KStmt *s)
{
    KText *t = &c->t;
    ktext_line(t, s);
    const char *index = NULL;
    if (s->fold_index.id) {
        Dim at = t->nsubst ? dim_substitute(cuda_dims(c), s->fold_index, t->subst, t->nsubst)
                           : s->fold_index;
        index = ktext_dim(t, at).text;
    }
    emit_line(&t->e, "%s;", acc_fold(t, s->acc, ktext_expr(t, s->expr).text, index));
}

/* Who does a store: one lane, where no loop spreads it over lanes; one team of those that share. */
static const char *writer(const Cuda *c)
{
    bool lane = !c->in_lanes && c->lanes > 1;
    bool team = c->cooperate && !c->in_teams && c->teams > 1;
    if (lane && team)
        return "threadIdx.x == 0 && threadIdx.y == 0";
    return lane ? "threadIdx.x == 0" : team ? "threadIdx.y == 0" : NULL;
}

static uint32_t print_stores(Cuda *c, const KBlock *b, uint32_t first)
{
    uint32_t end = first;
    while (end < b->n && b->at[end].kind == KS_STORE)
        end++;
    const char *who = writer(c);
    ktext_line(&c->t, &b->at[first]);
    if (who && end == first + 1)
        emit_in(&c->t.e, "if (%s)", who);
    else if (who)
        emit_open(&c->t.e, "if (%s) {", who);
    for (uint32_t i = first; i < end; i++)
        ktext_print_store(&c->t, &b->at[i]);
    if (who && end == first + 1)
        emit_out(&c->t.e);
    else if (who)
        emit_close(&c->t.e, "");
    return end;
}

/* --- accumulators and kept values ----------------------------------------------------------------
 */

static int64_t registers_for(const Cuda *c, Dim extent, int width)
{
    int64_t n;
    if (!dim_is_const(cuda_dims(c), extent, &n))
        die("kernel %s: a kept value needs a fixed extent", cuda_name(c, c->t.k->name));
    int64_t share = (int64_t)c->lanes * width;
    return (n + share - 1) / share * width;
}

/* The vector width of the lanes loops that use registers: the same for all of them. */
static int lanes_width(const KBlock *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        int inner = lanes_width(&s->body);
        if (s->kind == KS_FOR && s->loop == FOR_LANES && s->vec > inner)
            inner = s->vec;
        if (inner > 1)
            return inner;
    }
    return 1;
}

static void print_acc(Cuda *c, const KStmt *s)
{
    KText *t = &c->t;
    AccInfo *acc = &t->accs[s->acc];
    const KAcc *a = &t->k->accs.at[s->acc];
    const char *base = cuda_name(c, a->name);
    acc->totalled = false;
    for (int f = 0; f < reducer_info(a->reducer)->nfields; f++) {
        const char *type = acc_field_type(t, s->acc, f), *identity = acc_identity(t, s->acc, f);
        acc->field[f] = name_unique(
            &t->names, arena_printf(t->a, "%s%s", *base ? base : "acc", acc_suffix(t, s->acc, f)));
        if (acc->store != ACC_SIDE) {
            emit_line(&t->e, "%s %s = %s;", type, acc->field[f], identity);
            continue;
        }
        int64_t n = registers_for(c, acc->extent, lanes_width(&t->k->body));
        bool zero = identity[0] == '0';
        emit_line(&t->e, "%s %s[%" PRId64 "]%s;", type, acc->field[f], n, zero ? " = {}" : "");
        if (!zero) {
            emit_in(&t->e, "for (int j = 0; j < %" PRId64 "; j++)", n);
            emit_line(&t->e, "%s[j] = %s;", acc->field[f], identity);
            emit_out(&t->e);
        }
    }
}

static void declare_keeps(Cuda *c)
{
    KText *t = &c->t;
    for (uint32_t i = 0; i < t->k->keeps.n; i++) {
        const KKeep *k = &t->k->keeps.at[i];
        t->keeps[i] = name_unique(&t->names, cuda_name(c, k->name));
        emit_line(&t->e, "%s %s[%" PRId64 "];", ktext_value(t, k->type), t->keeps[i],
                  registers_for(c, k->extent, lanes_width(&t->k->body)));
    }
}

/* A body that prints as one line: its loop needs no braces. */
static bool is_bare(const Cuda *c, const KBlock *b)
{
    return b->n == 1 && (b->at[0].kind == KS_FOLD || b->at[0].kind == KS_KEEP ||
                         (b->at[0].kind == KS_STORE && c->in_lanes && !writer(c)));
}

/* The loop's head has been printed with its brace; closes it, or takes the brace away. */
static void open_body(Cuda *c, const KBlock *b)
{
    if (!is_bare(c, b))
        return;
    c->t.e.out->n -= 3;
    sb_putc(c->t.e.out, '\n');
}

static void close_body(Cuda *c, bool bare)
{
    if (bare)
        emit_out(&c->t.e);
    else
        emit_close(&c->t.e, "");
}

/* --- loops ---------------------------------------------------------------------------------------
 */

static bool expr_in_registers(KText *t, KExpr e)
{
    const KExprInfo *x = kexpr(t->k, e);
    if (t->seen[e.id] == t->mark)
        return false;
    t->seen[e.id] = t->mark;
    if (x->kind == KE_KEEP || (x->kind == KE_ACC && t->accs[x->acc].store == ACC_SIDE))
        return true;
    for (uint32_t i = 0; i < x->nin; i++)
        if (expr_in_registers(t, x->in[i]))
            return true;
    return false;
}

static bool in_registers(KText *t, const KBlock *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        t->mark++;
        if (s->kind == KS_KEEP || (s->kind == KS_FOLD && t->accs[s->acc].store == ACC_SIDE) ||
            (s->expr.id && expr_in_registers(t, s->expr)) || in_registers(t, &s->body))
            return true;
    }
    return false;
}

void cuda_lane_body(Cuda *c, const KStmt *s, int width, const char *registers)
{
    Symbol before = c->t.lane_axis;
    Text keep = c->t.keep_index;
    c->t.lane_axis = s->axis;
    c->in_lanes = true;
    if (width > 1) {
        cuda_vector_body(c, s, width, registers);
    } else {
        c->t.keep_index = (Text){registers, PREC_PRIMARY};
        cuda_block(c, &s->body);
    }
    c->in_lanes = false;
    c->t.lane_axis = before;
    c->t.keep_index = keep;
}

/* Each lane owns its elements for good, in registers: the loop over them is unrolled. */
static void print_register_loop(Cuda *c, const KStmt *s, int width)
{
    KText *t = &c->t;
    int64_t extent = 0, share = (int64_t)c->lanes * width;
    if (!dim_is_const(cuda_dims(c), s->hi, &extent))
        die("kernel %s: a kept value needs a fixed extent", cuda_name(c, t->k->name));
    int64_t rounds = (extent + share - 1) / share;
    bool guard = extent != rounds * share;
    const char *scale = width > 1 ? arena_printf(t->a, "%d * ", width) : "";
    if (rounds > 1) {
        emit_raw(&t->e, "#pragma unroll\n");
        emit_open(&t->e, "for (int j = 0; j < %" PRId64 "; j++) {", rounds);
    } else {
        emit_open(&t->e, "{");
    }
    const char *name = ktext_symbol(t, s->axis, axis_name(c, s->axis), false);
    if (rounds > 1)
        emit_line(&t->e, "const int %s = %s(threadIdx.x + %d * j);", name, scale, c->lanes);
    else
        emit_line(&t->e, "const int %s = %sthreadIdx.x;", name, scale);
    if (guard)
        emit_open(&t->e, "if (%s < %" PRId64 ") {", name, extent);
    cuda_lane_body(c, s, width, rounds > 1 ? "j" : "0");
    if (guard)
        emit_close(&t->e, "");
    emit_close(&t->e, "");
}

/* Whether a counter that goes up to `hi` in steps fits an int, its last step included. */
static bool counts_in_int(Cuda *c, Dim hi, int64_t step)
{
    return ktext_fits_int(&c->t, dim_add(cuda_dims(c), hi, dim_const(cuda_dims(c), step - 1)));
}

/* --- unrolling -----------------------------------------------------------------------------------
 * The compiler unrolls loops to have several loads under way. Divisions, roots and what is made of
 * them call functions for rare arguments; many of those side by side cost registers, up to
 * spilling, and gain nothing. */

enum { HEAVY = 5 };

static int expr_weight(const Kernel *k, KExpr e, bool *seen)
{
    if (!e.id || seen[e.id])
        return 0;
    const KExprInfo *x = kexpr(k, e);
    seen[e.id] = true;
    int weight = x->kind == KE_OP       ? op_info(x->op)->weight
                 : x->kind == KE_RANDOM ? HEAVY + 1
                 : x->kind == KE_EXTERN ? HEAVY + 1
                                        : 0;
    for (int i = 0; i < 3; i++)
        weight += expr_weight(k, x->in[i], seen);
    return weight;
}

static int block_weight(const Kernel *k, const KBlock *b, bool *seen)
{
    int weight = 0;
    for (uint32_t i = 0; i < b->n; i++)
        weight += expr_weight(k, b->at[i].expr, seen) + block_weight(k, &b->at[i].body, seen);
    return weight;
}

static void limit_unrolling(Cuda *c, const KStmt *s, int copies)
{
    bool *seen = arena_array(c->t.a, bool, c->t.k->exprs.n);
    if (block_weight(c->t.k, &s->body, seen) <= HEAVY)
        return;
    emit_raw(&c->t.e, arena_printf(c->t.a, "#pragma unroll %d\n", copies));
    c->heavy_loops = true;
}

static void print_lanes(Cuda *c, const KStmt *s)
{
    KText *t = &c->t;
    int width = s->vec > 1 ? s->vec : 1;
    int64_t extent = 0, share = (int64_t)c->lanes * width;
    if (in_registers(t, &s->body)) {
        print_register_loop(c, s, width);
        return;
    }
    bool zero = dim_is_zero(cuda_dims(c), s->lo);
    bool fixed = zero && dim_is_const(cuda_dims(c), s->hi, &extent);
    bool wide = !counts_in_int(c, s->hi, share);
    const char *type = wide ? "long long" : "int", *scale = "";
    const char *end = ktext_dim_at(t, s->hi, PREC_SUM), *lo = ktext_dim_at(t, s->lo, PREC_SUM);
    const char *name = ktext_symbol(t, s->axis, axis_name(c, s->axis), wide);
    if (width > 1)
        scale = arena_printf(t->a, "%d * ", width);
    const char *first = c->lanes > 1 ? arena_printf(t->a, "%sthreadIdx.x", scale) : "0";
    if (!zero)
        first = c->lanes > 1 ? arena_printf(t->a, "%s + %s", lo, first) : lo;
    if (fixed && extent <= share) { /* at most once */
        bool block = c->lane_loops > 1;
        if (block)
            emit_open(&t->e, "{");
        emit_line(&t->e, "const %s %s = %s;", type, name, first);
        if (extent < share)
            emit_open(&t->e, "if (%s < %s) {", name, end);
        cuda_lane_body(c, s, width, "0");
        if (extent < share)
            emit_close(&t->e, "");
        if (block)
            emit_close(&t->e, "");
        return;
    }
    limit_unrolling(c, s, 2);
    emit_open(&t->e, "for (%s %s = %s; %s < %s; %s += %" PRId64 ") {", type, name, first, name, end,
              name, share);
    bool was = c->in_lanes;
    c->in_lanes = true;
    bool bare = width == 1 && is_bare(c, &s->body);
    if (bare)
        open_body(c, &s->body);
    c->in_lanes = was;
    c->loops++;
    cuda_lane_body(c, s, width, "0");
    c->loops--;
    close_body(c, bare);
}

static void print_serial(Cuda *c, const KStmt *s)
{
    KText *t = &c->t;
    bool over_teams = s->loop == FOR_TEAMS, was = c->in_teams;
    bool wide = !counts_in_int(c, s->hi, over_teams ? c->teams : 1) || !ktext_fits_int(t, s->lo);
    const char *type = wide ? "long long" : "int", *lo = ktext_dim(t, s->lo).text;
    Text end = ktext_dim(t, s->hi);
    const char *name = ktext_symbol(t, s->axis, axis_name(c, s->axis), wide);
    if (over_teams)
        lo = dim_is_zero(cuda_dims(c), s->lo) ? "threadIdx.y"
                                              : arena_printf(t->a, "%s + threadIdx.y", lo);
    const char *step = over_teams ? arena_printf(t->a, "%s += %d", name, c->teams)
                                  : arena_printf(t->a, "%s++", name);
    if (s->loop == FOR_UNROLL)
        emit_raw(&t->e, "#pragma unroll\n");
    else if (in_registers(t, &s->body)) /* a row at a time: it takes registers enough */
        emit_raw(&t->e, "#pragma unroll 1\n");
    else
        limit_unrolling(c, s, 1);
    if (end.prec == PREC_PRIMARY) {
        emit_open(&t->e, "for (%s %s = %s; %s < %s; %s) {", type, name, lo, name, end.text, step);
    } else {
        const char *bound = name_unique(&t->names, arena_printf(t->a, "%s_end", name));
        emit_open(&t->e, "for (%s %s = %s, %s = %s; %s < %s; %s) {", type, name, lo, bound,
                  end.text, name, bound, step);
    }
    c->in_teams = was || over_teams;
    c->loops++;
    bool bare = is_bare(c, &s->body);
    open_body(c, &s->body);
    cuda_block(c, &s->body);
    c->loops--;
    c->in_teams = was;
    close_body(c, bare);
}

static void print_for(Cuda *c, const KStmt *s)
{
    Scope scope = scope_begin(&c->t);
    ktext_line(&c->t, s);
    if (s->loop == FOR_LANES)
        print_lanes(c, s);
    else
        print_serial(c, s);
    scope_end(&c->t, scope);
}

static void print_when(Cuda *c, const KStmt *s)
{
    Scope scope = scope_begin(&c->t);
    ktext_line(&c->t, s);
    emit_open(&c->t.e, "if (%s) {", ktext_guard(&c->t, s->pred).text);
    cuda_block(c, &s->body);
    emit_close(&c->t.e, "");
    scope_end(&c->t, scope);
}

/* All of a team, or of a block, go on or none: what follows may meet. */
static void print_last(Cuda *c, const KStmt *s)
{
    Scope scope = scope_begin(&c->t);
    ktext_line(&c->t, s);
    const bool one = dim_is_zero(cuda_dims(c), s->lo);
    emit_open(&c->t.e, "if (%s(arrived%s%s, %s)) {",
              s->over_block || c->lanes > 32 ? "tn_last_block" : "tn_last_team", one ? "" : " + ",
              one ? "" : ktext_dim_at(&c->t, s->lo, PREC_SUM), ktext_dim(&c->t, s->hi).text);
    cuda_block(c, &s->body);
    emit_close(&c->t.e, "");
    scope_end(&c->t, scope);
}

void cuda_block(Cuda *c, const KBlock *b)
{
    KText *t = &c->t;
    for (uint32_t i = 0; i < b->n;) {
        const KStmt *s = &b->at[i];
        uint32_t next = i + 1;
        switch (s->kind) {
        case KS_FOR:
            print_for(c, s);
            break;
        case KS_WHEN:
            print_when(c, s);
            break;
        case KS_LAST:
            print_last(c, s);
            break;
        case KS_LET:
            print_let(c, s);
            break;
        case KS_STORE:
            next = print_stores(c, b, i);
            break;
        case KS_FOLD:
            print_fold(c, s);
            break;
        case KS_TOTAL:
            while (next < b->n && b->at[next].kind == KS_TOTAL)
                next++;
            cuda_totals(c, b, i, next);
            break;
        case KS_KEEP:
            ktext_line(t, s);
            emit_line(&t->e, "%s[%s] = %s;", t->keeps[s->keep], t->keep_index.text,
                      ktext_expr(t, s->expr).text);
            break;
        case KS_ACC:
            print_acc(c, s);
            break;
        case KS_CHECK:
            ktext_print_check(&c->t, s);
            break;
        case KS_CALL:
            ktext_print_call(&c->t, s);
            break;
        case KS_BARRIER:
            emit_line(&t->e, "%s",
                      c->lanes <= 32 && !c->cooperate ? "__syncwarp();" : "__syncthreads();");
            break;
        }
        i = next;
    }
}

/* --- cells ---------------------------------------------------------------------------------------
 */

static bool has_teams_loop(const KBlock *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        if ((b->at[i].kind == KS_FOR && b->at[i].loop == FOR_TEAMS) ||
            has_teams_loop(&b->at[i].body))
            return true;
    return false;
}

static int count_lane_loops(const KBlock *b)
{
    int n = 0;
    for (uint32_t i = 0; i < b->n; i++)
        n += (b->at[i].kind == KS_FOR && b->at[i].loop == FOR_LANES) +
             count_lane_loops(&b->at[i].body);
    return n;
}

static int block_cells(const Cuda *c)
{
    if (c->t.k->turned)
        return 1; /* a tile */
    return (c->cell_per_lane ? c->lanes * c->cell_width : 1) * (c->cooperate ? 1 : c->teams);
}

static const char *cell_text(const Cuda *c)
{
    Arena *a = c->t.a;
    int cells = block_cells(c);
    if (cells == 1)
        return "blockIdx.x";
    if (!c->cell_per_lane)
        return arena_printf(a, "blockIdx.x * %dLL + threadIdx.y", cells);
    const char *lane =
        c->cell_width == 1 ? "threadIdx.x" : arena_printf(a, "%d * threadIdx.x", c->cell_width);
    if (c->cooperate || c->teams == 1)
        return arena_printf(a, "blockIdx.x * %dLL + %s", cells, lane);
    return arena_printf(a, "blockIdx.x * %dLL + threadIdx.y * %d + %s", cells,
                        c->lanes * c->cell_width, lane);
}

static void print_axes(Cuda *c, const KStmt *const *loops, int n)
{
    KText *t = &c->t;
    StrBuf out = {.a = t->a};
    for (int i = 0; i < n; i++) {
        Dim inner = dim_const(cuda_dims(c), 1);
        for (int j = i + 1; j < n; j++)
            inner = dim_mul(cuda_dims(c), inner, loops[j]->hi);
        const char *name = ktext_symbol(t, loops[i]->axis, axis_name(c, loops[i]->axis), true);
        sb_printf(&out, "%s%s = cell", i ? ", " : "const long long ", name);
        if (!dim_is_one(cuda_dims(c), inner))
            sb_printf(&out, " / %s", ktext_dim_at(t, inner, PREC_UNARY));
        if (i)
            sb_printf(&out, " %% %s", ktext_dim_at(t, loops[i]->hi, PREC_UNARY));
    }
    emit_line(&t->e, "%s;", sb_text(&out));
}

static void print_cells(Cuda *c)
{
    KText *t = &c->t;
    const KStmt *loops[8];
    const KBlock *body = &t->k->body;
    Dim cells = dim_const(cuda_dims(c), 1);
    int n = 0;
    while (body->n == 1 && body->at[0].kind == KS_FOR && body->at[0].loop == FOR_GRID) {
        CHECK(n < 8);
        loops[n++] = &body->at[0];
        cells = dim_mul(cuda_dims(c), cells, body->at[0].hi);
        body = &body->at[0].body;
    }
    c->cell_per_lane = n && loops[n - 1]->grid_lanes;
    c->cell_width = c->cell_per_lane && loops[n - 1]->vec > 1 ? loops[n - 1]->vec : 1;
    c->in_lanes = c->cell_per_lane;
    if (n) {
        const char *cell = cell_text(c), *name = "cell";
        if (n == 1)
            name = ktext_symbol(t, loops[0]->axis, axis_name(c, loops[0]->axis), true);
        emit_line(&t->e, "const long long %s = %s;", name, cell);
        if (block_cells(c) > 1) {
            emit_in(&t->e, "if (%s >= %s)", name, ktext_dim_at(t, cells, PREC_SUM));
            emit_line(&t->e, "return;");
            emit_out(&t->e);
        }
        if (n > 1)
            print_axes(c, loops, n);
    }
    declare_keeps(c);
    if (c->cell_width > 1)
        cuda_lane_body(c, loops[n - 1], c->cell_width, "0");
    else
        cuda_block(c, body);
}

/* --- functions -----------------------------------------------------------------------------------
 */

enum { MAX_SIZES = 64 };

enum { MANY_OPERANDS = 12 }; /* of a row: a lane holds 16 bytes of each */

/* Left alone, the assembler spills a register or two in long loops so that one more block fits. */
static bool may_use_all(const Cuda *c)
{
    const KText *t = &c->t;
    const Kernel *k = t->k;
    bool sides = false;
    for (uint32_t i = 0; i < k->accs.n; i++)
        sides |= k->accs.at[i].side;
    return k->class == CLASS_REDUCE || k->class == CLASS_OPAQUE || k->class == CLASS_CONTRACT ||
           (k->class == CLASS_MAP && (c->heavy_loops || t->reports)) ||
           (k->class == CLASS_ROW &&
            (sides || t->reports || k->keeps.n > 1 || k->params.n > MANY_OPERANDS));
}

PrintedKernel cuda_kernel(Program *p, const Kernel *k, uint32_t number, StrBuf *out)
{
    StrBuf body = {.a = out->a}, params = {.a = out->a}, hooks = {.a = out->a};
    Symbol sizes[MAX_SIZES];
    uint32_t nsizes = kernel_sizes(p, k, sizes, MAX_SIZES);
    Cuda c = {.t = ktext_begin(p, k, TARGET_CUDA, &body),
              .lanes = k->lanes > 0 ? k->lanes : 1,
              .teams = k->teams > 0 ? k->teams : 1};
    KText *t = &c.t;
    uint64_t wide_sizes = 0;
    CHECK(nsizes <= MAX_SIZES);
    c.cooperate = has_teams_loop(&k->body);
    c.lane_loops = count_lane_loops(&k->body);
    for (uint32_t i = 0; i < k->params.n; i++)
        sb_printf(&params, "%s%s%s *__restrict__ %s", i ? ", " : "",
                  k->params.at[i].mode == K_IN ? "const " : "",
                  ktext_element(t, k->params.at[i].dtype), t->param[i]);
    for (uint32_t i = 0; i < nsizes; i++) {
        bool wide = !ktext_fits_int(t, dim_of(p->cx->dims, sizes[i]));
        const char *name = ktext_symbol(t, sizes[i], axis_name(&c, sizes[i]), wide);
        sb_printf(&params, "%s%s %s", params.n ? ", " : "", wide ? "long long" : "int", name);
        wide_sizes |= (uint64_t)wide << i;
    }
    t->e.depth = 1;
    const char *name = cuda_name(&c, k->name);
    t->kernel = name;
    t->sizes = sizes;
    t->nsizes = nsizes;
    t->hooks = &hooks;
    if (k->tile.m)
        cuda_tile(&c, name, sizes, nsizes, &hooks);
    else if (k->turned)
        cuda_turned(&c);
    else
        print_cells(&c);
    if (t->reports)
        sb_printf(&params, "%sint *error", params.n ? ", " : "");
    if (k->counters)
        sb_printf(&params, "%sunsigned *arrived", params.n ? ", " : "");
    kernel_comment(p, k, number, out);
    sb_puts(out, sb_text(&hooks));
    t->e = ktext_frame(t, out);
    const char *head = arena_printf(t->a, "extern \"C\" __global__ void __launch_bounds__(%d%s) %s",
                                    c.lanes * c.teams, may_use_all(&c) ? ", 1" : "", name);
    emit_function(&t->e, head, sb_text(&params));
    emit_line(&t->e, "{");
    sb_puts(out, sb_text(&body));
    emit_line(&t->e, "}");
    emit_own_lines(&t->e);
    emit_line(&t->e, "%s", "");
    const int cells = k->tile.m ? 1 : block_cells(&c);
    return (PrintedKernel){.name = name,
                           .nsites = t->sites.n,
                           .sites = t->sites.at,
                           .block_cells = cells,
                           .wide = wide_sizes};
}
