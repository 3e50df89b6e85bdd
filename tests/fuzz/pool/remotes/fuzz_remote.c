/* Any two lines: rules, and a repository as people write it. A URL that is
 * taken has one spelling, which means the same; it is refused where there is no
 * rule, and where the same rules deny. A ref that is taken is one word that no
 * option is. */
#include <stdlib.h>
#include <string.h>

#include "pool/remotes/remote_rules.h"
#include "pool/remotes/remote_word.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

static void
check_rules(struct wp_str text, const struct wp_remote *remote)
{
    static struct wp_remote_rules rules;
    struct wp_err err = {.msg = ""};
    bool allowed;

    rules.n = 0;
    check(!wp_remote_rules_allow(&rules, remote));
    if (wp_remote_rules_add(&rules, text, false, &err) != WP_OK) {
        check(err.status == WP_INVALID_ARGUMENT && err.msg[0] != '\0');
        return;
    }
    allowed = wp_remote_rules_allow(&rules, remote);
    check(!allowed || rules.n > 0);
    if (wp_remote_rules_add(&rules, text, true, &err) == WP_OK) {
        check(!wp_remote_rules_allow(&rules, remote));
    }
}

static void
check_url(struct wp_str url, struct wp_str rules)
{
    char spelling[WP_REMOTE_URL_MAX + 1];
    struct wp_remote remote;
    struct wp_remote again;
    const char *why = NULL;

    if (!wp_remote_parse(url, &remote, &why)) {
        check(why != NULL);
        return;
    }
    check_rules(rules, &remote);
    if (!wp_remote_url(&remote, spelling)) {
        return;
    }
    check(strpbrk(spelling, "@\\ \n!%?#\"'") == NULL);
    check(strstr(spelling, "/../") == NULL);
    check(wp_remote_parse(wp_str_from(spelling), &again, &why));
    check(memcmp(&again, &remote, sizeof again) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *end = size > 0 ? memchr(data, '\n', size) : NULL;
    struct wp_str rules = {text, end != NULL ? (size_t)(end - text) : 0};
    char word[512];
    struct wp_remote_word parts;
    const char *why = NULL;
    size_t len = size - (end != NULL ? rules.len + 1 : 0);

    if (size == 0 || len >= sizeof word) {
        return 0;
    }
    memcpy(word, text + size - len, len);
    word[len] = '\0';
    if (!wp_remote_word_parse(word, &parts, &why)) {
        check(why != NULL);
        return 0;
    }
    check(parts.url.len + parts.ref.len + parts.dir.len <= strlen(word));
    check_url(parts.url, rules);
    if (wp_git_ref_is_valid(parts.ref)) {
        check(parts.ref.ptr[0] != '-' &&
              memchr(parts.ref.ptr, ':', parts.ref.len) == NULL &&
              memchr(parts.ref.ptr, '"', parts.ref.len) == NULL &&
              memchr(parts.ref.ptr, '\n', parts.ref.len) == NULL);
    }
    return 0;
}
