/* report_plots.h: the pictures of -report=html, as SVG. SPDX-License-Identifier: MIT */
#ifndef TENON_REPORT_PLOTS_H
#define TENON_REPORT_PLOTS_H

#include "frontend/report_cost.h"

/** Operations a second that the machine allows, over operations a byte: a dot for each kernel and
 * product, a ring for what the least traffic would allow. */
void plot_roofline(const At *at, const HostProgram *h, StrBuf *out);
/** Which buffers live at which step, and where: temporaries, then what is saved. */
void plot_memory(const At *at, const HostProgram *h, StrBuf *out);

/** Text of the model in a page. */
void html_text(const char *s, StrBuf *out);
/** "1.5 MB", "3.2 GFLOP". */
const char *html_quantity(Arena *a, double n, const char *unit);

#endif
