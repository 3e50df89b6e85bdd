/* A request to a sandbox, from the socket's calls upwards: what is sent, how
 * long is waited, and what is made of each answer and failure. The same for a
 * file that is uploaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/ctl/sandbox/sandbox_client.h"
#include "allocator/ctl/sandbox/upload.h"
#include "pool/base/clock.h"
#include "pool/limits.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/temp_dir.h"

#define GOLDEN(name) WP_TEST_GOLDEN "/" name ".txt"

enum {
    FD = 77,
    SHOWN_MAX = 1000, /* Of bytes that are sent. */
};

/* What the system's calls answer, one after the other. */
struct step {
    const char *call;  /* NULL: no more. */
    long result;       /* Negative: -errno. */
    int extra;         /* Of poll: what is there. Of getsockopt: the error. */
    const char *bytes; /* Of recv. */
};

static struct golden seen;
static const struct step *steps;
static bool no_memory;
static volatile sig_atomic_t stop; /* The upload. */

/* The version of a request's head is V: its length is that of any version. */
static size_t
without_version(const char *bytes, size_t len, const char **version)
{
    static const char name[] = "warmpoolctl/" WP_VERSION;

    *version = memmem(bytes, len, name, sizeof name - 1);
    if (*version == NULL) {
        return len;
    }
    *version += strlen("warmpoolctl/");
    return len - strlen(WP_VERSION) + 1;
}

static void
note_bytes(const char *bytes, size_t len)
{
    const char *version;

    (void)without_version(bytes, len, &version);
    for (size_t i = 0; i < len && i < SHOWN_MAX; i++) {
        if (bytes + i == version) {
            golden_add(&seen, "V");
            i += strlen(WP_VERSION) - 1;
        } else {
            golden_add(&seen,
                       isprint((unsigned char)bytes[i]) ? "%c" : "\\x%02x",
                       (unsigned char)bytes[i]);
        }
    }
    golden_add(&seen, "%s\n", len > SHOWN_MAX ? "..." : "");
}

/* The next step, which is for this call. */
static long
take(const char *call, const struct step **out)
{
    static const struct step none = {NULL, -EIO, 0, NULL};
    const struct step *step = steps;

    if (step == NULL || step->call == NULL || strcmp(step->call, call) != 0) {
        golden_add(&seen, "  (no answer for %s)\n", call);
        step = &none;
    } else {
        steps++;
    }
    *out = step;
    if (step->result < 0) {
        errno = (int)-step->result;
        golden_add(&seen, "    %s\n", strerror(errno));
        return -1;
    }
    errno = EDOM; /* What succeeds says nothing there. */
    return step->result;
}

int __wrap_socket(int domain, int type, int protocol);
int
__wrap_socket(int domain, int type, int protocol)
{
    const struct step *step;

    golden_add(&seen, "  socket %s %s%s%s %d\n",
               domain == AF_UNIX    ? "unix"
               : domain == AF_INET6 ? "inet6"
                                    : "inet",
               (type & 0xf) == SOCK_STREAM ? "stream" : "other",
               (type & SOCK_CLOEXEC) != 0 ? " cloexec" : "",
               (type & SOCK_NONBLOCK) != 0 ? " nonblock" : "", protocol);
    return (int)take("socket", &step);
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);
int
__wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
    const struct step *step;

    golden_add(&seen, "  connect %d family %d len %u\n", fd, to->sa_family,
               len);
    return (int)take("connect", &step);
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    const struct step *step;
    long result;

    golden_add(&seen, "  poll %d of %lu for%s%s, %d ms\n", fds->fd, n,
               (fds->events & POLLIN) != 0 ? " in" : "",
               (fds->events & POLLOUT) != 0 ? " out" : "", timeout_ms);
    result = take("poll", &step);
    fds->revents = (short)step->extra;
    return (int)result;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int
__wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    const struct step *step;
    long result;

    golden_add(&seen, "  getsockopt %d %d %d %u\n", fd, level, name, *len);
    result = take("getsockopt", &step);
    memcpy(value, &step->extra, sizeof step->extra);
    return (int)result;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t
__wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    const struct step *step;
    const char *version;
    long result;

    golden_add(&seen, "  send %d%s %zu: ", fd,
               flags == MSG_NOSIGNAL ? "" : " with other flags",
               without_version(bytes, len, &version));
    note_bytes(bytes, len);
    result = take("send", &step);
    if (step->extra != 0) {
        stop = 1; /* A signal comes. */
    }
    return result > (long)len ? (ssize_t)len : result;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t cap, int flags);
ssize_t
__wrap_recv(int fd, void *bytes, size_t cap, int flags)
{
    const struct step *step;

    golden_add(&seen, "  recv %d %zu %d\n", fd, cap, flags);
    if (take("recv", &step) < 0) {
        return -1;
    }
    if (step->bytes == NULL) {
        return 0;
    }
    memcpy(bytes, step->bytes, strlen(step->bytes));
    return (ssize_t)strlen(step->bytes);
}

int __real_close(int fd);
int __wrap_close(int fd);
int
__wrap_close(int fd)
{
    if (fd != FD) {
        return __real_close(fd);
    }
    golden_add(&seen, "  close %d\n", fd);
    return 0;
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *
__wrap_calloc(size_t n, size_t size)
{
    if (no_memory) {
        no_memory = false;
        return NULL;
    }
    return __real_calloc(n, size);
}

#define CONNECTED                                                              \
    {"socket", FD, 0, NULL},                                                   \
    {                                                                          \
        "connect", 0, 0, NULL                                                  \
    }
#define MAY_SEND                                                               \
    {                                                                          \
        "poll", 1, POLLOUT, NULL                                               \
    }
#define SENDS                                                                  \
    {"poll", 1, POLLOUT, NULL},                                                \
    {                                                                          \
        "send", 1 << 20, 0, NULL                                               \
    }
#define COMES(text)                                                            \
    {"poll", 1, POLLIN, NULL},                                                 \
    {                                                                          \
        "recv", 0, 0, text                                                     \
    }
#define ENDS                                                                   \
    {"poll", 1, POLLIN, NULL},                                                 \
    {                                                                          \
        "recv", 0, 0, NULL                                                     \
    }
#define END                                                                    \
    {                                                                          \
        NULL, 0, 0, NULL                                                       \
    }

static void
note_error(enum wp_status status, const struct wp_err *err)
{
    if (status == WP_OK) {
        golden_add(&seen, "ok\n");
    } else {
        golden_add(&seen, "%s (%s): %s\n", wp_status_name(status),
                   wp_status_name(err->status), err->msg);
    }
}

static struct wp_sandbox_client *
open_client(const char *address, int64_t timeout_ns)
{
    struct wp_err err = {.status = WP_OK};
    struct wp_sandbox_client *client =
        wp_sandbox_client_open(address, timeout_ns, &err);

    if (client == NULL) {
        note_error(err.status, &err);
    }
    return client;
}

static void
at_end(struct wp_sandbox_client *client)
{
    wp_sandbox_client_close(client);
    if (steps != NULL && steps->call != NULL) {
        golden_add(&seen, "(%s was not called)\n", steps->call);
    }
    golden_add(&seen, "\n");
    steps = NULL;
}

/* --- Opening --- */

static void
test_a_connection(void **state)
{
    static const struct {
        const char *address;
        int64_t timeout_ns;
        struct step steps[8];
    } rows[] = {
        {"127.0.0.1:80", WP_NS_PER_S, {CONNECTED, END}},
        {"[::1]:80", WP_NS_PER_S, {CONNECTED, END}},
        {"unix:/run/x.sock", WP_NS_PER_S, {CONNECTED, END}},
        {"nonsense", WP_NS_PER_S, {END}},
        {"127.0.0.1:80", WP_NS_PER_S, {{"socket", -EMFILE, 0, NULL}, END}},
        {"unix:/run/x.sock",
         WP_NS_PER_S,
         {{"socket", FD, 0, NULL}, {"connect", -ENOENT, 0, NULL}, END}},
        {"unix:/run/x.sock",
         WP_NS_PER_S,
         {{"socket", FD, 0, NULL}, {"connect", -EAGAIN, 0, NULL}, END}},
        {"127.0.0.1:80",
         1999999,
         {{"socket", FD, 0, NULL},
          {"connect", -EINPROGRESS, 0, NULL},
          {"poll", -EINTR, 0, NULL},
          {"poll", -EINTR, 0, NULL},
          {"poll", 1, POLLOUT, NULL},
          {"getsockopt", 0, 0, NULL},
          END}},
        {"127.0.0.1:80",
         INT64_MAX,
         {{"socket", FD, 0, NULL},
          {"connect", -EINPROGRESS, 0, NULL},
          {"poll", 1, POLLOUT, NULL},
          {"getsockopt", 0, ECONNREFUSED, NULL},
          END}},
        {"127.0.0.1:80",
         INT64_C(2147483646) * WP_NS_PER_MS,
         {{"socket", FD, 0, NULL},
          {"connect", -EINPROGRESS, 0, NULL},
          {"poll", 1, POLLOUT, NULL},
          {"getsockopt", -EBADF, 0, NULL},
          END}},
        {"127.0.0.1:80",
         5 * WP_NS_PER_S,
         {{"socket", FD, 0, NULL},
          {"connect", -EINPROGRESS, 0, NULL},
          {"poll", 0, 0, NULL},
          END}},
        {"127.0.0.1:80",
         5 * WP_NS_PER_S,
         {{"socket", FD, 0, NULL},
          {"connect", -EINPROGRESS, 0, NULL},
          {"poll", -ENOMEM, 0, NULL},
          END}},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_sandbox_client *client;

        steps = rows[i].steps;
        golden_add(&seen, "open %s\n", rows[i].address);
        client = open_client(rows[i].address, rows[i].timeout_ns);
        if (client != NULL) {
            golden_add(&seen, "ok, %d\n", wp_sandbox_client_fd(client));
        }
        at_end(client);
    }
    no_memory = true;
    golden_add(&seen, "open without memory\n");
    at_end(open_client("127.0.0.1:80", 1));
    wp_sandbox_client_close(NULL);
    golden_compare(seen.text, GOLDEN("client_open"));
}

/* The default address, where the directory can be trusted. */
static void
test_the_default_address(void **state)
{
    static const struct step refused[] = {
        {"socket", FD, 0, NULL}, {"connect", -ENOENT, 0, NULL}, END};
    char dir[] = "/tmp/wp-test-XXXXXX";
    char expected[200];
    struct wp_err err;

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(setenv("RUNTIME_DIRECTORY", dir, 1), 0);
    steps = refused;
    assert_null(wp_sandbox_client_open(NULL, WP_NS_PER_S, &err));
    (void)snprintf(expected, sizeof expected,
                   "cannot reach warmpoold's HTTP at unix:%s/warmpoold-http"
                   ".sock: No such file or directory",
                   dir);
    assert_string_equal(err.msg, expected);
    assert_int_equal(err.status, WP_UNAVAILABLE);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_null(wp_sandbox_client_open(NULL, WP_NS_PER_S, &err));
    assert_int_equal(err.status, WP_PERMISSION_DENIED);
    assert_int_equal(rmdir(dir), 0);
}

/* --- The request --- */

static void
test_requests(void **state)
{
    static const struct wp_sandbox_request requests[] = {
        {.method = "GET",
         .sandbox = "box",
         .path = "/download/a%20b",
         .bearer = ""},
        {.method = "PUT",
         .sandbox = "box",
         .path = "/x",
         .bearer = "00ff",
         .type = "text/plain",
         .body_len = UINT64_MAX},
        {.method = "POST",
         .sandbox = "box",
         .path = "/x",
         .bearer = "00ff",
         .type = "text/plain",
         .upgrade = "proto/1"},
        {.method = "POST",
         .sandbox = "box",
         .path = "/x",
         .bearer = "",
         .upgrade = "proto/1"},
    };
    static const struct step some[] = {CONNECTED, SENDS, END};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(requests); i++) {
        struct wp_sandbox_client *client;
        struct wp_err err;

        steps = some;
        client = open_client("127.0.0.1:80", WP_NS_PER_S);
        note_error(wp_sandbox_client_request(client, &requests[i], &err), &err);
        at_end(client);
    }
    golden_compare(seen.text, GOLDEN("client_requests"));
}

