/* tests/support/pool/fake_backend.h - a backend without sandboxes, for tests.
 *
 * It keeps the port's contract (pool/backend.h) and checks the pool's half of
 * it: a create for a slot whose sandbox still exists, or past the capacity,
 * aborts. Time comes from the clock given, so that a test owns it.
 *
 *   struct wp_fake_backend fake;
 *   wp_fake_backend_init(&fake, 64, &manual.clock);
 *   config.backend = wp_fake_backend_port(&fake);
 *   pools = wp_pools_create(&config, &err);
 *   wp_fake_backend_attach(&fake, pools);
 *   ...
 *   (void)wp_pools_run(pools);       the pool orders sandboxes
 *   (void)wp_fake_backend_turn(&fake);  those that are due become ready
 *
 * Add tests/support/pool/fake_backend.c to the test's SOURCES. Any thread may call
 * anything but init, attach and fini; reports to the pool are made with no lock
 * held. */
#ifndef WP_TESTS_SUPPORT_POOL_FAKE_BACKEND_H
#define WP_TESTS_SUPPORT_POOL_FAKE_BACKEND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/backend.h"
#include "pool/base/clock.h"
#include "pool/base/list.h"
#include "pool/pool.h"

/* When an ordered sandbox becomes ready. */
enum wp_fake_ready {
    WP_FAKE_READY_NEXT_TURN, /* In the next wp_fake_backend_turn; the default. */
    WP_FAKE_READY_INLINE,    /* Reported from within create. */
    WP_FAKE_READY_TOLD,      /* By wp_fake_backend_make_ready only. */
    WP_FAKE_READY_DELAYED,   /* In the first turn ready_delay_ns later. */
    WP_FAKE_READY_NEVER,     /* Never; the test reports the loss itself. */
};

struct wp_fake_sandbox; /* Private. */

struct wp_fake_backend {
    /* Set by the test at any time while no other thread uses the fake. */
    enum wp_fake_ready ready;
    int64_t ready_delay_ns;
    int64_t destroy_delay_ns;     /* 0: in the next turn. */
    bool destroy_inline;          /* on_destroyed from within destroy. */
    bool repeat_reports;          /* Every report is made twice. */
    enum wp_status create_status; /* What create answers; WP_OK at first. */
    uint64_t creates_first;       /* So many are accepted before that. */
    enum wp_status destroy_status;
    bool passes; /* What `passes` answers. */

    /* Read with wp_fake_backend_counts. */
    struct wp_fake_counts {
        uint64_t creates; /* Accepted ones. */
        uint64_t creates_refused;
        uint64_t destroys; /* First ones of a sandbox. */
        uint64_t destroys_refused;
        uint64_t destroyed;
        uint32_t live; /* Created, not yet destroyed. */
        uint32_t live_max;
        uint32_t warming; /* Live, not yet reported ready. */
    } counts;
    /* The latest order, each part but its ref and name; and its uid. */
    char order[512];
    uint8_t order_uid[WP_UID_LEN];
    /* What `bind` answers; WP_PENDING, the default, keeps the op for
     * wp_fake_backend_bound. */
    enum wp_status bind_status;
    char bind_policy[WP_EGRESS_TEXT_MAX + 1]; /* Of the latest one. */
    const char *unbound; /* What `unbound` answers; NULL at first. */
    char unbound_of[WP_TEMPLATE_NAME_MAX + 2]; /* Which it was asked about. */
    char narrowed[WP_EGRESS_TEXT_MAX + 1]; /* What `narrows` was asked about. */
    const char *beyond;           /* What `narrows` refuses; NULL at first. */
    struct wp_bind_op *binds[64]; /* Kept; the oldest first. */
    uint32_t n_binds;
    /* What `leased` was told. */
    uint32_t notices;
    struct wp_fake_notice {
        struct wp_slot_ref ref;
        uint8_t uid[WP_UID_LEN];
        char pool[WP_POOL_NAME_MAX + 1];
        char sandbox[WP_SANDBOX_NAME_MAX + 1];
        char claim_id[WP_CLAIM_ID_MAX + 1];
        char tenant[WP_TENANT_MAX + 1];
        uint64_t fence;
        int64_t deadline_wall_ms;
        bool keep;
        int64_t freeze_after_ns;
    } notice; /* The latest. */

    /* Private. */
    pthread_mutex_t lock; /* Guards everything above and below. */
    const struct wp_clock *clock;
    struct wp_pools *pools;
    struct wp_fake_sandbox *sandboxes; /* Owned; by slot index. */
    uint32_t cap;
    struct wp_list warming; /* Oldest first. */
    struct wp_list dying;
};

/* cap is slots_max of the pools. Aborts when memory lacks. */
void wp_fake_backend_init(struct wp_fake_backend *fake, uint32_t cap,
                          const struct wp_clock *clock);
void wp_fake_backend_attach(struct wp_fake_backend *fake,
                            struct wp_pools *pools);
void wp_fake_backend_fini(struct wp_fake_backend *fake);
struct wp_backend wp_fake_backend_port(struct wp_fake_backend *fake);
/* The same of a backend whose sandboxes others see too. */
struct wp_backend wp_fake_backend_foreign_port(struct wp_fake_backend *fake);

/* Makes every report that is due: ready and destroyed. Returns how many. */
uint32_t wp_fake_backend_turn(struct wp_fake_backend *fake);
/* Reports the oldest warming sandboxes ready, at most n; returns how many. */
uint32_t wp_fake_backend_make_ready(struct wp_fake_backend *fake, uint32_t n);
/* Reports the oldest warming sandboxes lost, at most n; returns how many. */
uint32_t wp_fake_backend_fail(struct wp_fake_backend *fake, uint32_t n,
                              const char *reason);
/* Reports the sandbox of ref lost (as if it had died); false when there is no
 * such sandbox. It stays live until the pool has it destroyed. */
bool wp_fake_backend_lose(struct wp_fake_backend *fake, struct wp_slot_ref ref,
                          const char *reason);
/* A sandbox that lived before this fake did, ready, under this ref. */
void wp_fake_backend_adopt(struct wp_fake_backend *fake,
                           struct wp_slot_ref ref);
/* A sandbox that somebody else made, warming, under this ref. */
void wp_fake_backend_found(struct wp_fake_backend *fake, struct wp_slot_ref ref,
                           const char *name);
/* The ref of a live sandbox by its name; WP_SLOT_REF_NONE when there is none. */
struct wp_slot_ref wp_fake_backend_find(struct wp_fake_backend *fake,
                                        struct wp_str name);
/* Answers the oldest kept bind; false when there is none. */
bool wp_fake_backend_bound(struct wp_fake_backend *fake, enum wp_status status,
                           const char *reason);
struct wp_fake_counts wp_fake_backend_counts(struct wp_fake_backend *fake);

#endif
