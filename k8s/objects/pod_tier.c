#include "k8s/objects/pod_tier.h"

#include <stdio.h>
#include <string.h>

#include "k8s/objects/json.h"

/* What programs need, and no home folder with its keys. */
#define READABLE "/usr:/bin:/sbin:/lib:/lib64:/opt:/etc:/proc:/dev"

enum {
    DEPTH_MAX = 3,
};

enum weak {
    WEAK_NEVER,
    WEAK_IF, /* It is what the column says. */
    WEAK_UNLESS_ALL,
    WEAK_IF_ANY,
};

/* What every tier from T1 on asks for. */
static const struct rule {
    bool of_pod; /* Else of each container. */
    const char *path[DEPTH_MAX];
    const char *fill; /* JSON, where there is nothing; NULL: it is left so. */
    enum weak weak;
    const char *is; /* JSON */
} hardened[] = {
    {true, {"securityContext", "runAsNonRoot"}, "true", WEAK_IF, "false"},
    {true,
     {"securityContext", "seccompProfile"},
     "{\"type\":\"RuntimeDefault\"}",
     WEAK_NEVER,
     NULL},
    {true,
     {"securityContext", "seccompProfile", "type"},
     NULL,
     WEAK_IF,
     "\"Unconfined\""},
    {true, {"securityContext", "runAsUser"}, NULL, WEAK_IF, "0"},
    {true, {"automountServiceAccountToken"}, "false", WEAK_IF, "true"},
    {true, {"hostNetwork"}, NULL, WEAK_IF, "true"},
    {true, {"hostPID"}, NULL, WEAK_IF, "true"},
    {true, {"hostIPC"}, NULL, WEAK_IF, "true"},
    {false,
     {"securityContext", "allowPrivilegeEscalation"},
     "false",
     WEAK_IF,
     "true"},
    {false,
     {"securityContext", "readOnlyRootFilesystem"},
     "true",
     WEAK_IF,
     "false"},
    {false,
     {"securityContext", "capabilities", "drop"},
     "[\"ALL\"]",
     WEAK_UNLESS_ALL,
     NULL},
    {false,
     {"securityContext", "capabilities", "add"},
     NULL,
     WEAK_IF_ANY,
     NULL},
    {false, {"securityContext", "privileged"}, NULL, WEAK_IF, "true"},
    {false, {"securityContext", "runAsNonRoot"}, NULL, WEAK_IF, "false"},
    {false, {"securityContext", "runAsUser"}, NULL, WEAK_IF, "0"},
    {false,
     {"securityContext", "seccompProfile", "type"},
     NULL,
     WEAK_IF,
     "\"Unconfined\""},
};

static const char *const container_lists[] = {"containers", "initContainers"};

static json_t *
parsed(const char *text)
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);

    if (json == NULL) {
        wp_json_no_memory();
    }
    return json;
}

/* --- Filling --- */

static size_t
depth_of(const struct rule *rule)
{
    size_t n = 1;

    while (n < DEPTH_MAX && rule->path[n] != NULL) {
        n++;
    }
    return n;
}

/* What is no object on the way is the API server's to refuse. */
static void
fill(json_t *at, const struct rule *rule)
{
    size_t depth = depth_of(rule);

    for (size_t i = 0; i + 1 < depth; i++) {
        json_t *below = json_object_get(at, rule->path[i]);

        if (below != NULL && !json_is_null(below) && !json_is_object(below)) {
            return;
        }
        at = wp_json_object_at(at, rule->path[i]);
    }
    if (json_object_get(at, rule->path[depth - 1]) == NULL ||
        json_is_null(json_object_get(at, rule->path[depth - 1]))) {
        wp_json_set(at, rule->path[depth - 1], parsed(rule->fill));
    }
}

static void
harden(json_t *at, bool is_pod)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(hardened); i++) {
        if (hardened[i].of_pod == is_pod && hardened[i].fill != NULL) {
            fill(at, &hardened[i]);
        }
    }
}

static void
fill_env(json_t *container, const char *name, const char *value)
{
    json_t *env = json_object_get(container, "env");
    json_t *variable;
    size_t i;

    json_array_foreach(env, i, variable)
    {
        if (strcmp(wp_json_text(variable, "name", NULL), name) == 0) {
            return;
        }
    }
    if (env == NULL || json_is_null(env)) {
        wp_json_set(container, "env", json_array());
        env = json_object_get(container, "env");
    }
    if (!json_is_array(env)) {
        return; /* The API server's to refuse. */
    }
    variable = json_pack("{s:s, s:s}", "name", name, "value", value);
    if (json_array_append_new(env, variable) != 0) {
        wp_json_no_memory();
    }
}

