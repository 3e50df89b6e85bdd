#include "allocator/advice/plot.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/compiler.h"

enum {
    WIDTH = 920,
    HEIGHT = 600,
    LEFT = 80,
    RIGHT = 640, /* Of the area; the legend is beyond it. */
    TOP = 86,
    BOTTOM = 530,
    BOXES_MAX = 8192, /* Of marks, curves and labels. */
    PLACES = 64,      /* Tried for a label. */
    CURVE_STEP = 6,   /* Pixels of a curve that a box stands for. */
    TICKS_MAX = 40,
};

/* Up to 99.999 %. */
static const double NINES_MAX = 5;

/* Tell apart with any kind of colour vision (Okabe and Ito). */
static const char *const COLOURS[] = {"#0072b2", "#d55e00", "#000000",
                                      "#009e73", "#cc79a7", "#e69f00",
                                      "#56b4e9"};

struct box {
    double x0;
    double y0;
    double x1;
    double y1;
};

struct axis {
    enum wp_plot_scale scale;
    double from; /* After the scale's function. */
    double until;
    double pixel_from;
    double pixel_until;
};

struct pen {
    char *text;
    size_t len;
    size_t cap;
    bool failed;
    struct axis x;
    struct axis y;
    struct box taken[BOXES_MAX];
    uint32_t n_taken;
};

static void put(struct pen *pen, const char *fmt, ...) WP_PRINTF(2, 3);

static bool
grow(struct pen *pen, size_t more)
{
    if (pen->len + more + 1 > pen->cap) {
        size_t cap = 2 * (pen->cap + more) + 4096;
        char *text = realloc(pen->text, cap);

        if (text == NULL) {
            pen->failed = true;
            return false;
        }
        pen->text = text;
        pen->cap = cap;
    }
    return !pen->failed;
}

static void
put(struct pen *pen, const char *fmt, ...)
{
    va_list args;
    int n;

    if (!grow(pen, 1024)) {
        return;
    }
    va_start(args, fmt);
    n = vsnprintf(pen->text + pen->len, pen->cap - pen->len, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= pen->cap - pen->len) {
        pen->failed = true;
        return;
    }
    pen->len += (size_t)n;
}

/* Text from elsewhere, as XML takes it. */
static void
put_text(struct pen *pen, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        switch (text[i]) {
        case '<':
            put(pen, "&lt;");
            break;
        case '>':
            put(pen, "&gt;");
            break;
        case '&':
            put(pen, "&amp;");
            break;
        default:
            put(pen, "%c",
                (unsigned char)text[i] < ' ' && text[i] != '\t' ? ' '
                                                                : text[i]);
            break;
        }
    }
}

/* Lines of at most so many characters, broken at spaces. */
static void
put_lines(struct pen *pen, const char *text, double x, double y, size_t width)
{
    while (*text != '\0') {
        size_t n = strlen(text);

        if (n > width) {
            n = width;
            while (n > 0 && text[n] != ' ') {
                n--;
            }
            n = n == 0 ? width : n;
        }
        put(pen, "<text x=\"%.0f\" y=\"%.0f\" class=\"r\">", x, y);
        put_text(pen, text, n);
        put(pen, "</text>\n");
        text += n;
        text += *text == ' ' ? 1 : 0;
        y += 15;
    }
}

/* --- Axes --- */

static double
scaled(enum wp_plot_scale scale, double value)
{
    switch (scale) {
    case WP_PLOT_LOG:
        return log10(fmax(value, 1e-9));
    case WP_PLOT_NINES:
        return -log10(fmax(1 - value, 1e-7));
    case WP_PLOT_LINEAR:
        break;
    }
    return value;
}

static double
pixel(const struct axis *axis, double value)
{
    double at = fmin(fmax(scaled(axis->scale, value), axis->from), axis->until);

    return axis->pixel_from + (at - axis->from) / (axis->until - axis->from) *
                                  (axis->pixel_until - axis->pixel_from);
}

static uint32_t
ticks_linear(const struct axis *axis, double out[TICKS_MAX])
{
    double step = pow(10, floor(log10((axis->until - axis->from) / 4)));
    double rough = (axis->until - axis->from) / 6;
    double first;
    uint32_t n = 0;

    step *= rough > 5 * step ? 10 : rough > 2 * step ? 5 : rough > step ? 2 : 1;
    first = ceil(axis->from / step);
    while (n < TICKS_MAX && (first + n) * step <= axis->until + step * 1e-9) {
        out[n] = (first + n) * step;
        n++;
    }
    return n;
}

