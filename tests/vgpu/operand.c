/* operand.c: operands of an instruction's text and the slots they stand for.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/decode.h"
#include "tests/vgpu/op.h"

/* --- slots ----------------------------------------------------------------------------------- */

uint32_t slot_new(Decoder *d, uint32_t width)
{
    uint32_t slot = d->reg_bytes;
    d->reg_bytes += LANES * width;
    return slot;
}

static void constants_grow(Decoder *d)
{
    d->constant_size = d->constant_size ? d->constant_size * 2 : 64;
    d->constant_table = arena_array(d->scratch, uint32_t, d->constant_size);
    for (uint32_t k = 0; k < d->constants.n; k++) {
        uint32_t at = (uint32_t)hash_word(d->constants.at[k].width, d->constants.at[k].value);
        while (d->constant_table[at &= d->constant_size - 1])
            at++;
        d->constant_table[at] = k + 1;
    }
}

uint32_t slot_constant(Decoder *d, uint64_t value, uint32_t width)
{
    if (d->constants.n * 2 >= d->constant_size)
        constants_grow(d);
    if (width == 4)
        value &= UINT32_MAX;
    uint32_t at = (uint32_t)hash_word(width, value);
    for (uint32_t k; (k = d->constant_table[at &= d->constant_size - 1]); at++)
        if (d->constants.at[k - 1].value == value && d->constants.at[k - 1].width == width)
            return d->constants.at[k - 1].slot;
    struct Constant c = {value, slot_new(d, width), (uint8_t)width};
    vec_push(d->scratch, &d->constants, c);
    d->constant_table[at] = d->constants.n;
    return c.slot;
}

uint32_t slot_special(Decoder *d, Special which, uint32_t width)
{
    for (uint32_t k = 0; k < d->specials.n; k++)
        if (d->specials.at[k].which == which && d->specials.at[k].width == width)
            return d->specials.at[k].slot;
    struct SpecialSlot s = {slot_new(d, width), (uint8_t)which, (uint8_t)width};
    vec_push(d->scratch, &d->specials, s);
    return s.slot;
}

/* Time passes while a warp runs, so these are read where they stand. */
static uint32_t read_clock(Decoder *d, Special which, uint32_t width)
{
    uint32_t slot = slot_new(d, width);
    Inst *i = emit(d, exec_clock, INST_PLAIN, 1);
    i->d = slot;
    i->imm = which;
    i->size = (uint8_t)width;
    i->wide = width == 8;
    return slot;
}

static bool special_register(Decoder *d, const Token *t, Operand *out)
{
    static const struct {
        const char *name;
        uint8_t which, width;
    } table[] = {{"%tid.x", SPECIAL_TID_X, 4},
                 {"%tid.y", SPECIAL_TID_Y, 4},
                 {"%tid.z", SPECIAL_TID_Z, 4},
                 {"%ntid.x", SPECIAL_NTID_X, 4},
                 {"%ntid.y", SPECIAL_NTID_Y, 4},
                 {"%ntid.z", SPECIAL_NTID_Z, 4},
                 {"%ctaid.x", SPECIAL_CTAID_X, 4},
                 {"%ctaid.y", SPECIAL_CTAID_Y, 4},
                 {"%ctaid.z", SPECIAL_CTAID_Z, 4},
                 {"%nctaid.x", SPECIAL_NCTAID_X, 4},
                 {"%nctaid.y", SPECIAL_NCTAID_Y, 4},
                 {"%nctaid.z", SPECIAL_NCTAID_Z, 4},
                 {"%laneid", SPECIAL_LANEID, 4},
                 {"%warpid", SPECIAL_WARPID, 4},
                 {"%nwarpid", SPECIAL_NWARPID, 4},
                 {"%lanemask_lt", SPECIAL_LANEMASK_LT, 4},
                 {"%lanemask_le", SPECIAL_LANEMASK_LE, 4},
                 {"%lanemask_eq", SPECIAL_LANEMASK_EQ, 4},
                 {"%lanemask_gt", SPECIAL_LANEMASK_GT, 4},
                 {"%lanemask_ge", SPECIAL_LANEMASK_GE, 4},
                 {"%smid", SPECIAL_SMID, 4},
                 {"%nsmid", SPECIAL_NSMID, 4},
                 {"%gridid", SPECIAL_GRIDID, 8},
                 {"%clock", SPECIAL_CLOCK, 4},
                 {"%clock64", SPECIAL_CLOCK64, 8},
                 {"%globaltimer", SPECIAL_GLOBALTIMER, 8},
                 {"%dynamic_smem_size", SPECIAL_DYNAMIC_SMEM, 4},
                 {"%total_smem_size", SPECIAL_TOTAL_SMEM, 4}};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        if (!token_word(t, table[k].name))
            continue;
        Special which = (Special)table[k].which;
        bool time =
            which == SPECIAL_CLOCK || which == SPECIAL_CLOCK64 || which == SPECIAL_GLOBALTIMER;
        out->kind = OPERAND_REGISTER;
        out->width = table[k].width;
        out->slot = (time ? read_clock : slot_special)(d, which, out->width);
        return true;
    }
    return false;
}

