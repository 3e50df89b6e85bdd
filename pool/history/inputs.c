/* Records of a scaler's inputs besides claims and lead times. */
#include "pool/history/history.h"
#include "pool/history/parts.h"

/* Which fields a kind has. */
struct shape {
    bool input;
    bool n;
    bool clock;
    bool span;
};

static const struct shape shapes[WP_HISTORY_KIND_COUNT] = {
    [WP_HISTORY_BEGIN] = {.input = true, .n = true, .clock = true},
    [WP_HISTORY_POLICY] = {.input = true, .n = true},
    [WP_HISTORY_REPLICAS] = {.input = true, .n = true},
    [WP_HISTORY_CLOCK] = {.input = true, .clock = true},
    [WP_HISTORY_UNSEEN] = {.input = true, .n = true},
    [WP_HISTORY_RESTORED] = {.input = true, .n = true},
    [WP_HISTORY_RESERVED] = {.input = true, .n = true, .span = true},
    [WP_HISTORY_CANCELLED] = {.input = true, .n = true},
    [WP_HISTORY_STEP] = {.input = true},
    [WP_HISTORY_AT_ONCE] = {.input = true, .n = true},
};

/* Unsigned, and so round: any two times have a distance. */
static size_t
put_time(uint8_t *out, int64_t since_ns, int64_t ns)
{
    uint64_t distance = (uint64_t)ns - (uint64_t)since_ns;
    bool back = distance >> 63 != 0;

    return wp_history_varint_put(out, distance << 1 ^ (back ? UINT64_MAX : 0));
}

static bool
get_time(const uint8_t *bytes, size_t len, size_t *at, int64_t since_ns,
         int64_t *ns)
{
    uint64_t value;
    uint64_t distance;

    if (!wp_history_varint_get(bytes, len, at, &value)) {
        return false;
    }
    distance = value >> 1 ^ ((value & 1) != 0 ? UINT64_MAX : 0);
    *ns = (int64_t)((uint64_t)since_ns + distance);
    return true;
}

size_t
wp_history_put_input(uint8_t *out, uint64_t delta,
                     const struct wp_history_event *event)
{
    struct shape shape = shapes[event->kind];
    int64_t since_ns = event->wall_ns;
    size_t len;

    WP_ASSERT(shape.input);
    len = wp_history_varint_put(out, delta << 2 | WP_HISTORY_RECORD_CLAIMS);
    len += wp_history_varint_put(out + len, 1);
    len += wp_history_varint_put(out + len, event->kind);
    if (shape.n) {
        len += wp_history_varint_put(out + len, event->n);
    }
    if (shape.clock) {
        len += put_time(out + len, since_ns, event->clock_ns);
    }
    if (shape.span) {
        len += put_time(out + len, since_ns, event->from_ns);
        len += put_time(out + len, since_ns, event->until_ns);
    }
    return len;
}

bool
wp_history_get_input(const uint8_t *bytes, size_t len, size_t *at,
                     struct wp_history_event *out)
{
    int64_t since_ns = out->wall_ns;
    uint64_t kind;
    uint64_t n = 0;

    if (!wp_history_varint_get(bytes, len, at, &kind) ||
        kind >= WP_HISTORY_KIND_COUNT || !shapes[kind].input) {
        return false;
    }
    out->kind = (enum wp_history_kind)kind;
    if (shapes[kind].n &&
        (!wp_history_varint_get(bytes, len, at, &n) || n > UINT32_MAX)) {
        return false;
    }
    out->n = (uint32_t)n;
    return (!shapes[kind].clock ||
            get_time(bytes, len, at, since_ns, &out->clock_ns)) &&
           (!shapes[kind].span ||
            (get_time(bytes, len, at, since_ns, &out->from_ns) &&
             get_time(bytes, len, at, since_ns, &out->until_ns)));
}
