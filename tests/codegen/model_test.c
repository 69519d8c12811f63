/* model_test.c: a host program made by hand goes through the tables, the C compiler, the cache and
 * the runtime, and through the files that -S, -c and -shared write. SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* nftw */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/output.h"
#include "tenon.h"
#include "tenon_program.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    Ctx *cx;
    Program *p;
    HostModel *m;
    Dim B;
} Tiny;

static Sym sym(const Tiny *t, const char *s)
{
    return sym_of(t->cx->names, s);
}

static Dim num(const Tiny *t, int64_t n)
{
    return dim_const(t->cx->dims, n);
}

/* y = x + w over [B, 4] */
static void add_kernel(Tiny *t)
{
    DimTable *d = t->cx->dims;
    Kernel *k = kernel_create(t->p, sym(t, "tiny_k0_add"), CLASS_MAP);
    Dim shape[] = {t->B, num(t, 4)};
    const char *names[] = {"x", "w", "y"};
    for (int i = 0; i < 3; i++) {
        KParam q = {.name = sym(t, names[i]), .dtype = DT_f32, .mode = i < 2 ? K_IN : K_OUT};
        q.rank = i == 1 ? 1 : 2;
        memcpy(q.shape, i == 1 ? shape + 1 : shape, q.rank * sizeof *shape);
        q.stride[0] = num(t, i == 1 ? 1 : 4);
        q.stride[1] = num(t, 1);
        vec_push(t->cx->perm, &k->params, q);
    }
    Symbol b = dim_new_symbol(d, SYM_AXIS, sym(t, "b"), t->B);
    Symbol c = dim_new_symbol(d, SYM_AXIS, sym(t, "c"), shape[1]);
    KStmt *s = kblock_add(t->p, &k->body, KS_FOR);
    s->axis = b;
    s->lo = num(t, 0);
    s->hi = t->B;
    s = kblock_add(t->p, &s->body, KS_FOR);
    s->axis = c;
    s->lo = num(t, 0);
    s->hi = shape[1];
    s->loop = FOR_LANES;
    KExprInfo x = {.kind = KE_LOAD, .type = DT_f32, .at = {dim_of(d, b), dim_of(d, c)}};
    KExprInfo w = {.kind = KE_LOAD, .type = DT_f32, .param = 1, .at = {dim_of(d, c)}};
    KExprInfo sum = {.kind = KE_OP, .op = OP_add, .type = DT_f32, .nin = 2};
    sum.in[0] = kernel_expr(t->p, k, x);
    sum.in[1] = kernel_expr(t->p, k, w);
    KStmt *store = kblock_add(t->p, &s->body, KS_STORE);
    store->param = 2;
    store->expr = kernel_expr(t->p, k, sum);
    memcpy(store->at, x.at, sizeof x.at);
    vec_push(t->cx->perm, &t->m->kernels, k);
}

static uint32_t buffer(Tiny *t, HostProgram *h, const char *name, BufKind kind, uint32_t rank,
                       Dim rows, Dim cols)
{
    Buffer b = {.name = sym(t, name), .kind = kind, .dtype = DT_f32, .rank = rank};
    b.shape[0] = rows;
    b.shape[1] = cols;
    vec_push(t->cx->perm, &h->buffers, b);
    return h->buffers.n - 1;
}

