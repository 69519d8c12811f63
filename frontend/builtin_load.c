/* builtin_load.c: constant tensors from files. SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

/* Beside the file that names it, unless it begins at the root. */
static const char *beside(Elab *e, const char *file, const char *path)
{
    const char *slash = strrchr(file, '/');
    if (*path == '/' || !slash)
        return path;
    return arena_printf(e->a, "%.*s%s", (int)(slash - file + 1), file, path);
}

static bool find_table(const Elab *e, Sym key, uint32_t *out)
{
    for (uint32_t i = 0; i < e->p->tables.n; i++)
        if (sym_eq(e->p->tables.at[i].key, key)) {
            *out = i;
            return true;
        }
    return false;
}

bool builtin_load(Elab *e, const Call *c, Value *out)
{
    const char *path = NULL, *name = NULL;
    if (!arg_string(e, c, 0, &path) || (arg_given(c, 1) && !arg_string(e, c, 1, &name)))
        return false;
    path = beside(e, c->env->file->path, path);
    const Sym key =
        sym_new(e, arena_printf(e->a, "%s%s%s", path, name ? ":" : "", name ? name : ""));
    uint32_t table = 0;
    if (!find_table(e, key, &table)) {
        LoadedArray x = {0};
        const char *why =
            e->o->load ? e->o->load(e->cx->perm, path, name, &x) : "files cannot be read here";
        if (why) {
            elab_error(e, DIAG_file, c->arg_at[0], "%s", why);
            return false;
        }
        Dim shape[MAX_RANK];
        for (uint32_t i = 0; i < x.rank; i++)
            shape[i] = dim_const(e->dims, x.shape[i]);
        const Ty type = type_of(e->p, x.dtype, shape, x.rank, PLACE_D0);
        vec_push(e->cx->perm, &e->p->tables, ((ConstTable){key, type, x.data}));
        table = e->p->tables.n - 1;
        vec_push(e->a, &e->out->files, path);
    }
    Val v = build_table(&e->b, table);
    if (e->as_f64 && dtype_is_float(type_at(e, v)->dtype))
        v = build_cast(&e->b, v, DT_f64);
    *out = v_tensor(e, v);
    return true;
}
