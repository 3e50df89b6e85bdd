#include "k8s/bind/repositories.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/bind/trust.h"
#include "pool/remotes/remote_rules.h"
#include "proto/checkout/fetch_socket.h"

struct wp_repositories {
    struct wp_remote_rules rules;
    bool has_socket;
    struct wp_fetcher *fetcher;
    struct wp_trust_judge judge;
};

/*   created --go--> trees are fetched --> each is judged --> done
 *                         '- cancel --------'                  */
struct wp_fetching {
    struct wp_repositories *self;
    struct wp_bind_trees *trees;
    wp_fetching_done *done;
    void *ctx;
    struct wp_trust_case *judged; /* NULL: none is, now. */
    uint32_t at;                  /* The tree that is next to be judged. */
    char warning[WP_BIND_REASON_MAX + 1];
};

struct wp_repositories *
wp_repositories_create(const struct wp_repositories_config *config,
                       struct wp_err *err)
{
    const struct wp_cluster_git *git = config->git;
    const struct wp_fetcher_config fetcher = {
        .runner = wp_fetch_socket_runner(git->fetch_socket),
        .repository_bytes_max = git->repository_bytes_max,
        .cache_bytes_max = git->cache_bytes_max,
        .cache_age_s = git->cache_age_s,
        .timeout_ms = git->timeout_ms,
    };
    struct wp_repositories *self = calloc(1, sizeof *self);

    if (self != NULL) {
        self->fetcher = wp_fetcher_create(&fetcher, config->base);
    }
    if (self == NULL || self->fetcher == NULL) {
        free(self);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    self->has_socket = git->fetch_socket[0] != '\0';
    if (wp_remote_rules_add(&self->rules, wp_str_from(git->remotes), false,
                            err) != WP_OK ||
        wp_remote_rules_add(&self->rules, wp_str_from(git->remotes_denied),
                            true, err) != WP_OK ||
        wp_trust_judge_init(&self->judge, git->trust, git->trust_files,
                            config->api, config->ns, err) != WP_OK) {
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

/* --- One claim's --- */

struct wp_fetching *
wp_fetching_create(struct wp_repositories *self, struct wp_bind_trees *trees,
                   wp_fetching_done *done, void *ctx)
{
    struct wp_fetching *fetching = calloc(1, sizeof *fetching);

    if (fetching != NULL) {
        fetching->self = self;
        fetching->trees = trees;
        fetching->done = done;
        fetching->ctx = ctx;
    }
    return fetching;
}

static void
end(struct wp_fetching *fetching, enum wp_status status, const char *reason)
{
    wp_fetching_done *done = fetching->done;
    void *ctx = fetching->ctx;
    char text[WP_BIND_REASON_MAX + 1];

    (void)snprintf(text, sizeof text, "%s", reason);
    free(fetching);
    done(ctx, status, text);
}

static void judge_next(struct wp_fetching *fetching);

static void
on_judged(void *ctx, enum wp_status status, const char *reason)
{
    struct wp_fetching *fetching = ctx;
    const struct wp_bind_tree *tree =
        wp_bind_trees_at(fetching->trees, fetching->at);
    char text[WP_BIND_REASON_MAX + 1];

    fetching->judged = NULL;
    fetching->at++;
    if (reason[0] != '\0') {
        (void)snprintf(text, sizeof text, "repository '%.*s': %s",
                       WP_REMOTE_URL_SHOWN, tree->url, reason);
    }
    if (status != WP_OK) {
        end(fetching, status, reason[0] != '\0' ? text : "");
        return;
    }
    if (reason[0] != '\0' && fetching->warning[0] == '\0') {
        memcpy(fetching->warning, text, sizeof fetching->warning);
    }
    judge_next(fetching);
}

/* Each answer of the API server comes from its loop: no call is in another. */
static void
judge_next(struct wp_fetching *fetching)
{
    const struct wp_bind_tree *tree =
        wp_bind_trees_at(fetching->trees, fetching->at);

    if (tree == NULL || !wp_trust_judge_asks(&fetching->self->judge)) {
        end(fetching, WP_OK, fetching->warning);
        return;
    }
    fetching->judged = wp_trust_judge_begin(
        &fetching->self->judge, wp_bind_trees_tenant(fetching->trees), tree,
        on_judged, fetching);
    if (fetching->judged == NULL) {
        end(fetching, WP_RESOURCE_EXHAUSTED, "no memory");
    }
}

static void
on_fetched(void *ctx, enum wp_status status, const char *reason)
{
    if (status == WP_OK) {
        judge_next(ctx);
    } else {
        end(ctx, status, reason);
    }
}

void
wp_fetching_go(struct wp_fetching *fetching)
{
    wp_bind_trees_fetch(fetching->trees, fetching->self->fetcher, on_fetched,
                        fetching);
}

void
wp_fetching_cancel(struct wp_fetching *fetching)
{
    if (fetching != NULL) {
        wp_trust_judge_cancel(fetching->judged);
        free(fetching);
    }
}
