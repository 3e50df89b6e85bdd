/* libwarmpool: the connection, its thread, and single calls. */
#include "allocator/client/internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "allocator/conf/paths.h"
#include "pool/base/address.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/file.h"
#include "pool/base/rng.h"

/* For a call's answer, beside what the daemon may wait. */
#define ANSWER_NS (10 * WP_NS_PER_S)
#define RECONNECT_MIN_NS (20 * WP_NS_PER_MS)
#define RECONNECT_MAX_NS WP_NS_PER_S
/* The longest that a claim may take; the caller bounds it otherwise. */
#define CLAIM_TIMEOUT "630S"

enum {
    TRIES_MAX = 5, /* Of a call that the server ends without a word. */
    ARENA_SIZE = 16 << 10,
    TOKEN_MIN = 16, /* As the daemon's own. */
};

int64_t
wp_client_now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

void
wp_client_error(struct warmpool_error *error, int code, const char *text)
{
    if (error != NULL) {
        error->code = code;
        (void)snprintf(error->message, sizeof error->message, "%s", text);
    }
}

static int
fail(struct warmpool_error *error, const struct wp_err *err)
{
    int code = wp_status_grpc_code(err->status);

    wp_client_error(error, code, err->msg);
    return code;
}

bool
wp_client_pool(const char *pool, struct wp_pool_name *out,
               struct warmpool_error *error)
{
    const char *slash = pool != NULL ? strchr(pool, '/') : NULL;
    const char *name = slash != NULL ? slash + 1 : pool;

    if (pool == NULL || name[0] == '\0' ||
        !wp_str_copy(
            (struct wp_str){pool, slash != NULL ? (size_t)(slash - pool) : 0},
            out->pool_namespace, sizeof out->pool_namespace) ||
        !wp_str_copy(wp_str_from(name), out->name, sizeof out->name)) {
        wp_client_error(error, wp_status_grpc_code(WP_INVALID_ARGUMENT),
                        "pool: \"name\" or \"namespace/name\" expected");
        return false;
    }
    return true;
}

void
wp_client_wake(struct warmpool *client)
{
    const uint64_t one = 1;
    ssize_t n = write(client->wake_fd, &one, sizeof one);

    (void)n; /* Full: it is awake. */
}

/* --- Jobs --- */

static void call_done(struct wp_h2_call *call);

void
wp_job_init(struct wp_job *job, struct warmpool *client,
            enum wp_method_of_client method, int64_t for_ns)
{
    memset(job, 0, sizeof *job);
    job->client = client;
    job->method = method;
    job->until_ns = wp_time_add(wp_client_now_ns(), for_ns);
    job->call.method = (unsigned)method;
    job->call.request = job->request;
    job->call.reply = job->reply;
    job->call.reply_cap = sizeof job->reply;
    job->call.details = job->details;
    job->call.details_cap = sizeof job->details;
    job->call.done = call_done;
    job->call.ctx = job;
}

void
wp_job_renew(struct wp_job *job, const uint8_t token[WP_TOKEN_LEN],
             int64_t ttl_ms)
{
    struct wp_wire_renew_request request = {.ttl_ms = ttl_ms};

    memcpy(request.token, token, WP_TOKEN_LEN);
    job->call.request_len =
        wp_wire_pack_renew_request(&request, job->request + WP_H2_FRAME_HEAD);
}

void
wp_job_release(struct wp_job *job, const uint8_t token[WP_TOKEN_LEN])
{
    struct wp_wire_release_request request;

    memcpy(request.token, token, WP_TOKEN_LEN);
    job->call.request_len =
        wp_wire_pack_release_request(&request, job->request + WP_H2_FRAME_HEAD);
}

void
wp_job_queue(struct wp_job *job)
{
    struct warmpool *client = job->client;

    (void)pthread_mutex_lock(&client->lock);
    wp_list_push_back(&client->queue, &job->node);
    (void)pthread_mutex_unlock(&client->lock);
    wp_client_wake(client);
}

