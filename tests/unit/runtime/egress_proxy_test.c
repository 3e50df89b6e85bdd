/* The proxy out of sandboxes, with a server and clients of its own: what each
 * request becomes, what is answered, and what the log says of it, as
 * golden/egress_*.txt have it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "pool/base/compiler.h"
#include "pool/egress/pass.h"
#include "runtime/egress/egress_impl.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"

enum {
    TEXT_MAX = 16384,
    TRANSCRIPT_MAX = 256 << 10,
    FOREVER_NS = 600, /* Seconds; times a second. */
};

static struct event_base *base;
static struct wp_egress_config config;
static struct wp_egress *egress;
static struct wp_egress_keys *keys;
static struct wp_resolver *resolver;
static int origin = -1;  /* Listens. */
static int visited = -1; /* What it has accepted. */
static unsigned origin_port;
static unsigned closed_port;
static unsigned client_port; /* 0: it has none. */
static bool answered;
static char asked[TEXT_MAX];
static char got[TEXT_MAX];
static struct heard heard;

static char transcript[TRANSCRIPT_MAX];
static size_t transcript_len;

/* --- Sockets --- */

static int
listen_at(int family, struct sockaddr_storage *at, socklen_t *len)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)at;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)at;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    memset(at, 0, sizeof *at);
    at->ss_family = (sa_family_t)family;
    *len = sizeof at->ss_family; /* Unix: the kernel chooses a name. */
    if (family == AF_INET) {
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        *len = sizeof *v4;
    } else if (family == AF_INET6) {
        v6->sin6_addr = in6addr_any;
        *len = sizeof *v6;
    }
    if (fd < 0 || bind(fd, (struct sockaddr *)at, *len) != 0) {
        (void)close(fd);
        return -1;
    }
    *len = sizeof *at;
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, len), 0);
    return fd;
}

static unsigned
port_of(const struct sockaddr_storage *at)
{
    return at->ss_family == AF_INET
               ? ntohs(((const struct sockaddr_in *)at)->sin_port)
           : at->ss_family == AF_INET6
               ? ntohs(((const struct sockaddr_in6 *)at)->sin6_port)
               : 0;
}

/* A port of five digits, as lengths count them. */
static int
listen_at_loopback(unsigned *port)
{
    struct sockaddr_storage at;
    socklen_t len;
    int fd = listen_at(AF_INET, &at, &len);

    while (port_of(&at) < 10000) {
        (void)close(fd);
        fd = listen_at(AF_INET, &at, &len);
    }
    *port = port_of(&at);
    return fd;
}

static int
connect_to(const struct sockaddr_storage *at, socklen_t len)
{
    struct sockaddr_storage own;
    socklen_t own_len = sizeof own;
    int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (const struct sockaddr *)at, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&own, &own_len), 0);
    client_port = port_of(&own);
    return fd;
}

static struct sockaddr_storage box; /* Where the sandbox comes through. */
static socklen_t box_len;

/* --- The server, and the loop --- */

