#include "k8s/convert/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "k8s/objects/kind.h"
#include "pool/base/assert.h"

#define ALPHA "v1alpha1"
#define BETA "v1beta1"

/* Upstream's: the only field of a v1beta1 template that v1alpha1 lacks. */
#define VOLUME_POLICY                                                          \
    "api.agents.x-k8s.io/v1beta1-volume-claim-templates-policy"
/* Ours, of an object in v1alpha1: its fields of v1beta1 as JSON. Never stored.
 */
#define BETA_STATE "warmpool.dev/v1beta1-state"

enum {
    STATE_DEPTH_MAX = 64,
};

static bool
is_text(const json_t *value)
{
    return json_is_string(value);
}

static bool
is_number(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool
is_text_map(json_t *value)
{
    const char *key;
    json_t *text;

    if (!json_is_object(value)) {
        return false;
    }
    json_object_foreach(value, key, text)
    {
        if (!json_is_string(text)) {
            return false;
        }
    }
    return true;
}

/* As the schema has it: [{metadata?: {name?, labels?, annotations?}, spec}]. */
static bool
is_volume_claims(const json_t *value)
{
    json_t *claim;
    size_t i;

    if (!json_is_array(value)) {
        return false;
    }
    json_array_foreach(value, i, claim)
    {
        const json_t *metadata = json_object_get(claim, "metadata");
        const json_t *name = json_object_get(metadata, "name");
        json_t *labels = json_object_get(metadata, "labels");
        json_t *annotations = json_object_get(metadata, "annotations");

        if (!json_is_object(json_object_get(claim, "spec")) ||
            (metadata != NULL && !json_is_object(metadata)) ||
            (name != NULL && !json_is_string(name)) ||
            (labels != NULL && !is_text_map(labels)) ||
            (annotations != NULL && !is_text_map(annotations))) {
            return false;
        }
    }
    return true;
}

static bool
is_volume_policy(const json_t *value)
{
    const char *text = json_string_value(value);

    return text != NULL &&
           (strcmp(text, "Disallowed") == 0 || strcmp(text, "Allowed") == 0 ||
            strcmp(text, "Overrides") == 0);
}

/* A field that only one of the versions has. */
struct own_field {
    const char *part; /* "spec" or "status" */
    const char *name;
    bool (*is_valid)(const json_t *value);
    const char *annotation; /* Of its own, as a text; NULL: in BETA_STATE. */
};

/* --- Fields beside the object --- */

static json_t *
annotations_of(json_t *object)
{
    return wp_json_object_at(wp_json_object_at(object, "metadata"),
                             "annotations");
}

/* Takes an annotation off. Its text as JSON, an object: a new reference; NULL
 * when there is none or it makes no sense. */
static json_t *
take_state(json_t *object, const char *key)
{
    json_t *annotations = wp_json_at(object, "metadata", "annotations", NULL);
    const char *text = json_string_value(json_object_get(annotations, key));
    json_t *state = text != NULL ? json_loads(text, 0, NULL) : NULL;

    if (json_is_object(annotations)) {
        (void)json_object_del(annotations, key);
        if (json_object_size(annotations) == 0) {
            (void)json_object_del(json_object_get(object, "metadata"),
                                  "annotations");
        }
    }
    if (!json_is_object(state)) {
        json_decref(state);
        return NULL;
    }
    return state;
}

static void
put_state(json_t *object, const char *key, json_t *state)
{
    char *text = json_dumps(state, JSON_COMPACT | JSON_SORT_KEYS);

    (void)wp_json_set(annotations_of(object), key, json_string(text));
    free(text);
}

/* From state.PART.NAME into object.PART.NAME, if it is what it should be. */
static void
restore_field(json_t *object, const json_t *state,
              const struct own_field *field)
{
    json_t *value = wp_json_at(state, field->part, field->name, NULL);

    if (value != NULL && field->is_valid(value)) {
        (void)wp_json_set(wp_json_object_at(object, field->part), field->name,
                          wp_json_deep_copy(value));
    }
}

/* Fields of v1beta1 that v1alpha1 lacks: taken off, into an annotation. */
static void
hide_beta(json_t *object, const struct own_field *fields, size_t n)
{
    json_t *state = json_object();

    for (size_t i = 0; i < n; i++) {
        const struct own_field *field = &fields[i];
        json_t *part = json_object_get(object, field->part);
        json_t *value = json_object_get(part, field->name);

        if (value == NULL) {
            continue;
        }
        if (field->annotation != NULL) {
            (void)wp_json_set(annotations_of(object), field->annotation,
                              json_incref(value));
        } else {
            (void)wp_json_set(wp_json_object_at(state, field->part),
                              field->name, json_incref(value));
        }
        (void)json_object_del(part, field->name);
    }
    if (json_object_size(state) > 0) {
        put_state(object, BETA_STATE, state);
    }
    json_decref(state);
}

/* The way back. */
static void
show_beta(json_t *object, const struct own_field *fields, size_t n)
{
    json_t *state = take_state(object, BETA_STATE);

    for (size_t i = 0; i < n; i++) {
        const struct own_field *field = &fields[i];
        json_t *annotations =
            wp_json_at(object, "metadata", "annotations", NULL);

        if (field->annotation == NULL) {
            restore_field(object, state, field);
        } else if (json_object_get(annotations, field->annotation) != NULL) {
            json_t *value =
                json_incref(json_object_get(annotations, field->annotation));

            if (field->is_valid(value)) {
                (void)wp_json_set(wp_json_object_at(object, field->part),
                                  field->name, json_incref(value));
            }
            json_decref(value);
            (void)json_object_del(annotations, field->annotation);
        }
    }
    json_decref(state);
}

/* --- Sandbox: replicas and operatingMode --- */

static const struct own_field sandbox_beta[] = {
    {"status", "nodeName", is_text, NULL},
};

static bool
asks_for_none(const json_t *spec)
{
    const json_t *replicas = json_object_get(spec, "replicas");

    return json_is_integer(replicas) && json_integer_value(replicas) == 0;
}

/* Keeps what v1alpha1 said of replicas: absent is another thing than 1. */
static void
keep_replicas(json_t *object, json_t *state, const char *part)
{
    json_t *fields = json_object_get(object, part);
    json_t *value = json_object_get(fields, "replicas");

    if (is_number(value)) {
        (void)wp_json_set(wp_json_object_at(state, part), "replicas",
                          json_incref(value));
    }
    if (json_is_object(fields)) {
        (void)json_object_del(fields, "replicas");
    }
}

static void
sandbox_to_beta(json_t *object, json_t *state)
{
    json_t *spec = wp_json_object_at(object, "spec");
    bool none = asks_for_none(spec);

    keep_replicas(object, state, "spec");
    keep_replicas(object, state, "status");
    (void)wp_json_set_text(spec, "operatingMode",
                           none ? "Suspended" : "Running");
    show_beta(object, sandbox_beta, WP_ARRAY_LEN(sandbox_beta));
}

static void
sandbox_to_alpha(json_t *object, const json_t *state)
{
    json_t *spec = wp_json_object_at(object, "spec");
    json_t *status = json_object_get(object, "status");
    const json_t *said = json_object_get(state, "spec");
    bool suspended =
        strcmp(wp_json_text(spec, "operatingMode", NULL), "Suspended") == 0;
    /* Nobody has changed the mode since v1alpha1 said it. */
    bool same = state != NULL && asks_for_none(said) == suspended;
    const json_t *had =
        same ? wp_json_at(state, "status", "replicas", NULL) : NULL;

    (void)json_object_del(spec, "operatingMode");
    if (!same || json_object_get(said, "replicas") != NULL) {
        (void)wp_json_set(spec, "replicas", json_integer(suspended ? 0 : 1));
    }
    if (is_number(had)) {
        (void)wp_json_set(wp_json_object_at(object, "status"), "replicas",
                          json_integer(json_integer_value(had)));
    } else if (json_object_size(status) > 0) {
        (void)wp_json_set(status, "replicas", json_integer(suspended ? 0 : 1));
    }
    hide_beta(object, sandbox_beta, WP_ARRAY_LEN(sandbox_beta));
}

/* --- SandboxClaim: template and pool --- */

/* Does warmpool name a pool? Upstream: anything else but these. */
static bool
is_pool(const char *warmpool)
{
    return warmpool[0] != '\0' && strcmp(warmpool, "none") != 0 &&
           strcmp(warmpool, "default") != 0;
}

/* A pool of a name that warmpool cannot say. */
static bool
is_odd_pool(const json_t *value)
{
    const char *name = json_string_value(json_object_get(value, "name"));

    return name != NULL && !is_pool(name);
}

static const struct own_field claim_beta[] = {
    {"spec", "volumeClaimTemplates", is_volume_claims, NULL},
    {"spec", "warmPoolRef", is_odd_pool, NULL},
};

/* A text that ends with prefix and name, or just a name. */
static json_t *
joined(const char *prefix, const char *name)
{
    return json_sprintf("%s%s", prefix, name);
}

static void
claim_to_beta(json_t *object, json_t *state)
{
    static const char *const names[] = {"sandboxTemplateRef", "warmpool"};
    json_t *spec = wp_json_object_at(object, "spec");
    const char *warmpool = wp_json_text(spec, "warmpool", NULL);
    const char *templ = wp_json_text(spec, "sandboxTemplateRef", "name", NULL);
    json_t *pool = is_pool(warmpool) ? json_string(warmpool)
                                     : joined(WP_SHADOW_POOL_PREFIX, templ);
    json_t *kept = wp_json_object_at(state, "spec");

    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        json_t *value = json_object_get(spec, names[i]);

        if (value != NULL) {
            (void)wp_json_set(kept, names[i], json_incref(value));
            (void)json_object_del(spec, names[i]);
        }
    }
    /* The odd name stands as long as nobody asked for another pool. */
    (void)json_object_del(spec, "warmPoolRef");
    show_beta(object, claim_beta, WP_ARRAY_LEN(claim_beta));
    if (json_object_get(spec, "warmPoolRef") == NULL ||
        strcmp(wp_json_text(spec, "warmPoolRef", "name", NULL),
               wp_json_text(kept, "warmpool", NULL)) != 0) {
        (void)wp_json_set(
            spec, "warmPoolRef",
            wp_json_set(json_object(), "name", json_incref(pool)));
    }
    json_decref(pool);
}

