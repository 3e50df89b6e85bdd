#include "tests/support/fake_api/fake_api.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "tests/support/fake_api/fake_api_impl.h"

void
fake_must(bool ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "fake API server: %s\n", what);
        abort();
    }
}

int64_t
fake_now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

int
fake_kind_by_plural(const char *plural)
{
    for (int i = 0; i < WP_KIND_COUNT; i++) {
        if (strcmp(wp_kind_info((enum wp_kind)i)->plural, plural) == 0) {
            return i;
        }
    }
    return -1;
}

const char *
fake_verb_name(uint32_t verb)
{
    static const char *const names[] = {"GET",   "LIST",   "CONTINUE",
                                        "WATCH", "POST",   "PUT",
                                        "PATCH", "DELETE", "CHECK"};

    for (uint32_t i = 0; i < FAKE_VERBS; i++) {
        if (verb == UINT32_C(1) << i) {
            return names[i];
        }
    }
    return "";
}

void
fake_api_options_init(struct fake_api_options *options)
{
    *options = (struct fake_api_options){
        .pod_ready_ms = -1,
        .pod_stop_ms = -1,
        .sandbox_ready_ms = -1,
    };
}

static void
on_wake(evutil_socket_t fd, short what, void *arg)
{
    struct fake_api *api = arg;
    uint64_t n;

    (void)what;
    (void)!read(fd, &n, sizeof n);
    (void)pthread_mutex_lock(&api->lock);
    if (api->call != NULL) {
        api->call(api, api->call_arg);
        api->call = NULL;
        api->call_done = true;
        (void)pthread_cond_signal(&api->done);
    }
    (void)pthread_mutex_unlock(&api->lock);
}

void
fake_call(struct fake_api *api, void (*run)(struct fake_api *, void *),
          void *arg)
{
    uint64_t one = 1;

    (void)pthread_mutex_lock(&api->lock);
    api->call = run;
    api->call_arg = arg;
    api->call_done = false;
    fake_must(write(api->wake_fd, &one, sizeof one) == sizeof one, "wake");
    while (!api->call_done) {
        (void)pthread_cond_wait(&api->done, &api->lock);
    }
    (void)pthread_mutex_unlock(&api->lock);
}

/* --- the port --- */

static int
bound_socket(uint16_t port, uint16_t *out)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        .sin_port = htons(port),
    };
    socklen_t len = sizeof address;
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    fake_must(fd >= 0, "socket");
    fake_must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0,
              "reuse");
    fake_must(bind(fd, (struct sockaddr *)&address, sizeof address) == 0,
              "bind");
    fake_must(getsockname(fd, (struct sockaddr *)&address, &len) == 0, "name");
    *out = ntohs(address.sin_port);
    return fd;
}

static void
on_accept(struct evconnlistener *listener, evutil_socket_t fd,
          struct sockaddr *from, int len, void *arg)
{
    struct fake_api *api = arg;

    (void)listener;
    (void)from;
    (void)len;
    api->connections++;
    fake_conn_open(api, fd);
}

void
fake_go_up(struct fake_api *api)
{
    uint16_t port;
    int fd;

    if (api->listener != NULL) {
        return;
    }
    fd = bound_socket(api->port, &port);
    api->listener = evconnlistener_new(api->base, on_accept, api,
                                       LEV_OPT_CLOSE_ON_FREE, 512, fd);
    fake_must(api->listener != NULL, "listen");
}

static struct fake_conn *
first_conn(struct fake_api *api)
{
    return WP_CONTAINER_OF(api->conns.next, struct fake_conn, node);
}

void
fake_go_down(struct fake_api *api)
{
    if (api->listener != NULL) {
        evconnlistener_free(api->listener);
        api->listener = NULL;
    }
    while (!wp_list_empty(&api->conns)) {
        fake_conn_close(first_conn(api));
    }
}

/* --- begin and end --- */

static void *
serve(void *arg)
{
    struct fake_api *api = arg;

    (void)event_base_dispatch(api->base);
    return NULL;
}

struct fake_api *
fake_api_start(const struct fake_api_options *options)
{
    struct fake_api *api = calloc(1, sizeof *api);

    fake_must(api != NULL, "memory");
    (void)signal(SIGPIPE, SIG_IGN);
    json_object_seed(0);
    api->options = *options;
    wp_list_init(&api->conns);
    wp_list_init(&api->laters);
    for (int i = 0; i < WP_KIND_COUNT; i++) {
        api->objects[i] = json_object();
    }
    api->owned = json_object();
    api->uids = json_object();
    api->log = json_array();
    api->by = "";
    api->version = 100;
    api->compacted = 100;
    api->base = event_base_new();
    fake_must(api->base != NULL, "event base");
    api->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    api->wake =
        event_new(api->base, api->wake_fd, EV_READ | EV_PERSIST, on_wake, api);
    fake_must(api->wake != NULL && event_add(api->wake, NULL) == 0, "wake");
    (void)pthread_mutex_init(&api->lock, NULL);
    (void)pthread_cond_init(&api->done, NULL);
    api->reserve_fd = bound_socket(0, &api->port);
    (void)snprintf(api->url, sizeof api->url, "http://127.0.0.1:%u", api->port);
    fake_go_up(api);
    fake_must(pthread_create(&api->thread, NULL, serve, api) == 0, "thread");
    return api;
}

static void
leave(struct fake_api *api, void *arg)
{
    (void)arg;
    fake_go_down(api);
    fake_must(event_base_loopbreak(api->base) == 0, "loop");
}

void
fake_api_stop(struct fake_api *api)
{
    if (api == NULL) {
        return;
    }
    fake_call(api, leave, NULL);
    (void)pthread_join(api->thread, NULL);
    for (size_t i = 0; i < api->history_len; i++) {
        json_decref(api->history[i].before);
        json_decref(api->history[i].object);
    }
    free(api->history);
    for (int i = 0; i < WP_KIND_COUNT; i++) {
        json_decref(api->objects[i]);
    }
    for (int i = 0; i < FAKE_SNAPSHOTS; i++) {
        json_decref(api->snapshots[i].items);
    }
    json_decref(api->owned);
    json_decref(api->uids);
    json_decref(api->log);
    json_decref(api->saved);
    fake_laters_free(api);
    event_free(api->wake);
    event_base_free(api->base);
    (void)close(api->wake_fd);
    (void)close(api->reserve_fd);
    (void)pthread_mutex_destroy(&api->lock);
    (void)pthread_cond_destroy(&api->done);
    free(api);
}

uint16_t
fake_api_port(const struct fake_api *api)
{
    return api->port;
}

const char *
fake_api_url(const struct fake_api *api)
{
    return api->url;
}
