/* Any bytes as what git prints, of which a remote has chosen a part: refs, the
 * files of a commit (the same sum whole and in pieces), and errors. */
#include <stdlib.h>
#include <string.h>

#include "local/fetch/git.h"
#include "local/fetch/listing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct wp_str listing = {text, size};
    struct wp_listing_sum whole = {.files = 0};
    struct wp_listing_sum pieces = {.files = 0};
    char commit[WP_COMMIT_LEN + 1];
    char head[WP_REF_NAME_MAX + 1];
    char line[WP_GIT_ERROR_MAX];
    bool ok = wp_listing_add(&whole, text, size);

    for (size_t i = 0; i < size; i++) {
        if (!wp_listing_add(&pieces, text + i, 1)) {
            check(!ok);
            break;
        }
    }
    check(!ok || (whole.files == pieces.files && whole.bytes == pieces.bytes));
    if (wp_listing_commit(listing, "HEAD", commit)) {
        check(strlen(commit) == WP_COMMIT_LEN);
    }
    if (wp_listing_head(listing, head)) {
        check(strlen(head) <= WP_REF_NAME_MAX);
    }
    wp_git_error_line(text, size, line);
    for (const char *c = line; *c != '\0'; c++) {
        check(*c >= ' ' && *c <= '~');
    }
    return 0;
}
