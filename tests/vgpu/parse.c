/* parse.c: see parse.h. SPDX-License-Identifier: MIT */
#include "tests/vgpu/parse.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool parse_error(Text *x, uint32_t line, const char *fmt, ...)
{
    if (x->error)
        return false;
    va_list ap;
    va_start(ap, fmt);
    x->error = arena_printf(x->a, "PTX line %u: %s", line, arena_vprintf(x->a, fmt, ap));
    va_end(ap);
    return false;
}

static bool unexpected(Text *x, uint32_t i, const char *where)
{
    const Token *t = &x->t[i];
    if (t->kind == TOKEN_END)
        return parse_error(x, t->line, "the text ends in %s", where);
    return parse_error(x, t->line, "'%.*s' is not expected in %s", (int)t->n, t->text, where);
}

const FuncDecl *find_function(const Text *x, Sym name)
{
    for (uint32_t i = 0; i < x->funcs.n; i++)
        if (sym_eq(x->funcs.at[i].name, name))
            return &x->funcs.at[i];
    return NULL;
}

VarDecl *find_variable(const Text *x, Sym name)
{
    for (uint32_t i = 0; i < x->vars.n; i++)
        if (sym_eq(x->vars.at[i].name, name))
            return &x->vars.at[i];
    return NULL;
}

uint32_t parse_type(const Token *t)
{
    static const struct {
        const char *name;
        uint32_t bytes;
    } types[] = {{".b8", 1},  {".u8", 1},    {".s8", 1},    {".b16", 2}, {".u16", 2},
                 {".s16", 2}, {".f16", 2},   {".bf16", 2},  {".b32", 4}, {".u32", 4},
                 {".s32", 4}, {".f32", 4},   {".b64", 8},   {".u64", 8}, {".s64", 8},
                 {".f64", 8}, {".f16x2", 4}, {".bf16x2", 4}};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (token_word(t, types[k].name))
            return types[k].bytes;
    return 0;
}

bool parse_integer(Text *x, uint32_t *i, uint64_t *out)
{
    bool minus = token_is(&x->t[*i], '-');
    *i += minus;
    if (x->t[*i].kind != TOKEN_INT)
        return unexpected(x, *i, "a constant");
    uint64_t v = x->t[(*i)++].value;
    *out = minus ? 0 - v : v;
    return true;
}

static bool is_power_of_two(uint64_t v)
{
    return v && !(v & (v - 1));
}

static bool alignment(Text *x, uint32_t *i, uint32_t *out)
{
    uint64_t v = 0;
    if (!parse_integer(x, i, &v))
        return false;
    if (!is_power_of_two(v) || v > 65536)
        return parse_error(x, x->t[*i].line, ".align is no power of two");
    *out = (uint32_t)v;
    return true;
}

/* --- variables ------------------------------------------------------------------------------- */

typedef struct {
    uint8_t *bytes;
    uint64_t n, at;
    uint32_t element;
    VEC(AddressIn) addresses;
} Init;

/* symbol, generic(symbol), symbol+4, with an optional mask(..) around it. */
static bool init_address(Text *x, uint32_t *i, Init *init, uint64_t mask)
{
    bool generic = token_word(&x->t[*i], "generic") && token_is(&x->t[*i + 1], '(');
    *i += generic ? 2 : 0;
    if (x->t[*i].kind != TOKEN_WORD)
        return unexpected(x, *i, "an initialiser");
    AddressIn in = {.offset = init->at,
                    .symbol = x->t[(*i)++].sym,
                    .mask = mask,
                    .size = (uint8_t)init->element};
    if (generic && !token_is(&x->t[(*i)++], ')'))
        return unexpected(x, *i - 1, "an initialiser");
    if (token_is(&x->t[*i], '+') || token_is(&x->t[*i], '-')) {
        *i += token_is(&x->t[*i], '+');
        if (!parse_integer(x, i, &in.add))
            return false;
    }
    vec_push(x->a, &init->addresses, in);
    return true;
}

