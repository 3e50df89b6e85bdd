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
    WP_CODEC_ID_MAX = 48,
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

/* What a Claim or a ClaimBatch asks for besides its ids. */
struct wp_codec_request {
    struct wp_str pool_namespace;
    struct wp_str pool;
    struct wp_str tenant;
    uint64_t ttl_ms; /* 0: not said. */
    uint64_t wait_ms;
};

/* The length of the message in out: WP_CODEC_CLAIM_MAX bytes, and for a batch
 * WP_CODEC_ID_MAX more for each id. Names of at most 63 bytes, ids of at most
 * WP_CODEC_ID_MAX - 4. */
size_t wp_codec_write_request(uint8_t *out,
                              const struct wp_codec_request *request,
                              const struct wp_str *ids, size_t n_ids);
/* The same for one id, with less to say. */
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

/* One item of a ClaimBatchResponse. code 0: lease is read. */
struct wp_codec_item {
    struct wp_str claim_id;
    uint64_t code;
    struct wp_codec_lease lease;
};
/* Walks the items: *at is 0 at first. False at the end, and when the bytes are
 * no such message; then *at is not len. */
WP_MUST_CHECK bool wp_codec_next_item(const uint8_t *bytes, size_t len,
                                      size_t *at, struct wp_codec_item *out);

#endif
