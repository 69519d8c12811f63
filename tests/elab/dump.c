/* dump.c: elaborates a file and prints the tensor IR of its models, or the diagnostics.
 *   elab_dump [-q] [-t] [-m EXPR] [-D NAME=VALUE] FILE     -q: graphs by name and node count only
 * SPDX-License-Identifier: MIT */
#include "frontend/elaborate.h"

#include <stdio.h>
#include <string.h>

static void summary(const Elaborated *out, StrBuf *text)
{
    for (uint32_t i = 0; i < out->models.n; i++) {
        const Program *p = out->models.at[i];
        const Interner *names = p->cx->names;
        sb_printf(text, "model %s: %u slots, %u states, %u gradchecks\n", sym_text(names, p->name),
                  p->slots.n - 1, p->state.n, p->gradchecks.n);
        for (uint32_t k = 0; k < p->graphs.n; k++) {
            const Graph *g = p->graphs.at[k];
            const char *wrong = tensor_verify(p, g, false);
            sb_printf(text,
                      "  graph %s kind %d: %u nodes, %u params, %u results, %u commits, "
                      "%u checks%s%s\n",
                      sym_text(names, g->name), (int)g->kind, g->nodes.n - 1, g->params.n,
                      g->results.n, g->commits.n, g->checks.n, wrong ? " WRONG: " : "",
                      wrong ? wrong : "");
        }
    }
}

int main(int argc, char **argv)
{
    ElabOptions o = {0};
    Define defines[16];
    bool quiet = false;
    const char *path = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-q") == 0) {
            quiet = true;
        } else if (strcmp(argv[i], "-t") == 0) {
            o.tests = o.f64_tests = true;
        } else if (strcmp(argv[i], "-m") == 0 && i + 1 < argc) {
            o.instantiate = argv[++i];
        } else if (strcmp(argv[i], "-D") == 0 && i + 1 < argc && o.ndefines < 16) {
            char *eq = strchr(argv[++i], '=');
            if (!eq)
                return 2;
            *eq = 0;
            defines[o.ndefines++] = (Define){argv[i], eq + 1};
        } else {
            path = argv[i];
        }
    }
    if (!path)
        return 2;
    o.defines = defines;
    Ctx *cx = ctx_create();
    uint32_t file = source_read(cx->sources, path, false);
    if (!file) {
        fprintf(stderr, "cannot read %s\n", path);
        return 2;
    }
    Elaborated out = {0};
    bool ok = elaborate(cx, file, &o, &out);
    StrBuf text = {.a = cx->perm};
    diag_render(cx->diags, (DiagStyle){0}, &text);
    if (quiet)
        summary(&out, &text);
    else
        for (uint32_t i = 0; i < out.models.n; i++)
            tensor_print(out.models.at[i], &text);
    fputs(sb_text(&text), stdout);
    ctx_destroy(cx);
    return ok ? 0 : 1;
}
