/* lower_loop.h: what lower.c and lower_loop.c share: the steps of another graph in between.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_LOWER_LOOP_H
#define TENON_LOWER_LOOP_H

#include "ir/loop.h"
#include "passes/lower_internal.h"

/** Steps are those of `g` from now on; l->f is NULL after a diagnostic. */
void lower_enter(Lower *l, const Graph *g);
void lower_leave(Lower *l, const Lower *outer);
void lower_groups(Lower *l);
/** The value is made at `loc` if it has a place of its own. */
void lower_place_result(Lower *l, Val v, const Loc *loc);
/** Notes a copy to `loc` if the value is elsewhere. */
void lower_late_result(Lower *l, Val v, const Loc *loc);
void lower_late_copies(Lower *l);
void lower_scan(Lower *l, const FuseGroup *grp);

#endif
