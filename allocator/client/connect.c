/* libwarmpool: connecting, and disconnecting. */
#include "allocator/client/internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "allocator/conf/paths.h"
#include "pool/base/address.h"
#include "pool/base/assert.h"
#include "pool/base/rng.h"

/* The longest that a claim may take; the caller bounds it otherwise. */
#define CLAIM_TIMEOUT "630S"

static const char *
or_env(const char *said, const char *name)
{
    /* The header says that connecting reads the environment. */
    const char *value =
        said != NULL ? said : getenv(name); /* NOLINT(concurrency-mt-unsafe) */

    return value != NULL && value[0] != '\0' ? value : NULL;
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

/* Where the token is. A Unix socket says who calls; the daemon's own token is
 * for this machine. */
static bool
find_token(struct warmpool *client, const struct warmpool_options *options,
           const struct wp_address *address, bool is_known)
{
    const char *said =
        or_env(options->access_token_file, "WARMPOOL_ACCESS_TOKEN_FILE");
    char own[sizeof client->address];

    if (is_known && address->is_unix) {
        return true;
    }
    client->files.token_may_lack = said == NULL;
    if (said == NULL && is_known && address->is_loopback) {
        said = wp_paths_access_token(own, sizeof own);
    }
    return wp_credentials_keep(said, &client->files.token);
}

/* The certificate's name, as said or the address' host. What stands between may
 * find its way by the same name. */
static bool
find_tls(struct warmpool *client, const struct warmpool_options *options)
{
    struct wp_client_files *files = &client->files;
    const char *address = client->address;
    const size_t cap = sizeof files->tls_name;
    const char *colon = strrchr(address, ':');
    int len = colon != NULL ? (int)(colon - address) : (int)strlen(address);

    if (options->tls_ca != NULL && options->tls_name != NULL) {
        files->authority = files->tls_name;
    } else if (options->tls_ca != NULL && strncmp(address, "unix:", 5) != 0) {
        files->authority = address;
    }
    if (options->tls_name != NULL) {
        (void)snprintf(files->tls_name, cap, "%s", options->tls_name);
    } else if (len > 2 && address[0] == '[') { /* IPv6 */
        (void)snprintf(files->tls_name, cap, "%.*s", len - 2, address + 1);
    } else {
        (void)snprintf(files->tls_name, cap, "%.*s", len, address);
    }
    return wp_credentials_keep(options->tls_ca, &files->tls_ca) &&
           wp_credentials_keep(options->tls_cert, &files->tls_cert) &&
           wp_credentials_keep(options->tls_key, &files->tls_key);
}

static bool
find_daemon(struct warmpool *client, const struct warmpool_options *options,
            struct wp_err *err)
{
    const char *said = or_env(options->address, "WARMPOOL_ADDRESS");
    const char *tenant = or_env(options->tenant, "WARMPOOL_TENANT");
    struct wp_address address;
    bool is_known;

    if (said == NULL) {
        (void)wp_paths_grpc_address(client->address, sizeof client->address);
    } else if (!wp_str_copy(wp_str_from(said), client->address,
                            sizeof client->address)) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "address: too long");
        return false;
    }
    is_known =
        wp_address_parse(wp_str_from(client->address), &address, err) == WP_OK;
    if (!is_known && strncmp(client->address, "unix:", 5) == 0) {
        return false; /* No name that a resolver could know. */
    }
    if (!check_options(options, &address, is_known, err)) {
        return false;
    }
    if (tenant != NULL && !wp_str_copy(wp_str_from(tenant), client->tenant,
                                       sizeof client->tenant)) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "tenant: at most %d bytes expected", WP_TENANT_MAX);
        return false;
    }
    if (!find_token(client, options, &address, is_known) ||
        !find_tls(client, options)) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
        return false;
    }
    return wp_credentials_read(client, err);
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
        .authorization = client->authorization,
        .authority = client->files.authority,
        .on_lost = wp_client_lost,
        .ctx = client,
    };

    client->h2 = wp_h2_open(&config, err);
    if (client->h2 == NULL) {
        return false;
    }
    client->connected = true;
    client->connected_ns = wp_client_now_ns();
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
    wp_credentials_free(client);
    if (client->wake_fd >= 0) {
        (void)close(client->wake_fd);
    }
    (void)pthread_cond_destroy(&client->stock_left);
    (void)pthread_mutex_destroy(&client->lock);
    free(client);
}

/* Signals are for the program's own threads: it may wait for them there, or
 * have handlers that know nothing of this one. Returns errno's. */
static int
start_thread(struct warmpool *client)
{
    sigset_t all;
    sigset_t before;
    int failed;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&client->thread, NULL, wp_client_serve, client);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
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
        int failed = start_thread(client);

        if (failed == 0) {
            return client;
        }
        (void)wp_err_sys(&err, WP_RESOURCE_EXHAUSTED, failed, "a thread");
    }
    (void)wp_client_fail(error, &err);
    destroy(client);
    return NULL;
}

void
warmpool_disconnect(struct warmpool *client)
{
    if (client == NULL) {
        return;
    }
    wp_stock_close_all(client);
    (void)pthread_mutex_lock(&client->lock);
    client->closing = true;
    (void)pthread_mutex_unlock(&client->lock);
    wp_client_wake(client);
    (void)pthread_join(client->thread, NULL);
    destroy(client);
}
