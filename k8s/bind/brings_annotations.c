/* k8s/bind/brings_annotations.c - what the annotations of a SandboxClaim name.
 *
 *   claim.warmpool.io/files        {"PATH": "text", "PATH": {"content": "text",
 *                                  "contentBase64": "...", "mode": "0755"}}
 *   claim.warmpool.io/secrets      {"NAME": {"name": "SECRET", "key": "KEY",
 *                                  "env": true}}
 *   claim.warmpool.io/working-dir  PATH
 *   claim.warmpool.io/command      ["PROGRAM", "ARGUMENT"]
 *   claim.warmpool.io/repositories see brings_repositories.c
 *   claim.warmpool.io/identity     {"audience": "WHO", "ttl": "10m"}
 *
 * A secret is named, never written out: an object of the API server is read by
 * many. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/bind/brings.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "pool/base/duration.h"
#include "pool/remotes/names.h"
#include "proto/formats/base64.h"

enum {
    SHOWN = 60, /* Bytes of a text of theirs in a message. */
    MODE_DEFAULT = 0644,
    MODE_MAX = 0777,
    OCTAL = 8,
    K8S_NAME_MAX = 253,
};

#define FILES "annotation " WP_ANNOTATION_CLAIM_FILES ": "
#define SECRETS "annotation " WP_ANNOTATION_CLAIM_SECRETS ": "
#define WORKING_DIR "annotation " WP_ANNOTATION_CLAIM_WORKING_DIR ": "
#define COMMAND "annotation " WP_ANNOTATION_CLAIM_COMMAND ": "
#define IDENTITY "annotation " WP_ANNOTATION_CLAIM_IDENTITY ": "

static struct wp_str
text_of(const json_t *string)
{
    return (struct wp_str){json_string_value(string),
                           json_string_length(string)};
}

/* NULL: it is not there, or not of that type; then err says so. A name that is
 * there twice is a mistake. */
static json_t *
load(const struct wp_object *claim, const char *annotation, json_type type,
     struct wp_claim_brings *out, struct wp_err *err)
{
    const char *text = wp_object_annotation(claim, annotation);
    json_t *json;

    if (text == NULL) {
        return NULL;
    }
    json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (json == NULL || json_typeof(json) != type) {
        json_decref(json);
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "annotation %s: expected a JSON %s without a name "
                         "twice",
                         annotation, type == JSON_OBJECT ? "object" : "array");
        return NULL;
    }
    WP_ASSERT(out->n_texts < WP_CLAIM_BRINGS_TEXTS);
    out->texts[out->n_texts++] = json;
    return json;
}

/* --- Files --- */

static bool
read_mode(const json_t *mode, uint32_t *out)
{
    const char *text = json_string_value(mode);
    char *end = NULL;
    unsigned long value;

    *out = MODE_DEFAULT;
    if (mode == NULL) {
        return true;
    }
    if (text == NULL || text[0] < '0' || text[0] > '7') {
        return false;
    }
    errno = 0;
    value = strtoul(text, &end, OCTAL);
    *out = (uint32_t)value;
    return errno == 0 && *end == '\0' && value > 0 && value <= MODE_MAX;
}

/* The content of one that is an object. */
static bool
read_content(struct wp_claim_brings *out, const json_t *value,
             struct wp_str *content)
{
    const json_t *plain = json_object_get(value, "content");
    const json_t *coded = json_object_get(value, "contentBase64");
    char *bytes;
    size_t len;

    if (json_is_string(plain) && coded == NULL) {
        *content = text_of(plain);
        return true;
    }
    if (!json_is_string(coded) || plain != NULL) {
        return false;
    }
    bytes = malloc(json_string_length(coded) / 4 * 3 + 4);
    WP_ASSERT(bytes != NULL);
    out->contents[out->n_contents++] = bytes;
    if (strlen(json_string_value(coded)) != json_string_length(coded) ||
        !wp_base64_read(json_string_value(coded), bytes, &len)) {
        return false;
    }
    *content = (struct wp_str){bytes, len};
    return true;
}

static size_t
known_fields(const json_t *object, const char *const *names)
{
    size_t count = 0;

    for (; *names != NULL; names++) {
        count += json_object_get(object, *names) != NULL;
    }
    return count;
}