/* y = (x + w) @ a, a: [4, 4] constant 2 on the diagonal */
static Tiny tiny_make(void)
{
    Tiny t = {.cx = ctx_create()};
    Arena *a = t.cx->perm;
    t.p = program_create(t.cx, sym(&t, "tiny"));
    t.B = dim_of(t.cx->dims, dim_new_symbol(t.cx->dims, SYM_SIZE, sym(&t, "B"), (Dim){0}));
    t.m = arena_new(a, HostModel);
    t.m->p = t.p;
    Dim four = num(&t, 4);
    Slot slot = {.name = sym(&t, "seg0"), .kind = SLOT_PARAM, .saved = true};
    slot.type = type_of(t.p, DT_f32, &four, 1, PLACE_D0);
    StateView view = {.name = sym(&t, "w"), .type = slot.type, .is_param = true, .saved = true};
    view.trainable = true;
    view.slot = program_add_slot(t.p, slot);
    vec_push(a, &t.p->state, view);
    add_kernel(&t);
    HostProgram *h = arena_new(a, HostProgram);
    Graph *g = program_add_graph(t.p, sym(&t, "forward"), GRAPH_METHOD);
    g->method = h->name = sym(&t, "forward");
    g->doc = "Adds and scales.\nTwice.";
    h->graph = g;
    vec_push(a, &h->buffers, ((Buffer){0}));
    uint32_t x = buffer(&t, h, "x", BUF_ARG, 2, t.B, four);
    uint32_t y = buffer(&t, h, "y", BUF_RESULT, 2, t.B, four);
    uint32_t w = buffer(&t, h, "w", BUF_STATE, 1, four, four);
    uint32_t s = buffer(&t, h, "s", BUF_TEMP, 2, t.B, four);
    uint32_t c = buffer(&t, h, "two", BUF_CONST, 2, four, four);
    static const float two[16] = {2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2};
    h->buffers.at[w].slot = view.slot;
    h->buffers.at[c].data = two;
    vec_push(a, &h->args, ((HostArg){sym(&t, "x"), x, false, false}));
    vec_push(a, &h->args, ((HostArg){sym(&t, "y"), y, false, false}));
    h->nargs = 1;
    Step add = {.kind = STEP_LAUNCH, .text = "s = x + w", .cells = t.B};
    uint32_t operands[] = {x, w, s};
    for (int i = 0; i < 3; i++)
        vec_push(a, &add.operands, ((LaunchOperand){operands[i], (Dim){0}}));
    Symbol sizes[4];
    uint32_t n = kernel_sizes(t.p, t.m->kernels.at[0], sizes, 4);
    for (uint32_t i = 0; i < n; i++)
        vec_push(a, &add.ints, dim_of(t.cx->dims, sizes[i]));
    vec_push(a, &h->steps, add);
    Dim one = num(&t, 1), zero = num(&t, 0);
    Step gemm = {.kind = STEP_GEMM, .text = "y = s @ two", .m = t.B, .n = four, .k = four};
    gemm.batch[0] = gemm.batch[1] = one;
    gemm.a = (GemmOperand){s, zero, four, one, {zero, zero}};
    gemm.b = (GemmOperand){c, zero, four, one, {zero, zero}};
    gemm.c = (GemmOperand){y, zero, four, one, {zero, zero}};
    vec_push(a, &h->steps, gemm);
    vec_push(a, &t.m->programs, h);
    return t;
}

/* --- in memory -----------------------------------------------------------------------------------
 */

static void run_model(const void *desc)
{
    tn_context *ctx = NULL;
    tn_model *m = NULL;
    tn_state_entry w;
    assert_int_equal(tn_context_create(NULL, &ctx), TN_OK);
    tn_status created = tn_model_create(ctx, desc, NULL, &m);
    if (created)
        fail_msg("%s", tn_last_error());
    assert_int_equal(tn_model_state_find(m, "w", &w), TN_OK);
    for (int i = 0; i < 4; i++)
        ((float *)w.tensor.data)[i] = (float)i;
    float x[3 * 4], y[3 * 4];
    for (int i = 0; i < 12; i++)
        x[i] = (float)i * 0.5f;
    int64_t shape[] = {3, 4};
    DLTensor tx = {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}};
    tx.shape = shape;
    DLTensor ty = tx;
    ty.data = y;
    const DLTensor *const args[] = {&tx, &ty};
    if (tn_call(m, NULL, tn_model_program(m, "forward"), args, 2, NULL))
        fail_msg("%s", tn_last_error());
    for (int i = 0; i < 12; i++)
        assert_true(y[i] == 2 * (x[i] + (float)(i % 4)));
    tn_model_destroy(m);
    tn_context_destroy(ctx);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static char cache[256], first_cache[256];

static void each_entry(void (*what)(const char *path))
{
    DIR *d = opendir(cache);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", cache, e->d_name);
        if (strstr(e->d_name, ".so"))
            what(path);
        else
            assert_true(e->d_name[0] == '.'); /* nothing else is left behind */
    }
    closedir(d);
}

static void damage(const char *path)
{
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "damaged!", 8, 4000), 8);
    close(fd);
}

static void cut(const char *path)
{
    assert_int_equal(truncate(path, 100), 0);
}

static void test_load(void **state)
{
    (void)state;
    Tiny t = tiny_make();
    LoadedModel first = codegen_load(t.cx->perm, t.m, 2);
    if (first.status)
        fail_msg("%s", first.message);
    assert_false(first.cached);
    run_model(first.desc);
    assert_true(codegen_load(t.cx->perm, t.m, 2).cached);
    assert_false(codegen_load(t.cx->perm, t.m, 0).cached); /* another -O */
    ctx_destroy(t.cx);
}

