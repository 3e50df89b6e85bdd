/* Whole exchanges through the proxy: any bytes from a client, any bytes from
 * the sandbox. "\xff\xff" parts the two; the first byte says in which pieces the
 * client's come, the second in which the sandbox's, and when it begins.
 *
 * Behind its bytes the client asks for a page of the server's own and ends its
 * side. What it gets is read by a strict reader of the target's own, not with
 * the product's parser. Checked: each request that the server took has one
 * answer, in order; no byte of one is in the next, as the pages show, whose text
 * no sandbox knows; an answer that can have no body announces none; all ends.
 * And each connection to the sandbox carried one request, and nothing more. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "allocator/http/proxy.h"
#include "pool/base/clock.h"
#include "pool/base/siphash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    REQUESTS_MAX = 512, /* More than fit into what is sent. */
    SENT_MAX = 8192,
    GOT_MAX = 1 << 20,
    IDLE_ROUNDS = 64, /* Nothing has moved for so long: it is stuck. */
};

enum kind {
    KIND_OWN,
    KIND_REFUSED,
    KIND_PROXIED,
};

struct asked {
    enum kind kind;
    bool is_head;
};

struct upstream {
    int fd; /* -1: over. */
    bool answers;
    size_t sent;
    size_t seen_len;
    char seen[GOT_MAX / 8];
};

static struct event_base *base;
static struct wp_http_server *server;
static struct wp_http_proxy proxy;
static struct sockaddr_un server_address;
static socklen_t server_address_len = sizeof server_address;
static struct sockaddr_un box_address;
static char box_endpoint[128];
static int box_fd;
static struct wp_hash_key key;
static uint64_t runs;
static char own_page[32];
static struct asked asked[REQUESTS_MAX];
static size_t n_asked;
static struct upstream box;
static struct wp_str box_says;
static uint8_t box_manner;
static char got[GOT_MAX];
static size_t got_len;

static void
check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static const struct wp_http_ops *
on_request(struct wp_http_req *req)
{
    const struct wp_http_message *request = wp_http_message(req);
    struct wp_http_route route;
    const char *why = "";
    struct asked *one = &asked[n_asked++];

    check(n_asked < REQUESTS_MAX);
    one->is_head = wp_str_is(request->method, "HEAD");
    one->kind = KIND_REFUSED;
    if (!wp_http_route(request, &route, &why)) {
        wp_http_set_close(req);
        wp_http_reply_error(req, 400, "%s", why);
        return NULL;
    }
    if (!route.proxy) {
        one->kind = KIND_OWN;
        wp_http_reply(req, 200, "text/plain", own_page, strlen(own_page));
        return NULL;
    }
    one->kind = KIND_PROXIED;
    return wp_http_proxy_open(&proxy, req, &route, box_endpoint, true, "");
}

static int
listen_there(struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    check(fd >= 0 && bind(fd, (const struct sockaddr *)address,
                          address->sun_path[0] != '\0'
                              ? (socklen_t)sizeof *address
                              : (socklen_t)sizeof address->sun_family) == 0);
    return fd;
}

static void
remove_box(void)
{
    (void)unlink(box_address.sun_path);
}

static void
start(void)
{
    struct wp_err err;
    int fd;

    (void)signal(SIGPIPE, SIG_IGN); /* As the daemon does. */
    check(getrandom(&key, sizeof key, 0) == (ssize_t)sizeof key);
    base = event_base_new();
    proxy = (struct wp_http_proxy){.base = base,
                                   .idle_timeout_ns = 600 * WP_NS_PER_S,
                                   .upstream_timeout_ns = 600 * WP_NS_PER_S};
    server = wp_http_server_create(&(struct wp_http_server_config){
        .base = base,
        .route = on_request,
        .conns_max = 8,
        .fields_max = WP_HTTP_FIELDS_MAX,
        .head_timeout_ns = 600 * WP_NS_PER_S,
        .body_timeout_ns = 600 * WP_NS_PER_S,
        .idle_timeout_ns = 600 * WP_NS_PER_S,
        .send_timeout_ns = 600 * WP_NS_PER_S,
    });
    check(base != NULL && server != NULL);
    /* An address of nothing but its family: the kernel chooses a name. */
    server_address.sun_family = AF_UNIX;
    fd = listen_there(&server_address);
    check(getsockname(fd, (struct sockaddr *)&server_address,
                      &server_address_len) == 0);
    check(wp_http_server_listen(server, fd, 0, &err) == WP_OK);
    box_address.sun_family = AF_UNIX;
    (void)snprintf(box_address.sun_path, sizeof box_address.sun_path,
                   "/tmp/wp-fuzz-box-%d", (int)getpid());
    (void)snprintf(box_endpoint, sizeof box_endpoint, "unix:%s",
                   box_address.sun_path);
    remove_box();
    (void)atexit(remove_box);
    box_fd = listen_there(&box_address);
    check(listen(box_fd, 8) == 0);
}

