/* tenants. */
#include "allocator/ctl/calls.h"
#include "allocator/ctl/commands.h"
#include "allocator/ctl/print.h"
#include "pool/base/assert.h"
#include "proto/formats/json_text.h"

static json_t *
bound_json(uint32_t bound)
{
    return bound != WP_QUOTA_NONE ? json_integer((json_int_t)bound)
                                  : json_null();
}

static json_t *
tenant_json(const struct wp_tenant_stats *use)
{
    json_t *quota = json_pack(
        "{s:o, s:o, s:o}", "leases", bound_json(use->quota.leases_max),
        "waiting", bound_json(use->quota.waiters_max), "claims_per_minute",
        bound_json(use->quota.claims_per_minute));

    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:b, s:o}", "tenant",
                     wp_json_from_text(use->tenant), "namespace",
                     wp_json_from_text(use->pool_namespace), "pool",
                     wp_json_from_text(use->pool), "leases",
                     (json_int_t)use->leases, "waiting",
                     (json_int_t)use->waiting, "claims_total",
                     (json_int_t)use->claims_total, "refused_total",
                     (json_int_t)use->refused_total, "active", (int)use->active,
                     "quota", quota);
}

static void
add_bound(struct wp_table *table, uint32_t bound)
{
    if (bound != WP_QUOTA_NONE) {
        wp_table_add(table, "%u", bound);
    } else {
        wp_table_add(table, "-");
    }
}

static void
tenant_row(struct wp_ctl *ctl, const struct wp_tenant_stats *use,
           struct wp_table *table, json_t *array)
{
    switch (ctl->options.output) {
    case WP_OUTPUT_JSON:
        (void)json_array_append_new(array, tenant_json(use));
        break;
    case WP_OUTPUT_NAME:
        wp_print_field(ctl->out, 0, "", "%s", use->tenant);
        break;
    case WP_OUTPUT_TABLE:
    default:
        wp_table_add(table, "%s", use->tenant[0] ? use->tenant : "-");
        wp_table_add(table, "%s/%s", use->pool_namespace, use->pool);
        wp_table_add(table, "%s", use->active ? "yes" : "no");
        wp_table_add(table, "%u", use->leases);
        add_bound(table, use->quota.leases_max);
        wp_table_add(table, "%u", use->waiting);
        add_bound(table, use->quota.waiters_max);
        wp_table_add(table, "%llu", (unsigned long long)use->claims_total);
        add_bound(table, use->quota.claims_per_minute);
        wp_table_add(table, "%llu", (unsigned long long)use->refused_total);
        break;
    }
}

/* Every page; the exit code. */
static int
read_pages(struct wp_ctl *ctl, const struct wp_wire_list_tenants_request *first,
           struct wp_table *table, json_t *array)
{
    struct wp_wire_list_tenants_request request = *first;
    char page_token[WP_WIRE_PAGE_TOKEN_MAX + 1];
    struct wp_ctl_call call = {0};
    size_t used = ctl->arena.used;

    do {
        struct wp_wire_list_tenants_response page;

        if (wp_ctl_call_list_tenants(ctl, &request, &page, &call) != WP_OK) {
            return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
        }
        for (uint32_t i = 0; i < page.n_tenants; i++) {
            tenant_row(ctl, &page.tenants[i], table, array);
        }
        WP_ASSERT(wp_str_copy(page.next_page_token, page_token,
                              sizeof page_token)); /* It was checked. */
        request.page_token = wp_str_from(page_token);
        /* However many pages there are, one is kept. */
        ctl->arena.used = used;
    } while (request.page_token.len > 0);
    return WP_EXIT_OK;
}

int
wp_cmd_tenants(struct wp_ctl *ctl)
{
    static const char *const titles[] = {
        "TENANT",  "POOL", "ACTIVE",  "LEASES",  "MAX",
        "WAITING", "MAX",  "CLAIMED", "MAX/MIN", "REFUSED"};
    struct wp_wire_list_tenants_request request = {
        .tenant = wp_str_from(ctl->options.tenant)};
    struct wp_table table;
    struct wp_err err;
    json_t *array;
    int code;

    if (ctl->options.n_args > 0 &&
        wp_ctl_pool_parse(ctl, ctl->options.args[0], &request.pool, &err) !=
            WP_OK) {
        return wp_ctl_usage(ctl, &err);
    }
    array = json_array();
    wp_table_init(&table, titles, WP_ARRAY_LEN(titles), 0x3f8);
    code = read_pages(ctl, &request, &table, array);
    if (code == WP_EXIT_OK && ctl->options.output == WP_OUTPUT_TABLE) {
        wp_table_print(&table, ctl->out);
    }
    if (code == WP_EXIT_OK && ctl->options.output == WP_OUTPUT_JSON) {
        wp_print_json(ctl->out, json_pack("{s:O}", "tenants", array), true);
    }
    json_decref(array);
    wp_table_fini(&table);
    return code;
}
