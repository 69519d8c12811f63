/* scalar.c: see scalar.h. SPDX-License-Identifier: MIT */
#include "ir/scalar.h"

#include "ir/base/die.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef double One(double x);
typedef double Two(double x, double y);

static double sign_bit(double x)
{
    return signbit(x) ? 1 : 0;
}

/* The functions that an expression may call. */
static const struct {
    const char *name;
    One *one;
    Two *two;
    bool three; /* fma */
} functions[] = {
    {"acos", acos, NULL, false},        {"asin", asin, NULL, false},
    {"atan", atan, NULL, false},        {"atan2", NULL, atan2, false},
    {"acosh", acosh, NULL, false},      {"asinh", asinh, NULL, false},
    {"atanh", atanh, NULL, false},      {"cbrt", cbrt, NULL, false},
    {"ceil", ceil, NULL, false},        {"copysign", NULL, copysign, false},
    {"cos", cos, NULL, false},          {"cosh", cosh, NULL, false},
    {"erf", erf, NULL, false},          {"erfc", erfc, NULL, false},
    {"exp", exp, NULL, false},          {"exp2", exp2, NULL, false},
    {"expm1", expm1, NULL, false},      {"fabs", fabs, NULL, false},
    {"fdim", NULL, fdim, false},        {"floor", floor, NULL, false},
    {"fma", NULL, NULL, true},          {"fmax", NULL, fmax, false},
    {"fmin", NULL, fmin, false},        {"fmod", NULL, fmod, false},
    {"hypot", NULL, hypot, false},      {"lgamma", lgamma, NULL, false},
    {"log", log, NULL, false},          {"log10", log10, NULL, false},
    {"log1p", log1p, NULL, false},      {"log2", log2, NULL, false},
    {"logb", logb, NULL, false},        {"nearbyint", nearbyint, NULL, false},
    {"pow", NULL, pow, false},          {"remainder", NULL, remainder, false},
    {"rint", rint, NULL, false},        {"round", round, NULL, false},
    {"signbit", sign_bit, NULL, false}, {"sin", sin, NULL, false},
    {"sinh", sinh, NULL, false},        {"sqrt", sqrt, NULL, false},
    {"tan", tan, NULL, false},          {"tanh", tanh, NULL, false},
    {"tgamma", tgamma, NULL, false},    {"trunc", trunc, NULL, false},
};

static int find_function(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(functions); i++)
        if (!strcmp(functions[i].name, name))
            return (int)i;
    return -1;
}

/* Binary operators, loosest first; operators of one level are neighbours. */
static const struct {
    const char *text;
    int level;
} binaries[] = {{"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<=", 4}, {">=", 4},
                {"<", 4},  {">", 4},  {"+", 5},  {"-", 5},  {"*", 6},  {"/", 6}};
enum { LOOSEST = 1, TIGHTEST = 6, MAX_DEPTH = 100 };

typedef struct {
    Arena *a;
    const char *text, *p;
    const char *const *names;
    uint32_t nnames;
    const char *error;
    uint32_t error_at;
    int depth;
} Parser;

static const ScalarExpr *parse_ternary(Parser *q);

static const ScalarExpr *fail(Parser *q, const char *at, const char *why)
{
    if (!q->error) {
        q->error = why;
        q->error_at = (uint32_t)(at - q->text);
    }
    static const ScalarExpr zero = {.kind = SC_NUMBER};
    return &zero;
}

static void skip(Parser *q)
{
    while (isspace((unsigned char)*q->p))
        q->p++;
}

static bool accept(Parser *q, char c)
{
    skip(q);
    if (*q->p != c)
        return false;
    q->p++;
    return true;
}

static const ScalarExpr *make(Parser *q, ScalarExpr e)
{
    ScalarExpr *r = arena_new(q->a, ScalarExpr);
    *r = e;
    return r;
}

static const ScalarExpr *parse_number(Parser *q)
{
    char *end;
    const char *start = q->p;
    const double v = strtod(start, &end);
    q->p = end;
    if (*q->p == 'f' || *q->p == 'F')
        q->p++;
    if (isalnum((unsigned char)*q->p) || *q->p == '_' || *q->p == '.' || start[1] == 'x' ||
        start[1] == 'X')
        return fail(q, start, "this is no decimal number");
    return make(q, (ScalarExpr){.kind = SC_NUMBER, .number = v});
}

static const ScalarExpr *parse_call(Parser *q, const char *name, const char *at)
{
    const int f = find_function(name);
    if (f < 0)
        return fail(q, at, "this is no function of <tgmath.h>");
    const uint32_t want = functions[f].three ? 3 : functions[f].two ? 2 : 1;
    ScalarExpr e = {.kind = SC_CALL, .op = functions[f].name};
    do {
        if (e.n == want)
            return fail(q, q->p, "there are too many arguments");
        e.arg[e.n++] = parse_ternary(q);
    } while (!q->error && accept(q, ','));
    if (!accept(q, ')'))
        return fail(q, q->p, "a ) is missing");
    return e.n == want ? make(q, e) : fail(q, at, "there are too few arguments");
}

