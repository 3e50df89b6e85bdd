/* What a claim brings, and what of it was bound, written without generated
 * structs. */
#include <string.h>

#include "proto/wire/binding.h"
#include "proto/wire/read.h"
#include "proto/wire/write.h"

static size_t
part_size(struct wp_str first, struct wp_str second, uint64_t number)
{
    return wp_wire_bytes_size(first.len) + wp_wire_bytes_size(second.len) +
           wp_wire_int_size(number);
}

static uint8_t *
put_part(uint8_t *pos, unsigned field, struct wp_str first,
         struct wp_str second, uint64_t number)
{
    pos = wp_wire_put_head(pos, field, part_size(first, second, number));
    pos = wp_wire_put_bytes(pos, 1, first.ptr, first.len);
    pos = wp_wire_put_bytes(pos, 2, second.ptr, second.len);
    return wp_wire_put_int(pos, 3, number);
}

/* Of a field numbered 16 to 2047, whose tag takes two bytes. */
static size_t
far_size(size_t len)
{
    return 1 + wp_wire_message_size(len);
}

static uint8_t *
put_far_head(uint8_t *pos, unsigned field, size_t len)
{
    pos = wp_wire_put_varint(pos, field << 3 | WP_WIRE_BYTES);
    return wp_wire_put_varint(pos, len);
}

/* A text that is left out when it is empty. */
static size_t
far_text_size(struct wp_str text)
{
    return text.len > 0 ? far_size(text.len) : 0;
}

static uint8_t *
put_far_text(uint8_t *pos, unsigned field, struct wp_str text)
{
    if (text.len == 0) {
        return pos;
    }
    pos = put_far_head(pos, field, text.len);
    memcpy(pos, text.ptr, text.len);
    return pos + text.len;
}

static size_t
repository_size(const struct wp_binding_repository *it)
{
    return wp_wire_bytes_size(it->url.len) + wp_wire_bytes_size(it->ref.len) +
           wp_wire_bytes_size(it->dir.len) +
           wp_wire_bytes_size(it->password.len) +
           wp_wire_bytes_size(it->user.len);
}

static uint8_t *
put_repository(uint8_t *pos, const struct wp_binding_repository *it)
{
    pos = put_far_head(pos, BINDING_REPOSITORIES, repository_size(it));
    pos = wp_wire_put_bytes(pos, 1, it->url.ptr, it->url.len);
    pos = wp_wire_put_bytes(pos, 2, it->ref.ptr, it->ref.len);
    pos = wp_wire_put_bytes(pos, 3, it->dir.ptr, it->dir.len);
    pos = wp_wire_put_bytes(pos, 4, it->password.ptr, it->password.len);
    return wp_wire_put_bytes(pos, 5, it->user.ptr, it->user.len);
}

static size_t
volume_size(const struct wp_binding_volume *it)
{
    return wp_wire_bytes_size(it->name.len) + wp_wire_bytes_size(it->dir.len);
}

static uint8_t *
put_volume(uint8_t *pos, const struct wp_binding_volume *it)
{
    pos = put_far_head(pos, BINDING_VOLUMES, volume_size(it));
    pos = wp_wire_put_bytes(pos, 1, it->name.ptr, it->name.len);
    return wp_wire_put_bytes(pos, 2, it->dir.ptr, it->dir.len);
}

/* A part of a repeated field: put also when it is empty. */
static uint8_t *
put_word(uint8_t *pos, unsigned field, struct wp_str word)
{
    pos = wp_wire_put_head(pos, field, word.len);
    if (word.len > 0) {
        memcpy(pos, word.ptr, word.len);
    }
    return pos + word.len;
}

static size_t
identity_size(const struct wp_binding *binding)
{
    return wp_wire_bytes_size(binding->audience.len) +
           wp_wire_int_size((uint64_t)binding->identity_ttl_ms);
}

size_t
wp_wire_size_binding(const struct wp_binding *message)
{
    size_t size =
        wp_wire_bytes_size(message->working_dir.len) +
        far_text_size(message->egress) +
        (message->audience.len > 0 ? far_size(identity_size(message)) : 0);

    for (uint32_t i = 0; i < message->n_env; i++) {
        size += wp_wire_message_size(
            part_size(message->env[i].name, message->env[i].value, 0));
    }
    for (uint32_t i = 0; i < message->n_secrets; i++) {
        const struct wp_binding_secret *secret = &message->secrets[i];

        size += wp_wire_message_size(
            part_size(secret->name, secret->value, secret->in_env));
    }
    for (uint32_t i = 0; i < message->n_files; i++) {
        const struct wp_binding_file *file = &message->files[i];

        size += wp_wire_message_size(
            part_size(file->path, file->content, file->mode));
    }
    for (uint32_t i = 0; i < message->n_archives; i++) {
        const struct wp_binding_archive *archive = &message->archives[i];

        size +=
            wp_wire_message_size(part_size(archive->dir, archive->content, 0));
    }
    for (uint32_t i = 0; i < message->n_command; i++) {
        size += wp_wire_message_size(message->command[i].len);
    }
    for (uint32_t i = 0; i < message->n_repositories; i++) {
        size += far_size(repository_size(&message->repositories[i]));
    }
    for (uint32_t i = 0; i < message->n_volumes; i++) {
        size += far_size(volume_size(&message->volumes[i]));
    }
    return size;
}

