/* choose.h: which graphs of the models go through the passes. SPDX-License-Identifier: MIT */
#ifndef TENON_CHOOSE_H
#define TENON_CHOOSE_H

#include "frontend/compile.h"

/** Keeps of each model, behind the frontend, what `names` says, separated by commas: "loss" is a
 * method with what differentiates it, "loss.step" a training step, "loss.update" the update alone.
 * `differentiate`: false keeps just the methods themselves. The state, and how it begins, stay.
 * NULL; else the first name that no model has, and nothing was left out. */
const char *choose_named(Compile *c, const char *names, bool differentiate);

/** Keeps what -train calls: the training steps and the methods that they train. */
void choose_trained(Compile *c);

/** The names that `choose_named` knows, in order. */
const char **choose_names(const Compile *c, int *n);

#endif
