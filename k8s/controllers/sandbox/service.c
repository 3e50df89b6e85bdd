#include "k8s/controllers/sandbox/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/controllers/sandbox/child.h"
#include "pool/base/assert.h"
#include "pool/base/compiler.h"

struct service_port {
    json_int_t port;
    const char *protocol; /* Borrowed from the sandbox, or a literal. */
    const char *name;     /* The same; "" when no container named it. */
};

/* Each port and protocol once. */
struct service_ports {
    struct service_port *items;
    size_t len;
    size_t cap;
};

static struct service_port *
port_of(struct service_ports *ports, json_int_t port, const char *protocol)
{
    for (size_t i = 0; i < ports->len; i++) {
        struct service_port *item = &ports->items[i];

        if (item->port == port && strcmp(item->protocol, protocol) == 0) {
            return item;
        }
    }
    if (ports->len == ports->cap) {
        ports->cap = ports->cap == 0 ? 8 : ports->cap * 2;
        ports->items = realloc(ports->items, ports->cap * sizeof *ports->items);
        WP_ASSERT(ports->items != NULL);
    }
    ports->items[ports->len] = (struct service_port){port, protocol, ""};
    return &ports->items[ports->len++];
}

static bool
name_is_taken(const struct service_ports *ports, const char *name)
{
    for (size_t i = 0; i < ports->len; i++) {
        if (strcmp(ports->items[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* The first name that a port is given stays, and a name given twice stays with
 * the first port that has it. */
static void
add_container(struct service_ports *ports, const json_t *container)
{
    size_t i;
    json_t *given;

    json_array_foreach(json_object_get(container, "ports"), i, given)
    {
        json_int_t number =
            json_integer_value(json_object_get(given, "containerPort"));
        const char *protocol = wp_json_text(given, "protocol", NULL);
        const char *name = wp_json_text(given, "name", NULL);
        struct service_port *port;

        if (number == 0) {
            continue;
        }
        port = port_of(ports, number, protocol[0] != '\0' ? protocol : "TCP");
        if (port->name[0] == '\0' && name[0] != '\0' &&
            !name_is_taken(ports, name)) {
            port->name = name;
        }
    }
}

static int
by_number(const void *a, const void *b)
{
    const struct service_port *x = a;
    const struct service_port *y = b;

    if (x->port != y->port) {
        return x->port < y->port ? -1 : 1;
    }
    return strcmp(x->protocol, y->protocol);
}

static void
collect(struct service_ports *ports, const json_t *json)
{
    const json_t *spec = wp_json_at(json, "spec", "podTemplate", "spec", NULL);
    size_t i;
    json_t *container;

    json_array_foreach(json_object_get(spec, "containers"), i, container)
    {
        add_container(ports, container);
    }
    json_array_foreach(json_object_get(spec, "initContainers"), i, container)
    {
        if (strcmp(wp_json_text(container, "restartPolicy", NULL), "Always") ==
            0) {
            add_container(ports, container);
        }
    }
    if (ports->len > 1) {
        qsort(ports->items, ports->len, sizeof *ports->items, by_number);
    }
}

/* p-PORT-PROTOCOL, with a number behind it while somebody has that name. */
static json_t *
made_name(const struct service_ports *ports, const struct service_port *port)
{
    char protocol[16];
    char name[64];
    size_t len = 0;

    for (; port->protocol[len] != '\0' && len < sizeof protocol - 1; len++) {
        char c = port->protocol[len];

        protocol[len] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    protocol[len] = '\0';
    (void)snprintf(name, sizeof name, "p-%lld-%s", (long long)port->port,
                   protocol);
    for (unsigned n = 2; name_is_taken(ports, name); n++) {
        (void)snprintf(name, sizeof name, "p-%lld-%s-%u", (long long)port->port,
                       protocol, n);
    }
    return json_string(name);
}

/* The Service's ports, an array that the caller owns. */
static json_t *
build_ports(const json_t *json)
{
    struct service_ports ports = {NULL, 0, 0};
    json_t *array = json_array();

    collect(&ports, json);
    for (size_t i = 0; i < ports.len; i++) {
        const struct service_port *port = &ports.items[i];
        json_t *item = json_object();

        wp_json_set(item, "name",
                    port->name[0] != '\0' ? json_string(port->name)
                                          : made_name(&ports, port));
        wp_json_set_text(item, "protocol", port->protocol);
        wp_json_set(item, "port", json_integer(port->port));
        wp_json_set(item, "targetPort", json_integer(port->port));
        (void)json_array_append_new(array, item);
    }
    free(ports.items);
    return array;
}

json_t *
wp_sandbox_service_build(const struct wp_object *sandbox, const json_t *json,
                         const char *hash)
{
    const struct wp_kind_info *info = wp_kind_info(WP_KIND_SERVICE);
    json_t *service = json_object();
    json_t *spec = json_object();
    json_t *ports = build_ports(json);

    wp_json_set_text(spec, "clusterIP", "None");
    wp_json_set(spec, "selector",
                wp_json_set_text(json_object(), WP_LABEL_NAME_HASH, hash));
    if (json_array_size(ports) > 0) {
        wp_json_set(spec, "ports", ports);
    } else {
        json_decref(ports);
    }
    wp_json_set_text(service, "apiVersion", info->api_version);
    wp_json_set_text(service, "kind", info->kind);
    wp_json_set(service, "metadata",
                wp_child_metadata(sandbox, sandbox->name, hash));
    return wp_json_set(service, "spec", spec);
}

/* NULL when the selector is the hash and nothing else. */
static json_t *
selector_patch(const json_t *service, const char *hash)
{
    json_t *has = wp_json_at(service, "spec", "selector", NULL);
    json_t *patch = json_object();
    const char *key;
    json_t *value;

    if (strcmp(wp_json_text(has, WP_LABEL_NAME_HASH, NULL), hash) != 0) {
        wp_json_set_text(patch, WP_LABEL_NAME_HASH, hash);
    }
    json_object_foreach(has, key, value)
    {
        if (strcmp(key, WP_LABEL_NAME_HASH) != 0) {
            wp_json_set(patch, key, json_null());
        }
    }
    if (json_object_size(patch) == 0) {
        json_decref(patch);
        return NULL;
    }
    return patch;
}

static bool
ports_equal(const json_t *has, const json_t *wanted)
{
    static const char *const fields[] = {"name", "protocol", "port",
                                         "targetPort"};

    if (json_array_size(has) != json_array_size(wanted)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        for (size_t f = 0; f < WP_ARRAY_LEN(fields); f++) {
            if (!json_equal(
                    json_object_get(json_array_get(has, i), fields[f]),
                    json_object_get(json_array_get(wanted, i), fields[f]))) {
                return false;
            }
        }
    }
    return true;
}

bool
wp_sandbox_service_drift(const json_t *json, const char *hash,
                         const json_t *service, bool with_ports, json_t *patch)
{
    json_t *spec = json_object();
    json_t *selector = selector_patch(service, hash);
    json_t *ports = with_ports ? build_ports(json) : NULL;
    bool changed = false;

    if (strcmp(wp_json_text(service, "metadata", "labels", WP_LABEL_NAME_HASH,
                            NULL),
               hash) != 0) {
        wp_json_set(json_object_get(patch, "metadata"), "labels",
                    wp_json_set_text(json_object(), WP_LABEL_NAME_HASH, hash));
        changed = true;
    }
    if (selector != NULL) {
        wp_json_set(spec, "selector", selector);
    }
    if (ports != NULL &&
        !ports_equal(wp_json_at(service, "spec", "ports", NULL), ports)) {
        wp_json_set(spec, "ports", json_incref(ports));
    }
    json_decref(ports);
    if (json_object_size(spec) > 0) {
        wp_json_set(patch, "spec", spec);
        return true;
    }
    json_decref(spec);
    return changed;
}

bool
wp_sandbox_service_headless(const json_t *service)
{
    const char *address = wp_json_text(service, "spec", "clusterIP", NULL);

    return address[0] == '\0' || strcmp(address, "None") == 0;
}
