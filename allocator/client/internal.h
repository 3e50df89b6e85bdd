/* allocator/client/internal.h - what the files of libwarmpool share.
 *
 * One thread (thread.c) has the connection. A call is a job: its thread puts it
 * into a list, wakes the client's, and waits. A stock's leases lie in memory
 * that all may take from; what was taken, the client's thread finds and tells.
 */
#ifndef WP_ALLOCATOR_CLIENT_INTERNAL_H
#define WP_ALLOCATOR_CLIENT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "allocator/client/warmpool.h"
#include "pool/base/compiler.h"
#include "pool/base/list.h"
#include "pool/limits.h"
#include "proto/client/h2_client.h"
#include "proto/client/h2_tls.h"
#include "proto/wire/wire.h"

enum {
    WP_JOB_ROOM = 1024,     /* Of a request, and of a reply. */
    WP_STOCK_SLOTS = 512,   /* In stock, or taken and not confirmed. */
    WP_STOCK_IN = 64 << 10, /* Of messages that are not whole. */
};

_Static_assert(WP_STOCK_SLOTS >= 2 * WARMPOOL_AHEAD_MAX, "room");
_Static_assert(WARMPOOL_AHEAD_MAX == (int)WP_AHEAD_MAX, "the contract's");
_Static_assert(WARMPOOL_TOKEN_LEN == (int)WP_TOKEN_LEN, "the contract's");

enum wp_method_of_client {
    WP_CALL_CLAIM,
    WP_CALL_RENEW,
    WP_CALL_RELEASE,
    WP_CALL_STREAM,
    WP_CALL_COUNT,
};

/* One unary call. Its caller's until it is queued, and again when it is done.
 */
struct wp_job {
    struct wp_list node; /* Of the client's queue, or of those under way. */
    struct warmpool *client;
    enum wp_method_of_client method;
    int64_t until_ns; /* Monotonic: given up then. */
    unsigned tries;
    uint64_t received; /* Bytes of the connection, when it was started. */
    /* On the client's thread, when it is over; call.status says how. NULL: the
     * caller waits for is_done. */
    void (*over)(struct wp_job *job);
    void *ctx;
    uint64_t number;             /* Of over's. */
    uint8_t token[WP_TOKEN_LEN]; /* Of a renewal or a release. */
    bool is_done;                /* Guarded by the client's lock. */
    pthread_cond_t done;
    struct wp_h2_call call;
    uint8_t request[WP_H2_FRAME_HEAD + WP_JOB_ROOM];
    uint8_t reply[WP_H2_FRAME_HEAD + WP_JOB_ROOM];
    char details[sizeof(((struct warmpool_error *)0)->message)];
};

/* What it is given again for each connection. Owned; NULL: none. */
struct wp_client_files {
    char *tls_ca;
    char *tls_cert;
    char *tls_key;
    char tls_name[256];
    const char *authority; /* Borrowed; NULL: a host of this machine. */
    char *token;
    bool token_may_lack;
};

struct warmpool {
    /* Set by connect. */
    char address[600];
    struct wp_client_files files;
    char tenant[WP_TENANT_MAX + 1];
    char id[33]; /* Random: claim ids and streams begin with it. */
    int wake_fd;
    pthread_t thread;
    _Atomic(uint64_t) n_ids;

    pthread_mutex_t lock; /* guards: queue, stocks, closing, jobs' is_done,
                             stocks' closing and left */
    pthread_cond_t stock_left;
    struct wp_list queue; /* Of jobs. */
    struct wp_list stocks;
    bool closing;

    /* The thread's. */
    struct wp_h2 *h2;
    struct wp_h2_tls *tls;   /* NULL: none. */
    char authorization[300]; /* "Bearer TOKEN", or empty; a secret. */
    bool connected;
    int64_t connected_ns; /* When it was, the last time. */
    int64_t reconnect_ns;
    uint32_t failures;
    char unreachable[sizeof(((struct warmpool_error *)0)->message)]; /* Why. */
    struct wp_list under_way; /* Jobs that were started. */
};

/* --- client.c --- */

