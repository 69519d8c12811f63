/* test_tensor.c: building, canonical form, text and verifier of tensor IR. The arguments are .tir
 * files, whose text must be what is printed of it. SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/tensor.h"

typedef struct {
    Ctx *cx;
    Program *p;
    Builder b;
    Dim B, four;
    Val x, y, w; /* f32[B, 4], f32[B, 4], f32[4, 4] */
} Fix;

static Val input(Fix *f, const char *name, DType t, const Dim *shape, uint32_t rank)
{
    return build_input(&f->b, sym_of(f->cx->names, name), type_of(f->p, t, shape, rank, PLACE_D0));
}

static int setup(void **state)
{
    Ctx *cx = ctx_create();
    Fix *f = arena_new(cx->perm, Fix);
    f->cx = cx;
    f->p = program_create(cx, sym_of(cx->names, "m"));
    Graph *g = program_add_graph(f->p, sym_of(cx->names, "forward"), GRAPH_METHOD);
    f->b = builder_for(f->p, g);
    f->B = dim_of(cx->dims, dim_new_symbol(cx->dims, SYM_SIZE, sym_of(cx->names, "B"), (Dim){0}));
    f->four = dim_const(cx->dims, 4);
    const Dim xs[2] = {f->B, f->four}, ws[2] = {f->four, f->four};
    f->x = input(f, "x", DT_f32, xs, 2);
    f->y = input(f, "y", DT_f32, xs, 2);
    f->w = input(f, "w", DT_f32, ws, 2);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    ctx_destroy(((Fix *)*state)->cx);
    return 0;
}

static void same(Val a, Val b)
{
    assert_int_equal(a.node, b.node);
    assert_int_equal(a.result, b.result);
}

static Op op_of(const Fix *f, Val v)
{
    return graph_node(f->b.g, v)->op;
}

static Val num(Fix *f, double v)
{
    return build_const(&f->b, DT_f32, v);
}

static Dim dim(Fix *f, int64_t c)
{
    return dim_const(f->cx->dims, c);
}

static const char *text_of(Fix *f, Val v)
{
    return type_text(f->p, f->cx->scratch, val_type(f->b.g, v));
}

static void test_sharing(void **state)
{
    Fix *f = *state;
    Builder *b = &f->b;
    const Val s = build2(b, OP_add, f->x, f->y);
    same(s, build2(b, OP_add, f->x, f->y));
    b->stage = STAGE_BACKWARD;
    const Val again = build2(b, OP_add, f->x, f->y);
    assert_int_not_equal(s.node, again.node); /* a recomputed clone is not merged back */
    assert_int_equal(graph_node(b->g, again)->stage, STAGE_BACKWARD);
    b->stage = -1;
    assert_int_equal(graph_node(b->g, build2(b, OP_mul, again, f->x))->stage, STAGE_BACKWARD);
    /* constants last, and otherwise the order of the source */
    const Node *n = graph_node(b->g, build2(b, OP_mul, num(f, 3), f->x));
    same(n->in[0], f->x);
    assert_int_not_equal(build2(b, OP_add, f->y, f->x).node, s.node);
}

