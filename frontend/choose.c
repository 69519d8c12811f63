/* choose.c: of each model, only what is asked for goes through the passes; all has been elaborated
 * before, so that messages and random numbers are those of the whole file.
 * SPDX-License-Identifier: MIT */
#include "frontend/choose.h"

#include "ir/base/vec.h"

#include <string.h>

/* May it be left out, and under which name is it asked for? */
static bool is_entry(const Graph *g)
{
    return g->kind == GRAPH_METHOD || g->kind == GRAPH_TRAINING || g->kind == GRAPH_STEP ||
           g->kind == GRAPH_UPDATE;
}

static Sym entry_name(const Graph *g)
{
    return (g->kind == GRAPH_METHOD || g->kind == GRAPH_TRAINING) && g->method.id ? g->method
                                                                                  : g->name;
}

/* Passes go over an empty graph, and drop it; the numbers of the others stay what they are. */
static void leave_out(Program *p, uint32_t i)
{
    Graph *none = program_add_graph(p, p->graphs.at[i]->name, GRAPH_DEF);
    p->graphs.n--;
    p->graphs.at[i] = none;
}

static void drop_trains(Program *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->trains.n; i++)
        if (p->graphs.at[p->trains.at[i].graph_step]->kind == GRAPH_STEP)
            p->trains.at[n++] = p->trains.at[i];
    p->trains.n = n;
}

/* Is it this one, or what is called for it where arguments with defaults are left out? */
static bool means(const char *item, size_t n, const char *name)
{
    static const char without[] = "_without_";
    return !strncmp(name, item, n) && (!name[n] || !strncmp(name + n, without, sizeof without - 1));
}

static bool in_list(const char *list, const char *name)
{
    for (const char *at = list;; at++) {
        const size_t n = strcspn(at, ",");
        if (n && means(at, n, name))
            return true;
        at += n;
        if (!*at)
            return false;
    }
}

const char **choose_names(const Compile *c, int *n)
{
    VEC(const char *) names = {0};
    for (uint32_t i = 0; i < c->models.models.n; i++) {
        const Program *p = c->models.models.at[i];
        for (uint32_t k = 0; k < p->graphs.n; k++)
            if (is_entry(p->graphs.at[k]))
                vec_push(c->cx->perm, &names, sym_text(c->cx->names, entry_name(p->graphs.at[k])));
    }
    *n = (int)names.n;
    return names.at;
}

static bool is_there(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

const char *choose_named(Compile *c, const char *list, bool differentiate)
{
    int n;
    const char **names = choose_names(c, &n);
    for (const char *at = list;; at++) {
        const size_t len = strcspn(at, ",");
        const char *name = arena_strndup(c->cx->perm, at, len);
        if (!is_there(names, n, name))
            return name;
        at += len;
        if (!*at)
            break;
    }
    for (uint32_t i = 0; i < c->models.models.n; i++) {
        Program *p = c->models.models.at[i];
        for (uint32_t k = 0; k < p->graphs.n; k++) {
            const Graph *g = p->graphs.at[k];
            if (is_entry(g) && ((!differentiate && g->kind == GRAPH_TRAINING) ||
                                !in_list(list, sym_text(c->cx->names, entry_name(g)))))
                leave_out(p, k);
        }
        drop_trains(p);
    }
    return NULL;
}

static bool is_trained(const Compile *c, const Program *p, Sym method)
{
    const char *name = sym_text(c->cx->names, method);
    for (uint32_t i = 0; i < p->trains.n; i++) {
        const char *trained = sym_text(c->cx->names, p->trains.at[i].method);
        if (means(trained, strlen(trained), name))
            return true;
    }
    return false;
}

void choose_trained(Compile *c)
{
    for (uint32_t i = 0; i < c->models.models.n; i++) {
        Program *p = c->models.models.at[i];
        for (uint32_t k = 0; p->trains.n && k < p->graphs.n; k++) {
            const Graph *g = p->graphs.at[k];
            if (g->kind == GRAPH_TRAINING ||
                (g->kind == GRAPH_METHOD && !is_trained(c, p, entry_name(g))))
                leave_out(p, k);
        }
    }
}