/* Queues the job and waits for its end; its status, and error filled. */
static int
run(struct wp_job *job, struct warmpool_error *error)
{
    struct warmpool *client = job->client;
    int status;

    WP_ASSERT(pthread_cond_init(&job->done, NULL) == 0);
    wp_job_queue(job);
    (void)pthread_mutex_lock(&client->lock);
    while (!job->is_done) {
        (void)pthread_cond_wait(&job->done, &client->lock);
    }
    (void)pthread_mutex_unlock(&client->lock);
    (void)pthread_cond_destroy(&job->done);
    status = job->call.status;
    wp_client_error(error, status, job->details);
    return status;
}

/* Thread. The job is its owner's from here on. */
static void
end_job(struct wp_job *job)
{
    struct warmpool *client = job->client;

    if (job->over != NULL) {
        job->over(job);
        return;
    }
    (void)pthread_mutex_lock(&client->lock);
    job->is_done = true;
    (void)pthread_cond_signal(&job->done);
    (void)pthread_mutex_unlock(&client->lock);
}

static void
fail_job(struct wp_job *job, int code, const char *why)
{
    job->call.status = code;
    (void)snprintf(job->details, sizeof job->details, "%s", why);
    end_job(job);
}

/* It was not answered: every call is idempotent, so it is made again. */
static void
again(struct wp_job *job)
{
    if (++job->tries > TRIES_MAX) {
        fail_job(job, WARMPOOL_UNAVAILABLE,
                 "the daemon ends the call without an answer");
        return;
    }
    (void)pthread_mutex_lock(&job->client->lock);
    wp_list_push_back(&job->client->queue, &job->node);
    (void)pthread_mutex_unlock(&job->client->lock);
    wp_client_wake(job->client);
}

static void
call_done(struct wp_h2_call *call)
{
    struct wp_job *job = call->ctx;

    wp_list_remove(&job->node);
    if (call->status == WP_H2_NO_STATUS) {
        again(job);
    } else {
        end_job(job);
    }
}

/* --- The thread --- */

static void
on_lost(void *ctx, unsigned conn, const struct wp_err *err)
{
    struct warmpool *client = ctx;
    struct wp_list *node;

    (void)conn;
    (void)err;
    client->connected = false;
    client->reconnect_ns = 0;
    while ((node = wp_list_pop_front(&client->under_way)) != NULL) {
        again(WP_CONTAINER_OF(node, struct wp_job, node));
    }
    (void)pthread_mutex_lock(&client->lock);
    for (node = client->stocks.next; node != &client->stocks;
         node = node->next) {
        wp_stock_cut(wp_stock_of(node));
    }
    (void)pthread_mutex_unlock(&client->lock);
}

/* Until it is there, now and again. */
static void
reconnect(struct warmpool *client, int64_t now_ns)
{
    struct wp_err err;

    if (client->connected || now_ns < client->reconnect_ns) {
        return;
    }
    client->connected = wp_h2_reopen(client->h2, 0, &err);
    if (client->connected) {
        client->failures = 0;
        return;
    }
    client->failures++;
    client->reconnect_ns = wp_time_add(
        wp_client_now_ns(),
        wp_backoff_ns(RECONNECT_MIN_NS, RECONNECT_MAX_NS, client->failures));
}

/* Starts what is queued, and gives up what has waited too long; returns when
 * the next one has. */
static int64_t
start_jobs(struct warmpool *client, int64_t now_ns)
{
    int64_t next_ns = WP_TIME_NEVER;
    struct wp_list queue;
    struct wp_list *node;

    wp_list_init(&queue);
    (void)pthread_mutex_lock(&client->lock);
    while ((node = wp_list_pop_front(&client->queue)) != NULL) {
        wp_list_push_back(&queue, node);
    }
    (void)pthread_mutex_unlock(&client->lock);
    while ((node = wp_list_pop_front(&queue)) != NULL) {
        struct wp_job *job = WP_CONTAINER_OF(node, struct wp_job, node);

        if (job->until_ns <= now_ns) {
            fail_job(job, WARMPOOL_UNAVAILABLE,
                     "the daemon could not be reached in time");
        } else if (client->connected && wp_h2_start(client->h2, &job->call)) {
            wp_list_push_back(&client->under_way, &job->node);
        } else {
            next_ns = job->until_ns < next_ns ? job->until_ns : next_ns;
            (void)pthread_mutex_lock(&client->lock);
            wp_list_push_back(&client->queue, &job->node);
            (void)pthread_mutex_unlock(&client->lock);
        }
    }
    return next_ns;
}

