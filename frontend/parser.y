/* parser.y: the syntax of Tenon. It builds the tree of ast.h and looks nothing up; `frontend/ast.c`
 * makes the nodes, `frontend/parse.c` decides where statements end and words the errors.
 * SPDX-License-Identifier: MIT */
%require "3.8"
%define api.pure full
%define api.prefix {tn_}
%define api.location.type {Span}
%define api.token.prefix {TOK_}
%define parse.error custom
%define parse.lac full
%expect 0
%param {Parser *p}
%initial-action { @$ = (Span){p->file, 0, 0}; }

%code requires {
#include "frontend/parse.h"
}
%code {
#include <string.h>

int tn_lex(TN_STYPE *v, Span *at, Parser *p);
static void tn_error(Span *at, Parser *p, const char *text);

/* From the first part to the last; an empty rule is at the end of what stands before it. */
#define YYLLOC_DEFAULT(cur, rhs, n)                                                                \
    ((cur) = (n) ? (Span){p->file, YYRHSLOC(rhs, 1).start, YYRHSLOC(rhs, n).end}                   \
                 : (Span){p->file, YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end})

#define NONE(list) memset(&(list), 0, sizeof(list))
#define ADD(list, x) vec_push(p->arena, &(list), (x))
#define ONE(list, x)                                                                               \
    do {                                                                                           \
        NONE(list);                                                                                \
        ADD(list, x);                                                                              \
    } while (0)
#define BINARY(op, a, b, at, all) make_binary(p, AST_##op, (at), (a), (b), (all))
}

%union {
    TokenValue token;
    AstName name;
    AstNames names;
    AstExpr *expr;
    AstExprs exprs;
    AstArg arg;
    AstArgs args;
    AstClauses clauses;
    AstType *type;
    AstParam param;
    AstParams params;
    AstResult result;
    AstResults results;
    AstFn *fn;
    AstTarget target;
    AstTargets targets;
    AstStmt *stmt;
    AstStmts stmts;
    struct {
        AstStmts list;
        Span at;
    } block;
    AstBinding binding;
    AstBindings bindings;
    struct {
        AstBindings settings;
        AstGroups groups;
    } training;
    AstDecl *decl;
    AstOp op;
}

/* Every token has the name that a user reads in a message. */
%token END 0           "end of file"
%token TERM            "end of line"
%token ONLY_EXPR       "expression"
%token <token> IDENT   "name"
%token <token> INT     "integer"
%token <token> FLOAT   "number"
%token <token> STRING  "string"
%token <token> DEVICE  "device"
%token <token> DTYPE   "dtype"
%token AND "'and'" AS "'as'" ASSERT "'assert'" BUFFER "'buffer'" CHECKPOINT "'checkpoint'"
%token CONST "'const'" ELSE "'else'" EXTERN "'extern'" FALSE "'false'" FOR "'for'" IF "'if'"
%token IMPORT "'import'" IN "'in'" LET "'let'" NO_GRAD "'no_grad'" NONE "'none'" NOT "'not'"
%token ON "'on'" OR "'or'" PARAM "'param'" RETURN "'return'" SCAN "'scan'" TRUE "'true'"
%token WITH "'with'" YIELD "'yield'"
%token <token> FN "'fn'" MODULE "'module'"
%token <token> GRAD "'grad'" GROUP "'group'" MODEL "'model'" OPTIMIZER "'optimizer'"
%token <token> TENON "'tenon'" TEST "'test'" TRAIN "'train'"
%token ARROW "'->'" ELLIPSIS "'...'" POW "'**'" FLOORDIV "'//'" EQ "'=='" NE "'!='" LE "'<='"
%token GE "'>='" SHL "'<<'" SHR "'>>'" ADDEQ "'+='" SUBEQ "'-='" MULEQ "'*='" DIVEQ "'/='"
%token LPAREN "'('" RPAREN "')'" LBRACKET "'['" RBRACKET "']'" LBRACE "'{'" RBRACE "'}'"
%token PLUS "'+'" MINUS "'-'" STAR "'*'" SLASH "'/'" PERCENT "'%'" AT "'@'" LT "'<'" GT "'>'"
%token AMP "'&'" BAR "'|'" CARET "'^'" TILDE "'~'" QUESTION "'?'" COLON "':'" COMMA "','"
%token DOT "'.'" ASSIGN "'='"

