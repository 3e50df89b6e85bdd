/* k8s/objects/lease_annotation.h - what is written on a Sandbox that a gRPC
 * lease holds.
 *
 * One annotation with compact JSON: {"claimId":"...","tenant":"...","fence":7,
 * "deadline":1767225600000,...}; times in milliseconds since 1970. It tells
 * people and other controllers whose the sandbox is. From it the next leader
 * rebuilds the lease where the store keeps nothing.
 *
 * Not each renewal is written: the lease ends at "until" at the latest, and
 * whoever knows no better goes by that. */
#ifndef WP_K8S_OBJECTS_LEASE_ANNOTATION_H
#define WP_K8S_OBJECTS_LEASE_ANNOTATION_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/limits.h"

#define WP_ANNOTATION_LEASE "warmpool.dev/lease"

enum {
    /* Each character of the texts may be written as \u0000. */
    WP_LEASE_NOTE_MAX = 6 * (WP_CLAIM_ID_MAX + WP_TENANT_MAX +
                             WP_POOL_NAME_MAX + WP_AUDIENCE_MAX) +
                        480,
    WP_LEASE_NOTE_SEAL = 64, /* Hexadecimal digits. */
};

struct wp_lease_note {
    char claim_id[WP_CLAIM_ID_MAX + 1];
    char tenant[WP_TENANT_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1]; /* "": not said, by an older version. */
    uint64_t fence;
    int64_t deadline_wall_ms;
    int64_t until_wall_ms; /* Not before the deadline. */
    int64_t granted_wall_ms;
    uint64_t fingerprint;
    uint32_t served; /* enum wp_served */
    /* Of the signed identity that the sandbox has; "": none. */
    char audience[WP_AUDIENCE_MAX + 1];
    int64_t identity_ttl_ms;
    /* Shows that a daemon wrote the two for this lease, and nobody else. */
    char identity_seal[WP_LEASE_NOTE_SEAL + 1];
};

/* Any thread. */
void wp_lease_note_write(const struct wp_lease_note *note,
                         char out[WP_LEASE_NOTE_MAX]);
/* False when text is longer than WP_LEASE_NOTE_MAX or is not such an object:
 * fence and deadline must be numbers that are not below 0, the texts within
 * their limits. What an older version did not write is 0 or "", and until is
 * the deadline. Other members are ignored. Any thread. */
WP_MUST_CHECK bool wp_lease_note_read(const char *text,
                                      struct wp_lease_note *note);

#endif
