#include "allocator/conf/quota.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *key; /* With the sign behind it. */
    size_t offset;   /* Of the field in struct wp_quota. */
    uint32_t max;
} bounds[] = {
    {"leases=", offsetof(struct wp_quota, leases_max), WP_SLOTS_MAX},
    {"waiting=", offsetof(struct wp_quota, waiters_max), WP_SLOTS_MAX},
    {"claims-per-minute=", offsetof(struct wp_quota, claims_per_minute),
     WP_CLAIM_RATE_MAX},
};

/* The bound that the word begins like; WP_ARRAY_LEN(bounds): none. */
static size_t
find_bound(struct wp_str word)
{
    size_t i = 0;

    while (i < WP_ARRAY_LEN(bounds) &&
           !wp_str_starts_with(word, wp_str_from(bounds[i].key))) {
        i++;
    }
    return i;
}

/* False when its number is none, too large, or there already. */
static bool
set_bound(struct wp_str word, size_t bound, struct wp_quota *out)
{
    size_t key_len = strlen(bounds[bound].key);
    uint32_t *field = (uint32_t *)(void *)((char *)out + bounds[bound].offset);
    uint64_t n;

    word = (struct wp_str){word.ptr + key_len, word.len - key_len};
    if (*field != WP_QUOTA_NONE || !wp_str_to_u64(word, &n) ||
        n > bounds[bound].max) {
        return false;
    }
    *field = (uint32_t)n;
    return true;
}

/* The last word of text, which is shortened by it; empty: there is none. */
static struct wp_str
last_word(struct wp_str *text)
{
    size_t end = text->len;
    size_t begin;

    while (end > 0 && text->ptr[end - 1] == ' ') {
        end--;
    }
    begin = end;
    while (begin > 0 && text->ptr[begin - 1] != ' ') {
        begin--;
    }
    text->len = begin;
    return (struct wp_str){text->ptr + begin, end - begin};
}

/* "NAMESPACE/POOL" */
static bool
parse_pool(struct wp_str text, struct wp_tenant_quota *out)
{
    const char *slash = memchr(text.ptr, '/', text.len);
    struct wp_str ns;
    struct wp_str pool;

    if (slash == NULL) {
        return false;
    }
    ns = (struct wp_str){text.ptr, (size_t)(slash - text.ptr)};
    pool = (struct wp_str){slash + 1, text.len - ns.len - 1};
    return wp_str_is_dns_name(ns, WP_NAMESPACE_MAX) &&
           wp_str_is_dns_name(pool, WP_POOL_NAME_MAX) &&
           wp_str_copy(ns, out->pool_namespace, sizeof out->pool_namespace) &&
           wp_str_copy(pool, out->pool, sizeof out->pool);
}

static struct wp_str
without_spaces_behind(struct wp_str text)
{
    while (text.len > 0 && text.ptr[text.len - 1] == ' ') {
        text.len--;
    }
    return text;
}

/* "TENANT" or "TENANT@NAMESPACE/POOL"; a name may have an @ itself, but no
 * slash behind the last one. */
static bool
parse_subject(struct wp_str text, struct wp_tenant_quota *out)
{
    const char *at;

    text = without_spaces_behind(text);
    at = text.len > 0 ? memrchr(text.ptr, '@', text.len) : NULL;
    if (at != NULL) {
        struct wp_str pool = {at + 1, text.len - (size_t)(at + 1 - text.ptr)};

        if (parse_pool(pool, out)) {
            text = without_spaces_behind(
                (struct wp_str){text.ptr, (size_t)(at - text.ptr)});
        } else if (memchr(pool.ptr, '/', pool.len) != NULL) {
            return false;
        }
    }
    return text.len > 0 && wp_str_is_printable(text) &&
           wp_str_copy(text, out->tenant, sizeof out->tenant);
}

/* Bounds stand behind the tenant, whose name may have spaces. */
static bool
parse(const char *item, struct wp_tenant_quota *out)
{
    struct wp_str rest = wp_str_from(item);
    uint32_t n = 0;

    *out = (struct wp_tenant_quota){
        .quota = {WP_QUOTA_NONE, WP_QUOTA_NONE, WP_QUOTA_NONE}};
    for (;;) {
        struct wp_str before = rest;
        struct wp_str word = last_word(&rest);
        size_t bound = find_bound(word);

        if (bound == WP_ARRAY_LEN(bounds)) {
            return n > 0 && parse_subject(before, out);
        }
        if (!set_bound(word, bound, &out->quota)) {
            return false;
        }
        n++;
    }
}

static enum wp_status
refuse(const char *item, struct wp_err *err)
{
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "setting 'tenant_quotas': expected TENANT or "
                      "TENANT@NAMESPACE/POOL, then some of leases=N, waiting=N "
                      "and claims-per-minute=N, each once, got '%.80s'",
                      item);
}

enum wp_status
wp_conf_quotas(const struct wp_conf *conf, struct wp_tenant_quota *out,
               uint32_t *n, struct wp_err *err)
{
    *n = conf->tenant_quotas.len;
    for (uint32_t i = 0; i < *n; i++) {
        if (!parse(conf->tenant_quotas.items[i], &out[i])) {
            return refuse(conf->tenant_quotas.items[i], err);
        }
        for (uint32_t j = 0; j < i; j++) {
            if (strcmp(out[i].tenant, out[j].tenant) == 0 &&
                strcmp(out[i].pool, out[j].pool) == 0 &&
                strcmp(out[i].pool_namespace, out[j].pool_namespace) == 0) {
                return wp_err_set(err, WP_INVALID_ARGUMENT,
                                  "setting 'tenant_quotas': expected each "
                                  "tenant once for a pool, got '%s' twice",
                                  out[i].tenant);
            }
        }
    }
    return WP_OK;
}
