/* Fields and generations as they are written in Redis. Pure. */
#include "allocator/stores/redis/impl.h"
#include "pool/base/rng.h"

static struct wp_str
word(const char *bytes, size_t len)
{
    return (struct wp_str){bytes, len};
}

void
wp_redis_field_make(const uint8_t uid[WP_UID_LEN],
                    char out[WP_REDIS_FIELD_LEN + 1])
{
    out[0] = 'r';
    wp_hex_encode(uid, WP_UID_LEN, out + 1);
}

bool
wp_redis_field_parse(struct wp_str field, struct wp_lease_record *record)
{
    return field.len == WP_REDIS_FIELD_LEN && field.ptr[0] == 'r' &&
           wp_hex_decode(word(field.ptr + 1, field.len - 1), record->uid,
                         WP_UID_LEN);
}

void
wp_redis_generation_make(char phase, uint64_t generation,
                         char out[WP_REDIS_GENERATION_LEN + 2])
{
    static const char hex[] = "0123456789abcdef";

    out[0] = phase;
    for (int i = 0; i < WP_REDIS_GENERATION_LEN; i++) {
        out[WP_REDIS_GENERATION_LEN - i] = hex[generation >> 4 * i & 15];
    }
    out[WP_REDIS_GENERATION_LEN + 1] = '\0';
}

uint64_t
wp_redis_generation_parse(struct wp_str text, bool *open)
{
    uint8_t bytes[8];
    uint64_t generation = 0;

    if (text.len != 1 + WP_REDIS_GENERATION_LEN ||
        (text.ptr[0] != 'o' && text.ptr[0] != 'c') ||
        !wp_hex_decode(word(text.ptr + 1, text.len - 1), bytes, sizeof bytes)) {
        return 0;
    }
    *open = text.ptr[0] == 'o';
    for (size_t i = 0; i < sizeof bytes; i++) {
        generation = generation << 8 | bytes[i];
    }
    return generation;
}

uint64_t
wp_redis_generation_new(void)
{
    uint64_t generation;

    do {
        wp_random_bytes(&generation, sizeof generation);
    } while (generation == 0);
    return generation;
}
