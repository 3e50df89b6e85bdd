#include "k8s/objects/kind.h"

#include <string.h>

#include "pool/base/assert.h"

/* "v1" in the core group, "group/version" elsewhere; of literals, which cannot
 * be joined in parentheses. NOLINTBEGIN(bugprone-macro-parentheses) */
#define API_VERSION(group, version)                                            \
    (sizeof(group) == 1 ? version : group "/" version)
/* NOLINTEND(bugprone-macro-parentheses) */

static const struct wp_kind_info kinds[WP_KIND_COUNT] = {
#define X(name, group, version, kind, plural)                                  \
    {group, version, kind, plural, API_VERSION(group, version)},
    WP_KIND_TABLE(X)
#undef X
};

const struct wp_kind_info *
wp_kind_info(enum wp_kind kind)
{
    WP_ASSERT(kind < WP_KIND_COUNT);
    return &kinds[kind];
}

bool
wp_kind_is_group(enum wp_kind kind, struct wp_str api_version)
{
    const char *slash = api_version.len == 0
                            ? NULL
                            : memchr(api_version.ptr, '/', api_version.len);
    struct wp_str group = {api_version.ptr, 0};

    if (slash != NULL) {
        group.len = (size_t)(slash - api_version.ptr);
    }
    return wp_str_is(group, wp_kind_info(kind)->group);
}
