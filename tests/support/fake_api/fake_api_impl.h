/* tests/support/fake_api/fake_api_impl.h - the parts of the fake API server; private. Everything
 * here runs on the server's thread. */
#ifndef WP_TESTS_SUPPORT_FAKE_API_FAKE_API_IMPL_H
#define WP_TESTS_SUPPORT_FAKE_API_FAKE_API_IMPL_H

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/list.h"
#include "tests/support/fake_api/fake_api.h"

enum {
    FAKE_TEXT_MAX = 320,
    FAKE_VERBS = 9,
    FAKE_SNAPSHOTS = 64,
    FAKE_RULES = 32,
    FAKE_LOG_MAX = 500000,
};

/* One request, taken apart. */
struct fake_request {
    uint32_t verb; /* 0: not for an object. */
    char method[8];
    char *path;  /* Decoded, without the query; owned. */
    char *query; /* As it came; owned; "" without. */
    char content_type[64];
    char agent[64];
    char token[64]; /* As what it came with; "": none. */
    json_t *body;   /* NULL without. */
    bool bad_body;
    int kind; /* -1: unknown. */
    char ns[FAKE_TEXT_MAX];
    char name[FAKE_TEXT_MAX];
    char subresource[32];
};

/* An answer before it is sent. object is taken. */
struct fake_answer {
    int code;
    json_t *object;
    int64_t retry_after_s; /* -1: none. */
};

struct fake_watch {
    uint64_t next;  /* Index into the history. */
    uint64_t after; /* Nothing is told until the version is beyond it. */
    struct event *bookmark;
    struct event *timeout;
    char *labels; /* Owned; "" all. */
    char *fields;
    bool bookmarks;
};

struct fake_conn {
    struct fake_api *api;
    struct wp_list node;
    struct bufferevent *bev;
    struct fake_request request;
    bool busy;    /* A request is being answered. */
    bool closing; /* Once all is written. */
    bool stalled; /* Says nothing more. */
    bool held;    /* FAKE_HOLD: its request is not looked at yet. */
    bool watching;
    struct fake_watch watch;
    size_t log;               /* Index of the request in the log. */
    struct event *delay;      /* FAKE_DELAY. */
    struct evbuffer *drip;    /* What goes out slowly; NULL: at once. */
    struct event *drip_timer; /* Exists with drip. */
    uint32_t drip_bytes;
    const struct fake_fault *fault; /* Of this request; NULL. */
    struct fake_fault fault_copy;
};

struct fake_event {
    uint64_t version;
    const char *type; /* "ADDED", "MODIFIED", "DELETED" */
    int kind;
    char by[64];    /* The token of who wrote it; "": none. */
    json_t *before; /* NULL: it came. */
    json_t *object; /* When DELETED: its last state, with this version. */
};

struct fake_rule {
    struct fake_fault fault;
    char subresource[32];
    char agent[32];
    uint32_t seen;
    uint32_t done;
};

struct fake_snapshot {
    uint64_t id; /* 0: free. */
    uint64_t version;
    json_t *items; /* In order. */
};

/* What is done at a later time. */
typedef void fake_later(struct fake_api *api, int kind, const char *key);

struct fake_api {
    struct fake_api_options options;
    struct event_base *base;
    pthread_t thread;
    uint16_t port;
    char url[64];
    int reserve_fd; /* Keeps the port while down. */
    struct evconnlistener *listener;
    struct wp_list conns;
    struct wp_list laters;
    /* Calls from other threads. */
    pthread_mutex_t lock;
    pthread_cond_t done;
    int wake_fd;
    struct event *wake;
    void (*call)(struct fake_api *api, void *arg);
    void *call_arg;
    bool call_done;
    /* Objects: "ns/name" -> object, for each kind. */
    json_t *objects[WP_KIND_COUNT];
    json_t *owned; /* Owner's uid -> {"kind ns/name": true}. */
    json_t *uids;  /* uid -> true, of all there are. */
    uint64_t version;
    uint64_t compacted; /* Versions up to it are gone. */
    struct fake_event *history;
    size_t history_len;
    size_t history_cap;
    uint64_t serial; /* Of uids, names and addresses. */
    const char *by;  /* The token of the request that is being done; "". */
    struct fake_snapshot snapshots[FAKE_SNAPSHOTS];
    uint64_t snapshot_next;
    json_t *saved; /* Of fake_api_save. */
    struct fake_rule rules[FAKE_RULES];
    uint32_t rules_len;
    json_t *log; /* Of requests. */
    uint64_t counts[FAKE_VERBS][WP_KIND_COUNT];
    uint64_t connections;
};

/* --- fake_api.c --- */
/* Runs it on the server's thread and waits. */
void fake_call(struct fake_api *api, void (*run)(struct fake_api *, void *),
               void *arg);