static const ScalarExpr *parse_primary(Parser *q)
{
    skip(q);
    const char *at = q->p;
    if (accept(q, '(')) {
        const ScalarExpr *e = parse_ternary(q);
        return accept(q, ')') ? e : fail(q, q->p, "a ) is missing");
    }
    if (isdigit((unsigned char)*q->p) || *q->p == '.')
        return parse_number(q);
    if (!isalpha((unsigned char)*q->p) && *q->p != '_')
        return fail(q, at, *q->p ? "an operand is expected here" : "the expression ends too early");
    while (isalnum((unsigned char)*q->p) || *q->p == '_')
        q->p++;
    const char *name = arena_strndup(q->a, at, (size_t)(q->p - at));
    if (accept(q, '('))
        return parse_call(q, name, at);
    for (uint32_t i = 0; i < q->nnames; i++)
        if (!strcmp(q->names[i], name))
            return make(q, (ScalarExpr){.kind = SC_OPERAND, .operand = i});
    return fail(q, at, "this is no parameter");
}

static const ScalarExpr *parse_unary(Parser *q)
{
    skip(q);
    const char c = *q->p;
    if (c != '-' && c != '+' && c != '!')
        return parse_primary(q);
    if (q->p[1] == c && c != '!')
        return fail(q, q->p, "an operator that changes a value is not allowed");
    q->p++;
    if (++q->depth > MAX_DEPTH)
        return fail(q, q->p, "the expression is nested too deeply");
    const ScalarExpr *x = parse_unary(q);
    q->depth--;
    return make(q, (ScalarExpr){.kind = SC_UNARY,
                                .op = c == '-'   ? "-"
                                      : c == '+' ? "+"
                                                 : "!",
                                .n = 1,
                                .arg = {x}});
}

static const char *binary_at(const Parser *q, int level)
{
    for (size_t i = 0; i < ARRAY_LEN(binaries); i++) {
        const size_t n = strlen(binaries[i].text);
        if (!strncmp(q->p, binaries[i].text, n))
            return binaries[i].level == level ? binaries[i].text : NULL;
    }
    return NULL;
}

static const ScalarExpr *parse_binary(Parser *q, int level)
{
    if (level > TIGHTEST)
        return parse_unary(q);
    const ScalarExpr *x = parse_binary(q, level + 1);
    for (;;) {
        skip(q);
        const char *op = q->error ? NULL : binary_at(q, level);
        if (!op)
            return x;
        q->p += strlen(op);
        const ScalarExpr *y = parse_binary(q, level + 1);
        x = make(q, (ScalarExpr){.kind = SC_BINARY, .op = op, .n = 2, .arg = {x, y}});
    }
}

static const ScalarExpr *parse_ternary(Parser *q)
{
    if (++q->depth > MAX_DEPTH)
        return fail(q, q->p, "the expression is nested too deeply");
    const ScalarExpr *x = parse_binary(q, LOOSEST);
    if (accept(q, '?')) {
        const ScalarExpr *y = parse_ternary(q);
        if (!accept(q, ':'))
            return fail(q, q->p, "a : is missing");
        const ScalarExpr *z = parse_ternary(q);
        x = make(q, (ScalarExpr){.kind = SC_TERNARY, .n = 3, .arg = {x, y, z}});
    }
    q->depth--;
    return x;
}

const ScalarExpr *scalar_parse(Arena *a, const char *text, const char *const *names, uint32_t n,
                               const char **error, uint32_t *at)
{
    Parser q = {.a = a, .text = text, .p = text, .names = names, .nnames = n};
    const ScalarExpr *e = parse_ternary(&q);
    skip(&q);
    if (*q.p)
        fail(&q, q.p, "this cannot stand in a scalar expression");
    *error = q.error;
    *at = q.error_at;
    return q.error ? NULL : e;
}

static double eval_binary(const char *op, double x, double y)
{
    switch (op[0]) {
    case '+':
        return x + y;
    case '-':
        return x - y;
    case '*':
        return x * y;
    case '/':
        return x / y;
    case '<':
        return op[1] ? x <= y : x < y;
    case '>':
        return op[1] ? x >= y : x > y;
    case '=':
        return x == y;
    case '!':
        return x != y;
    case '&':
        return x != 0 && y != 0;
    default:
        return x != 0 || y != 0;
    }
}

double scalar_eval(const ScalarExpr *e, const double *operands)
{
    double x[3] = {0};
    for (uint32_t i = 0; i < e->n; i++)
        x[i] = scalar_eval(e->arg[i], operands);
    switch (e->kind) {
    case SC_NUMBER:
        return e->number;
    case SC_OPERAND:
        return operands[e->operand];
    case SC_UNARY:
        return e->op[0] == '-' ? -x[0] : e->op[0] == '+' ? x[0] : x[0] == 0;
    case SC_BINARY:
        return eval_binary(e->op, x[0], x[1]);
    case SC_TERNARY:
        return x[0] != 0 ? x[1] : x[2];
    case SC_CALL:
        break;
    }
    const int f = find_function(e->op);
    CHECK(f >= 0);
    return functions[f].three ? fma(x[0], x[1], x[2])
           : functions[f].two ? functions[f].two(x[0], x[1])
                              : functions[f].one(x[0]);
}
