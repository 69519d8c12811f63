/* elab_custom.c: functions with a derivative of their own, and `extern fn`. The body is traced into
 * a graph (DEF) and the gradient into another, whose parameters are the operands, all results of
 * DEF (the inner values that the gradient reads behind the declared ones), and one cotangent for
 * each declared result; the gradient's results bear the names of the operands.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

typedef struct {
    Elab *e;
    Fn *fn;
    Env *env;
    const Value *args;
    Span at;
    Graph *def, *grad;
    Capture outside; /* what DEF takes from around the call */
    Values results;  /* declared ones: tensors of DEF */
    VEC(Val) cotangents;
} Custom;

static const char *who(const Custom *c)
{
    return c->fn->name.id ? sym(c->e, c->fn->name) : "fn";
}

static Graph *enter_graph(Custom *c, const char *suffix, Capture *capture)
{
    Elab *e = c->e;
    Sym name = sym_new(e, arena_printf(e->a, "%s%s", who(c), suffix));
    Graph *g = program_add_graph(e->p, name, GRAPH_DEF);
    g->at = c->fn->ast->at;
    *capture = (Capture){.up = e->capture, .outer = e->b.g, .inner = g};
    e->capture = capture;
    e->b.g = g;
    return g;
}

static void leave_graph(Elab *e, const Capture *capture)
{
    e->b.g = capture->outer;
    e->capture = capture->up;
}

/* ---- the definition ---- */

/* Tensor arguments become inputs of DEF and are captured operands from the start. */
static void define_inputs(Custom *c)
{
    Elab *e = c->e;
    const AstParams *params = &c->fn->ast->params;
    for (uint32_t i = 0; i < params->n; i++) {
        if (c->args[i].kind != V_tensor)
            continue;
        Graph *inner = e->b.g;
        Capture *capture = e->capture;
        e->b.g = c->outside.outer;
        e->capture = c->outside.up;
        Val outer = use_val(e, &c->args[i]);
        Ty type = val_type(e->b.g, outer);
        e->b.g = inner;
        e->capture = capture;
        Val in = build_input(&e->b, params->at[i].name.sym, type);
        written_link(e, in, c->outside.outer, outer);
        vec_push(e->a, &c->outside.outer_vals, outer);
        vec_push(e->a, &c->outside.inner_vals, in);
        scope_set(e, c->env->scope, params->at[i].name.sym, v_tensor(e, in), params->at[i].name.at);
    }
}

static bool is_word(char ch, bool first)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_' ||
           (!first && ch >= '0' && ch <= '9');
}

/* The C expression with the arguments' names replaced by a, b, c. */
static const char *extern_text(Elab *e, const AstFn *ast)
{
    StrBuf b = {.a = e->a};
    const char *p = ast->extern_c;
    while (*p) {
        bool inside = p > ast->extern_c && is_word(p[-1], false);
        if (!is_word(*p, true) || inside) {
            sb_putc(&b, *p++);
            continue;
        }
        size_t n = 1;
        while (is_word(p[n], false))
            n++;
        const char *word = arena_strndup(e->a, p, n);
        for (uint32_t i = 0; i < ast->params.n; i++)
            if (strcmp(word, sym(e, ast->params.at[i].name.sym)) == 0) {
                word = i == 0 ? "a" : i == 1 ? "b" : "c";
                break;
            }
        sb_puts(&b, word);
        p += n;
    }
    return sb_text(&b);
}

static bool extern_body(Custom *c)
{
    Elab *e = c->e;
    const AstFn *ast = c->fn->ast;
    uint32_t n = ast->params.n;
    if (n < 1 || n > 3) {
        elab_error(e, DIAG_bad_call, ast->extern_at, "extern functions take 1 to 3 arguments");
        return false;
    }
    const Value *in[3];
    Span at[3];
    Value v[3];
    for (uint32_t i = 0; i < n; i++) {
        v[i] = scope_find(c->env->scope, ast->params.at[i].name.sym)->value;
        in[i] = &v[i];
        at[i] = c->at;
        if (v[i].kind != V_tensor && !is_number(&v[i])) {
            elab_error(e, DIAG_bad_type, c->at, "%s: '%s' must be a tensor or a number", who(c),
                       sym(e, ast->params.at[i].name.sym));
            return false;
        }
    }
    DType t = promote_values(e, in, n);
    if (!dtype_is_float(t))
        t = e->float_type;
    if (!check_broadcast(e, c->at, in, at, n))
        return false;
    Val x[3];
    for (uint32_t i = 0; i < n; i++)
        x[i] = val_as(e, in[i], t);
    int64_t text = sym_new(e, extern_text(e, ast)).id;
    Attr attr = {.at = &text, .n = 1};
    vec_push(e->a, &c->results, v_tensor(e, build(&e->b, OP_extern, x, n, &attr)));
    return true;
}

