/* proto/checkout/trust_look.h - what the instruction files of a checkout are,
 * told from its tree image, outside of every sandbox. Any thread. */
#ifndef WP_PROTO_CHECKOUT_TRUST_LOOK_H
#define WP_PROTO_CHECKOUT_TRUST_LOOK_H

#include "pool/binding.h"
#include "pool/remotes/trust_record.h"

/* Folders of a tree into which other repositories go, too: their paths in it.
 * "": its top. */
struct wp_trust_covers {
    uint32_t n;
    const char *dirs[WP_BINDING_REPOSITORIES_MAX];
};

/* Fills state and hash of each file of the record, whose paths are set. A link
 * is followed within the tree, but into no folder of covers: what is there is
 * another repository's. Of two entries with one path the last one counts: it is
 * what a reader finds there. False: the image is not whole. */
WP_MUST_CHECK bool wp_trust_look(const uint8_t *image, size_t len,
                                 const struct wp_trust_covers *covers,
                                 struct wp_trust_record *record);
/* The same of an image in a file, from a copy in memory: whoever made the file
 * could shorten it meanwhile. Blocks for the disk. */
WP_MUST_CHECK bool wp_trust_look_fd(int fd,
                                    const struct wp_trust_covers *covers,
                                    struct wp_trust_record *record);

/* The record's name: 8 digits of the tenant, the others of tenant and url. */
void wp_trust_record_name(const char *tenant, const char *url,
                          char out[WP_TRUST_NAME_LEN + 1]);

#endif