/* --- reading --------------------------------------------------------------------------------- */

static bool read_name(Decoder *d, const Token *t, Operand *out)
{
    const Name *n = name_find(d, t);
    if (!n) {
        if (token_word(t, "WARP_SZ")) {
            *out = (Operand){.kind = OPERAND_CONSTANT, .token_kind = TOKEN_INT, .value = LANES};
            return true;
        }
        if (special_register(d, t, out))
            return true;
        if (token_word(t, "%envreg1") || token_word(t, "%envreg2")) {
            uint64_t at = module_workspace(d->m);
            *out = (Operand){.kind = OPERAND_CONSTANT, .token_kind = TOKEN_INT};
            out->value = t->text[7] == '1' ? at >> 32 : at & UINT32_MAX;
            return true;
        }
        return decode_error(d, arena_printf(d->a, "'%.*s' is not known", (int)t->n, t->text));
    }
    switch (n->kind) {
    case NAME_REGISTER:
    case NAME_PRED:
        out->kind = n->kind == NAME_PRED ? OPERAND_PRED : OPERAND_REGISTER;
        out->width = n->width;
        out->slot = n->slot;
        return true;
    case NAME_VARIABLE:
        out->is_symbol = true;
        out->space = n->space;
        out->kind = OPERAND_CONSTANT;
        out->token_kind = TOKEN_INT;
        out->value = n->value;
        if (n->external) {
            out->kind = OPERAND_REGISTER;
            out->width = 8;
            out->slot = slot_special(d, SPECIAL_EXTERN_SHARED, 8);
        }
        return true;
    default:
        return decode_error(d, "a label stands where an operand does");
    }
}

static bool read_number(Decoder *d, Operand *out)
{
    const Token *t = d->x->t;
    bool minus = token_is(&t[d->i], '-');
    d->i += minus;
    t = &t[d->i];
    if (t->kind != TOKEN_INT && t->kind != TOKEN_FLOAT && t->kind != TOKEN_DOUBLE)
        return decode_error(d, arena_printf(d->a, "'%.*s' is no operand", (int)t->n, t->text));
    *out = (Operand){.kind = OPERAND_CONSTANT, .token_kind = t->kind, .value = t->value};
    if (minus && t->kind == TOKEN_INT)
        out->value = 0 - t->value;
    else if (minus)
        out->value ^= t->kind == TOKEN_FLOAT ? 1ull << 31 : 1ull << 63;
    d->i++;
    return true;
}

/* + or - and a number, after a register or a symbol. */
static bool read_offset(Decoder *d, uint64_t *value)
{
    const Token *t = d->x->t;
    Operand o = {0};
    if (!token_is(&t[d->i], '+') && !token_is(&t[d->i], '-'))
        return true;
    d->i += token_is(&t[d->i], '+');
    if (!read_number(d, &o))
        return false;
    *value += o.value;
    return true;
}

static bool read_address(Decoder *d, Operand *out)
{
    const Token *t = d->x->t;
    Operand base = {0};
    uint64_t offset = 0;
    d->i++;
    if (t[d->i].kind == TOKEN_WORD ? !read_name(d, &t[d->i], &base) : !read_number(d, &base))
        return false;
    d->i += t[d->i].kind == TOKEN_WORD;
    if (base.kind == OPERAND_PRED || !read_offset(d, &offset))
        return decode_error(d, "a predicate is no address");
    if (!token_is(&t[d->i], ']'))
        return decode_error(d, "an address that is neither [x] nor [x+offset]");
    d->i++;
    *out = base;
    out->kind = OPERAND_ADDRESS;
    out->value = offset;
    if (base.kind == OPERAND_CONSTANT) {
        out->value += base.value;
        out->slot = slot_constant(d, 0, 8);
        out->width = 8;
    }
    return true;
}

