#include "proto/parcel/pack.h"

#include <string.h>

#include "proto/parcel/parcel.h"

static uint8_t *
put(uint8_t *at, enum wp_parcel_kind kind, uint32_t number, struct wp_str first,
    struct wp_str second)
{
    const struct wp_parcel_entry entry = {
        .kind = kind,
        .number = number,
        .first_len = first.len,
        .second_len = second.len,
    };

    wp_parcel_put_head(&entry, at);
    at += WP_PARCEL_HEAD;
    if (first.len > 0) {
        memcpy(at, first.ptr, first.len);
    }
    if (second.len > 0) {
        memcpy(at + first.len, second.ptr, second.len);
    }
    return at + first.len + second.len;
}

size_t
wp_parcel_size(const struct wp_binding *binding, struct wp_str identity)
{
    size_t entries = (size_t)binding->n_env + binding->n_secrets +
                     binding->n_files + binding->n_command +
                     (binding->working_dir.len > 0 ? 1 : 0);
    size_t size = entries * WP_PARCEL_HEAD + binding->working_dir.len;

    for (uint32_t i = 0; i < binding->n_env; i++) {
        size += binding->env[i].name.len + binding->env[i].value.len;
    }
    for (uint32_t i = 0; i < binding->n_secrets; i++) {
        size += binding->secrets[i].name.len + binding->secrets[i].value.len;
    }
    for (uint32_t i = 0; i < binding->n_files; i++) {
        size += binding->files[i].path.len + binding->files[i].content.len;
    }
    for (uint32_t i = 0; i < binding->n_command; i++) {
        size += binding->command[i].len;
    }
    if (binding->audience.len > 0) {
        size += WP_PARCEL_HEAD + sizeof WP_IDENTITY_ENV - 1 + identity.len;
    }
    return size;
}

void
wp_parcel_fill(const struct wp_binding *binding, struct wp_str identity,
               uint8_t *at)
{
    for (uint32_t i = 0; i < binding->n_env; i++) {
        at = put(at, WP_PARCEL_ENV, 0, binding->env[i].name,
                 binding->env[i].value);
    }
    for (uint32_t i = 0; i < binding->n_secrets; i++) {
        const struct wp_binding_secret *secret = &binding->secrets[i];

        at = put(at, WP_PARCEL_SECRET, secret->in_env ? 1 : 0, secret->name,
                 secret->value);
    }
    for (uint32_t i = 0; i < binding->n_files; i++) {
        const struct wp_binding_file *file = &binding->files[i];

        at = put(at, WP_PARCEL_FILE, file->mode, file->path, file->content);
    }
    if (binding->audience.len > 0) {
        at = put(at, WP_PARCEL_IDENTITY, 0, WP_STR(WP_IDENTITY_ENV), identity);
    }
    if (binding->working_dir.len > 0) {
        at = put(at, WP_PARCEL_DIR, 0, binding->working_dir, WP_STR(""));
    }
    for (uint32_t i = 0; i < binding->n_command; i++) {
        at = put(at, WP_PARCEL_WORD, 0, binding->command[i], WP_STR(""));
    }
}
