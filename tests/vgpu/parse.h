/* parse.h: what a PTX module declares. Bodies of functions stay tokens; decode.c reads them.
 * SPDX-License-Identifier: MIT */
#ifndef VGPU_PARSE_H
#define VGPU_PARSE_H

#include "ir/base/vec.h"
#include "tests/vgpu/lex.h"
#include "tests/vgpu/vgpu.h"

/* Where an initialiser holds the address of a variable. */
typedef struct {
    uint64_t offset;    /* in the initialised bytes */
    uint64_t add, mask; /* mask: 0xff00(symbol) stores one byte of the address */
    Sym symbol;
    uint8_t size;
} AddressIn;

typedef struct {
    Sym name;
    Variable v;    /* address not placed yet */
    uint8_t *init; /* v.size bytes, or NULL: zero */
    const AddressIn *addresses;
    uint32_t naddresses, line;
} VarDecl;

typedef struct {
    Sym name;
    Parameter at;
} ParamDecl;

typedef struct {
    Sym name;
    bool entry;
    const ParamDecl *params, *results;
    uint32_t nparams, nresults, param_bytes;
    uint32_t body, body_end; /* tokens of { and }; 0: only declared */
    uint32_t max_threads, required[3];
    uint32_t line;
} FuncDecl;

typedef struct {
    Arena *a;
    Interner *names;
    const Token *t;
    VEC(VarDecl) vars;
    VEC(FuncDecl) funcs;
    VEC(const char *) files;
    int target;
    const char *error; /* the first one, with its line */
} Text;

/** Reads all declarations. False: x->error says why. */
bool parse_module(Text *x, const char *ptx, size_t n);

/** One declaration after its state space (.global .align 4 .b8 x[8] = {..}); *i is moved past its
 * `;`. The caller has set the space. */
bool parse_variable(Text *x, uint32_t *i, VarDecl *out);

/** Bytes of a type's directive (".f32": 4), 0 for .pred and others. */
uint32_t parse_type(const Token *t);

/** Notes the first error. Returns false. */
bool parse_error(Text *x, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/** [-] integer at *i, moved past it. */
bool parse_integer(Text *x, uint32_t *i, uint64_t *out);

const FuncDecl *find_function(const Text *x, Sym name);
VarDecl *find_variable(const Text *x, Sym name);

#endif