static int64_t
end_late_jobs(struct warmpool *client, int64_t now_ns)
{
    int64_t next_ns = WP_TIME_NEVER;

    for (struct wp_list *node = client->under_way.next;
         node != &client->under_way;) {
        struct wp_job *job = WP_CONTAINER_OF(node, struct wp_job, node);

        node = node->next;
        if (job->until_ns <= now_ns) {
            wp_list_remove(&job->node);
            wp_h2_cancel(client->h2, &job->call);
            fail_job(job, WARMPOOL_DEADLINE_EXCEEDED,
                     "the daemon did not answer in time");
        } else if (job->until_ns < next_ns) {
            next_ns = job->until_ns;
        }
    }
    return next_ns;
}

static int64_t
earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The stocks' turns; those that are over leave the list. */
static int64_t
turn_stocks(struct warmpool *client, int64_t now_ns)
{
    int64_t next_ns = WP_TIME_NEVER;
    struct wp_list *node;

    (void)pthread_mutex_lock(&client->lock);
    node = client->stocks.next;
    (void)pthread_mutex_unlock(&client->lock);
    while (node != &client->stocks) {
        struct warmpool_stock *stock = wp_stock_of(node);
        int64_t at_ns = wp_stock_turn(stock, now_ns);

        next_ns = earlier(next_ns, at_ns);
        (void)pthread_mutex_lock(&client->lock);
        node = node->next;
        if (wp_stock_leaves(stock)) {
            (void)pthread_cond_broadcast(&client->stock_left);
        }
        (void)pthread_mutex_unlock(&client->lock);
    }
    return next_ns;
}

/* Sleeps until something comes, or until then. */
static void
rest(struct warmpool *client, int64_t until_ns)
{
    struct pollfd fds[2] = {
        {.fd = client->wake_fd, .events = POLLIN},
        {.fd = wp_h2_fd(client->h2), .events = POLLIN},
    };
    int64_t left_ns = until_ns - wp_client_now_ns();
    struct timespec limit;
    uint64_t ignored;

    left_ns = left_ns > 0 ? left_ns : 0;
    limit = (struct timespec){left_ns / WP_NS_PER_S, left_ns % WP_NS_PER_S};
    if (ppoll(fds, client->connected ? 2 : 1,
              until_ns == WP_TIME_NEVER ? NULL : &limit, NULL) > 0 &&
        (fds[0].revents & POLLIN) != 0) {
        ssize_t n = read(client->wake_fd, &ignored, sizeof ignored);

        (void)n;
    }
}

/* What is left when the client goes. */
static void
end_jobs(struct warmpool *client)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(&client->under_way)) != NULL) {
        fail_job(WP_CONTAINER_OF(node, struct wp_job, node),
                 WARMPOOL_UNAVAILABLE, "the client was closed");
    }
    while ((node = wp_list_pop_front(&client->queue)) != NULL) {
        fail_job(WP_CONTAINER_OF(node, struct wp_job, node),
                 WARMPOOL_UNAVAILABLE, "the client was closed");
    }
}

static bool
is_closing(struct warmpool *client)
{
    bool closing;

    (void)pthread_mutex_lock(&client->lock);
    closing = client->closing;
    (void)pthread_mutex_unlock(&client->lock);
    return closing;
}

static void *
serve(void *ctx)
{
    struct warmpool *client = ctx;

    while (!is_closing(client)) {
        int64_t now_ns = wp_client_now_ns();
        int64_t next_ns;
        struct wp_err err;

        reconnect(client, now_ns);
        next_ns = start_jobs(client, now_ns);
        next_ns = earlier(next_ns, end_late_jobs(client, now_ns));
        next_ns = earlier(next_ns, turn_stocks(client, now_ns));
        if (client->connected) {
            /* A lost connection is told to on_lost. */
            (void)!wp_h2_turn(client->h2, 0, &err);
        }
        if (!client->connected) {
            next_ns = earlier(next_ns, client->reconnect_ns);
        }
        if (!client->connected || !wp_h2_has_output(client->h2)) {
            rest(client, next_ns);
        }
    }
    end_jobs(client);
    return NULL;
}

/* --- Connecting --- */

