/* op_space.c: spaces of addresses: their names in opcodes, cvta, isspacep.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/access.h"
#include "tests/vgpu/op.h"

static uint64_t window_of(Space space)
{
    return space == SPACE_SHARED  ? SHARED_WINDOW
           : space == SPACE_LOCAL ? LOCAL_WINDOW
           : space == SPACE_PARAM ? PARAM_WINDOW
                                  : 0;
}

/** cvta: to generic addresses (sub[0] = 0) and from them. */
static void exec_cvta(Warp *w, const Inst *i, uint32_t mask)
{
    uint64_t window = window_of((Space)i->space);
    if (i->sub[0])
        window = -window;
    const uint64_t *a = REG(const uint64_t, i->a);
    uint64_t *d = REG(uint64_t, i->d);
    EACH_LANE d[l] = IS_ON(mask, l) ? a[l] + window : d[l];
}

static void exec_isspacep(Warp *w, const Inst *i, uint32_t mask)
{
    const uint64_t *a = REG(const uint64_t, i->a);
    uint64_t window = window_of((Space)i->space);
    uint32_t is = 0;
    for (int l = 0; l < LANES; l++) {
        bool special = a[l] - SHARED_WINDOW < WINDOW_SIZE || a[l] - LOCAL_WINDOW < WINDOW_SIZE ||
                       a[l] - PARAM_WINDOW < WINDOW_SIZE;
        bool inside = window ? a[l] - window < WINDOW_SIZE : !special;
        is |= (uint32_t)inside << l;
    }
    pred_write(w, i->d, mask, is);
}

bool space_part(const char *part, Space *space)
{
    static const struct {
        const char *text;
        Space space;
    } spaces[] = {{"global", SPACE_GLOBAL}, {"shared", SPACE_SHARED}, {"shared::cta", SPACE_SHARED},
                  {"local", SPACE_LOCAL},   {"param", SPACE_PARAM},   {"param::entry", SPACE_PARAM},
                  {"const", SPACE_CONST}};
    for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++) {
        if (!strcmp(part, spaces[k].text)) {
            *space = spaces[k].space;
            return true;
        }
    }
    return false;
}

static bool convert_address(const Opcode *o, Rule *out)
{
    Space space = SPACE_GENERIC;
    out->sub[0] = o->n > 2 && !strcmp(o->part[1], "to");
    if (o->n != 3 + out->sub[0] || !space_part(o->part[1 + out->sub[0]], &space) ||
        strcmp(o->part[o->n - 1], "u64"))
        return false;
    out->exec = exec_cvta;
    out->count = COUNT_INT;
    out->space = (uint8_t)space;
    out->takes[0] = TAKES_64;
    out->takes[1] = TAKES_64;
    return true;
}

bool rule_space(const Opcode *o, Rule *out)
{
    Space space = SPACE_GENERIC;
    if (!strcmp(o->part[0], "cvta"))
        return convert_address(o, out);
    if (strcmp(o->part[0], "isspacep") || o->n != 2 || !space_part(o->part[1], &space))
        return false;
    out->exec = exec_isspacep;
    out->count = COUNT_INT;
    out->space = (uint8_t)space;
    out->takes[0] = TAKES_PRED;
    out->takes[1] = TAKES_64;
    return true;
}
