/* elab_random.c: where random numbers come from: the model's seed, the count of calls, and the
 * place of the draw (module path and chain of calls). SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

/* A number for the draw: which one of this name it is in the running function. */
static uint64_t draw_chain(Elab *e, const char *name)
{
    Frame f;
    push_frame(e, &f, name, (Span){0}, (Span){0}, (Sym){0});
    pop_frame(e);
    return f.chain;
}

/* State is read in the outermost graph; the graph of a function with its own derivative captures
 * it. */
static Val read_slot(Elab *e, uint32_t slot)
{
    Graph *g = e->b.g;
    for (Capture *c = e->capture; c; c = c->up)
        g = c->outer;
    Graph *inner = e->b.g;
    Capture *capture = e->capture;
    e->b.g = g;
    e->capture = NULL;
    Value v = v_tensor(e, build_state(&e->b, slot));
    e->b.g = inner;
    e->capture = capture;
    return use_val(e, &v);
}

Val draw_key(Elab *e, const char *name)
{
    uint64_t chain = draw_chain(e, name);
    if (e->b.g == e->making) {
        uint64_t place = chain;
        uint64_t unique[2] = {e->making_state ? e->making_state->id : 0, chain};
        Val calls = build_const_int(&e->b, DT_u64, 0);
        Val key = build_key(&e->b, build_state(&e->b, e->seed_slot), calls,
                            hash_bytes(HASH_START, unique, sizeof unique));
        vec_push(e->a, &e->keys_made, key);
        vec_push(e->a, &e->key_sites, place);
        vec_push(e->a, &e->key_states, e->making_state);
        return key;
    }
    const char *path = sym(e, e->b.site.path);
    uint64_t site = hash_bytes(chain, path, strlen(path));
    e->drew = true;
    const Val seed = read_slot(e, e->seed_slot), calls = read_slot(e, e->calls_slot);
    if (!e->turns)
        return build_key(&e->b, seed, calls, site);
    const int64_t word = (int64_t)site;
    const Val turn = build_dim(&e->b, turn_number(e));
    return build(&e->b, OP_key, (Val[]){seed, calls, turn}, 3, (Attr[]){{&word, 1}});
}
