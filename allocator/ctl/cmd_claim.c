/* claim: one sandbox, or several in one call. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "allocator/ctl/calls.h"
#include "allocator/ctl/claim_brings.h"
#include "allocator/ctl/commands.h"
#include "allocator/ctl/lease.h"
#include "allocator/ctl/print.h"
#include "allocator/ctl/sandbox/upload.h"
#include "pool/base/assert.h"
#include "pool/base/rng.h"
#include "proto/formats/json_text.h"

enum {
    FIELD = 10, /* Width of the titles. */
    MIB = 1 << 20,
};

/* How long a claim with repositories may take longer than another. */
#define FETCH_NS (60 * WP_NS_PER_S)

/* "ctl-" and 16 hexadecimal digits. */
static const char *
random_id(struct wp_ctl *ctl)
{
    uint8_t bytes[8];
    char hex[2 * sizeof bytes + 1];
    char *id = wp_ctl_alloc(ctl, 32);

    wp_random_bytes(bytes, sizeof bytes);
    wp_hex_encode(bytes, sizeof bytes, hex);
    (void)snprintf(id, 32, "ctl-%s", hex);
    return id;
}

/* A lease whose token could not be remembered is still granted: say so. */
static void
remember(const struct wp_ctl *ctl, struct wp_str claim_id,
         const struct wp_grant *grant)
{
    struct wp_token_record record = {.deadline_wall_ms =
                                         grant->deadline_wall_ms};
    struct wp_err err;

    /* The reply's was checked. */
    WP_ASSERT(wp_str_copy(claim_id, record.claim_id, sizeof record.claim_id));
    memcpy(record.sandbox, grant->sandbox, sizeof record.sandbox);
    memcpy(record.token, grant->token, sizeof record.token);
    if (wp_token_store_save(&record, &err) != WP_OK) {
        (void)fprintf(ctl->errors,
                      "warmpoolctl: the lease's token is not remembered: %s\n",
                      err.msg);
    }
}

static json_t *
names_json(const char *const *names, uint32_t n)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, wp_json_from_text(names[i]));
    }
    return list;
}

static json_t *
bound_json(const struct wp_wire_bound *bound)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "env",
                     names_json(bound->env, bound->n_env), "secrets",
                     names_json(bound->secrets, bound->n_secrets), "files",
                     names_json(bound->files, bound->n_files), "repositories",
                     names_json(bound->repositories, bound->n_repositories),
                     "volumes", names_json(bound->volumes, bound->n_volumes),
                     "working_dir", wp_json_from_text(bound->working_dir),
                     "started", (int)bound->started, "egress",
                     wp_json_from_text(bound->egress), "identity",
                     wp_json_from_text(bound->identity));
}

static void
print_bound(FILE *out, const struct wp_wire_bound *bound)
{
    wp_print_field(out, FIELD, "bound", "%u variable%s, %u secret%s, %u file%s",
                   bound->n_env, bound->n_env == 1 ? "" : "s", bound->n_secrets,
                   bound->n_secrets == 1 ? "" : "s", bound->n_files,
                   bound->n_files == 1 ? "" : "s");
    for (uint32_t i = 0; i < bound->n_repositories; i++) {
        wp_print_field(out, FIELD, "", "%s", bound->repositories[i]);
    }
    for (uint32_t i = 0; i < bound->n_volumes; i++) {
        wp_print_field(out, FIELD, "", "volume %s", bound->volumes[i]);
    }
    if (bound->egress[0] != '\0') {
        wp_print_field(out, FIELD, "egress", "%s", bound->egress);
    }
    if (bound->identity[0] != '\0') {
        wp_print_field(out, FIELD, "identity", "for %s", bound->identity);
    }
    if (bound->started) {
        wp_print_field(out, FIELD, "", "the command was started");
    }
}

static json_t *
claim_json(const struct wp_wire_claim_response *response,
           const struct wp_ctl_brings *brings)
{
    json_t *lease = wp_ctl_lease_json(response->claim_id, response->grant,
                                      response->replayed);

    if (response->bound != NULL) {
        (void)json_object_set_new(lease, "bound", bound_json(response->bound));
    }
    if (brings->upload) {
        (void)json_object_set_new(
            lease, "uploaded",
            json_pack("{s:I, s:I}", "files", (json_int_t)brings->files.n,
                      "bytes", (json_int_t)brings->files.bytes));
    }
    return lease;
}