static void test_fold_scalar(void **state)
{
    Fix *f = *state;
    Builder *b = &f->b;
    same(build2(b, OP_mul, f->x, num(f, 1)), f->x);
    same(build2(b, OP_mul, num(f, 1), f->x), f->x);
    same(build2(b, OP_sub, f->x, num(f, 0)), f->x);
    same(build2(b, OP_div, f->x, num(f, 1)), f->x);
    assert_int_equal(op_of(f, build2(b, OP_add, f->x, num(f, 0))), OP_add); /* -0 + 0 is 0 */
    same(build1(b, OP_neg, build1(b, OP_neg, f->x)), f->x);
    same(build2(b, OP_add, num(f, 2), num(f, 3)), num(f, 5));
    same(build1(b, OP_exp, num(f, 0)), num(f, 1));
    same(build2(b, OP_pow, f->x, num(f, 2)), build1(b, OP_square, f->x));
    same(build2(b, OP_div, f->x, num(f, 4)), build2(b, OP_mul, f->x, num(f, 0.25)));
    assert_int_equal(op_of(f, build2(b, OP_div, f->x, num(f, 3))), OP_div);
    /* exact conversions */
    same(build_cast(b, build_cast(b, f->x, DT_f64), DT_f32), f->x);
    const Val half = build_cast(b, f->x, DT_bf16);
    assert_int_equal(op_of(f, build_cast(b, half, DT_f32)), OP_cast);
    same(build_cast(b, build_cast(b, half, DT_f32), DT_bf16), half);
    same(build_cast(b, num(f, 2.7), DT_i32), build_const_int(b, DT_i32, 2));
    same(build_cast(b, build_const(b, DT_f64, -1e30), DT_i32),
         build_const_int(b, DT_i32, INT32_MIN));
    /* a filled tensor is a constant too */
    const Dim shape[2] = {f->B, f->four};
    same(build2(b, OP_add, build_full(b, DT_f32, 1, shape, 2), num(f, 2)),
         build_full(b, DT_f32, 3, shape, 2));
    const Val c = build2(b, OP_lt, f->x, f->y);
    same(build3(b, OP_where, build_const_int(b, DT_bool, 1), f->x, f->y), f->x);
    same(build3(b, OP_where, c, f->x, f->x), f->x);
    same(build3(b, OP_where, build1(b, OP_not, c), f->x, f->y), build3(b, OP_where, c, f->y, f->x));
    same(build_dim(b, dim(f, 7)), build_const_int(b, DT_i64, 7));
}

static void test_masks(void **state)
{
    Fix *f = *state;
    Builder *b = &f->b;
    const Val c = build2(b, OP_lt, f->x, f->y);
    b->stage = STAGE_BACKWARD;
    const Val m = build3(b, OP_where, c, f->x, num(f, 0));
    const Val r = build2(b, OP_mul, f->y, m);
    assert_int_equal(op_of(f, r), OP_where);
    same(r, build3(b, OP_where, c, build2(b, OP_mul, f->y, f->x), num(f, 0)));
    assert_int_equal(op_of(f, build2(b, OP_div, m, f->y)), OP_where);
    const Val other = build3(b, OP_where, c, num(f, 0), f->y);
    same(build2(b, OP_add, m, other), build3(b, OP_where, c, f->x, f->y));
    same(build2(b, OP_add, other, m), build3(b, OP_where, c, f->x, f->y));
    assert_int_equal(op_of(f, build2(b, OP_add, m, m)), OP_add);
    assert_int_equal(op_of(f, build2(b, OP_div, f->y, m)), OP_div);
    b->stage = -1;
    const Val forward = build3(b, OP_where, c, f->x, num(f, 0));
    assert_int_equal(op_of(f, build2(b, OP_mul, f->y, forward)), OP_mul);
}

static void test_fold_views(void **state)
{
    Fix *f = *state;
    Builder *b = &f->b;
    const Dim flat = dim_mul(f->cx->dims, f->B, f->four), xs[2] = {f->B, f->four};
    same(build_reshape(b, build_reshape(b, f->x, &flat, 1), xs, 2), f->x);
    const int64_t swap[2] = {1, 0};
    same(build_transpose(b, build_transpose(b, f->x, swap), swap), f->x);
    same(build_slice_axis(b, f->x, 1, dim(f, 0), f->four), f->x);
    const Val one = build_slice_axis(b, build_slice_axis(b, f->x, 1, dim(f, 1), dim(f, 3)), 1,
                                     dim(f, 1), dim(f, 1));
    same(one, build_slice_axis(b, f->x, 1, dim(f, 2), dim(f, 1)));
    const Val both = build_concat(b, (Val[]){f->x, f->y}, 2, 1);
    same(build_slice_axis(b, both, 1, f->four, f->four), f->y);
    same(build_slice_axis(b, both, 1, dim(f, 5), dim(f, 2)),
         build_slice_axis(b, f->y, 1, dim(f, 1), dim(f, 2)));
    assert_int_equal(op_of(f, build_slice_axis(b, both, 1, dim(f, 3), dim(f, 2))), OP_slice);
    same(build_concat(b, (Val[]){f->x}, 1, 0), f->x);
    const Val left = build_slice_axis(b, f->x, 1, dim(f, 0), dim(f, 1));
    const Val right = build_slice_axis(b, f->x, 1, dim(f, 1), dim(f, 3));
    same(build_concat(b, (Val[]){left, right}, 2, 1), f->x);
    same(build_concat(b, (Val[]){build_concat(b, (Val[]){f->x, f->y}, 2, 0), f->x}, 2, 0),
         build_concat(b, (Val[]){f->x, f->y, f->x}, 3, 0));
    /* an axis of size 1, then stretched: one broadcast */
    const Dim cube[3] = {f->B, dim(f, 5), f->four}, thin[3] = {f->B, dim(f, 1), f->four};
    const Val bc = build_broadcast_to(b, build_reshape(b, f->x, thin, 3), cube, 3);
    same(bc, build_broadcast(b, f->x, cube, 3, (const int64_t[]){0, 2}));
    same(build_broadcast_to(b, f->x, xs, 2), f->x);
    same(build_reduce(b, RED_add, f->x, NULL, 0), f->x);
    assert_string_equal(text_of(f, bc), "f32[B, 5, 4]");
}