static const char *
or_env(const char *said, const char *name)
{
    /* The header says that connecting reads the environment. */
    const char *value =
        said != NULL ? said : getenv(name); /* NOLINT(concurrency-mt-unsafe) */

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* "Bearer TOKEN" from the file. optional: it need not be there. */
static bool
read_token(struct warmpool *client, const char *path, bool optional,
           struct wp_err *err)
{
    static const char scheme[] = "Bearer ";
    const size_t skip = sizeof scheme - 1;
    const size_t cap = sizeof client->authorization;
    char *word = client->authorization + skip;
    ssize_t n = wp_path_read(path, 0, word, cap - skip - 1, NULL);

    if (n < 0) {
        (void)wp_err_sys(err, WP_INVALID_ARGUMENT, errno,
                         "access_token_file %.120s", path);
        return optional;
    }
    while (n > 0 && (word[n - 1] == '\n' || word[n - 1] == '\r')) {
        n--;
    }
    word[n] = '\0';
    memcpy(client->authorization, scheme, skip);
    if (n >= TOKEN_MIN && strcspn(word, " \t\r\n\x7f") == (size_t)n) {
        return true;
    }
    explicit_bzero(client->authorization, cap);
    (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                     "access_token_file %.120s: expected one word of %d "
                     "characters or more",
                     path, TOKEN_MIN);
    return false;
}

/* The certificate's name, as said or the address' host. */
static void
name_of(const struct warmpool_options *options, const char *address, char *out,
        size_t cap)
{
    const char *colon = strrchr(address, ':');
    int len = colon != NULL ? (int)(colon - address) : (int)strlen(address);

    if (options->tls_name != NULL) {
        (void)snprintf(out, cap, "%s", options->tls_name);
    } else if (len > 2 && address[0] == '[') { /* IPv6 */
        (void)snprintf(out, cap, "%.*s", len - 2, address + 1);
    } else {
        (void)snprintf(out, cap, "%.*s", len, address);
    }
}

/* Nothing secret may go in clear beyond this machine. */
static bool
check_options(const struct warmpool_options *options,
              const struct wp_address *address, bool is_known,
              struct wp_err *err)
{
    if ((options->tls_cert == NULL) != (options->tls_key == NULL)) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "tls_cert and tls_key go together");
        return false;
    }
    if (options->tls_ca == NULL &&
        (options->tls_cert != NULL || options->tls_name != NULL)) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "TLS needs tls_ca, the authorities that sign the "
                         "daemon's certificate");
        return false;
    }
    if (options->tls_ca == NULL &&
        !(is_known && (address->is_unix || address->is_loopback))) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "address: a Unix socket or a loopback address "
                         "expected, or tls_ca for TLS");
        return false;
    }
    return true;
}

/* A Unix socket says who calls; the daemon's own token is for this machine. */
static bool
find_token(struct warmpool *client, const struct warmpool_options *options,
           const struct wp_address *address, bool is_known, struct wp_err *err)
{
    const char *said =
        or_env(options->access_token_file, "WARMPOOL_ACCESS_TOKEN_FILE");
    char own[sizeof client->address];

    if (is_known && address->is_unix) {
        return true;
    }
    if (said != NULL) {
        return read_token(client, said, false, err);
    }
    return !is_known || !address->is_loopback ||
           read_token(client, wp_paths_access_token(own, sizeof own), true,
                      err);
}

static bool
find_daemon(struct warmpool *client, const struct warmpool_options *options,
            struct wp_err *err)
{
    const char *said = or_env(options->address, "WARMPOOL_ADDRESS");
    const char *tenant = or_env(options->tenant, "WARMPOOL_TENANT");
    struct wp_address address;
    struct wp_err ignored;
    char name[256];
    bool is_known;

    if (said == NULL) {
        (void)wp_paths_grpc_address(client->address, sizeof client->address);
    } else if (!wp_str_copy(wp_str_from(said), client->address,
                            sizeof client->address)) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "address: too long");
        return false;
    }
    is_known = wp_address_parse(wp_str_from(client->address), &address,
                                &ignored) == WP_OK;
    if (!check_options(options, &address, is_known, err) ||
        !find_token(client, options, &address, is_known, err)) {
        return false;
    }
    if (tenant != NULL && !wp_str_copy(wp_str_from(tenant), client->tenant,
                                       sizeof client->tenant)) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "tenant: at most %d bytes expected", WP_TENANT_MAX);
        return false;
    }
    if (options->tls_ca != NULL) {
        name_of(options, client->address, name, sizeof name);
        client->tls = wp_h2_tls_create(options->tls_ca, options->tls_cert,
                                       options->tls_key, name, err);
    }
    return options->tls_ca == NULL || client->tls != NULL;
}

