/* elab_poison.c: names that would have got a value, had it not been for a mistake that has been
 * reported: they are poison, so that their uses say nothing further.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

/* A tensor keeps its value: mostly it would have got another one of the same type, and later
 * mistakes are found. */
static void poison_value(Value *v)
{
    if (v->kind != V_tensor)
        *v = v_poison();
}

static void poison_place(const Env *env, const AstExpr *place)
{
    while (place->kind == EX_index)
        place = place->a;
    if (place->kind != EX_name)
        return;
    Local *l = scope_find(env->scope, place->name);
    if (l && !l->is_size)
        poison_value(&l->value);
    Member *m = env->inst && env->inst->building ? member_find(env->inst, place->name) : NULL;
    if (!l && m && m->kind == MEMBER_let)
        poison_value(&m->value);
}

void poison_assigned(const Env *env, const AstStmts *body)
{
    for (uint32_t i = 0; i < body->n; i++) {
        const AstStmt *s = body->at[i];
        for (uint32_t k = 0; k < s->places.n; k++)
            poison_place(env, s->places.at[k]);
        poison_assigned(env, &s->body);
        poison_assigned(env, &s->orelse);
    }
}

void poison_sizes(Elab *e, const Env *env, const AstType *t)
{
    for (uint32_t i = 0; t && t->kind == TYPE_tensor && i < t->dims.n; i++) {
        const AstExpr *x = t->dims.at[i];
        Value known;
        if (x->kind == EX_splat)
            x = x->a;
        if (x->kind == EX_name && !sym_eq(x->name, e->word.underscore) &&
            !lookup_user(e, env, x->name, &known))
            scope_set(e, env->scope, x->name, v_poison(), x->at);
    }
}

static void poison_member(Elab *e, Instance *inst, MemberKind kind, AstName name)
{
    if (!member_find(inst, name.sym))
        vec_push(e->a, &inst->members,
                 ((Member){.name = name.sym, .kind = kind, .value = v_poison(), .at = name.at}));
}

void poison_members(Elab *e, const Env *env, Instance *inst, const AstStmts *body)
{
    for (uint32_t i = 0; i < body->n; i++) {
        const AstStmt *s = body->at[i];
        if (s->kind == ST_param || s->kind == ST_buffer)
            poison_member(e, inst, MEMBER_let, s->name);
        if (s->kind == ST_fn)
            poison_member(e, inst, MEMBER_let, s->fn->name);
        for (uint32_t k = 0; s->kind == ST_set && k < s->places.n; k++) {
            const AstExpr *place = s->places.at[k];
            if (place->kind == EX_name && !scope_find(env->scope, place->name))
                poison_member(e, inst, MEMBER_let, (AstName){place->name, place->at});
        }
        poison_members(e, env, inst, &s->body);
        poison_members(e, env, inst, &s->orelse);
    }
    poison_assigned(env, body);
}
