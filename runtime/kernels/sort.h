/* sort.h: rows in order, in C. SPDX-License-Identifier: MIT */