static bool init_element(Text *x, uint32_t *i, Init *init)
{
    const Token *t = &x->t[*i];
    uint64_t v = t->value;
    if (init->at + init->element > init->n)
        return parse_error(x, t->line, "the initialiser is longer than its variable");
    if (t->kind == TOKEN_INT && token_is(&x->t[*i + 1], '(')) {
        *i += 2;
        if (!init_address(x, i, init, v) || !token_is(&x->t[(*i)++], ')'))
            return unexpected(x, *i - 1, "an initialiser");
    } else if (t->kind == TOKEN_WORD) {
        if (!init_address(x, i, init, UINT64_MAX))
            return false;
    } else if (t->kind == TOKEN_DOUBLE || t->kind == TOKEN_FLOAT) {
        (*i)++;
        if (t->kind == TOKEN_DOUBLE && init->element == 4) {
            double d;
            memcpy(&d, &v, sizeof d);
            float f = (float)d;
            v = 0;
            memcpy(&v, &f, sizeof f);
        }
        memcpy(init->bytes + init->at, &v, init->element);
    } else {
        if (!parse_integer(x, i, &v))
            return false;
        memcpy(init->bytes + init->at, &v, init->element);
    }
    init->at += init->element;
    return true;
}

static bool initialiser(Text *x, uint32_t *i, VarDecl *d, uint32_t element)
{
    Init init = {.n = d->v.size, .element = element};
    init.bytes = arena_alloc(x->a, d->v.size + 8);
    int depth = 0;
    do {
        if (token_is(&x->t[*i], '{')) {
            depth++, (*i)++;
        } else if (token_is(&x->t[*i], '}')) {
            depth--, (*i)++;
        } else if (token_is(&x->t[*i], ',') && depth) {
            (*i)++;
        } else if (!init_element(x, i, &init)) {
            return false;
        }
    } while (depth > 0);
    d->init = init.bytes;
    d->addresses = init.addresses.at;
    d->naddresses = init.addresses.n;
    return true;
}

/* x[2][3]; x[] has no size: how much there is comes with the launch. */
static bool dimensions(Text *x, uint32_t *i, uint64_t *count)
{
    *count = 1;
    while (token_is(&x->t[*i], '[')) {
        uint64_t n = 0;
        (*i)++;
        if (!token_is(&x->t[*i], ']') && !parse_integer(x, i, &n))
            return false;
        if (!token_is(&x->t[(*i)++], ']'))
            return unexpected(x, *i - 1, "the size of an array");
        *count *= n;
    }
    return true;
}

/* x[] = {1, 2, 3}: as long as its initialiser, at the brace. */
static uint64_t count_elements(const Text *x, uint32_t i)
{
    uint64_t n = 1;
    for (; x->t[i].kind != TOKEN_END && !token_is(&x->t[i], '}'); i++)
        n += token_is(&x->t[i], ',');
    return n;
}

bool parse_variable(Text *x, uint32_t *i, VarDecl *out)
{
    static const char *const vectors[] = {".v2", ".v4", ".v8"};
    uint32_t element = 0, align = 0, vector = 1;
    uint64_t count;
    for (; x->t[*i].kind == TOKEN_WORD && x->t[*i].text[0] == '.'; (*i)++) {
        const Token *t = &x->t[*i];
        bool known = false;
        if (token_word(t, ".align")) {
            (*i)++;
            if (!alignment(x, i, &align))
                return false;
            (*i)--;
            continue;
        }
        for (uint32_t k = 0; k < 3; k++)
            if (token_word(t, vectors[k]))
                vector = 2u << k, known = true;
        if (!known && !(element = parse_type(t)))
            return unexpected(x, *i, "the declaration of a variable");
    }
    if (x->t[*i].kind != TOKEN_WORD || !element)
        return unexpected(x, *i, "the declaration of a variable");
    out->line = x->t[*i].line;
    out->name = x->t[*i].sym;
    out->v.name = sym_text(x->names, x->t[(*i)++].sym);
    if (!dimensions(x, i, &count))
        return false;
    if (!count && token_is(&x->t[*i], '='))
        count = count_elements(x, *i + 1);
    out->v.align = align ? align : element * vector;
    out->v.size = count * element * vector;
    if (token_is(&x->t[*i], '=') && ((*i)++, !initialiser(x, i, out, element)))
        return false;
    if (!token_is(&x->t[*i], ';'))
        return unexpected(x, *i, "the declaration of a variable");
    (*i)++;
    return true;
}

/* --- functions ------------------------------------------------------------------------------- */

