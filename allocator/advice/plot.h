/* allocator/advice/plot.h - a chart as SVG, for people who have never seen the
 * project: a title, a sentence that says how to read it, axes with units, a
 * legend, points that carry their names.
 *
 * Pure: the text goes into memory. It needs no fonts of its own, no scripts. */
#ifndef WP_ALLOCATOR_ADVICE_PLOT_H
#define WP_ALLOCATOR_ADVICE_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wp_plot_scale {
    WP_PLOT_LINEAR,
    WP_PLOT_LOG,   /* Values of 0 and less are drawn at the lower end. */
    WP_PLOT_NINES, /* Of shares: 90 %, 99 %, 99.9 % are equally far apart; 1 is
                    * drawn at the upper end. */
};

enum wp_plot_style {
    WP_PLOT_LINE,   /* Joined, with dots. */
    WP_PLOT_POINTS, /* Each with its label. */
    WP_PLOT_STAR,   /* The same, drawn large. */
};

struct wp_plot_point {
    double x;
    double y;
    const char *label; /* NULL: none. Borrowed. */
};

struct wp_plot_series {
    const char *name; /* In the legend; borrowed, as all texts. */
    enum wp_plot_style style;
    const struct wp_plot_point *points; /* Lines: in the order drawn. */
    uint32_t n_points;
};

struct wp_plot {
    const char *title;
    const char *reading; /* A sentence: how to read it, what it shows. */
    const char *x_label; /* With the unit. */
    const char *y_label;
    enum wp_plot_scale x_scale;
    enum wp_plot_scale y_scale;
    const struct wp_plot_series *series;
    uint32_t n_series;
};

/* The document, terminated, to be freed by the caller; *len without the NUL.
 * NULL when memory lacks. Points that are not finite are left out. */
char *wp_plot_svg(const struct wp_plot *plot, size_t *len);

#endif
