#include "k8s/controllers/template/network_policy.h"

#include <stdio.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/objects/owner.h"
#include "k8s/objects/pod_tier.h"
#include "k8s/objects/view.h"
#include "pool/base/assert.h"

#define SUFFIX "-network-policy"
#define ROUTER_NAMESPACE "agent-sandbox-system"
#define ROUTER_APP "sandbox-router"

/* The first of a name that leave room for the rest; no separator ends them. */
static int
cut_length(const char *name)
{
    int len = WP_NETWORK_POLICY_NAME_MAX -
              (int)(sizeof(SUFFIX) - 1 + 1 + WP_NAME_HASH_LEN);

    while (len > 0 && (name[len - 1] == '.' || name[len - 1] == '-')) {
        len--;
    }
    return len;
}

bool
wp_network_policy_name(const char *template_name,
                       char out[WP_NETWORK_POLICY_NAME_MAX + 1])
{
    size_t len = strlen(template_name);
    char hash[WP_NAME_HASH_LEN + 1];

    if (len > WP_NETWORK_POLICY_NAME_MAX) {
        return false;
    }
    if (len + sizeof(SUFFIX) - 1 <= WP_NETWORK_POLICY_NAME_MAX) {
        (void)snprintf(out, WP_NETWORK_POLICY_NAME_MAX + 1, "%s" SUFFIX,
                       template_name);
        return true;
    }
    wp_name_hash(wp_str_from(template_name), hash);
    (void)snprintf(out, WP_NETWORK_POLICY_NAME_MAX + 1, "%.*s-%s" SUFFIX,
                   cut_length(template_name), template_name, hash);
    return true;
}

struct wp_str
wp_network_policy_template(const char *policy_name)
{
    size_t len = strlen(policy_name);
    size_t suffix = sizeof(SUFFIX) - 1;

    if (len <= suffix || strcmp(policy_name + len - suffix, SUFFIX) != 0) {
        return (struct wp_str){NULL, 0};
    }
    return (struct wp_str){policy_name, len - suffix};
}

/* --- What it must be --- */

static json_t *
peer(const char *label, const char *value)
{
    return json_pack("{s:{s:{s:s}}, s:{s:{s:s}}}", "namespaceSelector",
                     "matchLabels", "kubernetes.io/metadata.name",
                     ROUTER_NAMESPACE, "podSelector", "matchLabels", label,
                     value);
}

/* The router, and the daemon itself, which is one (sandbox-router-svc) and
 * brings what claims have. */
static json_t *
default_ingress(void)
{
    return json_pack("[{s:[o, o]}]", "from", peer("app", ROUTER_APP),
                     peer("app.kubernetes.io/name", "warmpool"));
}

/* Public addresses only: private networks and link-local addresses, where
 * metadata services are, stay out of reach, and so does the cluster's DNS. */
static json_t *
default_egress(void)
{
    return json_pack("[{s:[{s:{s:s, s:[s, s, s, s]}}, {s:{s:s, s:[s, s]}}]}]",
                     "to", "ipBlock", "cidr", "0.0.0.0/0", "except",
                     "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
                     "169.254.0.0/16", "ipBlock", "cidr", "::/0", "except",
                     "fc00::/7", "fe80::/10");
}

static json_t *
dns_ports(void)
{
    return json_pack("[{s:i, s:s}, {s:i, s:s}]", "port", 53, "protocol", "UDP",
                     "port", 53, "protocol", "TCP");
}

static json_t *
dns_egress(void)
{
    return json_pack("[{s:o}]", "ports", dns_ports());
}

static json_t *
proxy_egress(void)
{
    return json_pack(
        "[{s:[{s:{s:{s:s}}}], s:[{s:i, s:s}]}, {s:[{s:{s:{s:s}}}], s:o}]", "to",
        "podSelector", "matchLabels", "app", WP_EGRESS_APP, "ports", "port",
        WP_EGRESS_PORT, "protocol", "TCP", "to", "namespaceSelector",
        "matchLabels", "kubernetes.io/metadata.name", "kube-system", "ports",
        dns_ports());
}

static json_t *
egress_of(enum wp_tier tier)
{
    const struct wp_tier_info *info = wp_tier_info(tier);

    return info->proxied    ? proxy_egress()
           : info->hardened ? dns_egress()
                            : default_egress();
}

