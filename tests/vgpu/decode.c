/* decode.c: from the text of a function's body to instructions. SPDX-License-Identifier: MIT */
#include "tests/vgpu/decode.h"
#include "tests/vgpu/op.h"

#include <stdlib.h>

Inst *emit(Decoder *d, Exec *exec, InstKind kind, uint8_t registers)
{
    Inst i = {.exec = exec,
              .d = NO_SLOT,
              .a = NO_SLOT,
              .b = NO_SLOT,
              .c = NO_SLOT,
              .e = NO_SLOT,
              .d2 = NO_SLOT,
              .member = NO_SLOT,
              .guard = d->guard,
              .guard_not = d->guard_not,
              .kind = (uint8_t)kind,
              .line = d->line,
              .file = (uint16_t)d->file,
              .file_line = d->file_line,
              .text = d->text,
              .ntext = d->ntext};
    vec_push(d->scratch, &d->code, i);
    vec_push(d->scratch, &d->uses, (Uses){.fields = registers});
    return &vec_last(&d->code);
}

bool decode_error(Decoder *d, const char *why)
{
    return parse_error(d->x, d->line, "%s: '%.*s'", why, (int)d->ntext, d->text);
}

/* --- opcodes to rules ------------------------------------------------------------------------ */

static bool split(const Token *t, const char *text, bool local, Opcode *out)
{
    const size_t most = sizeof out->part / sizeof *out->part, longest = sizeof out->part[0];
    *out = (Opcode){.text = text};
    for (uint32_t i = 0; i < t->n;) {
        uint32_t from = i;
        while (i < t->n && t->text[i] != '.')
            i++;
        if ((size_t)out->n == most || i - from >= longest)
            return false;
        char *part = out->part[out->n++];
        memcpy(part, t->text + from, i - from);
        if (local && (!strcmp(part, "param") || !strncmp(part, "param::", 7)))
            memcpy(part, "local", sizeof "local");
        i++;
    }
    return true;
}

static bool find_rule(const Opcode *o, Rule *out)
{
    static bool (*const families[])(const Opcode *, Rule *) = {rule_alu,  rule_mem,  rule_cvt,
                                                               rule_half, rule_warp, rule_atom,
                                                               rule_mma,  rule_copy, rule_wmma};
    for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
        *out = (Rule){0};
        if (families[k](o, out))
            return true;
    }
    return false;
}

static const CachedRule *rule_of(Decoder *d, const Token *t, bool local)
{
    RuleCache *cache = d->rules;
    while (cache->by_sym[local].n <= t->sym.id)
        vec_push(cache->a, &cache->by_sym[local], NULL);
    CachedRule **at = &cache->by_sym[local].at[t->sym.id];
    if (!*at) {
        *at = arena_new(cache->a, CachedRule);
        (*at)->known = split(t, sym_text(d->x->names, t->sym), local, &(*at)->op) &&
                       find_rule(&(*at)->op, &(*at)->rule);
    }
    return *at;
}

/* --- statements ------------------------------------------------------------------------------ */

/* .loc file line column[, function_name .., inlined_at ..], to the end of the text's line. */
static bool location(Decoder *d)
{
    const Token *t = &d->x->t[d->i];
    if (t[1].kind == TOKEN_INT && t[2].kind == TOKEN_INT) {
        d->file = (uint32_t)t[1].value;
        d->file_line = (uint32_t)t[2].value;
    }
    uint32_t line = t->line;
    while (d->x->t[d->i].line == line && d->x->t[d->i].kind != TOKEN_END)
        d->i++;
    return true;
}

static bool directive(Decoder *d)
{
    const Token *t = &d->x->t[d->i];
    if (token_word(t, ".loc"))
        return location(d);
    if (token_word(t, ".reg")) {
        d->i++;
        return declare_registers(d);
    }
    if (token_word(t, ".shared") || token_word(t, ".local") || token_word(t, ".param"))
        return declare_variable(d);
    if (token_word(t, ".pragma")) {
        d->i += 3;
        return true;
    }
    return parse_error(d->x, t->line, "'%.*s' is not known in a body", (int)t->n, t->text);
}

