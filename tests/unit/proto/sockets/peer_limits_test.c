/* The bounds of connections: by example, against a model, and with leavers on
 * other threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "proto/sockets/peer_limits.h"
#include "pool/base/rng.h"

static struct wp_peer
peer_of(const char *text)
{
    struct sockaddr_in ipv4 = {.sin_family = AF_INET};
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &ipv4.sin_addr) == 1) {
        return wp_peer_from_address((const struct sockaddr *)&ipv4);
    }
    assert_int_equal(inet_pton(AF_INET6, text, &ipv6.sin6_addr), 1);
    return wp_peer_from_address((const struct sockaddr *)&ipv6);
}

static bool
same(struct wp_peer a, struct wp_peer b)
{
    return a.kind == b.kind && a.id == b.id;
}

static struct wp_peer_limits *
create(uint32_t all, uint32_t each, uint32_t privileged, uint32_t users)
{
    struct wp_err err;
    struct wp_peer_limits *limits = wp_peer_limits_create(
        &(struct wp_peer_limits_config){.all_max = all,
                                        .peer_max = each,
                                        .privileged_kept = privileged,
                                        .unix_kept = users},
        &err);

    assert_non_null(limits);
    return limits;
}

/* Enters until it is refused; how often it was admitted. */
static uint32_t
enter_all(struct wp_peer_limits *limits, struct wp_peer peer,
          enum wp_peer_verdict expected)
{
    struct wp_peer_ticket ticket;
    uint32_t n = 0;
    enum wp_peer_verdict verdict;

    while ((verdict = wp_peer_limits_enter(limits, peer, &ticket)) ==
           WP_PEER_ADMITTED) {
        n++;
    }
    assert_int_equal(verdict, expected);
    return n;
}

static void
test_who_is_one_peer(void **state)
{
    (void)state;
    assert_true(same(peer_of("10.1.2.3"), peer_of("::ffff:10.1.2.3")));
    assert_false(same(peer_of("10.1.2.3"), peer_of("10.1.2.4")));
    assert_true(same(peer_of("127.0.0.1"), peer_of("127.9.8.7")));
    assert_true(same(peer_of("2001:db8:0:1::1"), peer_of("2001:db8:0:1:9::")));
    assert_false(same(peer_of("2001:db8:0:1::1"), peer_of("2001:db8:0:2::1")));
    assert_false(same(wp_peer_from_uid(7, false), peer_of("0.0.0.7")));
    assert_true(same(wp_peer_from_uid(7, false), wp_peer_from_uid(7, true)));
    assert_true(
        same(wp_peer_from_address(&(struct sockaddr){.sa_family = AF_UNIX}),
             peer_of("0.0.0.0")));
}

static void
test_each_peer_has_its_bound(void **state)
{
    struct wp_peer_limits *limits = create(100, 10, 0, 0);

    (void)state;
    assert_int_equal(
        enter_all(limits, peer_of("10.0.0.1"), WP_PEER_OVER_ITS_BOUND), 10);
    assert_int_equal(
        enter_all(limits, peer_of("10.0.0.2"), WP_PEER_OVER_ITS_BOUND), 10);
    assert_int_equal(
        enter_all(limits, wp_peer_from_uid(5, false), WP_PEER_OVER_ITS_BOUND),
        10);
    /* The privileged are bounded by all only. */
    assert_int_equal(
        enter_all(limits, wp_peer_from_uid(0, true), WP_PEER_OVER_ALL), 70);
    wp_peer_limits_destroy(limits);
}

static struct wp_peer_ticket
enter(struct wp_peer_limits *limits, struct wp_peer peer)
{
    struct wp_peer_ticket ticket;

    assert_int_equal(wp_peer_limits_enter(limits, peer, &ticket),
                     WP_PEER_ADMITTED);
    return ticket;
}

