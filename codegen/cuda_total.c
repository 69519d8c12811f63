/* cuda_total.c: accumulators joined over the lanes of a team and the teams of a block, always in
 * the same order. SPDX-License-Identifier: MIT */
#include "codegen/cuda_internal.h"
#include "ir/base/die.h"

#include <string.h>

static int fields_of(const Cuda *c, uint32_t acc)
{
    return reducer_info(c->t.k->accs.at[acc].reducer)->nfields;
}

/* Joins with the value that `source` (with %s for the field) gives. */
static void print_join(Cuda *c, uint32_t acc, const char *before, const char *behind)
{
    KText *t = &c->t;
    Text to[MAX_FIELDS], from[MAX_FIELDS];
    int n = fields_of(c, acc);
    for (int f = 0; f < n; f++) {
        to[f] = acc_field(t, acc, f);
        from[f] = (Text){arena_printf(t->a, "%s%s%s", before, to[f].text, behind), PREC_PRIMARY};
    }
    emit_line(&t->e, "%s;", acc_join(t, acc, to, from));
}

static void print_shuffles(Cuda *c, uint32_t acc)
{
    KText *t = &c->t;
    int width = c->lanes < 32 ? c->lanes : 32;
    if (width == 1)
        return;
    if (width & (width - 1))
        die("kernel %s: a team of %d lanes", cuda_name(c, t->k->name), c->lanes);
    emit_in(&t->e, "for (int mask = %d; mask; mask /= 2)", width / 2);
    print_join(c, acc, "__shfl_xor_sync(~0u, ", ", mask)");
    emit_out(&t->e);
    if (c->t.k->accs.at[acc].reducer != RED_moments || c->lanes > 32)
        return;
    /* its join is not symmetric to the last bit: all lanes take the first one's */
    for (int f = 0; f < fields_of(c, acc); f++)
        emit_line(&t->e, "%s = __shfl_sync(~0u, %s, 0, %d);", t->accs[acc].field[f],
                  t->accs[acc].field[f], width);
}

/* Where and how many partial results a total leaves in shared memory; count 1: none. */
typedef struct {
    const char *declare, *write, *read; /* subscripts; read is over the counter q */
    const char *leader;                 /* who writes; NULL: everybody */
    int count;
} Parts;

static Parts parts_of(const Cuda *c, uint32_t acc)
{
    Arena *a = c->t.a;
    const AccInfo *info = &c->t.accs[acc];
    bool teams = info->over_block && c->teams > 1 && c->cooperate;
    if (c->cell_per_lane) {
        if (!teams)
            return (Parts){.count = 1};
        return (Parts){arena_printf(a, "[%d][%d]", c->teams, c->lanes),
                       "[threadIdx.y][threadIdx.x]", "[q][threadIdx.x]", NULL, c->teams};
    }
    int warps = c->lanes > 32 && info->under_lanes ? (c->lanes + 31) / 32 : 1;
    const char *leader = c->lanes > 32  ? "threadIdx.x % 32 == 0"
                         : c->lanes > 1 ? "threadIdx.x == 0"
                                        : NULL;
    if (!info->under_lanes && c->lanes > 1)
        leader = "threadIdx.x == 0";
    const char *warp = warps > 1 ? "threadIdx.x / 32" : NULL;
    if (teams) {
        const char *at =
            warp ? arena_printf(a, "[threadIdx.y * %d + %s]", warps, warp) : "[threadIdx.y]";
        return (Parts){arena_printf(a, "[%d]", c->teams * warps), at, "[q]", leader,
                       c->teams * warps};
    }
    if (warps == 1)
        return (Parts){.count = 1};
    if (c->teams == 1)
        return (Parts){arena_printf(a, "[%d]", warps), arena_printf(a, "[%s]", warp), "[q]", leader,
                       warps};
    return (Parts){arena_printf(a, "[%d][%d]", c->teams, warps),
                   arena_printf(a, "[threadIdx.y][%s]", warp), "[threadIdx.y][q]", leader, warps};
}

static const char *replace_counter(Arena *a, const char *subscript, const char *with)
{
    const char *at = strstr(subscript, "[q]");
    CHECK(at);
    return arena_printf(a, "%.*s[%s]%s", (int)(at - subscript), subscript, with, at + 3);
}

static void declare_parts(Cuda *c, uint32_t acc, const Parts *parts, const char **shared)
{
    KText *t = &c->t;
    for (int f = 0; f < fields_of(c, acc); f++) {
        shared[f] = name_unique(&t->names, arena_printf(t->a, "%s_part", t->accs[acc].field[f]));
        emit_line(&t->e, "__shared__ %s %s%s;", acc_field_type(t, acc, f), shared[f],
                  parts->declare);
    }
}

