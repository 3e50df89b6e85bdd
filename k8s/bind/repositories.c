#include "k8s/bind/repositories.h"

#include <stdlib.h>

#include "pool/remotes/remote_rules.h"
#include "proto/checkout/fetch_socket.h"

struct wp_repositories {
    struct wp_remote_rules rules;
    bool has_socket;
    struct wp_fetcher *fetcher;
};

struct wp_repositories *
wp_repositories_create(const struct wp_cluster_git *config,
                       struct event_base *base, struct wp_err *err)
{
    const struct wp_fetcher_config fetcher = {
        .runner = wp_fetch_socket_runner(config->fetch_socket),
        .repository_bytes_max = config->repository_bytes_max,
        .cache_bytes_max = config->cache_bytes_max,
        .cache_age_s = config->cache_age_s,
        .timeout_ms = config->timeout_ms,
    };
    struct wp_repositories *self = calloc(1, sizeof *self);

    if (self != NULL) {
        self->fetcher = wp_fetcher_create(&fetcher, base);
    }
    if (self == NULL || self->fetcher == NULL) {
        free(self);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    self->has_socket = config->fetch_socket[0] != '\0';
    if (wp_remote_rules_add(&self->rules, wp_str_from(config->remotes), false,
                            err) != WP_OK ||
        wp_remote_rules_add(&self->rules, wp_str_from(config->remotes_denied),
                            true, err) != WP_OK) {
        wp_repositories_destroy(self);
        return NULL;
    }
    return self;
}

void
wp_repositories_destroy(struct wp_repositories *self)
{
    if (self != NULL) {
        wp_fetcher_destroy(self->fetcher);
        free(self);
    }
}

enum wp_status
wp_repositories_check(const struct wp_repositories *self,
                      const struct wp_binding *binding, struct wp_err *err)
{
    enum wp_status status = wp_bind_trees_check(&self->rules, binding, err);

    return status == WP_OK && binding->n_repositories > 0 && !self->has_socket
               ? wp_err_set(err, WP_FAILED_PRECONDITION,
                            "binding.repositories: the daemon has no "
                            "warmpool-fetch (setting fetch_socket)")
               : status;
}

struct wp_fetcher *
wp_repositories_fetcher(struct wp_repositories *self)
{
    return self->fetcher;
}