static void
print_lease(const struct wp_ctl *ctl,
            const struct wp_wire_claim_response *response,
            const struct wp_ctl_brings *brings)
{
    const struct wp_grant *grant = response->grant;
    struct wp_str claim_id = response->claim_id;
    FILE *out = ctl->out;
    char text[32];

    switch (ctl->options.output) {
    case WP_OUTPUT_JSON:
        wp_print_json(out, claim_json(response, brings), true);
        return;
    case WP_OUTPUT_NAME:
        (void)fprintf(out, "%.*s\n", WP_STR_ARG(claim_id));
        return;
    case WP_OUTPUT_TABLE:
        break;
    }
    wp_print_field(out, FIELD, "claim", "%.*s", WP_STR_ARG(claim_id));
    wp_print_field(out, FIELD, "pool", "%s/%s", grant->pool_namespace,
                   grant->pool);
    wp_print_field(out, FIELD, "sandbox", "%s", grant->sandbox);
    wp_print_field(out, FIELD, "endpoint", "%s", grant->endpoint);
    wp_print_field(
        out, FIELD, "served", "%s, %s%s%s", wp_served_text(grant->served),
        grant->waited_ns > 0 ? "after " : "at once",
        grant->waited_ns > 0 ? wp_print_duration(grant->waited_ns, text) : "",
        response->replayed ? " (the same lease as before)" : "");
    wp_print_field(out, FIELD, "ends in", "%s",
                   wp_ctl_left(grant->deadline_wall_ms, text));
    if (response->bound != NULL) {
        print_bound(out, response->bound);
    }
    if (brings->upload) {
        wp_print_field(out, FIELD, "uploaded", "%u file%s, %.1f MiB",
                       brings->files.n, brings->files.n == 1 ? "" : "s",
                       (double)brings->files.bytes / MIB);
    }
    if (isatty(fileno(out)) == 1) {
        (void)fprintf(out,
                      "\nUse it:  warmpoolctl exec %.*s -- sh -c 'uname -a'\n"
                      "End it:  warmpoolctl release %.*s\n",
                      WP_STR_ARG(claim_id), WP_STR_ARG(claim_id));
    }
}

/* --- One, or several --- */

static volatile sig_atomic_t stopped;

static void
on_signal(int number)
{
    (void)number;
    stopped = 1;
}

/* What the claim itself could not bring. A signal ends it, so that the lease
 * can be given back. */
static enum wp_status
upload(struct wp_ctl *ctl, const struct wp_grant *grant,
       const struct wp_brought *files, struct wp_err *err)
{
    char bearer[2 * WP_TOKEN_LEN + 1];
    const struct wp_upload_target target = {
        .http = ctl->options.http,
        .timeout_ns = ctl->options.timeout_ns,
        .sandbox = grant->sandbox,
        .bearer = bearer,
        .stop = &stopped,
    };
    const struct sigaction stop = {.sa_handler = on_signal};
    enum wp_status status = WP_OK;

    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGTERM, &stop, NULL);
    (void)sigaction(SIGHUP, &stop, NULL);
    wp_hex_encode(grant->token, sizeof grant->token, bearer);
    for (uint32_t i = 0; i < files->n && status == WP_OK; i++) {
        status = wp_upload_file(&target, &files->files[i], err);
    }
    return status;
}

/* Nobody gets a sandbox that has a part of what was asked for. One that the
 * claim had before may be in use, and stays. */
static void
give_back(struct wp_ctl *ctl, const struct wp_wire_claim_response *response,
          struct wp_err *err)
{
    struct wp_wire_release_request request;
    struct wp_wire_release_response released;
    struct wp_ctl_call call = {.wait_ns = 0};

    memcpy(request.token, response->grant->token, sizeof request.token);
    if (response->replayed ||
        wp_ctl_call_release(ctl, &request, &released, &call) != WP_OK) {
        (void)wp_err_wrap(err, "not all was uploaded, and the lease is kept");
    } else {
        char id[WP_CLAIM_ID_MAX + 1];

        WP_ASSERT(wp_str_copy(response->claim_id, id, sizeof id));
        wp_token_store_forget(id);
        (void)wp_err_wrap(err,
                          "not all was uploaded, and the claim is released");
    }
}