static bool define_body(Custom *c)
{
    Elab *e = c->e;
    const AstFn *ast = c->fn->ast;
    if (ast->extern_c)
        return extern_body(c);
    for (uint32_t i = 0; i < ast->results.n; i++)
        if (ast->results.at[i].name.sym.id)
            scope_set(e, c->env->scope, ast->results.at[i].name.sym, (Value){.kind = V_unset},
                      ast->results.at[i].at);
    Body body = {0};
    run_block(e, c->env, &ast->body, &body);
    if (!body.returned)
        for (uint32_t i = 0; i < ast->results.n; i++) {
            const Local *l = scope_find(c->env->scope, ast->results.at[i].name.sym);
            if (l && l->value.kind != V_unset)
                vec_push(e->a, &body.values, l->value);
        }
    if (body.values.n == 0) {
        elab_error(e, DIAG_bad_call, ast->body_at, "%s gives no value", who(c));
        return false;
    }
    for (uint32_t i = 0; i < body.values.n; i++) {
        Value v = body.values.at[i];
        if (is_poison(&v))
            return false;
        if (v.kind != V_tensor && !is_number(&v)) {
            elab_error(e, DIAG_bad_gradient, ast->body_at,
                       "%s: a function with a derivative gives tensors, not %s", who(c),
                       a_kind(&v));
            return false;
        }
        Val x = v.kind == V_tensor ? use_val(e, &v) : val_as(e, &v, e->float_type);
        vec_push(e->a, &c->results, v_tensor(e, x));
    }
    return true;
}

static Sym result_name(const Custom *c, uint32_t k)
{
    const AstResults *r = &c->fn->ast->results;
    if (k < r->n && r->at[k].name.sym.id)
        return r->at[k].name.sym;
    Elab *e = c->e;
    return sym_new(e, k ? arena_printf(e->a, "out%u", k) : "out");
}

/* ---- the gradient ---- */

static bool bind_cotangents(Custom *c)
{
    Elab *e = c->e;
    const AstFn *ast = c->fn->ast;
    if (ast->grad_names.n != c->results.n) {
        elab_error(e, DIAG_bad_gradient, ast->grad_at, "%s has %u result%s, grad takes %u", who(c),
                   c->results.n, c->results.n == 1 ? "" : "s", ast->grad_names.n);
        return false;
    }
    for (uint32_t i = 0; i < c->results.n; i++) {
        Ty type = val_type(c->def, c->results.at[i].val);
        Val g = build_input(&e->b, ast->grad_names.at[i].sym, type);
        written_link(e, g, c->def, c->results.at[i].val);
        vec_push(e->a, &c->cotangents, g);
        scope_set(e, c->env->scope, ast->grad_names.at[i].sym, v_tensor(e, g),
                  ast->grad_names.at[i].at);
    }
    return true;
}

/* The shape of a value of DEF, in the graph of the gradient. */
static const char *shape_of(Custom *c, Val of_def)
{
    Elab *e = c->e;
    Graph *g = e->b.g;
    e->b.g = c->def;
    const char *text = val_shape_str(e, of_def);
    e->b.g = g;
    return text;
}

