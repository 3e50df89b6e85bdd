/* Threads begin, hold, follow and end few ids in a table too small for all;
 * then, in many rounds, they fill a table together while its buckets split.
 *
 * Who is told NEW checks that the entry of the same id before it has ended: one
 * id never has two. An entry is ended by one of several threads that try, and
 * exactly one wins. Whoever follows is told, once. What is read of an entry
 * fits together. At the end no entry is missing. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "pool/claims/claim_table.h"
#include "tests/support/base/stress.h"

enum {
    CLAIMS = 24,
    IDS = 80,
    TEXT = 100,
    TENANT = 40,
    MANY = 2048, /* Claims of a filling round. */
};

static const struct wp_hash_key hash_key = {1, 2};
static struct wp_claim_table table;
static char texts[IDS][TEXT];
static _Atomic(uint64_t) latest[IDS]; /* The ref who was told NEW last. */
static _Atomic(uint64_t) shown[IDS];  /* A held entry that any may end. */
static _Atomic(uint64_t) begun;
static _Atomic(uint64_t) ended;
static _Atomic(uint64_t) refused;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Followers that nobody has told, by entry and life: an entry may live again
 * before its last owner comes to tell. Guarded by lock. */
static struct {
    uint64_t ref;
    uint32_t n;
} waiting[CLAIMS + STRESS_THREADS_MAX];
static uint32_t n_waiting; /* Guarded by lock. */
static uint64_t followed;  /* Guarded by lock. */
static uint64_t told;      /* Guarded by lock. */

static struct wp_claim_key
key_of(uint32_t id)
{
    struct wp_claim_key key = {
        .fingerprint = id,
        .claim_id = {texts[id], TEXT},
        .tenant = {texts[id], TENANT},
        .pool_index = id,
    };

    key.hash = wp_claim_hash(hash_key, key.tenant, key.claim_id);
    return key;
}

/* Everything in the copy is of one id and one state. */
static void
check_view(const struct wp_claim_view *view)
{
    uint32_t id = (uint32_t)view->fingerprint;

    STRESS_CHECK(id < IDS && view->pool_index == id);
    STRESS_CHECK(strlen(view->claim_id) == TEXT);
    STRESS_CHECK(memcmp(view->claim_id, texts[id], TEXT) == 0);
    STRESS_CHECK(strlen(view->tenant) == TENANT);
    STRESS_CHECK(memcmp(view->tenant, texts[id], TENANT) == 0);
    if (view->held) {
        STRESS_CHECK(view->slot.index == id);
        STRESS_CHECK(view->slot.generation == view->ref.generation);
        STRESS_CHECK(view->granted_wall_ms == (int64_t)id * 3);
        STRESS_CHECK(view->served == 1);
    } else {
        STRESS_CHECK(view->served == 0);
    }
}

/* Its place in waiting, or n_waiting. Under the lock. */
static uint32_t
find_waiting(struct wp_claim_ref ref)
{
    uint32_t i = 0;

    while (i < n_waiting && waiting[i].ref != wp_claim_ref_pack(ref)) {
        i++;
    }
    return i;
}

static void
tell_followers(struct wp_claim_ref ref)
{
    uint32_t i;

    (void)pthread_mutex_lock(&lock);
    i = find_waiting(ref);
    STRESS_CHECK(i < n_waiting);
    told += waiting[i].n;
    waiting[i] = waiting[--n_waiting];
    (void)pthread_mutex_unlock(&lock);
}

static void
own(struct stress_thread *self, uint32_t id, struct wp_claim_ref ref)
{
    struct wp_claim_view view;
    bool followers;
    uint64_t before = atomic_exchange_explicit(
        &latest[id], wp_claim_ref_pack(ref), memory_order_acq_rel);

    atomic_fetch_add_explicit(&begun, 1, memory_order_relaxed);
    if (before != 0) {
        STRESS_CHECK(
            !wp_claim_table_read(&table, wp_claim_ref_unpack(before), &view));
    }
    if (wp_rng_below(&self->rng, 4) == 0) {
        (void)sched_yield();
    }
    if (wp_rng_below(&self->rng, 4) == 0) {
        STRESS_CHECK(wp_claim_table_end(&table, ref, &followers));
        atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
    } else {
        followers = wp_claim_table_hold(
            &table, ref, (struct wp_slot_ref){id, ref.generation},
            (int64_t)id * 3, 1);
        atomic_store_explicit(&shown[id], wp_claim_ref_pack(ref),
                              memory_order_release);
    }
    if (followers) {
        tell_followers(ref);
    }
}

static void
meet(struct stress_thread *self, struct wp_claim_ref ref)
{
    struct wp_claim_view view;

    if (wp_claim_table_read(&table, ref, &view)) {
        check_view(&view);
    }
    if (wp_rng_below(&self->rng, 2) == 0) {
        (void)pthread_mutex_lock(&lock);
        if (wp_claim_table_follow(&table, ref)) {
            uint32_t i = find_waiting(ref);

            if (i == n_waiting) {
                /* Live entries, and one more for each owner on its way. */
                STRESS_CHECK(n_waiting < WP_ARRAY_LEN(waiting));
                waiting[n_waiting].ref = wp_claim_ref_pack(ref);
                waiting[n_waiting++].n = 0;
            }
            waiting[i].n++;
            followed++;
        }
        (void)pthread_mutex_unlock(&lock);
    }
}

