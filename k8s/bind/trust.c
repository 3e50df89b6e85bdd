#include "k8s/bind/trust.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"
#include "proto/checkout/trust_look.h"

enum {
    WRITES_MAX = 5, /* Of one record, while others write it, too. */
    REASON_MAX = 200,
};

#define NAME_PREFIX "warmpool-trust-"
#define TENANT_LABEL "warmpool.dev/trust-tenant"

/*   asked --the record--> compared --it has all---------------> done
 *     ^ |                  | it lacks something
 *     | '--none--> counted |
 *     |                  v v
 *     '--another was--- written --------------------------------> done
 *        faster                                                    */
struct wp_trust_case {
    const struct wp_trust_judge *judge;
    void (*done)(void *ctx, enum wp_status status, const char *reason);
    void *ctx;
    bool cancelled; /* It goes with the answer of the call under way. */
    uint32_t writes;
    char name[sizeof NAME_PREFIX + WP_TRUST_NAME_LEN];
    char tenant[WP_TRUST_NAME_TENANT + 1]; /* Of the name, the tenant's part. */
    char *version; /* Of the ConfigMap; owned; NULL: there is none. */
    struct wp_trust_record now;
    struct wp_trust_record first;
};

enum wp_status
wp_trust_judge_init(struct wp_trust_judge *judge, enum wp_trust_mode mode,
                    const char *files, struct wp_api *api, const char *ns,
                    struct wp_err *err)
{
    judge->mode = mode;
    judge->api = api;
    judge->ns = ns;
    return mode == WP_TRUST_OFF
               ? WP_OK
               : wp_trust_files_parse(wp_str_from(files), &judge->files, err);
}

bool
wp_trust_judge_asks(const struct wp_trust_judge *judge)
{
    return judge->mode != WP_TRUST_OFF;
}

static void
case_free(struct wp_trust_case *judged)
{
    free(judged->version);
    free(judged);
}

void
wp_trust_judge_cancel(struct wp_trust_case *judged)
{
    if (judged != NULL) {
        judged->cancelled = true;
    }
}

static void
end(struct wp_trust_case *judged, enum wp_status status, const char *reason)
{
    void (*done)(void *, enum wp_status, const char *) = judged->done;
    void *ctx = judged->ctx;

    case_free(judged);
    done(ctx, status, reason);
}

/* It is not as first trusted, or that cannot be told. */
static void
object(struct wp_trust_case *judged, const char *what, const char *more)
{
    bool enforce = judged->judge->mode == WP_TRUST_ENFORCE;
    char reason[REASON_MAX];

    (void)snprintf(reason, sizeof reason, "%s%.160s", what, more);
    wp_log_warn("instruction files of a repository are not trusted",
                wp_kv_str("tenant", judged->first.tenant),
                wp_kv_str("repository", judged->first.url),
                wp_kv_str("record", judged->name), wp_kv_str("error", reason),
                wp_kv_str("sandbox", enforce ? "does not get it"
                                             : "gets it all the same"));
    end(judged, enforce ? WP_FAILED_PRECONDITION : WP_OK, reason);
}

static void ask(struct wp_trust_case *judged);

static struct wp_api_target
target_of(const struct wp_trust_case *judged)
{
    return (struct wp_api_target){.kind = WP_KIND_CONFIG_MAP,
                                  .ns = judged->judge->ns,
                                  .name = judged->name,
                                  .priority = WP_HTTP_CLAIM};
}

/* True: it is over. */
static bool
is_over(struct wp_trust_case *judged, const struct wp_api_result *result)
{
    if (judged->cancelled) {
        case_free(judged);
        return true;
    }
    if (result->status == WP_CANCELLED) {
        end(judged, WP_CANCELLED, "");
        return true;
    }
    return false;
}

static void
on_written(void *ctx, const struct wp_api_result *result)
{
    struct wp_trust_case *judged = ctx;

    if (is_over(judged, result)) {
        return;
    }
    if (result->status == WP_OK) {
        end(judged, WP_OK, "");
    } else if ((result->status == WP_ALREADY_EXISTS ||
                result->status == WP_ABORTED) &&
               ++judged->writes < WRITES_MAX) {
        ask(judged);
    } else {
        object(judged, "its record cannot be written: ", result->message);
    }
}

/* record is taken. */
static void
make(struct wp_trust_case *judged, json_t *record)
{
    const struct wp_api_target target = target_of(judged);

    wp_api_post(
        judged->judge->api, &target,
        json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s, s:s, s:s}}, s:{s:o}}",
                  "apiVersion", "v1", "kind", "ConfigMap", "metadata", "name",
                  judged->name, "namespace", judged->judge->ns, "labels",
                  "app.kubernetes.io/part-of", "warmpool", "warmpool.dev/trust",
                  "record", TENANT_LABEL, judged->tenant, "data", "record",
                  record),
        on_written, judged);
}

static void
keep(struct wp_trust_case *judged)
{
    const struct wp_api_target target = target_of(judged);
    char text[WP_TRUST_TEXT_MAX + 1];
    json_t *record =
        json_stringn(text, wp_trust_record_write(&judged->first, text));

    if (record == NULL) {
        object(judged, "its record is no text", "");
    } else if (judged->version == NULL) {
        make(judged, record);
    } else {
        wp_api_patch(judged->judge->api, &target,
                     json_pack("{s:{s:s}, s:{s:o}}", "metadata",
                               "resourceVersion", judged->version, "data",
                               "record", record),
                     on_written, judged);
    }
}