static bool label(Decoder *d)
{
    const Token *t = &d->x->t[d->i];
    bool targets = token_word(&t[2], ".branchtargets");
    Name *n = name_add(d, t->sym, targets ? NAME_TARGETS : NAME_LABEL);
    n->value = targets ? d->i + 3 : d->code.n;
    d->i += 2;
    if (!targets)
        return true;
    while (!token_is(&d->x->t[d->i], ';') && d->x->t[d->i].kind != TOKEN_END)
        d->i++;
    d->i++;
    return true;
}

/* @%p or @!%p */
static bool guard(Decoder *d)
{
    d->i++;
    d->guard_not = token_is(&d->x->t[d->i], '!');
    d->i += d->guard_not;
    const Name *n = d->x->t[d->i].kind == TOKEN_WORD ? name_find(d, &d->x->t[d->i]) : NULL;
    if (!n || n->kind != NAME_PRED)
        return parse_error(d->x, d->x->t[d->i].line, "@ is not followed by a predicate");
    d->guard = n->slot;
    d->i++;
    return true;
}

static bool is_opcode(const Token *t, const char *first)
{
    size_t n = strlen(first);
    return t->n >= n && !memcmp(t->text, first, n) && (t->n == n || t->text[n] == '.');
}

static bool branch(Decoder *d)
{
    const Token *t = &d->x->t[d->i];
    if (t->kind != TOKEN_WORD)
        return decode_error(d, "a branch without a label");
    emit(d, exec_nop, INST_BRANCH, 0)->count = COUNT_BRANCH;
    branch_to(d, d->code.n - 1, NO_SLOT, t->sym);
    d->i++;
    return true;
}

/* brx.idx index, list; the list's labels may come before or after. */
static bool branch_index(Decoder *d)
{
    Operand index;
    if (!operand_read(d, &index) || !token_is(&d->x->t[d->i], ','))
        return decode_error(d, "brx.idx without a list");
    const Token *t = &d->x->t[d->i + 1];
    const Name *n = t->kind == TOKEN_WORD ? name_find(d, t) : NULL;
    uint32_t slot = slot_source(d, &index, 4), count = 0;
    if (!n || n->kind != NAME_TARGETS)
        return decode_error(d, "brx.idx without a list");
    for (const Token *k = &d->x->t[n->value]; !token_is(k, ';'); k++)
        count += k->kind == TOKEN_WORD;
    if (count > UINT8_MAX)
        return decode_error(d, "more than 255 targets");
    Inst *i = emit(d, exec_nop, INST_BRANCH_INDEX, 2);
    i->a = slot;
    i->count = COUNT_BRANCH;
    i->list = arena_array(d->a, uint32_t, count);
    i->nlist = (uint8_t)count;
    count = 0;
    for (const Token *k = &d->x->t[n->value]; !token_is(k, ';'); k++)
        if (k->kind == TOKEN_WORD)
            branch_to(d, d->code.n - 1, count++, k->sym);
    d->i += 2;
    return true;
}

/* Names the place behind a called function: `ret` goes there. */
static Sym return_label(Decoder *d)
{
    return sym_of(d->x->names, " return");
}

static bool leave(Decoder *d, bool exits)
{
    if (d->calls && !exits) {
        emit(d, exec_nop, INST_BRANCH, 0)->count = COUNT_BRANCH;
        branch_to(d, d->code.n - 1, NO_SLOT, return_label(d));
    } else {
        emit(d, exec_nop, INST_EXIT, 0)->count = COUNT_BRANCH;
    }
    return true;
}

