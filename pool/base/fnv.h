/* pool/base/fnv.h - FNV-1a: to tell one text from another or to choose a
 * bucket, where nobody wants a collision. Against who does there is siphash.h.
 * Values are kept in records and names: they never change. Pure; any thread. */
#ifndef WP_BASE_FNV_H
#define WP_BASE_FNV_H

#include <stddef.h>
#include <stdint.h>

#include "pool/base/str.h"

/* What to begin with. */
#define WP_FNV_BASIS UINT64_C(14695981039346656037)

/* The hash of what hash stands for, followed by these bytes. */
static inline uint64_t
wp_fnv(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ at[i]) * UINT64_C(1099511628211);
    }
    return hash;
}

/* The same of a text without its terminator: "ab", "c" and "a", "bc" in a row
 * are one. */
static inline uint64_t
wp_fnv_str(uint64_t hash, struct wp_str text)
{
    return wp_fnv(hash, text.ptr, text.len);
}

/* Of "space/name". */
static inline uint64_t
wp_fnv_name(struct wp_str space, struct wp_str name)
{
    uint64_t hash = wp_fnv_str(WP_FNV_BASIS, space);

    return wp_fnv_str(wp_fnv(hash, "/", 1), name);
}

/* The one in 32 bits, where a hash is a part of a short name. */
static inline uint32_t
wp_fnv32_str(struct wp_str text)
{
    uint32_t hash = UINT32_C(2166136261);

    for (size_t i = 0; i < text.len; i++) {
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT32_C(16777619);
    }
    return hash;
}

#endif
