/* op_alu.h: the parts that rule_alu is made of. SPDX-License-Identifier: MIT */
#ifndef VGPU_OP_ALU_H
#define VGPU_OP_ALU_H

#include "tests/vgpu/op.h"

bool rule_move(const Opcode *o, Rule *out);    /* op_move.c: mov, selp, slct, logic of predicates */
bool rule_compare(const Opcode *o, Rule *out); /* op_compare.c: setp, set, testp */
bool rule_float(const Opcode *o, Rule *out);   /* op_float.c: f32, f64, f32x2 */

#endif
