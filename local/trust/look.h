/* local/trust/look.h - what the instruction files of a checkout are, told from
 * its tree image, outside of every sandbox. Pure; any thread. */
#ifndef WP_LOCAL_TRUST_LOOK_H
#define WP_LOCAL_TRUST_LOOK_H

#include "pool/remotes/trust_record.h"

/* Fills state and hash of each file of the record, whose paths are set. A link
 * is followed within the tree: what counts is what a reader finds there. False:
 * the image is not whole. */
WP_MUST_CHECK bool wp_trust_look(const uint8_t *image, size_t len,
                                 struct wp_trust_record *record);

#endif
