/* tests/support/k8s/api_recorder.h - k8s/api/api.h without a server, for unit
 * tests.
 *
 * Link it with wp_k8s_core instead of wp_k8s_api. Every call is kept; nothing
 * is answered until the test says so, so "never from within the call" holds.
 *
 * By hand: look at a call and answer it.
 *
 *     wp_recorder_answer(call, WP_ABORTED, NULL);
 *
 * By a small server in memory, which merges patches, checks resourceVersion and
 * uid, assigns uid, resourceVersion and generation, and feeds stores as a watch
 * does; faults are planned per call:
 *
 *     wp_recorder_serve(api);
 *     wp_recorder_feed(api, store);             (one for each kind)
 *     wp_recorder_put(api, WP_KIND_SANDBOX, "{...}");
 *     wp_recorder_plan(api, &(struct wp_recorder_fault){
 *         .verb = WP_VERB_PATCH, .kind = WP_KIND_SANDBOX,
 *         .status = WP_UNKNOWN_OUTCOME, .effect = true});
 *     wp_recorder_run(api);                     (until nothing is under way)
 *
 * Not a server: no schemas, no defaults, no garbage collection but the one that
 * is asked for. */
#ifndef WP_TESTS_SUPPORT_K8S_API_RECORDER_H
#define WP_TESTS_SUPPORT_K8S_API_RECORDER_H

#include <jansson.h>

#include "k8s/api/api.h"
#include "k8s/watch/store.h"

enum wp_verb {
    WP_VERB_GET,
    WP_VERB_LIST,
    WP_VERB_CHECK, /* A POST that makes nothing. */
    WP_VERB_POST,  /* From here on they write. */
    WP_VERB_PUT,
    WP_VERB_PATCH,
    WP_VERB_DELETE,
    WP_VERB_WRITES, /* As a filter: any that writes. */
    WP_VERB_ANY,    /* As a filter: all. */
};

/* Valid until the recorder is destroyed. Texts are "" where nothing was
 * said. */
struct wp_recorded {
    struct wp_api *api;
    enum wp_verb verb;
    enum wp_kind kind;
    enum wp_http_priority priority;
    char ns[64];
    char name[256];
    char subresource[32];
    json_t *body; /* NULL: none. */
    /* Of a delete. */
    char uid[64];
    char resource_version[32];
    bool foreground;
    /* Of a list. */
    char label_selector[256];
    char cont[64];
    uint32_t limit;
    /* Of a check. */
    bool strict;
    bool answered;
    wp_api_done *done;
    void *ctx;
};

/* A `struct wp_api *` for the code under test; wp_api_destroy frees it, after
 * it has answered what is left with CANCELLED. */
struct wp_api *wp_recorder_create(void);

/* --- What was called --- */

uint32_t wp_recorder_calls(const struct wp_api *api);
/* The i-th of all, from 0; fails the test when there are not so many. */
struct wp_recorded *wp_recorder_call(const struct wp_api *api, uint32_t i);
/* How many of this verb (or WP_VERB_WRITES, _ANY) about this kind (or
 * WP_KIND_COUNT: all). */
uint32_t wp_recorder_count(const struct wp_api *api, enum wp_verb verb,
                           enum wp_kind kind);
/* The oldest such call that was not answered; NULL when there is none. */
struct wp_recorded *wp_recorder_open(const struct wp_api *api,
                                     enum wp_verb verb, enum wp_kind kind);
/* The newest such call, answered or not; NULL when there is none. */
struct wp_recorded *wp_recorder_last(const struct wp_api *api,
                                     enum wp_verb verb, enum wp_kind kind);
/* The text under these keys of its body; "" when there is none. */
const char *wp_recorded_text(const struct wp_recorded *call, const char *key,
                             ...) __attribute__((sentinel));

/* --- Answers by hand --- */

/* Once per call. object is borrowed; the code is the status' usual one. */
void wp_recorder_answer(struct wp_recorded *call, enum wp_status status,
                        json_t *object);
void wp_recorder_answer_full(struct wp_recorded *call,
                             const struct wp_api_result *result);

/* --- The small server --- */

/* From now on wp_recorder_run answers. */
void wp_recorder_serve(struct wp_api *api);
/* Tells the store of its kind (owned by the test) what happens, as a watch. */
void wp_recorder_feed(struct wp_api *api, struct wp_store *store,
                      enum wp_kind kind);
/* While held, changes are not told: caches are stale. Letting go tells all. */
void wp_recorder_hold(struct wp_api *api, bool held);
/* Answers and tells until nothing is under way; returns how many calls were
 * answered. Fails the test after 100,000. */
uint32_t wp_recorder_run(struct wp_api *api);
/* Answers one call, the oldest; tells nobody. False when there is none. */
bool wp_recorder_step(struct wp_api *api);
/* Tells the stores what they have not been told, unless held. */
void wp_recorder_notify(struct wp_api *api);
/* The wall clock of the server, for creationTimestamp; begins in 2026. */
void wp_recorder_set_time(struct wp_api *api, int64_t wall_ns);
/* The CRD of claims is from before status.sandbox.serviceFQDN: it is dropped. */
void wp_recorder_set_older_claims(struct wp_api *api);
/* The number from which uids and generated names count on; for a second server
 * that goes on with the objects of a first one. */
void wp_recorder_number_from(struct wp_api *api, int64_t number);

/* What another client does: the object is made or replaced as it is, with uid,
 * resourceVersion, generation and creationTimestamp where it has none. Returns
 * it, borrowed. */
const json_t *wp_recorder_put(struct wp_api *api, enum wp_kind kind,
                              const char *text);
/* Merges a patch, of the object and its status. Fails when it is not there. */
const json_t *wp_recorder_merge(struct wp_api *api, enum wp_kind kind,
                                const char *ns, const char *name,
                                const char *patch);
/* It goes, whatever finalizers it has. */
void wp_recorder_remove(struct wp_api *api, enum wp_kind kind, const char *ns,
                        const char *name);
/* Removes what is controlled by nobody that is there, until all are. */
void wp_recorder_collect(struct wp_api *api);
/* Borrowed; NULL when there is none. */
const json_t *wp_recorder_object(const struct wp_api *api, enum wp_kind kind,
                                 const char *ns, const char *name);
uint32_t wp_recorder_objects(const struct wp_api *api, enum wp_kind kind);
/* The i-th of the kind, in the order they were made. */
const json_t *wp_recorder_object_at(const struct wp_api *api, enum wp_kind kind,
                                    uint32_t i);

/* The next call that matches is answered so, once (or `times`). Texts are
 * borrowed until it has been. */
struct wp_recorder_fault {
    enum wp_verb verb;       /* WP_VERB_ANY, _WRITES: several. */
    enum wp_kind kind;       /* WP_KIND_COUNT: all. */
    const char *name;        /* NULL: any. */
    const char *subresource; /* NULL: any; "": none. */
    uint32_t skip;           /* Matching calls that pass before. */
    uint32_t times;          /* 0 is 1. */
    enum wp_status status;
    int code;               /* 0: the status' usual one. */
    const char *message;    /* The server's words; NULL: the status' text. */
    json_t *object;         /* The Status; NULL: none. Borrowed. */
    bool effect;            /* It is carried out all the same. */
    int64_t retry_after_ns; /* 0: none. */
    bool namespace_leaves;  /* As in a struct wp_api_result. */
};
void wp_recorder_plan(struct wp_api *api,
                      const struct wp_recorder_fault *fault);
/* Faults that have not been used up; 0 at the end of a good test. */
uint32_t wp_recorder_planned(const struct wp_api *api);

#endif