static bool parameter(Text *x, uint32_t *i, ParamDecl *p)
{
    uint32_t align = 0, element = 0;
    uint64_t count;
    bool pointee = false;
    if (!token_word(&x->t[*i], ".param"))
        return unexpected(x, *i, "a list of parameters");
    for ((*i)++; x->t[*i].kind == TOKEN_WORD && x->t[*i].text[0] == '.'; (*i)++) {
        const Token *t = &x->t[*i];
        if (token_word(t, ".align")) {
            uint32_t v = 0;
            (*i)++;
            if (!alignment(x, i, &v))
                return false;
            (*i)--;
            align = pointee ? align : v;
        } else if (token_word(t, ".ptr")) {
            pointee = true; /* its space and .align are those of what it points to */
        } else if (pointee && (token_word(t, ".global") || token_word(t, ".shared") ||
                               token_word(t, ".const") || token_word(t, ".local"))) {
            continue;
        } else if (!(element = parse_type(t))) {
            return unexpected(x, *i, "a parameter");
        }
    }
    if (x->t[*i].kind != TOKEN_WORD || !element)
        return unexpected(x, *i, "a parameter");
    p->name = x->t[(*i)++].sym;
    if (!dimensions(x, i, &count))
        return false;
    p->at.size = (uint32_t)count * element;
    p->at.align = align ? align : element;
    return true;
}

static bool parameters(Text *x, uint32_t *i, const ParamDecl **out, uint32_t *n, uint32_t *bytes)
{
    VEC(ParamDecl) list = {0};
    uint32_t offset = 0;
    (*i)++;
    while (!token_is(&x->t[*i], ')')) {
        ParamDecl p = {0};
        if (token_is(&x->t[*i], ',') && list.n)
            (*i)++;
        if (!parameter(x, i, &p))
            return false;
        p.at.offset = (offset + p.at.align - 1) & ~(p.at.align - 1);
        offset = p.at.offset + p.at.size;
        vec_push(x->a, &list, p);
    }
    (*i)++;
    *out = list.at;
    *n = list.n;
    *bytes = offset;
    return true;
}

/* .maxntid 256, 1, 1 and the like, between the parameters and the body. */
static bool attribute(Text *x, uint32_t *i, FuncDecl *f)
{
    static const char *const ignored[] = {
        ".minnctapersm", ".maxnctapersm",        ".maxnreg", ".noreturn", ".maxclusterrank",
        ".abi_preserve", ".abi_preserve_control"};
    const Token *name = &x->t[(*i)++];
    uint32_t n[3] = {1, 1, 1}, count = 0;
    for (bool again = x->t[*i].kind == TOKEN_INT; again; again = token_is(&x->t[*i], ',') && ++*i) {
        uint64_t v = 0;
        if (!parse_integer(x, i, &v) || count == 3)
            return parse_error(x, name->line, "bad %.*s", (int)name->n, name->text);
        n[count++] = (uint32_t)v;
    }
    if (token_word(name, ".maxntid")) {
        f->max_threads = n[0] * n[1] * n[2];
    } else if (token_word(name, ".reqntid")) {
        memcpy(f->required, n, sizeof n);
        f->max_threads = n[0] * n[1] * n[2];
    } else {
        for (size_t k = 0; k < sizeof ignored / sizeof *ignored; k++)
            if (token_word(name, ignored[k]))
                return true;
        if (token_word(name, ".pragma") && x->t[*i].kind == TOKEN_STRING) {
            *i += 2;
            return true;
        }
        return parse_error(x, name->line, "'%.*s' is not known", (int)name->n, name->text);
    }
    return true;
}

/* From { to the } that belongs to it. */
static bool skip_braces(Text *x, uint32_t *i)
{
    int depth = 0;
    do {
        depth += token_is(&x->t[*i], '{') - token_is(&x->t[*i], '}');
        if (x->t[*i].kind == TOKEN_END)
            return unexpected(x, *i, "a body");
        (*i)++;
    } while (depth);
    return true;
}

static void add_function(Text *x, const FuncDecl *f)
{
    FuncDecl *before = (FuncDecl *)(uintptr_t)find_function(x, f->name);
    if (!before)
        vec_push(x->a, &x->funcs, *f);
    else if (f->body)
        *before = *f;
}

static bool function(Text *x, uint32_t *i)
{
    FuncDecl f = {.entry = token_word(&x->t[*i], ".entry"), .line = x->t[*i].line};
    uint32_t bytes;
    (*i)++;
    while (token_word(&x->t[*i], ".noreturn"))
        (*i)++;
    if (!f.entry && token_is(&x->t[*i], '(') && !parameters(x, i, &f.results, &f.nresults, &bytes))
        return false;
    if (x->t[*i].kind != TOKEN_WORD)
        return unexpected(x, *i, "the head of a function");
    f.name = x->t[(*i)++].sym;
    if (token_is(&x->t[*i], '(') && !parameters(x, i, &f.params, &f.nparams, &f.param_bytes))
        return false;
    while (x->t[*i].kind == TOKEN_WORD && x->t[*i].text[0] == '.')
        if (!attribute(x, i, &f))
            return false;
    if (token_is(&x->t[*i], ';')) {
        (*i)++;
    } else if (token_is(&x->t[*i], '{')) {
        f.body = *i;
        if (!skip_braces(x, i))
            return false;
        f.body_end = *i - 1;
    } else {
        return unexpected(x, *i, "the head of a function");
    }
    add_function(x, &f);
    return true;
}

