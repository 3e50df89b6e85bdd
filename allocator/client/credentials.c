/* libwarmpool: what a connection proves itself with, and what it trusts. */
#include "allocator/client/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/file.h"

enum {
    TOKEN_MIN = 16, /* As the daemon's own. */
    TOKEN_MAX = 256,
};

bool
wp_credentials_keep(const char *path, char **out)
{
    *out = path != NULL ? strdup(path) : NULL;
    return path == NULL || *out != NULL;
}

/* "Bearer TOKEN" from the file; client->authorization changes when it has one.
 */
static bool
read_token(struct warmpool *client, struct wp_err *err)
{
    static const char scheme[] = "Bearer ";
    const struct wp_client_files *files = &client->files;
    const size_t skip = sizeof scheme - 1;
    char text[sizeof client->authorization];
    char *word = text + skip;
    ssize_t n;
    bool good;

    if (files->token == NULL) {
        return true;
    }
    n = wp_path_read(files->token, 0, word, sizeof text - skip - 1, NULL);
    if (n < 0) {
        (void)wp_err_sys(err, WP_INVALID_ARGUMENT, errno,
                         "access_token_file %.120s", files->token);
        return files->token_may_lack;
    }
    while (n > 0 && (word[n - 1] == '\n' || word[n - 1] == '\r')) {
        n--;
    }
    word[n] = '\0';
    memcpy(text, scheme, skip);
    good = n >= TOKEN_MIN && n <= TOKEN_MAX &&
           strcspn(word, " \t\r\n\x7f") == (size_t)n;
    if (good) {
        memcpy(client->authorization, text, sizeof text);
    } else {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "access_token_file %.120s: expected one word of %d "
                         "to %d characters",
                         files->token, TOKEN_MIN, TOKEN_MAX);
    }
    explicit_bzero(text, sizeof text);
    return good;
}

static bool
read_tls(struct warmpool *client, struct wp_err *err)
{
    const struct wp_client_files *files = &client->files;
    struct wp_h2_tls *tls;

    if (files->tls_ca == NULL) {
        return true;
    }
    tls = wp_h2_tls_create(files->tls_ca, files->tls_cert, files->tls_key,
                           files->tls_name, err);
    if (tls == NULL) {
        return false;
    }
    if (client->h2 != NULL) {
        wp_h2_set_tls(client->h2, tls);
    }
    wp_h2_tls_destroy(client->tls);
    client->tls = tls;
    return true;
}

bool
wp_credentials_read(struct warmpool *client, struct wp_err *err)
{
    /* Both: where one is being replaced just now, the other may be new. */
    bool token = read_token(client, err);

    return read_tls(client, err) && token;
}

void
wp_credentials_free(struct warmpool *client)
{
    wp_h2_tls_destroy(client->tls);
    explicit_bzero(client->authorization, sizeof client->authorization);
    free(client->files.tls_ca);
    free(client->files.tls_cert);
    free(client->files.tls_key);
    free(client->files.token);
}
