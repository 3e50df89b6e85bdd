/* allocator/ctl/token_store.h - the lease tokens that claim remembers.
 *
 * One file of mode 0600 for each claim, in the directory
 * ${XDG_STATE_HOME:-~/.local/state}/warmpool/claims (mode 0700). A token is all
 * that is needed to use or end a lease: it is never printed or logged but where
 * the user asks for JSON. */
#ifndef WP_ALLOCATOR_CTL_TOKEN_STORE_H
#define WP_ALLOCATOR_CTL_TOKEN_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/limits.h"

struct wp_token_record {
    char claim_id[WP_CLAIM_ID_MAX + 1];
    char sandbox[WP_SANDBOX_NAME_MAX + 1]; /* "": not known. */
    uint8_t token[WP_TOKEN_LEN];
    int64_t deadline_wall_ms; /* 0: not known. */
};

/* Writes the record, in place of an older one of its claim. */
enum wp_status wp_token_store_save(const struct wp_token_record *record,
                                   struct wp_err *err);
/* NOT_FOUND when none is remembered. */
enum wp_status wp_token_store_load(const char *claim_id,
                                   struct wp_token_record *out,
                                   struct wp_err *err);
/* Harmless when there is none. */
void wp_token_store_forget(const char *claim_id);

/* A token as hexadecimal digits. */
enum wp_status wp_token_parse(const char *hex, uint8_t token[WP_TOKEN_LEN],
                              struct wp_err *err);
/* A token from a file ("-": standard input): hexadecimal digits, or the JSON
 * that claim --output json prints, which also names claim and sandbox. */
enum wp_status wp_token_read_file(const char *path, struct wp_token_record *out,
                                  struct wp_err *err);

#endif