static void
test_who_was_cut_waits_for_turns(void **state)
{
    const int turns = 100; /* In 2 s. */
    struct wp_peer_limits *limits = create(1000, 0, 0, 0);
    struct wp_peer bad = peer_of("10.0.0.1");
    struct wp_peer_ticket cut = enter(limits, bad);
    int64_t t = 5 * WP_NS_PER_S;

    (void)state;
    assert_int_equal(wp_peer_limits_wait_ns(limits, cut, t), 0);
    assert_int_equal(wp_peer_limits_wait_ns(limits, enter(limits, bad), t), 0);
    wp_peer_limits_watch(limits, cut, t);
    for (int i = 0; i <= turns; i++) {
        assert_int_equal(wp_peer_limits_wait_ns(limits, enter(limits, bad), t),
                         i * 20 * WP_NS_PER_MS);
    }
    /* Those who wait are as many as may; a turn later one more is let in. */
    assert_int_equal(wp_peer_limits_wait_ns(limits, enter(limits, bad), t),
                     WP_TIME_NEVER);
    t += 20 * WP_NS_PER_MS;
    assert_int_equal(wp_peer_limits_wait_ns(limits, enter(limits, bad), t),
                     2 * WP_NS_PER_S);
    /* Others are not touched, and it is forgotten in time. */
    assert_int_equal(
        wp_peer_limits_wait_ns(limits, enter(limits, peer_of("10.0.0.2")), t),
        0);
    t += 2 * WP_NS_PER_S;
    assert_int_equal(wp_peer_limits_wait_ns(limits, enter(limits, bad), t), 0);
    wp_peer_limits_destroy(limits);
}

static void
test_the_privileged_never_wait(void **state)
{
    struct wp_peer_limits *limits = create(10, 0, 0, 0);
    struct wp_peer root = wp_peer_from_uid(0, true);
    struct wp_peer_ticket cut = enter(limits, root);

    (void)state;
    wp_peer_limits_watch(limits, cut, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wp_peer_limits_wait_ns(limits, enter(limits, root), 1),
                         0);
    }
    wp_peer_limits_destroy(limits);
}

/* What a peer did is not held against who has its entry later. */
static void
test_an_entry_is_used_again_unwatched(void **state)
{
    struct wp_peer_limits *limits = create(1, 0, 0, 0);

    (void)state;
    for (int i = 0; i < 8; i++) {
        struct wp_peer_ticket ticket =
            enter(limits, wp_peer_from_uid((uid_t)(100 + i), false));

        assert_int_equal(wp_peer_limits_wait_ns(limits, ticket, 1), 0);
        wp_peer_limits_watch(limits, ticket, 1);
        wp_peer_limits_leave(limits, ticket);
    }
    wp_peer_limits_destroy(limits);
}

static void
test_shares_are_kept(void **state)
{
    struct wp_peer_limits *limits = create(100, 0, 10, 20);

    (void)state;
    /* Strangers from anywhere get 70, users 20 more, root the rest. */
    assert_int_equal(enter_all(limits, peer_of("10.0.0.1"), WP_PEER_OVER_ALL),
                     70);
    assert_int_equal(enter_all(limits, peer_of("10.0.0.2"), WP_PEER_OVER_ALL),
                     0);
    assert_int_equal(
        enter_all(limits, wp_peer_from_uid(5, false), WP_PEER_OVER_ALL), 20);
    assert_int_equal(enter_all(limits, peer_of("10.0.0.2"), WP_PEER_OVER_ALL),
                     0);
    assert_int_equal(
        enter_all(limits, wp_peer_from_uid(0, true), WP_PEER_OVER_ALL), 10);
    wp_peer_limits_destroy(limits);

    /* A share that is used up by its own does not shrink others' part twice. */
    limits = create(100, 0, 10, 20);
    assert_int_equal(
        enter_all(limits, wp_peer_from_uid(5, false), WP_PEER_OVER_ALL), 90);
    assert_int_equal(
        enter_all(limits, wp_peer_from_uid(0, true), WP_PEER_OVER_ALL), 10);
    wp_peer_limits_destroy(limits);
}

