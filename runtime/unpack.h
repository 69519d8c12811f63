/* unpack.h: device code is stored packed. SPDX-License-Identifier: MIT */
#ifndef TENON_UNPACK_H
#define TENON_UNPACK_H

#include <stdbool.h>
#include <stddef.h>

/** Unpacks one block of the LZ4 format (n bytes) into exactly `whole` bytes. False if the block is
 * damaged or gives another size; nothing beyond either end is touched. */
bool tn__unpack(const void *from, size_t n, void *to, size_t whole);

#endif