static bool plain(Decoder *d, const Token *opcode)
{
    Operand o[8];
    uint32_t n = 0;
    bool local = false, address = false;
    while (!token_is(&d->x->t[d->i], ';')) {
        if (n && !token_is(&d->x->t[d->i++], ','))
            return decode_error(d, "operands without a comma");
        if (n == sizeof o / sizeof *o)
            return decode_error(d, "too many operands");
        if (!operand_read(d, &o[n]))
            return false;
        if (o[n].kind == OPERAND_ADDRESS) {
            local |= o[n].is_symbol && o[n].space == SPACE_LOCAL;
            address |= !o[n].is_symbol;
        }
        n++;
    }
    if (address && d->calls && strstr(sym_text(d->x->names, opcode->sym), ".param"))
        return decode_error(d, "a parameter of a called function at an address of a register");
    const CachedRule *r = rule_of(d, opcode, local);
    if (!r->known)
        return decode_error(d, "the virtual GPU does not know this instruction");
    return operands_place(d, &r->rule, &r->op, o, n);
}

static bool control(Decoder *d, const Token *t, bool *done)
{
    *done = true;
    if (is_opcode(t, "bra"))
        return branch(d);
    if (is_opcode(t, "brx"))
        return branch_index(d);
    if (is_opcode(t, "ret") || is_opcode(t, "exit"))
        return leave(d, t->text[0] == 'e');
    if (is_opcode(t, "trap") || is_opcode(t, "brkpt")) {
        emit(d, exec_nop, INST_TRAP, 0)->count = COUNT_BRANCH;
        return true;
    }
    if (is_opcode(t, "call"))
        return decode_call(d);
    *done = false;
    return true;
}

/* The text from the opcode to the semicolon, for messages. */
static void note_text(Decoder *d)
{
    const Token *t = &d->x->t[d->i], *end = t;
    while (!token_is(end, ';') && end->kind != TOKEN_END)
        end++;
    d->text = t->text;
    d->ntext = (uint32_t)(end->text - t->text);
    d->line = t->line;
}

static bool instruction(Decoder *d)
{
    bool done;
    d->guard = NO_GUARD;
    d->guard_not = false;
    if (token_is(&d->x->t[d->i], '@') && !guard(d))
        return false;
    const Token *opcode = &d->x->t[d->i];
    if (opcode->kind != TOKEN_WORD)
        return parse_error(d->x, opcode->line, "'%.*s' is no instruction", (int)opcode->n,
                           opcode->text);
    note_text(d);
    d->i++;
    if (!control(d, opcode, &done) || (!done && !plain(d, opcode)))
        return false;
    if (!token_is(&d->x->t[d->i], ';'))
        return decode_error(d, "an instruction does not end in ';'");
    d->i++;
    return true;
}

static bool statement(Decoder *d)
{
    const Token *t = &d->x->t[d->i];
    if (t->kind == TOKEN_PUNCT) {
        switch (t->value) {
        case '{':
            scope_open(d);
            d->i++;
            return true;
        case '}':
            scope_close(d);
            d->i++;
            return true;
        case ';':
            d->i++;
            return true;
        default:
            return instruction(d);
        }
    }
    if (t->kind == TOKEN_WORD && t->text[0] == '.')
        return directive(d);
    if (t->kind == TOKEN_WORD && token_is(&t[1], ':'))
        return label(d);
    return instruction(d);
}

bool decode_body(Decoder *d, uint32_t end)
{
    while (d->i < end)
        if (!statement(d))
            return false;
    return true;
}

/* --- calls ----------------------------------------------------------------------------------- */

enum { MAX_CALLS = 64 };

typedef struct {
    Name *name[16];
    uint32_t n;
} Arguments;

/* (param0, param1): variables in local memory */
static bool arguments(Decoder *d, Arguments *out)
{
    out->n = 0;
    d->i++;
    while (!token_is(&d->x->t[d->i], ')')) {
        if (out->n && !token_is(&d->x->t[d->i++], ','))
            return decode_error(d, "arguments without a comma");
        const Token *t = &d->x->t[d->i++];
        Name *n = t->kind == TOKEN_WORD ? name_find(d, t) : NULL;
        if (!n || n->kind != NAME_VARIABLE || out->n == sizeof out->name / sizeof *out->name)
            return decode_error(d, "arguments must be .param variables");
        out->name[out->n++] = n;
    }
    d->i++;
    return true;
}