static void
test_what_is_kept_leaves_room(void **state)
{
    struct wp_err err;

    (void)state;
    assert_null(wp_peer_limits_create(
        &(struct wp_peer_limits_config){
            .all_max = 30, .privileged_kept = 10, .unix_kept = 20},
        &err));
    assert_int_equal(err.status, WP_INVALID_ARGUMENT);
    assert_null(wp_peer_limits_create(
        &(struct wp_peer_limits_config){.all_max = 30,
                                        .privileged_kept = UINT32_MAX,
                                        .unix_kept = UINT32_MAX},
        &err));
    wp_peer_limits_destroy(NULL);
}

static struct wp_peer_ticket
entered(struct wp_peer_limits *limits, struct wp_peer peer)
{
    struct wp_peer_ticket ticket = {0};

    assert_int_equal(wp_peer_limits_enter(limits, peer, &ticket),
                     WP_PEER_ADMITTED);
    return ticket;
}

/* Begins until it is refused; how many calls were admitted. */
static uint32_t
begin_all(struct wp_peer_limits *limits, struct wp_peer_ticket ticket,
          enum wp_peer_verdict expected)
{
    enum wp_peer_verdict verdict;
    uint32_t n = 0;

    while ((verdict = wp_peer_limits_begin_call(limits, ticket)) ==
           WP_PEER_ADMITTED) {
        n++;
    }
    assert_int_equal(verdict, expected);
    return n;
}

static void
test_calls_have_their_bounds(void **state)
{
    const struct wp_peer_limits_config config = {
        .all_max = 4,
        .calls_max = 20,
        .peer_calls_max = 12,
        .privileged_calls_kept = 2,
    };
    struct wp_err err;
    struct wp_peer_limits *limits = wp_peer_limits_create(&config, &err);
    struct wp_peer_ticket one = entered(limits, peer_of("10.0.0.1"));
    struct wp_peer_ticket again = entered(limits, peer_of("10.0.0.1"));
    struct wp_peer_ticket other = entered(limits, peer_of("10.0.0.2"));
    struct wp_peer_ticket root = entered(limits, wp_peer_from_uid(0, true));

    (void)state;
    /* By whichever of its connections a peer calls. */
    assert_int_equal(begin_all(limits, one, WP_PEER_OVER_ITS_BOUND), 12);
    assert_int_equal(begin_all(limits, again, WP_PEER_OVER_ITS_BOUND), 0);
    assert_int_equal(begin_all(limits, other, WP_PEER_OVER_ALL), 6);
    assert_int_equal(begin_all(limits, root, WP_PEER_OVER_ALL), 2);
    wp_peer_limits_end_call(limits, one);
    assert_int_equal(begin_all(limits, root, WP_PEER_OVER_ALL), 1);
    assert_int_equal(begin_all(limits, again, WP_PEER_OVER_ALL), 0);

    /* What was refused has left nothing behind. */
    for (int i = 0; i < 11; i++) {
        wp_peer_limits_end_call(limits, again);
    }
    for (int i = 0; i < 3; i++) {
        wp_peer_limits_end_call(limits, root);
    }
    for (int i = 0; i < 6; i++) {
        wp_peer_limits_end_call(limits, other);
    }
    assert_int_equal(begin_all(limits, root, WP_PEER_OVER_ALL), 20);
    wp_peer_limits_destroy(limits);
}

