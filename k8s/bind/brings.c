#include "k8s/bind/brings.h"

#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"

enum {
    NAME_SHOWN = 60,
};

static enum wp_status
check(struct wp_str name, const json_t *value, struct wp_err *err)
{
    if (name.len == 0 || name.len > WP_BINDING_NAME_MAX ||
        memchr(name.ptr, '=', name.len) != NULL ||
        wp_str_starts_with(name, WP_STR("WARMPOOL_"))) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "env: '%.*s': expected a name of 1 to %d bytes, "
                          "without '=', that does not begin with WARMPOOL_",
                          NAME_SHOWN, name.ptr, WP_BINDING_NAME_MAX);
    }
    if (!json_is_string(value) ||
        json_string_length(value) > WP_BINDING_VALUE_MAX ||
        strlen(json_string_value(value)) != json_string_length(value)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "env: '%.*s': expected a value of at most %d bytes "
                          "without NUL",
                          NAME_SHOWN, name.ptr, WP_BINDING_VALUE_MAX);
    }
    return WP_OK;
}

static enum wp_status
read_env(struct wp_claim_brings *out, struct wp_err *err)
{
    const json_t *list = wp_json_at(out->whole, "spec", "env", NULL);
    const json_t *variable;
    size_t i;

    if (json_array_size(list) > WP_ARRAY_LEN(out->env)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "env: expected at most %d variables, got %zu",
                          WP_BINDING_ENV_MAX, json_array_size(list));
    }
    json_array_foreach(list, i, variable)
    {
        const json_t *value = json_object_get(variable, "value");
        struct wp_str name = wp_str_from(wp_json_text(variable, "name", NULL));

        if (check(name, value, err) != WP_OK) {
            return err->status;
        }
        out->env[i] = (struct wp_binding_env){
            name, {json_string_value(value), json_string_length(value)}};
        out->text_bytes += name.len + json_string_length(value);
        out->binding.n_env++;
    }
    return WP_OK;
}

enum wp_status
wp_claim_brings_read(const struct wp_object *claim, bool with_env,
                     struct wp_claim_brings *out, struct wp_err *err)
{
    memset(out, 0, sizeof *out);
    out->whole = wp_object_json(claim);
    out->binding.env = out->env;
    if ((with_env && read_env(out, err) != WP_OK) ||
        wp_claim_brings_read_annotations(claim, out, err) != WP_OK) {
        return err->status;
    }
    return out->text_bytes <= WP_BINDING_TEXT_MAX
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT,
                            "%s: expected at most %d bytes of names, values "
                            "and words, got %zu",
                            out->binding.n_env > 0 ? "env" : "binding",
                            WP_BINDING_TEXT_MAX, out->text_bytes);
}

void
wp_claim_brings_fini(struct wp_claim_brings *brings)
{
    wp_claim_brings_wipe(brings);
    for (uint32_t i = 0; i < brings->n_contents; i++) {
        free(brings->contents[i]);
    }
    for (uint32_t i = 0; i < brings->n_texts; i++) {
        json_decref(brings->texts[i]);
    }
    json_decref(brings->whole);
    memset(brings, 0, sizeof *brings);
}

enum wp_status
wp_claim_brings_check(const struct wp_object *claim,
                      const struct wp_object *templ, struct wp_err *err)
{
    json_t *whole = wp_object_json(claim);
    json_t *pod = wp_object_json(templ);
    const json_t *containers =
        wp_json_at(pod, "spec", "podTemplate", "spec", "containers", NULL);
    const char *first =
        wp_json_text(json_array_get(containers, 0), "name", NULL);
    enum wp_status status = WP_OK;
    const json_t *variable;
    size_t i;

    json_array_foreach(wp_json_at(whole, "spec", "env", NULL), i, variable)
    {
        const char *target = wp_json_text(variable, "containerName", NULL);

        if (status == WP_OK && target[0] != '\0' &&
            strcmp(target, first) != 0) {
            status = wp_err_set(
                err, WP_FAILED_PRECONDITION,
                "env: '%.*s' is for container '%.63s'; only the first "
                "container's program takes what claims bring",
                NAME_SHOWN, wp_json_text(variable, "name", NULL), target);
        }
    }
    json_decref(pod);
    json_decref(whole);
    return status;
}