static uint32_t
ticks_log(const struct axis *axis, double out[TICKS_MAX])
{
    bool fine = axis->until - axis->from < 4;
    uint32_t n = 0;

    for (int decade = (int)floor(axis->from); decade <= (int)axis->until;
         decade++) {
        for (int i = 1; i <= 5; i += i == 1 ? 1 : 3) {
            double at = decade + log10(i);

            if ((i == 1 || fine) && at >= axis->from - 1e-9 &&
                at <= axis->until + 1e-9 && n < TICKS_MAX) {
                out[n++] = i * pow(10, decade);
            }
        }
    }
    return n;
}

/* The most telling first: others only where they do not crowd them. */
static uint32_t
ticks_nines(const struct axis *axis, double out[TICKS_MAX])
{
    static const double AT[] = {0.9,      0.99, 0.999, 0.9999, 0.99999,
                                0.999999, 0,    0.5,   0.95,   0.995,
                                0.9995,   0.8,  0.98,  0.998};
    uint32_t n = 0;

    for (size_t i = 0; i < WP_ARRAY_LEN(AT); i++) {
        double at = scaled(WP_PLOT_NINES, AT[i]);
        bool fits = at >= axis->from - 1e-9 && at <= axis->until + 1e-9;

        for (uint32_t k = 0; k < n && fits; k++) {
            fits = fabs(pixel(axis, AT[i]) - pixel(axis, out[k])) >= 50;
        }
        if (fits) {
            out[n++] = AT[i];
        }
    }
    return n;
}

static uint32_t
ticks(const struct axis *axis, double out[TICKS_MAX])
{
    switch (axis->scale) {
    case WP_PLOT_LOG:
        return ticks_log(axis, out);
    case WP_PLOT_NINES:
        return ticks_nines(axis, out);
    case WP_PLOT_LINEAR:
        break;
    }
    return ticks_linear(axis, out);
}

static void
tick_text(const struct axis *axis, double value, char out[32])
{
    if (axis->scale == WP_PLOT_NINES) {
        (void)snprintf(out, 32, "%.6g %%", value * 100);
    } else {
        (void)snprintf(out, 32, "%.6g", value);
    }
}

/* What of a value shows: 0 on a logarithmic axis is drawn at its end. */
static bool
counts(enum wp_plot_scale scale, double value)
{
    return isfinite(value) && (scale != WP_PLOT_LOG || value > 0) &&
           (scale != WP_PLOT_NINES || value < 1);
}

static void
fit_axis(const struct wp_plot *plot, bool is_x, struct axis *axis)
{
    double pad;

    axis->from = HUGE_VAL;
    axis->until = -HUGE_VAL;
    for (uint32_t i = 0; i < plot->n_series; i++) {
        for (uint32_t k = 0; k < plot->series[i].n_points; k++) {
            const struct wp_plot_point *point = &plot->series[i].points[k];
            double value = is_x ? point->x : point->y;

            if (counts(axis->scale, value)) {
                value = scaled(axis->scale, value);
                axis->from = fmin(axis->from, value);
                axis->until = fmax(axis->until, value);
            }
        }
    }
    if (!(axis->from <= axis->until)) {
        axis->from = 0;
        axis->until = 1;
    }
    if (axis->scale != WP_PLOT_LINEAR) {
        /* The same on every chart: whole decades, and all shares. */
        axis->from =
            axis->scale == WP_PLOT_NINES ? 0 : floor(axis->from + 1e-9);
        axis->until = axis->scale == WP_PLOT_NINES
                          ? NINES_MAX
                          : fmax(ceil(axis->until - 1e-9), axis->from + 1);
        return;
    }
    pad = fmax((axis->until - axis->from) * 0.06, 0.05);
    axis->from -= pad;
    axis->until += pad;
    if (axis->from < pad * 6 && axis->from > -pad * 1.01) {
        axis->from = 0;
    }
}