/* So long that a head has room for it, and a byte longer. */
static void
test_the_longest_path(void **state)
{
    static char path[17000];
    static const struct step some[] = {CONNECTED, SENDS, END};
    struct wp_sandbox_request request = {
        .method = "GET", .sandbox = "box", .path = path, .bearer = ""};

    (void)state;
    for (int more = 0; more < 2; more++) {
        struct wp_sandbox_client *client;
        struct wp_err err;
        size_t rest = strlen("GET /sandboxes/box HTTP/1.1\r\nHost: warmpool\r\n"
                             "User-Agent: warmpoolctl/" WP_VERSION "\r\n"
                             "Connection: close\r\n\r\n");

        memset(path, 'p', sizeof path);
        path[16383 - rest + (size_t)more] = '\0';
        steps = some;
        client = open_client("127.0.0.1:80", WP_NS_PER_S);
        note_error(wp_sandbox_client_request(client, &request, &err), &err);
        at_end(client);
    }
    golden_compare(seen.text, GOLDEN("client_long"));
}

static void
test_sending(void **state)
{
    static const struct {
        const char *what;
        struct step steps[12];
    } rows[] = {
        {"in pieces",
         {CONNECTED,
          MAY_SEND,
          {"send", 3, 0, NULL},
          MAY_SEND,
          {"send", 2, 0, NULL},
          MAY_SEND,
          {"send", 1 << 20, 0, NULL},
          END}},
        {"again",
         {CONNECTED,
          MAY_SEND,
          {"send", -EAGAIN, 0, NULL},
          MAY_SEND,
          {"send", -EINTR, 0, NULL},
          MAY_SEND,
          {"send", 0, 0, NULL},
          SENDS,
          END}},
        {"an answer comes",
         {CONNECTED,
          MAY_SEND,
          {"send", 3, 0, NULL},
          {"poll", 1, POLLIN | POLLOUT, NULL},
          END}},
        {"it hangs up", {CONNECTED, {"poll", 1, POLLHUP, NULL}, END}},
        {"an error comes", {CONNECTED, {"poll", 1, POLLERR, NULL}, END}},
        {"it is closed", {CONNECTED, MAY_SEND, {"send", -EPIPE, 0, NULL}, END}},
        {"it is reset",
         {CONNECTED, MAY_SEND, {"send", -ECONNRESET, 0, NULL}, END}},
        {"it breaks", {CONNECTED, MAY_SEND, {"send", -ENETDOWN, 0, NULL}, END}},
        {"nobody takes it", {CONNECTED, {"poll", 0, 0, NULL}, END}},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_sandbox_client *client;
        struct wp_err err;

        golden_add(&seen, "%s\n", rows[i].what);
        steps = rows[i].steps;
        client = open_client("127.0.0.1:80", WP_NS_PER_S);
        note_error(wp_sandbox_client_send(client, "0123456789", 10, &err),
                   &err);
        note_error(wp_sandbox_client_send(client, "", 0, &err), &err);
        golden_add(&seen, "answered: %d\n", wp_sandbox_client_answered(client));
        if (wp_sandbox_client_answered(client)) {
            note_error(wp_sandbox_client_send(client, "more", 4, &err), &err);
        }
        at_end(client);
    }
    golden_compare(seen.text, GOLDEN("client_send"));
}

