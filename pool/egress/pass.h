/* pool/egress/pass.h - what a sandbox in a cluster may reach, as it
 * shows that to the egress proxy of its namespace.
 *
 * A daemon writes a pass when a claim gets the sandbox. Its programs show it
 * with each request, for it is the password in the URL of their proxy. So the
 * proxy keeps no list of sandboxes, and asks nobody. A pass is good from the
 * address of its Pod only. Who has a namespace's key can write passes for the
 * proxies that have it too, and for no other. In text a pass is the MAC and
 * its five fields with NUL between, all as hexadecimal digits.
 *
 * Pure; any thread. */
#ifndef WP_POOL_EGRESS_PASS_H
#define WP_POOL_EGRESS_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"
#include "pool/limits.h"

/* The user beside the password, which is the pass. */
#define WP_EGRESS_PASS_USER "sandbox"

enum {
    WP_EGRESS_KEY_LEN = 32, /* In a file: twice as many hexadecimal digits. */
    WP_EGRESS_PASS_ADDRESS_MAX = 45,
    /* One that was made for a claim has the claim's name. */
    WP_EGRESS_PASS_SANDBOX_MAX = 253,
    /* Bytes that the digits stand for: a MAC, and the fields. */
    WP_EGRESS_PASS_BYTES_MAX =
        32 + WP_NAMESPACE_MAX + WP_EGRESS_PASS_SANDBOX_MAX +
        WP_EGRESS_PASS_ADDRESS_MAX + 2 * WP_EGRESS_TEXT_MAX + 4,
    WP_EGRESS_PASS_TEXT_MAX = 2 * WP_EGRESS_PASS_BYTES_MAX,
};

/* Each within its limit, without NUL. */
struct wp_egress_pass {
    struct wp_str pool_namespace;
    struct wp_str sandbox;
    struct wp_str address; /* Of its Pod, as inet_ntop writes it. */
    struct wp_str policy;  /* Of its pool, as policy.h reads it. */
    struct wp_str by;      /* What its claim narrows that by; empty: nothing. */
};

/* The key of a namespace, from that of the installation. */
void wp_egress_key_derive(const uint8_t installation[WP_EGRESS_KEY_LEN],
                          struct wp_str pool_namespace,
                          uint8_t out[WP_EGRESS_KEY_LEN]);
/* Terminated. */
void wp_egress_pass_write(const uint8_t key[WP_EGRESS_KEY_LEN],
                          const struct wp_egress_pass *pass,
                          char out[WP_EGRESS_PASS_TEXT_MAX + 1]);
/* False: it is none, or not of that key. What is read lies in room. */
WP_MUST_CHECK bool wp_egress_pass_read(const uint8_t key[WP_EGRESS_KEY_LEN],
                                       struct wp_str text,
                                       char room[WP_EGRESS_PASS_BYTES_MAX],
                                       struct wp_egress_pass *out);

#endif