static void
test_calls_outlive_their_connection(void **state)
{
    const struct wp_peer_limits_config config = {
        .all_max = 2, .calls_max = 8, .peer_calls_max = 3};
    struct wp_err err;
    struct wp_peer_limits *limits = wp_peer_limits_create(&config, &err);
    struct wp_peer_ticket left = entered(limits, peer_of("10.0.0.1"));
    struct wp_peer_ticket back;

    (void)state;
    assert_int_equal(begin_all(limits, left, WP_PEER_OVER_ITS_BOUND), 3);
    wp_peer_limits_leave(limits, left);
    for (uint32_t i = 0; i < 100; i++) { /* Entries are reused. */
        struct sockaddr_in ipv4 = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(0x0b000000 + i)};

        back = entered(limits,
                       wp_peer_from_address((const struct sockaddr *)&ipv4));
        assert_int_equal(wp_peer_limits_begin_call(limits, back),
                         WP_PEER_ADMITTED);
        wp_peer_limits_end_call(limits, back);
        wp_peer_limits_leave(limits, back);
    }
    back = entered(limits, peer_of("10.0.0.1"));
    assert_int_equal(begin_all(limits, back, WP_PEER_OVER_ITS_BOUND), 0);
    for (int i = 0; i < 3; i++) {
        wp_peer_limits_end_call(limits, left);
    }
    assert_int_equal(begin_all(limits, back, WP_PEER_OVER_ITS_BOUND), 3);
    wp_peer_limits_destroy(limits);
}

/* --- against a model --- */

enum {
    MODEL_PEERS = 200,
    MODEL_ALL = 24,
    MODEL_EACH = 5,
    MODEL_PRIVILEGED = 3,
    MODEL_USERS = 4,
    MODEL_STEPS = 200000,
};

struct held {
    struct wp_peer_ticket ticket;
    uint32_t peer;
};

static struct wp_peer
model_peer(uint32_t n)
{
    struct sockaddr_in ipv4 = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(0x0a000000 + n)};
    struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6};

    if (n % 8 == 0) {
        return wp_peer_from_uid(n, n % 16 == 0);
    }
    if (n % 2 == 0) {
        return wp_peer_from_address((const struct sockaddr *)&ipv4);
    }
    ipv6.sin6_addr.s6_addr[0] = 0x20;
    ipv6.sin6_addr.s6_addr[7] = (uint8_t)n;
    return wp_peer_from_address((const struct sockaddr *)&ipv6);
}

/* Says from first principles what the verdict must be. */
static enum wp_peer_verdict
model_verdict(const struct held *held, uint32_t n_held, uint32_t n)
{
    struct wp_peer peer = model_peer(n);
    uint32_t own = 0;
    uint32_t privileged = 0;
    uint32_t users = 0;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n_held; i++) {
        struct wp_peer other = model_peer(held[i].peer);

        own += held[i].peer == n;
        privileged += other.privileged;
        users += !other.privileged && other.kind == WP_PEER_UNIX;
    }
    if (!peer.privileged && privileged < MODEL_PRIVILEGED) {
        kept += MODEL_PRIVILEGED - privileged;
    }
    if (peer.kind != WP_PEER_UNIX && users < MODEL_USERS) {
        kept += MODEL_USERS - users;
    }
    if (n_held + kept >= MODEL_ALL) {
        return WP_PEER_OVER_ALL;
    }
    return !peer.privileged && own >= MODEL_EACH ? WP_PEER_OVER_ITS_BOUND
                                                 : WP_PEER_ADMITTED;
}