/* Adds what has come; false at the end. */
static bool
receive(int fd, char *text)
{
    size_t len = strlen(text);
    ssize_t n = recv(fd, text + len, TEXT_MAX - 1 - len, MSG_DONTWAIT);

    if (n > 0) {
        text[len + (size_t)n] = '\0';
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static void
serve_origin(void)
{
    static const char page[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
                               "Connection: keep-alive\r\nX-It: 1\r\n\r\nhi";

    if (visited < 0) {
        visited = accept4(origin, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        answered = false;
    }
    if (visited < 0) {
        return;
    }
    if (!receive(visited, asked)) {
        (void)close(visited);
        visited = -1;
        return;
    }
    if (!answered && strstr(asked, "\r\n\r\n") != NULL) {
        answered = true;
        (void)send(visited, page, sizeof page - 1, MSG_NOSIGNAL);
        (void)shutdown(visited, SHUT_WR);
    }
}

static void
turn(void)
{
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    serve_origin();
    (void)poll(NULL, 0, 1);
}

static bool
has_told(void)
{
    struct stat st;

    return fstat(heard.file, &st) == 0 && st.st_size > 0;
}

/* A request that is no HTTP is not told of: there the connection's end counts.
 * One of many clients is counted elsewhere, and is told of. */
static bool
is_busy(void)
{
    const struct wp_egress_source *source = egress->sources[0];

    return source->name[0] != '\0' ? source->conns > 0 : !has_told();
}

/* No visit holds one that is over. */
static void
policies_are_of_sources_only(void)
{
    size_t held = 0;

    WP_LIST_FOREACH (node, &egress->policies) {
        held +=
            WP_CONTAINER_OF(node, struct wp_egress_shared_policy, node)->users;
    }
    assert_int_equal(held, egress->sources_len);
}

/* --- What is written down --- */

/* Without what is another one each time. */
static void
put(const char *text)
{
    char port[3][16];

    (void)snprintf(port[0], sizeof port[0], ":%u", origin_port);
    (void)snprintf(port[1], sizeof port[1], ":%u", closed_port);
    (void)snprintf(port[2], sizeof port[2], ":%u", client_port);
    while (*text != '\0') {
        assert_true(transcript_len + 16 < TRANSCRIPT_MAX);
        if (strncmp(text, port[0], strlen(port[0])) == 0) {
            transcript_len +=
                (size_t)sprintf(transcript + transcript_len, ":PORT");
            text += strlen(port[0]);
        } else if (strncmp(text, port[1], strlen(port[1])) == 0) {
            transcript_len +=
                (size_t)sprintf(transcript + transcript_len, ":CLOSED");
            text += strlen(port[1]);
        } else if (client_port != 0 &&
                   strncmp(text, port[2], strlen(port[2])) == 0) {
            transcript_len +=
                (size_t)sprintf(transcript + transcript_len, ":CLIENT");
            text += strlen(port[2]);
        } else if (strncmp(text, " ms=", 4) == 0) {
            text += strcspn(text, "\n");
        } else {
            if (*text != '\r') {
                transcript[transcript_len++] = *text;
            }
            text++;
        }
    }
    transcript[transcript_len] = '\0';
}

/* The text; %P in it is the server's port, %C one where nobody listens. */
static size_t
fill(const char *text, char out[TEXT_MAX])
{
    size_t len = 0;

    for (; *text != '\0'; text++) {
        if (text[0] == '%' && (text[1] == 'P' || text[1] == 'C')) {
            len += (size_t)sprintf(out + len, "%u",
                                   text[1] == 'P' ? origin_port : closed_port);
            text++;
        } else {
            out[len++] = *text;
        }
    }
    out[len] = '\0';
    return len;
}

static void
join_box(const char *policy, const char *by)
{
    char text[TEXT_MAX];
    int fd = listen_at(AF_UNIX, &box, &box_len);
    struct wp_err err;

    (void)fill(policy, text);
    assert_int_equal(wp_egress_join(egress, WP_STR("box"), wp_str_from(text),
                                    wp_str_from(by), fd, &err),
                     WP_OK);
}

/* One request on a connection of its own, until that ends. request is
 * filled. Takes client. */
static void
talk(const char *title, int client, const char *request)
{
    char text[TEXT_MAX];
    size_t len = fill(request, text);
    bool tunnel = strncmp(request, "CONNECT", 7) == 0;

    asked[0] = '\0';
    got[0] = '\0';
    heard_begin(&heard);
    (void)send(client, text, len, MSG_NOSIGNAL);
    while (receive(client, got)) {
        if (tunnel && strncmp(got, "HTTP/1.1 200", 12) == 0 &&
            strstr(got, "\r\n\r\n") != NULL) {
            (void)send(client, "ping\r\n\r\n", 8, MSG_NOSIGNAL);
            tunnel = false;
        }
        turn();
    }
    (void)close(client);
    while (visited >= 0 || is_busy()) {
        turn();
    }
    policies_are_of_sources_only();
    put("=== ");
    put(title);
    put("\n--- asked\n");
    put(asked);
    put("--- answered\n");
    put(got);
    put("\n--- told\n");
    put(heard_end(&heard));
    put("\n");
}

static void
ask(const char *title, const char *request)
{
    talk(title, connect_to(&box, box_len), request);
}

/* For requests that differ by their target only. */
static void
get(const char *target)
{
    char request[1024];

    (void)snprintf(request, sizeof request,
                   "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                   target);
    ask(target, request);
}

static void
connect_through(const char *target)
{
    char request[1024];

    (void)snprintf(request, sizeof request, "CONNECT %s HTTP/1.1\r\n\r\n",
                   target);
    ask(target, request);
}

/* --- The rig --- */

static const uint8_t pass_key[WP_EGRESS_KEY_LEN] = {1, 2, 3};

static int
set_up(void **state)
{
    struct wp_err err;
    char text[1024];
    int closed;

    (void)signal(SIGPIPE, SIG_IGN);
    base = event_base_new();
    origin = listen_at_loopback(&origin_port);
    assert_int_equal(listen(origin, 16), 0);
    closed = listen_at_loopback(&closed_port); /* It never listens. */
    *state = (void *)(intptr_t)closed;
    (void)snprintf(text, sizeof text,
                   "plain http://127.0.0.1:%u/api/ X-Key: s3cret\n"
                   "bare http://127.0.0.1:%u X-Bare: s4cret\n"
                   "other http://127.0.0.1:%u/o Authorization: s5cret\n"
                   "sealed https://127.0.0.1:%u/ X-Sealed: s6cret\n",
                   origin_port, origin_port, closed_port, origin_port);
    keys = wp_egress_keys_parse(wp_str_from(text), &err);
    assert_non_null(keys);
    resolver = wp_resolver_create(base, "127.0.0.1:1", &err);
    assert_non_null(resolver);
    wp_egress_config_init(&config);
    config.base = base;
    config.keys = keys;
    config.resolver = resolver;
    config.pass_key = pass_key;
    config.source_conns_max = 2;
    config.idle_timeout_ns = FOREVER_NS * WP_NS_PER_S;
    egress = wp_egress_create(&config);
    assert_non_null(egress);
    transcript_len = 0;
    transcript[0] = '\0';
    return 0;
}

static int
tear_down(void **state)
{
    (void)close((int)(intptr_t)*state);
    (void)close(origin);
    wp_egress_destroy(egress);
    wp_resolver_destroy(resolver);
    wp_egress_keys_destroy(keys);
    event_base_free(base);
    return 0;
}

static void
compare(const char *name)
{
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/%s", WP_TEST_GOLDEN, name);
    golden_compare(transcript, path);
}

/* --- Tests --- */

static void
requests_of_a_sandbox(void **state)
{
    (void)state;
    join_box("127.0.0.1:%P 127.0.0.1:%C key:plain key:bare", "");
    get("http://127.0.0.1:%P/a/b?c=d");
    get("HTTP://127.1:%P");
    get("http://127.0.0.1:%P?q");
    get("http://127.0.0.1:%P/a#b");
    get("http://127.0.0.1:%P#b");
    get("http://");
    get("http://:%P/");
    get("http://127.0.0.1:0/");
    get("http://127.0.0.1/");
    get("http://127.0.0.1:%C/");
    get("https://127.0.0.1:%P/");
    get("x");
    get("*");
    ask("what is not handed on",
        "POST http://127.0.0.1:%P/p HTTP/1.1\r\nHost: a\r\nhOST: b\r\n"
        "X-Key: mine\r\nX-Other: kept\r\nConnection: close, X-Hop\r\n"
        "X-Hop: 1\r\nProxy-Authorization: Basic eDp5\r\nContent-Length: 3\r\n"
        "\r\nabc");
    ask("an old client",
        "GET http://127.0.0.1:%P/ HTTP/1.0\r\nX-Other: kept\r\n\r\n");
    connect_through("127.0.0.1:%P");
    connect_through("127.0.0.1");
    connect_through("127.0.0.1:%C");
    connect_through("127.0.0.1:443");
    connect_through("http://127.0.0.1:%P/");
    compare("egress_requests.txt");
}

static void
keys_and_their_paths(void **state)
{
    static const char *const paths[] = {
        "/plain/a?b=../c",
        "/plain",
        "/plain?q",
        "/plain/",
        "/plain/..",
        "/plain/a/../b",
        "/plain/%2e%2E",
        "/plain/.%2e?x",
        "/plain/..%2f",
        "/plain/..%5Cx",
        "/plain/..;x",
        "/plain/...",
        "/plain/..a",
        "/plain/a..",
        "/plain/.",
        "/plain/;..",
        "/plain/%2",
        "/plain/..\\x",
        "/plain/%zz..",
        "/plain#..",
        "/plai/",
        "/plainx/",
        "/",
        "/other/x",
        "/bare/x",
        "http://127.0.0.1:%P/clear",
    };

    (void)state;
    join_box("key:plain", "");
    get("/plain/x");
    join_box("key:plain key:bare 127.0.0.1:%P", "");
    for (size_t i = 0; i < WP_ARRAY_LEN(paths); i++) {
        get(paths[i]);
    }
    /* Never in clear, also where the proxy has no TLS. */
    join_box("key:sealed 127.0.0.1:%P", "");
    get("/sealed/x");
    get("http://127.0.0.1:%P/clear");
    /* With the other one first, its field is added to what is in clear. */
    join_box("key:bare key:plain 127.0.0.1:%P", "");
    get("http://127.0.0.1:%P/clear");
    ask("a field that a key has",
        "GET /plain/x HTTP/1.1\r\nx-kEY: mine\r\nX-Keys: kept\r\n"
        "Connection: close\r\n\r\n");
    connect_through("127.0.0.1:%P");
    compare("egress_keys.txt");
}

static void
what_policies_refuse(void **state)
{
    static const char *const policies[][2] = {
        {"none", ""},
        {"open", ""},
        {"localhost:%P", ""},
        {"localhost:%P 127.0.0.1:%P", ""},
        {"127.0.0.0/8:%P a.test", "a.test"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(policies); i++) {
        join_box(policies[i][0], policies[i][1]);
        put("##### ");
        put(policies[i][0]);
        put("\n");
        get("http://127.0.0.1:%P/");
        connect_through("127.0.0.1:%P");
        if (i < 2) {
            get("http://LocalHost.:%P/");
        }
    }
    compare("egress_policies.txt");
}

static void
bytes_of_a_sandbox_are_counted(void **state)
{
    uint64_t all;

    (void)state;
    join_box("127.0.0.1:%P", "");
    get("http://127.0.0.1:%P/");
    all = egress->sources[0]->bytes;
    assert_true(all > 0);
    get("http://127.0.0.1:%P/");
    assert_int_equal(egress->sources[0]->bytes, 2 * all);
    /* Of one that comes again, too. */
    join_box("127.0.0.1:%P", "");
    assert_int_equal(egress->sources[0]->bytes, 2 * all);
    assert_int_equal(egress->sources_len, 1);
    transcript_len = 0;
    /* As many as it may, to the byte; then none. */
    egress->config.source_bytes_max = 3 * all;
    get("http://127.0.0.1:%P/last");
    assert_true(egress->sources[0]->bytes > 3 * all);
    wp_egress_leave(egress, WP_STR("box"));
    join_box("127.0.0.1:%P", "");
    assert_int_equal(egress->sources[0]->bytes, 0);
    egress->config.source_bytes_max = all;
    get("http://127.0.0.1:%P/");
    assert_int_equal(egress->sources[0]->bytes, all);
    get("http://127.0.0.1:%P/");
    connect_through("127.0.0.1:%P");
    compare("egress_bytes.txt");
}

/* Each source, and each address of the one for many, has its own connections. */
/* Until so many connections are there. Clients of TCP may be accepted in another
 * order than they came in. */
static void
wait_connections(uint32_t n)
{
    while (wp_http_server_stats(egress->server).connections != n) {
        turn();
    }
}

/* The n-th that is there. */
static int
hold(const struct sockaddr_storage *at, socklen_t len, uint32_t n)
{
    int fd = connect_to(at, len);

    wait_connections(n);
    return fd;
}

static void
connections_are_bounded(void **state)
{
    static const char line[] = "GET x HTTP/1.1\r\nConnection: close\r\n\r\n";
    struct sockaddr_storage many;
    socklen_t many_len;
    struct wp_err err;
    int fd = listen_at(AF_INET, &many, &many_len);

    (void)state;
    join_box("none", "");
    assert_int_equal(wp_egress_join(egress, WP_STR(""), WP_STR("open"),
                                    WP_STR(""), fd, &err),
                     WP_OK);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++) {
            const struct sockaddr_storage *at = i == 0 ? &box : &many;
            socklen_t len = i == 0 ? box_len : many_len;
            int first = hold(at, len, 1);
            int second = hold(at, len, 2);
            int further = connect_to(at, len);

            asked[0] = '\0';
            got[0] = '\0';
            while (receive(further, got)) {
                turn();
            }
            put(got);
            put("\n");
            (void)close(further);
            (void)close(first);
            got[0] = '\0';
            /* Its place is free again, once that is seen. */
            while (strstr(got, " 400 ") == NULL &&
                   strstr(got, " 407 ") == NULL) {
                int again = connect_to(at, len);

                got[0] = '\0';
                (void)send(again, line, sizeof line - 1, MSG_NOSIGNAL);
                while (receive(again, got)) {
                    turn();
                }
                (void)close(again);
            }
            put(got);
            put("\n");
            (void)close(second);
            wait_connections(0);
        }
    }
    compare("egress_connections.txt");
}

static void
to_base64(const char *words, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
                                 "qrstuvwxyz0123456789+/";
    size_t len = strlen(words);

    for (size_t i = 0; i < len; i += 3) {
        unsigned a = (unsigned char)words[i];
        unsigned b = i + 1 < len ? (unsigned char)words[i + 1] : 0;
        unsigned c = i + 2 < len ? (unsigned char)words[i + 2] : 0;

        *out++ = digits[a >> 2];
        *out++ = digits[(a & 3) << 4 | b >> 4];
        *out++ = i + 1 < len ? digits[(b & 15) << 2 | c >> 6] : '=';
        *out++ = i + 2 < len ? digits[c & 63] : '=';
    }
    *out = '\0';
}

/* Requests of who shows that password. */
static void
ask_as(const char *title, const struct sockaddr_storage *at, socklen_t len,
       const char *user, const char *password)
{
    static char request[TEXT_MAX];
    static char words[TEXT_MAX / 2];
    static char text[TEXT_MAX - 256];

    (void)snprintf(words, sizeof words, "%s%s", user, password);
    to_base64(words, text);
    (void)snprintf(request, sizeof request,
                   "GET http://127.0.0.1:%%P/ HTTP/1.1\r\nHost: x\r\n"
                   "Proxy-Authorization: bASIC %s\r\nConnection: close\r\n\r\n",
                   text);
    talk(title, connect_to(at, len), request);
}

static void
passes_of_a_cluster(void **state)
{
    static char user[WP_EGRESS_PASS_TEXT_MAX + 64];
    char digits[WP_EGRESS_PASS_TEXT_MAX + 3];
    char mine[TEXT_MAX];
    struct wp_egress_pass pass = {
        .pool_namespace = WP_STR("agents"),
        .sandbox = WP_STR("box-1"),
        .address = WP_STR("127.0.0.1"),
    };
    struct sockaddr_storage at;
    socklen_t len;
    struct wp_err err;
    int fd = listen_at(AF_INET, &at, &len);

    (void)state;
    (void)fill("127.0.0.1:%P a.test", mine);
    assert_int_equal(wp_egress_join(egress, WP_STR(""), wp_str_from(mine),
                                    WP_STR(""), fd, &err),
                     WP_OK);
    talk("nothing shown", connect_to(&at, len),
         "GET http://127.0.0.1:%P/ HTTP/1.1\r\nConnection: close\r\n\r\n");
    talk("another scheme", connect_to(&at, len),
         "GET http://127.0.0.1:%P/ HTTP/1.1\r\nConnection: close\r\n"
         "Proxy-Authorization: Bearer x\r\n\r\n");
    talk("no base64", connect_to(&at, len),
         "GET http://127.0.0.1:%P/ HTTP/1.1\r\nConnection: close\r\n"
         "Proxy-Authorization: Basic ?\r\n\r\n");
    ask_as("no password", &at, len, "sandbox", "");
    ask_as("an empty password", &at, len, "sandbox:", "");
    ask_as("no pass", &at, len, "sandbox:", "abcd");
    pass.policy = wp_str_from(mine);
    wp_egress_pass_write(pass_key, &pass, digits);
    ask_as("all of it", &at, len, "sandbox:", digits);
    ask_as("another user", &at, len, ":", digits);
    /* As long as credentials may be, in whole groups of base64; and longer. */
    memset(user, 'u', sizeof user);
    user[(WP_EGRESS_PASS_TEXT_MAX + 64) / 3 * 3 - 1 - strlen(digits)] = '\0';
    user[strlen(user) - 1] = ':';
    (void)strcat(digits, "0");
    ask_as("long", &at, len, user, digits);
    (void)strcat(digits, "0");
    ask_as("too long", &at, len, user, digits);
    pass.by = WP_STR("a.test");
    wp_egress_pass_write(pass_key, &pass, digits);
    ask_as("narrowed", &at, len, "sandbox:", digits);
    pass.by = WP_STR("b.test");
    wp_egress_pass_write(pass_key, &pass, digits);
    ask_as("not narrower", &at, len, "sandbox:", digits);
    pass.by = WP_STR("");
    pass.policy = WP_STR("open");
    wp_egress_pass_write(pass_key, &pass, digits);
    ask_as("more than the proxy", &at, len, "sandbox:", digits);
    pass.policy = WP_STR("none");
    wp_egress_pass_write(pass_key, &pass, digits);
    ask_as("nothing", &at, len, "sandbox:", digits);
    pass.policy = WP_STR("a b/c");
    wp_egress_pass_write(pass_key, &pass, digits);
    ask_as("no policy", &at, len, "sandbox:", digits);
    pass.policy = wp_str_from(mine);
    pass.address = WP_STR("::1");
    wp_egress_pass_write(pass_key, &pass, digits);
    ask_as("of another family", &at, len, "sandbox:", digits);
    compare("egress_passes.txt");
}

/* A socket for both families knows clients of the older one, too. */
static void
passes_over_both_families(void **state)
{
    static const char *const addresses[] = {"127.0.0.1", "127.0.0.2", "::1",
                                            "::2", "::ffff:127.0.0.1"};
    char digits[WP_EGRESS_PASS_TEXT_MAX + 1];
    struct sockaddr_storage at;
    struct sockaddr_in old = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 *new = (struct sockaddr_in6 *)&at;
    socklen_t len;
    struct wp_err err;
    int fd = listen_at(AF_INET6, &at, &len);

    (void)state;
    if (fd < 0) {
        print_message("SKIP: no IPv6 here\n");
        skip();
    }
    old.sin_port = new->sin6_port;
    new->sin6_addr = in6addr_loopback;
    assert_int_equal(wp_egress_join(egress, WP_STR(""), WP_STR("open"),
                                    WP_STR(""), fd, &err),
                     WP_OK);
    for (size_t i = 0; i < WP_ARRAY_LEN(addresses); i++) {
        const struct wp_egress_pass pass = {
            .pool_namespace = WP_STR("agents"),
            .sandbox = WP_STR("box-1"),
            .address = wp_str_from(addresses[i]),
            .policy = WP_STR("none"),
        };
        struct sockaddr_storage from = {.ss_family = 0};

        wp_egress_pass_write(pass_key, &pass, digits);
        memcpy(&from, &old, sizeof old);
        ask_as("by IPv4", &from, sizeof old, "sandbox:", digits);
        ask_as("by IPv6", &at, sizeof *new, "sandbox:", digits);
    }
    /* And so are servers. */
    join_box("[::1]:%P [fd00::1]:%C", "");
    get("http://[::1]:%P/");
    get("http://[0:0::1]:%C/");
    connect_through("[::1]:%P");
    compare("egress_families.txt");
}

/* One line for each request, up to fifty a second; what is not said is
 * counted. */
static void
lines_of_the_log_are_bounded(void **state)
{
    struct wp_egress_lines *lines;
    struct wp_egress_source source = {.name = "box"};
    const struct wp_egress_client named = {.source = &source};
    struct wp_egress_source for_many = {.name = ""};
    const struct wp_egress_client guest = {.source = &for_many,
                                           .ticket = {.entry = 1}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct wp_egress_client *client = i == 0 ? &named : &guest;
        int said = 0;

        lines = i == 0 ? &source.lines : &egress->guest_lines[1];
        lines->since_ns = INT64_MAX / 2; /* This second does not end. */
        for (int n = 0; n < 53; n++) {
            said += wp_egress_may_log(egress, client, n < 52 ? "a" : "b");
        }
        assert_int_equal(said, 50);
        assert_int_equal(lines->unsaid, 3);
        lines->since_ns = 0;
        heard_begin(&heard);
        said = wp_egress_may_log(egress, client, "c");
        put(heard_end(&heard));
        assert_int_equal(said, 1);
        assert_int_equal(lines->n, 1);
        assert_int_equal(lines->unsaid, 0);
        assert_true(lines->since_ns > 0);
    }
    /* What is left is said at the end. */
    join_box("none", "");
    egress->sources[0]->lines.unsaid = 5;
    (void)strcpy(egress->sources[0]->lines.who, "box");
    egress->guest_lines[1].unsaid = 7;
    heard_begin(&heard);
    wp_egress_leave(egress, WP_STR("box"));
    wp_egress_destroy(egress);
    put(heard_end(&heard));
    egress = NULL;
    assert_string_equal(transcript,
                        "WARN egress not told of sandbox=b requests=3\n"
                        "WARN egress not told of sandbox=b requests=3\n"
                        "WARN egress not told of sandbox=box requests=5\n"
                        "WARN egress not told of sandbox=b requests=7\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(requests_of_a_sandbox, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(keys_and_their_paths, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_policies_refuse, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(bytes_of_a_sandbox_are_counted, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(connections_are_bounded, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(passes_of_a_cluster, set_up, tear_down),
        cmocka_unit_test_setup_teardown(passes_over_both_families, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(lines_of_the_log_are_bounded, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
