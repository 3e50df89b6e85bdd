#include "allocator/stores/redis/link/cluster.h"

/* CRC-16/XMODEM (polynomial 0x1021, begun with 0), four bits at a time. */
static uint16_t
crc16(struct wp_str bytes)
{
    static const uint16_t table[16] = {
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
    };
    unsigned crc = 0;

    for (size_t i = 0; i < bytes.len; i++) {
        unsigned byte = (unsigned char)bytes.ptr[i];

        crc = table[(crc >> 12) ^ (byte >> 4)] ^ ((crc << 4) & 0xffff);
        crc = table[(crc >> 12) ^ (byte & 15)] ^ ((crc << 4) & 0xffff);
    }
    return (uint16_t)crc;
}

uint16_t
wp_redis_slot(struct wp_str key)
{
    const char *open = key.len > 0 ? memchr(key.ptr, '{', key.len) : NULL;

    if (open != NULL) {
        const char *tag = open + 1;
        size_t rest = (size_t)(key.ptr + key.len - tag);
        const char *close = rest > 0 ? memchr(tag, '}', rest) : NULL;

        if (close != NULL && close > tag) {
            key = (struct wp_str){tag, (size_t)(close - tag)};
        }
    }
    return (uint16_t)(crc16(key) % WP_REDIS_SLOTS);
}

/* Cuts the next word and the space behind it off. */
static struct wp_str
take_word(struct wp_str *text)
{
    const char *space =
        text->len > 0 ? memchr(text->ptr, ' ', text->len) : NULL;
    struct wp_str word = *text;

    if (space == NULL) {
        *text = (struct wp_str){text->ptr, 0};
        return word;
    }
    word.len = (size_t)(space - text->ptr);
    *text = (struct wp_str){space + 1, text->len - word.len - 1};
    return word;
}

static bool
parse_place(struct wp_str place, struct wp_redis_server *out)
{
    /* The last one: an IPv6 address has more. */
    const char *colon =
        place.len > 0 ? memrchr(place.ptr, ':', place.len) : NULL;
    struct wp_str host;
    uint64_t port;

    memset(out, 0, sizeof *out);
    if (colon == NULL) {
        return false;
    }
    host = (struct wp_str){place.ptr, (size_t)(colon - place.ptr)};
    if (!wp_str_to_u64((struct wp_str){colon + 1, place.len - host.len - 1},
                       &port) ||
        port == 0 || port > UINT16_MAX) {
        return false;
    }
    out->port = (uint16_t)port;
    if (host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']') {
        host = (struct wp_str){host.ptr + 1, host.len - 2};
    }
    return !wp_str_is(host, "?") && wp_str_is_printable(host) &&
           wp_str_copy(host, out->host, sizeof out->host);
}

bool
wp_redis_redirect_parse(struct wp_str error, struct wp_redis_redirect *out)
{
    struct wp_str kind = take_word(&error);
    struct wp_str slot = take_word(&error);
    struct wp_str place = take_word(&error);
    uint64_t number;

    if ((!wp_str_is(kind, "MOVED") && !wp_str_is(kind, "ASK")) ||
        error.len > 0 || !wp_str_to_u64(slot, &number) ||
        number >= WP_REDIS_SLOTS) {
        return false;
    }
    out->ask = wp_str_is(kind, "ASK");
    out->slot = (uint16_t)number;
    return parse_place(place, &out->server);
}
