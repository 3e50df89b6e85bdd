#include "proto/checkout/trees.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/assert.h"

struct tree {
    struct wp_bind_trees *trees;
    struct wp_fetch *fetch; /* Under way; NULL: not. */
    struct wp_bind_tree as; /* Its fd -1: it is not there. */
    char url[WP_REMOTE_URL_MAX + 1];
    char ref[WP_GIT_REF_MAX + 1];
    char dir[WP_BINDING_PATH_MAX + 1];
    /* Of the remote, until it is fetched; "": none. */
    char user[WP_BINDING_USER_MAX + 1];
    char password[WP_BINDING_PASSWORD_MAX + 1];
};

struct wp_bind_trees {
    uint32_t n;
    uint32_t left; /* Not fetched. */
    char tenant[WP_TENANT_MAX + 1];
    void (*done)(void *ctx, enum wp_status status, const char *reason);
    void *ctx;
    struct tree tree[WP_BINDING_REPOSITORIES_MAX];
};

enum wp_status
wp_bind_trees_check(const struct wp_remote_rules *rules,
                    const struct wp_binding *binding, struct wp_err *err)
{
    for (uint32_t i = 0; i < binding->n_repositories; i++) {
        char url[WP_REMOTE_URL_MAX + 1];
        struct wp_remote remote;
        const char *why = "";

        bool parsed =
            wp_remote_parse(binding->repositories[i].url, &remote, &why);

        if (!parsed || !wp_remote_url(&remote, url)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "binding.repositories[%u].url: %s", i,
                              parsed ? "a shorter one expected, its address is "
                                       "written in full"
                                     : why);
        }
        if (!wp_remote_rules_allow(rules, &remote)) {
            return wp_err_set(
                err, WP_FAILED_PRECONDITION,
                "binding.repositories[%u]: '%.*s' is not allowed here (setting "
                "%s)",
                i, WP_REMOTE_URL_SHOWN, url,
                rules->n == 0 ? "git_remotes, which is empty"
                              : "git_remotes, or git_remotes_denied");
        }
    }
    return WP_OK;
}

static void
copy(struct wp_str text, char *out, size_t cap)
{
    bool fits = wp_str_copy(text, out, cap);

    WP_ASSERT(fits); /* The binding was checked. */
}

/* Where the other one goes within the tree; NULL: outside of it. */
static const char *
dir_within(const struct tree *tree, const struct tree *other)
{
    size_t len = strlen(tree->dir);

    if (strncmp(other->dir, tree->dir, len) != 0) {
        return NULL;
    }
    if (len == 0 || other->dir[len] == '\0') {
        return other->dir + len;
    }
    return other->dir[len] == '/' ? other->dir + len + 1 : NULL;
}

static void
find_covers(struct wp_bind_trees *trees)
{
    for (uint32_t i = 0; i < trees->n; i++) {
        struct wp_trust_covers *covers = &trees->tree[i].as.covers;

        for (uint32_t j = 0; j < trees->n; j++) {
            const char *dir = dir_within(&trees->tree[i], &trees->tree[j]);

            if (j != i && dir != NULL) {
                covers->dirs[covers->n++] = dir;
            }
        }
    }
}

struct wp_bind_trees *
wp_bind_trees_make(const struct wp_binding *binding, struct wp_str tenant)
{
    struct wp_bind_trees *trees = calloc(1, sizeof *trees);

    if (trees == NULL) {
        return NULL;
    }
    trees->n = binding->n_repositories;
    copy(tenant, trees->tenant, sizeof trees->tenant);
    for (uint32_t i = 0; i < trees->n; i++) {
        const struct wp_binding_repository *from = &binding->repositories[i];
        struct tree *tree = &trees->tree[i];
        struct wp_remote remote;
        const char *why;
        bool fits = wp_remote_parse(from->url, &remote, &why) &&
                    wp_remote_url(&remote, tree->url);

        WP_ASSERT(fits);
        copy(from->ref, tree->ref, sizeof tree->ref);
        copy(from->dir, tree->dir, sizeof tree->dir);
        copy(from->user.len > 0 ? from->user : WP_STR(WP_REPOSITORY_USER),
             tree->user, sizeof tree->user);
        copy(from->password, tree->password, sizeof tree->password);
        tree->trees = trees;
        tree->as =
            (struct wp_bind_tree){.fd = -1, .url = tree->url, .dir = tree->dir};
    }
    find_covers(trees);
    return trees;
}

void
wp_bind_trees_drop(struct wp_bind_trees *trees)
{
    if (trees == NULL) {
        return;
    }
    for (uint32_t i = 0; i < trees->n; i++) {
        if (trees->tree[i].fetch != NULL) {
            wp_fetch_cancel(trees->tree[i].fetch);
        }
        if (trees->tree[i].as.fd >= 0) {
            (void)close(trees->tree[i].as.fd);
        }
    }
    explicit_bzero(trees, sizeof *trees);
    free(trees);
}

/* --- Fetching --- */

static void
on_fetched(void *ctx, enum wp_status status, int fd, const char *reason)
{
    struct tree *tree = ctx;
    struct wp_bind_trees *trees = tree->trees;
    struct stat st;
    char text[WP_BIND_REASON_MAX + 1];

    tree->fetch = NULL;
    tree->as.fd = fd;
    if (status != WP_OK) {
        (void)snprintf(text, sizeof text, "repository '%.*s': %s",
                       WP_REMOTE_URL_SHOWN, tree->url, reason);
        trees->done(trees->ctx, status, text);
        return;
    }
    tree->as.size = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    if (--trees->left == 0) {
        trees->done(trees->ctx, WP_OK, "");
    }
}

void
wp_bind_trees_fetch(struct wp_bind_trees *trees, struct wp_fetcher *fetcher,
                    void (*done)(void *ctx, enum wp_status status,
                                 const char *reason),
                    void *ctx)
{
    trees->done = done;
    trees->ctx = ctx;
    trees->left = trees->n;
    for (uint32_t i = 0; i < trees->n; i++) {
        struct tree *tree = &trees->tree[i];
        const struct wp_fetch_order order = {.url = tree->url,
                                             .ref = tree->ref,
                                             .tenant = trees->tenant,
                                             .user = tree->user,
                                             .password = tree->password};

        tree->fetch = wp_fetcher_begin(fetcher, &order, on_fetched, tree);
        explicit_bzero(tree->password, sizeof tree->password);
        if (tree->fetch == NULL) {
            done(ctx, WP_RESOURCE_EXHAUSTED, "no memory to fetch repositories");
            return;
        }
    }
    wp_fetcher_go(fetcher);
}

const struct wp_bind_tree *
wp_bind_trees_at(const struct wp_bind_trees *trees, uint32_t i)
{
    return i < trees->n ? &trees->tree[i].as : NULL;
}

const char *
wp_bind_trees_tenant(const struct wp_bind_trees *trees)
{
    return trees->tenant;
}
