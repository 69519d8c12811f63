/* optext.c: see optext.h. The grammar of a row is C's for expressions over a, b, c, numbers and
 * calls. SPDX-License-Identifier: MIT */
#include "codegen/optext.h"
#include "codegen/paste.h"
#include "ir/base/die.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Arena *a;
    Target target;
    const char *at;
    DType type;
    const Text *in;
    uint32_t nin;
    const char *whole; /* for messages */
} Row;

static Text parse(Row *r, int least);

static void skip_space(Row *r)
{
    while (*r->at == ' ' || *r->at == '\n' || *r->at == '\t')
        r->at++;
}

static const char *wrap(const Row *r, Text x, int prec)
{
    return x.prec < prec ? arena_printf(r->a, "(%s)", x.text) : x.text;
}

/* --- operands, numbers, calls --------------------------------------------------------------------
 */

static Text number(Row *r)
{
    const char *start = r->at;
    char *end;
    strtod(start, &end);
    while (isalpha((unsigned char)*end))
        end++; /* suffixes of a user's text */
    r->at = end;
    size_t n = (size_t)(end - start);
    bool is_real = memchr(start, '.', n) || memchr(start, 'e', n);
    while (n && (start[n - 1] == 'f' || start[n - 1] == 'F'))
        n--;
    const char *text = arena_strndup(r->a, start, n);
    if (r->type == DT_f32)
        return (Text){arena_printf(r->a, is_real ? "%sf" : "%s.0f", text), PREC_PRIMARY};
    if (r->type == DT_f64 && !is_real)
        return (Text){arena_printf(r->a, "%s.0", text), PREC_PRIMARY};
    return (Text){text, PREC_PRIMARY};
}

/* What a function of a row is called for f32; for f64 it is the one of <math.h>. */
static const char *single_name(const Row *r, const char *name)
{
    static const struct {
        const char *row, *own;
    } renamed[] = {{"fabs", "tn_abs"},
                   {"rint", "tn_round"},
                   {"fma", "fmaf"},
                   {"fmax", "tn_max"},
                   {"fmin", "tn_min"},
                   {"floormod", "tn_mod_f32"},
                   {"floordiv", "tn_floordiv_f32"}};
    for (size_t i = 0; i < ARRAY_LEN(renamed); i++)
        if (!strcmp(renamed[i].row, name))
            return renamed[i].own;
    if (paste_has(name))
        return arena_printf(r->a, "tn_%s", name);
    size_t n = strlen(name);
    return n && name[n - 1] == 'f' ? name : arena_printf(r->a, "%sf", name);
}

static Text call(Row *r, const char *name)
{
    StrBuf args = {.a = r->a};
    r->at++; /* ( */
    Text first = {NULL, 0};
    for (int i = 0;; i++) {
        Text x = parse(r, PREC_TERNARY);
        if (!i)
            first = x;
        sb_printf(&args, "%s%s", i ? ", " : "", x.text);
        skip_space(r);
        char c = *r->at++;
        if (c == ')')
            break;
        if (c != ',')
            die("scalar expression \"%s\": expected , or )", r->whole);
    }
    if (!strcmp(name, "bitnot")) {
        const char *op = r->type == DT_bool ? "!" : "~";
        return (Text){arena_printf(r->a, "%s%s", op, wrap(r, first, PREC_UNARY)), PREC_UNARY};
    }
    if (!strcmp(name, "R"))
        return first;
    if (r->type == DT_f32)
        name = single_name(r, name);
    return (Text){arena_printf(r->a, "%s(%s)", name, sb_text(&args)), PREC_PRIMARY};
}

static Text word(Row *r)
{
    const char *start = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    const char *name = arena_strndup(r->a, start, (size_t)(r->at - start));
    skip_space(r);
    if (*r->at == '(')
        return call(r, name);
    uint32_t operand = (uint32_t)(name[0] - 'a');
    if (!name[1] && operand < r->nin)
        return r->in[operand];
    if (!strcmp(name, "MAX_FINITE"))
        return (Text){r->type == DT_f64 ? "1.7976931348623157e+308" : "3.40282347e+38f",
                      PREC_PRIMARY};
    return (Text){name, PREC_PRIMARY};
}

static Text primary(Row *r)
{
    skip_space(r);
    char c = *r->at;
    if (c == '-' || c == '!' || c == '~') {
        r->at++;
        Text x = parse(r, PREC_UNARY);
        const char *operand = wrap(r, x, PREC_UNARY);
        bool twice = c == '-' && *operand == '-';
        return (Text){arena_printf(r->a, twice ? "%c(%s)" : "%c%s", c, operand), PREC_UNARY};
    }
    if (c == '(') {
        r->at++;
        Text x = parse(r, PREC_TERNARY);
        skip_space(r);
        if (*r->at++ != ')')
            die("scalar expression \"%s\": expected )", r->whole);
        return x;
    }
    if (isdigit((unsigned char)c) || c == '.')
        return number(r);
    if (isalpha((unsigned char)c) || c == '_')
        return word(r);
    die("scalar expression \"%s\": unexpected character '%c'", r->whole, c);
}

