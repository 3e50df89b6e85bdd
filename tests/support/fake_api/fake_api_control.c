/* What a test asks for: faults, counts, objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/compiler.h"
#include "tests/support/fake_api/fake_api_impl.h"

/* --- rules --- */

void
fake_rule_add(struct fake_api *api, const struct fake_fault *fault)
{
    struct fake_rule *rule = &api->rules[api->rules_len];

    fake_must(api->rules_len < FAKE_RULES, "too many rules");
    api->rules_len++;
    *rule = (struct fake_rule){.fault = *fault};
    if (fault->subresource != NULL) {
        (void)snprintf(rule->subresource, sizeof rule->subresource, "%s",
                       fault->subresource);
        rule->fault.subresource = rule->subresource;
    }
    (void)snprintf(rule->agent, sizeof rule->agent, "%s",
                   fault->agent != NULL ? fault->agent : "");
    rule->fault.agent = rule->agent;
}

static bool
rule_fits(const struct fake_rule *rule, const struct fake_request *request)
{
    const struct fake_fault *fault = &rule->fault;

    return (fault->verbs & request->verb) != 0 &&
           (fault->kind < 0 || fault->kind == request->kind) &&
           (fault->subresource == NULL ||
            strcmp(fault->subresource, request->subresource) == 0) &&
           strncmp(request->agent, rule->agent, strlen(rule->agent)) == 0 &&
           (fault->count == 0 || rule->done < fault->count);
}

const struct fake_fault *
fake_rule_for(struct fake_api *api, const struct fake_request *request)
{
    if (request->verb != 0) {
        api->counts[__builtin_ctz(request->verb)][request->kind]++;
    }
    for (uint32_t i = 0; i < api->rules_len; i++) {
        struct fake_rule *rule = &api->rules[i];
        uint32_t every = rule->fault.every > 0 ? rule->fault.every : 1;

        if (!rule_fits(rule, request)) {
            continue;
        }
        rule->seen++;
        if (rule->seen > rule->fault.skip &&
            (rule->seen - rule->fault.skip) % every == 0) {
            rule->done++;
            return &rule->fault;
        }
    }
    return NULL;
}

static void
drop_snapshots(struct fake_api *api)
{
    for (int i = 0; i < FAKE_SNAPSHOTS; i++) {
        json_decref(api->snapshots[i].items);
        api->snapshots[i] = (struct fake_snapshot){0};
    }
}

void
fake_compact_now(struct fake_api *api)
{
    api->compacted = api->version + 1;
    /* Nobody can be asked to watch from a version that does not exist yet. */
    api->version++;
    drop_snapshots(api);
}

/* --- JSON --- */

static const char *
text_at(const json_t *args, const char *key)
{
    const char *text = json_string_value(json_object_get(args, key));

    return text != NULL ? text : "";
}