/* Is it the pool that the claim's v1alpha1 words stand for? So it is, also
 * where upstream has put the pool of the Sandbox that it has in their place. */
static bool
stands_for(const char *pool, const char *warmpool, const char *templ,
           const char *sandbox)
{
    size_t prefix = sizeof(WP_SHADOW_POOL_PREFIX) - 1;
    const char *name = is_pool(warmpool) ? warmpool : templ;
    const char *dash = strrchr(sandbox, '-');
    size_t stem = dash != NULL ? (size_t)(dash - sandbox) : strlen(sandbox);

    return strcmp(pool, name) == 0 ||
           (strncmp(pool, WP_SHADOW_POOL_PREFIX, prefix) == 0 &&
            strcmp(pool + prefix, name) == 0) ||
           (sandbox[0] != '\0' && strlen(pool) == stem &&
            strncmp(pool, sandbox, stem) == 0);
}

static void
claim_to_alpha(json_t *object, const json_t *state)
{
    size_t prefix = sizeof(WP_SHADOW_POOL_PREFIX) - 1;
    json_t *spec = wp_json_object_at(object, "spec");
    json_t *pool = json_string(wp_json_text(spec, "warmPoolRef", "name", NULL));
    const char *name = json_string_value(pool);
    const json_t *said = json_object_get(state, "spec");
    const char *templ = wp_json_text(said, "sandboxTemplateRef", "name", NULL);
    json_t *warmpool = json_object_get(said, "warmpool");
    bool known = templ[0] != '\0';
    bool shadow = strncmp(name, WP_SHADOW_POOL_PREFIX, prefix) == 0;
    const char *shown = !known && shadow ? name + prefix : known ? templ : name;

    if (is_pool(name)) {
        (void)json_object_del(spec, "warmPoolRef");
    }
    (void)wp_json_set(spec, "sandboxTemplateRef",
                      wp_json_set(json_object(), "name", json_string(shown)));
    if (known &&
        stands_for(name, wp_json_text(said, "warmpool", NULL), templ,
                   wp_json_text(object, "status", "sandbox", "name", NULL))) {
        if (json_is_string(warmpool)) {
            (void)wp_json_set(spec, "warmpool", json_incref(warmpool));
        }
    } else {
        (void)wp_json_set_text(spec, "warmpool",
                               !known && shadow ? "default" : name);
    }
    json_decref(pool);
    hide_beta(object, claim_beta, WP_ARRAY_LEN(claim_beta));
}