static bool one_gradient(Custom *c, Value v, Span at, Sym operand, Val of_def)
{
    Elab *e = c->e;
    const Ty type = val_type(c->def, of_def);
    if (v.kind == V_none)
        return true;
    TypeInfo want = *type_info(e->p, type);
    if (v.kind != V_tensor && !is_number(&v)) {
        elab_error(e, DIAG_bad_gradient, at, "the gradient of '%s' must be a tensor or none",
                   sym(e, operand));
        return false;
    }
    Val g = val_as(e, &v, want.dtype);
    TypeInfo got = *type_at(e, g);
    bool fits = got.rank <= want.rank;
    for (uint32_t k = 0; fits && k < got.rank; k++) {
        Dim a = got.shape[got.rank - 1 - k], b = want.shape[want.rank - 1 - k];
        fits = (got.rank == 0 || !dim_is_one(e->dims, a) || dim_is_one(e->dims, b)) &&
               prove_equal(e, at, a, b);
    }
    if (!fits || (got.rank && got.rank != want.rank)) {
        elab_error(e, DIAG_bad_gradient, at, "the gradient of '%s' is %s, wanted %s",
                   sym(e, operand), val_shape_str(e, g), shape_of(c, of_def));
        return false;
    }
    g = build_broadcast_to(&e->b, g, want.shape, want.rank);
    graph_result(e->p, c->grad, operand, g, at);
    return true;
}

static bool gradient_body(Custom *c, uint32_t nargs)
{
    Elab *e = c->e;
    const AstFn *ast = c->fn->ast;
    Body body = {0};
    run_block(e, c->env, &ast->grad_body, &body);
    if (body.values.n == 1 && body.values.at[0].kind == V_list) {
        Value list = body.values.at[0];
        Span at = body.at.at[0];
        body.values.n = body.at.n = 0;
        for (uint32_t i = 0; i < list.list->n; i++) {
            vec_push(e->a, &body.values, list.list->at[i]);
            vec_push(e->a, &body.at, at);
        }
    }
    for (uint32_t i = 0; i < body.values.n; i++)
        if (is_poison(&body.values.at[i]))
            return false;
    if (body.values.n == ast->params.n) { /* those of numbers have nowhere to go */
        body.values.n = 0;
        for (uint32_t i = 0; i < ast->params.n; i++)
            if (c->args[i].kind == V_tensor) {
                body.at.at[body.values.n] = body.at.at[i];
                body.values.at[body.values.n++] = body.values.at[i];
            }
    }
    if (body.values.n != nargs) {
        Diag *d = elab_error(e, DIAG_bad_gradient, ast->grad_at,
                             "grad gives %u value%s for %u tensor argument%s", body.values.n,
                             body.values.n == 1 ? "" : "s", nargs, nargs == 1 ? "" : "s");
        diag_note(e->diags, d, (Span){0}, "one gradient for each tensor argument, or none");
        return false;
    }
    for (uint32_t i = 0; i < nargs; i++)
        if (!one_gradient(c, body.values.at[i], body.at.at[i], c->def->params.at[i].name,
                          c->def->params.at[i].val))
            return false;
    return true;
}

/* The input of GRAD that stands for a value of DEF; made if the gradient does not use it. */
static Val grad_input(Custom *c, const Capture *capture, Val of_def, Sym name)
{
    Elab *e = c->e;
    for (uint32_t i = 0; i < capture->outer_vals.n; i++)
        if (val_eq(capture->outer_vals.at[i], of_def))
            return capture->inner_vals.at[i];
    return build_input(&e->b, name, val_type(c->def, of_def));
}

static bool is_operand_or_result(const Custom *c, Val v)
{
    for (uint32_t i = 0; i < c->def->params.n; i++)
        if (val_eq(c->def->params.at[i].val, v))
            return true;
    for (uint32_t i = 0; i < c->results.n; i++)
        if (val_eq(c->results.at[i].val, v))
            return true;
    return false;
}

