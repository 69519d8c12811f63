/* elab_device.c: devices: where new tensors are made, where values are, and what is said when
 * operands are on different ones. SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT = -2, CPU = -1 }; /* V_device: numbers of GPUs otherwise */

/* The default device where the command line names it, else DEFAULT. */
static int64_t fixed_device(const Elab *e)
{
    const char *name = e->o->device;
    if (!name || strcmp(name, "auto") == 0)
        return DEFAULT;
    if (strcmp(name, "cpu") == 0)
        return CPU;
    return strcmp(name, "cuda") == 0 ? 0 : atoll(name + strlen("cuda:"));
}

bool place_of(Elab *e, Span at, const Value *v, const char *who, Place *out)
{
    *out = PLACE_D0;
    if (v->kind != V_device) {
        if (!is_poison(v))
            elab_error(e, DIAG_bad_type, at, "%s wants a device, not %s", who, a_kind(v));
        return false;
    }
    if (v->i == DEFAULT || v->i == fixed_device(e))
        return true;
    if (v->i >= MAX_GPUS) {
        elab_error(e, DIAG_bad_number, at, "cuda:%lld: there are at most %d GPUs, from cuda:0 on",
                   (long long)v->i, MAX_GPUS);
        return false;
    }
    *out = v->i == CPU ? PLACE_HOST : (Place)(PLACE_CUDA + v->i);
    return true;
}

Value device_value(const Elab *e, Place place)
{
    const int64_t i = place == PLACE_D0     ? fixed_device(e)
                      : place == PLACE_HOST ? CPU
                                            : place - PLACE_CUDA;
    return (Value){.kind = V_device, .i = i};
}

Value gpu_numbered(Elab *e, int64_t i, Span at)
{
    if (i >= 0 && i < MAX_GPUS)
        return (Value){.kind = V_device, .i = i};
    elab_error(e, DIAG_bad_number, at, "cuda(%lld): GPUs are numbered from 0 to %d", (long long)i,
               MAX_GPUS - 1);
    return v_poison();
}

const char *place_str(Elab *e, Place place)
{
    const Value v = device_value(e, place);
    return v.i == DEFAULT ? "the default device" : value_text(e, &v);
}

/* What a message calls an operand: as the user named it, with its type. */
static const char *operand_str(Elab *e, Val v)
{
    const Sym name = graph_node(e->b.g, v)->hint;
    return arena_printf(e->a, "%s%s%s", name.id ? sym(e, name) : "", name.id ? ": " : "",
                        val_shape_str(e, v));
}

static void crossed(void *ctx, Op op, Val a, Val b)
{
    (void)op;
    Elab *e = ctx;
    if (e->o->gpus) /* it is copied where it is needed */
        return;
    const Span at = e->b.site.at;
    const uint64_t once = (uint64_t)at.file << 32 | at.start;
    for (uint32_t i = 0; i < e->crossings.n; i++)
        if (e->crossings.at[i] == once)
            return;
    vec_push(e->a, &e->crossings, once);
    const Place pa = type_at(e, a)->place, pb = type_at(e, b)->place;
    Diag *d = elab_error(e, DIAG_device_mismatch, at,
                         "operands are on different devices: %s is on %s, %s is on %s",
                         operand_str(e, a), place_str(e, pa), operand_str(e, b), place_str(e, pb));
    const Value va = device_value(e, pa);
    if (va.i != DEFAULT)
        diag_note(e->diags, d, (Span){0}, "copy the second one: .to(%s)", value_text(e, &va));
    else
        diag_note(e->diags, d, (Span){0}, "copy one of them: .to(%s)",
                  place_str(e, pa == PLACE_D0 ? pb : pa));
}

Builder elab_builder(Elab *e, Graph *g)
{
    Builder b = builder_for(e->p, g);
    b.place = e->b.place;
    b.crossed = crossed;
    b.crossed_ctx = e;
    return b;
}

bool check_same_place(Elab *e, Span at, const char *what, Place got, Place want)
{
    if (got == want || e->o->gpus)
        return true;
    Diag *d = elab_error(e, DIAG_device_mismatch, at, "%s is on %s, wanted on %s", what,
                         place_str(e, got), place_str(e, want));
    const Value v = device_value(e, want);
    if (v.i != DEFAULT)
        diag_note(e->diags, d, (Span){0}, "copy it: .to(%s)", value_text(e, &v));
    return false;
}
