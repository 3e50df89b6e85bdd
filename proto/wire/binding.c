/* What a claim brings for its sandbox, read without generated structs, and
 * where it lies: a binding may have a megabyte of files. */
#include <stdio.h>
#include <string.h>

#include "pool/remotes/names.h"
#include "pool/remotes/repository.h"
#include "pool/remotes/tar.h"
#include "proto/wire/binding.h"
#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/read.h"

enum {
    MODE_DEFAULT = 0644,
    PLACE_MAX = 48,
};

_Static_assert((int)WP_BINDING_NAME_MAX == (int)WP_BOUND_NAME_MAX,
               "one length for names of variables and secrets");

/* EnvVar, Secret and File alike: a name, what it names, and a number. */
struct part {
    struct wp_str first;
    struct wp_str second;
    uint64_t number;
};

/* Repository's: texts only. */
struct texts {
    struct wp_str text[6]; /* By field number. */
};

static enum wp_status
malformed(struct wp_err *err)
{
    return wp_wire_malformed("warmpool.v1.Binding", err);
}

static bool
read_part(struct wp_str message, struct part *out)
{
    struct wp_wire_reader reader = {(const uint8_t *)message.ptr,
                                    (const uint8_t *)message.ptr + message.len};
    struct wp_wire_field field;
    enum wp_wire_read read;

    *out = (struct part){.number = 0};
    while ((read = wp_wire_read_next(&reader, &field)) == WP_WIRE_READ_FIELD) {
        if (field.number > 3) {
            continue;
        }
        if (field.type !=
            (field.number == 3 ? WP_WIRE_VARINT : WP_WIRE_BYTES)) {
            return false;
        }
        switch (field.number) {
        case 1:
            out->first = wp_wire_field_str(&field);
            break;
        case 2:
            out->second = wp_wire_field_str(&field);
            break;
        default:
            out->number = field.value;
            break;
        }
    }
    return read == WP_WIRE_READ_END;
}

/* Every field is a text. */
static bool
read_texts(struct wp_str message, struct texts *out)
{
    struct wp_wire_reader reader = {(const uint8_t *)message.ptr,
                                    (const uint8_t *)message.ptr + message.len};
    struct wp_wire_field field;
    enum wp_wire_read read;

    /* What is not there is an empty text, which can be compared. */
    for (size_t i = 0; i < WP_ARRAY_LEN(out->text); i++) {
        out->text[i] = WP_STR("");
    }
    while ((read = wp_wire_read_next(&reader, &field)) == WP_WIRE_READ_FIELD) {
        if (field.number >= WP_ARRAY_LEN(out->text)) {
            continue;
        }
        if (field.type != WP_WIRE_BYTES) {
            return false;
        }
        out->text[field.number] = wp_wire_field_str(&field);
    }
    return read == WP_WIRE_READ_END;
}

/* --- Rules --- */

static enum wp_status
check_env_name(const char *place, struct wp_str name, struct wp_err *err)
{
    if (!wp_bound_name_is_env(name)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s.name: 1 to %d letters, digits and '_' expected, "
                          "not a digit first",
                          place, WP_BINDING_NAME_MAX);
    }
    if (wp_str_starts_with(name, WP_STR("WARMPOOL_"))) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s.name: a name that does not begin with WARMPOOL_ "
                          "expected",
                          place);
    }
    return WP_OK;
}

static enum wp_status
check_secret_name(const char *place, struct wp_str name, struct wp_err *err)
{
    return wp_bound_name_is_secret(name)
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT,
                            "%s.name: 1 to %d letters, digits, '.', '_' and "
                            "'-' expected, not '.' or '-' first",
                            place, WP_BINDING_NAME_MAX);
}

/* text: without NUL, in UTF-8. */
static enum wp_status
check_value(const char *place, struct wp_str value, bool text,
            struct wp_err *err)
{
    if (value.len > WP_BINDING_VALUE_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: at most %d bytes expected, got %zu", place,
                          WP_BINDING_VALUE_MAX, value.len);
    }
    if (text && !wp_str_is_utf8(value)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: UTF-8 without NUL expected", place);
    }
    return WP_OK;
}

