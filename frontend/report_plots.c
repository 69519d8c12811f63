/* report_plots.c: see report_plots.h. SPDX-License-Identifier: MIT */
#include "frontend/report_plots.h"

#include <math.h>

void html_text(const char *s, StrBuf *out)
{
    for (; *s; s++)
        if (*s == '<')
            sb_puts(out, "&lt;");
        else if (*s == '>')
            sb_puts(out, "&gt;");
        else if (*s == '&')
            sb_puts(out, "&amp;");
        else if (*s == '"')
            sb_puts(out, "&quot;");
        else
            sb_putc(out, *s);
}

const char *html_quantity(Arena *a, double n, const char *unit)
{
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E"};
    int i = 0;
    while (n >= 999.5 && i < 6) {
        n /= 1000;
        i++;
    }
    return arena_printf(a, i && n < 99.95 && fabs(n - round(n)) > 0.049 ? "%.1f %s%s" : "%.0f %s%s",
                        n, prefix[i], unit);
}

/* --- roofline ------------------------------------------------------------------------------------
 */

enum { WIDTH = 640, HEIGHT = 300, LEFT = 84, TOP = 14, RIGHT = 20, BOTTOM = 36 };

/* Powers of ten that the axes span. */
typedef struct {
    double x0, x1, y0, y1;
    const Ceilings *c;
} Axes;

static double x_of(const Axes *g, double intensity)
{
    const double t = (log10(intensity) - g->x0) / (g->x1 - g->x0);
    return LEFT + (WIDTH - LEFT - RIGHT) * t;
}

static double y_of(const Axes *g, double rate)
{
    const double t = (log10(rate) - g->y0) / (g->y1 - g->y0);
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * t;
}

static double roof(const Ceilings *c, double intensity)
{
    return fmin(c->operations, c->bytes * intensity);
}

/* Kernels without operations stand at the left edge. */
static double intensity(const Axes *g, int64_t flops, int64_t bytes)
{
    const double lo = pow(10, g->x0), hi = pow(10, g->x1);
    return fmin(hi, fmax(lo, bytes > 0 ? (double)flops / (double)bytes : hi));
}

static Axes axes_of(const Ceilings *c)
{
    Axes g = {.x0 = -2, .x1 = 3, .c = c};
    g.y0 = floor(log10(c->bytes * 0.01));
    g.y1 = ceil(log10(c->operations * 1.05));
    return g;
}

static void draw_axes(const At *at, const Axes *g, StrBuf *out)
{
    for (double i = g->x0; i <= g->x1; i++)
        sb_printf(out,
                  "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                  "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                  x_of(g, pow(10, i)), x_of(g, pow(10, i)), TOP, HEIGHT - BOTTOM,
                  x_of(g, pow(10, i)), HEIGHT - BOTTOM + 14, pow(10, i));
    for (double i = g->y0; i <= g->y1; i++)
        sb_printf(out,
                  "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                  "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                  LEFT, WIDTH - RIGHT, y_of(g, pow(10, i)), y_of(g, pow(10, i)), LEFT - 5,
                  y_of(g, pow(10, i)) + 4, html_quantity(at->a, pow(10, i), "FLOP/s"));
    sb_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">FLOP / byte</text>\n",
              (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6);
}

static void draw_roof(const At *at, const Axes *g, StrBuf *out)
{
    const double ridge = g->c->operations / g->c->bytes, lo = pow(10, g->x0), hi = pow(10, g->x1);
    const double bend = fmin(hi, fmax(lo, ridge));
    sb_printf(out, "<polyline class=\"roof\" points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>\n",
              x_of(g, lo), y_of(g, roof(g->c, lo)), x_of(g, bend), y_of(g, roof(g->c, bend)),
              x_of(g, hi), y_of(g, roof(g->c, hi)));
    sb_printf(out, "<text class=\"ceiling\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
              WIDTH - RIGHT - 4, y_of(g, g->c->operations) - 5,
              html_quantity(at->a, g->c->operations, "FLOP/s"));
    sb_printf(out, "<text class=\"ceiling\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x_of(g, lo * 2) + 8,
              y_of(g, roof(g->c, lo * 2)) + 14, html_quantity(at->a, g->c->bytes, "B/s"));
}

/* Its least time on this machine, in seconds. */
static double least_time(const Ceilings *c, const ReportWork *w)
{
    return fmax((double)w->flops / c->operations,
                (double)report_sum(w->read, w->written) / c->bytes);
}

/* The area of a dot is its share of the method's time. */
static void draw_dot(const Axes *g, const ReportWork *w, double share, StrBuf *out)
{
    const double now = intensity(g, w->flops, report_sum(w->read, w->written));
    const double could = intensity(g, w->flops, w->least);
    sb_printf(out,
              "<circle class=\"could\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/><circle class=\"%s\" "
              "cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>",
              x_of(g, could), y_of(g, roof(g->c, could)), w->kernel ? "dot" : "dot product",
              x_of(g, now), y_of(g, roof(g->c, now)), 3 + 9 * sqrt(share));
    html_text(w->name, out);
    sb_printf(out, ": %.2f FLOP/B, %.0f %% of the time</title></circle>\n", now, 100 * share);
}

