/* sort.cuh: rows in order, on a GPU. SPDX-License-Identifier: MIT */