static enum wp_status
check_path(const char *place, struct wp_str path, bool absolute,
           struct wp_err *err)
{
    enum wp_status status =
        wp_wire_check_text(place, path, 1, WP_BINDING_PATH_MAX, err);
    struct wp_str below = path;

    if (status != WP_OK) {
        return status;
    }
    if (absolute && path.ptr[0] == '/') {
        below = (struct wp_str){path.ptr + 1, path.len - 1};
    }
    if ((below.len > 0 || below.len == path.len) &&
        !wp_bound_name_is_path(below)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: a path %s expected, of parts up to %d bytes "
                          "that are not empty, '.' or '..'",
                          place,
                          absolute ? "that is absolute or below the workspace"
                                   : "below the workspace",
                          WP_BOUND_COMPONENT_MAX);
    }
    return WP_OK;
}

/* --- Reading --- */

struct reading {
    struct wp_binding *out;
    struct wp_binding_env *env;
    struct wp_binding_secret *secrets;
    struct wp_binding_file *files;
    uint32_t n_archives;
    struct wp_arena *arena;
    struct wp_str *command;
    struct wp_binding_repository *repositories;
    struct wp_binding_volume *volumes;
    size_t text;        /* Bytes of names, values and words so far. */
    size_t files_bytes; /* Of contents. */
    struct wp_err *err;
};

static enum wp_status
twice(const struct reading *r, const char *place, const char *what)
{
    return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                      "%s: another one has that %s", place, what);
}

/* Among the variables, and the secrets that are some. */
static bool
env_has(const struct wp_binding *binding, struct wp_str name)
{
    for (uint32_t i = 0; i < binding->n_env; i++) {
        if (wp_str_eq(binding->env[i].name, name)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < binding->n_secrets; i++) {
        if (binding->secrets[i].in_env &&
            wp_str_eq(binding->secrets[i].name, name)) {
            return true;
        }
    }
    return false;
}

static enum wp_status
take_env(struct reading *r, struct wp_str message)
{
    struct wp_binding *out = r->out;
    char place[PLACE_MAX];
    char value[PLACE_MAX];
    struct part part;
    enum wp_status status;

    (void)snprintf(place, sizeof place, "binding.env[%u]", out->n_env);
    (void)snprintf(value, sizeof value, "binding.env[%u].value", out->n_env);
    if (!read_part(message, &part)) {
        return malformed(r->err);
    }
    status = check_env_name(place, part.first, r->err);
    if (status == WP_OK) {
        status = check_value(value, part.second, true, r->err);
    }
    if (status == WP_OK && env_has(out, part.first)) {
        status = twice(r, place, "name");
    }
    r->env[out->n_env++] = (struct wp_binding_env){part.first, part.second};
    r->text += part.first.len + part.second.len;
    return status;
}

static enum wp_status
take_secret(struct reading *r, struct wp_str message)
{
    struct wp_binding *out = r->out;
    char place[PLACE_MAX];
    char value[PLACE_MAX];
    struct part part;
    enum wp_status status;
    bool in_env;

    (void)snprintf(place, sizeof place, "binding.secrets[%u]", out->n_secrets);
    (void)snprintf(value, sizeof value, "binding.secrets[%u].value",
                   out->n_secrets);
    if (!read_part(message, &part)) {
        return malformed(r->err);
    }
    in_env = part.number != 0;
    status = in_env ? check_env_name(place, part.first, r->err)
                    : check_secret_name(place, part.first, r->err);
    if (status == WP_OK) {
        status = check_value(value, part.second, in_env, r->err);
    }
    for (uint32_t i = 0; i < out->n_secrets && status == WP_OK; i++) {
        if (wp_str_eq(out->secrets[i].name, part.first)) {
            status = twice(r, place, "name");
        }
    }
    if (status == WP_OK && in_env && env_has(out, part.first)) {
        status = twice(r, place, "name");
    }
    r->secrets[out->n_secrets++] =
        (struct wp_binding_secret){part.first, part.second, in_env};
    r->text += part.first.len + part.second.len;
    return status;
}

static enum wp_status
take_file(struct reading *r, struct wp_str message)
{
    struct wp_binding *out = r->out;
    char place[PLACE_MAX];
    char path[PLACE_MAX];
    struct part part;
    enum wp_status status;

    (void)snprintf(place, sizeof place, "binding.files[%u]", out->n_files);
    (void)snprintf(path, sizeof path, "binding.files[%u].path", out->n_files);
    if (!read_part(message, &part)) {
        return malformed(r->err);
    }
    status = check_path(path, part.first, false, r->err);
    if (status == WP_OK && part.number > 0777) {
        status = wp_err_set(r->err, WP_INVALID_ARGUMENT,
                            "%s.mode: permissions up to 0777 expected", place);
    }
    for (uint32_t i = 0; i < out->n_files && status == WP_OK; i++) {
        if (wp_str_eq(out->files[i].path, part.first)) {
            status = twice(r, place, "path");
        }
    }
    if (out->n_files == WP_BINDING_FILES_MAX) {
        return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                          "%s: at most %d files in all expected", place,
                          WP_BINDING_FILES_MAX);
    }
    r->files[out->n_files++] = (struct wp_binding_file){
        part.first, part.second,
        part.number != 0 ? (uint32_t)part.number : MODE_DEFAULT};
    r->files_bytes += part.second.len;
    return status;
}