void plot_roofline(const At *at, const HostProgram *h, StrBuf *out)
{
    const Axes g = axes_of(&at->r->ceilings);
    double total = 0;
    ReportWork w;
    for (uint32_t i = 0; i < h->steps.n; i++)
        if (report_work(at, h, &h->steps.at[i], &w))
            total += least_time(g.c, &w);
    sb_printf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"roofline\">\n", WIDTH,
              HEIGHT);
    draw_axes(at, &g, out);
    draw_roof(at, &g, out);
    for (uint32_t i = 0; i < h->steps.n; i++)
        if (report_work(at, h, &h->steps.at[i], &w))
            draw_dot(&g, &w, total > 0 ? least_time(g.c, &w) / total : 0, out);
    sb_puts(out, "</svg>\n");
}

/* --- memory --------------------------------------------------------------------------------------
 */

typedef struct {
    double step, byte; /* widths in the picture */
    double bottom;     /* where offset 0 is */
} Scale;

static void draw_buffer(const At *at, const Scale *s, const ReportBuffer *b, uint32_t n,
                        StrBuf *out)
{
    const double x = LEFT + s->step * b->first, w = s->step * (b->last - b->first + 1);
    const double height = fmax(1.0, s->byte * (double)b->bytes);
    const double y = s->bottom - s->byte * (double)b->at - height;
    sb_printf(out,
              "<rect class=\"%s c%u\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"><title>",
              b->saved ? "saved" : "temp", n % 5, x, y, w, height);
    html_text(b->name, out);
    sb_printf(out, ": %s, steps %u to %u</title></rect>\n",
              html_quantity(at->a, (double)b->bytes, "B"), b->first + 1, b->last + 1);
    if (height < 13 || w < 40)
        return;
    sb_printf(out, "<text x=\"%.1f\" y=\"%.1f\">", x + 4, y + height / 2 + 4);
    html_text(arena_printf(at->a, "%.*s", (int)(w / 7), b->name), out);
    sb_puts(out, "</text>\n");
}

static void draw_steps(const HostProgram *h, const Scale *s, StrBuf *out)
{
    const uint32_t every = h->steps.n > 40 ? h->steps.n / 20 : h->steps.n > 20 ? 2 : 1;
    for (uint32_t i = 0; i < h->steps.n; i += every)
        sb_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%u</text>\n",
                  LEFT + s->step * (i + 0.5), HEIGHT - BOTTOM + 14, i + 1);
    sb_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n",
              (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6);
}

static void draw_level(const At *at, const Scale *s, double bytes, const char *what, StrBuf *out)
{
    const double y = s->bottom - s->byte * bytes;
    sb_printf(out,
              "<line class=\"level\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
              "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>"
              "<text class=\"ceiling\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
              LEFT, WIDTH - RIGHT, y, y, LEFT - 5, y + 4, html_quantity(at->a, bytes, "B"),
              WIDTH - RIGHT - 4, y - 3, what);
}

void plot_memory(const At *at, const HostProgram *h, StrBuf *out)
{
    const ReportCost c = report_cost(at, h);
    const ReportBuffers all = report_buffers(at, h);
    int64_t tape = 0;
    for (uint32_t i = 0; i < all.n; i++)
        if (all.at[i].saved && report_sum(all.at[i].at, all.at[i].bytes) > tape)
            tape = report_sum(all.at[i].at, all.at[i].bytes);
    const double total = (double)c.peak + (double)tape;
    if (!all.n || total <= 0) {
        sb_puts(out, "<p class=\"note\">No temporaries, nothing saved.</p>\n");
        return;
    }
    Scale s = {.step = (double)(WIDTH - LEFT - RIGHT) / h->steps.n,
               .byte = (HEIGHT - BOTTOM - TOP - 6) / total,
               .bottom = HEIGHT - BOTTOM};
    sb_printf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"memory\">\n", WIDTH,
              HEIGHT);
    for (uint32_t i = 0; i < all.n; i++)
        if (!all.at[i].saved)
            draw_buffer(at, &s, &all.at[i], i, out);
    draw_level(at, &s, (double)c.peak, "temporaries", out);
    Scale above = s;
    above.bottom -= s.byte * (double)c.peak;
    for (uint32_t i = 0; i < all.n; i++)
        if (all.at[i].saved)
            draw_buffer(at, &above, &all.at[i], i, out);
    if (tape)
        draw_level(at, &s, total, "and saved", out);
    draw_steps(h, &s, out);
    sb_puts(out, "</svg>\n");
}