static enum wp_status
read_file(struct wp_claim_brings *out, const char *path, const json_t *value,
          struct wp_err *err)
{
    static const char *const names[] = {"content", "contentBase64", "mode",
                                        NULL};
    struct wp_binding_file *file = &out->files[out->binding.n_files];
    bool read = true;

    *file = (struct wp_binding_file){wp_str_from(path), text_of(value),
                                     MODE_DEFAULT};
    if (file->path.len > WP_BINDING_PATH_MAX ||
        !wp_bound_name_is_path(file->path)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          FILES "'%.*s': expected a path of at most %d bytes "
                                "below the workspace, without empty parts, "
                                "'.' and '..'",
                          SHOWN, path, WP_BINDING_PATH_MAX);
    }
    if (!json_is_string(value)) {
        read = json_is_object(value) &&
               known_fields(value, names) == json_object_size(value) &&
               read_mode(json_object_get(value, "mode"), &file->mode) &&
               read_content(out, value, &file->content);
    }
    if (!read) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          FILES "'%.*s': expected a text, or content or "
                                "contentBase64 with an octal mode as \"0755\"",
                          SHOWN, path);
    }
    out->binding.n_files++;
    out->file_bytes += file->content.len;
    return WP_OK;
}

static enum wp_status
read_files(const struct wp_object *claim, struct wp_claim_brings *out,
           struct wp_err *err)
{
    json_t *files =
        load(claim, WP_ANNOTATION_CLAIM_FILES, JSON_OBJECT, out, err);
    const char *path;
    json_t *value;

    if (json_object_size(files) > WP_BINDING_FILES_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          FILES "expected at most %d, got %zu",
                          WP_BINDING_FILES_MAX, json_object_size(files));
    }
    json_object_foreach(files, path, value)
    {
        if (read_file(out, path, value, err) != WP_OK) {
            return err->status;
        }
    }
    if (out->file_bytes > WP_BINDING_FILES_BYTES_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          FILES "expected at most %d bytes in all, got %zu",
                          WP_BINDING_FILES_BYTES_MAX, out->file_bytes);
    }
    return err->status;
}

/* --- Secrets --- */

bool
wp_claim_brings_is_name(const json_t *value)
{
    size_t len = json_string_length(value);

    return json_is_string(value) && len > 0 && len <= K8S_NAME_MAX &&
           strlen(json_string_value(value)) == len &&
           strchr(json_string_value(value), '/') == NULL;
}

static bool
env_has(const struct wp_claim_brings *brings, struct wp_str name)
{
    for (uint32_t i = 0; i < brings->binding.n_env; i++) {
        if (wp_str_eq(brings->env[i].name, name)) {
            return true;
        }
    }
    return false;
}

static enum wp_status
read_secret(struct wp_claim_brings *out, const char *name, const json_t *value,
            struct wp_err *err)
{
    static const char *const names[] = {"name", "key", "env", NULL};
    const json_t *secret = json_object_get(value, "name");
    const json_t *key = json_object_get(value, "key");
    const json_t *in_env = json_object_get(value, "env");
    uint32_t at = out->binding.n_secrets;

    out->secrets[at] = (struct wp_binding_secret){wp_str_from(name), WP_STR(""),
                                                  json_is_true(in_env)};
    if (!wp_bound_name_is_secret(out->secrets[at].name)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          SECRETS "'%.*s': expected a name of 1 to %d letters, "
                                  "digits, '.', '_' and '-', not '.' or '-' "
                                  "first",
                          SHOWN, name, WP_BINDING_NAME_MAX);
    }
    if (!wp_claim_brings_is_name(secret) || !wp_claim_brings_is_name(key) ||
        (in_env != NULL && !json_is_boolean(in_env)) ||
        known_fields(value, names) != json_object_size(value)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          SECRETS "'%.*s': expected name and key of a Secret, "
                                  "and perhaps env: true; a value is not "
                                  "written here",
                          SHOWN, name);
    }
    if (out->secrets[at].in_env &&
        (!wp_bound_name_is_env(out->secrets[at].name) ||
         wp_str_starts_with(out->secrets[at].name, WP_STR("WARMPOOL_")) ||
         env_has(out, out->secrets[at].name))) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          SECRETS
                          "'%.*s': expected the name of a variable that "
                          "env does not set and that does not begin "
                          "with WARMPOOL_",
                          SHOWN, name);
    }
    out->refs[at] = (struct wp_claim_secret_ref){.secret = text_of(secret),
                                                 .key = text_of(key)};
    out->text_bytes += out->secrets[at].name.len;
    out->binding.n_secrets++;
    return WP_OK;
}

