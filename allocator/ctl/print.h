/* allocator/ctl/print.h - tables for people, JSON for programs.
 *
 * Text from the daemon may hold anything that is UTF-8: tables show control
 * characters as '?', so that no name can play with the terminal. */
#ifndef WP_ALLOCATOR_CTL_PRINT_H
#define WP_ALLOCATOR_CTL_PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

enum {
    WP_TABLE_COLUMNS_MAX = 12,
};

struct wp_table {
    const char *const *titles; /* Borrowed. */
    char **cells;              /* Owned; rows after rows. */
    size_t n_cells;
    size_t cap;
    unsigned columns;
    unsigned right; /* Bit i: column i is numbers, aligned to the right. */
};

/* columns at most WP_TABLE_COLUMNS_MAX. */
void wp_table_init(struct wp_table *table, const char *const *titles,
                   unsigned columns, unsigned right);
/* The next cell, row by row. */
void wp_table_add(struct wp_table *table, const char *fmt, ...) WP_PRINTF(2, 3);
/* Titles, then rows, each column as wide as its widest cell; a row that is not
 * full is not printed. */
void wp_table_print(const struct wp_table *table, FILE *out);
void wp_table_fini(struct wp_table *table);

/* "title   value" lines of one object; titles are padded to width. */
void wp_print_field(FILE *out, int width, const char *title, const char *fmt,
                    ...) WP_PRINTF(4, 5);

/* Sentences in lines of at most 80 columns. */
void wp_print_paragraph(FILE *out, const char *text);

/* "1h02m", "29m12s", "12.3s", "350ms", "4us": two units at most; returns out.
 * Negative ones as 0. */
const char *wp_print_duration(int64_t duration_ns, char out[32]);
/* The same of whatever a peer has sent: none is "0s", too many are 30 years. */
const char *wp_print_seconds(double seconds, char out[32]);

/* One JSON value and a newline; takes the reference. pretty: over several
 * lines. */
void wp_print_json(FILE *out, json_t *value, bool pretty);

#endif