size_t
wp_wire_pack_binding(const struct wp_binding *message, uint8_t *buf)
{
    uint8_t *pos = buf;

    for (uint32_t i = 0; i < message->n_env; i++) {
        pos = put_part(pos, BINDING_ENV, message->env[i].name,
                       message->env[i].value, 0);
    }
    for (uint32_t i = 0; i < message->n_secrets; i++) {
        const struct wp_binding_secret *secret = &message->secrets[i];

        pos = put_part(pos, BINDING_SECRETS, secret->name, secret->value,
                       secret->in_env);
    }
    for (uint32_t i = 0; i < message->n_files; i++) {
        const struct wp_binding_file *file = &message->files[i];

        pos =
            put_part(pos, BINDING_FILES, file->path, file->content, file->mode);
    }
    pos = wp_wire_put_bytes(pos, BINDING_WORKING_DIR, message->working_dir.ptr,
                            message->working_dir.len);
    for (uint32_t i = 0; i < message->n_command; i++) {
        pos = put_word(pos, BINDING_COMMAND, message->command[i]);
    }
    for (uint32_t i = 0; i < message->n_archives; i++) {
        const struct wp_binding_archive *archive = &message->archives[i];

        pos =
            put_part(pos, BINDING_ARCHIVES, archive->dir, archive->content, 0);
    }
    for (uint32_t i = 0; i < message->n_repositories; i++) {
        pos = put_repository(pos, &message->repositories[i]);
    }
    for (uint32_t i = 0; i < message->n_volumes; i++) {
        pos = put_volume(pos, &message->volumes[i]);
    }
    pos = put_far_text(pos, BINDING_EGRESS, message->egress);
    if (message->audience.len > 0) {
        pos = put_far_head(pos, BINDING_IDENTITY, identity_size(message));
        pos = wp_wire_put_bytes(pos, 1, message->audience.ptr,
                                message->audience.len);
        pos = wp_wire_put_int(pos, 2, (uint64_t)message->identity_ttl_ms);
    }
    return (size_t)(pos - buf);
}

/* --- Bound --- */

enum {
    BOUND_STARTED = 5,
};

size_t
wp_wire_bound_size(const struct wp_binding *binding)
{
    size_t size = wp_wire_bytes_size(binding->working_dir.len) +
                  wp_wire_int_size(binding->n_command > 0) +
                  far_text_size(binding->egress) +
                  far_text_size(binding->audience);

    for (uint32_t i = 0; i < binding->n_env; i++) {
        size += wp_wire_message_size(binding->env[i].name.len);
    }
    for (uint32_t i = 0; i < binding->n_secrets; i++) {
        size += wp_wire_message_size(binding->secrets[i].name.len);
    }
    for (uint32_t i = 0; i < binding->n_files; i++) {
        size += wp_wire_message_size(binding->files[i].path.len);
    }
    for (uint32_t i = 0; i < binding->n_repositories; i++) {
        size += far_text_size(binding->repositories[i].url);
    }
    for (uint32_t i = 0; i < binding->n_volumes; i++) {
        size += far_text_size(binding->volumes[i].name);
    }
    return size;
}

uint8_t *
wp_wire_bound_put(const struct wp_binding *binding, uint8_t *pos)
{
    for (uint32_t i = 0; i < binding->n_env; i++) {
        pos = put_word(pos, BINDING_ENV, binding->env[i].name);
    }
    for (uint32_t i = 0; i < binding->n_secrets; i++) {
        pos = put_word(pos, BINDING_SECRETS, binding->secrets[i].name);
    }
    for (uint32_t i = 0; i < binding->n_files; i++) {
        pos = put_word(pos, BINDING_FILES, binding->files[i].path);
    }
    pos = wp_wire_put_bytes(pos, BINDING_WORKING_DIR, binding->working_dir.ptr,
                            binding->working_dir.len);
    pos = wp_wire_put_int(pos, BOUND_STARTED, binding->n_command > 0);
    for (uint32_t i = 0; i < binding->n_repositories; i++) {
        pos = put_far_text(pos, BINDING_REPOSITORIES,
                           binding->repositories[i].url);
    }
    for (uint32_t i = 0; i < binding->n_volumes; i++) {
        pos = put_far_text(pos, BINDING_VOLUMES, binding->volumes[i].name);
    }
    pos = put_far_text(pos, BINDING_EGRESS, binding->egress);
    return put_far_text(pos, BINDING_IDENTITY, binding->audience);
}