/* --- The answer --- */

#define HEAD(status) "HTTP/1.1 " status "\r\n"
#define JSON(status, body)                                                     \
    COMES(HEAD(status) "Connection: close\r\n\r\n" body), ENDS

static const struct {
    const char *what;
    struct step steps[16];
} answers[] = {
    {"a body in one",
     {CONNECTED, COMES(HEAD("200 OK") "Content-Length: 5\r\n\r\nhello"), END}},
    {"head and body in pieces",
     {CONNECTED, COMES("HTTP/1.1 2"), COMES("06 Some\r\nContent-Le"),
      COMES("ngth: 12\r\n\r\n"), COMES("hello "), COMES("world!"), END}},
    {"the highest of success",
     {CONNECTED, COMES(HEAD("299 OK") "Content-Length: 0\r\n\r\n"), END}},
    {"in chunks",
     {CONNECTED,
      COMES(HEAD("200 OK") "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
      COMES("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"), END}},
    {"until it closes",
     {CONNECTED, COMES(HEAD("200 OK") "\r\nhel"), COMES("lo"), ENDS, END}},
    {"interrupted",
     {CONNECTED,
      {"poll", 1, POLLIN, NULL},
      {"recv", -EAGAIN, 0, NULL},
      {"poll", 1, POLLIN, NULL},
      {"recv", -EINTR, 0, NULL},
      COMES(HEAD("200 OK") "Content-Length: 1\r\n\r\nx"),
      END}},
    {"it is cut in the head",
     {CONNECTED, COMES("HTTP/1.1 200 OK\r\n"), ENDS, END}},
    {"it is cut in the body",
     {CONNECTED, COMES(HEAD("200 OK") "Content-Length: 5\r\n\r\nhel"), ENDS,
      END}},
    {"nothing comes", {CONNECTED, ENDS, END}},
    {"no HTTP", {CONNECTED, COMES("SSH-2.0\r\n"), END}},
    {"it breaks",
     {CONNECTED,
      {"poll", 1, POLLIN, NULL},
      {"recv", -ECONNRESET, 0, NULL},
      END}},
    {"it is late", {CONNECTED, {"poll", 0, 0, NULL}, END}},
    {"another protocol, and what it says",
     {CONNECTED,
      COMES(HEAD("101 Switching") "Upgrade: x\r\nConnection: Upgrade\r\n\r\n"
                                  "first bytes"),
      END}},
    {"another protocol",
     {CONNECTED, COMES(HEAD("101 Switching") "Upgrade: x\r\n"),
      COMES("Connection: Upgrade\r\n\r\n"), END}},
    {"300", {CONNECTED, JSON("300 X", "{\"error\": \"e\"}"), END}},
    {"400", {CONNECTED, JSON("400 X", "{\"error\": \"e\"}"), END}},
    {"401", {CONNECTED, JSON("401 X", "{\"message\": \"m\"}"), END}},
    {"403", {CONNECTED, JSON("403 X", "{\"detail\": \"d\"}"), END}},
    {"404",
     {CONNECTED, JSON("404 X", "{\"message\": \"m\", \"error\": \"e\"}"), END}},
    {"404",
     {CONNECTED, JSON("404 X", "{\"detail\": \"d\", \"message\": \"m\"}"),
      END}},
    {"422", {CONNECTED, JSON("422 X", "{\"error\": 7}"), END}},
    {"429", {CONNECTED, JSON("429 X", "no JSON"), END}},
    {"499", {CONNECTED, JSON("499 X", ""), END}},
    {"500", {CONNECTED, JSON("500 X", "{\"error\": \"e\"}"), END}},
    {"502", {CONNECTED, JSON("502 X", "{\"error\": \"e\"}"), END}},
    {"503", {CONNECTED, JSON("503 X", "{\"error\": \"e\"}"), END}},
    {"504", {CONNECTED, JSON("504 X", "{\"error\": \"e\"}"), END}},
    {"403 without words", {CONNECTED, JSON("403 X", "{}"), END}},
    {"an error in pieces",
     {CONNECTED, COMES(HEAD("404 X") "\r\n{\"err"), COMES("or\": \"e\""),
      COMES("}"), ENDS, END}},
    {"an error that is cut",
     {CONNECTED,
      COMES(HEAD("404 X") "Content-Length: 50\r\n\r\n{\"error\": "
                          "\"e\"}"),
      {"poll", 0, 0, NULL},
      END}},
};

/* Reads the whole body in pieces of at most cap bytes. */
static void
note_body(struct wp_sandbox_client *client, size_t cap)
{
    char buf[64];
    size_t n = 1;
    struct wp_err err;

    while (n > 0) {
        enum wp_status status =
            wp_sandbox_client_read(client, buf, cap, &n, &err);

        if (status != WP_OK) {
            note_error(status, &err);
            return;
        }
        golden_add(&seen, "read %zu: ", n);
        note_bytes(buf, n);
    }
}

static void
test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(answers); i++) {
        int http_status = -1;
        size_t extra_len;
        const uint8_t *extra;
        struct wp_sandbox_client *client;
        struct wp_err err;
        enum wp_status status;

        golden_add(&seen, "%s\n", answers[i].what);
        steps = answers[i].steps;
        client = open_client("127.0.0.1:80", WP_NS_PER_S);
        status = wp_sandbox_client_reply(client, &http_status, &err);
        golden_add(&seen, "HTTP %d, ", http_status);
        note_error(status, &err);
        extra = wp_sandbox_client_extra(client, &extra_len);
        if (http_status == 101) {
            golden_add(&seen, "extra %zu: ", extra_len);
            note_bytes((const char *)extra, extra_len);
        } else if (status == WP_OK) {
            note_body(client, i % 2 == 0 ? 64 : 2);
        }
        at_end(client);
    }
    golden_compare(seen.text, GOLDEN("client_answers"));
}