static Val pad_axis(Fix *f, Val x, int64_t lo, int64_t hi)
{
    const Dim los[2] = {dim(f, 0), dim(f, lo)}, his[2] = {dim(f, 0), dim(f, hi)};
    return build_pad(&f->b, x, num(f, 0), los, his, (const int64_t[]){0, 0});
}

static void test_fold_pads(void **state)
{
    Fix *f = *state;
    Builder *b = &f->b;
    const Val z = build1(b, OP_neg, f->x);
    const Val p0 = pad_axis(f, f->x, 0, 8), p1 = pad_axis(f, f->y, 4, 4), p2 = pad_axis(f, z, 8, 0);
    const Val want = build_concat(b, (Val[]){f->x, f->y, z}, 3, 1);
    same(build2(b, OP_add, build2(b, OP_add, p0, p1), p2), want);
    same(build2(b, OP_add, build2(b, OP_add, p0, p2), p1), want);
    same(build2(b, OP_add, p1, build2(b, OP_add, p2, p0)), want);
    assert_int_equal(op_of(f, build2(b, OP_add, p0, p2)), OP_add);
    same(build_slice_axis(b, p1, 1, f->four, f->four), f->y);
}

static void test_types(void **state)
{
    Fix *f = *state;
    Builder *b = &f->b;
    const Val row = build_slice_axis(b, f->w, 0, dim(f, 0), dim(f, 1));
    assert_string_equal(text_of(f, build2(b, OP_add, row, f->x)), "f32[B, 4]");
    assert_string_equal(text_of(f, build2(b, OP_lt, f->x, num(f, 1))), "bool[B, 4]");
    const Val m = build_reduce(b, RED_argmax, f->x, (const int64_t[]){1}, 1);
    assert_string_equal(text_of(f, val_result(m, 1)), "i64[B]");
    const int64_t one = 1, zero = 0;
    assert_string_equal(text_of(f, build_dot(b, f->x, f->w, NULL, NULL, 0, &one, &zero, 1, DT_f32)),
                        "f32[B, 4]");
    const Val idx = build_cast(b, val_result(m, 1), DT_i32);
    assert_string_equal(text_of(f, build_gather(b, f->x, idx, 1, 1, GATHER_CHECK)), "f32[B]");
    assert_string_equal(text_of(f, build_gather(b, f->w, idx, 0, 0, GATHER_CLAMP)), "f32[B, 4]");
    /* what does not fit is said in words */
    const Val t = build_transpose(b, f->x, (const int64_t[]){1, 0});
    assert_non_null(strstr(infer_check(b, OP_add, (Val[]){f->x, t}, 2, NULL),
                           "the shapes [B, 4] and [4, B] do not broadcast: 4 against B"));
    assert_non_null(strstr(infer_check(b, OP_add, (Val[]){f->x, idx}, 2, NULL),
                           "the dtypes f32 and i32 differ"));
    assert_non_null(strstr(infer_check(b, OP_exp, &idx, 1, NULL), "floats"));
    assert_null(infer_check(b, OP_add, (Val[]){f->x, f->y}, 2, NULL));
}

static const char *print(Fix *f, const Program *p)
{
    StrBuf out = {.a = f->cx->perm};
    tensor_print(p, &out);
    return sb_text(&out);
}