static void
test_random_steps_against_a_model(void **state)
{
    struct wp_peer_limits *limits =
        create(MODEL_ALL, MODEL_EACH, MODEL_PRIVILEGED, MODEL_USERS);
    struct held held[MODEL_ALL];
    uint32_t n_held = 0;
    uint32_t seen[3] = {0};
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 7);
    for (int step = 0; step < MODEL_STEPS; step++) {
        /* Few peers at a time, others later: bounds are met, entries reused. */
        uint32_t n = (uint32_t)(wp_rng_below(&rng, 12) + (uint32_t)step / 997) %
                     MODEL_PEERS;
        uint32_t at = n_held != 0 ? (uint32_t)wp_rng_below(&rng, n_held) : 0;

        if (n_held != 0 && wp_rng_below(&rng, 100) < 40) {
            wp_peer_limits_leave(limits, held[at].ticket);
            held[at] = held[--n_held];
        } else {
            struct held one = {.peer = n};
            enum wp_peer_verdict verdict =
                wp_peer_limits_enter(limits, model_peer(n), &one.ticket);

            assert_int_equal(verdict, model_verdict(held, n_held, n));
            seen[verdict]++;
            if (verdict == WP_PEER_ADMITTED) {
                held[n_held++] = one;
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_true(seen[i] > 100);
    }
    while (n_held != 0) {
        wp_peer_limits_leave(limits, held[--n_held].ticket);
    }
    assert_int_equal(
        enter_all(limits, wp_peer_from_uid(0, true), WP_PEER_OVER_ALL),
        MODEL_ALL);
    wp_peer_limits_destroy(limits);
}

/* --- leavers on other threads --- */

enum {
    RING = 64,
    LEAVERS = 3,
    ENTRIES = 60000,
};

struct leaver {
    struct wp_peer_limits *limits;
    /* One producer, one consumer; the counts are of what went through. */
    struct wp_peer_ticket ring[RING];
    _Atomic(uint32_t) put;
    _Atomic(uint32_t) taken;
    _Atomic(bool) stop;
};

static void *
leave_all(void *arg)
{
    struct leaver *leaver = arg;

    for (;;) {
        bool stop = atomic_load(&leaver->stop);
        uint32_t taken = atomic_load(&leaver->taken);

        if (taken != atomic_load(&leaver->put)) {
            wp_peer_limits_leave(leaver->limits, leaver->ring[taken % RING]);
            atomic_store(&leaver->taken, taken + 1);
        } else if (stop) {
            return NULL;
        } else {
            (void)sched_yield();
        }
    }
}

static void
test_leaving_on_other_threads(void **state)
{
    /* Fewer places than the leavers may hold: the bound is met all the time. */
    struct wp_peer_limits *limits = create(RING, 0, 0, 0);
    static struct leaver leavers[LEAVERS];
    pthread_t threads[LEAVERS];
    struct wp_peer_ticket ticket;

    (void)state;
    for (int i = 0; i < LEAVERS; i++) {
        leavers[i].limits = limits;
        assert_int_equal(
            pthread_create(&threads[i], NULL, leave_all, &leavers[i]), 0);
    }
    for (uint32_t i = 0; i < ENTRIES;) {
        struct leaver *leaver = &leavers[i % LEAVERS];
        uint32_t put = atomic_load(&leaver->put);

        if (put - atomic_load(&leaver->taken) == RING ||
            wp_peer_limits_enter(limits, model_peer(i % 199), &ticket) !=
                WP_PEER_ADMITTED) {
            (void)sched_yield();
            continue;
        }
        leaver->ring[put % RING] = ticket;
        atomic_store(&leaver->put, put + 1);
        i++;
    }
    for (int i = 0; i < LEAVERS; i++) {
        atomic_store(&leavers[i].stop, true);
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(enter_all(limits, peer_of("10.9.9.9"), WP_PEER_OVER_ALL),
                     RING);
    wp_peer_limits_destroy(limits);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_one_peer),
        cmocka_unit_test(test_each_peer_has_its_bound),
        cmocka_unit_test(test_who_was_cut_waits_for_turns),
        cmocka_unit_test(test_the_privileged_never_wait),
        cmocka_unit_test(test_an_entry_is_used_again_unwatched),
        cmocka_unit_test(test_shares_are_kept),
        cmocka_unit_test(test_what_is_kept_leaves_room),
        cmocka_unit_test(test_calls_have_their_bounds),
        cmocka_unit_test(test_calls_outlive_their_connection),
        cmocka_unit_test(test_random_steps_against_a_model),
        cmocka_unit_test(test_leaving_on_other_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