static enum wp_status
read_secrets(const struct wp_object *claim, struct wp_claim_brings *out,
             struct wp_err *err)
{
    json_t *secrets =
        load(claim, WP_ANNOTATION_CLAIM_SECRETS, JSON_OBJECT, out, err);
    const char *name;
    json_t *value;

    if (json_object_size(secrets) > WP_BINDING_SECRETS_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          SECRETS "expected at most %d, got %zu",
                          WP_BINDING_SECRETS_MAX, json_object_size(secrets));
    }
    json_object_foreach(secrets, name, value)
    {
        if (read_secret(out, name, value, err) != WP_OK) {
            return err->status;
        }
    }
    return err->status;
}

/* --- What is started, and where --- */

static enum wp_status
read_working_dir(const struct wp_object *claim, struct wp_claim_brings *out,
                 struct wp_err *err)
{
    const char *text =
        wp_object_annotation(claim, WP_ANNOTATION_CLAIM_WORKING_DIR);
    struct wp_str dir = wp_str_from(text != NULL ? text : "");
    struct wp_str below = dir;

    if (text == NULL) {
        return WP_OK;
    }
    if (dir.len > 1 && dir.ptr[0] == '/') {
        below = (struct wp_str){dir.ptr + 1, dir.len - 1};
    }
    if (dir.len > WP_BINDING_PATH_MAX ||
        (!wp_str_eq(dir, WP_STR("/")) && !wp_bound_name_is_path(below))) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          WORKING_DIR "expected a path of at most %d bytes, "
                                      "absolute or below the workspace, "
                                      "without empty parts, '.' and '..'",
                          WP_BINDING_PATH_MAX);
    }
    out->binding.working_dir = dir;
    return WP_OK;
}

static enum wp_status
read_command(const struct wp_object *claim, struct wp_claim_brings *out,
             struct wp_err *err)
{
    const json_t *words =
        load(claim, WP_ANNOTATION_CLAIM_COMMAND, JSON_ARRAY, out, err);
    const json_t *word;
    size_t i;

    if (words == NULL) {
        return err->status;
    }
    if (json_array_size(words) == 0 ||
        json_array_size(words) > WP_BINDING_ARGS_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          COMMAND "expected 1 to %d words, got %zu",
                          WP_BINDING_ARGS_MAX, json_array_size(words));
    }
    json_array_foreach(words, i, word)
    {
        struct wp_str text = text_of(word);

        if (!json_is_string(word) || strlen(text.ptr) != text.len ||
            text.len > WP_BINDING_VALUE_MAX || (i == 0 && text.len == 0)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              COMMAND "[%zu]: expected a text of at most %d "
                                      "bytes without NUL",
                              i, WP_BINDING_VALUE_MAX);
        }
        out->command[i] = text;
        out->text_bytes += text.len;
        out->binding.n_command++;
    }
    return WP_OK;
}

/* --- Who it is --- */

static bool
read_ttl(const json_t *ttl, int64_t *out_ms)
{
    int64_t ns = 0;

    *out_ms = 0;
    if (ttl == NULL) {
        return true;
    }
    if (!json_is_string(ttl) ||
        strlen(json_string_value(ttl)) != json_string_length(ttl) ||
        !wp_duration_parse(text_of(ttl), &ns) || ns < WP_IDENTITY_TTL_MIN_NS ||
        ns > WP_IDENTITY_TTL_MAX_NS) {
        return false;
    }
    *out_ms = ns / WP_NS_PER_MS;
    return true;
}