/* error: NULL, or filled. Any thread, as all of client.c. */
void wp_client_error(struct warmpool_error *error, int code, const char *text);
/* The same; returns err's code. */
int wp_client_fail(struct warmpool_error *error, const struct wp_err *err);
/* "name" or "namespace/name", into texts of its own. False, with error filled,
 * when it is neither. */
struct wp_pool_name {
    char pool_namespace[WP_NAMESPACE_MAX + 1];
    char name[WP_POOL_NAME_MAX + 1];
};
WP_MUST_CHECK bool wp_client_pool(const char *pool, struct wp_pool_name *out,
                                  struct warmpool_error *error);
/* Has the client's thread look. Any thread. */
void wp_client_wake(struct warmpool *client);
/* Monotonic; the time in which the machine sleeps counts. No system call. */
int64_t wp_client_now_ns(void);
/* claim_id: at most WP_CLAIM_ID_MAX bytes, as the wire's are. */
void wp_client_lease(struct wp_str claim_id, const struct wp_grant *grant,
                     struct warmpool_lease *out);

/* --- credentials.c --- */

/* A copy of the path, or NULL for NULL; false: no memory. */
WP_MUST_CHECK bool wp_credentials_keep(const char *path, char **out);
/* Reads the token and what TLS needs: files that are changed while a program
 * runs. What cannot be used stays as it was; then false, with err set. While
 * there is no connection: by connect, and then on the client's thread. */
bool wp_credentials_read(struct warmpool *client, struct wp_err *err);
/* After the connection's end. */
void wp_credentials_free(struct warmpool *client);

/* --- job.c --- */

/* The job's; its request is to be filled in next. */
void wp_job_init(struct wp_job *job, struct warmpool *client,
                 enum wp_method_of_client method, int64_t for_ns);
void wp_job_renew(struct wp_job *job, const uint8_t token[WP_TOKEN_LEN],
                  int64_t ttl_ms);
void wp_job_release(struct wp_job *job, const uint8_t token[WP_TOKEN_LEN]);
/* Has its holder such a call for that lease queued or under way? The client's
 * thread, without the lock. */
WP_MUST_CHECK bool wp_job_pends(struct warmpool *client,
                                enum wp_method_of_client method,
                                const uint8_t token[WP_TOKEN_LEN]);
/* Any thread; the client's lock is not held. */
void wp_job_queue(struct wp_job *job);
/* Queues the job and waits for its end; its status, and error filled. Any
 * thread but the client's. */
WP_MUST_CHECK int wp_job_run(struct wp_job *job, struct warmpool_error *error);
/* Ends the job, which is in no list, with that code: it is its owner's from
 * here on. The client's thread. */
void wp_job_fail(struct wp_job *job, int code, const char *why);

/* --- thread.c --- */

/* The thread itself: until the client is closing; then it ends all jobs, and
 * returns NULL. */
void *wp_client_serve(void *ctx);
/* The connection's on_lost, of which ctx is the client. The client's thread. */
void wp_client_lost(void *ctx, unsigned conn, const struct wp_err *err);

/* --- stock_stream.c; the client's thread --- */

struct warmpool_stock *wp_stock_of(struct wp_list *node);
/* Tells, renews, opens; returns when to be called again at the latest
 * (monotonic). Without the client's lock. */
int64_t wp_stock_turn(struct warmpool_stock *stock, int64_t now_ns);
/* The connection is gone. Under the client's lock. */
void wp_stock_cut(struct warmpool_stock *stock);
/* There is none, for why. Under the client's lock. */
void wp_stock_unreachable(struct warmpool_stock *stock, const char *why);
/* As warmpool_stock_close, all of the client's at once. */
void wp_stock_close_all(struct warmpool *client);
/* The holder of that lease has renewed or released it: if this stock had it,
 * nothing is to be found out any more. Under the client's lock. */
void wp_stock_settled(struct warmpool_stock *stock,
                      const uint8_t token[WP_TOKEN_LEN]);
/* After a turn: is it closed, with nothing under way? Then it has left the
 * client when the lock is free. Under the lock. */
WP_MUST_CHECK bool wp_stock_leaves(struct warmpool_stock *stock);

#endif
