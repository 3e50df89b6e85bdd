/* tests/support/k8s/election_rig.h - contenders with clocks of their own against a
 * server that keeps one Lease object, as API servers do. It takes the place of
 * the API client. */
#ifndef WP_TESTS_SUPPORT_K8S_ELECTION_RIG_H
#define WP_TESTS_SUPPORT_K8S_ELECTION_RIG_H

#include "k8s/lead/election.h"
#include "pool/base/rng.h"
#include "tests/support/pool/manual_clock.h"

enum {
    ELECTION_CONTENDERS = 3,
    ELECTION_CALLS_MAX = 64,
};

struct election_rig;

enum election_verb {
    ELECTION_GET,
    ELECTION_POST,
    ELECTION_PUT,
};

/* What becomes of a call. */
enum election_fate {
    ELECTION_SERVED,
    ELECTION_ANSWER_LOST, /* Done, but the client is told it is not known. */
    ELECTION_LOST,        /* Not done, and the same. */
    ELECTION_LATE,        /* Nothing, until the test delivers it. */
    ELECTION_FORBIDDEN,   /* Writes are refused to this account. */
};

struct election_call {
    enum election_verb verb;
    struct wp_api *from;
    json_t *body;
    wp_api_done *done;
    void *ctx;
    bool late;
};

/* One contender's way to the server. */
struct wp_api {
    struct election_rig *rig;
    enum election_fate fate; /* Of what it sends. */
    uint32_t sent;
};

struct election_contender {
    struct wp_api api;
    struct wp_clock_manual clock;
    struct wp_election *election;
    char name[8];
    uint32_t begun; /* on_leading calls. */
    uint32_t ended;
    bool led; /* By the callbacks. */
    bool released;
    char told[32]; /* The leader that on_following named. */
};

struct election_rig {
    bool by_default; /* Contenders have the times that are built in. */
    struct event_base *base;
    json_t *lease; /* NULL: not there. */
    uint64_t version;
    struct election_call calls[ELECTION_CALLS_MAX];
    size_t calls_len;
    struct election_contender all[ELECTION_CONTENDERS];
    struct wp_rng rng;
    uint32_t faults; /* Percent of calls that go wrong, by chance. */
    uint32_t conflicts;
};

/* cmocka's, for a test of its own: *state is the rig, where nobody contends. */
int election_rig_setup(void **state);
int election_rig_teardown(void **state);
#define ELECTION_TEST(name)                                                    \
    cmocka_unit_test_setup_teardown(name, election_rig_setup,                  \
                                    election_rig_teardown)

/* Contender i, by the name of "c0", "c1"... */
void election_rig_start(struct election_rig *rig, size_t i);
/* It is gone, without a word. */
void election_rig_stop(struct election_rig *rig, size_t i);
/* What wp_election_release calls; of a contender. */
void election_rig_released(void *ctx);

/* Until nothing happens any more at this time. This and election_rig_advance
 * fail the test when two lead. */
void election_rig_settle(struct election_rig *rig);
/* Each clock goes on by its own; one of them may be late or early by a
 * twentieth. */
void election_rig_advance(struct election_rig *rig, int64_t ns);

/* How many believe that they lead. */
uint32_t election_rig_leaders(const struct election_rig *rig);
/* Whose the Lease is; "". */
const char *election_rig_holder(const struct election_rig *rig);
/* The Lease was changed by the test: it gets another version. */
void election_rig_stamp(struct election_rig *rig);
/* Answers call i. */
void election_rig_end_call(struct election_rig *rig, size_t i,
                           enum election_fate fate);

#endif
