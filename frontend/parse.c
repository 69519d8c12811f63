/* parse.c: from words to statements. A newline ends a statement when the word before it can end one
 * and the innermost open bracket is '{' or none; a line that begins with a word that nothing begins
 * with goes on from the one before.
 *
 * After a mistake the rest of the statement is dropped: lines indented deeper than it belong to it,
 * and so do the blocks that it opens. Where braces and layout disagree, the layout is believed, but
 * only then: text without mistakes is read by its braces alone.
 * SPDX-License-Identifier: MIT */
#include "frontend/parse.h"
#include "frontend/hints.h"

#include "ir/base/die.h"

#include "parser.tab.h"

#include <string.h>

int tn_lex(TN_STYPE *v, Span *at, Parser *p);

/* ---- brackets ---- */

static Bracket *innermost(Parser *p)
{
    return p->open.n ? &vec_last(&p->open) : NULL;
}

static bool in_block(Parser *p)
{
    const Bracket *b = innermost(p);
    return !b || b->close == '}';
}

static char closing(int kind)
{
    return (char)(kind == TOK_LPAREN ? ')' : kind == TOK_LBRACKET ? ']' : '}');
}

static void open_bracket(Parser *p, const Token *t)
{
    const Bracket b = {closing(t->kind), t->line, p->first.indent, -1, t->value.at};
    vec_push(p->arena, &p->open, b);
}

/* Gives up what is open inside the innermost block. */
static void leave_brackets(Parser *p)
{
    while (!in_block(p)) {
        p->left_open = innermost(p)->at;
        p->open.n--;
    }
}

/* A '}' closes whatever was left open inside its block. */
static void close_bracket(Parser *p, const Token *t)
{
    const char c = (char)(t->kind == TOK_RPAREN ? ')' : t->kind == TOK_RBRACKET ? ']' : '}');
    if (c == '}')
        leave_brackets(p);
    const Bracket *b = innermost(p);
    p->closed_block = b && b->close == c;
    if (!p->closed_block)
        return;
    if (c == '}') {
        if (t->newline && t->indent < b->indent && !p->unclosed.file)
            p->unclosed = b->at;
        p->first.indent = b->indent; /* what follows belongs to the statement around the block */
    }
    p->open.n--;
}

static void track_brackets(Parser *p, const Token *t)
{
    switch (t->kind) {
    case TOK_LPAREN:
    case TOK_LBRACKET:
    case TOK_LBRACE:
        open_bracket(p, t);
        break;
    case TOK_RPAREN:
    case TOK_RBRACKET:
    case TOK_RBRACE:
        close_bracket(p, t);
        break;
    default:
        break;
    }
}

/* ---- the tokens one by one ---- */

static Token read_token(Parser *p)
{
    if (p->npending) {
        const Token t = p->pending[0];
        p->npending--;
        memmove(p->pending, p->pending + 1, sizeof *p->pending * (size_t)p->npending);
        return t;
    }
    Token t = scan_token(p, p->scanner, &p->scan_at);
    scan_place(p, &t);
    return t;
}

static void give_back(Parser *p, Token t)
{
    CHECK(p->npending < (int)ARRAY_LEN(p->pending));
    memmove(p->pending + 1, p->pending, sizeof *p->pending * (size_t)p->npending);
    p->pending[0] = t;
    p->npending++;
}

static Token make_token(const Parser *p, int kind, Span at)
{
    Token t = p->current;
    t.kind = kind;
    t.value = (TokenValue){.at = at};
    t.newline = t.is_bad = false;
    return t;
}

/* The first token of a statement: where it is tells what the lines after a mistake belong to. */
static void begin_statement(Parser *p, const Token *t)
{
    p->first = *t;
    p->first_depth = p->open.n;
    Bracket *b = innermost(p);
    if (!b) {
        p->top_indent = p->top_indent < 0 || t->indent < p->top_indent ? t->indent : p->top_indent;
    } else {
        if (b->body < 0 && t->newline && t->kind != TOK_RBRACE)
            b->body = t->indent;
        if (t->newline && t->kind != TOK_RBRACE && t->indent <= b->indent && !p->unclosed.file)
            p->unclosed = b->at;
    }
}