static void
draw_axes(struct pen *pen, const struct wp_plot *plot)
{
    double at[TICKS_MAX];
    char text[32];
    uint32_t n = ticks(&pen->x, at);

    for (uint32_t i = 0; i < n; i++) {
        double x = pixel(&pen->x, at[i]);

        tick_text(&pen->x, at[i], text);
        put(pen,
            "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" class=\"g\"/>"
            "<text x=\"%.1f\" y=\"%d\" class=\"m\">%s</text>\n",
            x, TOP, x, BOTTOM, x, BOTTOM + 18, text);
    }
    n = ticks(&pen->y, at);
    for (uint32_t i = 0; i < n; i++) {
        double y = pixel(&pen->y, at[i]);

        tick_text(&pen->y, at[i], text);
        put(pen,
            "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" class=\"g\"/>"
            "<text x=\"%d\" y=\"%.1f\" class=\"e\">%s</text>\n",
            LEFT, y, RIGHT, y, LEFT - 8, y + 4, text);
    }
    put(pen,
        "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"f\"/>\n"
        "<text x=\"%d\" y=\"%d\" class=\"m\">",
        LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, (LEFT + RIGHT) / 2, BOTTOM + 44);
    put_text(pen, plot->x_label, strlen(plot->x_label));
    put(pen,
        "</text>\n<text x=\"22\" y=\"%d\" class=\"m\" "
        "transform=\"rotate(-90 22 %d)\">",
        (TOP + BOTTOM) / 2, (TOP + BOTTOM) / 2);
    put_text(pen, plot->y_label, strlen(plot->y_label));
    put(pen, "</text>\n");
}

/* --- Marks and their labels --- */

static void
take(struct pen *pen, struct box box)
{
    if (pen->n_taken < BOXES_MAX) {
        pen->taken[pen->n_taken++] = box;
    }
}

static bool
is_free(const struct pen *pen, const struct box *box)
{
    if (box->x0 < LEFT || box->x1 > RIGHT || box->y0 < TOP ||
        box->y1 > BOTTOM) {
        return false;
    }
    for (uint32_t i = 0; i < pen->n_taken; i++) {
        const struct box *other = &pen->taken[i];

        if (box->x0 < other->x1 && other->x0 < box->x1 && box->y0 < other->y1 &&
            other->y0 < box->y1) {
            return false;
        }
    }
    return true;
}

/* Beside the point where nothing else is drawn; further off with a line. Where
 * there is no such place there is no label: the curve is worth more. */
static void
draw_label(struct pen *pen, double x, double y, const char *label,
           const char *colour)
{
    double width = (double)strlen(label) * 6.4;
    struct box box = {0};
    bool found = false;

    for (int i = 0; i < PLACES && !found; i++) {
        double off = 9 + 13 * floor(i / 4.0);
        double down = i % 4 < 2 ? off - 9 : -(off - 9);
        double left = i % 2 == 0 ? x + 12 : x - 12 - width;

        box = (struct box){left, y + down - 7, left + width, y + down + 6};
        found = is_free(pen, &box);
    }
    if (!found) {
        return;
    }
    take(pen, box);
    if (fabs((box.y0 + box.y1) / 2 - y) > 9) {
        put(pen,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
            "stroke=\"%s\" stroke-width=\"0.6\"/>",
            x, y, box.x0 > x ? box.x0 - 2 : box.x1 + 2, (box.y0 + box.y1) / 2,
            colour);
    }
    put(pen, "<text x=\"%.1f\" y=\"%.1f\" class=\"l\" fill=\"%s\">", box.x0,
        box.y1 - 2, colour);
    put_text(pen, label, strlen(label));
    put(pen, "</text>\n");
}

static void
draw_mark(struct pen *pen, enum wp_plot_style style, double x, double y,
          const char *colour)
{
    switch (style) {
    case WP_PLOT_LINE:
        put(pen, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", x,
            y, colour);
        break;
    case WP_PLOT_POINTS:
        put(pen,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\" "
            "fill=\"%s\" transform=\"rotate(45 %.1f %.1f)\"/>\n",
            x - 4, y - 4, colour, x, y);
        break;
    case WP_PLOT_STAR:
        put(pen,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"9\" fill=\"none\" "
            "stroke=\"%s\" stroke-width=\"2.5\"/><circle cx=\"%.1f\" "
            "cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n",
            x, y, colour, x, y, colour);
        break;
    }
}

static bool
drawn(const struct wp_plot_point *point)
{
    return isfinite(point->x) && isfinite(point->y);
}

static const char *
colour_of(uint32_t i)
{
    return COLOURS[i % WP_ARRAY_LEN(COLOURS)];
}

/* Lines that have the colour of an earlier one are dashed. */
static const char *
dash_of(uint32_t i)
{
    return i < WP_ARRAY_LEN(COLOURS) ? "" : " stroke-dasharray=\"7 4\"";
}

/* No label lies on the curve between two points. */
static void
take_curve(struct pen *pen, const struct wp_plot_point *a,
           const struct wp_plot_point *b)
{
    double x = pixel(&pen->x, a->x);
    double y = pixel(&pen->y, a->y);
    double dx = pixel(&pen->x, b->x) - x;
    double dy = pixel(&pen->y, b->y) - y;
    int n = (int)(hypot(dx, dy) / CURVE_STEP) + 1;

    for (int i = 1; i < n; i++) {
        double cx = x + dx * i / n;
        double cy = y + dy * i / n;

        take(pen, (struct box){cx - 2, cy - 2, cx + 2, cy + 2});
    }
}

