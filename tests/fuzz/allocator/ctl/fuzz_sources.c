/* Policies of sources. What one denies it does not allow, and what it says of
 * hosts is no open policy. */
#include <stdint.h>
#include <string.h>

#include "allocator/ctl/sources.h"
#include "pool/base/assert.h"
#include "pool/base/compiler.h"
#include "pool/egress/policy.h"

static const char *const urls[] = {
    "https://git.example/team/a",
    "http://git.example:81/a.git",
    "https://127.0.0.1/x",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wp_egress_policy policy;
    struct wp_sources sources;
    struct wp_remote remote;
    const char *why;
    struct wp_err err;

    if (wp_sources_parse((struct wp_str){(const char *)data, size}, &sources,
                         &err) == WP_OK) {
        WP_ASSERT(strlen(sources.egress) <= WP_EGRESS_TEXT_MAX);
        /* Too many hosts are told by the daemon. */
        WP_ASSERT(wp_egress_policy_parse(wp_str_from(sources.egress),
                                         (struct wp_str){NULL, 0}, &policy,
                                         &err) != WP_OK ||
                  policy.mode != WP_EGRESS_OPEN);
        for (size_t i = 0; i < WP_ARRAY_LEN(urls); i++) {
            struct wp_str url = wp_str_from(urls[i]);
            bool allowed = wp_sources_allow(&sources, url, 1, &err) == WP_OK;

            WP_ASSERT(wp_remote_parse(url, &remote, &why));
            WP_ASSERT(!allowed ||
                      !wp_remote_rules_deny(&sources.rules, &remote));
        }
    } else {
        WP_ASSERT(err.msg[0] != '\0');
    }
    wp_sources_fini(&sources);
    return 0;
}