static bool
open_connection(struct warmpool *client, struct wp_err *err)
{
    static const char *const paths[] = {
        [WP_CALL_CLAIM] = "/warmpool.v1.Allocator/Claim",
        [WP_CALL_RENEW] = "/warmpool.v1.Allocator/Renew",
        [WP_CALL_RELEASE] = "/warmpool.v1.Allocator/Release",
        [WP_CALL_STREAM] = "/warmpool.v1.Allocator/ClaimStream",
    };
    const struct wp_h2_config config = {
        .target = client->address,
        .connections = 1,
        .tls = client->tls,
        .authorization =
            client->authorization[0] != '\0' ? client->authorization : NULL,
        .on_lost = on_lost,
        .ctx = client,
    };

    client->h2 = wp_h2_open(&config, err);
    if (client->h2 == NULL) {
        return false;
    }
    client->connected = true;
    for (unsigned i = 0; i < WP_CALL_COUNT; i++) {
        unsigned index = wp_h2_method_within(
            client->h2, paths[i], i == WP_CALL_CLAIM ? CLAIM_TIMEOUT : NULL);

        WP_ASSERT(index == i);
    }
    return true;
}

static void
make_id(struct warmpool *client)
{
    uint8_t random[16];

    wp_random_bytes(random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(client->id + 2 * i, 3, "%02x", random[i]);
    }
}

static void
destroy(struct warmpool *client)
{
    wp_h2_close(client->h2);
    wp_h2_tls_destroy(client->tls);
    if (client->wake_fd >= 0) {
        (void)close(client->wake_fd);
    }
    (void)pthread_cond_destroy(&client->stock_left);
    (void)pthread_mutex_destroy(&client->lock);
    explicit_bzero(client->authorization, sizeof client->authorization);
    free(client);
}

struct warmpool *
warmpool_connect(const struct warmpool_options *options,
                 struct warmpool_error *error)
{
    static const struct warmpool_options none;
    struct warmpool *client = calloc(1, sizeof *client);
    struct wp_err err;