static void
on_counted(void *ctx, const struct wp_api_result *result)
{
    struct wp_trust_case *judged = ctx;

    if (is_over(judged, result)) {
        return;
    }
    if (result->status != WP_OK) {
        object(judged,
               "its tenant's records cannot be read: ", result->message);
    } else if (json_array_size(json_object_get(result->object, "items")) >=
               WP_TRUST_TENANT_RECORDS_MAX) {
        object(judged, "its tenant has as many records as there may be", "");
    } else {
        keep(judged);
    }
}

/* A new record is one more of its tenant's. Who asks at once may pass the bound
 * by as many as are fetched at once. */
static void
count(struct wp_trust_case *judged)
{
    const struct wp_api_target target = target_of(judged);
    char selector[sizeof TENANT_LABEL + sizeof judged->tenant];
    const struct wp_api_query query = {.label_selector = selector,
                                       .limit = WP_TRUST_TENANT_RECORDS_MAX};

    (void)snprintf(selector, sizeof selector, TENANT_LABEL "=%s",
                   judged->tenant);
    wp_api_list(judged->judge->api, &target, &query, on_counted, judged);
}

static void
compare(struct wp_trust_case *judged)
{
    struct wp_err err;
    bool more;

    if (wp_trust_record_judge(&judged->first, &judged->now, &more, &err) !=
        WP_OK) {
        object(judged, err.msg, "");
    } else if (!more) {
        end(judged, WP_OK, "");
    } else if (judged->version == NULL) {
        count(judged);
    } else {
        keep(judged);
    }
}

/* False: the ConfigMap has no record of this tenant and URL. */
static bool
read_record(struct wp_trust_case *judged, const json_t *map)
{
    const json_t *text = wp_json_at(map, "data", "record", NULL);
    struct wp_trust_record *read = calloc(1, sizeof *read);
    bool ok;

    WP_ASSERT(read != NULL);
    ok = json_is_string(text) &&
         wp_trust_record_read(
             (struct wp_str){json_string_value(text), json_string_length(text)},
             read) &&
         strcmp(read->tenant, judged->first.tenant) == 0 &&
         strcmp(read->url, judged->first.url) == 0;
    if (ok) {
        judged->first = *read;
    }
    free(read);
    free(judged->version);
    judged->version =
        strdup(wp_json_text(map, "metadata", "resourceVersion", NULL));
    WP_ASSERT(judged->version != NULL);
    return ok;
}

static void
on_record(void *ctx, const struct wp_api_result *result)
{
    struct wp_trust_case *judged = ctx;

    if (is_over(judged, result)) {
        return;
    }
    if (result->status == WP_NOT_FOUND) {
        free(judged->version);
        judged->version = NULL;
        judged->first.n = 0;
        compare(judged);
    } else if (result->status != WP_OK) {
        object(judged, "its record cannot be read: ", result->message);
    } else if (!read_record(judged, result->object)) {
        object(judged, "its record is damaged", "");
    } else {
        compare(judged);
    }
}

static void
ask(struct wp_trust_case *judged)
{
    const struct wp_api_target target = target_of(judged);

    wp_api_get(judged->judge->api, &target, on_record, judged);
}

/* The image cannot be looked at; told by way of the API client, as all else. */
static void
on_unlooked(void *ctx, const struct wp_api_result *result)
{
    struct wp_trust_case *judged = ctx;

    if (!is_over(judged, result)) {
        object(judged, "its instruction files cannot be looked at", "");
    }
}

struct wp_trust_case *
wp_trust_judge_begin(const struct wp_trust_judge *judge, const char *tenant,
                     const struct wp_bind_tree *tree,
                     void (*done)(void *ctx, enum wp_status status,
                                  const char *reason),
                     void *ctx)
{
    struct wp_trust_case *judged = calloc(1, sizeof *judged);
    char digits[WP_TRUST_NAME_LEN + 1];
    struct wp_api_target target;
    bool fits;

    if (judged == NULL) {
        return NULL;
    }
    judged->judge = judge;
    judged->done = done;
    judged->ctx = ctx;
    judged->now = judge->files;
    fits = wp_str_copy(wp_str_from(tenant), judged->first.tenant,
                       sizeof judged->first.tenant) &&
           wp_str_copy(wp_str_from(tree->url), judged->first.url,
                       sizeof judged->first.url);
    WP_ASSERT(fits); /* Both were checked. */
    wp_trust_record_name(tenant, tree->url, digits);
    (void)snprintf(judged->name, sizeof judged->name, NAME_PREFIX "%s", digits);
    memcpy(judged->tenant, digits, WP_TRUST_NAME_TENANT);
    wp_trust_record_below(&judged->now, wp_str_from(tree->dir));
    target = target_of(judged);
    wp_api_get(judge->api, &target,
               wp_trust_look_fd(tree->fd, &tree->covers, &judged->now)
                   ? on_record
                   : on_unlooked,
               judged);
    return judged;
}