static int give(Parser *p, const Token *t)
{
    if (p->at_start && t->kind != TOK_TERM)
        begin_statement(p, t);
    p->at_start = t->kind == TOK_TERM || t->kind == TOK_LBRACE;
    if (t->is_bad)
        p->is_quiet = true;
    if (p->current.value.at.start == p->first.value.at.start)
        p->second = t->value.at.start;
    track_brackets(p, t);
    p->current = *t;
    return p->last = t->kind;
}

/* These begin a statement and stand in no bracket: at the head of a line they close one that was
 * left open. */
static bool begins_statement(int kind)
{
    switch (kind) {
    case TOK_LET:
    case TOK_RETURN:
    case TOK_PARAM:
    case TOK_BUFFER:
    case TOK_IMPORT:
    case TOK_CONST:
    case TOK_ASSERT:
    case TOK_YIELD:
    case TOK_EXTERN:
    case TOK_SCAN:
    case TOK_NO_GRAD:
    case TOK_CHECKPOINT:
        return true;
    default:
        return false;
    }
}

/* Nothing begins with these: a line that does goes on from the one before. */
static bool continues(int last, int kind)
{
    return kind == TOK_LBRACE || kind == TOK_ARROW || kind == TOK_DOT || kind == TOK_ELSE ||
           kind == TOK_WITH || kind == TOK_AS || (kind == TOK_GRAD && last == TOK_RBRACE);
}

static bool ends_before(Parser *p, const Token *t)
{
    if (!scan_can_end(p->last))
        return false;
    if (t->kind == 0)
        return true;
    if (!t->newline)
        return false;
    if (!in_block(p)) {
        if (!begins_statement(t->kind))
            return false;
        leave_brackets(p);
    }
    return !continues(p->last, t->kind);
}

/* ---- after a mistake ---- */

/* Blocks that the layout says were closed before this line get the '}' that they lack. */
static void close_by_layout(Parser *p, const Token *t)
{
    while (p->open.n) {
        const Bracket *b = innermost(p);
        const bool inside = t->kind == TOK_RBRACE ? t->indent >= b->indent : t->indent > b->indent;
        if (t->kind != 0 && b->close == '}' && inside)
            return;
        p->closers += b->close == '}';
        p->open.n--;
    }
}

/* The statement with the mistake ends before t. */
static void resume(Parser *p, Token t)
{
    p->panic = p->wants_block = false;
    p->open.n = p->base;
    if (t.newline || t.kind == 0)
        close_by_layout(p, &t);
    p->owes_term = t.kind != TOK_ELSE || !p->closers;
    give_back(p, t);
}

/* A token that begins a line, outside of blocks that are dropped. */
static bool line_goes_on(Parser *p, const Token *t)
{
    if (t->indent > p->panic_indent)
        return true;
    switch (t->kind) {
    case TOK_RPAREN:
    case TOK_RBRACKET:
    case TOK_LBRACE:
    case TOK_ELSE:
    case TOK_ARROW:
    case TOK_DOT:
        return true;
    case TOK_GRAD:
        return p->last == TOK_RBRACE;
    case TOK_RBRACE:
        return !p->open.n || (p->wants_block && t->indent == p->panic_indent);
    default:
        return false;
    }
}

/* Drops the token, or ends the dropping before it. */
static bool drop(Parser *p, const Token *t)
{
    if (t->kind == 0)
        return false;
    const bool outside = p->open.n <= p->base;
    if (t->newline &&
        (outside ? !line_goes_on(p, t)
                 : t->indent <= p->panic_indent && t->kind != TOK_RBRACE && t->kind != TOK_RPAREN &&
                       t->kind != TOK_RBRACKET && !continues(p->last, t->kind)))
        return false;
    if (outside && t->kind == TOK_TERM && !p->wants_block && t->indent <= p->panic_indent)
        return false;
    if (outside && t->kind == TOK_RBRACE) {
        /* one that does not begin its line closes a block of that line */
        const bool ours = p->open.n && (t->newline || innermost(p)->line == t->line);
        if (ours && !p->wants_block)
            return false;
        p->wants_block = false;
    } else if (t->kind == TOK_LBRACE) {
        p->wants_block = false;
        open_bracket(p, t);
    } else if (!outside && t->kind == TOK_RBRACE) {
        p->open.n--;
    }
    p->last = t->kind;
    return true;
}

static int panic_indent(Parser *p)
{
    const Bracket *b = innermost(p);
    const int block = b ? b->body : p->top_indent;
    return block >= 0 && block < p->first.indent ? block : p->first.indent;
}

