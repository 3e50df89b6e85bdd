/* Commands that gather: what several calls ask of one script, as one command.
 *
 * While it is open a batch is two texts beside the link's buffer, the keys and
 * the rest of all its calls; its calls are in the ring already. It is closed,
 * that is put into the buffer whole, before anything else is, and before
 * anything is sent. */
#include <stdlib.h>
#include <string.h>

#include "allocator/stores/redis/link/link_impl.h"
#include "pool/base/assert.h"
#include "pool/base/fnv.h"

enum {
    /* "*5\r\n" and the number of keys, as a word. */
    FRAME_MAX = 64,
};

bool
wp_link_batch_init(struct wp_link_batch *batch)
{
    batch->keys = malloc(WP_LINK_BATCH_KEYS);
    batch->rest = malloc(WP_LINK_BATCH_REST);
    return batch->keys != NULL && batch->rest != NULL;
}

void
wp_link_batch_fini(struct wp_link_batch *batch)
{
    free(batch->keys);
    free(batch->rest);
}

/* The last bytes of keys differ most. */
static uint32_t
key_bit(struct wp_str key)
{
    size_t from = key.len > 16 ? key.len - 16 : 0;
    uint64_t hash = wp_fnv(WP_FNV_BASIS, key.ptr + from, key.len - from);

    /* The last byte is only in the low bits yet. */
    return (uint32_t)(hash * UINT64_C(0x9E3779B97F4A7C15) >> 48) %
           WP_LINK_BATCH_BITS;
}

/* Some key of the entry may be in the batch. */
static bool
meets(const struct wp_link_batch *batch, const struct wp_redis_entry *entry)
{
    for (uint32_t i = 0; i < entry->n_keys; i++) {
        uint32_t bit = key_bit(entry->keys[i]);

        if ((batch->met[bit / 64] >> bit % 64 & 1) != 0) {
            return true;
        }
    }
    return false;
}

static void
note_keys(struct wp_link_batch *batch, const struct wp_redis_entry *entry)
{
    for (uint32_t i = 0; i < entry->n_keys; i++) {
        uint32_t bit = key_bit(entry->keys[i]);

        batch->met[bit / 64] |= UINT64_C(1) << bit % 64;
    }
}

static bool
takes(const struct wp_link_batch *batch, const struct wp_redis_entry *entry,
      uint32_t tag)
{
    return batch->n < WP_REDIS_BATCH_MAX && batch->tag == tag &&
           batch->id == entry->id &&
           wp_link_words_len(entry->keys, entry->n_keys) <=
               WP_LINK_BATCH_KEYS - batch->keys_len &&
           wp_link_words_len(entry->rest, entry->n_rest) <=
               WP_LINK_BATCH_REST - batch->rest_len &&
           !meets(batch, entry);
}

static void
begin(struct wp_redis_link *link, const struct wp_redis_entry *entry,
      uint32_t tag)
{
    struct wp_link_batch *batch = &link->batch;

    WP_ASSERT(wp_link_words_len(entry->head, entry->n_head) <=
              sizeof batch->head);
    memset(batch->met, 0, sizeof batch->met);
    batch->tag = tag;
    batch->id = entry->id;
    batch->first = atomic_load_explicit(&link->tail, memory_order_relaxed);
    batch->n_words = entry->n_head + 1;
    batch->n_keys = 0;
    batch->head_len =
        (size_t)(wp_link_put_words(batch->head, entry->head, entry->n_head) -
                 batch->head);
    batch->keys_len = 0;
    batch->rest_len = 0;
}

static void
add(struct wp_link_batch *batch, const struct wp_redis_entry *entry)
{
    char *keys = batch->keys + batch->keys_len;
    char *rest = batch->rest + batch->rest_len;

    note_keys(batch, entry);
    batch->keys_len +=
        (size_t)(wp_link_put_words(keys, entry->keys, entry->n_keys) - keys);
    batch->rest_len +=
        (size_t)(wp_link_put_words(rest, entry->rest, entry->n_rest) - rest);
    batch->n_keys += entry->n_keys;
    batch->n_words += entry->n_keys + entry->n_rest;
    batch->n++;
}

void
wp_link_batch_close(struct wp_redis_link *link)
{
    struct wp_link_batch *batch = &link->batch;
    uint32_t mask = link->links->calls_max - 1;
    char *start = link->out + link->out_len;
    char *end;
    char digits[24];
    struct wp_str n_keys = {digits, 0};

    if (batch->n == 0) {
        return;
    }
    n_keys.len = wp_link_put_number(digits, batch->n_keys);
    end = wp_link_put_count(start, '*', batch->n_words);
    memcpy(end, batch->head, batch->head_len);
    end = wp_link_put_words(end + batch->head_len, &n_keys, 1);
    memcpy(end, batch->keys, batch->keys_len);
    end += batch->keys_len;
    memcpy(end, batch->rest, batch->rest_len);
    end += batch->rest_len;
    link->out_len += (size_t)(end - start);
    link->stream_len += (uint64_t)(end - start);
    for (uint32_t i = 0; i < batch->n; i++) {
        link->calls[(batch->first + i) & mask].end = link->stream_len;
    }
    link->calls[batch->first & mask].n = batch->n;
    batch->n = 0;
    /* What was written to the calls, once more published. */
    atomic_store_explicit(
        &link->tail, atomic_load_explicit(&link->tail, memory_order_relaxed),
        memory_order_release);
}

/* The batch, with the entry, will fit into the buffer. */
static bool
has_room(struct wp_redis_link *link, const struct wp_redis_entry *entry)
{
    const struct wp_link_batch *batch = &link->batch;
    size_t need = FRAME_MAX + wp_link_words_len(entry->keys, entry->n_keys) +
                  wp_link_words_len(entry->rest, entry->n_rest);

    need += batch->n > 0 ? batch->head_len + batch->keys_len + batch->rest_len
                         : wp_link_words_len(entry->head, entry->n_head);
    return wp_link_make_room(link, need);
}

static enum wp_status
gather(struct wp_redis_link *link, void *call, uint32_t tag,
       const struct wp_redis_entry *entry)
{
    struct wp_redis_links *links = link->links;

    if (!wp_link_takes_calls(link)) {
        return WP_UNAVAILABLE;
    }
    if (link->batch.n > 0 && !takes(&link->batch, entry, tag)) {
        wp_link_batch_close(link);
    }
    if (!has_room(link, entry)) {
        WP_LINK_COUNT(links->full);
        return WP_UNAVAILABLE;
    }
    if (link->batch.n == 0) {
        begin(link, entry, tag);
    }
    add(&link->batch, entry);
    /* Until the batch is closed nothing of it can have left. */
    wp_link_push_call(link, call, tag, UINT64_MAX);
    return WP_PENDING;
}

enum wp_status
wp_redis_gather(struct wp_redis_links *links, uint32_t index, void *call,
                uint32_t tag, const struct wp_redis_entry *entry, bool flush)
{
    struct wp_redis_link *link = &links->links[index];

    WP_ASSERT(index < links->n);
    (void)pthread_mutex_lock(&link->lock);
    return wp_link_appended(link, gather(link, call, tag, entry), flush);
}