/* --- SandboxTemplate --- */

static const struct own_field template_beta[] = {
    {"spec", "volumeClaimTemplatesPolicy", is_volume_policy, VOLUME_POLICY},
};

/* Until v0.4.5 each sandbox had a Service, and clients of v1alpha1 wait for its
 * name. So a template that does not say has one. */
static void
template_to_beta(json_t *object, json_t *state)
{
    json_t *spec = wp_json_object_at(object, "spec");
    json_t *service = json_object_get(spec, "service");
    json_t *kept = wp_json_object_at(state, "spec");

    if (service != NULL) {
        (void)wp_json_set(kept, "service", json_incref(service));
    } else {
        (void)wp_json_set(spec, "service", json_true());
    }
    show_beta(object, template_beta, WP_ARRAY_LEN(template_beta));
}

static void
template_to_alpha(json_t *object, const json_t *state)
{
    json_t *spec = wp_json_object_at(object, "spec");

    if (state != NULL && json_is_true(json_object_get(spec, "service")) &&
        wp_json_at(state, "spec", "podTemplate", NULL) == NULL &&
        wp_json_at(state, "spec", "service", NULL) == NULL) {
        (void)json_object_del(spec, "service");
    }
    hide_beta(object, template_beta, WP_ARRAY_LEN(template_beta));
}