/* Declarations begin with these, statements never (or only where they are names). */
static bool begins_declaration(int kind)
{
    return kind == TOK_MODULE || kind == TOK_IMPORT || kind == TOK_CONST || kind == TOK_EXTERN ||
           kind == TOK_MODEL || kind == TOK_OPTIMIZER || kind == TOK_TRAIN || kind == TOK_TEST;
}

/* A declaration at the indent of the block that it stands in: the block lacks its '}'. */
static bool outside_its_block(Parser *p)
{
    if (!p->first_depth || p->first_depth > p->open.n || p->retried == p->first.value.at.start)
        return false;
    const Bracket *b = &p->open.at[p->first_depth - 1];
    return b->close == '}' && begins_declaration(p->first.kind) && p->first.newline &&
           p->first.indent <= b->indent;
}

static void report_unclosed(Parser *p, Span seen)
{
    const Bracket *b = innermost(p);
    const Span at = p->unclosed.file ? p->unclosed : b->at;
    Diag *d = diag_report(p->ctx->diags, DIAG_syntax, at, "this '{' has no '}'");
    diag_note(p->ctx->diags, d, seen, "noticed here");
}

/* After the error: where to go on. */
static void begin_panic(Parser *p, const SyntaxError *e)
{
    const Token bad = p->current;
    Bracket opened = {0};
    if (bad.kind == TOK_LBRACE) {
        opened = *innermost(p);
        p->open.n--;
    }
    leave_brackets(p);
    p->base = p->open.n;
    p->panic_indent = panic_indent(p);
    p->wants_block = e->lbrace && bad.kind != TOK_LBRACE;
    if (bad.kind == TOK_LBRACE) {
        vec_push(p->arena, &p->open, opened);
        p->panic = true;
    } else if (bad.kind == TOK_RBRACE) {
        p->panic = !p->closed_block;
    } else if (bad.kind == TOK_TERM) {
        p->panic = bad.newline || p->wants_block; /* else a `;` */
    } else if (bad.newline && bad.indent <= p->panic_indent &&
               bad.value.at.start != p->first.value.at.start && bad.value.at.start != p->retried) {
        p->retried = bad.value.at.start;
        resume(p, bad);
    } else {
        p->panic = bad.kind != 0;
    }
}

/* ---- messages ---- */

static bool is_operator(int kind)
{
    switch (kind) {
    case TOK_PLUS:
    case TOK_STAR:
    case TOK_SLASH:
    case TOK_FLOORDIV:
    case TOK_PERCENT:
    case TOK_AT:
    case TOK_POW:
    case TOK_AND:
    case TOK_OR:
    case TOK_QUESTION:
    case TOK_COLON:
    case TOK_BAR:
    case TOK_AMP:
    case TOK_CARET:
    case TOK_IN:
        return true;
    default:
        return false;
    }
}

static bool is_comparison(int kind)
{
    return kind == TOK_EQ || kind == TOK_NE || kind == TOK_LT || kind == TOK_GT || kind == TOK_LE ||
           kind == TOK_GE;
}

static void report_open(Parser *p, const SyntaxError *e, Span at)
{
    const uint32_t n = p->open.n - (e->got == TOK_LBRACE && p->open.n);
    const Bracket *b = n ? &p->open.at[n - 1] : NULL;
    const Span opened = b && b->close != '}' ? b->at : p->left_open;
    Diag *d = diag_report(p->ctx->diags, DIAG_syntax, at, "bracket left open: expected %s or ','",
                          e->rparen ? "')'" : "']'");
    if (opened.file)
        diag_note(p->ctx->diags, d, opened, "opened here");
}

static const char *describe(Parser *p, const SyntaxError *e)
{
    const Span at = p->current.value.at;
    const int n = (int)(at.end - at.start);
    const bool has_text = e->got == TOK_IDENT || e->got == TOK_INT || e->got == TOK_FLOAT ||
                          e->got == TOK_DEVICE || e->got == TOK_DTYPE;
    if (has_text && n <= 40)
        return arena_printf(p->arena, "%s '%.*s'", e->got_name, n,
                            source_file(p->ctx->sources, p->file)->text + at.start);
    if (e->name && e->nexpected > 0 && e->nexpected < 3 && e->got >= TOK_AND && e->got <= TOK_YIELD)
        return arena_printf(p->arena, "%s (a reserved word)", e->got_name);
    return e->got_name;
}

