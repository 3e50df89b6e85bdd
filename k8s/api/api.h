/* k8s/api/api.h - the verbs of the Kubernetes API on kinds, as asynchronous
 * calls.
 *
 * Each call builds its path (percent-encoded), packs its body, and turns the
 * answer into a status that a controller can decide on. Loop thread only. */
#ifndef WP_K8S_API_API_H
#define WP_K8S_API_API_H

#include <jansson.h>

#include "k8s/api/http.h"
#include "k8s/objects/kind.h"

struct wp_api; /* Opaque. */

/* How a call ended. Borrowed for the callback; json_incref keeps the object.
 *
 *   OK                  2xx; object is what the server sent
 *   NOT_FOUND           404
 *   ALREADY_EXISTS      409, reason AlreadyExists
 *   ABORTED             409 otherwise: somebody else wrote it (precondition)
 *   INVALID_ARGUMENT    400, 405, 406, 415, 422: our mistake, or a quota's
 *   PERMISSION_DENIED   403
 *   UNAUTHENTICATED     401, after the token was read again
 *   DEADLINE_EXCEEDED   410: the version asked for is gone (list, watch)
 *   RESOURCE_EXHAUSTED  429, or our own queue was full
 *   UNAVAILABLE         certainly not done: no connection, 503
 *   UNKNOWN_OUTCOME     may have been done: no answer, other 5xx
 *   CANCELLED           the client is being destroyed */
struct wp_api_result {
    enum wp_status status;
    enum wp_kind kind;      /* Of the target. */
    int code;               /* HTTP status; 0 without an answer. */
    json_t *object;         /* NULL when there is none. */
    const char *message;    /* The server's words, for logs and conditions. */
    int64_t retry_after_ns; /* -1: it did not say. */
    /* 403 because the namespace is being deleted: nothing new is made there,
     * and what is there goes. Nobody's mistake. */
    bool namespace_leaves;
};

typedef void wp_api_done(void *ctx, const struct wp_api_result *result);

/* NULL when memory lacks. http is borrowed. */
struct wp_api *wp_api_create(struct wp_http *http);
void wp_api_destroy(struct wp_api *api); /* After http. NULL is fine. */

/* What a call is about. Borrowed for the call. */
struct wp_api_target {
    enum wp_kind kind;
    const char *ns; /* NULL: all namespaces (list), or cluster-scoped. */
    const char *name;
    const char *subresource; /* "status"; NULL: none. */
    enum wp_http_priority priority;
};

/* body is taken (its reference goes over), also when the call fails; done comes
 * exactly once, never from within the call, and may be NULL. */
void wp_api_get(struct wp_api *api, const struct wp_api_target *target,
                wp_api_done *done, void *ctx);
void wp_api_post(struct wp_api *api, const struct wp_api_target *target,
                 json_t *body, wp_api_done *done, void *ctx);
/* Would a POST of this body be taken? Nothing is made (dryRun). strict: a field
 * that the server does not know is refused; else it is left out. */
void wp_api_check(struct wp_api *api, const struct wp_api_target *target,
                  json_t *body, bool strict, wp_api_done *done, void *ctx);
void wp_api_put(struct wp_api *api, const struct wp_api_target *target,
                json_t *body, wp_api_done *done, void *ctx);
/* application/merge-patch+json. metadata.resourceVersion within it makes it
 * conditional: ABORTED when the object has changed. */
void wp_api_patch(struct wp_api *api, const struct wp_api_target *target,
                  json_t *body, wp_api_done *done, void *ctx);

struct wp_api_delete {
    const char *uid;              /* Precondition; NULL: none. */
    const char *resource_version; /* The same. */
    bool foreground;              /* Else background. */
};
void wp_api_delete(struct wp_api *api, const struct wp_api_target *target,
                   const struct wp_api_delete *how, wp_api_done *done,
                   void *ctx);

/* Lists and watches; of the target only kind and ns count. */
struct wp_api_query {
    const char *label_selector; /* NULL: all. */
    const char *field_selector;
    const char *resource_version; /* NULL: the newest (list). */
    const char *cont;             /* A list's next page. */
    uint32_t limit;               /* 0: no pages. */
    uint32_t timeout_s;           /* Of a watch. */
};
void wp_api_list(struct wp_api *api, const struct wp_api_target *target,
                 const struct wp_api_query *query, wp_api_done *done,
                 void *ctx);
/* The path of a watch with bookmarks; false when it does not fit. For the
 * reflector, which opens the stream itself. */
WP_MUST_CHECK bool wp_api_watch_path(const struct wp_api_target *target,
                                     const struct wp_api_query *query,
                                     char out[WP_HTTP_PATH_MAX]);
struct wp_http *wp_api_http(const struct wp_api *api);

#endif