%type <token> soft
%type <name> name
%type <names> names
%type <decl> decl
%type <bindings> bindings settings
%type <binding> binding
%type <training> train_body train_items
%type <params> config params_opt params
%type <param> param
%type <results> result_list
%type <result> result
%type <fn> func signature grad_opt
%type <type> type
%type <exprs> shape dims exprs subs items_opt items
%type <expr> dim on_opt as_opt filter item sub bound
%type <block> block
%type <stmts> stmts
%type <stmt> stmt else_opt scan
%type <targets> targets
%type <target> target
%type <op> augop
%type <expr> expr or_expr and_expr not_expr compare bit_or bit_xor bit_and shift sum term unary
%type <expr> power
%type <expr> postfix primary
%type <args> args_opt args
%type <arg> arg
%type <clauses> clauses

%%
start: version decls
    | ONLY_EXPR expr                   { p->expr = $2; }
    | ONLY_EXPR expr TERM              { p->expr = $2; }

version: %empty
    | TENON INT TERM                   { parse_version(p, $2); }
eol: TERM                              { yyerrok; parse_statement_end(p); }
decls: decl_opt
    | decls eol decl_opt
decl_opt: %empty
    | decl                             { ADD(p->out->decls, $1); }
    | error

decl: IMPORT name
        {
            $$ = make_decl(p, DECL_import, $2, @$); $$->path = sym_text(p->ctx->names, $2.sym);
            $$->path_at = @2;
        }
    | IMPORT name AS name
        {
            $$ = make_decl(p, DECL_import, $4, @$); $$->path = sym_text(p->ctx->names, $2.sym);
            $$->path_at = @2;
        }
    | IMPORT STRING AS name
        {
            $$ = make_decl(p, DECL_import, $4, @$); $$->path = $2.text; $$->path_at = @2;
            $$->is_path = true;
        }
    | CONST name ASSIGN expr           { $$ = make_decl(p, DECL_const, $2, @$); $$->value = $4; }
    | FN name func
        { $$ = make_decl(p, DECL_fn, $2, @$); $$->fn = $3; name_fn(p, $3, $2, @$); }
    | EXTERN FN name signature ASSIGN STRING grad_opt
        {
            $$ = make_decl(p, DECL_fn, $3, @$); $$->fn = $4; set_grad($4, $7);
            $4->extern_c = $6.text; $4->extern_at = @6; name_fn(p, $4, $3, @$);
        }
    | MODULE name config block
        {
            $$ = make_decl(p, DECL_module, $2, @$); $$->params = $3; $$->body = $4.list;
            $$->body_at = $4.at;
        }
    | OPTIMIZER name config block
        {
            $$ = make_decl(p, DECL_optimizer, $2, @$); $$->params = $3; $$->body = $4.list;
            $$->body_at = $4.at;
        }
    | MODEL name ASSIGN expr           { $$ = make_decl(p, DECL_model, $2, @$); $$->value = $4; }
    | MODEL name ASSIGN expr WITH bindings
        { $$ = make_decl(p, DECL_model, $2, @$); $$->value = $4; $$->bindings = $6; }
    | TRAIN postfix WITH expr train_body
        {
            $$ = make_decl(p, DECL_train, (AstName){0}, @$); $$->target = $2; $$->value = $4;
            $$->bindings = $5.settings; $$->groups = $5.groups;
        }
    | TEST STRING block
        {
            $$ = make_decl(p, DECL_test, (AstName){0}, @$); $$->path = $2.text;
            $$->path_at = @2; $$->body = $3.list; $$->body_at = $3.at;
        }