static bool is_word_byte(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static const char *word_hint(const char *word)
{
    size_t n = 0;
    while (is_word_byte(word[n]))
        n++;
    return hint_for(HINT_word, word, n);
}

/* Whether a word begins at s. */
static bool begins(const char *s, const char *word)
{
    const size_t n = strlen(word);
    return strncmp(s, word, n) == 0 && !is_word_byte(s[n]);
}

/* How what other languages write at this place is written here, or NULL. */
static const char *other_ways(const Parser *p, const SyntaxError *e)
{
    static const char *const heads[] = {"if", "else",   "for",  "while",
                                        "fn", "module", "with", "scan"};
    const char *text = source_file(p->ctx->sources, p->file)->text;
    const char *at = text + e->at.start, *first = text + p->first.value.at.start, *before = at;
    if (e->got == TOK_LET && e->decl)
        return "the word here is 'const'";
    for (size_t i = 0; e->got == TOK_COLON && i < ARRAY_LEN(heads); i++)
        if (begins(first, heads[i]))
            return "a block is written { }";
    if (e->got == TOK_IF && first < at)
        return "a choice in an expression is 'c ? a : b'";
    if (e->got == TOK_PLUS && at > text && at[-1] == '+')
        return "this is written 'i += 1'";
    while (before > text && (before[-1] == ' ' || before[-1] == '\t'))
        before--;
    while (before > text && is_word_byte(before[-1]))
        before--;
    if (e->got == TOK_STRING && before + 1 == at && *before == 'f')
        return "a text is put together by '+': \"n is \" + str(n)";
    const char *hint = word_hint(at);
    return hint || before == at ? hint : word_hint(before);
}

static void note_other_ways(Parser *p, const SyntaxError *e, Diag *d)
{
    const char *note = other_ways(p, e);
    if (note)
        diag_note(p->ctx->diags, d, (Span){0}, "%s", note);
}

static void report_declaration(Parser *p, const SyntaxError *e)
{
    Diag *d =
        diag_report(p->ctx->diags, DIAG_syntax, e->at, "unexpected %s, expected %s", describe(p, e),
                    "import, const, fn, extern fn, module, optimizer, model, train or test");
    note_other_ways(p, e, d);
}

static void report_general(Parser *p, const SyntaxError *e)
{
    if (e->decl) {
        report_declaration(p, e);
        return;
    }
    StrBuf list = {.a = p->arena};
    for (int i = 0; i < e->nexpected; i++)
        sb_printf(&list, "%s%s",
                  !i                      ? ", expected "
                  : i == e->nexpected - 1 ? " or "
                                          : ", ",
                  e->expected[i]);
    Diag *d = diag_report(p->ctx->diags, DIAG_syntax, e->at, "unexpected %s%s", describe(p, e),
                          sb_text(&list));
    note_other_ways(p, e, d);
}

static void report(Parser *p, const SyntaxError *e)
{
    const Token *t = &p->current;
    const bool in_brackets = e->rparen || e->rbracket;
    if (e->got == 0 && e->rbrace && p->open.n)
        report_unclosed(p, e->at);
    else if (e->got == TOK_ASSIGN && e->eq)
        diag_report(p->ctx->diags, DIAG_syntax, e->at, "unexpected '=' (comparison is '==')");
    else if (in_brackets && (e->got == TOK_TERM || e->got == TOK_LBRACE))
        report_open(p, e, e->at);
    else if (t->newline && is_operator(e->got))
        diag_report(p->ctx->diags, DIAG_syntax, e->at,
                    "a line cannot begin with %s: end the line above with it, or put the whole "
                    "in ( )",
                    e->got_name);
    else if (in_brackets && t->newline && e->got != TOK_RPAREN && e->got != TOK_RBRACKET)
        report_open(p, e, t->newline_at);
    else if (is_comparison(e->got))
        diag_report(p->ctx->diags, DIAG_syntax, e->at,
                    "comparisons do not chain: join them with 'and' or '&'");
    else
        report_general(p, e);
}

void parse_error(Parser *p, const SyntaxError *e)
{
    const Token bad = p->current;
    const bool is_first = bad.value.at.start == p->first.value.at.start;
    if (outside_its_block(p) && (is_first || p->second == bad.value.at.start)) {
        if (!p->is_quiet)
            report_unclosed(p, p->first.value.at);
        const Token first = p->first;
        p->base = p->first_depth;
        p->retried = first.value.at.start;
        if (is_first) {
            resume(p, bad);
        } else {
            give_back(p, bad);
            resume(p, first);
        }
    } else {
        if (!p->is_quiet)
            report(p, e);
        begin_panic(p, e);
    }
    p->is_quiet = true;
}

void parse_statement_end(Parser *p)
{
    p->is_quiet = false;
}

/* ---- the scanner that the grammar sees ---- */

/* What stands in for missing text, before the text goes on. */
static bool made_up(Parser *p, Token *t)
{
    const Span here = {p->file, p->current.value.at.end, p->current.value.at.end};
    if (p->closers) {
        p->closers--;
        *t = make_token(p, TOK_RBRACE, here);
        p->last = TOK_RBRACE;
        p->current = *t;
        return true;
    }
    if (p->owes_term) {
        p->owes_term = false;
        *t = make_token(p, TOK_TERM, here);
        give(p, t);
        return true;
    }
    return false;
}

static Token next_token(Parser *p)
{
    Token t;
    if (p->start) {
        t = make_token(p, p->start, (Span){p->file, 0, 0});
        p->start = 0;
        p->current = t;
        return t;
    }
    if (p->panic) {
        do
            t = read_token(p);
        while (drop(p, &t));
        resume(p, t);
    }
    if (made_up(p, &t))
        return t;
    t = read_token(p);
    if (ends_before(p, &t)) {
        Span end = t.newline_at;
        end.end = end.start + (t.newline && t.kind);
        give_back(p, t);
        t = make_token(p, TOK_TERM, end);
        t.newline = true;
    }
    give(p, &t);
    return t;
}

int tn_lex(TN_STYPE *v, Span *at, Parser *p)
{
    const Token t = next_token(p);
    v->token = t.value;
    *at = t.value.at;
    return t.kind;
}

/* ---- entry points ---- */

static bool is_too_large(const ParseCtx *ctx, uint32_t file)
{
    enum { LIMIT = 64 << 20 };
    if (source_file(ctx->sources, file)->n <= LIMIT)
        return false;
    diag_report(ctx->diags, DIAG_file, (Span){file, 0, 0}, "a source text has at most 64 MiB");
    return true;
}

/* One message for a file that is no text, instead of one for each byte. */
static bool is_binary(const ParseCtx *ctx, uint32_t file)
{
    const SourceFile *s = source_file(ctx->sources, file);
    const char *zero = s->n ? memchr(s->text, 0, s->n) : NULL;
    if (!zero)
        return false;
    const uint32_t at = (uint32_t)(zero - s->text);
    Diag *d = diag_report(ctx->diags, DIAG_file, (Span){file, at, at + 1},
                          "this is not a text file: it has a byte that is 0");
    const unsigned char a = (unsigned char)s->text[0];
    if (at == 1 || (s->n >= 2 && a >= 0xFE && (unsigned char)s->text[1] >= 0xFE))
        diag_note(ctx->diags, d, (Span){0}, "it may be in UTF-16: save it as UTF-8");
    return true;
}

static AstFile *parse(const ParseCtx *ctx, uint32_t file, int start, AstExpr **expr)
{
    const SourceFile *source = source_file(ctx->sources, file);
    Parser p = {.ctx = ctx, .arena = ctx->arena, .file = file, .start = start};
    p.out = arena_new(ctx->arena, AstFile);
    p.out->file = file;
    p.out->version = 1;
    p.line = 1;
    p.at_start = true;
    p.top_indent = -1;
    p.scan_at = (Span){file, 0, 0};
    if (is_too_large(ctx, file) || is_binary(ctx, file))
        return p.out;
    p.scanner = scan_create(&p, source->text, source->n);
    tn_parse(&p);
    scan_destroy(p.scanner);
    *expr = p.expr;
    return p.out;
}

AstFile *parse_file(const ParseCtx *ctx, uint32_t file)
{
    AstExpr *none;
    return parse(ctx, file, 0, &none);
}

AstExpr *parse_expr(const ParseCtx *ctx, uint32_t file)
{
    AstExpr *expr = NULL;
    const int before = diag_errors(ctx->diags);
    parse(ctx, file, TOK_ONLY_EXPR, &expr);
    return diag_errors(ctx->diags) > before ? NULL : expr;
}
