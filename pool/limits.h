/* pool/limits.h - the bound of everything that comes from outside.
 *
 * proto/wire.c, the manifest reader and the configuration check against these;
 * the core asserts them. Changing one is a change of the product's contract. */
#ifndef WP_POOL_LIMITS_H
#define WP_POOL_LIMITS_H

#include <stdint.h>

#include "pool/base/clock.h"

enum {
    WP_NAMESPACE_MAX = 63,
    WP_POOL_NAME_MAX = 54, /* Leaves room for "-" and the suffix. */
    WP_SANDBOX_SUFFIX_LEN = 8,
    WP_SANDBOX_NAME_MAX = 63, /* A DNS label: it names Pods and Services too. */
    WP_TEMPLATE_NAME_MAX = 63,
    WP_CLAIM_ID_MAX = 128,  /* Printable UTF-8, chosen by the client. */
    WP_TENANT_MAX = 63,     /* Printable UTF-8; "" is the default tenant. */
    WP_ENDPOINT_MAX = 107,  /* What sockaddr_un holds, without the NUL. */
    WP_REASON_MAX = 95,     /* Why a sandbox was lost, for people. */
    WP_BATCH_MAX = 256,     /* Claims in one ClaimBatch. */
    WP_AHEAD_MAX = 256,     /* Leases that one ClaimStream has ahead. */
    WP_STREAM_ID_MAX = 100, /* Leaves room for "/" and a number. */
    WP_PAGE_MAX = 1000,     /* Claims in one page of ListClaims. */
    WP_POOLS_MAX = 1024,
    WP_SLOTS_MAX = 1 << 24,
    WP_TARGET_MAX = 1 << 20, /* spec.replicas of one pool. */
    WP_TOKEN_LEN = 68,
    WP_REPLICAS_MAX = 64,

    /* Of what a claim brings for its sandbox. */
    WP_BINDING_ENV_MAX = 256,
    WP_BINDING_SECRETS_MAX = 64,
    WP_BINDING_FILES_MAX = 256,
    WP_BINDING_ARCHIVES_MAX = 8,
    WP_BINDING_ARGS_MAX = 64,     /* Words of its command. */
    WP_BINDING_NAME_MAX = 128,    /* Of a variable or secret. */
    WP_BINDING_VALUE_MAX = 65536, /* The same; of a command's word. */
    WP_BINDING_TEXT_MAX = 131072, /* Of names, values and words in all. */
    WP_BINDING_PATH_MAX = 512,
    WP_BINDING_FILES_BYTES_MAX = 1 << 20, /* Of all files' contents. */
    WP_BINDING_REPOSITORIES_MAX = 8,
    WP_BINDING_PASSWORD_MAX = 1024, /* Of a repository. */
    WP_BINDING_USER_MAX = 128,      /* The same. */
    WP_BINDING_VOLUMES_MAX = 4,
    WP_VOLUME_NAME_MAX = 63,
    WP_BIND_REASON_MAX = 159,
    WP_EGRESS_TEXT_MAX = 1023, /* Of a pool's egress policy. */
    WP_EGRESS_PROXY_MAX = 259, /* HOST:PORT */
    WP_AUDIENCE_MAX = 255,     /* Of an identity. */
    WP_IDENTITY_TOKEN_MAX = 4095,
};

#define WP_TTL_MIN_NS (1 * WP_NS_PER_S)
#define WP_TTL_MAX_NS (30 * 24 * 3600 * WP_NS_PER_S)
#define WP_FREEZE_AFTER_MIN_NS (100 * WP_NS_PER_MS)
/* The deadline of a lease that has none, as shown and recorded: the last
 * second of the year 9999, in milliseconds since 1970. */
#define WP_WALL_NEVER_MS INT64_C(253402300799000)
#define WP_IDENTITY_TTL_MIN_NS (60 * WP_NS_PER_S)
#define WP_IDENTITY_TTL_MAX_NS (24 * 3600 * WP_NS_PER_S)
#define WP_WAIT_MAX_NS (600 * WP_NS_PER_S)
/* How long a sandbox may take to be bound. */
#define WP_BIND_MAX_NS (5 * WP_NS_PER_S)

/* Tenants that begin so are the daemon's own; no client is one. */
#define WP_TENANT_OWN_PREFIX "system:"

#endif
