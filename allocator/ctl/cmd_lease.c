/* release, renew, get and list: what can be done with a lease and seen of
 * it. */
#include <string.h>

#include "allocator/ctl/calls.h"
#include "allocator/ctl/commands.h"
#include "allocator/ctl/lease.h"
#include "allocator/ctl/print.h"
#include "pool/base/assert.h"
#include "proto/formats/json_text.h"

enum {
    FIELD = 10, /* Width of the titles. */
};

static int
release_one(struct wp_ctl *ctl, const char *id, bool *was_held)
{
    struct wp_wire_release_request request;
    struct wp_wire_release_response response;
    struct wp_token_record record;
    struct wp_ctl_call call = {0};
    enum wp_status status = wp_ctl_find_token(ctl, id, &record, &call.err);

    if (status != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, 0);
    }
    memcpy(request.token, record.token, sizeof request.token);
    status = wp_ctl_call_release(ctl, &request, &response, &call);
    if (status != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    wp_token_store_forget(id);
    *was_held = response.was_held;
    return WP_EXIT_OK;
}

int
wp_cmd_release(struct wp_ctl *ctl)
{
    json_t *released = json_array();
    int worst = WP_EXIT_OK;

    for (int i = 0; i < ctl->options.n_args; i++) {
        const char *id = ctl->options.args[i];
        bool was_held = false;
        int code = release_one(ctl, id, &was_held);

        if (code != WP_EXIT_OK) {
            worst = code;
            continue;
        }
        (void)json_array_append_new(
            released, json_pack("{s:o, s:b}", "claim_id", wp_json_from_text(id),
                                "was_held", (int)was_held));
        if (ctl->options.output == WP_OUTPUT_NAME) {
            (void)fprintf(ctl->out, "%s\n", id);
        } else if (ctl->options.output == WP_OUTPUT_TABLE) {
            (void)fprintf(ctl->out, "%s %s\n", id,
                          was_held ? "released" : "had ended before");
        }
    }
    if (ctl->options.output == WP_OUTPUT_JSON) {
        wp_print_json(ctl->out, json_pack("{s:O}", "released", released), true);
    }
    json_decref(released);
    return worst;
}