/* Parameters of GRAD in their order; inner values become further results of DEF. */
static void order_params(Custom *c, const Capture *capture)
{
    Elab *e = c->e;
    VEC(GraphParam) order = {0};
    for (uint32_t i = 0; i < c->def->params.n; i++) {
        const GraphParam *p = &c->def->params.at[i];
        Val v = grad_input(c, capture, p->val, p->name);
        vec_push(e->a, &order, ((GraphParam){.name = p->name, .val = v, .inout = -1}));
    }
    for (uint32_t i = 0; i < c->results.n; i++) {
        Sym name = result_name(c, i);
        Val v = c->results.at[i].val;
        bool operand = false; /* `return x`: an operand and a result are one value of DEF */
        for (uint32_t k = 0; k < c->def->params.n; k++)
            operand |= val_eq(c->def->params.at[k].val, v);
        Val in = operand ? build_input(&e->b, name, val_type(c->def, v))
                         : grad_input(c, capture, v, name);
        vec_push(e->a, &order, ((GraphParam){.name = name, .val = in, .inout = -1}));
    }
    for (uint32_t i = 0; i < capture->outer_vals.n; i++) {
        Val v = capture->outer_vals.at[i];
        if (is_operand_or_result(c, v))
            continue;
        Sym name = sym_new(e, arena_printf(e->a, "inner%u", i));
        graph_result(e->p, c->def, name, v, c->fn->ast->at);
        vec_push(e->a, &order,
                 ((GraphParam){.name = name, .val = capture->inner_vals.at[i], .inout = -1}));
    }
    for (uint32_t i = 0; i < c->cotangents.n; i++) {
        Sym name = c->fn->ast->grad_names.at[i].sym;
        vec_push(e->a, &order,
                 ((GraphParam){.name = name, .val = c->cotangents.at[i], .inout = -1}));
    }
    c->grad->params.at = order.at;
    c->grad->params.n = order.n;
    c->grad->params.cap = order.cap;
}

static bool trace_gradient(Custom *c, uint32_t nargs)
{
    Capture capture;
    bool no_grad = c->e->no_grad;
    c->e->no_grad = false;
    c->grad = enter_graph(c, ".grad", &capture);
    bool ok = bind_cotangents(c) && gradient_body(c, nargs);
    if (ok)
        order_params(c, &capture);
    leave_graph(c->e, &capture);
    c->e->no_grad = no_grad;
    return ok;
}

/* ---- the call ---- */

static uint32_t graph_index(const Program *p, const Graph *g)
{
    for (uint32_t i = 0; i < p->graphs.n; i++)
        if (p->graphs.at[i] == g)
            return i;
    die("a graph is not of its program");
}

static Value emit_call(Custom *c)
{
    Elab *e = c->e;
    int64_t def = graph_index(e->p, c->def), grad = c->grad ? graph_index(e->p, c->grad) + 1 : 0;
    int64_t nresults = c->results.n;
    Attr attrs[] = {{&def, 1}, {&grad, 1}, {&nresults, 1}};
    Val call = build(&e->b, OP_call, c->outside.outer_vals.at, c->outside.outer_vals.n, attrs);
    Values out = {0};
    for (uint32_t i = 0; i < c->results.n; i++)
        vec_push(e->a, &out, v_tensor(e, val_result(call, i)));
    if (out.n == 1)
        return out.at[0];
    Value v = v_list(e, out.at, out.n);
    Sym *names = arena_array(e->a, Sym, out.n);
    for (uint32_t i = 0; i < out.n; i++)
        names[i] = result_name(c, i);
    List *l = arena_new(e->a, List);
    *l = (List){.at = v.list->at, .n = v.list->n, .names = names};
    v.list = l;
    return v;
}

Value call_custom(Elab *e, Fn *fn, Env *env, const Value *args, Span at)
{
    Custom c = {.e = e, .fn = fn, .env = env, .args = args, .at = at};
    uint32_t nargs = 0;
    for (uint32_t i = 0; i < fn->ast->params.n; i++)
        nargs += args[i].kind == V_tensor;
    c.def = enter_graph(&c, "", &c.outside);
    define_inputs(&c);
    bool ok = define_body(&c);
    if (ok) {
        for (uint32_t i = 0; i < c.results.n; i++)
            graph_result(e->p, c.def, result_name(&c, i), c.results.at[i].val, fn->ast->at);
        if (fn->ast->has_grad && nargs) {
            for (uint32_t i = 0; i < fn->ast->results.n && i < c.results.n; i++)
                if (fn->ast->results.at[i].name.sym.id)
                    scope_set(e, env->scope, fn->ast->results.at[i].name.sym, c.results.at[i],
                              fn->ast->results.at[i].at);
            ok = trace_gradient(&c, nargs);
        }
    }
    leave_graph(e, &c.outside);
    return ok ? emit_call(&c) : v_poison();
}
