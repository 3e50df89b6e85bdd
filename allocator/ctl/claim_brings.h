/* allocator/ctl/claim_brings.h - what the options of the command claim say that
 * the sandbox gets. */
#ifndef WP_ALLOCATOR_CTL_CLAIM_BRINGS_H
#define WP_ALLOCATOR_CTL_CLAIM_BRINGS_H

#include <stdbool.h>

#include "allocator/ctl/ctl.h"
#include "allocator/ctl/sandbox/brought.h"

struct wp_ctl_brings {
    struct wp_str binding; /* A Binding's bytes; ptr is NULL: it is empty. */
    struct wp_brought files;
    /* There are too many files for a binding, or too large ones. They are not
     * in it: they are to be uploaded. */
    bool upload;
};

/* INVALID_ARGUMENT: an option's value, or a file; err names it. Else to be
 * ended by wp_brought_fini(&out->files). */
WP_MUST_CHECK enum wp_status wp_ctl_read_brings(struct wp_ctl *ctl,
                                                struct wp_ctl_brings *out,
                                                struct wp_err *err);
/* Does it say anything of that? */
bool wp_ctl_brings_something(const struct wp_ctl_options *options);

#endif