static Program *parse(Fix *f, const char *text)
{
    return tensor_parse(f->cx, source_add(f->cx->sources, "t.tir", text, strlen(text), false));
}

static void test_round_trip(void **state)
{
    Fix *f = *state;
    Builder *b = &f->b;
    Graph *g = b->g;
    const Dim n = dim(f, 24);
    const uint32_t slot =
        program_add_slot(f->p, (Slot){.name = sym_of(f->cx->names, "seg0"),
                                      .kind = SLOT_PARAM,
                                      .saved = true,
                                      .type = type_of(f->p, DT_f32, &n, 1, PLACE_D0)});
    const Dim ws[2] = {f->four, f->four};
    const StateView view = {.name = sym_of(f->cx->names, "0.weight"),
                            .slot = slot,
                            .offset = 8,
                            .type = type_of(f->p, DT_f32, ws, 2, PLACE_D0),
                            .trainable = true};
    vec_push(f->cx->perm, &f->p->state, view);
    const Val w = build_view(b, &view);
    const Val mean =
        build_reduce(b, RED_moments, build2(b, OP_mul, f->x, num(f, 0.1)), (const int64_t[]){1}, 1);
    b->stage = STAGE_BACKWARD;
    const Val shown = build(b, OP_print, (Val[]){val_result(mean, 1)}, 1,
                            (Attr[]){{(const int64_t[]){sym_of(f->cx->names, "a \"b\"\n").id}, 1}});
    assert_int_equal(g->effects.n, 1);
    (void)shown;
    b->stage = -1;
    const Val sum = build2(b, OP_add, f->x, build_slice_axis(b, w, 0, dim(f, 2), dim(f, 1)));
    graph_result(f->p, g, sym_of(f->cx->names, "out"), sum, (Span){0});
    graph_commit(f->p, g, slot, build_full(b, DT_f32, -0.0, &n, 1));
    vec_push(
        f->cx->perm, &g->checks,
        ((EntryCheck){.guard = {.kind = G_LE, .a = f->B, .b = dim(f, 9)}, .message = "small"}));
    assert_null(tensor_verify(f->p, g, false));
    assert_non_null(tensor_verify(f->p, g, true)); /* f->x and a row broadcast */
    const char *text = print(f, f->p);
    Program *q = parse(f, text);
    if (!q) {
        StrBuf out = {.a = f->cx->perm};
        diag_render(f->cx->diags, (DiagStyle){0}, &out);
        fail_msg("%s\n%s", text, sb_text(&out));
    }
    assert_null(tensor_verify(q, q->graphs.at[0], false));
    /* symbols of equal names are told apart, so the second reading is compared */
    Fix other = {.cx = ctx_create()};
    Program *r = parse(&other, text);
    assert_non_null(r);
    assert_string_equal(print(&other, r), text);
    ctx_destroy(other.cx);
}

static void test_rewrite(void **state)
{
    Fix *f = *state;
    Builder *b = &f->b;
    const Val sum = build2(b, OP_add, f->x, f->y), dead = build1(b, OP_exp, f->x);
    const Val out = build2(b, OP_mul, sum, build1(b, OP_sin, f->y));
    graph_result(f->p, b->g, (Sym){0}, out, (Span){0});
    assert_false(graph_live(f->p, b->g)[dead.node]);
    assert_int_equal(graph_uses(f->p, b->g, NULL)[f->x.node], 2);
    Rewrite rw = rewrite_begin(f->p, b->g);
    for (uint32_t id = 1; id < b->g->nodes.n; id++)
        if (b->g->nodes.at[id].op == OP_sin) /* sin becomes 1, so the product goes */
            rewrite_set(&rw, (Val){id, 0}, build_const(&rw.b, DT_f32, 1));
        else if (rw.live[id])
            rewrite_copy(&rw, id);
    Graph *g = rewrite_end(&rw);
    assert_null(tensor_verify(f->p, g, true));
    assert_int_equal(graph_node(g, g->results.at[0].val)->op, OP_add);
    assert_int_equal(g->params.n, 3);
    assert_int_equal(graph_node(g, g->params.at[2].val)->op, OP_input);
}

