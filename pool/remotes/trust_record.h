/* pool/remotes/trust_record.h - what a repository's instruction files were when
 * one tenant first brought it.
 *
 * As a file it is text, a line each:
 *
 *   warmpool-trust 1
 *   tenant TENANT
 *   url URL
 *   SHA-256 PATH      in hexadecimal; "-" for one that was not there
 *
 * Pure; any thread. */
#ifndef WP_POOL_REMOTES_TRUST_RECORD_H
#define WP_POOL_REMOTES_TRUST_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/limits.h"
#include "pool/remotes/remote.h"

enum {
    WP_TRUST_LIST_MAX = 16,  /* Paths of the list. */
    WP_TRUST_FILES_MAX = 64, /* Of a record: see wp_trust_record_below. */
    WP_TRUST_PATH_MAX = 255,
    WP_TRUST_HASH_LEN = 32,
    WP_TRUST_TENANT_RECORDS_MAX = 1024, /* Of one tenant; more are refused. */
    WP_TRUST_NAME_LEN = 32,   /* Of a record's file, in hexadecimal. */
    WP_TRUST_NAME_TENANT = 8, /* Of that, the tenant's. */
    /* Of a record as text. */
    WP_TRUST_TEXT_MAX =
        WP_REMOTE_URL_MAX + WP_TENANT_MAX + 128 +
        WP_TRUST_FILES_MAX * (2 * WP_TRUST_HASH_LEN + 2 + WP_TRUST_PATH_MAX),
    /* Of what differs, in words. */
    WP_TRUST_WHY_MAX = 100,
};

enum wp_trust_state {
    WP_TRUST_ABSENT, /* No file of that path. */
    WP_TRUST_FILE,
    WP_TRUST_ASTRAY, /* A link that leads out of the repository, or nowhere. */
};

struct wp_trust_file {
    char path[WP_TRUST_PATH_MAX + 1];
    enum wp_trust_state state;
    uint8_t hash[WP_TRUST_HASH_LEN]; /* Of FILE; else 0. */
};

struct wp_trust_record {
    char tenant[WP_TENANT_MAX + 1];
    char url[WP_REMOTE_URL_MAX + 1];
    uint32_t n;
    struct wp_trust_file files[WP_TRUST_FILES_MAX];
};

/* Reads a list of paths, between commas, into the record's files, ABSENT. err
 * says what was expected. */
WP_MUST_CHECK enum wp_status wp_trust_files_parse(struct wp_str list,
                                                  struct wp_trust_record *out,
                                                  struct wp_err *err);

/* Of a repository that is put into the folder dir of the workspace: adds what
 * those paths are from its top that lead into dir, as "settings.json" for
 * ".claude/settings.json" and ".claude". The record has the list's paths only:
 * so there is room for as many more. */
void wp_trust_record_below(struct wp_trust_record *record, struct wp_str dir);

/* The text; terminated. Without ASTRAY files. Returns its length. */
size_t wp_trust_record_write(const struct wp_trust_record *record,
                             char out[WP_TRUST_TEXT_MAX + 1]);
/* False: it is no record. */
WP_MUST_CHECK bool wp_trust_record_read(struct wp_str text,
                                        struct wp_trust_record *out);

/* Compares what is there now with what was first seen. False: why names as much
 * of what differs as fits, "CLAUDE.md CHANGED, a NEW, b DELETED, c LINKED". A
 * file that first does not know is no difference; *more is true then. */
WP_MUST_CHECK bool wp_trust_record_same(const struct wp_trust_record *first,
                                        const struct wp_trust_record *now,
                                        bool *more, char why[WP_TRUST_WHY_MAX]);
/* Takes over into first what it does not know. False: it is full. */
WP_MUST_CHECK bool wp_trust_record_add(struct wp_trust_record *first,
                                       const struct wp_trust_record *now);
/* Both: may what is there now be trusted? *more: first has grown, and is to be
 * kept. FAILED_PRECONDITION, RESOURCE_EXHAUSTED: err says why it may not. */
WP_MUST_CHECK enum wp_status
wp_trust_record_judge(struct wp_trust_record *first,
                      const struct wp_trust_record *now, bool *more,
                      struct wp_err *err);

#endif
