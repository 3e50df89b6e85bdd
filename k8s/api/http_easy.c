#include <curl/curl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "k8s/api/http_parts.h"
#include "pool/base/assert.h"

#define CONNECT_TIMEOUT_MS 5000L
/* A server that acknowledges nothing for so long is gone, whatever waits. */
#define SILENCE_MS 15000
#define CONNECTION_AGE_S 600L

enum {
    HEADERS_MAX = 5,
    IDLE_MAX = 64, /* Each keeps buffers of curl. */
};

struct wp_http_easy {
    struct wp_list node;
    CURL *curl;
    /* Of static texts and the token's; curl only reads them. */
    struct curl_slist headers[HEADERS_MAX];
    char content_type[96];
    char error[CURL_ERROR_SIZE];
    char message[WP_HTTP_ERROR_MAX];
};

/* Requests that change nothing may be sent again, by curl as well. */
static bool
is_safe(const struct wp_http_transfer *transfer)
{
    return strcmp(transfer->method, "GET") == 0;
}

int
wp_http_easy_code(struct wp_http_easy *easy)
{
    long code = 0;

    (void)curl_easy_getinfo(easy->curl, CURLINFO_RESPONSE_CODE, &code);
    return (int)code;
}

static size_t /* NOLINTNEXTLINE(readability-non-const-parameter): curl's. */
on_write(char *bytes, size_t size, size_t count, void *ctx)
{
    struct wp_http_transfer *transfer = ctx;

    if (transfer->on_bytes(transfer, wp_http_easy_code(transfer->easy),
                           (struct wp_str){bytes, size * count})) {
        return size * count;
    }
    transfer->stopped = true;
    return CURL_WRITEFUNC_ERROR;
}

/* When a connection that was used before breaks without an answer, curl sends
 * the request again, POST or not. What may have had an effect is stopped here,
 * so that its owner hears of the doubt. So is what may not be sent any more. */
static int /* NOLINTNEXTLINE(readability-non-const-parameter): curl's. */
on_before_request(void *ctx, char *to, char *from, int to_port, int from_port)
{
    struct wp_http_transfer *transfer = ctx;
    CURL *curl = transfer->easy->curl;
    long sent = 0;

    (void)to;
    (void)from;
    (void)to_port;
    (void)from_port;
    transfer->attempts++;
    if (transfer->may_send != NULL && !transfer->may_send(transfer)) {
        transfer->forbidden = true;
        return CURL_PREREQFUNC_ABORT;
    }
    if (transfer->attempts > 1 && !is_safe(transfer)) {
        (void)curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &sent);
    }
    return sent > 0 ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static int
on_socket_made(void *ctx, curl_socket_t fd, curlsocktype purpose)
{
    int probes = 3;
    unsigned int silence_ms = SILENCE_MS;

    (void)ctx;
    (void)purpose;
    /* Only what the kernel lacks makes these fail, and all works without. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms,
                     sizeof silence_ms);
    return CURL_SOCKOPT_OK;
}

/* What is the same for each transfer. */
static bool
set_constants(const struct wp_http *http, struct wp_http_easy *easy)
{
    static const struct {
        CURLoption option;
        long value;
    } rows[] = {
        {CURLOPT_NOSIGNAL, 1},
        {CURLOPT_NOPROGRESS, 1},
        {CURLOPT_TCP_NODELAY, 1},
        {CURLOPT_TCP_KEEPALIVE, 1},
        {CURLOPT_TCP_KEEPIDLE, 15},
        {CURLOPT_TCP_KEEPINTVL, 5},
        {CURLOPT_MAXLIFETIME_CONN, CONNECTION_AGE_S},
    };
    CURL *curl = easy->curl;
    bool ok = true;

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        ok = ok &&
             curl_easy_setopt(curl, rows[i].option, rows[i].value) == CURLE_OK;
    }
    ok = ok &&
         curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, easy->error) == CURLE_OK;
    ok = ok && curl_easy_setopt(curl, CURLOPT_USERAGENT,
                                http->config.user_agent) == CURLE_OK;
    ok = ok && curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") ==
                   CURLE_OK;
    /* Whatever the environment says about proxies. */
    ok = ok && curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK;
    ok = ok &&
         curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_write) == CURLE_OK;
    ok = ok && curl_easy_setopt(curl, CURLOPT_PREREQFUNCTION,
                                on_before_request) == CURLE_OK;
    ok = ok && curl_easy_setopt(curl, CURLOPT_SOCKOPTFUNCTION,
                                on_socket_made) == CURLE_OK;
    return ok && wp_http_server_apply(http, curl);
}

