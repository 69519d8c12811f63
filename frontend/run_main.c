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
            "       [-training] [-grad d_NAME=VALUE...]\n"
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
        } else if (*arg == '-') {
            status = usage(argv[0], stderr);
        } else if (strchr(arg, '=') && o.grad && !strncmp(arg, "d_", 2)) {
            vec_push(a, &cotangents, arg);
        } else if (strchr(arg, '=')) {
            vec_push(a, &operands, arg);
        } else if (!o.method) {
            o.method = arg;
        } else {
            status = usage(argv[0], stderr);
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
