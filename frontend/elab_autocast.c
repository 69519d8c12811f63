/* elab_autocast.c: -famp: casts by PyTorch's lists (autocast.def), made where a function of the
 * prelude is called. Parameters stay f32; what is cast twice is cast once (equal nodes are shared).
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

typedef enum { AS_IT_COMES, HALF, FULL } Autocast;

static Autocast rule_of(const char *name)
{
    static const struct {
        const char *name;
        Autocast to;
    } rows[] = {
#define AUTOCAST(name, to) {name, to},
#include "frontend/autocast.def"
#undef AUTOCAST
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!strcmp(rows[i].name, name))
            return rows[i].to;
    return AS_IT_COMES;
}

/* f64 is never cast: it was asked for. */
static void cast_value(Elab *e, Autocast rule, Value *v)
{
    if (v->kind == V_list) {
        Value *items = arena_array(e->a, Value, v->list->n);
        for (uint32_t i = 0; i < v->list->n; i++) {
            items[i] = v->list->at[i];
            cast_value(e, rule, &items[i]);
        }
        List *l = arena_new(e->a, List);
        *l = (List){.at = items, .n = v->list->n, .names = v->list->names};
        *v = (Value){.kind = V_list, .list = l};
    }
    if (v->kind != V_tensor)
        return;
    const DType t = value_type(e, v)->dtype, to = rule == HALF ? e->amp : DT_f32;
    if (t != to && (t == DT_f32 || t == DT_f16 || t == DT_bf16))
        *v = v_tensor(e, build_cast(&e->b, use_val(e, v), to));
}

void autocast(Elab *e, const char *name, Value *values, uint32_t n)
{
    const Autocast rule = e->amp ? rule_of(name) : AS_IT_COMES;
    for (uint32_t i = 0; i < n && rule != AS_IT_COMES; i++)
        cast_value(e, rule, &values[i]);
}

Val autocast_back(Elab *e, Val v, DType want)
{
    const DType t = type_at(e, v)->dtype;
    const bool floats = dtype_is_float(t) && dtype_is_float(want);
    return e->o->amp && floats && t != want ? build_cast(&e->b, v, want) : v;
}