/* One of an archive, in its folder. */
static enum wp_status
take_archived(struct reading *r, struct wp_str dir,
              const struct wp_tar_file *file)
{
    struct wp_binding *out = r->out;
    size_t len = dir.len + (dir.len > 0) + strlen(file->path);
    char *path = wp_arena_alloc(r->arena, len + 1);
    char place[PLACE_MAX];
    enum wp_status status;

    if (out->n_files == WP_BINDING_FILES_MAX) {
        return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                          "binding.archives[%u]: at most %d files in all "
                          "expected",
                          r->n_archives, WP_BINDING_FILES_MAX);
    }
    if (path == NULL) {
        return wp_wire_too_long(r->err);
    }
    (void)snprintf(path, len + 1, "%.*s%s%s", WP_STR_ARG(dir),
                   dir.len > 0 ? "/" : "", file->path);
    (void)snprintf(place, sizeof place, "binding.archives[%u]: file %u",
                   r->n_archives, out->n_files);
    status = check_path(place, (struct wp_str){path, len}, false, r->err);
    for (uint32_t i = 0; i < out->n_files && status == WP_OK; i++) {
        if (wp_str_is(out->files[i].path, path)) {
            status = twice(r, place, "path");
        }
    }
    r->files[out->n_files++] =
        (struct wp_binding_file){{path, len},
                                 file->content,
                                 file->mode != 0 ? file->mode : MODE_DEFAULT};
    return status;
}

static enum wp_status
take_archive(struct reading *r, struct wp_str message)
{
    char place[PLACE_MAX];
    char shown[WP_STR_SHOWN_MAX];
    struct wp_tar_file file;
    const char *why = "";
    struct part part;
    enum wp_status status = WP_OK;
    int found = 1;

    (void)snprintf(place, sizeof place, "binding.archives[%u].directory",
                   r->n_archives);
    if (!read_part(message, &part)) {
        return malformed(r->err);
    }
    r->files_bytes += part.second.len;
    if (part.first.len > 0) {
        status = check_path(place, part.first, false, r->err);
    }
    while (status == WP_OK &&
           (found = wp_tar_next(&part.second, &file, &why)) > 0) {
        status = take_archived(r, part.first, &file);
    }
    if (status == WP_OK && found < 0) {
        status = wp_err_set(r->err, WP_INVALID_ARGUMENT,
                            "binding.archives[%u].content: %s expected, at "
                            "'%s'",
                            r->n_archives, why,
                            wp_str_shown(wp_str_from(file.path), shown));
    }
    r->n_archives++;
    return status;
}