config: %empty                         { NONE($$); }
    | LPAREN params_opt RPAREN         { $$ = $2; }
bindings: binding                      { ONE($$, $1); }
    | bindings COMMA binding           { $$ = $1; ADD($$, $3); }
binding: name ASSIGN expr              { $$ = (AstBinding){@$, $1, $3}; }

train_body: %empty                     { NONE($$); }
    | LBRACE train_items RBRACE        { $$ = $2; }
train_items: %empty                    { NONE($$); }
    | binding                          { NONE($$); ADD($$.settings, $1); }
    | GROUP exprs LBRACE settings RBRACE { NONE($$); ADD($$.groups, ((AstGroup){@$, $2, $4})); }
    | error                            { NONE($$); }
    | train_items eol                  { $$ = $1; }
    | train_items eol binding          { $$ = $1; ADD($$.settings, $3); }
    | train_items eol GROUP exprs LBRACE settings RBRACE
        { $$ = $1; ADD($$.groups, ((AstGroup){span_join(@3, @7), $4, $6})); }
    | train_items eol error            { $$ = $1; }
settings: %empty                       { NONE($$); }
    | binding                          { ONE($$, $1); }
    | error                            { NONE($$); }
    | settings eol                     { $$ = $1; }
    | settings eol binding             { $$ = $1; ADD($$, $3); }
    | settings eol error               { $$ = $1; }

/* functions: named, and as values */
func: signature block grad_opt
        { $$ = $1; $$->body = $2.list; $$->body_at = $2.at; set_grad($$, $3); $$->at = @$; }
signature: LPAREN params_opt RPAREN    { $$ = make_fn(p, $2, @$); }
    | LPAREN params_opt RPAREN ARROW type
        {
            $$ = make_fn(p, $2, @$); $$->has_results = true; $$->results_at = @5;
            ADD($$->results, ((AstResult){@5, {{0}, @5}, $5, NULL}));
        }
    | LPAREN params_opt RPAREN ARROW LPAREN result_list RPAREN
        {
            $$ = make_fn(p, $2, @$); $$->has_results = true; $$->results_at = span_join(@5, @7);
            $$->results = $6;
        }
    | LPAREN params_opt RPAREN ARROW LPAREN result_list COMMA RPAREN
        {
            $$ = make_fn(p, $2, @$); $$->has_results = true; $$->results_at = span_join(@5, @8);
            $$->results = $6;
        }
grad_opt: %empty                       { $$ = NULL; }
    | GRAD LPAREN names RPAREN block
        { $$ = make_fn(p, (AstParams){0}, @$); $$->grad_names = $3; $$->grad_body = $5.list; }
    | GRAD LPAREN names COMMA RPAREN block
        { $$ = make_fn(p, (AstParams){0}, @$); $$->grad_names = $3; $$->grad_body = $6.list; }
params_opt: %empty                     { NONE($$); }
    | params
    | params COMMA
params: param                          { ONE($$, $1); }
    | params COMMA param               { $$ = $1; ADD($$, $3); }
param: name                            { $$ = (AstParam){@$, $1, NULL, NULL, parse_doc(p, @1)}; }
    | name ASSIGN expr                 { $$ = (AstParam){@$, $1, NULL, $3, parse_doc(p, @1)}; }
    | name COLON type                  { $$ = (AstParam){@$, $1, $3, NULL, parse_doc(p, @1)}; }
    | name COLON type ASSIGN expr      { $$ = (AstParam){@$, $1, $3, $5, parse_doc(p, @1)}; }
result_list: result                    { ONE($$, $1); }
    | result_list COMMA result         { $$ = $1; ADD($$, $3); }
result: name                           { $$ = (AstResult){@$, $1, NULL, parse_doc(p, @1)}; }
    | name COLON type                  { $$ = (AstResult){@$, $1, $3, parse_doc(p, @1)}; }

