/* tensor_scan.h: reading the words of tensor IR text; the lines are read in tensor_parse.c. After
 * the first mistake (scan_fail) nothing is accepted any more. SPDX-License-Identifier: MIT */
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

void scan_fail(Scan *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Passes over blanks and comments. */
void scan_skip(Scan *q);
/** Passes over the token if it stands here (a word only as a whole). */
bool scan_accept(Scan *q, const char *token);
void scan_expect(Scan *q, const char *token);
/** A bare name; {0} and a message if there is none. `scan_name` takes a string too. */
Sym scan_word(Scan *q);
const char *scan_word_text(Scan *q);
Sym scan_string(Scan *q);
Sym scan_name(Scan *q);
int64_t scan_integer(Scan *q);
int64_t scan_integer_in(Scan *q, int64_t lo, int64_t hi);
double scan_number(Scan *q);
Dim scan_size(Scan *q);
Ty scan_type(Scan *q);
/** The symbol of that name, or {0}; ctx is the Scan. */
Symbol scan_symbol(void *ctx, const char *s, size_t n);

#endif