static bool bind(Decoder *d, const ParamDecl *p, uint32_t n, const Arguments *to)
{
    if (n != to->n)
        return decode_error(d, "the number of arguments is another one");
    for (uint32_t k = 0; k < n; k++) {
        Name *name = name_add(d, p[k].name, NAME_VARIABLE);
        name->space = to->name[k]->space;
        name->value = to->name[k]->value;
    }
    return true;
}

/* printf and assert of device code: what the compiler makes of them. */
static bool system_call(Decoder *d, const Token *callee, const Arguments *in, const Arguments *out)
{
    bool print = token_word(callee, "vprintf"), assertion = token_word(callee, "__assertfail");
    if (!print && !assertion)
        return decode_error(d, "a call of a function that has no body here");
    if (in->n != (print ? 2 : 5))
        return decode_error(d, "the number of arguments is another one");
    uint32_t *list = arena_array(d->a, uint32_t, in->n);
    for (uint32_t k = 0; k < in->n; k++)
        list[k] = (uint32_t)in->name[k]->value;
    Inst *i = emit(d, print ? exec_print : exec_assert, INST_PLAIN, 0);
    i->list = list; /* offsets in local memory, not slots */
    i->nlist = (uint8_t)in->n;
    i->imm = out->n ? (int64_t)out->name[0]->value : -1;
    return true;
}

/* The callee's body stands in the caller's place: no stack, and one function to run. */
static bool inline_body(Decoder *d, const FuncDecl *f, const Arguments *in, const Arguments *out)
{
    uint32_t back = d->i, guard_slot = d->guard;
    bool guard_not = d->guard_not;
    if (d->calls == MAX_CALLS)
        return decode_error(d, "calls are nested too deeply (is it recursive?)");
    if (guard_slot != NO_GUARD) {
        d->guard_not = !guard_not;
        emit(d, exec_nop, INST_BRANCH, 0)->count = COUNT_BRANCH;
    }
    uint32_t skip = d->code.n - 1;
    d->calls++;
    scope_open(d);
    if (guard_slot != NO_GUARD)
        branch_to(d, skip, NO_SLOT, return_label(d));
    if (!bind(d, f->params, f->nparams, in) || !bind(d, f->results, f->nresults, out))
        return false;
    d->i = f->body + 1;
    if (!decode_body(d, f->body_end))
        return false;
    name_add(d, return_label(d), NAME_LABEL)->value = d->code.n;
    scope_close(d);
    d->calls--;
    d->i = back;
    return true;
}

bool decode_call(Decoder *d)
{
    Arguments in = {.n = 0}, out = {.n = 0};
    if (token_is(&d->x->t[d->i], '(')) {
        if (!arguments(d, &out) || !token_is(&d->x->t[d->i++], ','))
            return decode_error(d, "a call without a function");
    }
    const Token *callee = &d->x->t[d->i++];
    const FuncDecl *f = callee->kind == TOKEN_WORD ? find_function(d->x, callee->sym) : NULL;
    if (!f)
        return decode_error(d, "calls through pointers are not known");
    if (token_is(&d->x->t[d->i], ',')) {
        d->i++;
        if (!token_is(&d->x->t[d->i], '(') || !arguments(d, &in))
            return decode_error(d, "a call without its arguments");
    }
    return f->body ? inline_body(d, f, &in, &out) : system_call(d, callee, &in, &out);
}

/* --- the function ---------------------------------------------------------------------------- */

/* Diverged lanes can wait at targets, behind branches and where a warp collects its lanes. */
static void mark_leaders(Inst *code, uint32_t n)
{
    bool after = true;
    for (uint32_t k = 0; k < n; k++) {
        Inst *i = &code[k];
        bool collects = i->kind == INST_WARP || i->kind == INST_BARRIER;
        i->leader |= after || collects;
        after = i->kind != INST_PLAIN;
        if (i->kind == INST_BRANCH)
            code[i->target].leader = true;
        for (uint32_t t = 0; i->kind == INST_BRANCH_INDEX && t < i->nlist; t++)
            code[i->list[t]].leader = true;
    }
}

