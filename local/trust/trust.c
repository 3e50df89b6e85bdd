#include "local/trust/trust.h"

#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/log.h"
#include "proto/checkout/trust_look.h"

enum wp_status
wp_trust_init(struct wp_trust *trust, enum wp_trust_mode mode,
              const char *files, const char *folder, struct wp_err *err)
{
    enum wp_status status;

    *trust = (struct wp_trust){.mode = mode, .store = {.dir_fd = -1}};
    if (mode == WP_TRUST_OFF) {
        return WP_OK;
    }
    status = wp_trust_files_parse(wp_str_from(files), &trust->files, err);
    return status == WP_OK ? wp_trust_store_open(&trust->store, folder, err)
                           : status;
}

void
wp_trust_fini(struct wp_trust *trust)
{
    if (trust->mode != WP_TRUST_OFF) {
        wp_trust_store_close(&trust->store);
    }
}

static enum wp_status
judge(struct wp_trust *trust, struct wp_trust_record *first,
      const struct wp_trust_record *now, struct wp_err *err)
{
    enum wp_status status;
    bool more;

    status = wp_trust_store_load(&trust->store, first, err);
    if (status != WP_OK && status != WP_NOT_FOUND) {
        return status;
    }
    status = wp_trust_record_judge(first, now, &more, err);
    return status == WP_OK && more
               ? wp_trust_store_save(&trust->store, first, err)
               : status;
}

enum wp_status
wp_trust_check(struct wp_trust *trust, const char *tenant,
               const struct wp_bind_tree *tree, struct wp_err *err)
{
    struct wp_trust_record now = trust->files;
    struct wp_trust_record first = {.n = 0};
    char name[WP_TRUST_NAME_LEN + 1];
    enum wp_status status;
    bool fits;

    if (trust->mode == WP_TRUST_OFF) {
        return WP_OK;
    }
    fits =
        wp_str_copy(wp_str_from(tenant), first.tenant, sizeof first.tenant) &&
        wp_str_copy(wp_str_from(tree->url), first.url, sizeof first.url);
    WP_ASSERT(fits); /* Both were checked. */
    wp_trust_record_below(&now, wp_str_from(tree->dir));
    status = wp_trust_look_fd(tree->fd, &tree->covers, &now)
                 ? judge(trust, &first, &now, err)
                 : wp_err_set(err, WP_UNAVAILABLE,
                              "its instruction files cannot be looked at");
    if (status == WP_OK) {
        return WP_OK;
    }
    wp_trust_record_name(tenant, tree->url, name);
    wp_log_warn("instruction files of a repository are not trusted",
                wp_kv_str("tenant", tenant), wp_kv_str("repository", tree->url),
                wp_kv_str("record", name), wp_kv_err(err),
                wp_kv_str("sandbox", trust->mode == WP_TRUST_ENFORCE
                                         ? "does not get it"
                                         : "gets it all the same"));
    return trust->mode == WP_TRUST_ENFORCE ? WP_FAILED_PRECONDITION : WP_OK;
}
