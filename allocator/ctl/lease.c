#include "allocator/ctl/lease.h"

#include <string.h>

#include "allocator/ctl/calls.h"
#include "allocator/ctl/print.h"
#include "pool/base/clock.h"
#include "proto/formats/json_text.h"

enum wp_status
wp_ctl_find_token(const struct wp_ctl *ctl, const char *claim_id,
                  struct wp_token_record *out, struct wp_err *err)
{
    enum wp_status status;

    memset(out, 0, sizeof *out);
    if (ctl->options.token != NULL) {
        status = wp_token_parse(ctl->options.token, out->token, err);
        return status == WP_OK ? WP_OK : wp_err_wrap(err, "--token");
    }
    if (ctl->options.token_file != NULL) {
        status = wp_token_read_file(ctl->options.token_file, out, err);
        return status == WP_OK ? WP_OK : wp_err_wrap(err, "--token-file");
    }
    status = wp_token_store_load(claim_id, out, err);
    if (status == WP_NOT_FOUND) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "no lease token is remembered for claim '%.80s'; it "
                          "was claimed elsewhere or has ended. Give its "
                          "--token-file",
                          claim_id);
    }
    return status;
}

static enum wp_status
ask_for_sandbox(struct wp_ctl *ctl, const char *claim_id,
                struct wp_token_record *out, struct wp_err *err)
{
    struct wp_wire_get_claim_request request = {
        .claim_id = wp_str_from(claim_id),
        .tenant = wp_str_from(ctl->options.tenant),
    };
    struct wp_claim_info *info = wp_ctl_alloc(ctl, sizeof *info);
    struct wp_ctl_call call = {0};
    enum wp_status status = wp_ctl_call_get_claim(ctl, &request, info, &call);

    if (status == WP_NOT_FOUND) {
        return wp_err_set(err, status,
                          "claim '%.80s' is not held: there is no such claim, "
                          "or its lease has ended",
                          claim_id);
    }
    if (status != WP_OK) {
        *err = call.err;
        return status;
    }
    if (info->lost) {
        return wp_err_set(err, WP_NOT_FOUND,
                          "the sandbox of claim '%.80s' is gone: %s", claim_id,
                          info->lost_reason);
    }
    if (info->waiting) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          "claim '%.80s' still waits for a sandbox", claim_id);
    }
    memcpy(out->sandbox, info->sandbox, sizeof out->sandbox);
    return WP_OK;
}

enum wp_status
wp_ctl_find_sandbox(struct wp_ctl *ctl, const char *claim_id,
                    struct wp_token_record *out,
                    char bearer[2 * WP_TOKEN_LEN + 1], struct wp_err *err)
{
    enum wp_status status = wp_ctl_find_token(ctl, claim_id, out, err);

    bearer[0] = '\0';
    if (status == WP_OK) {
        wp_hex_encode(out->token, sizeof out->token, bearer);
    } else if (status != WP_FAILED_PRECONDITION || ctl->options.token != NULL ||
               ctl->options.token_file != NULL) {
        return status;
    }
    return out->sandbox[0] != '\0' ? WP_OK
                                   : ask_for_sandbox(ctl, claim_id, out, err);
}

void
wp_ctl_explain(struct wp_ctl *ctl, const char *claim_id, struct wp_err *err)
{
    struct wp_token_record record;
    struct wp_err why;

    if ((err->status == WP_NOT_FOUND || err->status == WP_UNAVAILABLE) &&
        ask_for_sandbox(ctl, claim_id, &record, &why) == WP_NOT_FOUND) {
        *err = why;
    }
}

const char *
wp_ctl_left(int64_t deadline_wall_ms, char out[32])
{
    int64_t now_ms = wp_clock_wall_ns(wp_clock_system()) / WP_NS_PER_MS;
    int64_t left_ms = deadline_wall_ms - now_ms;

    if (left_ms <= 0) {
        (void)snprintf(out, 32, "ended");
        return out;
    }
    return wp_print_duration(left_ms < WP_TIME_NEVER / WP_NS_PER_MS
                                 ? left_ms * WP_NS_PER_MS
                                 : WP_TIME_NEVER,
                             out);
}

json_t *
wp_ctl_time_json(int64_t wall_ms)
{
    char text[32];

    if (wall_ms <= 0 || wall_ms > WP_TIME_NEVER / WP_NS_PER_MS) {
        return json_null();
    }
    return json_string(wp_time_format_rfc3339(wall_ms * WP_NS_PER_MS, text));
}

json_t *
wp_ctl_lease_json(struct wp_str claim_id, const struct wp_grant *grant,
                  bool replayed)
{
    char token[2 * WP_TOKEN_LEN + 1];

    wp_hex_encode(grant->token, sizeof grant->token, token);
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:s, s:I, s:o, s:I, s:s, s:I, s:b}",
        "claim_id", wp_json_from_str(claim_id), "namespace",
        wp_json_from_text(grant->pool_namespace), "pool",
        wp_json_from_text(grant->pool), "sandbox",
        wp_json_from_text(grant->sandbox), "endpoint",
        wp_json_from_text(grant->endpoint), "token", token, "fence",
        (json_int_t)grant->fence, "deadline",
        wp_ctl_time_json(grant->deadline_wall_ms), "deadline_unix_ms",
        (json_int_t)grant->deadline_wall_ms, "served",
        wp_served_text(grant->served), "waited_us",
        (json_int_t)(grant->waited_ns / WP_NS_PER_US), "replayed",
        (int)replayed);
}

json_t *
wp_ctl_claim_json(const struct wp_claim_info *info)
{
    const char *state = info->waiting ? "waiting"
                        : info->lost  ? "lost"
                                      : "held";

    return json_pack(
        "{s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:I, s:o, s:o, s:I, s:s, s:o}",
        "claim_id", wp_json_from_text(info->claim_id), "tenant",
        wp_json_from_text(info->tenant), "namespace",
        wp_json_from_text(info->pool_namespace), "pool",
        wp_json_from_text(info->pool), "state", state, "sandbox",
        wp_json_from_text(info->sandbox), "endpoint",
        wp_json_from_text(info->endpoint), "fence", (json_int_t)info->fence,
        "granted", wp_ctl_time_json(info->granted_wall_ms), "deadline",
        wp_ctl_time_json(info->deadline_wall_ms), "deadline_unix_ms",
        (json_int_t)info->deadline_wall_ms, "served",
        wp_served_text(info->served), "lost_reason",
        wp_json_from_text(info->lost_reason));
}