static void
fill_proxy(json_t *container)
{
    static const char *const proxies[] = {"HTTP_PROXY", "HTTPS_PROXY",
                                          "http_proxy", "https_proxy"};
    char url[64];

    (void)snprintf(url, sizeof url, "http://" WP_EGRESS_APP ":%d",
                   WP_EGRESS_PORT);
    for (size_t i = 0; i < WP_ARRAY_LEN(proxies); i++) {
        fill_env(container, proxies[i], url);
    }
    fill_env(container, "NO_PROXY", "localhost,127.0.0.1,.svc,.cluster.local");
    fill_env(container, "no_proxy", "localhost,127.0.0.1,.svc,.cluster.local");
}

void
wp_pod_apply_tier(json_t *pod_spec, enum wp_tier tier)
{
    const struct wp_tier_info *info = wp_tier_info(tier);

    if (info->hardened) {
        harden(pod_spec, true);
    }
    if (info->runtime_class != NULL &&
        wp_json_text(pod_spec, "runtimeClassName", NULL)[0] == '\0') {
        wp_json_set_text(pod_spec, "runtimeClassName", info->runtime_class);
    }
    for (size_t list = 0; list < WP_ARRAY_LEN(container_lists); list++) {
        json_t *container;
        size_t i;

        json_array_foreach(json_object_get(pod_spec, container_lists[list]), i,
                           container)
        {
            if (json_is_object(container) && info->hardened) {
                harden(container, false);
            }
            if (json_is_object(container) && info->confined) {
                fill_env(container, "WARMPOOL_RUNTIME_CONFINE", "true");
                fill_env(container, "WARMPOOL_RUNTIME_READABLE", READABLE);
            }
            if (json_is_object(container) && info->proxied) {
                fill_proxy(container);
            }
        }
    }
}

/* --- What is weaker --- */

static const json_t *
stated(const json_t *at, const struct rule *rule)
{
    size_t depth = depth_of(rule);

    for (size_t i = 0; i < depth; i++) {
        at = json_object_get(at, rule->path[i]);
    }
    return at;
}

static bool
has_all(const json_t *list)
{
    const json_t *name;
    size_t i;

    json_array_foreach(list, i, name)
    {
        const char *text = json_string_value(name);

        if (text != NULL && strcmp(text, "ALL") == 0) {
            return true;
        }
    }
    return false;
}

static bool
is_weak(const json_t *value, const struct rule *rule)
{
    json_t *is;
    bool same;

    if (value == NULL || json_is_null(value)) {
        return false;
    }
    switch (rule->weak) {
    case WEAK_NEVER:
        return false;
    case WEAK_UNLESS_ALL:
        return !has_all(value);
    case WEAK_IF_ANY:
        return json_array_size(value) > 0;
    case WEAK_IF:
        break;
    }
    is = parsed(rule->is);
    same = json_equal(value, is) == 1;
    json_decref(is);
    return same;
}

struct words {
    char *out;
    size_t cap;
    size_t len;
};

static void
add_path(struct words *words, const char *where, const struct rule *rule)
{
    static const char *const joints[] = {"", "."};
    const char *before = words->len > 0 ? ", " : "";

    for (size_t i = 0; i < depth_of(rule) && words->len < words->cap; i++) {
        int n = snprintf(words->out + words->len, words->cap - words->len,
                         "%s%s%s%s", i == 0 ? before : "", i == 0 ? where : "",
                         joints[i > 0], rule->path[i]);

        words->len += n > 0 ? (size_t)n : 0;
    }
}

static bool
find_weak(const json_t *at, bool is_pod, const char *where, struct words *words)
{
    bool found = false;

    for (size_t i = 0; i < WP_ARRAY_LEN(hardened); i++) {
        const struct rule *rule = &hardened[i];

        if (rule->of_pod == is_pod && is_weak(stated(at, rule), rule)) {
            add_path(words, where, rule);
            found = true;
        }
    }
    return found;
}

bool
wp_pod_is_weaker(const json_t *pod_spec, enum wp_tier tier, char *out,
                 size_t cap)
{
    struct words words = {out, cap, 0};
    bool found;

    out[0] = '\0';
    if (!wp_tier_info(tier)->hardened) {
        return false;
    }
    found = find_weak(pod_spec, true, "", &words);
    for (size_t list = 0; list < WP_ARRAY_LEN(container_lists); list++) {
        const json_t *container;
        char where[64];
        size_t i;

        json_array_foreach(json_object_get(pod_spec, container_lists[list]), i,
                           container)
        {
            (void)snprintf(where, sizeof where, "%s[%zu].",
                           container_lists[list], i);
            found = find_weak(container, false, where, &words) || found;
        }
    }
    return found;
}