json_t *
wp_network_policy_spec(const struct wp_object *template_,
                       enum wp_tier installed)
{
    enum wp_tier tier =
        wp_template_tier(wp_template_view(template_), installed);
    static const char *const directions[] = {"ingress", "egress"};
    json_t *tree = wp_object_json(template_);
    json_t *rules = wp_json_at(tree, "spec", "networkPolicy", NULL);
    char hash[WP_NAME_HASH_LEN + 1];
    json_t *spec;

    wp_name_hash(wp_str_from(template_->name), hash);
    spec = json_pack("{s:{s:{s:s}}, s:[s, s]}", "podSelector", "matchLabels",
                     WP_LABEL_TEMPLATE_REF_HASH, hash, "policyTypes", "Ingress",
                     "Egress");
    if (!json_is_object(rules)) {
        wp_json_set(spec, "ingress", default_ingress());
        wp_json_set(spec, "egress", egress_of(tier));
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(directions); i++) {
        json_t *own = json_object_get(rules, directions[i]);

        if (json_array_size(own) > 0) {
            wp_json_set(spec, directions[i], json_incref(own));
        }
    }
    json_decref(tree);
    return spec;
}

json_t *
wp_network_policy_build(const struct wp_object *template_, json_t *spec)
{
    const struct wp_kind_info *info = wp_kind_info(WP_KIND_NETWORK_POLICY);
    char name[WP_NETWORK_POLICY_NAME_MAX + 1];
    json_t *policy;

    WP_ASSERT(wp_network_policy_name(template_->name, name));
    policy =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:[o]}, s:o}", "apiVersion",
                  info->api_version, "kind", info->kind, "metadata", "name",
                  name, "namespace", template_->ns, "ownerReferences",
                  wp_owner_reference(template_), "spec", spec);
    WP_ASSERT(policy != NULL);
    return policy;
}

/* --- Comparing --- */

static void
drop_empty(json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    if (json_is_null(value) ||
        (json_is_array(value) && json_array_size(value) == 0) ||
        (json_is_object(value) && json_object_size(value) == 0)) {
        (void)json_object_del(object, key);
    }
}

static void
tidy_selector(json_t *selector)
{
    json_t *expressions = json_object_get(selector, "matchExpressions");
    size_t i;
    json_t *expression;

    json_array_foreach(expressions, i, expression)
    {
        drop_empty(expression, "values");
    }
    drop_empty(selector, "matchLabels");
    drop_empty(selector, "matchExpressions");
}

/* A peer whose selector is null has none. */
static void
tidy_peer(json_t *peer)
{
    static const char *const keys[] = {"podSelector", "namespaceSelector",
                                       "ipBlock"};

    for (size_t i = 0; i < WP_ARRAY_LEN(keys); i++) {
        json_t *value = json_object_get(peer, keys[i]);

        if (json_is_null(value)) {
            (void)json_object_del(peer, keys[i]);
        } else {
            tidy_selector(value);
            drop_empty(value, "except");
        }
    }
}

static void
tidy_rule(json_t *rule, const char *peers_key)
{
    json_t *ports = json_object_get(rule, "ports");
    json_t *peers = json_object_get(rule, peers_key);
    size_t i;
    json_t *value;

    json_array_foreach(ports, i, value)
    {
        if (json_is_object(value) &&
            !json_is_string(json_object_get(value, "protocol"))) {
            wp_json_set_text(value, "protocol", "TCP");
        }
        if (json_is_null(json_object_get(value, "endPort"))) {
            (void)json_object_del(value, "endPort");
        }
    }
    json_array_foreach(peers, i, value)
    {
        tidy_peer(value);
    }
    drop_empty(rule, "ports");
    drop_empty(rule, peers_key);
}

static json_t *
tidy_copy(const json_t *spec)
{
    json_t *copy = wp_json_deep_copy(spec);
    size_t i;
    json_t *rule;

    json_array_foreach(json_object_get(copy, "ingress"), i, rule)
    {
        tidy_rule(rule, "from");
    }
    json_array_foreach(json_object_get(copy, "egress"), i, rule)
    {
        tidy_rule(rule, "to");
    }
    tidy_selector(json_object_get(copy, "podSelector"));
    drop_empty(copy, "ingress");
    drop_empty(copy, "egress");
    return copy;
}

bool
wp_network_policy_same(const json_t *a, const json_t *b)
{
    json_t *left = tidy_copy(a);
    json_t *right = tidy_copy(b);
    bool same = json_equal(left, right) == 1;

    json_decref(left);
    json_decref(right);
    return same;
}
