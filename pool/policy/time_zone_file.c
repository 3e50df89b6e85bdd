/* TZif files, RFC 8536: a block with times of 32 bits; from version 2 on a
 * second one with 64, which is the one to read, and a footer. */
#include <stdlib.h>

#include "pool/policy/time_zone_impl.h"

enum {
    HEADER_LEN = 44,
    COUNTS_AT = 20,
    TYPE_LEN = 6,
    CHANGES_MAX = 8192, /* More do not fit into the longest file. */
};

static const char magic[] = {'T', 'Z', 'i', 'f'};

/* A header's six counts, and what follows from them. */
struct block {
    uint32_t isutc;
    uint32_t isstd;
    uint32_t leaps;
    uint32_t times;
    uint32_t types;
    uint32_t chars;
    size_t time_len; /* 4 or 8 */
    const uint8_t *at_times;
    const uint8_t *at_indexes;
    const uint8_t *at_types;
    const uint8_t *end;
};

static uint32_t
be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

static int64_t
time_at(const struct block *block, uint32_t i)
{
    const uint8_t *p = block->at_times + i * block->time_len;

    if (block->time_len == 4) {
        return (int32_t)be32(p);
    }
    return (int64_t)((uint64_t)be32(p) << 32 | be32(p + 4));
}

static enum wp_status
damaged(struct wp_err *err, const char *what)
{
    (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                     "not a zone file, or a damaged one: %s", what);
    return WP_INVALID_ARGUMENT;
}

/* Where the block that begins at p has its parts. */
static enum wp_status
read_block(const uint8_t *p, const uint8_t *end, size_t time_len,
           struct block *out, struct wp_err *err)
{
    size_t len;

    if ((size_t)(end - p) < HEADER_LEN || memcmp(p, magic, sizeof magic) != 0) {
        return damaged(err, "no header");
    }
    out->time_len = time_len;
    out->isutc = be32(p + COUNTS_AT);
    out->isstd = be32(p + COUNTS_AT + 4);
    out->leaps = be32(p + COUNTS_AT + 8);
    out->times = be32(p + COUNTS_AT + 12);
    out->types = be32(p + COUNTS_AT + 16);
    out->chars = be32(p + COUNTS_AT + 20);
    /* Each is bounded before they are added up. */
    if (out->times > CHANGES_MAX || out->types > 256 || out->types == 0 ||
        out->chars > 4096 || out->leaps > CHANGES_MAX ||
        (out->isutc != 0 && out->isutc != out->types) ||
        (out->isstd != 0 && out->isstd != out->types)) {
        return damaged(err, "counts that cannot be");
    }
    len = out->times * (time_len + 1) + (size_t)out->types * TYPE_LEN +
          out->chars + out->leaps * (time_len + 4) + out->isstd + out->isutc;
    if (len > (size_t)(end - p) - HEADER_LEN) {
        return damaged(err, "it ends too early");
    }
    out->at_times = p + HEADER_LEN;
    out->at_indexes = out->at_times + out->times * time_len;
    out->at_types = out->at_indexes + out->times;
    out->end = p + HEADER_LEN + len;
    return WP_OK;
}

/* Between newlines, right behind the second block. Empty: no rule. */
static enum wp_status
read_footer(const uint8_t *p, const uint8_t *end, struct wp_time_zone *zone,
            struct wp_err *err)
{
    const char *from;
    const char *to;

    if (p == end || *p != '\n') {
        return damaged(err, "no footer");
    }
    from = (const char *)p + 1;
    to = memchr(from, '\n', (size_t)(end - p) - 1);
    if (to == NULL) {
        return damaged(err, "a footer that does not end");
    }
    if (to == from) {
        return WP_OK;
    }
    zone->has_rule = true;
    if (!wp_zone_rule_parse((struct wp_str){from, (size_t)(to - from)},
                            &zone->rule)) {
        return damaged(err, "the rule in its footer");
    }
    return WP_OK;
}

static enum wp_status
read_offset(const struct block *block, uint32_t type, int32_t *out_s,
            struct wp_err *err)
{
    int32_t offset_s;

    if (type >= block->types) {
        return damaged(err, "a change to a type that is not there");
    }
    offset_s = (int32_t)be32(block->at_types + (size_t)type * TYPE_LEN);
    if (offset_s < -WP_ZONE_OFFSET_MAX_S || offset_s > WP_ZONE_OFFSET_MAX_S) {
        return damaged(err, "an offset of more than a day");
    }
    *out_s = offset_s;
    return WP_OK;
}

static enum wp_status
read_changes(const struct block *block, struct wp_time_zone *zone,
             struct wp_err *err)
{
    enum wp_status status = read_offset(block, 0, &zone->first_s, err);

    for (uint32_t i = 0; status == WP_OK && i < block->times; i++) {
        struct wp_zone_change *change = &zone->changes[i];

        change->at_s = time_at(block, i);
        if (i > 0 && change->at_s <= zone->changes[i - 1].at_s) {
            return damaged(err, "times that go back");
        }
        status =
            read_offset(block, block->at_indexes[i], &change->offset_s, err);
    }
    zone->n_changes = block->times;
    return status;
}

enum wp_status
wp_time_zone_parse(struct wp_str name, const void *bytes, size_t len,
                   struct wp_time_zone **out, struct wp_err *err)
{
    const uint8_t *begin = bytes;
    struct block block = {0};
    struct wp_time_zone *zone;
    enum wp_status status;
    bool second;

    *out = NULL;
    if (len < HEADER_LEN || len > WP_TIME_ZONE_BYTES_MAX) {
        return damaged(err, "its length");
    }
    status = read_block(begin, begin + len, 4, &block, err);
    second = begin[sizeof magic] >= '2';
    if (status == WP_OK && second) {
        status = read_block(block.end, begin + len, 8, &block, err);
    }
    if (status != WP_OK) {
        return status;
    }
    if (block.leaps > 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "a zone with leap seconds, which wall clocks here do "
                          "not count: one without expected");
    }
    zone = calloc(1, sizeof *zone + block.times * sizeof zone->changes[0]);
    if (zone == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    status = wp_str_copy(name, zone->name, sizeof zone->name)
                 ? read_changes(&block, zone, err)
                 : damaged(err, "its name");
    if (status == WP_OK && second) {
        status = read_footer(block.end, begin + len, zone, err);
    }
    if (status != WP_OK) {
        wp_time_zone_destroy(zone);
        return status;
    }
    *out = zone;
    return WP_OK;
}

void
wp_time_zone_destroy(struct wp_time_zone *zone)
{
    free(zone);
}