/* types: a word, or a tensor */
type: name                             { $$ = make_type(p, TYPE_word, $1, false, @$); }
    | DTYPE
        { $$ = make_type(p, TYPE_word, (AstName){$1.sym, @1}, true, @$); }
    | FN
        { $$ = make_type(p, TYPE_word, (AstName){$1.sym, @1}, false, @$); }
    | MODULE
        { $$ = make_type(p, TYPE_word, (AstName){$1.sym, @1}, false, @$); }
    | shape on_opt
        { $$ = make_type(p, TYPE_tensor, (AstName){0}, false, @$); $$->dims = $1; $$->on = $2; }
    | name shape on_opt
        { $$ = make_type(p, TYPE_tensor, $1, false, @$); $$->dims = $2; $$->on = $3; }
    | DTYPE shape on_opt
        {
            $$ = make_type(p, TYPE_tensor, (AstName){$1.sym, @1}, true, @$); $$->dims = $2;
            $$->on = $3;
        }
shape: LBRACKET RBRACKET               { NONE($$); }
    | LBRACKET dims RBRACKET           { $$ = $2; }
    | LBRACKET dims COMMA RBRACKET     { $$ = $2; }
dims: dim                              { ONE($$, $1); }
    | dims COMMA dim                   { $$ = $1; ADD($$, $3); }
dim: expr
    | ELLIPSIS                         { $$ = make_expr(p, EX_ellipsis, @$); }
    | STAR postfix                     { $$ = make_postfix(p, EX_splat, $2, @1, @$); }
on_opt: %empty                         { $$ = NULL; }
    | ON postfix                       { $$ = $2; }

/* statements: one grammar for module, optimizer, function and test bodies */
block: LBRACE stmts RBRACE             { $$.list = $2; $$.at = @$; }
stmts: %empty                          { NONE($$); }
    | stmt                             { ONE($$, $1); }
    | error                            { NONE($$); }
    | stmts eol                        { $$ = $1; }
    | stmts eol stmt                   { $$ = $1; ADD($$, $3); }
    | stmts eol error                  { $$ = $1; }

stmt: PARAM name COLON type ASSIGN expr as_opt
        {
            $$ = make_stmt(p, ST_param, @5, @$); $$->name = $2; $$->type = $4; $$->value = $6;
            $$->as = $7;
        }
    | BUFFER name ASSIGN expr as_opt
        { $$ = make_stmt(p, ST_buffer, @3, @$); $$->name = $2; $$->value = $4; $$->as = $5; }
    | BUFFER name COLON type ASSIGN expr as_opt
        {
            $$ = make_stmt(p, ST_buffer, @5, @$); $$->name = $2; $$->type = $4; $$->value = $6;
            $$->as = $7;
        }
    | FN name func
        { $$ = make_stmt(p, ST_fn, @1, @$); $$->fn = $3; name_fn(p, $3, $2, @$); }
    | LET targets ASSIGN exprs
        { $$ = make_stmt(p, ST_let, @3, @$); $$->targets = $2; $$->values = $4; }
    | LET targets ASSIGN scan
        { $$ = make_stmt(p, ST_let, @3, @$); $$->targets = $2; $$->scan = $4; }
    | exprs ASSIGN exprs as_opt
        { $$ = make_set(p, $1, @2, @$); $$->values = $3; $$->as = $4; }
    | exprs ASSIGN scan                { $$ = make_set(p, $1, @2, @$); $$->scan = $3; }
    | expr augop expr
        {
            AstExprs one; ONE(one, $1); $$ = make_set(p, one, @2, @$); $$->kind = ST_aug;
            $$->op = $2; ADD($$->values, $3);
        }
    | exprs                            { $$ = make_expr_stmt(p, $1, @$); }
    | scan
    | YIELD exprs                      { $$ = make_stmt(p, ST_yield, @1, @$); $$->values = $2; }
    | RETURN                           { $$ = make_stmt(p, ST_return, @1, @$); }
    | RETURN exprs                     { $$ = make_stmt(p, ST_return, @1, @$); $$->values = $2; }
    | IF expr block else_opt
        {
            $$ = make_stmt(p, ST_if, @1, @$); $$->list = $2; $$->body = $3.list;
            set_else(p, $$, $4);
        }
    | FOR names IN expr block
        { $$ = make_stmt(p, ST_for, @1, @$); $$->names = $2; $$->list = $4; $$->body = $5.list; }
    | ON postfix block
        { $$ = make_stmt(p, ST_on, @1, @$); $$->list = $2; $$->body = $3.list; }
    | NO_GRAD block
        { $$ = make_stmt(p, ST_no_grad, @1, @$); $$->body = $2.list; }
    | CHECKPOINT block
        { $$ = make_stmt(p, ST_checkpoint, @1, @$); $$->body = $2.list; }
    | CHECKPOINT LPAREN expr RPAREN block
        { $$ = make_stmt(p, ST_checkpoint, @1, @$); $$->list = $3; $$->body = $5.list; }
    | ASSERT expr                      { $$ = make_stmt(p, ST_assert, @1, @$); $$->list = $2; }
    | ASSERT expr COMMA expr
        { $$ = make_stmt(p, ST_assert, @1, @$); $$->list = $2; $$->message = $4; }
