/* tests/support/http/http_server_rig.h - the HTTP server and its proxy over real
 * sockets: a client in the test's thread, the server on its loop, a sandbox
 * that the test scripts in a third thread. One of each a program. */
#ifndef WP_TESTS_SUPPORT_HTTP_HTTP_SERVER_RIG_H
#define WP_TESTS_SUPPORT_HTTP_HTTP_SERVER_RIG_H

#include <pthread.h>
#include <stdatomic.h>

#include "allocator/http/gateway.h"

#define RIG_ADMIN "the-admin-token-of-this-test"

enum {
    RIG_PATIENCE_MS = 60000, /* What should happen takes far less. */
    RIG_BIG = 3 << 20,       /* Bytes of the page /big. */
};

/* What the sandbox does with a connection, which is closed after it. */
typedef void (*rig_script_fn)(int fd);

struct rig {
    char dir[64];
    char unix_listen[96];
    const char *listen[2];
    struct wp_loop *loop;
    struct wp_gateway_config
        config; /* A test may change it before rig_start. */
    struct wp_gateway *server;
    char answer[1 << 18]; /* What the client was sent. */
    /* The sandbox. */
    char endpoint[96];
    int sandbox_fd;
    pthread_t sandbox;
    bool sandbox_runs;
    _Atomic(rig_script_fn) script;
    _Atomic(bool) lost;
    _Atomic(bool) has_sandbox_tokens; /* Of the gateway. */
    const char *_Atomic tenant; /* Of the leases; "blue" until it is set. */
    char seen[1 << 16];         /* What it was sent. */
};

extern struct rig rig;

/* cmocka's, for a test of its own. */
int rig_setup(void **state);
int rig_teardown(void **state);
#define RIG_TEST(name)                                                         \
    cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

/* The server listens on rig.unix_listen and on rig_tcp(). It knows sandbox
 * "box-1", and "gone", where nobody answers. */
void rig_start(void);
const char *rig_tcp(void);
struct wp_gateway_stats rig_stats(void);
/* Sandbox "box-1" begins to accept connections. */
void rig_sandbox_start(rig_script_fn script);
/* The token of box-1's lease, in hexadecimal. */
const char *rig_lease_token(void);

/* --- Sockets with patience --- */

int rig_dial(const char *text);
/* Until the other side has gone, which a test sees by reading. */
void rig_send(int fd, const char *bytes, size_t len);
void rig_send_text(int fd, const char *text);
/* Reads until the end of the connection, text is contained, or out is full. */
size_t rig_read_until(int fd, const char *text, char *out, size_t cap);
/* One request on a connection of its own; the whole answer, rig.answer. */
const char *rig_ask(const char *where, const char *request);

/* --- What is expected of a text --- */

void assert_begins(const char *text, const char *start);
void assert_has(const char *text, const char *part);
void assert_lacks(const char *text, const char *part);

#endif
