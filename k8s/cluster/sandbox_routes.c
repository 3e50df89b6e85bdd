#include "k8s/cluster/sandbox_routes.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/names.h"
#include "k8s/objects/view.h"
#include "pool/base/assert.h"

enum {
    NAME_MAX_LEN = 253,
};

struct route {
    struct wp_name_key key; /* First; its texts lie behind the struct. */
    char ip[INET6_ADDRSTRLEN];
    char texts[];
};

struct wp_sandbox_routes {
    pthread_mutex_t lock; /* guards: tree and its routes */
    void *tree;
};

/* Is it one that can be asked for here? */
static bool
has_route(const struct wp_object *sandbox)
{
    const char *ip;

    if (sandbox == NULL || sandbox->deleting ||
        wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_WARM_POOL)) {
        return false;
    }
    /* One that a pool has lost, or is taking in, is nobody's yet. */
    if (wp_object_label(sandbox, WP_LABEL_WARM_POOL) != NULL &&
        !wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_CLAIM)) {
        return false;
    }
    ip = wp_sandbox_view(sandbox)->pod_ip;
    return ip[0] != '\0' && strlen(ip) < INET6_ADDRSTRLEN;
}

/* Lock held. */
static void
forget(struct wp_sandbox_routes *routes, const struct wp_object *sandbox)
{
    const struct wp_name_key key = {sandbox->ns, sandbox->name};
    struct route **found = tfind(&key, &routes->tree, wp_name_key_compare);
    struct route *route = found != NULL ? *found : NULL;

    if (route != NULL) {
        (void)tdelete(&key, &routes->tree, wp_name_key_compare);
        free(route);
    }
}

/* Lock held; there is none of that name. */
static void
keep(struct wp_sandbox_routes *routes, const struct wp_object *sandbox)
{
    size_t ns_size = strlen(sandbox->ns) + 1;
    size_t name_size = strlen(sandbox->name) + 1;
    struct route *route = calloc(1, sizeof *route + ns_size + name_size);

    WP_ASSERT(route != NULL);
    memcpy(route->texts, sandbox->ns, ns_size);
    memcpy(route->texts + ns_size, sandbox->name, name_size);
    route->key = (struct wp_name_key){route->texts, route->texts + ns_size};
    (void)snprintf(route->ip, sizeof route->ip, "%s",
                   wp_sandbox_view(sandbox)->pod_ip);
    WP_ASSERT(tsearch(route, &routes->tree, wp_name_key_compare) != NULL);
}

static void
on_change(void *ctx, const struct wp_object *before,
          const struct wp_object *after)
{
    struct wp_sandbox_routes *routes = ctx;
    bool had = has_route(before);
    bool has = has_route(after);

    if (!had && !has) {
        return; /* Most: what waits in pools. */
    }
    (void)pthread_mutex_lock(&routes->lock);
    if (had) {
        forget(routes, before);
    }
    if (has) {
        keep(routes, after);
    }
    (void)pthread_mutex_unlock(&routes->lock);
}

struct wp_sandbox_routes *
wp_sandbox_routes_create(struct wp_store *sandboxes)
{
    struct wp_sandbox_routes *routes = calloc(1, sizeof *routes);

    if (routes != NULL) {
        (void)pthread_mutex_init(&routes->lock, NULL);
        wp_store_listen(sandboxes, on_change, routes);
    }
    return routes;
}

void
wp_sandbox_routes_destroy(struct wp_sandbox_routes *routes)
{
    if (routes != NULL) {
        tdestroy(routes->tree, free);
        (void)pthread_mutex_destroy(&routes->lock);
        free(routes);
    }
}

bool
wp_sandbox_routes_find(struct wp_sandbox_routes *routes, struct wp_str ns,
                       struct wp_str name, uint16_t port,
                       char out[WP_ENDPOINT_MAX + 1])
{
    char ns_text[WP_NAMESPACE_MAX + 1];
    char name_text[NAME_MAX_LEN + 1];
    const struct wp_name_key key = {ns_text, name_text};
    struct route **found;

    /* Kubernetes bounds both. */
    if (!wp_str_copy(ns, ns_text, sizeof ns_text) ||
        !wp_str_copy(name, name_text, sizeof name_text)) {
        return false;
    }
    (void)pthread_mutex_lock(&routes->lock);
    found = tfind(&key, &routes->tree, wp_name_key_compare);
    if (found != NULL) {
        bool v6 = strchr((*found)->ip, ':') != NULL;

        (void)snprintf(out, WP_ENDPOINT_MAX + 1, "%s%s%s:%u", v6 ? "[" : "",
                       (*found)->ip, v6 ? "]" : "", (unsigned)port);
    }
    (void)pthread_mutex_unlock(&routes->lock);
    return found != NULL;
}