static void
easy_free(struct wp_http_easy *easy)
{
    curl_easy_cleanup(easy->curl);
    free(easy);
}

struct wp_http_easy *
wp_http_easy_get(struct wp_http *http)
{
    struct wp_list *node = wp_list_pop_front(&http->idle_easies);
    struct wp_http_easy *easy;

    if (node != NULL) {
        http->idle_count--;
        return WP_CONTAINER_OF(node, struct wp_http_easy, node);
    }
    easy = calloc(1, sizeof *easy);
    if (easy == NULL) {
        return NULL;
    }
    wp_list_init(&easy->node);
    easy->curl = curl_easy_init();
    if (easy->curl == NULL || !set_constants(http, easy)) {
        easy_free(easy);
        return NULL;
    }
    return easy;
}

void
wp_http_easy_put(struct wp_http *http, struct wp_http_easy *easy)
{
    if (http->idle_count == IDLE_MAX) {
        easy_free(easy);
        return;
    }
    http->idle_count++;
    wp_list_push_back(&http->idle_easies, &easy->node);
}

void
wp_http_easies_free(struct wp_http *http)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(&http->idle_easies)) != NULL) {
        easy_free(WP_CONTAINER_OF(node, struct wp_http_easy, node));
    }
}

void *
wp_http_easy_curl(struct wp_http_easy *easy)
{
    return easy->curl;
}

/* The list of headers, linked through the handle's own nodes. curl takes them
 * as char *, and changes nothing. */
static bool
set_headers(struct wp_http_easy *easy, struct wp_http_transfer *transfer)
{
    char *texts[HEADERS_MAX];
    size_t count = 0;
    static char accept[] = "Accept: application/json";
    static char no_expect[] = "Expect:";

    texts[count++] = accept;
    if (transfer->content_type != NULL) {
        (void)snprintf(easy->content_type, sizeof easy->content_type,
                       "Content-Type: %s", transfer->content_type);
        texts[count++] = easy->content_type;
        texts[count++] = no_expect;
    }
    if (transfer->http->host_header != NULL) {
        texts[count++] = transfer->http->host_header;
    }
    if (transfer->token != NULL) {
        texts[count++] = transfer->token->header;
    }
    for (size_t i = 0; i < count; i++) {
        easy->headers[i].data = texts[i];
        easy->headers[i].next = i + 1 < count ? &easy->headers[i + 1] : NULL;
    }
    return curl_easy_setopt(easy->curl, CURLOPT_HTTPHEADER, easy->headers) ==
           CURLE_OK;
}

static bool
set_method(CURL *curl, const struct wp_http_transfer *transfer)
{
    bool ok;

    if (transfer->content_type != NULL) {
        ok = curl_easy_setopt(curl, CURLOPT_POST, 1L) == CURLE_OK &&
             curl_easy_setopt(curl, CURLOPT_POSTFIELDS,
                              transfer->body.len > 0 ? transfer->body.ptr
                                                     : "") == CURLE_OK &&
             curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                              (curl_off_t)transfer->body.len) == CURLE_OK;
    } else {
        ok = curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L) == CURLE_OK;
    }
    return ok && curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST,
                                  transfer->method) == CURLE_OK;
}

static long
left_ms(const struct wp_http_transfer *transfer)
{
    const struct wp_clock *clock = transfer->http->config.clock;
    int64_t left_ns;

    if (transfer->timeout_ns <= 0) {
        return 0;
    }
    left_ns = wp_time_add(transfer->started_ns, transfer->timeout_ns) -
              wp_clock_mono_ns(clock);
    return left_ns < WP_NS_PER_MS ? 1 : (long)(left_ns / WP_NS_PER_MS);
}

/* Requests share connections, and wait for one that can be shared. A stream has
 * a new one, and none is left over by it: what stood still is not met again.
 * HTTP/2 would give it nothing. */
static bool
set_connection(CURL *curl, const struct wp_http_transfer *transfer)
{
    bool tls = strncmp(transfer->http->base_url, "https:", 6) == 0;
    long version = tls && !transfer->streaming ? CURL_HTTP_VERSION_2TLS
                                               : CURL_HTTP_VERSION_1_1;
    long own = transfer->streaming ? 1 : 0;

    return curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, version) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_PIPEWAIT, 1 - own) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, own) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, own) == CURLE_OK;
}

bool
wp_http_easy_prepare(struct wp_http_easy *easy,
                     struct wp_http_transfer *transfer)
{
    CURL *curl = easy->curl;
    long timeout_ms = left_ms(transfer);
    char *url = NULL;
    bool ok;

