#include "pool/remotes/repository.h"

#include <string.h>

#include "pool/remotes/remote.h"

enum wp_status
wp_repository_check_login(const struct wp_binding_repository *repository,
                          const char *place, struct wp_err *err)
{
    const struct wp_str user = repository->user;
    const struct wp_str password = repository->password;
    struct wp_remote remote;
    const char *why = "";

    if (password.len > WP_BINDING_PASSWORD_MAX ||
        !wp_str_is_printable(password)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s.password: at most %d bytes without control "
                          "characters expected",
                          place, WP_BINDING_PASSWORD_MAX);
    }
    if (user.len > WP_BINDING_USER_MAX || !wp_str_is_printable(user) ||
        (user.len > 0 && memchr(user.ptr, ':', user.len) != NULL)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s.user: at most %d bytes without ':' and control "
                          "characters expected",
                          place, WP_BINDING_USER_MAX);
    }
    if (user.len > 0 && password.len == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s.password: it is missing, with a user", place);
    }
    return password.len == 0 ||
                   (wp_remote_parse(repository->url, &remote, &why) &&
                    wp_remote_is_safe(&remote))
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT,
                            "%s.password: it is not sent in clear; a url of "
                            "https:// expected",
                            place);
}

enum wp_status
wp_repository_check(const struct wp_binding_repository *repository,
                    const char *place, struct wp_err *err)
{
    struct wp_remote remote;
    const char *why = "";

    if (!wp_remote_parse(repository->url, &remote, &why)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "%s.url: %s", place, why);
    }
    if (repository->ref.len > 0 && !wp_git_ref_is_valid(repository->ref)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s.ref: a branch, a tag or 40 hexadecimal digits "
                          "expected, at most %d bytes",
                          place, WP_GIT_REF_MAX);
    }
    return wp_repository_check_login(repository, place, err);
}