static enum wp_status
take_word(struct reading *r, struct wp_str word)
{
    struct wp_binding *out = r->out;
    char place[PLACE_MAX];
    enum wp_status status;

    (void)snprintf(place, sizeof place, "binding.command[%u]", out->n_command);
    status = check_value(place, word, true, r->err);
    if (status == WP_OK && out->n_command == 0 && word.len == 0) {
        status = wp_err_set(r->err, WP_INVALID_ARGUMENT,
                            "%s: a program expected, got nothing", place);
    }
    r->command[out->n_command++] = word;
    r->text += word.len;
    return status;
}

static enum wp_status
check_repository(const char *place, const struct wp_binding_repository *it,
                 struct wp_err *err)
{
    char directory[PLACE_MAX];

    (void)snprintf(directory, sizeof directory, "%.30s.directory", place);
    if (it->dir.len > 0 &&
        check_path(directory, it->dir, false, err) != WP_OK) {
        return err->status;
    }
    return wp_repository_check(it, place, err);
}

static enum wp_status
take_repository(struct reading *r, struct wp_str message)
{
    struct wp_binding *out = r->out;
    struct wp_binding_repository *it = &r->repositories[out->n_repositories];
    char place[PLACE_MAX];
    struct texts texts;
    enum wp_status status;

    (void)snprintf(place, sizeof place, "binding.repositories[%u]",
                   out->n_repositories);
    if (!read_texts(message, &texts)) {
        return malformed(r->err);
    }
    *it = (struct wp_binding_repository){.url = texts.text[1],
                                         .ref = texts.text[2],
                                         .dir = texts.text[3],
                                         .password = texts.text[4],
                                         .user = texts.text[5]};
    status = check_repository(place, it, r->err);
    for (uint32_t i = 0; i < out->n_repositories && status == WP_OK; i++) {
        if (wp_str_eq(r->repositories[i].dir, it->dir)) {
            status = twice(r, place, "directory");
        }
    }
    out->n_repositories++;
    r->text += it->url.len + it->ref.len + it->dir.len + it->password.len +
               it->user.len;
    return status;
}

static struct wp_str
place_of(const struct wp_binding_volume *volume)
{
    return volume->dir.len > 0 ? volume->dir : volume->name;
}

static enum wp_status
check_volume(const char *place, const struct wp_binding_volume *volume,
             struct wp_err *err)
{
    char dir[PLACE_MAX + 16];

    if (!wp_bound_name_is_volume(volume->name)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s.name: 1 to %d letters, digits, '.', '_' and '-' "
                          "expected, not '.' or '-' first",
                          place, WP_VOLUME_NAME_MAX);
    }
    (void)snprintf(dir, sizeof dir, "%s.directory", place);
    return volume->dir.len == 0 ? WP_OK
                                : check_path(dir, volume->dir, false, err);
}

static enum wp_status
take_volume(struct reading *r, struct wp_str message)
{
    struct wp_binding *out = r->out;
    struct wp_binding_volume *it = &r->volumes[out->n_volumes];
    char place[PLACE_MAX];
    struct texts texts;
    enum wp_status status;

    (void)snprintf(place, sizeof place, "binding.volumes[%u]", out->n_volumes);
    if (!read_texts(message, &texts)) {
        return malformed(r->err);
    }
    *it =
        (struct wp_binding_volume){.name = texts.text[1], .dir = texts.text[2]};
    status = check_volume(place, it, r->err);
    for (uint32_t i = 0; i < out->n_volumes && status == WP_OK; i++) {
        if (wp_str_eq(r->volumes[i].name, it->name)) {
            status = twice(r, place, "name");
        } else if (wp_str_eq(place_of(&r->volumes[i]), place_of(it))) {
            status = twice(r, place, "directory");
        }
    }
    out->n_volumes++;
    r->text += it->name.len + it->dir.len;
    return status;
}