/* An error's words count as far as they fit. */
static void
test_long_errors(void **state)
{
    static char head[9000];
    static char begin[1024];
    static struct step some[] = {CONNECTED, COMES(begin), COMES(head), ENDS,
                                 END};

    (void)state;
    for (size_t len = 4096; len <= 4097; len++) {
        struct wp_sandbox_client *client;
        int http_status;
        struct wp_err err;
        size_t at;

        (void)strcpy(head,
                     "HTTP/1.1 404 X\r\n\r\n{\"error\": \"short\", \"x\": \"");
        at = strlen(head);
        memset(head + at, 'x', sizeof head - at);
        at = strlen("HTTP/1.1 404 X\r\n\r\n") + len - 2;
        (void)strcpy(head + at, "\"}");
        /* In two pieces. */
        memcpy(begin, head, sizeof begin - 1);
        memmove(head, head + sizeof begin - 1,
                strlen(head + sizeof begin - 1) + 1);
        steps = some;
        client = open_client("127.0.0.1:80", WP_NS_PER_S);
        note_error(wp_sandbox_client_reply(client, &http_status, &err), &err);
        at_end(client);
    }
    golden_compare(seen.text, GOLDEN("client_long_errors"));
}

/* --- Uploads --- */

#define CREATED COMES(HEAD("201 Created") "Content-Length: 0\r\n\r\n")

