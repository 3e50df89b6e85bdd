/* Which verb on which object a request is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_api/fake_api_impl.h"

enum {
    PARTS_MAX = 12
};

bool
fake_query(const struct fake_request *request, const char *key, char *out,
           size_t cap)
{
    size_t key_len = strlen(key);
    const char *at = request->query;

    while (at != NULL && *at != '\0') {
        if (strncmp(at, key, key_len) == 0 && at[key_len] == '=') {
            size_t n = 0;

            for (at += key_len + 1; *at != '\0' && *at != '&' && n + 1 < cap;
                 at++) {
                unsigned value;

                if (*at == '%' && sscanf(at + 1, "%2x", &value) == 1) {
                    out[n++] = (char)value;
                    at += 2;
                } else {
                    out[n++] = *at == '+' ? ' ' : *at;
                }
            }
            out[n] = '\0';
            return true;
        }
        at = strchr(at, '&');
        at = at != NULL ? at + 1 : NULL;
    }
    out[0] = '\0';
    return false;
}

static int
kind_of(const char *group, const char *version, const char *plural)
{
    for (int i = 0; i < WP_KIND_COUNT; i++) {
        const struct wp_kind_info *info = wp_kind_info((enum wp_kind)i);

        if (strcmp(info->group, group) == 0 &&
            strcmp(info->version, version) == 0 &&
            strcmp(info->plural, plural) == 0) {
            return i;
        }
    }
    return -1;
}

static bool
is_true(const struct fake_request *request, const char *key)
{
    char value[8];

    return fake_query(request, key, value, sizeof value) &&
           (strcmp(value, "true") == 0 || strcmp(value, "1") == 0);
}

static uint32_t
verb_of(const struct fake_request *request)
{
    static const struct {
        const char *method;
        uint32_t verb;
    } rows[] = {{"POST", FAKE_POST},
                {"PUT", FAKE_PUT},
                {"PATCH", FAKE_PATCH},
                {"DELETE", FAKE_DELETE}};
    char cont[8];
    char dry_run[8];

    if (strcmp(request->method, "POST") == 0 &&
        fake_query(request, "dryRun", dry_run, sizeof dry_run)) {
        return FAKE_CHECK;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(request->method, rows[i].method) == 0) {
            return rows[i].verb;
        }
    }
    if (strcmp(request->method, "GET") != 0) {
        return 0;
    }
    if (request->name[0] != '\0') {
        return FAKE_GET;
    }
    if (is_true(request, "watch")) {
        return FAKE_WATCH;
    }
    return fake_query(request, "continue", cont, sizeof cont) && cont[0] != '\0'
               ? FAKE_CONTINUE
               : FAKE_LIST;
}

/* /api/v1/... or /apis/GROUP/VERSION/..., then namespaces/NS/PLURAL/NAME/SUB. */
void
fake_request_name(struct fake_request *request)
{
    char *copy = strdup(request->path);
    char *parts[PARTS_MAX] = {NULL};
    char *save = NULL;
    size_t n = 0;
    size_t at;

    fake_must(copy != NULL, "memory");
    for (char *part = strtok_r(copy, "/", &save); part != NULL && n < PARTS_MAX;
         part = strtok_r(NULL, "/", &save)) {
        parts[n++] = part;
    }
    request->kind = -1;
    at = n > 0 && strcmp(parts[0], "api") == 0 ? 2 : 3;
    if (n > at && (at == 2 || strcmp(parts[0], "apis") == 0)) {
        const char *group = at == 2 ? "" : parts[1];
        const char *version = parts[at - 1];

        if (n > at + 2 && strcmp(parts[at], "namespaces") == 0) {
            (void)snprintf(request->ns, sizeof request->ns, "%s",
                           parts[at + 1]);
            at += 2;
        }
        request->kind = kind_of(group, version, parts[at]);
        (void)snprintf(request->name, sizeof request->name, "%s",
                       n > at + 1 ? parts[at + 1] : "");
        (void)snprintf(request->subresource, sizeof request->subresource, "%s",
                       n > at + 2 ? parts[at + 2] : "");
    }
    free(copy);
    request->verb = request->kind >= 0 ? verb_of(request) : 0;
}

static struct fake_answer
other(const struct fake_request *request)
{
    static const char *const healthy[] = {"/healthz", "/livez", "/readyz"};

    for (size_t i = 0; i < sizeof healthy / sizeof healthy[0]; i++) {
        if (strcmp(request->path, healthy[i]) == 0) {
            return (struct fake_answer){200, json_string("ok"), -1};
        }
    }
    if (strcmp(request->path, "/version") == 0) {
        return (struct fake_answer){200,
                                    json_pack("{s:s,s:s,s:s}", "major", "1",
                                              "minor", "34", "gitVersion",
                                              "v1.34.0-fake"),
                                    -1};
    }
    return fake_status(404, "NotFound",
                       "the server could not find the requested resource");
}

void
fake_route(struct fake_conn *conn)
{
    static const struct {
        uint32_t verbs;
        struct fake_answer (*run)(struct fake_api *, struct fake_request *);
    } rows[] = {
        {FAKE_GET, fake_get},      {FAKE_LIST | FAKE_CONTINUE, fake_list},
        {FAKE_POST, fake_post},    {FAKE_CHECK, fake_check},
        {FAKE_PUT, fake_put},      {FAKE_PATCH, fake_patch},
        {FAKE_DELETE, fake_remove}};
    struct fake_request *request = &conn->request;

    if (request->bad_body) {
        fake_conn_reply(
            conn, fake_status(400, "BadRequest", "the body is not valid JSON"));
        return;
    }
    if (request->verb == FAKE_WATCH) {
        fake_watch_begin(conn);
        return;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if ((request->verb & rows[i].verbs) != 0) {
            struct fake_answer answer;

            conn->api->by = request->token;
            answer = rows[i].run(conn->api, request);
            conn->api->by = "";
            fake_conn_reply(conn, answer);
            return;
        }
    }
    fake_conn_reply(conn, other(request));
}