static void rejects(Fix *f, const char *what)
{
    const char *error = tensor_verify(f->p, f->b.g, true);
    if (!error || !strstr(error, what))
        fail_msg("'%s' is expected, not '%s'", what, error ? error : "");
}

/* Damage that no pass may do. */
static void test_verify(void **state)
{
    Fix *f = *state;
    Builder *b = &f->b;
    Graph *g = b->g;
    const Val e = build1(b, OP_exp, f->x), s = build2(b, OP_add, e, f->y);
    graph_result(f->p, g, (Sym){0}, s, (Span){0});
    const Val check = build(b, OP_check, (Val[]){build2(b, OP_lt, e, f->y)}, 1,
                            (Attr[]){{(const int64_t[]){sym_of(f->cx->names, "t").id}, 1}});
    assert_null(tensor_verify(f->p, g, true));

    Node *n = &g->nodes.at[s.node];
    const Node good = *n;
    n->in = (Val[]){e, s};
    rejects(f, "does not precede");
    n->in = (Val[]){e, {f->y.node, 1}};
    rejects(f, "does not precede");
    n->in = (Val[]){e, f->w};
    rejects(f, "do not broadcast");
    *n = good;
    n->types = &g->nodes.at[f->w.node].types[0];
    rejects(f, "result 0 is f32[4, 4], not f32[B, 4]");
    *n = good;
    n->nout = 2;
    rejects(f, "2 results, not 1");
    *n = good;
    g->nodes.at[e.node].stage = STAGE_BACKWARD;
    rejects(f, "of a later stage");
    g->nodes.at[e.node].stage = 0;
    g->results.at[0].val.node = 99;
    rejects(f, "result 0 is no value");
    g->results.at[0].val = s;
    g->params.at[0].inout = 0;
    assert_null(tensor_verify(f->p, g, true));
    g->params.at[2].inout = 0;
    rejects(f, "the result that updates it has another type");
    g->params.at[0].inout = g->params.at[2].inout = -1;
    g->params.at[1].val = f->x;
    rejects(f, "two parameters are one input");
    g->params.at[1].val = f->y;
    vec_push(f->cx->perm, &g->effects, check);
    rejects(f, "the list of effects is too long");
    g->effects.n = 0;
    rejects(f, "the list of effects lacks it");
    g->effects.n = 1;
    const Dim two = dim(f, 2);
    const uint32_t slot =
        program_add_slot(f->p, (Slot){.name = sym_of(f->cx->names, "s"),
                                      .kind = SLOT_BUFFER,
                                      .type = type_of(f->p, DT_f32, &two, 1, PLACE_D0)});
    graph_commit(f->p, g, slot, s);
    rejects(f, "slot s gets a value of type f32[B, 4]");
    g->commits.n = 0;
    assert_null(tensor_verify(f->p, g, true));

    assert_null(program_verify(f->p));
    const StateView view = {.name = sym_of(f->cx->names, "v"),
                            .slot = slot,
                            .offset = 1,
                            .type = type_of(f->p, DT_f32, &two, 1, PLACE_D0)};
    vec_push(f->cx->perm, &f->p->state, view);
    assert_string_equal(program_verify(f->p), "v is not inside slot s");
    f->p->state.at[0].offset = 0;
    f->p->slots.at[slot].segment = slot;
    assert_non_null(strstr(program_verify(f->p), "no segment"));
}