static void
upload(const struct wp_brought_file *file, const struct step *some)
{
    const struct wp_upload_target target = {.http = "127.0.0.1:80",
                                            .timeout_ns = 2 * WP_NS_PER_S,
                                            .sandbox = "box",
                                            .bearer = "00ff",
                                            .stop = &stop};
    struct wp_err err = {.status = WP_OK};

    steps = some;
    note_error(wp_upload_file(&target, file, &err), &err);
    at_end(NULL);
}

static void
test_encoding(void **state)
{
    char out[64];
    char *end;

    (void)state;
    memset(out, 'x', sizeof out);
    end = wp_upload_encode("a/b c\xff", out);
    assert_string_equal(out, "a/b%20c%FF");
    assert_ptr_equal(end, out + strlen(out));
    memset(out, 'x', sizeof out);
    assert_ptr_equal(wp_upload_encode("", out), out);
    assert_string_equal(out, "");
}

static void
make_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(fputc('f', file), 'f');
    }
    assert_int_equal(fclose(file), 0);
}

static void
test_uploads(void **state)
{
    static const struct step whole[] = {CONNECTED, SENDS, SENDS, CREATED, END};
    static const struct step head[] = {CONNECTED, SENDS, CREATED, END};
    static const struct step pieces[] = {CONNECTED, SENDS,   SENDS,
                                         SENDS,     CREATED, END};
    static const struct step early[] = {CONNECTED,
                                        SENDS,
                                        SENDS,
                                        {"poll", 1, POLLIN | POLLOUT, NULL},
                                        JSON("403 X", "{\"error\": \"no\"}"),
                                        END};
    static const struct step full[] = {
        CONNECTED, SENDS, SENDS, JSON("507 X", "{\"error\": \"full\"}"), END};
    static const struct step cut[] = {CONNECTED, SENDS, SENDS, END};
    static const struct step breaks[] = {
        CONNECTED, SENDS, MAY_SEND, {"send", -ENETDOWN, 0, NULL}, END};
    static const struct step at_once[] = {
        CONNECTED, MAY_SEND, {"send", -ENETDOWN, 0, NULL}, END};
    static const struct step refused[] = {
        {"socket", FD, 0, NULL}, {"connect", -ECONNREFUSED, 0, NULL}, END};
    static const struct step stops[] = {
        CONNECTED, SENDS, MAY_SEND, {"send", 1 << 20, 1, NULL}, END};
    static char path[WP_BINDING_PATH_MAX + 1];
    struct wp_brought_file file = {.path = "a b/\xc3\xa9~-._Zz09%",
                                   .content = {"bytes", 5},
                                   .size = 5,
                                   .mode = 0755};
    char dir[4096];

    (void)state;
    temp_dir_make(dir, sizeof dir);
    assert_int_equal(chdir(dir), 0);
    upload(&file, whole);
    file.mode = 0;
    upload(&file, whole);
    upload(&file, full);
    upload(&file, breaks);
    upload(&file, at_once);
    upload(&file, refused);
    memset(path, '%', WP_BINDING_PATH_MAX);
    file = (struct wp_brought_file){.path = path, .mode = 0644};
    upload(&file, head);
    file = (struct wp_brought_file){.path = "f", .from = "f", .mode = 0644};
    make_file("f", 65537);
    upload(&file, head);
    file.size = 65536;
    upload(&file, whole);
    file.size = 65537;
    upload(&file, pieces);
    upload(&file, early);
    upload(&file, stops);
    stop = 0;
    file.size = 65538;
    upload(&file, pieces);
    /* It has grown: no more than what was told is sent. */
    make_file("f", 70000);
    file.size = 65537;
    upload(&file, pieces);
    file.size = 10;
    upload(&file, breaks);
    file.from = "missing";
    upload(&file, cut);
    file.from = ".";
    upload(&file, cut);
    stop = 1;
    upload(&file, NULL);
    stop = 0;
    golden_compare(seen.text, GOLDEN("client_uploads"));
    assert_int_equal(chdir("/"), 0);
    temp_dir_remove(dir);
}

static int
set_up(void **state)
{
    (void)state;
    memset(&seen, 0, sizeof seen);
    steps = NULL;
    return 0;
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_connection, set_up),
        cmocka_unit_test_setup(test_the_default_address, set_up),
        cmocka_unit_test_setup(test_requests, set_up),
        cmocka_unit_test_setup(test_the_longest_path, set_up),
        cmocka_unit_test_setup(test_sending, set_up),
        cmocka_unit_test_setup(test_answers, set_up),
        cmocka_unit_test_setup(test_long_errors, set_up),
        cmocka_unit_test_setup(test_encoding, set_up),
        cmocka_unit_test_setup(test_uploads, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