    if (client == NULL) {
        wp_client_error(error, WARMPOOL_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    WP_ASSERT(pthread_mutex_init(&client->lock, NULL) == 0);
    WP_ASSERT(pthread_cond_init(&client->stock_left, NULL) == 0);
    wp_list_init(&client->queue);
    wp_list_init(&client->stocks);
    wp_list_init(&client->under_way);
    make_id(client);
    client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (client->wake_fd < 0) {
        (void)wp_err_sys(&err, WP_RESOURCE_EXHAUSTED, errno, "eventfd");
    } else if (find_daemon(client, options != NULL ? options : &none, &err) &&
               open_connection(client, &err)) {
        int failed = pthread_create(&client->thread, NULL, serve, client);

        if (failed == 0) {
            return client;
        }
        (void)wp_err_sys(&err, WP_RESOURCE_EXHAUSTED, failed, "a thread");
    }
    (void)fail(error, &err);
    destroy(client);
    return NULL;
}

void
warmpool_disconnect(struct warmpool *client)
{
    if (client == NULL) {
        return;
    }
    while (client->stocks.next != &client->stocks) {
        warmpool_stock_close(wp_stock_of(client->stocks.next));
    }
    (void)pthread_mutex_lock(&client->lock);
    client->closing = true;
    (void)pthread_mutex_unlock(&client->lock);
    wp_client_wake(client);
    (void)pthread_join(client->thread, NULL);
    destroy(client);
}

/* --- Calls --- */

/* What the reply of a claim says, in the caller's struct. */
static int
read_lease(const struct wp_job *job, struct warmpool_lease *lease,
           struct warmpool_error *error)
{
    _Alignas(max_align_t) char room[ARENA_SIZE];
    struct wp_wire_claim_response response;
    struct wp_arena arena;
    struct wp_err err;

    wp_arena_init(&arena, room, sizeof room);
    if (wp_wire_unpack_claim_response(&arena, job->reply + WP_H2_FRAME_HEAD,
                                      job->call.reply_len, &response,
                                      &err) != WP_OK) {
        err.status = WP_INTERNAL;
        return fail(error, &err);
    }
    wp_client_lease(response.claim_id, response.grant, lease);
    return WARMPOOL_OK;
}

int
warmpool_claim(struct warmpool *client, const char *pool, const char *claim_id,
               int64_t ttl_ms, int64_t wait_ms, struct warmpool_lease *lease,
               struct warmpool_error *error)
{
    struct wp_wire_claim_request request = {
        .tenant = wp_str_from(client->tenant),
        .ttl_ms = ttl_ms,
        .wait_ms = wait_ms,
    };
    struct wp_pool_name name;
    char made_up[64];
    struct wp_job job;
    int status;

    if (!wp_client_pool(pool, &name, error)) {
        return wp_status_grpc_code(WP_INVALID_ARGUMENT);
    }
    request.pool.pool_namespace = wp_str_from(name.pool_namespace);
    request.pool.name = wp_str_from(name.name);
    (void)snprintf(made_up, sizeof made_up, "%s-%llu", client->id,
                   (unsigned long long)atomic_fetch_add_explicit(
                       &client->n_ids, 1, memory_order_relaxed));
    request.claim_id = wp_str_from(claim_id != NULL ? claim_id : made_up);
    if (request.claim_id.len > WP_CLAIM_ID_MAX || wait_ms < 0 ||
        wait_ms > WP_WAIT_MAX_NS / WP_NS_PER_MS) {
        wp_client_error(error, wp_status_grpc_code(WP_INVALID_ARGUMENT),
                        "claim_id: at most 128 bytes expected; wait_ms: 0 to "
                        "600000");
        return wp_status_grpc_code(WP_INVALID_ARGUMENT);
    }
    wp_job_init(&job, client, WP_CALL_CLAIM,
                wait_ms * WP_NS_PER_MS + ANSWER_NS);
    job.call.request_len =
        wp_wire_pack_claim_request(&request, job.request + WP_H2_FRAME_HEAD);
    status = run(&job, error);
    return status == WARMPOOL_OK ? read_lease(&job, lease, error) : status;
}

int
warmpool_renew(struct warmpool *client, struct warmpool_lease *lease,
               int64_t ttl_ms, struct warmpool_error *error)
{
    _Alignas(max_align_t) char room[ARENA_SIZE];
    struct wp_wire_renew_response response;
    struct wp_arena arena;
    struct wp_job job;
    struct wp_err err;
    int status;

    wp_job_init(&job, client, WP_CALL_RENEW, ANSWER_NS);
    wp_job_renew(&job, lease->token, ttl_ms);
    status = run(&job, error);
    if (status != WARMPOOL_OK) {
        return status;
    }
    wp_arena_init(&arena, room, sizeof room);
    if (wp_wire_unpack_renew_response(&arena, job.reply + WP_H2_FRAME_HEAD,
                                      job.call.reply_len, &response,
                                      &err) != WP_OK) {
        err.status = WP_INTERNAL;
        return fail(error, &err);
    }
    memcpy(lease->token, response.token, sizeof lease->token);
    lease->fence = response.fence;
    lease->deadline_unix_ms = response.deadline_wall_ms;
    return WARMPOOL_OK;
}

int
warmpool_release(struct warmpool *client, const struct warmpool_lease *lease,
                 struct warmpool_error *error)
{
    struct wp_job job;

    wp_job_init(&job, client, WP_CALL_RELEASE, ANSWER_NS);
    wp_job_release(&job, lease->token);
    return run(&job, error);
}

void
wp_client_lease(struct wp_str claim_id, const struct wp_grant *grant,
                struct warmpool_lease *out)
{
    bool fits = wp_str_copy(claim_id, out->claim_id, sizeof out->claim_id);

    WP_ASSERT(fits); /* The wire has bounded it. */
    memcpy(out->sandbox, grant->sandbox, sizeof out->sandbox);
    memcpy(out->endpoint, grant->endpoint, sizeof out->endpoint);
    memcpy(out->token, grant->token, sizeof out->token);
    out->fence = grant->fence;
    out->deadline_unix_ms = grant->deadline_wall_ms;
}
