/* elab_unused.c: -Wunused: names that nothing in the text uses.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

static void unused(Elab *e, Sym name, Span at, const char *what)
{
    if (sym(e, name)[0] != '_') /* `_` and names like it say that this is meant */
        diag_report(e->diags, DIAG_unused, at, "%s'%s' is never used", what, sym(e, name));
}

static bool used_in_file(const FileEnv *f, const AstDecl *own, Sym name)
{
    for (uint32_t i = 0; i < f->ast->decls.n; i++)
        if (f->ast->decls.at[i] != own && decl_uses(f->ast->decls.at[i], name))
            return true;
    return false;
}

/* Where a `let` may be used: the function around it, or the module. */
typedef struct {
    const AstFn *fn;
    const AstDecl *module;
    const FileEnv *file; /* a member may be used from outside: m.name */
} Around;

static bool used(const Around *a, Sym name)
{
    if (a->fn)
        return fn_uses(a->fn, name);
    return decl_uses(a->module, name) || used_in_file(a->file, a->module, name);
}

static void check_block(Elab *e, const Around *a, const AstStmts *body)
{
    for (uint32_t i = 0; i < body->n; i++) {
        const AstStmt *s = body->at[i];
        if (s->kind == ST_fn) {
            Around inner = {.fn = s->fn};
            check_block(e, &inner, &s->fn->body);
            check_block(e, &inner, &s->fn->grad_body);
            continue;
        }
        for (uint32_t k = 0; s->targets.n == 1 && k < s->targets.n; k++)
            if (!used(a, s->targets.at[k].name.sym))
                unused(e, s->targets.at[k].name.sym, s->targets.at[k].name.at, "");
        check_block(e, a, &s->body);
        check_block(e, a, &s->orelse);
    }
}

void warn_unused(Elab *e, const FileEnv *f)
{
    for (uint32_t i = 0; i < f->ast->decls.n; i++) {
        const AstDecl *d = f->ast->decls.at[i];
        if (d->kind == DECL_import && !used_in_file(f, d, d->name.sym))
            unused(e, d->name.sym, d->name.at.file ? d->name.at : d->at, "import ");
        Around a = {.fn = d->fn, .module = d, .file = f};
        if (d->kind == DECL_fn) {
            check_block(e, &a, &d->fn->body);
            check_block(e, &a, &d->fn->grad_body);
        } else if (d->kind == DECL_module || d->kind == DECL_optimizer || d->kind == DECL_test) {
            check_block(e, &a, &d->body);
        }
    }
}
