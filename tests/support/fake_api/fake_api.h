/* tests/support/fake_api/fake_api.h - a Kubernetes API server that misbehaves on purpose.
 *
 * It keeps the objects of the kinds in k8s/objects/kind.h in memory and speaks the
 * verbs that this project uses, over plain HTTP/1.1 on a loopback port that the
 * kernel chose, in a thread of its own: lists in pages, watches, merge patches,
 * applies, preconditions, finalizers. On wish it also plays the kubelet, the
 * controller of Sandbox objects and the garbage collector. Rules make its
 * answers wrong, late or lost; watches can be stalled, cut or fed with any
 * bytes; the server can be taken down and brought up.
 *
 * Every function may be called from any one thread at a time; each waits for
 * the server's thread. What cannot be (memory, a socket) aborts. */
#ifndef WP_TESTS_SUPPORT_FAKE_API_FAKE_API_H
#define WP_TESTS_SUPPORT_FAKE_API_FAKE_API_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "k8s/objects/kind.h"

struct fake_api; /* Opaque. */

struct fake_api_options {
    /* Pods become Running and Ready, with an IP, after so long; -1: never. */
    int64_t pod_ready_ms;
    /* A Pod that was deleted is gone after so long. -1: at once. */
    int64_t pod_stop_ms;
    /* The same of Sandbox objects, for tests without their controller. */
    int64_t sandbox_ready_ms;
    bool gc;             /* What an owner leaves behind is deleted. */
    int64_t bookmark_ms; /* 0: every 60 s. */
    /* A watch from a version that is gone is answered 200 and an ERROR event,
     * as the watch cache does it; else with the status 410. */
    bool gone_as_event;
    /* A watch from a version that is still to come is silent until then, and
     * leaves out what is older, as the watch cache does it; else it is answered
     * with the status 504. */
    bool future_silent;
};
/* No kubelet, no controllers, no garbage collector. */
void fake_api_options_init(struct fake_api_options *options);

struct fake_api *fake_api_start(const struct fake_api_options *options);
void fake_api_stop(struct fake_api *api); /* NULL is fine. */
uint16_t fake_api_port(const struct fake_api *api);
/* "http://127.0.0.1:PORT"; lives as long as the server. */
const char *fake_api_url(const struct fake_api *api);

/* What some other client does. Objects are taken; answers are new references
 * that are the caller's. put creates, or replaces all but the status (which it
 * replaces too when there is one). NULL: refused, or there is none. */
json_t *fake_api_put(struct fake_api *api, enum wp_kind kind, json_t *object);
json_t *fake_api_get(struct fake_api *api, enum wp_kind kind, const char *ns,
                     const char *name);
bool fake_api_delete(struct fake_api *api, enum wp_kind kind, const char *ns,
                     const char *name);
/* An array, in the order of namespace and name. */
json_t *fake_api_all(struct fake_api *api, enum wp_kind kind);
uint64_t fake_api_version(struct fake_api *api);

/* Requests, as bits. A list's later pages are no lists here. */
enum fake_verb {
    FAKE_GET = 1,
    FAKE_LIST = 2,
    FAKE_CONTINUE = 4,
    FAKE_WATCH = 8,
    FAKE_POST = 16,
    FAKE_PUT = 32,
    FAKE_PATCH = 64,
    FAKE_DELETE = 128,
    FAKE_CHECK = 256, /* A POST that makes nothing (dryRun). */
    FAKE_WRITES = FAKE_POST | FAKE_PUT | FAKE_PATCH | FAKE_DELETE,
    FAKE_ANY = 511,
};

enum fake_action {
    FAKE_STATUS,      /* Answer with code and do nothing. */
    FAKE_DROP_BEFORE, /* Close the connection, having done nothing. */
    FAKE_DROP_AFTER,  /* Do it, and close without an answer. */
    FAKE_HANG,        /* Do it, and never answer. */
    FAKE_DELAY,       /* Do it ms later. */
    FAKE_HOLD,        /* Do it when the rules are cleared. */
    FAKE_DRIP,        /* The answer goes in pieces of so many bytes, one each
                       * ms; a watch's events too. */
    FAKE_MANGLE,      /* The answer's body is cut in half, but well framed. */
};

/* A rule; the first that fits a request counts. */
struct fake_fault {
    uint32_t verbs;          /* Bits of enum fake_verb. */
    int kind;                /* enum wp_kind; -1: any. */
    const char *subresource; /* "" none, "status"; NULL: whatever. */
    const char *agent;       /* What its User-Agent begins with; NULL: any. */
    enum fake_action action;
    int code;              /* 409, 410, 429, 500... */
    int64_t retry_after_s; /* -1: no such header. */
    int64_t ms;
    uint32_t bytes;
    uint32_t skip;  /* Lets so many pass first. */
    uint32_t every; /* Then each n-th that fits; 0 is 1. */
    uint32_t count; /* Ends after so many; 0: never. */
};
void fake_api_fault(struct fake_api *api, const struct fake_fault *fault);
void fake_api_faults_clear(struct fake_api *api);

/* What happens to the watches of a kind (-1: all) that are open now. */
enum fake_watch_act {
    FAKE_WATCH_CLOSE, /* A proper end. */
    FAKE_WATCH_CUT,   /* In the middle of a line. */
    FAKE_WATCH_STALL, /* Nothing more comes, not even an end. */
    FAKE_WATCH_SEND,  /* These bytes; a newline is not added. */
};
/* bytes is for SEND. Returns how many watches there were. */
uint32_t fake_api_watches(struct fake_api *api, int kind,
                          enum fake_watch_act act, const char *bytes);
uint32_t fake_api_watches_open(struct fake_api *api, int kind);

/* Forgets old versions: watches from them and pages of lists that were begun
 * are gone. */
void fake_api_compact(struct fake_api *api);
/* Drops every connection and refuses new ones, until up. */
void fake_api_down(struct fake_api *api);
void fake_api_up(struct fake_api *api);
/* As if a backup of now had been brought back later: save, then restore. The
 * version goes back, too; or with restore_bumped it goes on far beyond all that
 * were seen, and they are gone, as with etcdutl's --bump-revision
 * --mark-compacted. */
void fake_api_save(struct fake_api *api);
void fake_api_restore(struct fake_api *api);
void fake_api_restore_bumped(struct fake_api *api);

/* Requests that came, whatever the answer; kind -1: any. */
uint64_t fake_api_count(struct fake_api *api, uint32_t verbs, int kind);
/* Connections that were accepted. */
uint64_t fake_api_connections(struct fake_api *api);
/* What can be asked for as text, too: the operations of fake_api_main's control
 * port. args is borrowed; the answer is the caller's. NULL: no such thing.
 *
 *   requests {"from": n}: [{n, verb, kind, ns, name, subresource, code, begin_ns,
 *                           end_ns, agent, token, body}], of writes with their
 *                           bodies
 *   history {"from": version}: [{version, type, by, kind, object}], compacted or
 *                              not; by: the bearer token of who wrote it, or ""
 *   stats: {requests: {"VERB plural": n}, watches, held, connections, version}
 *   fault {verbs: "PATCH|POST", kind: plural, action: "status", ...}, clear
 *   watches {kind, act: "cut", bytes}, compact, down, up,
 *   save, restore, restore_bumped
 *   put {kind, object}, delete {kind, ns, name}, all {kind} */
json_t *fake_api_control(struct fake_api *api, const char *operation,
                         const json_t *args);

#endif
