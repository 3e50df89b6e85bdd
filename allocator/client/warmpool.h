/* warmpool.h - the client library of warmpool.
 *
 * It claims, renews and releases sandboxes; and it can hold leases that were
 * granted ahead of need, so that a claim is a copy in memory, without a wait.
 * See libwarmpool(3).
 *
 * Any number of threads may use a client and its stocks at once. A client has
 * one thread of its own, which talks to the daemon. Do not fork with a client
 * open, but to exec.
 *
 * Functions that return int return WARMPOOL_OK or a gRPC status code, and then
 * fill error, which may be NULL. */
#ifndef WP_ALLOCATOR_CLIENT_WARMPOOL_H
#define WP_ALLOCATOR_CLIENT_WARMPOOL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WARMPOOL_OK = 0,
    WARMPOOL_DEADLINE_EXCEEDED = 4,  /* The answer did not come in time. */
    WARMPOOL_RESOURCE_EXHAUSTED = 8, /* No sandbox, or a quota is used up. */
    WARMPOOL_UNAVAILABLE = 14,       /* The daemon is not there, or leaves. */

    WARMPOOL_TOKEN_LEN = 68,
    WARMPOOL_AHEAD_MAX = 256
};

struct warmpool;       /* A client. */
struct warmpool_stock; /* Leases ahead, of one pool. */

struct warmpool_error {
    int code;
    char message[240]; /* A sentence; never a secret. */
};

/* All NULL: as warmpoolctl finds the daemon. Files are read again for each
 * connection. */
struct warmpool_options {
    /* "unix:/path" or "host:port". NULL: $WARMPOOL_ADDRESS, or the daemon's
     * default socket. */
    const char *address;
    /* PEM files. With tls_ca the connection is TLS; without, TCP is for
     * loopback only. */
    const char *tls_ca;
    const char *tls_cert; /* Both or none: the client's certificate. */
    const char *tls_key;
    const char *tls_name; /* NULL: the address' host. */
    /* Holds the token of calls over TCP. NULL: $WARMPOOL_ACCESS_TOKEN_FILE, or
     * on loopback the daemon's own, where it can be read. */
    const char *access_token_file;
    /* Whose claims these are. NULL: $WARMPOOL_TENANT, or as the credentials
     * say. */
    const char *tenant;
};

struct warmpool_lease {
    char claim_id[129];
    char sandbox[64];
    char endpoint[108]; /* "unix:/path" or "host:port" */
    /* For renew and release. Keep it secret. */
    unsigned char token[WARMPOOL_TOKEN_LEN];
    uint64_t fence; /* Grows with every lease of a sandbox. */
    int64_t deadline_unix_ms;
};

/* Connects. NULL, with error filled, when the options contradict themselves, a
 * file cannot be used, or nobody answers. A connection that breaks later is
 * made anew by itself, once there is something to do. Reads the environment. */
struct warmpool *warmpool_connect(const struct warmpool_options *options,
                                  struct warmpool_error *error);
/* Closes its stocks first, all at once, as warmpool_stock_close does. No other
 * thread may use the client any more. NULL is fine. */
void warmpool_disconnect(struct warmpool *client);

/* Leases a sandbox of the pool ("name", or "namespace/name"). claim_id: chosen
 * by the caller, unique; a repeat gets the same lease. NULL: one is made up.
 * ttl_ms 0: the pool's default. With none ready it waits up to wait_ms. Tried
 * again when the connection breaks, until wait_ms and 10 s are over. */
int warmpool_claim(struct warmpool *client, const char *pool,
                   const char *claim_id, int64_t ttl_ms, int64_t wait_ms,
                   struct warmpool_lease *lease, struct warmpool_error *error);
/* Moves the lease's deadline to now + ttl_ms, here and there. */
int warmpool_renew(struct warmpool *client, struct warmpool_lease *lease,
                   int64_t ttl_ms, struct warmpool_error *error);
/* Ends the lease; its sandbox is destroyed. To say it again changes nothing. */
int warmpool_release(struct warmpool *client,
                     const struct warmpool_lease *lease,
                     struct warmpool_error *error);

struct warmpool_stock_options {
    const char *pool; /* "name", or "namespace/name". */
    unsigned ahead;   /* How many leases to have; 1 to WARMPOOL_AHEAD_MAX. */
    /* Of each lease: at least 2 000. Renewed while it is in stock; a lease that
     * is taken has at least a quarter of it left. 0: 60 000. */
    int64_t ttl_ms;
    /* A lease that was taken turned out to have ended: the daemon could not be
     * told in time. Called on the client's thread; must not call the library.
     * NULL: nobody wants to know; renewing it says so, too. */
    void (*lost)(void *ctx, const char *claim_id);
    void *ctx;
};

/* Begins to fill a stock; returns at once. NULL, with error filled, when an
 * option is out of range or memory lacks. A stock that cannot be filled stays
 * empty: warmpool_stock_state says why. */
struct warmpool_stock *
warmpool_stock_open(struct warmpool *client,
                    const struct warmpool_stock_options *options,
                    struct warmpool_error *error);
/* Tells the daemon what was taken, and gives the rest back; waits up to 2 s for
 * that. Leases that were taken live on. No other thread may use the stock any
 * more. NULL is fine. */
void warmpool_stock_close(struct warmpool_stock *stock);

/* Takes a lease out of the stock: no lock, no wait, and no system call, but
 * that the first one after 50 ms of rest wakes the client's thread. False when
 * there is none, or while the daemon cannot be told. */
bool warmpool_stock_take(struct warmpool_stock *stock,
                         struct warmpool_lease *lease);
/* The same; and when there is none, warmpool_claim with the stock's pool and
 * ttl_ms. */
int warmpool_stock_claim(struct warmpool_stock *stock, int64_t wait_ms,
                         struct warmpool_lease *lease,
                         struct warmpool_error *error);
/* How many are in stock, a moment ago. Why there are fewer than wanted, or none
 * can be taken, is in error: code 0 when nothing is known against it. error may
 * be NULL. */
unsigned warmpool_stock_state(const struct warmpool_stock *stock,
                              struct warmpool_error *error);

#ifdef __cplusplus
}
#endif

#endif
