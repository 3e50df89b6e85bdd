/* pool/remotes/remote.h - a Git repository as a claim names it, in one
 * spelling.
 *
 * https://HOST[:PORT]/PATH, or http://. The host is read as by
 * pool/egress/host.h, so what is judged is what is connected to. Nothing is
 * encoded in a path, and it leads nowhere but down. A user or a password in a
 * URL is refused: it would be in logs. Pure; any thread. */
#ifndef WP_POOL_REMOTES_REMOTE_H
#define WP_POOL_REMOTES_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/str.h"
#include "pool/egress/host.h"

enum {
    WP_REMOTE_URL_MAX = 240,  /* Leaves a file name room for a whole URL. */
    WP_REMOTE_URL_SHOWN = 60, /* In a reason. */
    WP_GIT_REF_MAX = 200,
    WP_REMOTE_TLS_PORT = 443,
    WP_REMOTE_PLAIN_PORT = 80,
};

struct wp_remote {
    bool tls; /* https */
    uint16_t port;
    struct wp_host host;
    char path[WP_REMOTE_URL_MAX + 1]; /* Without '/' at its ends. */
};

/* False: *why is what was expected. */
WP_MUST_CHECK bool wp_remote_parse(struct wp_str url, struct wp_remote *out,
                                   const char **why);
/* The URL in its one spelling. False: it is longer than WP_REMOTE_URL_MAX. */
WP_MUST_CHECK bool wp_remote_url(const struct wp_remote *remote,
                                 char out[WP_REMOTE_URL_MAX + 1]);

/* May a password be sent there? Over TLS, or within this machine. */
WP_MUST_CHECK bool wp_remote_is_safe(const struct wp_remote *remote);

/* A branch, a tag, a full name ("refs/heads/main") or the 40 hexadecimal digits
 * of a commit, by git's own rules for names and without a '-' first. */
WP_MUST_CHECK bool wp_git_ref_is_valid(struct wp_str ref);

#endif