static void write_parts(Cuda *c, uint32_t acc, const Parts *parts, const char *const *shared)
{
    KText *t = &c->t;
    for (int f = 0; f < fields_of(c, acc); f++)
        emit_line(&t->e, "%s%s = %s;", shared[f], parts->write, t->accs[acc].field[f]);
}

static bool same_leader(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

/* Totals that the same thread writes go under one condition. */
static void write_all(Cuda *c, const KStmt *totals, uint32_t n, const Parts *parts,
                      const char *(*shared)[MAX_FIELDS])
{
    KText *t = &c->t;
    for (uint32_t i = 0; i < n;) {
        if (parts[i].count < 2) {
            i++;
            continue;
        }
        uint32_t end = i, lines = 0;
        while (end < n && parts[end].count > 1 && same_leader(parts[i].leader, parts[end].leader))
            lines += (uint32_t)fields_of(c, totals[end++].acc);
        const char *leader = parts[i].leader;
        if (leader && lines == 1)
            emit_in(&t->e, "if (%s)", leader);
        else if (leader)
            emit_open(&t->e, "if (%s) {", leader);
        for (; i < end; i++)
            write_parts(c, totals[i].acc, &parts[i], shared[i]);
        if (leader && lines == 1)
            emit_out(&t->e);
        else if (leader)
            emit_close(&t->e, "");
    }
}

static void read_parts(Cuda *c, uint32_t acc, const Parts *parts, const char *const *shared,
                       bool several)
{
    KText *t = &c->t;
    Text to[MAX_FIELDS], from[MAX_FIELDS];
    int n = fields_of(c, acc);
    for (int f = 0; f < n; f++) {
        to[f] = acc_field(t, acc, f);
        from[f] = (Text){arena_printf(t->a, "%s%s", shared[f], parts->read), PREC_PRIMARY};
        emit_line(&t->e, "%s = %s%s;", to[f].text, shared[f],
                  replace_counter(t->a, parts->read, "0"));
    }
    if (several && parts->count > 16) /* blocks of 1024 have few registers for loads under way */
        emit_raw(&t->e, "#pragma unroll 4\n");
    emit_in(&t->e, "for (int q = 1; q < %d; q++)", parts->count);
    emit_line(&t->e, "%s;", acc_join(t, acc, to, from));
    emit_out(&t->e);
}

static void print_results(Cuda *c, uint32_t acc)
{
    KText *t = &c->t;
    AccInfo *info = &t->accs[acc];
    const KAcc *a = &t->k->accs.at[acc];
    Text fields[MAX_FIELDS];
    for (int f = 0; f < fields_of(c, acc); f++)
        fields[f] = acc_field(t, acc, f);
    for (int r = 0; r < kacc_results(a); r++) {
        Text x = acc_finish(t, acc, r, fields);
        info->result[r] = x.text;
        if (x.prec == PREC_PRIMARY || !acc_is_used(t, acc, r))
            continue;
        const char *base = cuda_name(c, a->name);
        const char *wanted =
            arena_printf(t->a, "%s%s", *base ? base : "acc", acc_result_suffix(a->reducer, r));
        info->result[r] = name_unique(&t->names, wanted);
        emit_line(&t->e, "const %s %s = %s;", ktext_value(t, a->type), info->result[r], x.text);
    }
    info->totalled = true;
}

void cuda_totals(Cuda *c, const KBlock *b, uint32_t first, uint32_t end)
{
    KText *t = &c->t;
    uint32_t n = end - first, shared_parts = 0;
    Parts *parts = arena_array(t->a, Parts, n);
    const char *(*shared)[MAX_FIELDS] = arena_alloc(t->a, sizeof *shared * n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t acc = b->at[first + i].acc;
        parts[i] = parts_of(c, acc);
        shared_parts += parts[i].count > 1;
        if (parts[i].count > 1)
            declare_parts(c, acc, &parts[i], shared[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t acc = b->at[first + i].acc;
        if (t->accs[acc].under_lanes && !c->cell_per_lane)
            print_shuffles(c, acc);
    }
    if (shared_parts && c->loops) /* the round before may still be reading */
        emit_line(&t->e, "__syncthreads();");
    write_all(c, b->at + first, n, parts, shared);
    if (shared_parts)
        emit_line(&t->e, "__syncthreads();");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t acc = b->at[first + i].acc;
        if (parts[i].count > 1)
            read_parts(c, acc, &parts[i], shared[i], shared_parts > 1);
        print_results(c, acc);
    }
}