static bool read_list(Decoder *d, Operand *out)
{
    VEC(Operand) items = {0};
    d->i++;
    while (!token_is(&d->x->t[d->i], '}')) {
        Operand o = {0};
        if (items.n && token_is(&d->x->t[d->i], ','))
            d->i++;
        if (!operand_read(d, &o))
            return false;
        vec_push(d->scratch, &items, o);
    }
    d->i++;
    *out = (Operand){.kind = OPERAND_LIST, .items = items.at, .n = items.n};
    return true;
}

static bool read_word(Decoder *d, Operand *out)
{
    const Token *t = &d->x->t[d->i];
    if (t->n == 1 && t->text[0] == '_') {
        out->kind = OPERAND_SINK;
        d->i++;
        return true;
    }
    if (!read_name(d, t, out))
        return false;
    d->i++;
    if (out->is_symbol && out->kind == OPERAND_CONSTANT)
        return read_offset(d, &out->value);
    return true;
}

bool operand_read(Decoder *d, Operand *out)
{
    const Token *t = d->x->t;
    *out = (Operand){.slot = NO_SLOT};
    if (token_is(&t[d->i], '[')) {
        if (!read_address(d, out))
            return false;
    } else if (token_is(&t[d->i], '{')) {
        if (!read_list(d, out))
            return false;
    } else {
        bool negated = token_is(&t[d->i], '!');
        d->i += negated;
        if (t[d->i].kind == TOKEN_WORD ? !read_word(d, out) : !read_number(d, out))
            return false;
        out->negated = negated;
        if (negated && out->kind != OPERAND_PRED)
            return decode_error(d, "only predicates are negated with '!'");
    }
    if (token_is(&t[d->i], '|')) {
        Operand *second = arena_new(d->scratch, Operand);
        d->i++;
        if (!operand_read(d, second))
            return false;
        out->items = out->kind == OPERAND_LIST ? out->items : second;
        out->n = out->kind == OPERAND_LIST ? out->n : 1;
    }
    return true;
}

/* --- placing --------------------------------------------------------------------------------- */

static uint32_t convert(Decoder *d, Exec *exec, uint32_t from, uint32_t width)
{
    uint32_t slot = slot_new(d, width);
    Inst *i = emit(d, exec, INST_PLAIN, 3);
    i->d = slot;
    i->a = from;
    i->wide = width == 8 ? 1 : 2;
    i->count = COUNT_MOVE;
    return slot;
}

static uint64_t constant_bits(const Operand *o, uint32_t width)
{
    if (o->token_kind == TOKEN_FLOAT && width == 8)
        return double_bits((double)bits_float((uint32_t)o->value));
    if (o->token_kind == TOKEN_DOUBLE && width == 4)
        return float_bits((float)bits_double(o->value));
    return o->value;
}

uint32_t slot_source(Decoder *d, const Operand *o, uint32_t width)
{
    if (o->kind == OPERAND_CONSTANT)
        return slot_constant(d, constant_bits(o, width), width);
    if (o->kind == OPERAND_REGISTER && o->width == width)
        return o->slot;
    if (o->kind == OPERAND_REGISTER && width == 4)
        return convert(d, exec_narrow, o->slot, 4);
    decode_error(d, o->kind == OPERAND_REGISTER ? "a 32-bit register stands for 64 bits"
                                                : "an operand is of another kind");
    return NO_SLOT;
}

/* A destination wider than the result gets it through a slot of its own, afterwards. */
typedef struct {
    uint32_t to[8], from[8], n;
} Widened;

static uint32_t slot_destination(Decoder *d, const Operand *o, uint32_t width, Widened *later)
{
    if (o->kind == OPERAND_SINK)
        return slot_new(d, width);
    if (o->kind == OPERAND_REGISTER && o->width == width)
        return o->slot;
    if (o->kind == OPERAND_REGISTER && o->width == 8 && later->n < 8) {
        later->to[later->n] = o->slot;
        return later->from[later->n++] = slot_new(d, 4);
    }
    decode_error(d, "the destination is of another kind or width");
    return NO_SLOT;
}

static void widen_later(Decoder *d, const Widened *later, const Opcode *op)
{
    bool is_signed = false;
    for (int k = op->n - 1; k > 0; k--)
        if (op->part[k][1] >= '0' && op->part[k][1] <= '9')
            is_signed = op->part[k][0] == 's';
    for (uint32_t k = 0; k < later->n; k++) {
        Inst *i = emit(d, is_signed ? exec_widen_signed : exec_widen_unsigned, INST_PLAIN, 3);
        i->d = later->to[k];
        i->a = later->from[k];
        i->wide = 1;
        i->count = COUNT_MOVE;
    }
}

