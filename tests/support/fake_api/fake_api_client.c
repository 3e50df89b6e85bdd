/* The server as a test in C sees it. Runs on the test's thread. */
#include "pool/base/compiler.h"
#include "tests/support/fake_api/fake_api_impl.h"

static uint64_t
number_at(const json_t *answer, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(answer, key));
}

struct control {
    const char *operation;
    const json_t *args;
    json_t *answer;
};

static void
run_control(struct fake_api *api, void *arg)
{
    struct control *control = arg;

    control->answer = fake_control(api, control->operation, control->args);
}

json_t *
fake_api_control(struct fake_api *api, const char *operation,
                 const json_t *args)
{
    struct control control = {operation, args, NULL};

    fake_call(api, run_control, &control);
    return control.answer;
}

/* args is taken. */
static json_t *
control(struct fake_api *api, const char *operation, json_t *args)
{
    json_t *answer = fake_api_control(api, operation, args);

    json_decref(args);
    return answer;
}

static const char *
plural(int kind)
{
    return kind < 0 ? "" : wp_kind_info((enum wp_kind)kind)->plural;
}

json_t *
fake_api_put(struct fake_api *api, enum wp_kind kind, json_t *object)
{
    return control(
        api, "put",
        json_pack("{s:s,s:o}", "kind", plural((int)kind), "object", object));
}

json_t *
fake_api_get(struct fake_api *api, enum wp_kind kind, const char *ns,
             const char *name)
{
    return control(api, "get",
                   json_pack("{s:s,s:s,s:s}", "kind", plural((int)kind), "ns",
                             ns, "name", name));
}

bool
fake_api_delete(struct fake_api *api, enum wp_kind kind, const char *ns,
                const char *name)
{
    json_t *answer =
        control(api, "delete",
                json_pack("{s:s,s:s,s:s}", "kind", plural((int)kind), "ns", ns,
                          "name", name));
    bool deleted = answer != NULL;

    json_decref(answer);
    return deleted;
}

json_t *
fake_api_all(struct fake_api *api, enum wp_kind kind)
{
    return control(api, "all", json_pack("{s:s}", "kind", plural((int)kind)));
}

uint64_t
fake_api_version(struct fake_api *api)
{
    json_t *answer = fake_api_control(api, "stats", NULL);
    uint64_t version = number_at(answer, "version");

    json_decref(answer);
    return version;
}

uint64_t
fake_api_connections(struct fake_api *api)
{
    json_t *answer = fake_api_control(api, "stats", NULL);
    uint64_t n = number_at(answer, "connections");

    json_decref(answer);
    return n;
}

static void
run_fault(struct fake_api *api, void *arg)
{
    fake_rule_add(api, arg);
}

void
fake_api_fault(struct fake_api *api, const struct fake_fault *fault)
{
    struct fake_fault copy = *fault;

    fake_call(api, run_fault, &copy);
}

void
fake_api_faults_clear(struct fake_api *api)
{
    json_decref(fake_api_control(api, "clear", NULL));
}

struct watches {
    int kind;
    enum fake_watch_act act;
    const char *bytes; /* NULL: only count. */
    uint32_t n;
};

static void
run_watches(struct fake_api *api, void *arg)
{
    struct watches *watches = arg;

    watches->n =
        fake_watches_act(api, watches->kind, watches->act, watches->bytes);
}

uint32_t
fake_api_watches(struct fake_api *api, int kind, enum fake_watch_act act,
                 const char *bytes)
{
    struct watches watches = {kind, act, bytes != NULL ? bytes : "", 0};

    fake_call(api, run_watches, &watches);
    return watches.n;
}

static void
run_count_watches(struct fake_api *api, void *arg)
{
    struct watches *watches = arg;

    watches->n = fake_watches_count(api, watches->kind);
}

uint32_t
fake_api_watches_open(struct fake_api *api, int kind)
{
    struct watches watches = {.kind = kind};

    fake_call(api, run_count_watches, &watches);
    return watches.n;
}

struct counted {
    uint32_t verbs;
    int kind;
    uint64_t n;
};

static void
run_count(struct fake_api *api, void *arg)
{
    struct counted *counted = arg;

    for (uint32_t verb = 0; verb < FAKE_VERBS; verb++) {
        for (int kind = 0; kind < WP_KIND_COUNT; kind++) {
            if ((counted->verbs & UINT32_C(1) << verb) != 0 &&
                (counted->kind < 0 || counted->kind == kind)) {
                counted->n += api->counts[verb][kind];
            }
        }
    }
}

uint64_t
fake_api_count(struct fake_api *api, uint32_t verbs, int kind)
{
    struct counted counted = {verbs, kind, 0};

    fake_call(api, run_count, &counted);
    return counted.n;
}

#define OPERATION(function, name)                                              \
    void function(struct fake_api *api)                                        \
    {                                                                          \
        json_decref(fake_api_control(api, name, NULL));                        \
    }
OPERATION(fake_api_compact, "compact")
OPERATION(fake_api_down, "down")
OPERATION(fake_api_up, "up")
OPERATION(fake_api_save, "save")
OPERATION(fake_api_restore, "restore")
OPERATION(fake_api_restore_bumped, "restore_bumped")
