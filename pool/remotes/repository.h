/* pool/remotes/repository.h - what of a repository may be written in a binding,
 * whoever writes it: a gRPC claim, or an annotation of a SandboxClaim. Pure;
 * any thread. */
#ifndef WP_POOL_REMOTES_REPOSITORY_H
#define WP_POOL_REMOTES_REPOSITORY_H

#include "pool/base/status.h"
#include "pool/binding.h"

/* Its URL, ref, user and password, the last two since both become a line of
 * HTTP. place: what it is called in err, as "binding.repositories[0]".
 * INVALID_ARGUMENT: err says what was expected. */
WP_MUST_CHECK enum wp_status
wp_repository_check(const struct wp_binding_repository *repository,
                    const char *place, struct wp_err *err);
/* The last part of it, of a repository that is otherwise good. */
WP_MUST_CHECK enum wp_status
wp_repository_check_login(const struct wp_binding_repository *repository,
                          const char *place, struct wp_err *err);

#endif
