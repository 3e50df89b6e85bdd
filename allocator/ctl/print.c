#include "allocator/ctl/print.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    GAP = 3, /* Between columns. */
    PARAGRAPH_WIDTH = 80,
};

/* Makes text safe to show: printable, and UTF-8 or ASCII. */
static void
sanitize(char *text)
{
    bool utf8 = wp_str_is_utf8(wp_str_from(text));

    for (char *p = text; *p != '\0'; p++) {
        unsigned char c = (unsigned char)*p;

        /* 0xc2 leads the two bytes of a C1 control. */
        if (c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8) ||
            (c == 0xc2 && (unsigned char)p[1] < 0xa0)) {
            *p = '?';
            if (c == 0xc2 && utf8) {
                p[1] = '?';
            }
        }
    }
}

/* Characters, not bytes. */
static int
width_of(const char *text)
{
    int n = 0;

    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

void
wp_table_init(struct wp_table *table, const char *const *titles,
              unsigned columns, unsigned right)
{
    WP_ASSERT(columns <= WP_TABLE_COLUMNS_MAX);
    *table =
        (struct wp_table){.titles = titles, .columns = columns, .right = right};
}

void
wp_table_add(struct wp_table *table, const char *fmt, ...)
{
    char *cell = NULL;
    va_list args;

    va_start(args, fmt);
    WP_ASSERT(vasprintf(&cell, fmt, args) >= 0);
    va_end(args);
    sanitize(cell);
    if (table->n_cells == table->cap) {
        table->cap = table->cap == 0 ? 64 : 2 * table->cap;
        table->cells = realloc(table->cells, table->cap * sizeof *table->cells);
        WP_ASSERT(table->cells != NULL);
    }
    table->cells[table->n_cells++] = cell;
}

static void
print_cell(const struct wp_table *table, unsigned column, const char *text,
           const int *widths, FILE *out)
{
    int pad = widths[column] - width_of(text);
    bool last = column + 1 == table->columns;

    if ((table->right >> column & 1U) != 0) {
        (void)fprintf(out, "%*s%s", pad, "", text);
        pad = 0;
    } else {
        (void)fputs(text, out);
    }
    (void)fprintf(out, "%*s%s", last ? 0 : pad + GAP, "", last ? "\n" : "");
}

void
wp_table_print(const struct wp_table *table, FILE *out)
{
    int widths[WP_TABLE_COLUMNS_MAX];
    size_t rows = table->n_cells / table->columns;

    for (unsigned c = 0; c < table->columns; c++) {
        widths[c] = width_of(table->titles[c]);
        for (size_t r = 0; r < rows; r++) {
            int width = width_of(table->cells[r * table->columns + c]);

            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
    for (unsigned c = 0; c < table->columns; c++) {
        print_cell(table, c, table->titles[c], widths, out);
    }
    for (size_t i = 0; i < rows * table->columns; i++) {
        print_cell(table, (unsigned)(i % table->columns), table->cells[i],
                   widths, out);
    }
}

void
wp_table_fini(struct wp_table *table)
{
    for (size_t i = 0; i < table->n_cells; i++) {
        free(table->cells[i]);
    }
    free(table->cells);
    table->cells = NULL;
    table->n_cells = 0;
}

void
wp_print_field(FILE *out, int width, const char *title, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;

    va_start(args, fmt);
    WP_ASSERT(vasprintf(&text, fmt, args) >= 0);
    va_end(args);
    sanitize(text);
    (void)fprintf(out, "%-*s%s\n", width, title, text);
    free(text);
}

void
wp_print_paragraph(FILE *out, const char *text)
{
    while (*text != '\0') {
        int fits = 0;

        for (const char *p = text; p - text <= PARAGRAPH_WIDTH; p++) {
            if (*p == ' ' || *p == '\0') {
                fits = (int)(p - text);
            }
            if (*p == '\0') {
                break;
            }
        }
        fits = fits > 0 ? fits : (int)strcspn(text, " ");
        wp_print_field(out, 0, "", "%.*s", fits, text);
        text += fits;
        text += *text == ' ';
    }
}

const char *
wp_print_duration(int64_t duration_ns, char out[32])
{
    int64_t s = duration_ns / WP_NS_PER_S;

    if (duration_ns <= 0) {
        (void)snprintf(out, 32, "0s");
    } else if (duration_ns < WP_NS_PER_MS) {
        (void)snprintf(out, 32, "%dus", (int)(duration_ns / WP_NS_PER_US));
    } else if (s == 0) {
        (void)snprintf(out, 32, "%dms", (int)(duration_ns / WP_NS_PER_MS));
    } else if (s < 60) {
        (void)snprintf(out, 32, "%d.%ds", (int)s,
                       (int)(duration_ns / (100 * WP_NS_PER_MS) % 10));
    } else if (s < 3600) {
        (void)snprintf(out, 32, "%dm%02ds", (int)(s / 60), (int)(s % 60));
    } else if (s < 48 * 3600) {
        (void)snprintf(out, 32, "%dh%02dm", (int)(s / 3600),
                       (int)(s / 60 % 60));
    } else {
        (void)snprintf(out, 32, "%lldd%02dh", (long long)(s / 86400),
                       (int)(s / 3600 % 24));
    }
    return out;
}

const char *
wp_print_seconds(double seconds, char out[32])
{
    return wp_print_duration((int64_t)(fmin(fmax(seconds, 0), 1e9) * 1e9), out);
}

void
wp_print_json(FILE *out, json_t *value, bool pretty)
{
    WP_ASSERT(value != NULL);
    (void)json_dumpf(value, out, pretty ? JSON_INDENT(2) : JSON_COMPACT);
    (void)fputc('\n', out);
    json_decref(value);
}