static int
claim_one(struct wp_ctl *ctl, struct wp_wire_pool_ref pool, const char *id)
{
    struct wp_wire_claim_request request = {
        .pool = pool,
        .claim_id = wp_str_from(id),
        .tenant = wp_str_from(ctl->options.tenant),
        .ttl_ms = ctl->options.ttl_ns / WP_NS_PER_MS,
        .wait_ms = ctl->options.wait_ns / WP_NS_PER_MS,
    };
    struct wp_wire_claim_response response;
    struct wp_ctl_call call = {.wait_ns = ctl->options.wait_ns};
    struct wp_ctl_brings brings;
    enum wp_status status;

    if (ctl->options.repositories.n > 0) {
        call.wait_ns += FETCH_NS;
    }
    if (wp_ctl_read_brings(ctl, &brings, &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    request.binding = brings.binding;
    status = wp_ctl_call_claim(ctl, &request, &response, &call);
    if (status == WP_OK) {
        remember(ctl, response.claim_id, response.grant);
    }
    if (status == WP_OK && brings.upload) {
        status = upload(ctl, response.grant, &brings.files, &call.err);
        if (status != WP_OK) {
            give_back(ctl, &response, &call.err);
        }
    }
    if (status == WP_OK) {
        print_lease(ctl, &response, &brings);
    }
    wp_brought_fini(&brings.files);
    return status == WP_OK ? WP_EXIT_OK
                           : wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
}

static json_t *
item_json(const struct wp_wire_batch_item *item)
{
    if (item->code == 0) {
        return wp_ctl_lease_json(item->claim_id, item->grant, item->replayed);
    }
    return json_pack("{s:o, s:{s:i, s:o}}", "claim_id",
                     wp_json_from_str(item->claim_id), "error", "code",
                     item->code, "message", wp_json_from_str(item->message));
}

static void
print_batch(const struct wp_ctl *ctl,
            const struct wp_wire_batch_response *response)
{
    static const char *const titles[] = {"CLAIM", "SANDBOX", "ENDPOINT",
                                         "SERVED"};
    struct wp_table table;
    json_t *items = json_array();

    wp_table_init(&table, titles, 4, 0);
    for (uint32_t i = 0; i < response->n_items; i++) {
        const struct wp_wire_batch_item *item = &response->items[i];

        (void)json_array_append_new(items, item_json(item));
        wp_table_add(&table, "%.*s", WP_STR_ARG(item->claim_id));
        if (item->code == 0) {
            wp_table_add(&table, "%s", item->grant->sandbox);
            wp_table_add(&table, "%s", item->grant->endpoint);
            wp_table_add(&table, "%s", wp_served_text(item->grant->served));
        } else {
            wp_table_add(&table, "-");
            wp_table_add(&table, "-");
            wp_table_add(&table, "%.*s", WP_STR_ARG(item->message));
        }
        if (ctl->options.output == WP_OUTPUT_NAME && item->code == 0) {
            (void)fprintf(ctl->out, "%.*s\n", WP_STR_ARG(item->claim_id));
        }
    }
    if (ctl->options.output == WP_OUTPUT_TABLE) {
        wp_table_print(&table, ctl->out);
    }
    if (ctl->options.output == WP_OUTPUT_JSON) {
        wp_print_json(ctl->out, json_pack("{s:O}", "items", items), true);
    }
    json_decref(items);
    wp_table_fini(&table);
}

/* ID-1 .. ID-N. */
static enum wp_status
batch_ids(struct wp_ctl *ctl, const char *id, struct wp_str *out,
          struct wp_err *err)
{
    for (uint32_t i = 0; i < ctl->options.count; i++) {
        char *text = wp_ctl_alloc(ctl, WP_CLAIM_ID_MAX + 1);
        int n = snprintf(text, WP_CLAIM_ID_MAX + 1, "%s-%u", id, i + 1);

        if (n > WP_CLAIM_ID_MAX) {
            return wp_err_set(
                err, WP_INVALID_ARGUMENT,
                "--id: with -1 to -%u behind it, at most %d bytes",
                ctl->options.count, WP_CLAIM_ID_MAX);
        }
        out[i] = wp_str_from(text);
    }
    return WP_OK;
}

static int
claim_batch(struct wp_ctl *ctl, struct wp_wire_pool_ref pool, const char *id)
{
    struct wp_str ids[WP_BATCH_MAX];
    struct wp_wire_batch_request request = {
        .pool = pool,
        .claim_ids = ids,
        .n_claims = ctl->options.count,
        .tenant = wp_str_from(ctl->options.tenant),
        .ttl_ms = ctl->options.ttl_ns / WP_NS_PER_MS,
        .wait_ms = ctl->options.wait_ns / WP_NS_PER_MS,
        .all_or_nothing = ctl->options.all_or_nothing,
    };
    struct wp_wire_batch_response response;
    struct wp_ctl_call call = {.wait_ns = ctl->options.wait_ns};
    uint32_t failed = 0;
    int code = 0;

    if (batch_ids(ctl, id, ids, &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    if (wp_ctl_call_claim_batch(ctl, &request, &response, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    for (uint32_t i = 0; i < response.n_items; i++) {
        const struct wp_wire_batch_item *item = &response.items[i];

        if (item->code == 0) {
            remember(ctl, item->claim_id, item->grant);
        } else {
            failed++;
            code = item->code;
        }
    }
    print_batch(ctl, &response);
    if (failed == 0) {
        return WP_EXIT_OK;
    }
    (void)fprintf(ctl->errors, "warmpoolctl: %u of %u claims got no sandbox\n",
                  failed, response.n_items);
    return code == wp_status_grpc_code(WP_RESOURCE_EXHAUSTED)
               ? WP_EXIT_EXHAUSTED
               : WP_EXIT_FAILED;
}

int
wp_cmd_claim(struct wp_ctl *ctl)
{
    struct wp_wire_pool_ref pool;
    struct wp_err err;
    const char *id = ctl->options.id;

    if (wp_ctl_pool_parse(ctl, ctl->options.args[0], &pool, &err) != WP_OK) {
        return wp_ctl_usage(ctl, &err);
    }
    if (ctl->options.all_or_nothing && ctl->options.count == 0) {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "--all-or-nothing goes with --count");
        return wp_ctl_usage(ctl, &err);
    }
    if (ctl->options.count > 0 && wp_ctl_brings_something(&ctl->options)) {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "--count: claims that bring something are made one "
                         "by one");
        return wp_ctl_usage(ctl, &err);
    }
    if (id == NULL) {
        id = random_id(ctl);
    }
    return ctl->options.count > 0 ? claim_batch(ctl, pool, id)
                                  : claim_one(ctl, pool, id);
}
