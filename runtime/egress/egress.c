/* The sources: who comes through which socket, with which policy. */
#include "runtime/egress/egress_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void
wp_egress_config_init(struct wp_egress_config *config)
{
    *config = (struct wp_egress_config){
        .packages = WP_STR(""),
        .conns_max = 4096,
        .source_conns_max = 256,
        .idle_timeout_ns = 30 * WP_NS_PER_S,
        .answer_timeout_ns = 300 * WP_NS_PER_S,
        .silence_timeout_ns = 600 * WP_NS_PER_S,
        .connect_timeout_ns = 10 * WP_NS_PER_S,
    };
}

/* --------------------------------------------------------------- policies */

static bool
has_texts(const struct wp_egress_shared_policy *shared,
          const struct wp_egress_texts *texts)
{
    return wp_str_is(texts->text, shared->text) &&
           wp_str_is(texts->by, shared->by) &&
           wp_str_is(texts->within, shared->within);
}

static enum wp_status
read_texts(const struct wp_egress *egress, const struct wp_egress_texts *texts,
           struct wp_egress_policy *out, struct wp_err *err)
{
    const struct wp_str packages = egress->config.packages;
    struct wp_egress_policy outer;
    struct wp_egress_policy own;
    enum wp_status status;

    if (texts->within.len == 0) {
        return wp_egress_policy_parse_narrowed(texts->text, texts->by, packages,
                                               out, err);
    }
    status = wp_egress_policy_parse(texts->within, packages, &outer, err);
    if (status == WP_OK) {
        status = wp_egress_policy_parse_narrowed(texts->text, texts->by,
                                                 packages, &own, err);
    }
    return status == WP_OK ? wp_egress_policy_narrow(&outer, &own, out, err)
                           : status;
}

struct wp_egress_shared_policy *
wp_egress_policy_hold(struct wp_egress *egress,
                      const struct wp_egress_texts *texts, struct wp_err *err)
{
    struct wp_egress_shared_policy *shared;

    WP_LIST_FOREACH (node, &egress->policies) {
        shared = WP_CONTAINER_OF(node, struct wp_egress_shared_policy, node);
        if (has_texts(shared, texts)) {
            return wp_egress_policy_hold_too(shared);
        }
    }
    shared = calloc(1, sizeof *shared);
    if (shared == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    if (read_texts(egress, texts, &shared->policy, err) != WP_OK ||
        !wp_str_copy(texts->text, shared->text, sizeof shared->text) ||
        !wp_str_copy(texts->by, shared->by, sizeof shared->by) ||
        !wp_str_copy(texts->within, shared->within, sizeof shared->within)) {
        free(shared);
        return NULL;
    }
    shared->users = 1;
    wp_list_push_back(&egress->policies, &shared->node);
    return shared;
}

struct wp_egress_shared_policy *
wp_egress_policy_hold_too(struct wp_egress_shared_policy *shared)
{
    shared->users++;
    return shared;
}

void
wp_egress_policy_let_go(struct wp_egress_shared_policy *shared)
{
    if (--shared->users == 0) {
        wp_list_remove(&shared->node);
        free(shared);
    }
}

/* ---------------------------------------------------------------- sources */

static void
source_end(struct wp_egress *egress, uint32_t index)
{
    struct wp_egress_source *source = egress->sources[index];

    wp_http_server_unlisten(egress->server, index);
    egress->sources[index] = NULL;
    wp_egress_lines_flush(&source->lines);
    wp_egress_policy_let_go(source->policy);
    free(source);
}

/* A place for one more; UINT32_MAX: no memory. */
static uint32_t
free_index(struct wp_egress *egress)
{
    struct wp_egress_source **grown;

    for (uint32_t i = 0; i < egress->sources_len; i++) {
        if (egress->sources[i] == NULL) {
            return i;
        }
    }
    /* NOLINTBEGIN(bugprone-sizeof-expression): a table of pointers. */
    grown = realloc(egress->sources,
                    (egress->sources_len + 1) * sizeof *egress->sources);
    /* NOLINTEND(bugprone-sizeof-expression) */
    if (grown == NULL) {
        return UINT32_MAX;
    }
    egress->sources = grown;
    egress->sources[egress->sources_len] = NULL;
    return egress->sources_len++;
}

/* Returns how many bytes it had moved. */
static uint64_t
leave(struct wp_egress *egress, struct wp_str name)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < egress->sources_len; i++) {
        if (egress->sources[i] != NULL &&
            wp_str_is(name, egress->sources[i]->name)) {
            bytes = egress->sources[i]->bytes;
            source_end(egress, i);
        }
    }
    return bytes;
}

