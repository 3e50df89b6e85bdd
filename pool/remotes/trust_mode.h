/* pool/remotes/trust_mode.h - what becomes of a repository whose instruction
 * files are not as they were first seen; as the setting git_trust has it. */
#ifndef WP_POOL_REMOTES_TRUST_MODE_H
#define WP_POOL_REMOTES_TRUST_MODE_H

enum wp_trust_mode {
    WP_TRUST_OFF,
    WP_TRUST_REPORT,  /* The log tells what differs. */
    WP_TRUST_ENFORCE, /* And a sandbox does not get it. */
};

#endif