/* the blocks of an `else` travel as a statement; set_else takes it apart */
else_opt: %empty                       { $$ = NULL; }
    | ELSE block
        { $$ = make_stmt(p, ST_no_grad, @1, @$); $$->body = $2.list; }
    | ELSE IF expr block else_opt
        {
            $$ = make_stmt(p, ST_if, @2, span_join(@2, @$)); $$->list = $3; $$->body = $4.list;
            set_else(p, $$, $5);
        }
targets: target                        { ONE($$, $1); }
    | targets COMMA target             { $$ = $1; ADD($$, $3); }
target: name                           { $$ = (AstTarget){$1, NULL}; }
    | name COLON type                  { $$ = (AstTarget){$1, $3}; }
names: name                            { ONE($$, $1); }
    | names COMMA name                 { $$ = $1; ADD($$, $3); }
scan: SCAN names IN expr block
        { $$ = make_stmt(p, ST_scan, @1, @$); $$->names = $2; $$->list = $4; $$->body = $5.list; }
as_opt: %empty                         { $$ = NULL; }
    | AS expr                          { $$ = $2; }
augop: ADDEQ                           { $$ = AST_add; }
    | SUBEQ                            { $$ = AST_sub; }
    | MULEQ                            { $$ = AST_mul; }
    | DIVEQ                            { $$ = AST_div; }

/* expressions, loosest first */
exprs: expr                            { ONE($$, $1); }
    | exprs COMMA expr                 { $$ = $1; ADD($$, $3); }
expr: or_expr
    | or_expr QUESTION expr COLON expr { $$ = make_cond(p, $1, @2, $3, $5, @$); }
or_expr: and_expr
    | or_expr OR and_expr              { $$ = BINARY(or, $1, $3, @2, @$); }
and_expr: not_expr
    | and_expr AND not_expr            { $$ = BINARY(and, $1, $3, @2, @$); }
not_expr: compare
    | NOT not_expr                     { $$ = make_unary(p, AST_not, @1, $2, @$); }
compare: bit_or
    | bit_or EQ bit_or                 { $$ = BINARY(eq, $1, $3, @2, @$); }
    | bit_or NE bit_or                 { $$ = BINARY(ne, $1, $3, @2, @$); }
    | bit_or LT bit_or                 { $$ = BINARY(lt, $1, $3, @2, @$); }
    | bit_or LE bit_or                 { $$ = BINARY(le, $1, $3, @2, @$); }
    | bit_or GT bit_or                 { $$ = BINARY(gt, $1, $3, @2, @$); }
    | bit_or GE bit_or                 { $$ = BINARY(ge, $1, $3, @2, @$); }
    | bit_or IN bit_or                 { $$ = BINARY(in, $1, $3, @2, @$); }
    | bit_or NOT IN bit_or             { $$ = BINARY(not_in, $1, $4, span_join(@2, @3), @$); }