/* --- the module ------------------------------------------------------------------------------ */

static bool target(Text *x, uint32_t *i)
{
    const Token *t = &x->t[++*i];
    if (t->kind != TOKEN_WORD || t->n < 5 || memcmp(t->text, "sm_", 3))
        return unexpected(x, *i, ".target");
    x->target = atoi(t->text + 3);
    for ((*i)++; token_is(&x->t[*i], ','); *i += 2)
        if (!token_word(&x->t[*i + 1], "debug") &&
            !token_word(&x->t[*i + 1], "texmode_independent"))
            return unexpected(x, *i + 1, ".target");
    return true;
}

/* .file 1 "name.cu"[, time, size] */
static bool file(Text *x, uint32_t *i)
{
    uint64_t number = 0;
    (*i)++;
    if (!parse_integer(x, i, &number) || x->t[*i].kind != TOKEN_STRING || number > 65535)
        return unexpected(x, *i, ".file");
    while (x->files.n <= number)
        vec_push(x->a, &x->files, "");
    x->files.at[number] = arena_strndup(x->a, x->t[*i].text, x->t[*i].n);
    for ((*i)++; token_is(&x->t[*i], ','); *i += 2)
        continue;
    return true;
}

static uint8_t variable_space(const Token *t)
{
    return (uint8_t)(token_word(t, ".global")   ? SPACE_GLOBAL
                     : token_word(t, ".const")  ? SPACE_CONST
                     : token_word(t, ".shared") ? SPACE_SHARED
                     : token_word(t, ".local")  ? SPACE_LOCAL
                                                : SPACE_GENERIC);
}

static bool linked(Text *x, uint32_t *i)
{
    bool external = false;
    while (token_word(&x->t[*i], ".visible") || token_word(&x->t[*i], ".extern") ||
           token_word(&x->t[*i], ".weak") || token_word(&x->t[*i], ".common"))
        external |= token_word(&x->t[(*i)++], ".extern");
    if (token_word(&x->t[*i], ".entry") || token_word(&x->t[*i], ".func"))
        return function(x, i);
    VarDecl d = {.v.space = variable_space(&x->t[*i]), .v.external = external};
    if (d.v.space == SPACE_GENERIC)
        return unexpected(x, *i, "the module's scope");
    (*i)++;
    if (!parse_variable(x, i, &d))
        return false;
    if (external && d.v.space != SPACE_SHARED)
        return parse_error(x, d.line, "'%s' is defined in another module", d.v.name);
    vec_push(x->a, &x->vars, d);
    return true;
}

static bool declaration(Text *x, uint32_t *i)
{
    const Token *t = &x->t[*i];
    if (token_word(t, ".target"))
        return target(x, i);
    if (token_word(t, ".file"))
        return file(x, i);
    if (token_word(t, ".section")) {
        for ((*i)++; !token_is(&x->t[*i], '{') && x->t[*i].kind != TOKEN_END;)
            (*i)++;
        return skip_braces(x, i);
    }
    if (token_word(t, ".pragma") || token_word(t, ".version") || token_word(t, ".address_size")) {
        /* .version 9.0 is a decimal, .address_size 64 an integer */
        if (token_word(t, ".address_size") && x->t[*i + 1].value != 64)
            return parse_error(x, t->line, "only 64-bit addresses are known");
        *i += token_word(t, ".pragma") ? 3 : 2;
        return true;
    }
    if (token_is(t, ';')) {
        (*i)++;
        return true;
    }
    return linked(x, i);
}

bool parse_module(Text *x, const char *ptx, size_t n)
{
    uint32_t line = 0, i = 0;
    x->t = lex(x->a, x->names, ptx, n, &line);
    if (!x->t)
        return parse_error(x, line, "a character that PTX does not have");
    if (!token_word(&x->t[0], ".version"))
        return parse_error(x, 1, "PTX begins with .version");
    while (x->t[i].kind != TOKEN_END)
        if (!declaration(x, &i))
            return false;
    return true;
}