/* Each text is wrong at one place and gives one message there. */
static void test_bad_text(void **state)
{
    Fix *f = *state;
    static const char *const cases[][2] = {
        {"tenon-ir 2\n", "version"},
        {"tenon-ir 1\nprogram m\nslot a what f32[]\n", "kind of slot"},
        {"tenon-ir 1\nprogram m\ngraph @f method (%x: f32[B]) {\n}\n", "unknown size"},
        {"tenon-ir 1\nprogram m\ngraph @f method (%x: f32[2]) {\n  %y = exp %z : f32[2]\n}\n",
         "no value %z"},
        {"tenon-ir 1\nprogram m\ngraph @f method (%x: f32[2]) {\n  %y = exp %x : f32[3]\n}\n",
         "the type of %y is not what is written: it is f32[2]"},
        {"tenon-ir 1\nprogram m\ngraph @f method (%x: f32[2]) {\n  %y = expp %x : f32[2]\n}\n",
         "no op 'expp'"},
        {"tenon-ir 1\nprogram m\ngraph @f method (%x: f32[2]) {\n  %y = transpose %x {perm=[1]} : "
         "f32[2]\n}\n",
         "no axis 1"},
        {"tenon-ir 1\nprogram m\ngraph @f method (%x: f32[2]) {\n  return %x#1\n}\n",
         "no result 1"},
        {"tenon-ir 1\nprogram m\ngraph @f method (%x: f32[2]) {\n  %y = gather %x, %x : "
         "f32[2]\n}\n",
         "needs one value for 'axis'"},
        {"tenon-ir 1\nprogram m\ngraph @f method () {\n", "is expected"},
        {"tenon-ir 1\nprogram m\ngraph @f method () {\n}\nxyz\n", "a graph is expected"},
        {"tenon-ir 1\nprogram m\ngraph @f method () {\n  %c = call {graph=0, results=1} : "
         "f32[]\n}\n",
         "calls itself"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Fix t = {.cx = ctx_create()};
        assert_null(parse(&t, cases[i][0]));
        StrBuf out = {.a = t.cx->perm};
        diag_render(t.cx->diags, (DiagStyle){0}, &out);
        assert_int_equal(diag_errors(t.cx->diags), 1);
        if (!strstr(sb_text(&out), cases[i][1]))
            fail_msg("%s\ngives\n%s", cases[i][0], sb_text(&out));
        ctx_destroy(t.cx);
    }
    (void)f;
}

static const char *const *files;
static int nfiles;

static void test_files(void **state)
{
    (void)state;
    for (int i = 0; i < nfiles; i++) {
        Fix f = {.cx = ctx_create()};
        const uint32_t file = source_read(f.cx->sources, files[i], false);
        assert_int_not_equal(file, 0);
        Program *p = tensor_parse(f.cx, file);
        if (!p) {
            StrBuf out = {.a = f.cx->perm};
            diag_render(f.cx->diags, (DiagStyle){0}, &out);
            fail_msg("%s", sb_text(&out));
        }
        assert_null(program_verify(p));
        for (uint32_t k = 0; k < p->graphs.n; k++) {
            const char *error = tensor_verify(p, p->graphs.at[k], false);
            if (error)
                fail_msg("%s: %s", files[i], error);
        }
        assert_string_equal(print(&f, p), source_file(f.cx->sources, file)->text);
        ctx_destroy(f.cx);
    }
}

/* Broken texts give messages, never a crash and never a graph that is not well formed. */
static void test_broken(void **state)
{
    (void)state;
    uint64_t rng = 1;
    for (int i = 0; i < nfiles; i++)
        for (int round = 0; round < 3000; round++) {
            Ctx *cx = ctx_create();
            const uint32_t file = source_read(cx->sources, files[i], false);
            const SourceFile *f = source_file(cx->sources, file);
            char *text = arena_strndup(cx->perm, f->text, f->n);
            for (int k = 0; k < 1 + round % 3; k++) {
                rng = rng * 6364136223846793005ull + 1442695040888963407ull;
                const uint32_t at = (uint32_t)(rng >> 33) % f->n,
                               from = (uint32_t)(rng >> 20) % f->n;
                text[at] = round % 2 ? f->text[from] : " %{}[]=,:#0123456789-\n"[rng >> 40 & 15];
            }
            Program *p = tensor_parse(cx, source_add(cx->sources, "t", text, f->n, false));
            assert_true(p || diag_errors(cx->diags) == 1);
            for (uint32_t k = 0; p && k < p->graphs.n; k++)
                if (tensor_verify(p, p->graphs.at[k], false))
                    fail_msg("round %d: %s", round, tensor_verify(p, p->graphs.at[k], false));
            ctx_destroy(cx);
        }
}

int main(int argc, char **argv)
{
    files = (const char *const *)argv + 1;
    nfiles = argc - 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sharing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fold_scalar, setup, teardown),
        cmocka_unit_test_setup_teardown(test_masks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fold_views, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fold_pads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_types, setup, teardown),
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rewrite, setup, teardown),
        cmocka_unit_test_setup_teardown(test_verify, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_text, setup, teardown),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_broken),
    };
    return cmocka_run_group_tests_name("tensor", tests, NULL, NULL);
}