enum wp_status
wp_claim_brings_read_identity(const json_t *identity, struct wp_str *audience,
                              int64_t *ttl_ms, struct wp_err *err)
{
    static const char *const names[] = {"audience", "ttl", NULL};
    const json_t *text = json_object_get(identity, "audience");

    *audience = text_of(text);
    if (!json_is_string(text) || audience->len == 0 ||
        audience->len > WP_AUDIENCE_MAX || !wp_str_is_printable(*audience) ||
        known_fields(identity, names) != json_object_size(identity)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          IDENTITY
                          "expected audience, a text of 1 to %d bytes, "
                          "and perhaps ttl",
                          WP_AUDIENCE_MAX);
    }
    return read_ttl(json_object_get(identity, "ttl"), ttl_ms)
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT,
                            IDENTITY "ttl: expected a time from 1m to 24h");
}

static enum wp_status
read_identity(const struct wp_object *claim, struct wp_claim_brings *out,
              struct wp_err *err)
{
    const json_t *identity =
        load(claim, WP_ANNOTATION_CLAIM_IDENTITY, JSON_OBJECT, out, err);

    return identity != NULL
               ? wp_claim_brings_read_identity(identity, &out->binding.audience,
                                               &out->binding.identity_ttl_ms,
                                               err)
               : err->status;
}

static enum wp_status
read_repositories(const struct wp_object *claim, struct wp_claim_brings *out,
                  struct wp_err *err)
{
    const json_t *list =
        load(claim, WP_ANNOTATION_CLAIM_REPOSITORIES, JSON_ARRAY, out, err);

    return list != NULL ? wp_claim_brings_read_repositories(list, out, err)
                        : err->status;
}

/* Whether its pool allows that is asked when the pool is known. */
static enum wp_status
read_egress(const struct wp_object *claim, struct wp_claim_brings *out,
            struct wp_err *err)
{
    const char *text = wp_object_annotation(claim, WP_ANNOTATION_CLAIM_EGRESS);

    out->binding.egress = wp_str_from(text != NULL ? text : "");
    return text == NULL || (out->binding.egress.len > 0 &&
                            out->binding.egress.len <= WP_EGRESS_TEXT_MAX)
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT,
                            "annotation " WP_ANNOTATION_CLAIM_EGRESS
                            ": expected a policy of 1 to %d bytes",
                            WP_EGRESS_TEXT_MAX);
}

static const char *const annotations[] = {
    WP_ANNOTATION_CLAIM_FILES,        WP_ANNOTATION_CLAIM_SECRETS,
    WP_ANNOTATION_CLAIM_WORKING_DIR,  WP_ANNOTATION_CLAIM_COMMAND,
    WP_ANNOTATION_CLAIM_REPOSITORIES, WP_ANNOTATION_CLAIM_IDENTITY,
    WP_ANNOTATION_CLAIM_EGRESS,
};

bool
wp_claim_brings_more(const struct wp_object *claim)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(annotations); i++) {
        if (wp_object_annotation(claim, annotations[i]) != NULL) {
            return true;
        }
    }
    return false;
}

bool
wp_claim_brings_same(const struct wp_object *before,
                     const struct wp_object *after)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(annotations); i++) {
        const char *was = wp_object_annotation(before, annotations[i]);
        const char *is = wp_object_annotation(after, annotations[i]);

        if ((was == NULL) != (is == NULL) ||
            (was != NULL && strcmp(was, is) != 0)) {
            return false;
        }
    }
    return true;
}

enum wp_status
wp_claim_brings_read_annotations(const struct wp_object *claim,
                                 struct wp_claim_brings *out,
                                 struct wp_err *err)
{
    out->binding.files = out->files;
    out->binding.secrets = out->secrets;
    out->binding.command = out->command;
    out->binding.repositories = out->repositories;
    err->status = WP_OK;
    if (read_files(claim, out, err) == WP_OK &&
        read_secrets(claim, out, err) == WP_OK &&
        read_working_dir(claim, out, err) == WP_OK &&
        read_repositories(claim, out, err) == WP_OK &&
        read_identity(claim, out, err) == WP_OK &&
        read_egress(claim, out, err) == WP_OK) {
        return read_command(claim, out, err);
    }
    return err->status;
}