static uint32_t pred_of_constant(Decoder *d, bool value)
{
    uint32_t p = d->npreds++;
    Inst *i = emit(d, exec_set_pred, INST_PLAIN, 0);
    i->d = p;
    i->imm = value;
    i->count = COUNT_MOVE;
    return p;
}

/* A predicate as a source; negation stays in the instruction where it has room for it. */
static uint32_t pred_source(Decoder *d, const Operand *o, bool *negated)
{
    if (o->kind == OPERAND_CONSTANT)
        return pred_of_constant(d, o->value != 0);
    if (o->kind != OPERAND_PRED) {
        decode_error(d, "an operand is no predicate");
        return NO_SLOT;
    }
    if (!o->negated)
        return o->slot;
    if (negated) {
        *negated = true;
        return o->slot;
    }
    uint32_t p = d->npreds++;
    Inst *i = emit(d, exec_not_pred, INST_PLAIN, 0);
    i->d = p;
    i->a = o->slot;
    i->count = COUNT_MOVE;
    return p;
}

static uint32_t pred_destination(Decoder *d, const Operand *o)
{
    if (o->kind == OPERAND_SINK)
        return d->npreds++;
    if (o->kind == OPERAND_PRED && !o->negated)
        return o->slot;
    decode_error(d, "the destination is no predicate");
    return NO_SLOT;
}

/* What the fields of the instruction will hold; converting instructions come before it. */
typedef struct {
    uint32_t field[5], d2, member, list[32], nlist;
    int64_t imm;
    bool a_not, c_not, has_imm, list_in_dest, list_in_source;
    uint8_t wide, registers, list_width;
    uint32_t list_defines;
    Widened later;
} Placed;

static void place_list(Decoder *d, Placed *p, int field, const Operand *o, uint32_t width,
                       bool dest)
{
    const Operand *items = o->kind == OPERAND_LIST ? o->items : o;
    uint32_t n = o->kind == OPERAND_LIST ? o->n : 1;
    for (uint32_t k = 0; k < n; k++) {
        if (p->nlist == sizeof p->list / sizeof *p->list) {
            decode_error(d, "too many elements");
            return;
        }
        uint32_t slot = dest ? slot_destination(d, &items[k], width, &p->later)
                             : slot_source(d, &items[k], width);
        if (k == 0)
            p->field[field] = slot;
        p->list[p->nlist++] = slot;
    }
    p->list_width = (uint8_t)width;
    if (dest)
        p->list_defines = p->nlist;
}

static void place_address(Decoder *d, Placed *p, int field, const Operand *o)
{
    if (o->kind != OPERAND_ADDRESS) {
        decode_error(d, "an address is missing");
        return;
    }
    p->field[field] = o->slot;
    p->wide |= (uint8_t)((o->width == 8) << field);
    if (!p->has_imm) {
        p->imm = (int64_t)o->value;
        p->has_imm = true;
    } else if (o->value) {
        /* one offset is the instruction's; the other is added before */
        Inst *i = emit(d, o->width == 8 ? exec_add_64 : exec_add_32, INST_PLAIN, 7);
        i->a = o->slot;
        i->wide = o->width == 8 ? 7 : 0;
        i->count = COUNT_INT;
        uint32_t at = d->code.n - 1, sum = slot_new(d, o->width),
                 offset = slot_constant(d, o->value, o->width);
        d->code.at[at].d = p->field[field] = sum;
        d->code.at[at].b = offset;
    }
}

static void place(Decoder *d, Placed *p, int field, Takes takes, const Operand *o, bool dest)
{
    uint32_t width =
        takes == TAKES_64 || takes == TAKES_LIST64 || takes == TAKES_LIST_OR_64 ? 8 : 4;
    if (takes != TAKES_PRED && takes != TAKES_IMMEDIATE)
        p->registers |= (uint8_t)(1 << field);
    switch (takes) {
    case TAKES_PRED:
        if (dest)
            p->field[field] = pred_destination(d, o);
        else
            p->field[field] = pred_source(d, o,
                                          field == 1   ? &p->a_not
                                          : field == 3 ? &p->c_not
                                                       : NULL);
        break;
    case TAKES_LIST_OR_32:
    case TAKES_LIST_OR_64:
        if (o->kind == OPERAND_LIST) {
            *(dest ? &p->list_in_dest : &p->list_in_source) = true;
            place_list(d, p, field, o, 4, dest);
            break;
        }
        /* fall through */
    case TAKES_32:
    case TAKES_64:
        p->field[field] =
            dest ? slot_destination(d, o, width, &p->later) : slot_source(d, o, width);
        p->wide |= (uint8_t)((width == 8) << field);
        break;
    case TAKES_LIST32:
    case TAKES_LIST64:
        place_list(d, p, field, o, width, dest);
        p->wide |= (uint8_t)((width == 8) << field);
        break;
    case TAKES_ADDRESS:
        place_address(d, p, field, o);
        break;
    case TAKES_IMMEDIATE:
        if (o->kind != OPERAND_CONSTANT)
            decode_error(d, "an operand is no constant");
        p->imm = (int64_t)o->value;
        break;
    case TAKES_MEMBER:
    case TAKES_SKIP:
    case TAKES_NONE:
        break;
    }
}

