/* bench/load/claim_codec.h - as much of warmpool.v1 as a load client needs.
 *
 * Written against the .proto file, not against proto/wire.c: the client is an
 * independent reader of what the server writes, and lighter than it. */
#ifndef WP_BENCH_LOAD_CLAIM_CODEC_H
#define WP_BENCH_LOAD_CLAIM_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

enum {
    WP_CODEC_CLAIM_MAX = 512, /* Room for any ClaimRequest of this client. */
    WP_CODEC_RELEASE_MAX = 256,
};

/* What a load client reads of a ClaimResponse. Strings point into the bytes. */
struct wp_codec_lease {
    struct wp_str claim_id;
    struct wp_str sandbox;
    struct wp_str endpoint;
    struct wp_str token;
    uint64_t fence;
    uint64_t served;
    bool replayed;
};

/* The length of the message in out[WP_CODEC_CLAIM_MAX]. The names must fit. */
size_t wp_codec_write_claim(uint8_t *out, struct wp_str pool_namespace,
                            struct wp_str pool, struct wp_str claim_id,
                            uint64_t wait_ms);
/* The length of the message in out[WP_CODEC_RELEASE_MAX]. */
size_t wp_codec_write_release(uint8_t *out, struct wp_str token);
/* False when the bytes are no message, or lack the sandbox or the token. */
WP_MUST_CHECK bool wp_codec_read_claim(const uint8_t *bytes, size_t len,
                                       struct wp_codec_lease *out);
WP_MUST_CHECK bool wp_codec_read_release(const uint8_t *bytes, size_t len,
                                         bool *was_held);

#endif
