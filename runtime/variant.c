/* variant.c: NULL for an argument that has a default. The compiler makes a program for each set of
 * such arguments that may be left out, under the method's name with "_without_ARGUMENT" behind it;
 * a call that leaves some out runs that one. SPDX-License-Identifier: MIT */
#include "runtime/exec.h"

#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 512 };

/* The program of the same kind for a method, or -1. */
static int find_program(const tn_model_desc *d, const char *method, int kind)
{
    for (int i = 0; i < d->nprograms; i++)
        if (d->programs[i].kind == kind && !strcmp(d->programs[i].method, method))
            return i;
    return -1;
}

/* The backward program of the variant that made the tape. */
static int backward_of(const tn_model *m, int program, const tn_tape *tape)
{
    if (!tape || tape->model != m)
        return program;
    const char *whole = m->d->programs[program].method;
    const char *ran = m->d->programs[tape->program].method;
    const size_t n = strlen(whole);
    if (strncmp(ran, whole, n) || strncmp(ran + n, "_without_", 9))
        return program;
    return find_program(m->d, ran, TN_BACKWARD);
}

int tn__variant(const tn_model *m, int program, const DLTensor *const *args, const tn_tape *tape)
{
    const tn_model_desc *d = m->d;
    const tn_program *p = &d->programs[program];
    if (p->kind == TN_BACKWARD)
        return backward_of(m, program, tape);
    char name[NAME_MAX_BYTES];
    size_t n = (size_t)snprintf(name, sizeof name, "%s", p->method);
    bool absent = false;
    for (int i = 0; i < p->nargs && n < sizeof name; i++) {
        if (args[i] || !p->args[i].optional || p->args[i].is_result)
            continue;
        n += (size_t)snprintf(name + n, sizeof name - n, "_without_%s", p->args[i].name);
        absent = true;
    }
    return !absent ? program : n < sizeof name ? find_program(d, name, p->kind) : -1;
}

void tn__variant_args(const tn_program *from, const DLTensor *const *args, const tn_program *to,
                      const DLTensor **out)
{
    for (int i = 0; i < to->nargs; i++) {
        out[i] = NULL;
        for (int k = 0; k < from->nargs; k++)
            /* d_h may be both the gradient of an argument and that of the result of its name */
            if (to->args[i].is_result == from->args[k].is_result &&
                !strcmp(to->args[i].name, from->args[k].name))
                out[i] = args[k];
    }
}
