/* report.h: what report.c offers to the driver beyond vgpu.h. SPDX-License-Identifier: MIT */
#ifndef VGPU_REPORT_H
#define VGPU_REPORT_H

#include "tests/vgpu/vgpu.h"

/** This process uses the driver: `leaks` is called at its exit. */
void report_exit(void (*leaks)(void));

#endif