bit_or: bit_xor
    | bit_or BAR bit_xor               { $$ = BINARY(bor, $1, $3, @2, @$); }
bit_xor: bit_and
    | bit_xor CARET bit_and            { $$ = BINARY(xor, $1, $3, @2, @$); }
bit_and: shift
    | bit_and AMP shift                { $$ = BINARY(band, $1, $3, @2, @$); }
shift: sum
    | shift SHL sum                    { $$ = BINARY(shl, $1, $3, @2, @$); }
    | shift SHR sum                    { $$ = BINARY(shr, $1, $3, @2, @$); }
sum: term
    | sum PLUS term                    { $$ = BINARY(add, $1, $3, @2, @$); }
    | sum MINUS term                   { $$ = BINARY(sub, $1, $3, @2, @$); }
term: unary
    | term STAR unary                  { $$ = BINARY(mul, $1, $3, @2, @$); }
    | term SLASH unary                 { $$ = BINARY(div, $1, $3, @2, @$); }
    | term FLOORDIV unary              { $$ = BINARY(floordiv, $1, $3, @2, @$); }
    | term PERCENT unary               { $$ = BINARY(mod, $1, $3, @2, @$); }
    | term AT unary                    { $$ = BINARY(matmul, $1, $3, @2, @$); }
unary: power
    | MINUS unary                      { $$ = make_unary(p, AST_neg, @1, $2, @$); }
    | TILDE unary                      { $$ = make_unary(p, AST_inv, @1, $2, @$); }
power: postfix
    | postfix POW unary                { $$ = BINARY(pow, $1, $3, @2, @$); }

postfix: primary
    | postfix DOT IDENT
        { $$ = make_postfix(p, EX_field, $1, @3, @$); $$->name = $3.sym; }
    | postfix LPAREN args_opt RPAREN
        { $$ = make_postfix(p, EX_call, $1, span_join(@2, @4), @$); set_args(p, $$, $3); }
    | postfix LBRACKET subs RBRACKET
        { $$ = make_postfix(p, EX_index, $1, span_join(@2, @4), @$); set_items(p, $$, $3); }
    | postfix LBRACKET subs COMMA RBRACKET
        { $$ = make_postfix(p, EX_index, $1, span_join(@2, @5), @$); set_items(p, $$, $3); }
primary: name                          { $$ = make_expr(p, EX_name, @$); $$->name = $1.sym; }
    | INT                              { $$ = make_literal(p, EX_int, $1); }
    | FLOAT                            { $$ = make_literal(p, EX_float, $1); }
    | STRING                           { $$ = make_literal(p, EX_string, $1); }
    | TRUE                             { $$ = make_expr(p, EX_bool, @$); $$->i = 1; }
    | FALSE                            { $$ = make_expr(p, EX_bool, @$); }
    | NONE                             { $$ = make_expr(p, EX_none, @$); }
    | DEVICE                           { $$ = make_literal(p, EX_device, $1); }
    | DTYPE                            { $$ = make_literal(p, EX_dtype, $1); }
    | LPAREN expr RPAREN               { $$ = $2; $$->at = @$; }
    | LPAREN RPAREN                    { $$ = make_expr(p, EX_list, @$); }
    | LPAREN expr COMMA RPAREN         { AstExprs one; ONE(one, $2); $$ = make_list(p, one, @$); }
    | LPAREN expr COMMA exprs RPAREN   { $$ = make_list(p, prepend(p, $2, $4), @$); }
    | LPAREN expr COMMA exprs COMMA RPAREN { $$ = make_list(p, prepend(p, $2, $4), @$); }
    | LBRACKET items_opt RBRACKET      { $$ = make_list(p, $2, @$); }
    | LBRACKET expr clauses filter RBRACKET
        { $$ = make_postfix(p, EX_comp, $2, @$, @$); $$->clauses = $3; $$->c = $4; }
    | FN func                          { $$ = make_expr(p, EX_fn, @$); $$->fn = $2; $2->at = @$; }

