#include "allocator/stores/redis/message.h"

#include "allocator/stores/codec.h"

enum {
    ID_LEN = 2 * WP_REPLICA_ID_LEN,
    UID_LEN = 2 * WP_UID_LEN,
    LENGTH_LEN = 4,
    WAITING_LEN = 10,
};

/* The next len bytes of what is left; shorter when there are not so many, which
 * no parser of a fixed length takes. */
static struct wp_str
take(struct wp_str *left, size_t len)
{
    struct wp_str taken = {left->ptr, len < left->len ? len : left->len};

    left->ptr += taken.len;
    left->len -= taken.len;
    return taken;
}

static bool
take_number(struct wp_str *left, size_t len, uint64_t *out)
{
    struct wp_str digits = take(left, len);

    return digits.len == len && wp_str_to_u64(digits, out);
}

static bool
take_version(struct wp_str *left)
{
    return wp_str_is(take(left, 1), "1");
}

bool
wp_redis_changes_open(struct wp_str payload, struct wp_redis_changes *out)
{
    struct wp_str version = take(&payload, 1);

    out->several = wp_str_is(version, "2");
    if ((!out->several && !wp_str_is(version, "1")) ||
        !wp_hex_decode(take(&payload, ID_LEN), out->writer,
                       sizeof out->writer) ||
        !take_number(&payload, WP_LEASE_NUMBER_LEN, &out->number)) {
        return false;
    }
    out->left = payload;
    return payload.len > 0;
}

bool
wp_redis_changes_next(struct wp_redis_changes *changes,
                      struct wp_redis_change *out)
{
    struct wp_str left = changes->left;
    uint64_t length;

    if (left.len == 0 ||
        (changes->several && !wp_str_is(take(&left, 1), "r"))) {
        return false;
    }
    out->uid = take(&left, UID_LEN);
    length = left.len;
    if (changes->several &&
        (!take_number(&left, LENGTH_LEN, &length) || length > left.len)) {
        return false;
    }
    out->packed = take(&left, (size_t)length);
    out->number = changes->number++;
    changes->left = left;
    return true;
}

bool
wp_redis_change_read(const struct wp_redis_change *change,
                     struct wp_lease_record *out)
{
    return wp_hex_decode(change->uid, out->uid, WP_UID_LEN) &&
           wp_lease_unpack(change->packed, out);
}

size_t
wp_redis_heartbeat_make(const struct wp_lease_redis_peer *peer,
                        char out[WP_REDIS_HEARTBEAT_MAX])
{
    char id[ID_LEN + 1];
    uint32_t waiting = peer->waiting;
    size_t host_len = strnlen(peer->host, WP_PEER_HOST_MAX);
    char *end = out;

    wp_hex_encode(peer->replica_id, WP_REPLICA_ID_LEN, id);
    *end++ = '1';
    memcpy(end, id, ID_LEN);
    end += ID_LEN;
    *end++ = (char)('0' + (peer->keeper ? 1 : 0) + (peer->leaves ? 2 : 0));
    for (int i = WAITING_LEN; i > 0; i--) {
        end[i - 1] = (char)('0' + waiting % 10);
        waiting /= 10;
    }
    end += WAITING_LEN;
    memcpy(end, peer->host, host_len);
    return (size_t)(end - out) + host_len;
}

bool
wp_redis_heartbeat_parse(struct wp_str payload, struct wp_lease_redis_peer *out)
{
    struct wp_str role;
    uint64_t waiting = 0;

    memset(out, 0, sizeof *out);
    if (!take_version(&payload) ||
        !wp_hex_decode(take(&payload, ID_LEN), out->replica_id,
                       sizeof out->replica_id)) {
        return false;
    }
    role = take(&payload, 1);
    if (role.len != 1 || role.ptr[0] < '0' || role.ptr[0] > '3') {
        return false;
    }
    out->keeper = ((role.ptr[0] - '0') & 1) != 0;
    out->leaves = ((role.ptr[0] - '0') & 2) != 0;
    if (!take_number(&payload, WAITING_LEN, &waiting) || waiting > UINT32_MAX ||
        !wp_str_copy(payload, out->host, sizeof out->host)) {
        return false;
    }
    out->waiting = (uint32_t)waiting;
    return true;
}