static enum wp_status
take_identity(struct reading *r, struct wp_str message)
{
    struct wp_wire_reader reader = {(const uint8_t *)message.ptr,
                                    (const uint8_t *)message.ptr + message.len};
    struct wp_binding *out = r->out;
    struct wp_wire_field field;
    enum wp_wire_read read;
    enum wp_status status;

    out->audience.len = 0;
    out->identity_ttl_ms = 0;
    while ((read = wp_wire_read_next(&reader, &field)) == WP_WIRE_READ_FIELD) {
        if (field.number == 1 && field.type == WP_WIRE_BYTES) {
            out->audience = wp_wire_field_str(&field);
        } else if (field.number == 2 && field.type == WP_WIRE_VARINT) {
            out->identity_ttl_ms = (int64_t)field.value;
        } else if (field.number <= 2) {
            return malformed(r->err);
        }
    }
    if (read != WP_WIRE_READ_END) {
        return malformed(r->err);
    }
    status = wp_wire_check_text("binding.identity.audience", out->audience, 1,
                                WP_AUDIENCE_MAX, r->err);
    if (status == WP_OK && out->identity_ttl_ms != 0 &&
        (out->identity_ttl_ms < WP_IDENTITY_TTL_MIN_NS / WP_NS_PER_MS ||
         out->identity_ttl_ms > WP_IDENTITY_TTL_MAX_NS / WP_NS_PER_MS)) {
        status = wp_err_set(
            r->err, WP_INVALID_ARGUMENT,
            "binding.identity.ttl_ms: 0, or %lld to %lld expected, got %lld",
            (long long)(WP_IDENTITY_TTL_MIN_NS / WP_NS_PER_MS),
            (long long)(WP_IDENTITY_TTL_MAX_NS / WP_NS_PER_MS),
            (long long)out->identity_ttl_ms);
    }
    return status;
}

static enum wp_status
take_field(struct reading *r, const struct wp_wire_field *field)
{
    struct wp_str bytes = wp_wire_field_str(field);

    switch (field->number) {
    case BINDING_ENV:
        return take_env(r, bytes);
    case BINDING_SECRETS:
        return take_secret(r, bytes);
    case BINDING_FILES:
        return take_file(r, bytes);
    case BINDING_ARCHIVES:
        return take_archive(r, bytes);
    case BINDING_WORKING_DIR:
        r->out->working_dir = bytes;
        return bytes.len == 0
                   ? WP_OK
                   : check_path("binding.working_dir", bytes, true, r->err);
    case BINDING_COMMAND:
        return take_word(r, bytes);
    case BINDING_REPOSITORIES:
        return take_repository(r, bytes);
    case BINDING_VOLUMES:
        return take_volume(r, bytes);
    case BINDING_EGRESS:
        r->out->egress = bytes;
        return wp_wire_check_text("binding.egress", bytes, 0,
                                  WP_EGRESS_TEXT_MAX, r->err);
    case BINDING_IDENTITY:
        return take_identity(r, bytes);
    default:
        return WP_OK;
    }
}

/* How often each field is there. */
static enum wp_status
count_fields(struct wp_wire_reader reader, uint32_t count[BINDING_FIELDS],
             struct wp_err *err)
{
    static const struct {
        const char *name;
        uint32_t max;
    } bounds[BINDING_FIELDS] = {
        [BINDING_ENV] = {"env", WP_BINDING_ENV_MAX},
        [BINDING_SECRETS] = {"secrets", WP_BINDING_SECRETS_MAX},
        [BINDING_FILES] = {"files", WP_BINDING_FILES_MAX},
        [BINDING_WORKING_DIR] = {"working_dir", UINT32_MAX},
        [BINDING_COMMAND] = {"command", WP_BINDING_ARGS_MAX},
        [BINDING_ARCHIVES] = {"archives", WP_BINDING_ARCHIVES_MAX},
        [BINDING_REPOSITORIES] = {"repositories", WP_BINDING_REPOSITORIES_MAX},
        [BINDING_VOLUMES] = {"volumes", WP_BINDING_VOLUMES_MAX},
        [BINDING_EGRESS] = {"egress", UINT32_MAX},
        [BINDING_IDENTITY] = {"identity", UINT32_MAX},
    };
    struct wp_wire_field field;
    enum wp_wire_read read;