/* ------------------------------------------------- the target's own reader */

struct head {
    unsigned status;
    bool closes;
    bool upgrades;
    bool chunked;
    bool has_length;
    uint64_t length;
};

static bool
line_is(const char *line, const char *start)
{
    return strncasecmp(line, start, strlen(start)) == 0;
}

static void
read_field(struct head *head, const char *line)
{
    char *end;

    if (line_is(line, "Content-Length:")) {
        check(!head->has_length && !head->chunked);
        head->has_length = true;
        errno = 0;
        head->length = strtoull(line + strlen("Content-Length:"), &end, 10);
        check(errno == 0 && *end == '\0');
    } else if (line_is(line, "Transfer-Encoding:")) {
        check(!head->has_length && !head->chunked);
        check(strcasecmp(line, "Transfer-Encoding: chunked") == 0);
        head->chunked = true;
    } else if (line_is(line, "Connection:")) {
        head->closes = head->closes || strcasestr(line, "close") != NULL;
        head->upgrades = head->upgrades || strcasestr(line, "upgrade") != NULL;
    }
}

/* Length of the head, 0 when there is no whole one; changes line ends to 0. */
static size_t
read_head(char *at, size_t len, struct head *head, bool is_answer)
{
    char *end = memmem(at, len, "\r\n\r\n", 4);
    char *line = at;

    memset(head, 0, sizeof *head);
    if (end == NULL) {
        return 0;
    }
    end[2] = '\0';
    while (line < end + 2) {
        char *stop = memmem(line, (size_t)(end + 2 - line), "\r\n", 2);

        check(stop != NULL);
        *stop = '\0';
        check(memchr(line, '\n', (size_t)(stop - line)) == NULL);
        if (line != at) {
            read_field(head, line);
        } else if (is_answer) {
            check(line_is(line, "HTTP/1.1 ") && strlen(line) >= 12);
            head->status = (unsigned)strtoul(line + 9, NULL, 10);
            check(head->status >= 100 && head->status <= 999);
        }
        line = stop + 2;
    }
    return (size_t)(end + 4 - at);
}

/* Length of a chunked body, SIZE_MAX: it is cut. */
static size_t
chunks_len(const char *at, size_t len)
{
    size_t done = 0;

    for (;;) {
        const char *stop = memmem(at + done, len - done, "\r\n", 2);
        uint64_t size;

        if (stop == NULL) {
            return SIZE_MAX;
        }
        size = strtoull(at + done, NULL, 16);
        done = (size_t)(stop - at) + 2;
        if (size == 0) {
            break;
        }
        if (size > len - done || len - done - size < 2) {
            return SIZE_MAX;
        }
        done += size;
        check(memcmp(at + done, "\r\n", 2) == 0);
        done += 2;
    }
    for (;;) { /* Trailers. */
        const char *stop = memmem(at + done, len - done, "\r\n", 2);

        if (stop == NULL) {
            return SIZE_MAX;
        }
        if (stop == at + done) {
            return done + 2;
        }
        done = (size_t)(stop - at) + 2;
    }
}

static size_t
body_len(const struct head *head, const char *at, size_t len)
{
    if (head->chunked) {
        return chunks_len(at, len);
    }
    return head->length <= len ? (size_t)head->length : SIZE_MAX;
}

/* --------------------------------------------------------------- verdicts */

static const struct asked broken = {.kind = KIND_REFUSED};

/* How long the answer at `at` is, all of len when it ends the connection. */
static size_t
check_answer(char *at, size_t len, const struct asked *one)
{
    struct head head;
    size_t head_len = 0;
    size_t body;
    size_t used;

    do {
        used = read_head(at + head_len, len - head_len, &head, true);
        if (used ==
            0) { /* Cut: only where a sandbox or its client is at fault. */
            check(one->kind == KIND_PROXIED);
            return len;
        }
        head_len += used;
        if (head.status == 101) {
            check(one->kind == KIND_PROXIED);
            return len;
        }
        check(head.status >= 200 || (!head.has_length && !head.chunked));
    } while (head.status < 200);
    if (head.status == 204 || head.status == 304) {
        check(!head.has_length && !head.chunked);
        return head.closes ? len : head_len;
    }
    if (one->is_head) {
        check(!head.chunked);
        body = 0;
    } else if (head.has_length || head.chunked) {
        body = body_len(&head, at + head_len, len - head_len);
    } else {
        check(head.closes);
        return len;
    }
    if (body == SIZE_MAX) {
        /* What could not be read as a request may still have been a HEAD. */
        check(one->kind == KIND_PROXIED || (one == &broken && head.closes));
        return len;
    }
    if (one->kind == KIND_OWN) {
        check(head.status == 200 && head.length == strlen(own_page));
        check(memcmp(at + head_len, own_page, body) == 0);
    }
    check(!head.closes || head_len + body == len);
    return head_len + body;
}

