/* allocator/conf/quota.h - the setting tenant_quotas as numbers. */
#ifndef WP_ALLOCATOR_CONF_QUOTA_H
#define WP_ALLOCATOR_CONF_QUOTA_H

#include "allocator/conf/conf.h"
#include "pool/tenants.h"

enum {
    WP_CONF_QUOTAS_MAX = 256, /* As settings.def has it. */
};

/* out: room for WP_CONF_QUOTAS_MAX. INVALID_ARGUMENT: an item that does not
 * read as settings.def says, or a tenant and pool that are there twice; err
 * names it. */
WP_MUST_CHECK enum wp_status wp_conf_quotas(const struct wp_conf *conf,
                                            struct wp_tenant_quota *out,
                                            uint32_t *n, struct wp_err *err);

#endif