/* --- SandboxWarmPool --- */

static const struct own_field pool_beta[] = {
    {"status", "observedGeneration", is_number, NULL},
};

static void
pool_to_beta(json_t *object, json_t *state)
{
    (void)state;
    show_beta(object, pool_beta, WP_ARRAY_LEN(pool_beta));
}

/* replicas is required there. */
static void
pool_to_alpha(json_t *object, const json_t *state)
{
    json_t *spec = wp_json_object_at(object, "spec");

    (void)state;
    if (json_object_get(spec, "replicas") == NULL) {
        (void)wp_json_set(spec, "replicas", json_integer(1));
    }
    hide_beta(object, pool_beta, WP_ARRAY_LEN(pool_beta));
}

/* --- All of them --- */

static const struct converter {
    enum wp_kind kind;
    const char *annotation; /* Of an object that came as v1alpha1. */
    void (*to_beta)(json_t *object, json_t *state);
    void (*to_alpha)(json_t *object, const json_t *state);
} converters[] = {
    {WP_KIND_SANDBOX, "api.agents.x-k8s.io/v1alpha1-sandbox-state",
     sandbox_to_beta, sandbox_to_alpha},
    {WP_KIND_SANDBOX_CLAIM, WP_ANNOTATION_ALPHA_CLAIM, claim_to_beta,
     claim_to_alpha},
    {WP_KIND_SANDBOX_TEMPLATE,
     "api.agents.x-k8s.io/v1alpha1-sandboxtemplate-state", template_to_beta,
     template_to_alpha},
    {WP_KIND_SANDBOX_WARM_POOL,
     "api.agents.x-k8s.io/v1alpha1-sandboxwarmpool-state", pool_to_beta,
     pool_to_alpha},
};

static const struct converter *
find_converter(const char *api_version, const char *kind)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(converters); i++) {
        const struct wp_kind_info *info = wp_kind_info(converters[i].kind);

        if (strcmp(info->kind, kind) == 0 &&
            wp_kind_is_group(converters[i].kind, wp_str_from(api_version))) {
            return &converters[i];
        }
    }
    return NULL;
}

/* What stands behind "group/". */
static const char *
version_of(const char *api_version)
{
    const char *slash = strchr(api_version, '/');

    return slash != NULL ? slash + 1 : api_version;
}

static json_t *
to_beta(const struct converter *converter, const json_t *object)
{
    json_t *made = wp_json_deep_copy(object);
    json_t *state = json_object();

    if (state == NULL) {
        wp_json_no_memory();
    }
    json_decref(take_state(made, converter->annotation));
    (void)wp_json_set_text(state, "apiVersion",
                           wp_json_text(object, "apiVersion", NULL));
    (void)wp_json_set_text(state, "kind", wp_json_text(object, "kind", NULL));
    converter->to_beta(made, state);
    put_state(made, converter->annotation, state);
    json_decref(state);
    return made;
}

static json_t *
to_alpha(const struct converter *converter, const json_t *object)
{
    json_t *made = wp_json_deep_copy(object);
    json_t *state = take_state(made, converter->annotation);
    converter->to_alpha(made, state);
    json_decref(state);
    return made;
}

json_t *
wp_convert(json_t *object, const char *desired, struct wp_err *err)
{
    const char *from = wp_json_text(object, "apiVersion", NULL);
    const struct converter *converter =
        find_converter(from, wp_json_text(object, "kind", NULL));
    bool is_alpha = strcmp(version_of(from), ALPHA) == 0;
    bool is_beta = strcmp(version_of(from), BETA) == 0;
    bool wants_alpha = strcmp(version_of(desired), ALPHA) == 0;
    bool wants_beta = strcmp(version_of(desired), BETA) == 0;
    json_t *made;

    if (converter == NULL || (!is_alpha && !is_beta)) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "apiVersion, kind: expected a Sandbox, SandboxClaim, "
                         "SandboxTemplate or SandboxWarmPool of " ALPHA
                         " or " BETA);
        return NULL;
    }
    if (!wp_kind_is_group(converter->kind, wp_str_from(desired)) ||
        (!wants_alpha && !wants_beta)) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "desiredAPIVersion: expected " ALPHA " or " BETA
                         " of the objects' own group");
        return NULL;
    }
    if (is_alpha == wants_alpha) {
        return json_incref(object);
    }
    made =
        wants_beta ? to_beta(converter, object) : to_alpha(converter, object);
    return wp_json_set(made, "apiVersion", json_string(desired));
}
