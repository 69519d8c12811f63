/* decode.h: from a function's tokens to instructions; what names.c, operand.c and decode.c share.
 * SPDX-License-Identifier: MIT */
#ifndef VGPU_DECODE_H
#define VGPU_DECODE_H

#include "tests/vgpu/parse.h"

typedef enum {
    NAME_REGISTER, /* slot, width */
    NAME_PRED,     /* slot is the index in Warp.preds */
    NAME_VARIABLE, /* space, value is the address in it; also parameters */
    NAME_LABEL,    /* value is the instruction */
    NAME_TARGETS   /* of .branchtargets; value is its first token */
} NameKind;

typedef struct Name {
    struct Name *outer; /* the one that this one hides */
    uint64_t value;
    uint32_t slot;
    int depth;
    uint8_t kind, width, space;
    bool external; /* extern .shared: begins where SPECIAL_EXTERN_SHARED says */
} Name;

/* .reg .b32 %r<10>: ten names that are made when used. */
typedef struct {
    const char *prefix;
    uint32_t n, count;
    int depth;
    uint8_t kind, width;
} Range;

/* A branch whose label has not been seen yet. */
typedef struct {
    uint32_t inst, list; /* list: number in the branch's list of targets, or NO_SLOT: `target` */
    Sym label;
    int depth;
    uint32_t line;
} Fixup;

typedef struct {
    Sym name;
    int depth;
} Declared;

/* A .shared variable of a body: one place, however often a function is called. */
typedef struct {
    uint32_t token;
    uint64_t address;
} SharedAt;

/* Opcode to rule, kept for a whole module. */
typedef struct {
    bool known;
    Rule rule;
    Opcode op;
} CachedRule;

typedef struct {
    Arena *a, *scratch;          /* scratch: emptied after each function */
    VEC(CachedRule *) by_sym[2]; /* [1]: parameters of calls, which live in local memory */
} RuleCache;

/* Which of an instruction's fields are registers, for allocate.c. */
typedef struct {
    uint8_t fields;       /* bit 0 d, 1 a, 2 b, 3 c, 4 e */
    uint8_t list_width;   /* of the list's slots; 0: it holds none */
    uint8_t list_defines; /* the first ones are destinations */
    bool member;
} Uses;

typedef struct {
    Text *x;
    Arena *a;       /* what stays */
    Arena *scratch; /* until the function is done */
    Module *m;
    Function *f;
    RuleCache *rules;
    uint32_t i; /* token */

    VEC(Name *) names; /* by symbol */
    VEC(Declared) declared;
    VEC(Range) ranges;
    VEC(Fixup) fixups;
    VEC(uint32_t) marks; /* declared.n where each open scope began */
    VEC(SharedAt) shared_at;
    int depth, calls;

    VEC(Inst) code;
    VEC(Uses) uses; /* by instruction */
    VEC(struct Constant) constants;
    VEC(struct SpecialSlot) specials;
    uint32_t *constant_table, constant_size; /* open addressing; 0 is free, else index + 1 */
    uint32_t reg_bytes, npreds, shared_bytes, local_bytes;

    /* of the instruction being read */
    Sym opcode;
    uint32_t guard, line, file, file_line, ntext;
    bool guard_not;
    const char *text;
} Decoder;

/* An operand of the text. */
typedef enum {
    OPERAND_REGISTER, /* also special registers */
    OPERAND_PRED,
    OPERAND_CONSTANT, /* token_kind, value; also addresses of variables */
    OPERAND_ADDRESS,  /* slot and width of the base, value the offset */
    OPERAND_LIST,
    OPERAND_SINK
} OperandKind;

typedef struct Operand {
    uint8_t kind, width, token_kind, space;
    bool negated, is_symbol;
    uint32_t slot, n;
    uint64_t value;
    const struct Operand *items; /* of a list; or the second one of a|b */
} Operand;

/* --- names.c --------------------------------------------------------------------------------- */

void scope_open(Decoder *d);
/** Resolves the branches to labels of the scope, and forgets its names. */
void scope_close(Decoder *d);
Name *name_add(Decoder *d, Sym sym, NameKind kind);
/** NULL: not declared. Names of the module (variables) become names of the function when used. */
Name *name_find(Decoder *d, const Token *t);
void branch_to(Decoder *d, uint32_t inst, uint32_t list, Sym label);
/** `.reg .b32 %r<4>, %x;` after `.reg`. */
bool declare_registers(Decoder *d);
/** `.shared .align 4 .b8 x[4];`, .local and .param in a body, at the directive of the space. */
bool declare_variable(Decoder *d);

/* --- operand.c ------------------------------------------------------------------------------- */

/** Reads one operand at d->i. */
bool operand_read(Decoder *d, Operand *out);
/** Puts operands where the rule wants them; conversions between widths of registers become
 * instructions of their own. Emits the instruction. */
bool operands_place(Decoder *d, const Rule *r, const Opcode *op, const Operand *o, uint32_t n);
uint32_t slot_new(Decoder *d, uint32_t width);
uint32_t slot_constant(Decoder *d, uint64_t value, uint32_t width);
uint32_t slot_special(Decoder *d, Special which, uint32_t width);
/** The register, constant or address as a slot of that width. NO_SLOT: it does not fit, noted. */
uint32_t slot_source(Decoder *d, const Operand *o, uint32_t width);

/* --- decode.c -------------------------------------------------------------------------------- */

/** An instruction under the guard and the line that are being read; `registers`: bits of its fields
 * that will hold registers. */
Inst *emit(Decoder *d, Exec *exec, InstKind kind, uint8_t registers);
/** Notes an error at the instruction being read, with its text. Returns false. */
bool decode_error(Decoder *d, const char *why);
/** Decodes an entry into *f; m's variables are placed. */
bool decode_function(Text *x, Module *m, RuleCache *rules, const FuncDecl *decl, Function *f);
/** Where the driver keeps the barrier of cooperative launches: cooperative_groups.h finds its
 * address in %envreg1 (upper half) and %envreg2. 0: no memory is left. module.c. */
uint64_t module_workspace(Module *m);
/** `call`, at the word after it. */
bool decode_call(Decoder *d);
/** Instructions up to the token `end`. */
bool decode_body(Decoder *d, uint32_t end);

/* --- allocate.c ------------------------------------------------------------------------------ */

/** Gives registers whose lives do not meet the same slots. The most 32-bit words that live at once.
 */
uint32_t allocate_slots(Decoder *d);

#endif