    while ((read = wp_wire_read_next(&reader, &field)) == WP_WIRE_READ_FIELD) {
        if (field.number >= BINDING_FIELDS ||
            bounds[field.number].name == NULL) {
            continue;
        }
        if (field.type != WP_WIRE_BYTES) {
            return malformed(err);
        }
        if (++count[field.number] > bounds[field.number].max) {
            return wp_err_set(
                err, WP_INVALID_ARGUMENT, "binding.%s: at most %u expected",
                bounds[field.number].name, bounds[field.number].max);
        }
    }
    return read == WP_WIRE_READ_END ? WP_OK : malformed(err);
}

static enum wp_status
check_sums(const struct reading *r)
{
    const struct wp_binding *out = r->out;

    if (out->n_env + out->n_secrets + out->n_files + out->n_command +
            out->n_repositories + out->n_volumes + out->working_dir.len +
            out->egress.len + out->audience.len ==
        0) {
        return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                          "binding: something expected in it, or no binding");
    }
    if (r->text > WP_BINDING_TEXT_MAX) {
        return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                          "binding: at most %d bytes of names, values and "
                          "words expected, got %zu",
                          WP_BINDING_TEXT_MAX, r->text);
    }
    if (r->files_bytes > WP_BINDING_FILES_BYTES_MAX) {
        return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                          "binding.files: at most %d bytes of content and of "
                          "archives expected, got %zu",
                          WP_BINDING_FILES_BYTES_MAX, r->files_bytes);
    }
    return WP_OK;
}

size_t
wp_wire_binding_room(const uint8_t *bytes, size_t len)
{
    struct wp_wire_reader reader = {bytes, bytes + len};
    struct wp_wire_field field;

    while (wp_wire_read_next(&reader, &field) == WP_WIRE_READ_FIELD) {
        if (field.number == BINDING_ARCHIVES) {
            return WP_WIRE_ARENA_BINDING + WP_WIRE_ARENA_ARCHIVES;
        }
    }
    return WP_WIRE_ARENA_BINDING;
}

enum wp_status
wp_wire_unpack_binding(struct wp_arena *arena, const uint8_t *bytes, size_t len,
                       struct wp_binding *out, struct wp_err *err)
{
    struct wp_wire_reader reader = {bytes, bytes + len};
    uint32_t count[BINDING_FIELDS] = {0};
    struct reading r = {.out = out, .arena = arena, .err = err};
    struct wp_wire_field field = {.number = 0};
    enum wp_status status = count_fields(reader, count, err);

    *out = (struct wp_binding){.fingerprint = 0};
    if (status != WP_OK) {
        return status;
    }
    r.env = wp_arena_alloc(arena, count[BINDING_ENV] * sizeof *r.env);
    r.secrets =
        wp_arena_alloc(arena, count[BINDING_SECRETS] * sizeof *r.secrets);
    r.files = wp_arena_alloc(arena, (count[BINDING_ARCHIVES] > 0
                                         ? WP_BINDING_FILES_MAX
                                         : count[BINDING_FILES]) *
                                        sizeof *r.files);
    r.command =
        wp_arena_alloc(arena, count[BINDING_COMMAND] * sizeof *r.command);
    r.repositories = wp_arena_alloc(arena, count[BINDING_REPOSITORIES] *
                                               sizeof *r.repositories);
    r.volumes =
        wp_arena_alloc(arena, count[BINDING_VOLUMES] * sizeof *r.volumes);
    if (r.env == NULL || r.secrets == NULL || r.files == NULL ||
        r.command == NULL || r.repositories == NULL || r.volumes == NULL) {
        return wp_wire_too_long(err);
    }
    out->env = r.env;
    out->secrets = r.secrets;
    out->files = r.files;
    out->command = r.command;
    out->repositories = r.repositories;
    out->volumes = r.volumes;
    while (status == WP_OK &&
           wp_wire_read_next(&reader, &field) == WP_WIRE_READ_FIELD) {
        status = take_field(&r, &field);
    }
    return status == WP_OK ? check_sums(&r) : status;
}