args_opt: %empty                       { NONE($$); }
    | args
    | args COMMA
args: arg                              { ONE($$, $1); }
    | args COMMA arg                   { $$ = $1; ADD($$, $3); }
arg: expr                              { $$ = (AstArg){{{0}, {0, 0, 0}}, $1}; }
    | STAR postfix
        { $$ = (AstArg){{{0}, {0, 0, 0}}, make_postfix(p, EX_splat, $2, @1, @$)}; }
    | name ASSIGN expr                 { $$ = (AstArg){$1, $3}; }
subs: sub                              { ONE($$, $1); }
    | subs COMMA sub                   { $$ = $1; ADD($$, $3); }
sub: expr
    | ELLIPSIS                         { $$ = make_expr(p, EX_ellipsis, @$); }
    | bound COLON bound                { $$ = make_slice(p, $1, $3, NULL, @$); }
    | bound COLON bound COLON bound    { $$ = make_slice(p, $1, $3, $5, @$); }
bound: %empty                          { $$ = NULL; }
    | expr
items_opt: %empty                      { NONE($$); }
    | items
    | items COMMA
items: item                            { ONE($$, $1); }
    | items COMMA item                 { $$ = $1; ADD($$, $3); }
item: expr
    | STAR postfix                     { $$ = make_postfix(p, EX_splat, $2, @1, @$); }
clauses: FOR names IN expr             { ONE($$, ((AstClause){@$, $2, $4})); }
    | clauses FOR names IN expr
        { $$ = $1; ADD($$, ((AstClause){span_join(@2, @5), $3, $5})); }
filter: %empty                         { $$ = NULL; }
    | IF expr                          { $$ = $2; }

name: IDENT                            { $$ = (AstName){$1.sym, @1}; }
    | soft                             { $$ = (AstName){$1.sym, @1}; }
soft: GRAD | GROUP | MODEL | OPTIMIZER | TENON | TEST | TRAIN
%%

/* Words that are names too are not listed beside "name". */
static bool is_soft(yysymbol_kind_t kind)
{
    return kind >= YYSYMBOL_GRAD && kind <= YYSYMBOL_TRAIN;
}

static int yyreport_syntax_error(const yypcontext_t *ctx, Parser *p)
{
    yysymbol_kind_t want[YYNTOKENS];
    const int n = yypcontext_expected_tokens(ctx, want, YYNTOKENS);
    const int most = (int)(sizeof((SyntaxError *)0)->expected / sizeof(char *));
    const yysymbol_kind_t got = yypcontext_token(ctx);
    SyntaxError e = {.at = *yypcontext_location(ctx), .got = p->current.kind};
    e.got_name = got == YYSYMBOL_YYEMPTY ? "end of file" : yysymbol_name(got);
    int kept = 0;
    for (int i = 0; i < n; i++)
        e.name |= want[i] == YYSYMBOL_IDENT;
    for (int i = 0; i < n; i++) {
        e.decl |= want[i] == YYSYMBOL_IMPORT;
        e.eq |= want[i] == YYSYMBOL_EQ;
        e.rparen |= want[i] == YYSYMBOL_RPAREN;
        e.rbracket |= want[i] == YYSYMBOL_RBRACKET;
        e.lbrace |= want[i] == YYSYMBOL_LBRACE;
        e.rbrace |= want[i] == YYSYMBOL_RBRACE;
        if (e.name && is_soft(want[i]))
            continue;
        if (kept < most)
            e.expected[kept] = yysymbol_name(want[i]);
        kept++;
    }
    e.nexpected = kept > most ? 0 : kept;
    parse_error(p, &e);
    return 0;
}

/* Only what is no syntax error comes here: the text is nested too deeply. */
static void tn_error(Span *at, Parser *p, const char *text)
{
    (void)text;
    diag_report(p->ctx->diags, DIAG_syntax, *at, "nested too deeply");
}