    if (asprintf(&url, "%s%s", transfer->http->base_url, transfer->path) < 0) {
        return false;
    }
    easy->error[0] = '\0';
    ok = curl_easy_setopt(curl, CURLOPT_URL, url) == CURLE_OK;
    free(url);
    ok = ok && set_method(curl, transfer) && set_headers(easy, transfer) &&
         set_connection(curl, transfer);
    ok = ok &&
         curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, timeout_ms) == CURLE_OK;
    ok = ok && curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                                CONNECT_TIMEOUT_MS) == CURLE_OK;
    ok = ok && curl_easy_setopt(curl, CURLOPT_WRITEDATA, transfer) == CURLE_OK;
    ok = ok && curl_easy_setopt(curl, CURLOPT_PREREQDATA, transfer) == CURLE_OK;
    return ok && curl_easy_setopt(curl, CURLOPT_PRIVATE, transfer) == CURLE_OK;
}

/* Codes that need more words than curl has. */
static const char *
hint(CURLcode result)
{
    static const struct {
        CURLcode code;
        const char *text;
    } rows[] = {
        {CURLE_PEER_FAILED_VERIFICATION,
         "the API server's certificate is not trusted"},
        {CURLE_SSL_CACERT_BADFILE, "certificate-authority cannot be used"},
        {CURLE_SSL_CERTPROBLEM, "the client certificate cannot be used"},
        {CURLE_SSL_CONNECT_ERROR, "no TLS with the API server"},
        {CURLE_COULDNT_RESOLVE_HOST, "the API server's name is not known"},
        {CURLE_COULDNT_CONNECT, "the API server cannot be reached"},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (rows[i].code == result) {
            return rows[i].text;
        }
    }
    return "no answer";
}

static void
describe(struct wp_http_easy *easy, const struct wp_http_transfer *transfer,
         CURLcode result, bool sent)
{
    /* Once it was sent, why another connection failed comes second. */
    const char *what = sent && result != CURLE_OPERATION_TIMEDOUT
                           ? "the connection broke before there was an answer"
                           : hint(result);
    const char *detail =
        easy->error[0] != '\0' ? easy->error : curl_easy_strerror(result);

    if (transfer->forbidden && !sent) {
        (void)snprintf(easy->message, sizeof easy->message, "%s",
                       WP_HTTP_FORBIDDEN);
    } else if (transfer->in.lacks && !transfer->streaming) {
        (void)snprintf(easy->message, sizeof easy->message,
                       "no memory for the answer");
    } else if (transfer->stopped && !transfer->streaming) {
        (void)snprintf(easy->message, sizeof easy->message,
                       "the answer is longer than %d bytes",
                       (int)WP_HTTP_BODY_MAX);
    } else {
        (void)snprintf(easy->message, sizeof easy->message, "%s: %s", what,
                       detail);
    }
}

void
wp_http_easy_answer(struct wp_http_easy *easy,
                    const struct wp_http_transfer *transfer, int curl_result,
                    struct wp_http_answer *answer)
{
    CURLcode result = (CURLcode)curl_result;
    long code = 0;
    long sent = 0;
    curl_off_t retry_after_s = 0;
    CURL *curl = easy->curl;

    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    (void)curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &sent);
    (void)curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after_s);
    *answer = (struct wp_http_answer){
        .status = WP_OK,
        .code = (int)code,
        .body = {transfer->in.ptr, transfer->in.len},
        .retry_after_ns = -1,
    };
    /* 0 is what curl says when there is none; a date that has passed is
     * negative. */
    if (retry_after_s != 0) {
        const curl_off_t day_s = 86400;

        retry_after_s = retry_after_s < 0 ? 0 : retry_after_s;
        retry_after_s = retry_after_s > day_s ? day_s : retry_after_s;
        answer->retry_after_ns = (int64_t)retry_after_s * WP_NS_PER_S;
    }
    if (result != CURLE_OK) {
        describe(easy, transfer, result, sent > 0);
        answer->error = easy->message;
        answer->status = is_safe(transfer) || sent == 0 ? WP_UNAVAILABLE
                                                        : WP_UNKNOWN_OUTCOME;
    }
}

bool
wp_http_easy_is_http2(struct wp_http_easy *easy)
{
    long version = 0;

    (void)curl_easy_getinfo(easy->curl, CURLINFO_HTTP_VERSION, &version);
    return version == CURL_HTTP_VERSION_2_0;
}
