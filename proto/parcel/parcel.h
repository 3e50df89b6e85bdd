/* proto/parcel/parcel.h - a binding on its way into a sandbox.
 *
 * The daemon packs it. On one machine warmpool-init is handed it over the
 * control channel, as a sealed memory file; in a cluster it is the body of a
 * request to warmpool-runtime. So it comes whole, or not at all. A row of
 * entries, each a head of four numbers, the lowest byte first, and two texts:
 *
 *   kind   number         first   second
 *   ENV                   name    value
 *   SECRET in_env         name    value
 *   FILE   mode           path    content
 *   DIR                   path
 *   WORD                  word
 *   IDENTITY              name    path    a variable; the file is there. path
 *                                         "": in the folder of what is bound
 *
 * Pure; any thread. */
#ifndef WP_PROTO_PARCEL_PARCEL_H
#define WP_PROTO_PARCEL_PARCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"

/* The file of the identity, in the folder of what is bound; and the variable
 * that names it. */
#define WP_IDENTITY_FILE "identity"
#define WP_IDENTITY_ENV "WARMPOOL_IDENTITY_FILE"

enum wp_parcel_kind {
    WP_PARCEL_ENV = 1,
    WP_PARCEL_SECRET,
    WP_PARCEL_FILE,
    WP_PARCEL_DIR,
    WP_PARCEL_WORD,
    WP_PARCEL_IDENTITY,
};

enum {
    WP_PARCEL_HEAD = 16,
    WP_PARCEL_MAX = 2 << 20, /* Bytes of one. */
};

struct wp_parcel_entry {
    uint32_t kind; /* enum wp_parcel_kind */
    uint32_t number;
    const char *first;
    size_t first_len;
    const char *second;
    size_t second_len;
};

/* Writes the head of an entry. */
void wp_parcel_put_head(const struct wp_parcel_entry *entry,
                        uint8_t out[WP_PARCEL_HEAD]);

struct wp_parcel {
    const uint8_t *pos;
    const uint8_t *end;
};

/* The next entry, whose texts lie in the parcel. False at the end, which is
 * parcel->pos == parcel->end, and for what is no entry. */
WP_MUST_CHECK bool wp_parcel_next(struct wp_parcel *parcel,
                                  struct wp_parcel_entry *entry);

#endif