/* The predicate of a|p: what the first operand has beside it. */
static uint32_t second_destination(Decoder *d, const Rule *r, const Operand *first)
{
    if (first->kind == OPERAND_LIST || !first->n)
        return NO_SLOT;
    if (!r->two_dests) {
        decode_error(d, "there is no second destination");
        return NO_SLOT;
    }
    return pred_destination(d, &first->items[0]);
}

static void fill(Decoder *d, Inst *i, const Rule *r, const Placed *p)
{
    i->d = p->field[0];
    i->a = p->field[1];
    i->b = p->field[2];
    i->c = p->field[3];
    i->e = p->field[4];
    i->d2 = p->d2;
    i->member = p->member;
    i->imm = p->imm;
    i->a_not = p->a_not;
    i->c_not = p->c_not;
    i->wide = p->wide;
    i->space = r->space;
    i->size = r->size;
    memcpy(i->sub, r->sub, sizeof i->sub);
    i->mxcsr = r->mxcsr;
    i->count = r->count;
    if (p->nlist) {
        uint32_t *list = arena_array(d->a, uint32_t, p->nlist);
        memcpy(list, p->list, p->nlist * sizeof *list);
        i->list = list;
        i->nlist = (uint8_t)p->nlist;
    }
    if (p->list_in_dest || p->list_in_source)
        i->exec = p->list_in_dest ? exec_unpack : exec_pack;
}

/* How many operands the text must have at least and at most. */
static bool count_fits(const Rule *r, uint32_t n)
{
    uint32_t most = 0;
    for (uint32_t k = 0; k < 6 && r->takes[k] != TAKES_NONE; k++)
        most += r->takes[k] != TAKES_SKIP;
    return n <= most && n + r->optional >= most;
}

static void place_all(Decoder *d, Placed *p, const Rule *r, const Opcode *op, const Operand *o,
                      uint32_t n)
{
    /* of bar.red d, a{, b}, p it's the middle one that may be missing */
    bool reduction = !strncmp(op->part[0], "bar", 3) && opcode_has(op, "red");
    uint32_t takes = 0, at = 0;
    int field = r->no_dest;
    while (takes < 6 && r->takes[takes] != TAKES_NONE)
        takes++;
    for (uint32_t k = 0; k < takes && at < n; k++) {
        if (r->takes[k] == TAKES_MEMBER) {
            p->member = slot_source(d, &o[at++], 4);
        } else if (r->takes[k] == TAKES_SKIP || (reduction && n < takes && k + 2 == takes)) {
            field++;
        } else if (field > 4) {
            decode_error(d, "too many operands");
        } else {
            place(d, p, field, (Takes)r->takes[k], &o[at], field == 0);
            if (field == 0)
                p->d2 = second_destination(d, r, &o[at]);
            field++, at++;
        }
    }
}

bool operands_place(Decoder *d, const Rule *r, const Opcode *op, const Operand *o, uint32_t n)
{
    Placed p = {
        .field = {NO_SLOT, NO_SLOT, NO_SLOT, NO_SLOT, NO_SLOT}, .d2 = NO_SLOT, .member = NO_SLOT};
    if (!count_fits(r, n))
        return decode_error(d, "the number of operands is another one");
    for (uint32_t k = 0; k < 6; k++)
        p.has_imm |= r->takes[k] == TAKES_IMMEDIATE;
    place_all(d, &p, r, op, o, n);
    if (d->x->error)
        return false;
    fill(d, emit(d, r->exec, (InstKind)r->kind, p.registers), r, &p);
    Uses *u = &vec_last(&d->uses);
    u->list_width = p.nlist ? p.list_width : 0;
    u->list_defines = (uint8_t)p.list_defines;
    u->member = p.member != NO_SLOT;
    widen_later(d, &p.later, op);
    return true;
}