/* --- operators -----------------------------------------------------------------------------------
 */

enum { PREC_BIT_OR = 6, PREC_BIT_XOR = 7, PREC_BIT_AND = 8, PREC_SHIFT = 11 };

static const struct {
    const char *text;
    int prec;
} operators[] = {
    {"||", PREC_OR},     {"&&", PREC_AND},    {"<<", PREC_SHIFT}, {">>", PREC_SHIFT},
    {"==", PREC_EQUAL},  {"!=", PREC_EQUAL},  {"<=", PREC_LESS},  {">=", PREC_LESS},
    {"<", PREC_LESS},    {">", PREC_LESS},    {"|", PREC_BIT_OR}, {"^", PREC_BIT_XOR},
    {"&", PREC_BIT_AND}, {"+", PREC_SUM},     {"-", PREC_SUM},    {"*", PREC_PRODUCT},
    {"/", PREC_PRODUCT}, {"%", PREC_PRODUCT},
};

/* Parentheses that C does not need but compilers and readers ask for. */
static int operand_prec(int prec)
{
    if (prec == PREC_OR)
        return PREC_BIT_OR;
    if (prec == PREC_EQUAL || prec == PREC_LESS)
        return PREC_SUM;
    if (prec == PREC_BIT_AND || prec == PREC_BIT_OR || prec == PREC_BIT_XOR || prec == PREC_SHIFT)
        return PREC_UNARY;
    return prec;
}

static const char *unsigned_of(const Row *r)
{
    bool wide = r->type == DT_i64;
    if (r->target == TARGET_CUDA)
        return wide ? "unsigned long long" : "unsigned";
    return wide ? "uint64_t" : "uint32_t";
}

static const char *value_type(const Row *r, DType type)
{
    KText t = {.target = r->target};
    return ktext_value(&t, type);
}

static Text infix(Row *r, const char *op, int prec, Text x, Text y)
{
    DTypeKind kind = dtype_kind(r->type);
    bool arithmetic = (prec == PREC_SUM || prec == PREC_PRODUCT) && op[0] != '/' && op[0] != '%';
    if (arithmetic && (kind == DK_INT || (kind == DK_UINT && r->type != DT_u64))) {
        const char *value = value_type(r, r->type);
        if (dtype_size(r->type) < 4) /* no overflow in int; then wrap */
            return (Text){arena_printf(r->a, "(%s)(%s %s %s)", value, wrap(r, x, prec), op,
                                       wrap(r, y, prec + 1)),
                          PREC_UNARY};
        const char *u = unsigned_of(r);
        return (Text){arena_printf(r->a, "(%s)((%s)%s %s (%s)%s)", value, u, wrap(r, x, PREC_UNARY),
                                   op, u, wrap(r, y, PREC_UNARY)),
                      PREC_UNARY};
    }
    bool literal =
        y.text[0] == '-' && (y.text[1] >= '0' && y.text[1] <= '9') && y.prec == PREC_UNARY;
    if (literal && *op == '+') /* x + -1.0f and x - 1.0f are the same number */
        return infix(r, "-", prec, x, (Text){y.text + 1, PREC_PRIMARY});
    if (literal && *op == '-' && prec == PREC_SUM)
        return infix(r, "+", prec, x, (Text){y.text + 1, PREC_PRIMARY});
    int least = operand_prec(prec), left = least > prec ? least : prec;
    int right = least > prec ? least : prec + 1;
    return (Text){arena_printf(r->a, "%s %s %s", wrap(r, x, left), op, wrap(r, y, right)), prec};
}

static Text parse(Row *r, int least)
{
    Text x = primary(r);
    for (;;) {
        skip_space(r);
        if (*r->at == '?' && least <= PREC_TERNARY) {
            r->at++;
            Text y = parse(r, PREC_TERNARY);
            skip_space(r);
            if (*r->at++ != ':')
                die("scalar expression \"%s\": expected :", r->whole);
            Text z = parse(r, PREC_TERNARY);
            return (Text){arena_printf(r->a, "%s ? %s : %s", wrap(r, x, PREC_OR),
                                       wrap(r, y, PREC_OR), wrap(r, z, PREC_TERNARY)),
                          PREC_TERNARY};
        }
        size_t i;
        for (i = 0; i < ARRAY_LEN(operators); i++)
            if (!strncmp(r->at, operators[i].text, strlen(operators[i].text)))
                break;
        if (i == ARRAY_LEN(operators) || operators[i].prec < least)
            return x;
        r->at += strlen(operators[i].text);
        Text y = parse(r, operators[i].prec + 1);
        x = infix(r, operators[i].text, operators[i].prec, x, y);
    }
}

