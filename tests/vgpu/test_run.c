/* test_run.c: memory, races and running of warps: see test_run.h. SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char head[] =
    ".version 7.8\n.target sm_80\n.address_size 64\n"
    ".visible .entry k(.param .u64 p, .param .u64 q)\n{\n"
    ".reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<32>;\n.reg .f32 %f<8>;\n"
    ".reg .b64 %rd<24>;\n.shared .align 16 .b8 s[8192];\n.local .align 16 .b8 l[64];\n"
    "ld.param.u64 %rd1, [p];\nld.param.u64 %rd4, [q];\nmov.u32 %r1, %tid.x;\n"
    "mov.u32 %r2, %ctaid.x;\nmov.u32 %r3, %ntid.x;\nmad.lo.u32 %r3, %r2, %r3, %r1;\n"
    "mul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd2, %rd2, %rd1;\nmul.wide.u32 %rd3, %r3, 4;\n"
    "add.u64 %rd3, %rd3, %rd1;\nmov.u32 %r4, s;\nshl.b32 %r5, %r1, 2;\nadd.u32 %r5, %r5, %r4;\n";

static char text_said[1 << 16];

const char *said(void)
{
    return text_said;
}

Device *test_device(void)
{
    Device *d = device_get(0);
    if (!d->bytes)
        d->bytes = options()->memory;
    return d;
}

const uint32_t *counted(void)
{
    static uint32_t words[WORDS];
    for (uint32_t k = 0; k < WORDS; k++)
        words[k] = k;
    return words;
}

/** stderr into a file, until listen_end. */
static int listen_begin(FILE **to)
{
    *to = tmpfile();
    assert_non_null(*to);
    fflush(stderr);
    int old = dup(2);
    assert_true(old >= 0 && dup2(fileno(*to), 2) == 2);
    return old;
}

static void listen_end(FILE *to, int old)
{
    fflush(stderr);
    assert_int_equal(dup2(old, 2), 2);
    close(old);
    rewind(to);
    size_t n = fread(text_said, 1, sizeof text_said - 1, to);
    text_said[n] = '\0';
    fclose(to);
}

/** All findings in the text are of this kind, and there is one. A race may also be seen as a read
 * of what is not written yet, by who comes first. */
static bool only(const char *kind)
{
    static const char mark[] = "vgpu: error[";
    bool found = !kind;
    for (const char *at = strstr(text_said, mark); at; at = strstr(at + 1, mark)) {
        const char *name = at + strlen(mark);
        bool same = kind && !strncmp(name, kind, strlen(kind)) && name[strlen(kind)] == ']';
        if (!same && (!kind || strcmp(kind, "shared-race") || strncmp(name, "uninit]", 7)))
            return false;
        found |= same;
    }
    return found;
}

static void run(Launch *l, Function *f, Alloc *a)
{
    static uint32_t op = 1000;
    uint8_t params[16];
    memcpy(params, &a->base, 8);
    memcpy(params + 8, &l->q, 8);
    memset(&l->counters, 0, sizeof l->counters);
    Grid g = {.function = f,
              .device = test_device(),
              .grid = {l->blocks, 1, 1},
              .block = {l->threads, 1, 1},
              .dynamic_shared = l->shared,
              .params = params,
              .cooperative = l->cooperative,
              .op = l->op ? l->op : ++op,
              .counters = &l->counters};
    l->error = 0;
    bool good = grid_run(&g, &l->error);
    assert_int_equal(good, l->error == 0);
}

void launch(Launch *l, const char *body, const char *kind)
{
    size_t size = sizeof head + strlen(body) + 16;
    char *ptx = malloc(size);
    assert_non_null(ptx);
    snprintf(ptx, size, "%s%s\nret;\n}\n", head, body);
    const char *why = NULL;
    Module *m = module_load(test_device(), ptx, strlen(ptx), &why);
    if (!m)
        fail_msg("%s\n%s", why, ptx);
    Alloc *a = memory_alloc(test_device(), WORDS * 4, 256);
    assert_non_null(a);
    if (l->words) {
        memcpy(a->data, l->words, WORDS * 4);
        memset(a->shadow, 1, WORDS * 4);
    }
    FILE *heard;
    int old = listen_begin(&heard);
    run(l, module_function(m, "k"), a);
    listen_end(heard, old);
    memcpy(l->after, a->data, WORDS * 4);
    uint64_t n = findings_take();
    if (!only(kind) || (n != 0) != (kind != NULL))
        fail_msg("expected %s:\n%s\nand it said:\n%s", kind ? kind : "nothing", body, text_said);
    memory_free(a);
    module_unload(m);
    free(ptx);
}

void finds(const char *kind, unsigned blocks, unsigned threads, const char *body)
{
    Launch *l = calloc(1, sizeof *l);
    assert_non_null(l);
    l->blocks = blocks;
    l->threads = threads;
    l->words = counted();
    launch(l, body, kind);
    free(l);
}

int main(void)
{
    if (!getenv("VGPU_BUDGET"))
        setenv("VGPU_BUDGET", "2000000", 1);
    int bad = test_memory();
    bad += test_races();
    bad += test_warps();
    return bad != 0;
}
