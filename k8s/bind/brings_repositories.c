/* k8s/bind/brings_repositories.c - the repositories of a SandboxClaim:
 *
 *   [{"url": "https://HOST/PATH", "ref": "main", "directory": "src",
 *     "password": {"name": "SECRET", "key": "KEY"}, "user": "USER"}]
 *
 * All but the url may be left out. A password is named, never written out. */
#include <stdio.h>
#include <string.h>

#include "k8s/bind/brings.h"
#include "k8s/objects/names.h"
#include "pool/remotes/names.h"
#include "pool/remotes/repository.h"

enum {
    PLACE_MAX = 80,
};

#define PLACE "annotation " WP_ANNOTATION_CLAIM_REPOSITORIES "[%zu]"

static enum wp_status
malformed(const char *place, struct wp_err *err)
{
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "%s: expected an object with url, and perhaps ref, "
                      "directory, user, and password, which names name and key "
                      "of a Secret",
                      place);
}

/* False: a field is none of them, or is of another type. */
static bool
read_fields(const json_t *object, struct wp_binding_repository *out,
            struct wp_claim_secret_ref *login)
{
    struct {
        const char *name;
        struct wp_str *text;
    } const fields[] = {
        {"url", &out->url},
        {"ref", &out->ref},
        {"directory", &out->dir},
        {"user", &out->user},
    };
    const json_t *password = json_object_get(object, "password");
    const json_t *name = json_object_get(password, "name");
    const json_t *key = json_object_get(password, "key");
    size_t known = password != NULL;

    for (size_t i = 0; i < WP_ARRAY_LEN(fields); i++) {
        const json_t *value = json_object_get(object, fields[i].name);

        *fields[i].text = (struct wp_str){"", 0};
        if (json_is_string(value)) {
            *fields[i].text = (struct wp_str){json_string_value(value),
                                              json_string_length(value)};
            known++;
        }
    }
    if (password != NULL) {
        if (json_object_size(password) != 2 || !wp_claim_brings_is_name(name) ||
            !wp_claim_brings_is_name(key)) {
            return false;
        }
        *login = (struct wp_claim_secret_ref){
            .secret = wp_str_from(json_string_value(name)),
            .key = wp_str_from(json_string_value(key)),
        };
    }
    return out->url.len > 0 && known == json_object_size(object);
}

static enum wp_status
check(const struct wp_claim_brings *brings,
      const struct wp_binding_repository *it, bool has_login, const char *place,
      struct wp_err *err)
{
    /* Its password is not read yet: what is checked is where it would go. */
    struct wp_binding_repository with = *it;

    with.password = has_login ? WP_STR("x") : WP_STR("");
    if (wp_repository_check(&with, place, err) != WP_OK) {
        return err->status;
    }
    if (it->dir.len > WP_BINDING_PATH_MAX ||
        (it->dir.len > 0 && !wp_bound_name_is_path(it->dir))) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s.directory: expected a path of at most %d bytes "
                          "below the workspace, without empty parts, '.' and "
                          "'..'",
                          place, WP_BINDING_PATH_MAX);
    }
    for (uint32_t i = 0; i < brings->binding.n_repositories; i++) {
        if (wp_str_eq(brings->repositories[i].dir, it->dir)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "%s.directory: another one has that directory",
                              place);
        }
    }
    return WP_OK;
}

enum wp_status
wp_claim_brings_read_repositories(const json_t *list,
                                  struct wp_claim_brings *out,
                                  struct wp_err *err)
{
    const json_t *object;
    size_t i;

    if (json_array_size(list) > WP_BINDING_REPOSITORIES_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "annotation " WP_ANNOTATION_CLAIM_REPOSITORIES
                          ": expected at most %d, got %zu",
                          WP_BINDING_REPOSITORIES_MAX, json_array_size(list));
    }
    json_array_foreach(list, i, object)
    {
        struct wp_binding_repository *it = &out->repositories[i];
        struct wp_claim_secret_ref *login = &out->logins[i];
        char place[PLACE_MAX];

        (void)snprintf(place, sizeof place, PLACE, i);
        if (!json_is_object(object) || !read_fields(object, it, login)) {
            return malformed(place, err);
        }
        if (check(out, it, login->secret.len > 0, place, err) != WP_OK) {
            return err->status;
        }
        out->text_bytes += it->url.len + it->ref.len + it->dir.len;
        out->binding.n_repositories++;
    }
    return WP_OK;
}
