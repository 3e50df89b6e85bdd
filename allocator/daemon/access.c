#include "allocator/daemon/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/conf/paths.h"
#include "allocator/daemon/files.h"
#include "pool/base/str.h"

static enum wp_status
parse_uids(struct wp_daemon_access *access, const struct wp_conf *conf,
           struct wp_err *err)
{
    const struct wp_conf_list *list = &conf->allowed_uids;

    access->uids = calloc(list->len + 1, sizeof *access->uids);
    if (access->uids == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    for (uint32_t i = 0; i < list->len; i++) {
        uint64_t uid = 0;

        /* wp_conf_check has seen that it is one. */
        if (wp_str_to_u64(wp_str_from(list->items[i]), &uid)) {
            access->uids[access->n_uids++] = (uint32_t)uid;
        }
    }
    return WP_OK;
}

/* "NAME=TENANT" or "NAME=*admin"; a name may hold '=' itself. */
static bool
parse_identity(const char *text, struct wp_principal *out)
{
    const char *equals = strrchr(text, '=');
    char *name;

    if (equals == NULL) {
        return false;
    }
    name = strndup(text, (size_t)(equals - text));
    if (name == NULL) {
        return false;
    }
    out->name = name;
    out->admin = strcmp(equals + 1, "*admin") == 0;
    out->tenant = out->admin ? "" : equals + 1; /* Borrowed from conf. */
    return true;
}

static enum wp_status
parse_lists(struct wp_daemon_access *access, const struct wp_conf *conf,
            struct wp_err *err)
{
    const struct wp_conf_list *list = &conf->identities;

    access->principals = calloc(list->len + 1, sizeof *access->principals);
    if (access->principals == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    for (uint32_t i = 0; i < list->len; i++) {
        if (!parse_identity(list->items[i],
                            &access->principals[access->n_principals])) {
            return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        }
        access->n_principals++;
    }
    return parse_uids(access, conf, err);
}

enum wp_status
wp_daemon_access_read(struct wp_daemon_access *access,
                      const struct wp_conf *conf, struct wp_err *err)
{
    enum wp_status status = parse_lists(access, conf, err);

    if (status == WP_OK) {
        status = wp_daemon_read_token("http_token_file", conf->http_token_file,
                                      access->admin_token,
                                      sizeof access->admin_token, err);
    }
    return status == WP_OK
               ? wp_daemon_read_token(
                     "trigger_secret_file", conf->trigger_secret_file,
                     access->trigger_secret, sizeof access->trigger_secret, err)
               : status;
}

/* Nobody else may put a file in its place, whose token he knew. */
static enum wp_status
check_place(const char *path, struct wp_err *err)
{
    char dir[WP_CONF_TEXT_MAX + 1];
    char *slash;

    (void)snprintf(dir, sizeof dir, "%s", path);
    slash = strrchr(dir, '/');
    slash[slash == dir ? 1 : 0] = '\0';
    return wp_paths_check_dir(dir, err);
}

enum wp_status
wp_daemon_access_token(struct wp_daemon_access *rules,
                       const struct wp_conf *conf, struct wp_err *err)
{
    const char *path = conf->access_token_file;
    enum wp_status status = WP_OK;
    bool made;

    if (!wp_conf_listens_unproven(conf)) {
        return WP_OK;
    }
    /* In a cluster its directory is a Pod's own. */
    if (!wp_conf_is_cluster(conf)) {
        status = check_place(path, err);
    }
    if (status == WP_OK && access(path, F_OK) != 0) {
        status = wp_daemon_make_secret(path, &made, err);
    }
    if (status != WP_OK) {
        return wp_err_wrap(err, "setting 'access_token_file'");
    }
    return wp_daemon_read_token("access_token_file", path, rules->access_token,
                                sizeof rules->access_token, err);
}

bool
wp_daemon_access_names_others(const struct wp_daemon_access *access)
{
    for (size_t i = 0; i < access->n_principals; i++) {
        struct wp_str name = wp_str_from(access->principals[i].name);

        if (wp_str_starts_with(name, WP_STR("uid:")) ||
            wp_str_starts_with(name, WP_STR("gid:"))) {
            return true;
        }
    }
    return access->n_uids > 0;
}

void
wp_daemon_access_forget(struct wp_daemon_access *access)
{
    for (size_t i = 0; i < access->n_principals; i++) {
        free((void *)(uintptr_t)access->principals[i].name);
    }
    free(access->principals);
    free(access->uids);
    explicit_bzero(access, sizeof *access);
}