static void
check_answers(void)
{
    size_t at = 0;

    for (size_t i = 0; i < n_asked; i++) {
        /* Only a request whose rest never came has no answer at all. */
        check(at < got_len ||
              (asked[i].kind == KIND_PROXIED && i + 1 == n_asked));
        at += check_answer(got + at, got_len - at, &asked[i]);
    }
    if (at < got_len) { /* Of what could not be read as a request. */
        at += check_answer(got + at, got_len - at, &broken);
    }
    check(at == got_len);
}

static void
check_upstream(void)
{
    struct head head;
    size_t len = read_head(box.seen, box.seen_len, &head, false);
    size_t body;

    if (len == 0 || head.upgrades) {
        return;
    }
    check(head.closes);
    body = body_len(&head, box.seen + len, box.seen_len - len);
    check(body == SIZE_MAX || len + body == box.seen_len);
}

/* --------------------------------------------------------- the other sides */

static void
box_end(void)
{
    if (box.fd >= 0) {
        (void)close(box.fd);
        box.fd = -1;
        check_upstream();
    }
}

/* True when something has moved. One connection at a time, as one client has
 * one exchange at a time. */
static bool
box_step(void)
{
    size_t piece = (size_t)(box_manner >> 1) + 1;
    ssize_t n;

    if (box.fd < 0) {
        box.fd = accept4(box_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        box.sent = 0;
        box.seen_len = 0;
        box.answers = (box_manner & 1) != 0;
        return box.fd >= 0;
    }
    n = recv(box.fd, box.seen + box.seen_len, sizeof box.seen - box.seen_len,
             0);
    if (n > 0) {
        box.seen_len += (size_t)n;
        check(box.seen_len < sizeof box.seen);
        box.answers = box.answers ||
                      memmem(box.seen, box.seen_len, "\r\n\r\n", 4) != NULL;
        return true;
    }
    if (n == 0) {
        box_end();
        return true;
    }
    if (!box.answers) {
        return false;
    }
    piece = piece < box_says.len - box.sent ? piece : box_says.len - box.sent;
    n = send(box.fd, box_says.ptr + box.sent, piece, MSG_NOSIGNAL);
    box.sent += n > 0 ? (size_t)n : 0;
    if (n < 0 || box.sent == box_says.len) {
        box_end();
    }
    return true;
}

static bool
client_read(int fd, bool *ended)
{
    ssize_t n = recv(fd, got + got_len, sizeof got - got_len, MSG_DONTWAIT);

    if (n > 0) {
        got_len += (size_t)n;
        check(got_len < sizeof got);
    }
    *ended = n == 0 || (n < 0 && errno != EAGAIN);
    return n > 0;
}

/* One turn of everybody; true when something has moved. */
static bool
turn(int client, bool *ended)
{
    bool moved;

    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    moved = box_step();
    return client_read(client, ended) || moved;
}

static void
run(struct wp_str says, size_t piece)
{
    static const char last[] = "GET /own HTTP/1.1\r\n\r\n";
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ended = false;
    unsigned idle = 0;

    check(client >= 0 &&
          connect(client, (const struct sockaddr *)&server_address,
                  server_address_len) == 0);
    while (says.len > 0 && !ended) {
        size_t n = piece < says.len ? piece : says.len;

        (void)send(client, says.ptr, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        says.ptr += n;
        says.len -= n;
        (void)turn(client, &ended);
    }
    (void)send(client, last, sizeof last - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(client, SHUT_WR);
    while (!ended) {
        idle = turn(client, &ended) ? 0 : idle + 1;
        check(ended || idle < IDLE_ROUNDS);
    }
    (void)close(client);
    for (idle = 0; wp_http_server_stats(server).connections > 0 || box.fd >= 0;
         idle++) {
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
        (void)box_step();
        check(idle < 100 * IDLE_ROUNDS);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data + 2;
    const char *parting;
    struct wp_str says;

    if (size < 2 || size > SENT_MAX) {
        return 0;
    }
    if (base == NULL) {
        start();
    }
    size -= 2;
    parting = size > 0 ? memmem(text, size, "\xff\xff", 2) : NULL;
    says = (struct wp_str){text,
                           parting != NULL ? (size_t)(parting - text) : size};
    box_says = (struct wp_str){"", 0};
    if (parting != NULL) {
        box_says = (struct wp_str){parting + 2, size - says.len - 2};
    }
    box_manner = data[1];
    box.fd = -1;
    runs++;
    (void)snprintf(
        own_page, sizeof own_page, "own-%016llx",
        (unsigned long long)wp_siphash128(key, &runs, sizeof runs).low);
    n_asked = 0;
    got_len = 0;
    run(says, (size_t)data[0] + 1);
    check_answers();
    return 0;
}
