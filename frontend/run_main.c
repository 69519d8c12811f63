/* run_main.c: main of the executables that tenon makes: the arguments of -run behind the file.
 * SPDX-License-Identifier: MIT */
#include "frontend/run.h"

#include "frontend/message.h"
#include "ir/base/vec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tn_run_main(const tn_model_desc *desc, int argc, char **argv);

static int usage(const char *name, FILE *to)
{
    fprintf(to,
            "usage: %s [METHOD] NAME=VALUE... [-load FILE] [-seed N] [-o FILE] [-threads N]\n"
            "       [-device=cpu|cuda|cuda:N|auto] [-training] [-grad d_NAME=VALUE...]\n"
            "VALUE: @FILE.npy, @FILE.npz:NAME, a number, zeros, ones, arange, randn, or a size\n",
            name);
    return to == stdout ? 0 : 2;
}

static bool number(const char *text, unsigned long long *out)
{
    char *end;
    errno = 0;
    *out = text ? strtoull(text, &end, 10) : 0;
    return text && *text && !*end && !errno;
}

/* What -device= stands for; {0, 0} is auto. */
static bool read_device(const char *text, DLDevice *out)
{
    unsigned long long n = 0;
    *out = (DLDevice){0};
    if (!strcmp(text, "auto"))
        return true;
    const bool is_cpu = !strcmp(text, "cpu");
    *out = (DLDevice){is_cpu ? kDLCPU : kDLCUDA, 0};
    if (is_cpu || !strcmp(text, "cuda"))
        return true;
    if (strncmp(text, "cuda:", 5) || text[5] < '0' || text[5] > '9' || !number(text + 5, &n) ||
        n > INT32_MAX)
        return false;
    out->device_id = (int32_t)n;
    return true;
}

/* Why an argument is none of these. */
static int refuse(const char *program, const char *arg)
{
    static const char *const wants[][2] = {{"-load", "a file"},
                                           {"-o", "a file"},
                                           {"-seed", "a whole number"},
                                           {"-threads", "a number from 1 to 256"},
                                           {"-device", "cpu, cuda, cuda:N or auto behind a ="}};
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        const size_t n = strlen(wants[i][0]);
        if (!strncmp(arg, wants[i][0], n) && (!arg[n] || arg[n] == '='))
            return message_error(2, "%s wants %s", arg, wants[i][1]);
    }
    message_error(2, *arg == '-' ? "unknown option '%s'" : "'%s' is one word too many", arg);
    return usage(program, stderr);
}

int tn_run_main(const tn_model_desc *desc, int argc, char **argv)
{
    message_streams();
    Arena *a = arena_create();
    RunOptions o = {0};
    VEC(const char *) operands = {0}, cotangents = {0};
    int status = 0;
    for (int i = 1; i < argc && !status; i++) {
        const char *arg = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        unsigned long long n;
        if (!strcmp(arg, "--help")) {
            arena_destroy(a);
            return usage(argv[0], stdout);
        } else if (!strcmp(arg, "-grad")) {
            o.grad = true;
        } else if (!strcmp(arg, "-training")) {
            o.training = true;
        } else if (!strcmp(arg, "-load") && next) {
            o.load = argv[++i];
        } else if (!strcmp(arg, "-o") && next) {
            o.out = argv[++i];
        } else if (!strcmp(arg, "-seed") && number(next, &n)) {
            o.seed = n;
            i++;
        } else if (!strcmp(arg, "-threads") && number(next, &n) && n > 0 && n <= 256) {
            o.threads = (int)n;
            i++;
        } else if (!strncmp(arg, "-device=", 8) && read_device(arg + 8, &o.device)) {
            continue;
        } else if (*arg == '-') {
            status = refuse(argv[0], arg);
        } else if (strchr(arg, '=') && o.grad && !strncmp(arg, "d_", 2)) {
            vec_push(a, &cotangents, arg);
        } else if (strchr(arg, '=')) {
            vec_push(a, &operands, arg);
        } else if (!o.method) {
            o.method = arg;
        } else {
            status = refuse(argv[0], arg);
        }
    }
    o.operands = operands.at;
    o.noperands = (int)operands.n;
    o.cotangents = cotangents.at;
    o.ncotangents = (int)cotangents.n;
    if (!status)
        status = run_method(a, desc, &o);
    arena_destroy(a);
    return status;
}