static void
end_shown(uint32_t id)
{
    uint64_t ref = atomic_load_explicit(&shown[id], memory_order_acquire);

    if (ref != 0 &&
        wp_claim_table_end(&table, wp_claim_ref_unpack(ref), NULL)) {
        atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
    }
}

static void
body(struct stress_thread *self)
{
    for (uint64_t i = 0; i < self->stress->ops; i++) {
        uint32_t id = (uint32_t)wp_rng_below(&self->rng, IDS);
        struct wp_claim_key key = key_of(id);
        struct wp_claim_view view;
        struct wp_claim_ref ref;

        switch (wp_rng_below(&self->rng, 8)) {
        case 0:
            if (wp_claim_table_read_at(&table, id % CLAIMS, &view)) {
                check_view(&view);
            }
            continue;
        case 1:
        case 2:
        case 3:
            end_shown(id);
            continue;
        default:
            break;
        }
        switch (wp_claim_table_begin(&table, &key, &ref)) {
        case WP_CLAIM_NEW:
            own(self, id, ref);
            break;
        case WP_CLAIM_FOUND:
            meet(self, ref);
            break;
        case WP_CLAIM_FULL:
            atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
            end_shown((uint32_t)wp_rng_below(&self->rng, IDS));
            break;
        }
    }
}

/* All threads begin all ids, each in an order of its own: each id is new to one
 * thread, which finds it from then on. */
static void
fill_body(struct stress_thread *self)
{
    uint32_t step = 2 * (uint32_t)wp_rng_below(&self->rng, MANY / 2) + 1;
    uint32_t offset = (uint32_t)wp_rng_below(&self->rng, MANY);

    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t id = (i * step + offset) % MANY;
        struct wp_claim_key key = {
            .claim_id = {(const char *)&id, sizeof id},
        };
        struct wp_claim_ref ref;
        struct wp_claim_ref found;
        enum wp_claim_begin got;

        key.hash = wp_claim_hash(hash_key, key.tenant, key.claim_id);
        got = wp_claim_table_begin(&table, &key, &ref);
        STRESS_CHECK(got != WP_CLAIM_FULL);
        if (got == WP_CLAIM_NEW) {
            atomic_fetch_add_explicit(&begun, 1, memory_order_relaxed);
        }
        STRESS_CHECK(wp_claim_table_find(&table, key.hash, &found));
        STRESS_CHECK(found.index == ref.index &&
                     found.generation == ref.generation);
    }
}

static void
fill_rounds(const struct stress *stress)
{
    struct stress round = *stress;

    for (uint64_t done = 0; done < stress->ops; done += 4 * MANY) {
        /* Each thread may hold one more entry than there are ids, for a
         * moment. */
        STRESS_CHECK(
            wp_claim_table_init(&table, MANY + STRESS_THREADS_MAX, NULL));
        atomic_store(&begun, 0);
        round.seed = stress->seed + done;
        stress_run(&round, fill_body);
        STRESS_CHECK(atomic_load(&begun) == MANY);
        wp_claim_table_fini(&table);
    }
}

int
main(int argc, char **argv)
{
    struct stress stress = stress_args(argc, argv, "claim_table", 400000);
    struct wp_claim_ref ref;

    STRESS_CHECK(wp_claim_table_init(&table, CLAIMS, NULL));
    for (uint32_t id = 0; id < IDS; id++) {
        memset(texts[id], (int)(' ' + 1 + id), TEXT);
    }
    stress_run(&stress, body);
    for (uint32_t id = 0; id < IDS; id++) {
        struct wp_claim_key key = key_of(id);
        bool live = wp_claim_table_find(&table, key.hash, &ref);

        /* What lives is the last that began, and was shown. */
        STRESS_CHECK(!live ||
                     wp_claim_ref_pack(ref) == atomic_load(&shown[id]));
        end_shown(id);
        STRESS_CHECK(!wp_claim_table_find(&table, key.hash, &ref));
    }
    STRESS_CHECK(atomic_load(&begun) == atomic_load(&ended));
    STRESS_CHECK(followed == told && n_waiting == 0);
    STRESS_CHECK(stress.ops < 10000 || atomic_load(&refused) > 0);
    for (uint32_t id = 0; id < CLAIMS; id++) {
        struct wp_claim_key key = key_of(id);

        STRESS_CHECK(wp_claim_table_begin(&table, &key, &ref) == WP_CLAIM_NEW);
    }
    wp_claim_table_fini(&table);
    (void)printf("claim_table: ok, %llu begun, %llu refused, %llu followers\n",
                 (unsigned long long)atomic_load(&begun),
                 (unsigned long long)atomic_load(&refused),
                 (unsigned long long)told);
    fill_rounds(&stress);
    return 0;
}