int
wp_cmd_renew(struct wp_ctl *ctl)
{
    const char *id = ctl->options.args[0];
    struct wp_wire_renew_request request = {
        .ttl_ms = ctl->options.ttl_ns / WP_NS_PER_MS,
        .hold = ctl->options.hold,
    };
    struct wp_wire_renew_response response;
    struct wp_token_record record;
    struct wp_ctl_call call = {0};
    char token[2 * WP_TOKEN_LEN + 1];
    char left[32];

    if (wp_ctl_find_token(ctl, id, &record, &call.err) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, 0);
    }
    memcpy(request.token, record.token, sizeof request.token);
    if (wp_ctl_call_renew(ctl, &request, &response, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    /* Only what is remembered under this id is brought up to date. */
    if (wp_token_store_load(id, &record, &call.err) == WP_OK) {
        memcpy(record.token, response.token, sizeof record.token);
        record.deadline_wall_ms = response.deadline_wall_ms;
        if (wp_token_store_save(&record, &call.err) != WP_OK) {
            (void)fprintf(ctl->errors,
                          "warmpoolctl: the new token is not remembered (the "
                          "old one stays good): %s\n",
                          call.err.msg);
        }
    }
    wp_hex_encode(response.token, sizeof response.token, token);
    switch (ctl->options.output) {
    case WP_OUTPUT_JSON:
        wp_print_json(ctl->out,
                      json_pack("{s:o, s:s, s:I, s:o, s:I}", "claim_id",
                                wp_json_from_text(id), "token", token, "fence",
                                (json_int_t)response.fence, "deadline",
                                wp_ctl_time_json(response.deadline_wall_ms),
                                "deadline_unix_ms",
                                (json_int_t)response.deadline_wall_ms),
                      true);
        break;
    case WP_OUTPUT_NAME:
        (void)fprintf(ctl->out, "%s\n", id);
        break;
    case WP_OUTPUT_TABLE:
        (void)fprintf(ctl->out, "%s ends in %s\n", id,
                      wp_ctl_left(response.deadline_wall_ms, left));
        break;
    }
    return WP_EXIT_OK;
}

int
wp_cmd_get(struct wp_ctl *ctl)
{
    struct wp_wire_get_claim_request request = {
        .claim_id = wp_str_from(ctl->options.args[0]),
        .tenant = wp_str_from(ctl->options.tenant),
    };
    struct wp_claim_info *info = wp_ctl_alloc(ctl, sizeof *info);
    struct wp_ctl_call call = {0};
    char left[32];

    if (wp_ctl_call_get_claim(ctl, &request, info, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    if (ctl->options.output == WP_OUTPUT_JSON) {
        wp_print_json(ctl->out, wp_ctl_claim_json(info), true);
        return WP_EXIT_OK;
    }
    if (ctl->options.output == WP_OUTPUT_NAME) {
        (void)fprintf(ctl->out, "%s\n", info->claim_id);
        return WP_EXIT_OK;
    }
    wp_print_field(ctl->out, FIELD, "claim", "%s", info->claim_id);
    if (info->tenant[0] != '\0') {
        wp_print_field(ctl->out, FIELD, "tenant", "%s", info->tenant);
    }
    wp_print_field(ctl->out, FIELD, "pool", "%s/%s", info->pool_namespace,
                   info->pool);
    if (info->waiting) {
        wp_print_field(ctl->out, FIELD, "state", "waiting for a sandbox");
        return WP_EXIT_OK;
    }
    wp_print_field(ctl->out, FIELD, "state", "%s%s%s",
                   info->lost ? "lost" : "held",
                   info->lost && info->lost_reason[0] != '\0' ? ": " : "",
                   info->lost_reason);
    wp_print_field(ctl->out, FIELD, "sandbox", "%s", info->sandbox);
    wp_print_field(ctl->out, FIELD, "endpoint", "%s", info->endpoint);
    wp_print_field(ctl->out, FIELD, "served", "%s",
                   wp_served_text(info->served));
    wp_print_field(ctl->out, FIELD, "fence", "%llu",
                   (unsigned long long)info->fence);
    wp_print_field(ctl->out, FIELD, "ends in", "%s",
                   wp_ctl_left(info->deadline_wall_ms, left));
    return WP_EXIT_OK;
}

static void
list_row(const struct wp_ctl *ctl, const struct wp_claim_info *info,
         struct wp_table *table, json_t *array)
{
    char left[32];

    switch (ctl->options.output) {
    case WP_OUTPUT_NAME:
        (void)fprintf(ctl->out, "%s\n", info->claim_id);
        break;
    case WP_OUTPUT_JSON:
        (void)json_array_append_new(array, wp_ctl_claim_json(info));
        break;
    case WP_OUTPUT_TABLE:
        wp_table_add(table, "%s", info->claim_id);
        wp_table_add(table, "%s", info->tenant[0] ? info->tenant : "-");
        wp_table_add(table, "%s/%s", info->pool_namespace, info->pool);
        wp_table_add(table, "%s",
                     info->waiting ? "waiting"
                     : info->lost  ? "lost"
                                   : "held");
        wp_table_add(table, "%s", info->sandbox[0] ? info->sandbox : "-");
        wp_table_add(table, "%s", wp_served_text(info->served));
        wp_table_add(table, "%s",
                     info->waiting ? "-"
                                   : wp_ctl_left(info->deadline_wall_ms, left));
        break;
    }
}

int
wp_cmd_list(struct wp_ctl *ctl)
{
    static const char *const titles[] = {"CLAIM",   "TENANT", "POOL",   "STATE",
                                         "SANDBOX", "SERVED", "ENDS IN"};
    struct wp_wire_list_claims_request request = {
        .tenant = wp_str_from(ctl->options.tenant),
        .page_size = 500,
    };
    struct wp_ctl_call call = {0};
    struct wp_table table;
    json_t *array = json_array();
    char page_token[WP_WIRE_PAGE_TOKEN_MAX + 1];
    size_t used;
    int code = WP_EXIT_OK;

    if (ctl->options.pool != NULL &&
        wp_ctl_pool_parse(ctl, ctl->options.pool, &request.pool, &call.err) !=
            WP_OK) {
        json_decref(array);
        return wp_ctl_usage(ctl, &call.err);
    }
    used = ctl->arena.used; /* With what the request points to. */
    wp_table_init(&table, titles, WP_ARRAY_LEN(titles), 0);
    do {
        struct wp_wire_list_claims_response page;

        if (wp_ctl_call_list_claims(ctl, &request, &page, &call) != WP_OK) {
            code = wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
            break;
        }
        for (uint32_t i = 0; i < page.n_claims; i++) {
            list_row(ctl, &page.claims[i], &table, array);
        }
        WP_ASSERT(wp_str_copy(page.next_page_token, page_token,
                              sizeof page_token)); /* It was checked. */
        request.page_token = wp_str_from(page_token);
        /* However many pages there are, one is kept. */
        ctl->arena.used = used;
    } while (request.page_token.len > 0);
    if (code == WP_EXIT_OK && ctl->options.output == WP_OUTPUT_TABLE) {
        wp_table_print(&table, ctl->out);
    }
    if (code == WP_EXIT_OK && ctl->options.output == WP_OUTPUT_JSON) {
        wp_print_json(ctl->out, json_pack("{s:O}", "claims", array), true);
    }
    json_decref(array);
    wp_table_fini(&table);
    return code;
}