static void mark_runs(Inst *code, uint32_t n)
{
    for (uint32_t k = n; k-- > 0;) {
        Inst *i = &code[k];
        const Inst *next = k + 1 < n && !code[k + 1].leader ? &code[k + 1] : NULL;
        if (i->kind != INST_PLAIN || i->guard != NO_GUARD)
            continue;
        i->run = 1;
        i->run_mxcsr = i->mxcsr;
        if (!next || !next->run || next->run == UINT16_MAX ||
            (i->mxcsr && next->run_mxcsr && i->mxcsr != next->run_mxcsr))
            continue;
        i->run = (uint16_t)(next->run + 1);
        i->run_mxcsr = i->mxcsr ? i->mxcsr : next->run_mxcsr;
    }
}

static bool branches_are_closed(Decoder *d)
{
    if (!d->fixups.n)
        return true;
    const Fixup *f = &d->fixups.at[0];
    return parse_error(d->x, f->line, "the label '%s' does not exist",
                       sym_text(d->x->names, f->label));
}

static void declare_parameters(Decoder *d, const FuncDecl *decl)
{
    Parameter *params = arena_array(d->a, Parameter, decl->nparams);
    for (uint32_t k = 0; k < decl->nparams; k++) {
        Name *n = name_add(d, decl->params[k].name, NAME_VARIABLE);
        n->space = SPACE_PARAM;
        n->value = decl->params[k].at.offset;
        params[k] = decl->params[k].at;
    }
    d->f->params = params;
    d->f->nparams = (int)decl->nparams;
    d->f->param_bytes = decl->param_bytes;
}

/* What a compiler for the device needs beside those that live: the estimate is a rough one. */
enum { SYSTEM_REGISTERS = 8 };

static void *keep(Decoder *d, const void *scratch, size_t bytes)
{
    void *p = arena_alloc(d->a, bytes);
    if (bytes)
        memcpy(p, scratch, bytes);
    return p;
}

static void finish(Decoder *d, const FuncDecl *decl)
{
    Function *f = d->f;
    for (uint32_t k = 0; k < d->specials.n; k++) /* dynamic shared memory comes after the static */
        if (d->specials.at[k].which == SPECIAL_EXTERN_SHARED)
            d->shared_bytes = (d->shared_bytes + 15) & ~15u;
    mark_leaders(d->code.at, d->code.n);
    mark_runs(d->code.at, d->code.n);
    uint32_t words = allocate_slots(d);
    f->module = d->m;
    f->max_threads = decl->max_threads;
    memcpy(f->required, decl->required, sizeof f->required);
    f->code = keep(d, d->code.at, d->code.n * sizeof *d->code.at);
    f->ncode = (int)d->code.n;
    f->reg_bytes = d->reg_bytes;
    f->npreds = (int)d->npreds;
    f->shared_bytes = d->shared_bytes;
    f->local_bytes = (d->local_bytes + 15) & ~15u;
    f->nregisters = words + SYSTEM_REGISTERS > 255 ? 255 : words + SYSTEM_REGISTERS;
    f->constants = keep(d, d->constants.at, d->constants.n * sizeof *d->constants.at);
    f->nconstants = (int)d->constants.n;
    f->specials = keep(d, d->specials.at, d->specials.n * sizeof *d->specials.at);
    f->nspecials = (int)d->specials.n;
}

bool decode_function(Text *x, Module *m, RuleCache *rules, const FuncDecl *decl, Function *f)
{
    Decoder d = {.x = x, .a = x->a, .scratch = rules->scratch, .m = m, .f = f, .rules = rules};
    f->name = sym_text(x->names, decl->name);
    d.guard = NO_GUARD;
    slot_new(&d, 4); /* the lanes' carry flags: op_alu.c */
    scope_open(&d);
    declare_parameters(&d, decl);
    d.i = decl->body + 1;
    if (!decode_body(&d, decl->body_end))
        return false;
    d.guard = NO_GUARD;
    d.guard_not = false;
    d.text = "";
    d.ntext = 0;
    emit(&d, exec_nop, INST_EXIT, 0)->count = COUNT_BRANCH;
    scope_close(&d);
    if (!branches_are_closed(&d))
        return false;
    finish(&d, decl);
    return true;
}