static int64_t
number_at(const json_t *args, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(args, key);

    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static int
kind_at(const json_t *args)
{
    return fake_kind_by_plural(text_at(args, "kind"));
}

static json_t *
done(void)
{
    return json_object();
}

static json_t *
requests(struct fake_api *api, const json_t *args)
{
    json_t *out = json_array();

    for (size_t i = (size_t)number_at(args, "from", 0);
         i < json_array_size(api->log); i++) {
        (void)json_array_append_new(
            out, json_deep_copy(json_array_get(api->log, i)));
    }
    return out;
}

static json_t *
history(struct fake_api *api, const json_t *args)
{
    uint64_t from = (uint64_t)number_at(args, "from", 0);
    json_t *out = json_array();

    for (size_t i = 0; i < api->history_len; i++) {
        const struct fake_event *event = &api->history[i];

        if (event->version >= from) {
            (void)json_array_append_new(
                out, json_pack("{s:I,s:s,s:s,s:s,s:o}", "version",
                               (json_int_t)event->version, "type", event->type,
                               "by", event->by, "kind",
                               wp_kind_info((enum wp_kind)event->kind)->plural,
                               "object", json_deep_copy(event->object)));
        }
    }
    return out;
}

static json_t *
stats(struct fake_api *api, const json_t *args)
{
    json_t *by_name = json_object();
    char name[64];

    (void)args;
    for (uint32_t verb = 0; verb < FAKE_VERBS; verb++) {
        for (int kind = 0; kind < WP_KIND_COUNT; kind++) {
            if (api->counts[verb][kind] > 0) {
                (void)snprintf(name, sizeof name, "%s %s",
                               fake_verb_name(UINT32_C(1) << verb),
                               wp_kind_info((enum wp_kind)kind)->plural);
                (void)json_object_set_new(
                    by_name, name,
                    json_integer((json_int_t)api->counts[verb][kind]));
            }
        }
    }
    return json_pack("{s:o,s:I,s:I,s:I,s:I}", "requests", by_name, "watches",
                     (json_int_t)fake_watches_count(api, -1), "held",
                     (json_int_t)fake_conns_held(api), "connections",
                     (json_int_t)api->connections, "version",
                     (json_int_t)api->version);
}

static uint32_t
verbs_in(const char *text)
{
    uint32_t verbs = 0;

    for (uint32_t i = 0; i < FAKE_VERBS; i++) {
        verbs |= strstr(text, fake_verb_name(UINT32_C(1) << i)) != NULL
                     ? UINT32_C(1) << i
                     : 0;
    }
    return verbs != 0 ? verbs : FAKE_ANY;
}

static json_t *
add_fault(struct fake_api *api, const json_t *args)
{
    static const char *const actions[] = {"status", "drop_before", "drop_after",
                                          "hang",   "delay",       "hold",
                                          "drip",   "mangle"};
    const char *action = text_at(args, "action");
    json_t *subresource = json_object_get(args, "subresource");

    for (size_t i = 0; i < WP_ARRAY_LEN(actions); i++) {
        if (strcmp(actions[i], action) == 0) {
            fake_rule_add(
                api, &(struct fake_fault){
                         .verbs = verbs_in(text_at(args, "verbs")),
                         .kind = kind_at(args),
                         .subresource = json_string_value(subresource),
                         .agent = text_at(args, "agent"),
                         .action = (enum fake_action)i,
                         .code = (int)number_at(args, "code", 500),
                         .retry_after_s = number_at(args, "retry_after_s", -1),
                         .ms = number_at(args, "ms", 0),
                         .bytes = (uint32_t)number_at(args, "bytes", 1),
                         .skip = (uint32_t)number_at(args, "skip", 0),
                         .every = (uint32_t)number_at(args, "every", 1),
                         .count = (uint32_t)number_at(args, "count", 0),
                     });
            return done();
        }
    }
    return NULL;
}

static json_t *
clear(struct fake_api *api, const json_t *args)
{
    (void)args;
    api->rules_len = 0;
    fake_conns_let_go(api);
    return done();
}

static json_t *
act_on_watches(struct fake_api *api, const json_t *args)
{
    static const char *const acts[] = {"close", "cut", "stall", "send"};

    for (size_t i = 0; i < WP_ARRAY_LEN(acts); i++) {
        if (strcmp(acts[i], text_at(args, "act")) == 0) {
            return json_integer(fake_watches_act(api, kind_at(args),
                                                 (enum fake_watch_act)i,
                                                 text_at(args, "bytes")));
        }
    }
    return NULL;
}

static json_t *
compact(struct fake_api *api, const json_t *args)
{
    (void)args;
    fake_compact_now(api);
    return done();
}

static json_t *
down(struct fake_api *api, const json_t *args)
{
    (void)args;
    fake_go_down(api);
    return done();
}

static json_t *
up(struct fake_api *api, const json_t *args)
{
    (void)args;
    fake_go_up(api);
    return done();
}

/* Creates it, or replaces what is there: also the status when it has one. */
static json_t *
put(struct fake_api *api, const json_t *args)
{
    int kind = kind_at(args);
    json_t *object = json_deep_copy(json_object_get(args, "object"));
    json_t *status = json_incref(json_object_get(object, "status"));
    json_t *before;
    json_t *after;
    char key[2 * FAKE_TEXT_MAX];

    if (kind < 0 || !json_is_object(json_object_get(object, "metadata"))) {
        json_decref(object);
        json_decref(status);
        return NULL;
    }
    fake_key(fake_meta(object, "namespace"), fake_meta(object, "name"), key);
    before = fake_find(api, kind, key);
    if (before == NULL) {
        before = fake_create(api, kind, object);
    } else {
        after = json_deep_copy(before);
        fake_merge(after, object);
        json_decref(object);
        before = fake_commit(api, kind, after);
    }
    if (status != NULL) {
        after = json_deep_copy(before);
        (void)json_object_set(after, "status", status);
        before = fake_commit(api, kind, after);
    }
    json_decref(status);
    return json_deep_copy(before);
}

static json_t *
remove_object(struct fake_api *api, const json_t *args)
{
    int kind = kind_at(args);
    char key[2 * FAKE_TEXT_MAX];

    fake_key(text_at(args, "ns"), text_at(args, "name"), key);
    if (kind < 0 || fake_find(api, kind, key) == NULL) {
        return NULL;
    }
    fake_delete(api, kind, key, false);
    return done();
}

static json_t *
get(struct fake_api *api, const json_t *args)
{
    int kind = kind_at(args);
    char key[2 * FAKE_TEXT_MAX];

    fake_key(text_at(args, "ns"), text_at(args, "name"), key);
    return kind < 0 ? NULL : json_deep_copy(fake_find(api, kind, key));
}

static json_t *
all(struct fake_api *api, const json_t *args)
{
    int kind = kind_at(args);
    json_t *sorted;
    json_t *copy;

    if (kind < 0) {
        return NULL;
    }
    sorted = fake_sorted(api, kind, "", "", "");
    copy = json_deep_copy(sorted);
    json_decref(sorted);
    return copy;
}

static json_t *
save(struct fake_api *api, const json_t *args)
{
    json_t *kinds = json_array(); /* Two of them have one plural. */

    (void)args;
    json_decref(api->saved);
    api->saved = json_object();
    for (int i = 0; i < WP_KIND_COUNT; i++) {
        (void)json_array_append_new(kinds, json_copy(api->objects[i]));
    }
    (void)json_object_set_new(api->saved, "kinds", kinds);
    (void)json_object_set_new(api->saved, "version",
                              json_integer((json_int_t)api->version));
    return done();
}

/* The connections end, as the server's process does. */
static json_t *
restore(struct fake_api *api, const json_t *args)
{
    (void)args;
    if (api->saved == NULL) {
        return NULL;
    }
    fake_go_down(api);
    for (int i = 0; i < WP_KIND_COUNT; i++) {
        json_decref(api->objects[i]);
        api->objects[i] = json_copy(
            json_array_get(json_object_get(api->saved, "kinds"), (size_t)i));
    }
    api->version = (uint64_t)number_at(api->saved, "version", 0);
    api->compacted = api->version;
    while (api->history_len > 0 &&
           api->history[api->history_len - 1].version > api->version) {
        struct fake_event *event = &api->history[--api->history_len];

        json_decref(event->before);
        json_decref(event->object);
    }
    drop_snapshots(api);
    fake_index_again(api);
    fake_go_up(api);
    return done();
}

static json_t *
restore_bumped(struct fake_api *api, const json_t *args)
{
    uint64_t newest = api->version;
    json_t *restored = restore(api, args);

    if (restored != NULL) {
        api->version = newest + 1000000;
        fake_compact_now(api);
    }
    return restored;
}

json_t *
fake_control(struct fake_api *api, const char *operation, const json_t *args)
{
    static const struct {
        const char *name;
        json_t *(*run)(struct fake_api *, const json_t *);
    } rows[] = {{"requests", requests},
                {"history", history},
                {"stats", stats},
                {"fault", add_fault},
                {"clear", clear},
                {"watches", act_on_watches},
                {"compact", compact},
                {"down", down},
                {"up", up},
                {"put", put},
                {"delete", remove_object},
                {"all", all},
                {"get", get},
                {"save", save},
                {"restore", restore},
                {"restore_bumped", restore_bumped}};

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (strcmp(rows[i].name, operation) == 0) {
            return rows[i].run(api, args);
        }
    }
    return NULL;
}