static Text render(Row *r)
{
    r->at = r->whole;
    Text x = parse(r, PREC_TERNARY);
    skip_space(r);
    if (*r->at)
        die("scalar expression \"%s\": unexpected \"%s\"", r->whole, r->at);
    return x;
}

/* --- rows ----------------------------------------------------------------------------------------
 */

/* Whether a row mentions an operand more than once. */
static bool repeats(const char *row, uint32_t operand)
{
    int n = 0;
    for (const char *s = row; *s; s++) {
        if (!isalnum((unsigned char)*s) && *s != '_')
            continue;
        const char *start = s;
        while (isalnum((unsigned char)s[1]) || s[1] == '_')
            s++;
        n += s == start && *s == (char)('a' + operand);
    }
    return n > 1;
}

/* "relu" for f32, "relu_f64" for others. */
static const char *row_name(Arena *a, Op op, DType type)
{
    if (type == DT_f32)
        return op_name(op);
    return arena_printf(a, "%s_%s", op_name(op), dtype_name(type));
}

static Text call_text(KText *t, const char *name, DType narrow, const Text *in, uint32_t nin)
{
    StrBuf out = {.a = t->a};
    if (narrow)
        sb_printf(&out, "(%s)", ktext_value(t, narrow));
    sb_printf(&out, "tn_%s(", name);
    for (uint32_t i = 0; i < nin; i++)
        sb_printf(&out, "%s%s", i ? ", " : "", in[i].text);
    sb_puts(&out, ")");
    return (Text){sb_text(&out), narrow ? PREC_UNARY : PREC_PRIMARY};
}

Text op_text(KText *t, Op op, DType type, const Text *in, uint32_t nin)
{
    const OpInfo *info = op_info(op);
    bool small = type == DT_i16 || type == DT_i8 || type == DT_u8;
    const char *name = row_name(t->a, op, type);
    const char *sized = arena_printf(t->a, "%s_%s", op_name(op), small ? "i32" : dtype_name(type));
    if (paste_has(name))
        return call_text(t, name, DT_none, in, nin);
    if (type != DT_bool && paste_has(sized))
        return call_text(t, sized, small ? type : DT_none, in, nin);
    for (uint32_t i = 0; i < nin; i++)
        if (in[i].prec < PREC_PRIMARY && repeats(info->scalar, i))
            return call_text(t, name, DT_none, in, nin);
    Row r = {t->a, t->target, NULL, type, in, nin, info->scalar};
    return render(&r);
}

Text extern_text(KText *t, const char *expression, DType type, const Text *in, uint32_t nin)
{
    Text wrapped[3];
    for (uint32_t i = 0; i < nin && i < 3; i++)
        wrapped[i] = (Text){ktext_wrap(t, in[i], PREC_UNARY), PREC_PRIMARY};
    Row r = {t->a, t->target, NULL, type, wrapped, nin, expression};
    return render(&r);
}

const char *row_function(Arena *a, Target target, const char *name)
{
    static const Text operands[] = {{"a", PREC_PRIMARY}, {"b", PREC_PRIMARY}, {"c", PREC_PRIMARY}};
    for (int op = 1; op < OP_COUNT; op++) {
        const OpInfo *info = op_info((Op)op);
        size_t n = strlen(info->name);
        if (!info->pointwise || strncmp(name, info->name, n) || (name[n] && name[n] != '_'))
            continue;
        DType type = name[n] ? dtype_parse(name + n + 1) : DT_f32;
        if (type == DT_none)
            continue;
        Row r = {a, target, NULL, type, operands, (uint32_t)info->nmax, info->scalar};
        const char *value = value_type(&r, type);
        Text body = render(&r);
        StrBuf out = {.a = a};
        sb_printf(&out, "%s %s tn_%s(",
                  target == TARGET_CUDA ? "static __device__ __forceinline__" : "TN_INLINE",
                  value_type(&r, info->result == RES_BOOL ? DT_bool : type), name);
        for (int i = 0; i < info->nmax; i++)
            sb_printf(&out, "%s%s %c", i ? ", " : "",
                      op == OP_where && i == 0 ? value_type(&r, DT_bool) : value, 'a' + i);
        sb_printf(&out, ")\n{\n    return %s;\n}\n", body.text);
        return sb_text(&out);
    }
    return NULL;
}