static void
draw_curve(struct pen *pen, const struct wp_plot_series *series, uint32_t index)
{
    const struct wp_plot_point *before = NULL;

    put(pen, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s d=\"",
        colour_of(index), dash_of(index));
    for (uint32_t i = 0; i < series->n_points; i++) {
        const struct wp_plot_point *point = &series->points[i];

        if (drawn(point)) {
            put(pen, "%c%.1f %.1f ", before == NULL ? 'M' : 'L',
                pixel(&pen->x, point->x), pixel(&pen->y, point->y));
            if (before != NULL) {
                take_curve(pen, before, point);
            }
            before = point;
        }
    }
    put(pen, "\"/>\n");
}

static void
draw_marks(struct pen *pen, const struct wp_plot *plot, uint32_t index)
{
    const struct wp_plot_series *series = &plot->series[index];
    const char *colour = colour_of(index);

    if (series->style == WP_PLOT_LINE) {
        draw_curve(pen, series, index);
    }
    for (uint32_t i = 0; i < series->n_points; i++) {
        if (drawn(&series->points[i])) {
            double x = pixel(&pen->x, series->points[i].x);
            double y = pixel(&pen->y, series->points[i].y);

            draw_mark(pen, series->style, x, y, colour);
            take(pen, (struct box){x - 6, y - 6, x + 6, y + 6});
        }
    }
}

static void
draw_labels(struct pen *pen, const struct wp_plot_series *series,
            const char *colour)
{
    for (uint32_t i = 0; i < series->n_points; i++) {
        const struct wp_plot_point *point = &series->points[i];

        if (drawn(point) && point->label != NULL) {
            draw_label(pen, pixel(&pen->x, point->x), pixel(&pen->y, point->y),
                       point->label, colour);
        }
    }
}

static void
draw_legend(struct pen *pen, const struct wp_plot *plot)
{
    for (uint32_t i = 0; i < plot->n_series; i++) {
        const struct wp_plot_series *series = &plot->series[i];
        double y = TOP + 14 + 24.0 * i;

        if (series->style == WP_PLOT_LINE) {
            put(pen,
                "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" "
                "stroke=\"%s\" stroke-width=\"2\"%s/>",
                RIGHT + 16, y, RIGHT + 40, y, colour_of(i), dash_of(i));
        }
        draw_mark(pen, series->style, RIGHT + 28, y, colour_of(i));
        put(pen, "<text x=\"%d\" y=\"%.1f\" class=\"l\">", RIGHT + 48, y + 4);
        put_text(pen, series->name, strlen(series->name));
        put(pen, "</text>\n");
    }
}

char *
wp_plot_svg(const struct wp_plot *plot, size_t *len)
{
    struct pen *pen = calloc(1, sizeof *pen);
    char *text;

    if (pen == NULL) {
        return NULL;
    }
    pen->x = (struct axis){
        .scale = plot->x_scale, .pixel_from = LEFT, .pixel_until = RIGHT};
    pen->y = (struct axis){
        .scale = plot->y_scale, .pixel_from = BOTTOM, .pixel_until = TOP};
    fit_axis(plot, true, &pen->x);
    fit_axis(plot, false, &pen->y);
    put(pen,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
        "width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<style>.g{stroke:#ddd}.f{fill:none;stroke:#444}"
        ".m{text-anchor:middle}.e{text-anchor:end}.l{font-size:11px}"
        ".r{fill:#333}</style>\n"
        "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n"
        "<text x=\"%d\" y=\"28\" font-size=\"17\" font-weight=\"bold\">",
        WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    put_text(pen, plot->title, strlen(plot->title));
    put(pen, "</text>\n");
    put_lines(pen, plot->reading, LEFT, 46, 130);
    draw_axes(pen, plot);
    /* The first on top of the others. */
    for (uint32_t i = plot->n_series; i > 0; i--) {
        draw_marks(pen, plot, i - 1);
    }
    for (uint32_t i = 0; i < plot->n_series; i++) {
        draw_labels(pen, &plot->series[i], colour_of(i));
    }
    draw_legend(pen, plot);
    put(pen, "</svg>\n");
    text = pen->failed ? NULL : pen->text;
    *len = pen->failed ? 0 : pen->len;
    if (pen->failed) {
        free(pen->text);
    }
    free(pen);
    return text;
}