int fake_kind_by_plural(const char *plural);
const char *fake_verb_name(uint32_t verb);
int64_t fake_now_ns(void);
/* Aborts when ok is false: the test program cannot go on. */
void fake_must(bool ok, const char *what);

/* --- fake_api_conn.c: HTTP/1.1 --- */
void fake_conn_open(struct fake_api *api, int fd);
void fake_conn_close(struct fake_conn *conn);

/* How many requests a rule holds back. */
uint32_t fake_conns_held(const struct fake_api *api);

/* Does what was held back, in the order of the connections. */
void fake_conns_let_go(struct fake_api *api);
/* Ends the request. */
void fake_conn_reply(struct fake_conn *conn, struct fake_answer answer);
void fake_conn_stream_begin(struct fake_conn *conn);
void fake_conn_chunk(struct fake_conn *conn, const char *bytes, size_t len);
void fake_conn_stream_end(struct fake_conn *conn);

/* --- fake_api_route.c: from a request to its verb --- */
/* Verb, kind, namespace, name from method and path. */
void fake_request_name(struct fake_request *request);
void fake_route(struct fake_conn *conn);
/* The value of a parameter, decoded, into out; false when it is not there. */
bool fake_query(const struct fake_request *request, const char *key, char *out,
                size_t cap);

/* --- fake_api_verbs.c --- */
struct fake_answer fake_get(struct fake_api *api, struct fake_request *request);
struct fake_answer fake_list(struct fake_api *api,
                             struct fake_request *request);
struct fake_answer fake_post(struct fake_api *api,
                             struct fake_request *request);
struct fake_answer fake_check(struct fake_api *api,
                              struct fake_request *request);
struct fake_answer fake_put(struct fake_api *api, struct fake_request *request);
struct fake_answer fake_patch(struct fake_api *api,
                              struct fake_request *request);
struct fake_answer fake_remove(struct fake_api *api,
                               struct fake_request *request);
/* A Status object. */
struct fake_answer fake_status(int code, const char *reason,
                               const char *message);

/* --- fake_api_store.c: objects and versions --- */
void fake_key(const char *ns, const char *name, char out[2 * FAKE_TEXT_MAX]);
json_t *fake_find(struct fake_api *api, int kind, const char *key);
/* Writes a new state of an object (taken): version, generation, history,
 * watches. Returns it; borrowed. When nothing changed, what there was. */
json_t *fake_commit(struct fake_api *api, int kind, json_t *object);
/* Who owns what, and who is there, after objects were put in place. */
void fake_index_again(struct fake_api *api);
/* Takes it away. */
void fake_drop(struct fake_api *api, int kind, const char *key);
/* A new object (taken) gets its uid and dates; NULL: there is one (dropped). */
json_t *fake_create(struct fake_api *api, int kind, json_t *object);
/* As a DELETE does it: finalizers, grace, then gone. */
void fake_delete(struct fake_api *api, int kind, const char *key,
                 bool foreground);
/* RFC 7396. target is changed, patch borrowed. */
void fake_merge(json_t *target, const json_t *patch);
/* An array of all that match, by namespace and name. */
json_t *fake_sorted(struct fake_api *api, int kind, const char *ns,
                    const char *labels, const char *fields);
bool fake_has_status(int kind);
void fake_time_now(char out[32], bool micro);
const char *fake_meta(const json_t *object, const char *field);

/* --- fake_api_select.c --- */
bool fake_selects(const json_t *object, const char *ns, const char *labels,
                  const char *fields);

/* --- fake_api_watch.c --- */
void fake_watch_begin(struct fake_conn *conn);
void fake_watch_end(struct fake_conn *conn);
void fake_watch_pump(struct fake_conn *conn);
void fake_watch_pump_all(struct fake_api *api);
/* Half of an event, to be cut there. */
void fake_watch_half_line(struct fake_conn *conn);

/* --- fake_api_world.c: kubelet, Sandbox controller, garbage collector --- */
void fake_world_changed(struct fake_api *api, const struct fake_event *event);
void fake_after(struct fake_api *api, int64_t ms, fake_later *run, int kind,
                const char *key);
/* Forgets what was to be done later. */
void fake_laters_free(struct fake_api *api);

/* --- fake_api_control.c --- */
json_t *fake_control(struct fake_api *api, const char *operation,
                     const json_t *args);
void fake_rule_add(struct fake_api *api, const struct fake_fault *fault);
/* The rule for a request, counted; NULL. */
const struct fake_fault *fake_rule_for(struct fake_api *api,
                                       const struct fake_request *request);
uint32_t fake_watches_act(struct fake_api *api, int kind,
                          enum fake_watch_act act, const char *bytes);
void fake_compact_now(struct fake_api *api);
void fake_go_down(struct fake_api *api);
void fake_go_up(struct fake_api *api);
uint32_t fake_watches_count(struct fake_api *api, int kind);

#endif
