#include "k8s/backend/fresh_list.h"

#include <stdlib.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    PAGE = 500,
    CONTINUE_MAX = 4096,
};

struct wp_fresh_list {
    struct wp_parts *parts;
    struct event *retry;
    void (*done)(void *ctx); /* NULL: nobody waits. */
    void *ctx;
    bool asking; /* A page is under way. */
    bool stale;  /* It is of a list that nobody waits for any more. */
    char cont[CONTINUE_MAX];
};

static void
learn(struct wp_fresh_list *list, const json_t *page)
{
    struct wp_store *store = list->parts->stores[WP_KIND_SANDBOX];
    size_t i;
    json_t *item;

    json_array_foreach(json_object_get(page, "items"), i, item)
    {
        struct wp_err err;
        struct wp_object *object =
            wp_object_create(WP_KIND_SANDBOX, item, &err);

        if (object != NULL) {
            wp_store_learn(store, object);
        }
        /* Else the watch has said so as well. */
    }
}

static void
try_later(struct wp_fresh_list *list, int64_t after_ns)
{
    int64_t wait_ns = after_ns > WP_NS_PER_S ? after_ns : WP_NS_PER_S;
    struct timeval wait = {(time_t)(wait_ns / WP_NS_PER_S), 0};

    list->cont[0] = '\0';
    WP_ASSERT(evtimer_add(list->retry, &wait) == 0);
}

static void ask(struct wp_fresh_list *list);

/* All of it was read, or there is another page. */
static void
go_on(struct wp_fresh_list *list, const json_t *page)
{
    void (*done)(void *ctx) = list->done;

    if (!wp_str_copy(
            wp_str_from(wp_json_text(page, "metadata", "continue", NULL)),
            list->cont, sizeof list->cont)) {
        try_later(list, -1);
    } else if (list->cont[0] != '\0') {
        ask(list);
    } else {
        list->done = NULL;
        done(list->ctx);
    }
}

static void
page_read(void *ctx, const struct wp_api_result *result)
{
    struct wp_fresh_list *list = ctx;
    bool stale = list->stale;

    list->asking = false;
    list->stale = false;
    if (result->status == WP_CANCELLED || list->done == NULL) {
        return;
    }
    if (stale) {
        ask(list);
    } else if (result->status != WP_OK || result->object == NULL) {
        wp_log_warn("cannot read the Sandboxes anew: this replica does not "
                    "serve as the leader yet",
                    wp_kv_str("status", wp_status_text(result->status)),
                    wp_kv_str("message",
                              result->message != NULL ? result->message : ""));
        try_later(list, result->retry_after_ns);
    } else {
        learn(list, result->object);
        go_on(list, result->object);
    }
}

/* The newest, not what a cache of the server has: no version is given. */
static void
ask(struct wp_fresh_list *list)
{
    const struct wp_api_target target = {.kind = WP_KIND_SANDBOX,
                                         .ns = list->parts->config.watch_ns,
                                         .priority = WP_HTTP_NORMAL};
    const struct wp_api_query query = {
        .limit = PAGE, .cont = list->cont[0] != '\0' ? list->cont : NULL};

    list->asking = true;
    wp_api_list(list->parts->api, &target, &query, page_read, list);
}

static void
on_retry(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    ask(ctx);
}

struct wp_fresh_list *
wp_fresh_list_create(struct wp_parts *parts)
{
    struct wp_fresh_list *list = calloc(1, sizeof *list);

    if (list == NULL) {
        return NULL;
    }
    list->parts = parts;
    list->retry = evtimer_new(parts->base, on_retry, list);
    if (list->retry == NULL) {
        free(list);
        return NULL;
    }
    return list;
}

void
wp_fresh_list_destroy(struct wp_fresh_list *list)
{
    if (list != NULL) {
        WP_ASSERT(!list->asking);
        event_free(list->retry);
        free(list);
    }
}

void
wp_fresh_list_begin(struct wp_fresh_list *list, void (*done)(void *ctx),
                    void *ctx)
{
    wp_fresh_list_cancel(list);
    list->done = done;
    list->ctx = ctx;
    list->cont[0] = '\0';
    if (!list->asking) {
        ask(list);
    }
}

void
wp_fresh_list_cancel(struct wp_fresh_list *list)
{
    list->done = NULL;
    list->stale = list->asking;
    (void)evtimer_del(list->retry);
}
