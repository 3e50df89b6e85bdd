/* pool/remotes/remote_word.h - a repository as people write it:
 * URL[@REF][:DIR]. Pure; any thread. */
#ifndef WP_POOL_REMOTES_REMOTE_WORD_H
#define WP_POOL_REMOTES_REMOTE_WORD_H

#include "pool/base/str.h"

struct wp_remote_word {
    struct wp_str url;
    struct wp_str ref; /* Empty: none is given. */
    struct wp_str dir; /* The same, and for ".". */
};

/* Texts that point into word; nothing is checked but that a host and a path are
 * there. False: *why is what was expected. */
WP_MUST_CHECK bool wp_remote_word_parse(const char *word,
                                        struct wp_remote_word *out,
                                        const char **why);

#endif
