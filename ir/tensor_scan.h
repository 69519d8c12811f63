/* tensor_scan.h: reading the words of tensor IR text; the lines are read in tensor_parse.c. After
 * the first mistake (text_fail) nothing is accepted any more. SPDX-License-Identifier: MIT */
#ifndef TENON_TENSOR_SCAN_H
#define TENON_TENSOR_SCAN_H

#include "ir/tensor_internal.h"

typedef struct {
    Sym name;
    Val val;
} Named;

typedef struct {
    Ctx *cx;
    Program *p;
    Graph *g; /* being read */
    Builder b;
    uint32_t file;
    const char *text, *at;
    bool failed;
    VEC(Named) values;       /* of the graph being read */
    VEC(const char *) texts; /* of the graphs: where "graph" stands */
    unsigned char *state;    /* of the graphs: 0 not read, 1 being read, 2 read */
} Scan;

void text_fail(Scan *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Passes over blanks and comments. */
void text_skip(Scan *q);
/** Passes over the token if it stands here (a word only as a whole). */
bool text_accept(Scan *q, const char *token);
void text_expect(Scan *q, const char *token);
/** A bare name; {0} and a message if there is none. `text_name` takes a string too. */
Sym text_word(Scan *q);
const char *text_word_text(Scan *q);
Sym text_string(Scan *q);
Sym text_name(Scan *q);
int64_t text_integer(Scan *q);
int64_t text_integer_in(Scan *q, int64_t lo, int64_t hi);
double text_number(Scan *q);
Dim text_size(Scan *q);
Ty text_type(Scan *q);
/** The symbol of that name, or {0}; ctx is the Scan. */
Symbol text_symbol(void *ctx, const char *s, size_t n);

#endif