/* In a process of its own: the library that is damaged must not be mapped here. */
static void expect_cached(bool cached)
{
    pid_t pid = fork();
    if (pid == 0) {
        Tiny t = tiny_make();
        LoadedModel m = codegen_load(t.cx->perm, t.m, 2);
        _exit(m.status == 0 && m.cached == cached ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_damaged(void **state)
{
    (void)state;
    snprintf(cache + strlen(cache), sizeof cache - strlen(cache), "/second");
    setenv("TENON_CACHE", cache, 1);
    expect_cached(false);
    expect_cached(true);
    each_entry(damage);
    expect_cached(false);
    expect_cached(true);
    each_entry(cut);
    expect_cached(false);
    expect_cached(true);
}

static void test_no_cache(void **state)
{
    (void)state;
    Tiny t = tiny_make();
    setenv("TENON_CACHE", "/dev/null/cache", 1); /* cannot be made */
    LoadedModel m = codegen_load(t.cx->perm, t.m, 1);
    setenv("TENON_CACHE", cache, 1);
    if (m.status)
        fail_msg("%s", m.message);
    assert_false(m.cached);
    run_model(m.desc);
    ctx_destroy(t.cx);
}

static void test_no_compiler(void **state)
{
    (void)state;
    Tiny t = tiny_make();
    setenv("CC", "no-such-compiler", 1);
    LoadedModel m = codegen_load(t.cx->perm, t.m, 1);
    unsetenv("CC");
    assert_int_equal(m.status, 3);
    assert_non_null(strstr(m.message, "no-such-compiler"));
    ctx_destroy(t.cx);
}

/* --- files ---------------------------------------------------------------------------------------
 */

static bool exists(const char *dir, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* The same kernels for GPUs. */
static HostModel *for_cuda(const HostModel *m, Arena *a)
{
    HostModel *on_cuda = arena_new(a, HostModel);
    *on_cuda = (HostModel){.p = m->p, .cuda = true};
    for (uint32_t i = 0; i < m->programs.n; i++)
        vec_push(a, &on_cuda->programs, m->programs.at[i]);
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        Kernel *k = arena_new(a, Kernel);
        *k = *m->kernels.at[i];
        k->cuda = true;
        vec_push(a, &on_cuda->kernels, k);
    }
    return on_cuda;
}

static void test_files(void **state)
{
    (void)state;
    Tiny t = tiny_make();
    Arena *a = t.cx->perm;
    char dir[] = "/tmp/tenon-test-XXXXXX";
    assert_non_null(mkdtemp(dir));
    Output o = {.kind = OUTPUT_SOURCES, .cpu = t.m, .cuda = for_cuda(t.m, a), .level = 2};
    o.out = arena_printf(a, "%s/new/dir", dir);
    OutputResult r = codegen_write(a, &o);
    if (r.status)
        fail_msg("%s", r.message);
    assert_int_equal(r.files.n, 4);
    const char *const names[] = {"tiny.cu", "tiny.c", "tiny.h", "tiny.json"};
    for (int i = 0; i < 4; i++)
        assert_true(exists(o.out, names[i]));
    /* what was written compiles in silence, on its own */
    const char *log = "";
    const char *source = arena_printf(a, "%s/tiny.c", o.out);
    const char *object = arena_printf(a, "%s/strict.o", dir);
    const char *args[] = {"-std=c11",    "-Wall", "-Wextra", "-Werror", "-c", "-I",
                          TENON_INCLUDE, "-o",    object,    source,    NULL};
    if (codegen_cc(a, args, &log))
        fail_msg("%s", log);
    o.kind = OUTPUT_OBJECT;
    o.out = arena_printf(a, "%s/cell.o", dir);
    const char *const includes[] = {TENON_INCLUDE};
    o.include_dirs = includes;
    o.ninclude_dirs = 1;
    r = codegen_write(a, &o);
    if (r.status)
        fail_msg("%s", r.message);
    assert_true(exists(dir, "cell.o") && exists(dir, "cell.h"));
    /* a directory in the way: nothing is left */
    o.kind = OUTPUT_SOURCES;
    o.out = arena_printf(a, "%s/blocked", dir);
    assert_int_equal(mkdir(o.out, 0777), 0);
    assert_int_equal(mkdir(arena_printf(a, "%s/tiny.json", o.out), 0777), 0);
    r = codegen_write(a, &o);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.message, "tiny.json"));
    for (int i = 0; i < 3; i++)
        assert_false(exists(o.out, names[i]));
    ctx_destroy(t.cx);
    remove_tree(dir);
}

int main(void)
{
    snprintf(cache, sizeof cache, "/tmp/tenon-cache-XXXXXX");
    if (!mkdtemp(cache))
        return 1;
    memcpy(first_cache, cache, sizeof cache);
    setenv("TENON_CACHE", cache, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),     cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_no_cache), cmocka_unit_test(test_no_compiler),
        cmocka_unit_test(test_files),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_tree(first_cache);
    return failed;
}