void
wp_egress_leave(struct wp_egress *egress, struct wp_str name)
{
    (void)leave(egress, name);
}

enum wp_status
wp_egress_join(struct wp_egress *egress, struct wp_str name,
               struct wp_str policy, struct wp_str by, int fd,
               struct wp_err *err)
{
    struct wp_egress_source *source = calloc(1, sizeof *source);
    uint64_t bytes = leave(egress, name);
    uint32_t index = free_index(egress);

    if (source == NULL || index == UINT32_MAX ||
        !wp_str_copy(name, source->name, sizeof source->name)) {
        (void)close(fd);
        free(source);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "no room for a source of connections");
    }
    source->bytes = bytes;
    source->policy = wp_egress_policy_hold(
        egress, &(struct wp_egress_texts){.text = policy, .by = by}, err);
    if (source->policy == NULL) {
        (void)close(fd);
        free(source);
        return err->status;
    }
    egress->sources[index] = source;
    if (wp_http_server_listen(egress->server, fd, index, err) != WP_OK) {
        source_end(egress, index);
        return err->status;
    }
    return WP_OK;
}

/* --------------------------------------------------------------- its life */

struct wp_egress *
wp_egress_create(const struct wp_egress_config *config)
{
    struct wp_egress *egress = calloc(1, sizeof *egress);
    struct wp_http_server_config server = {
        .base = config->base,
        .route = wp_egress_route,
        .admit = wp_egress_admit,
        .left = wp_egress_left,
        .peer_size = sizeof(struct wp_egress_client),
        .forward = true,
        .app = egress,
        .conns_max = config->conns_max,
        .fields_max = WP_HTTP_FIELDS_MAX,
        .head_timeout_ns = config->idle_timeout_ns,
        .body_timeout_ns = config->idle_timeout_ns,
        .idle_timeout_ns = config->idle_timeout_ns,
        .send_timeout_ns = config->idle_timeout_ns,
    };

    if (egress == NULL) {
        return NULL;
    }
    egress->config = *config;
    egress->exchange = (struct wp_http_exchange_config){
        .base = config->base,
        .server = "the server",
        .idle_timeout_ns = config->idle_timeout_ns,
        .answer_timeout_ns = config->answer_timeout_ns,
        .connect_timeout_ns = config->connect_timeout_ns,
        .silence_timeout_ns = config->silence_timeout_ns,
        .failed = &egress->failed_total,
    };
    wp_list_init(&egress->policies);
    egress->server = wp_http_server_create(&server);
    if (egress->server == NULL || !wp_egress_guests_init(egress)) {
        wp_egress_destroy(egress);
        return NULL;
    }
    return egress;
}

void
wp_egress_destroy(struct wp_egress *egress)
{
    if (egress == NULL) {
        return;
    }
    for (uint32_t i = 0; i < egress->sources_len; i++) {
        if (egress->sources[i] != NULL) {
            source_end(egress, i);
        }
    }
    if (egress->server != NULL) {
        wp_http_server_destroy(egress->server);
    }
    wp_egress_guests_fini(egress);
    free(egress->sources);
    free(egress);
}
