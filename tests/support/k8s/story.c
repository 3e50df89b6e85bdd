#include "tests/support/k8s/story.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/base/golden.h"

static const char *const verbs[] = {
    [WP_VERB_GET] = "GET",      [WP_VERB_LIST] = "LIST",
    [WP_VERB_CHECK] = "CHECK",  [WP_VERB_POST] = "POST",
    [WP_VERB_PUT] = "PUT",      [WP_VERB_PATCH] = "PATCH",
    [WP_VERB_DELETE] = "DELETE"};
static const char *const priorities[WP_HTTP_PRIORITIES] = {
    [WP_HTTP_CLAIM] = "claim",   [WP_HTTP_NORMAL] = "normal",
    [WP_HTTP_REFILL] = "refill", [WP_HTTP_SPARE] = "spare",
    [WP_HTTP_EVENT] = "event",
};

/* NULL is fine. */
static void
shorten(char *text, const char *from, const char *to)
{
    char *at = text;

    while (at != NULL && (at = strstr(at, from)) != NULL) {
        memcpy(at, to, strlen(to));
        at += strlen(to);
        memmove(at, at + strlen(from) - strlen(to),
                strlen(at + strlen(from) - strlen(to)) + 1);
    }
}

void
wp_story_json(FILE *story, const char *name, const json_t *json)
{
    char *text =
        json != NULL
            ? json_dumps(json, JSON_SORT_KEYS | JSON_COMPACT | JSON_ENCODE_ANY)
            : NULL;

    shorten(text, "00000000-0000-4000-8000-00000000", "#");
    (void)fprintf(story, "%s %s\n", name, text != NULL ? text : "none");
    free(text);
}

/* The last call like the i-th said the same. */
static bool
is_repeated(const struct wp_api *api, uint32_t i)
{
    const struct wp_recorded *call = wp_recorder_call(api, i);

    while (i-- > 0) {
        const struct wp_recorded *other = wp_recorder_call(api, i);

        if (other->verb == call->verb && other->kind == call->kind &&
            strcmp(other->name, call->name) == 0 &&
            strcmp(other->subresource, call->subresource) == 0) {
            return json_equal(other->body, call->body) == 1;
        }
    }
    return false;
}

uint32_t
wp_story_calls(FILE *story, const struct wp_api *api, uint32_t from)
{
    for (; from < wp_recorder_calls(api); from++) {
        const struct wp_recorded *call = wp_recorder_call(api, from);

        (void)fprintf(story, "%s %s%s%s %s/%s %s%s%s%s%s%s%s%s",
                      verbs[call->verb], wp_kind_info(call->kind)->kind,
                      call->subresource[0] != '\0' ? "/" : "",
                      call->subresource, call->ns, call->name,
                      priorities[call->priority], call->strict ? " strict" : "",
                      call->foreground ? " foreground" : "",
                      call->uid[0] != '\0' ? " uid " : "", call->uid,
                      call->resource_version[0] != '\0' ? " version " : "",
                      call->resource_version, call->label_selector);
        if (call->body == NULL) {
            (void)fputc('\n', story);
        } else if (is_repeated(api, from)) {
            (void)fputs(" again\n", story);
        } else {
            wp_story_json(story, "", call->body);
        }
    }
    return from;
}

void
wp_story_tell(FILE **story, const struct wp_story_life *lives, size_t n,
              const char *path)
{
    char *text = NULL;
    size_t len;

    *story = open_memstream(&text, &len);
    assert_non_null(*story);
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(*story, "=== %s\n", lives[i].name);
        lives[i].run();
    }
    assert_int_equal(fclose(*story), 0);
    golden_compare(text, path);
    free(text);
}
