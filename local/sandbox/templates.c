/* local/sandbox/templates.c - the templates that sandboxes can be made from.
 *
 * They lie in a list that only grows: a sandbox keeps the one that it was made
 * from, and its root, as long as it lives. Of one name the newest counts. Who
 * adds one has prepared it; that is the release which whoever walks the list
 * acquires. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "local/sandbox/extras.h"
#include "local/sandbox/gvisor.h"
#include "local/sandbox/local_impl.h"
#include "pool/base/log.h"

enum {
    /* Also of those that others have taken the place of. */
    PREPARED_MAX = 4 * WP_MANIFEST_TEMPLATES_MAX,
};

const struct wp_local_template *
wp_local_find_template(const struct wp_local *local,
                       struct wp_str template_namespace, struct wp_str name)
{
    const struct wp_local_template *at =
        atomic_load_explicit(&local->templates, memory_order_acquire);

    while (at != NULL &&
           (!wp_str_is(name, at->tmpl->name) ||
            !wp_str_is(template_namespace, at->tmpl->template_namespace))) {
        at = at->next;
    }
    return at;
}

uint64_t
wp_local_template_hash(const struct wp_local *local,
                       struct wp_str template_namespace, struct wp_str name)
{
    const struct wp_local_template *found =
        wp_local_find_template(local, template_namespace, name);

    return found != NULL ? found->hash : 0;
}

static void
fini_template(struct wp_local_template *template_)
{
    wp_bwrap_args_fini(template_);
    wp_gvisor_fini(template_);
    wp_extras_fini(template_);
    wp_root_fini(&template_->root);
    free(template_);
}

enum wp_status
wp_local_add_template(struct wp_local *local, const struct wp_template *tmpl,
                      struct wp_err *err)
{
    struct wp_local_template *made;
    char dir[WP_LOCAL_PATH_MAX + 32];
    enum wp_status status;

    if (local->templates_made == PREPARED_MAX) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "template %s: this process has prepared %d "
                          "templates, with those of before; restart it",
                          tmpl->name, PREPARED_MAX);
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "no memory for the local backend");
    }
    (void)snprintf(dir, sizeof dir, "%s/roots/%u/%u", local->state_dir,
                   local->roots, local->templates_made++);
    made->tmpl = tmpl;
    status = wp_local_prepare_template(local, made, dir, err);
    if (status != WP_OK) {
        struct wp_err ignored;

        fini_template(made);
        (void)!wp_dir_remove(dir, &ignored); /* Else with all roots. */
        return status;
    }
    made->next = atomic_load_explicit(&local->templates, memory_order_relaxed);
    atomic_store_explicit(&local->templates, made, memory_order_release);
    return WP_OK;
}

void
wp_local_destroy_templates(struct wp_local *local)
{
    struct wp_local_template *at =
        atomic_load_explicit(&local->templates, memory_order_relaxed);

    while (at != NULL) {
        struct wp_local_template *next = at->next;

        fini_template(at);
        at = next;
    }
    atomic_store_explicit(&local->templates, NULL, memory_order_relaxed);
}
