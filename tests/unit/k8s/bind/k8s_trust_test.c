/* Trust on first use in a cluster: what is asked of the API server, what it
 * keeps, and what becomes of a checkout that is not as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "k8s/bind/trust.h"
#include "k8s/objects/json.h"
#include "proto/checkout/tree_image.h"
#include "tests/support/base/heard.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/k8s/k8s_text.h"

#define URL "https://h/r"
/* SHA-256 of "abc". */
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define RECORD_OF(tenant, url, files)                                          \
    "warmpool-trust 1\ntenant " tenant "\nurl " url "\n" files
#define FIRST RECORD_OF("a", URL, ABC " CLAUDE.md\n")

static struct wp_api *api;
static struct wp_trust_judge judge;
static struct wp_bind_tree tree;
static struct wp_trust_case *judged;
static struct {
    uint32_t times;
    enum wp_status status;
    char reason[300];
} said;

static void
add(const char *path, const char *content)
{
    const struct wp_tree_entry entry = {
        .kind = WP_TREE_FILE,
        .mode = 0644,
        .path_len = (uint32_t)strlen(path),
        .content_len = (uint32_t)strlen(content),
    };
    uint8_t head[WP_TREE_HEAD];

    wp_tree_put_head(&entry, head);
    assert_int_equal(write(tree.fd, head, sizeof head), sizeof head);
    assert_int_equal(write(tree.fd, path, entry.path_len), entry.path_len);
    assert_int_equal(write(tree.fd, content, entry.content_len),
                     entry.content_len);
}

/* A checkout with this in its CLAUDE.md. */
static void
set_up(enum wp_trust_mode mode, const char *files, const char *content)
{
    struct wp_err err;

    api = wp_recorder_create();
    memset(&judge, 0, sizeof judge);
    assert_int_equal(
        wp_trust_judge_init(&judge, mode, files, api, "system", &err), WP_OK);
    tree = (struct wp_bind_tree){
        .fd = memfd_create("image", 0), .url = URL, .dir = ""};
    add("CLAUDE.md", content);
}

static void
tear_down(void)
{
    wp_api_destroy(api);
    (void)close(tree.fd);
}

static void
on_done(void *ctx, enum wp_status status, const char *reason)
{
    assert_ptr_equal(ctx, &said);
    said.times++;
    said.status = status;
    (void)snprintf(said.reason, sizeof said.reason, "%s", reason);
    judged = NULL;
}

static void
begin(const char *tenant)
{
    memset(&said, 0, sizeof said);
    judged = wp_trust_judge_begin(&judge, tenant, &tree, on_done, &said);
    assert_non_null(judged);
    assert_int_equal(said.times, 0);
}

/* What it asks for now. */
static struct wp_recorded *
asked(enum wp_verb verb)
{
    struct wp_recorded *call =
        wp_recorder_open(api, WP_VERB_ANY, WP_KIND_CONFIG_MAP);

    assert_non_null(call);
    assert_int_equal(call->verb, verb);
    assert_int_equal(call->priority, WP_HTTP_CLAIM);
    assert_string_equal(call->ns, "system");
    return call;
}

static void
answer_text(enum wp_verb verb, const char *text)
{
    json_t *object = wp_test_json(text);

    wp_recorder_answer(asked(verb), WP_OK, object);
    json_decref(object);
}

static void
answer_record(const char *record)
{
    json_t *map = json_pack("{s:{s:s}, s:{s:s}}", "metadata", "resourceVersion",
                            "7", "data", "record", record);

    wp_recorder_answer(asked(WP_VERB_GET), WP_OK, map);
    json_decref(map);
}

static void
assert_said(enum wp_status status, const char *reason)
{
    assert_int_equal(said.times, 1);
    assert_int_equal(said.status, status);
    assert_string_equal(said.reason, reason);
    assert_null(wp_recorder_open(api, WP_VERB_ANY, WP_KIND_COUNT));
}

static void
the_first_time_it_is_kept(void **state)
{
    struct wp_recorded *call;
    char selector[64];
    char name[256];

    (void)state;
    set_up(WP_TRUST_ENFORCE, "CLAUDE.md", "abc");
    begin("a");
    call = asked(WP_VERB_GET);
    (void)snprintf(name, sizeof name, "%s", call->name);
    assert_memory_equal(name, "warmpool-trust-", 15);
    assert_int_equal(strlen(name), 15 + WP_TRUST_NAME_LEN);
    wp_recorder_answer(call, WP_NOT_FOUND, NULL);
    call = asked(WP_VERB_LIST);
    (void)snprintf(selector, sizeof selector, "warmpool.dev/trust-tenant=%.*s",
                   WP_TRUST_NAME_TENANT, name + 15);
    assert_string_equal(call->label_selector, selector);
    assert_int_equal(call->limit, WP_TRUST_TENANT_RECORDS_MAX);
    answer_text(WP_VERB_LIST, "{'items': []}");
    call = asked(WP_VERB_POST);
    assert_string_equal(call->name, name);
    assert_string_equal(wp_recorded_text(call, "metadata", "name", NULL), name);
    assert_string_equal(wp_recorded_text(call, "metadata", "labels",
                                         "warmpool.dev/trust-tenant", NULL),
                        strchr(selector, '=') + 1);
    (void)json_object_del(json_object_get(call->body, "metadata"), "name");
    (void)json_object_del(wp_json_at(call->body, "metadata", "labels", NULL),
                          "warmpool.dev/trust-tenant");
    wp_test_json_equal(
        json_deep_copy(call->body),
        "{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'namespace': "
        "'system', 'labels': {'app.kubernetes.io/part-of': 'warmpool', "
        "'warmpool.dev/trust': 'record'}}, 'data': {'record': "
        "'warmpool-trust 1\\ntenant a\\nurl " URL "\\n" ABC " CLAUDE.md\\n'}}");
    assert_int_equal(said.times, 0);
    wp_recorder_answer(call, WP_OK, NULL);
    assert_said(WP_OK, "");
    /* The same is trusted, and nothing is written. */
    begin("a");
    answer_record(FIRST);
    assert_said(WP_OK, "");
    tear_down();
}

/* The record learns of a file that it did not know. */
static void
a_record_grows(void **state)
{
    (void)state;
    set_up(WP_TRUST_ENFORCE, "CLAUDE.md, b", "abc");
    begin("a");
    answer_record(FIRST);
    wp_test_json_equal(json_incref(asked(WP_VERB_PATCH)->body),
                       "{'metadata': {'resourceVersion': '7'}, 'data': "
                       "{'record': 'warmpool-trust 1\\ntenant a\\nurl " URL
                       "\\n" ABC " CLAUDE.md\\n- b\\n'}}");
    /* Another one wrote it meanwhile: it is read again, and has all. */
    wp_recorder_answer(asked(WP_VERB_PATCH), WP_ABORTED, NULL);
    answer_record(RECORD_OF("a", URL, ABC " CLAUDE.md\n- b\n"));
    assert_said(WP_OK, "");
    /* Gone meanwhile: made anew, of what is there now. */
    begin("a");
    answer_record(RECORD_OF("a", URL, ABC " CLAUDE.md\n- c\n"));
    wp_recorder_answer(asked(WP_VERB_PATCH), WP_ABORTED, NULL);
    wp_recorder_answer(asked(WP_VERB_GET), WP_NOT_FOUND, NULL);
    answer_text(WP_VERB_LIST, "{'items': []}");
    assert_string_equal(
        wp_recorded_text(asked(WP_VERB_POST), "data", "record", NULL),
        RECORD_OF("a", URL, ABC " CLAUDE.md\n- b\n"));
    wp_recorder_answer(asked(WP_VERB_POST), WP_OK, NULL);
    assert_said(WP_OK, "");
    tear_down();
}

static void
others_always_write_it(void **state)
{
    (void)state;
    set_up(WP_TRUST_ENFORCE, "CLAUDE.md", "abc");
    begin("a");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(said.times, 0);
        wp_recorder_answer(asked(WP_VERB_GET), WP_NOT_FOUND, NULL);
        answer_text(WP_VERB_LIST, "{'items': []}");
        wp_recorder_answer(asked(WP_VERB_POST), WP_ALREADY_EXISTS, NULL);
    }
    assert_said(WP_FAILED_PRECONDITION,
                "its record cannot be written: already exists");
    tear_down();
}

/* Which answer it stumbles over. */
static const struct {
    const char *record; /* NULL: there is none. */
    enum wp_status read;
    enum wp_status listed;
    enum wp_status written;
    const char *reason;
} stumbles[] = {
    {FIRST, WP_UNAVAILABLE, 0, 0, "its record cannot be read: unavailable"},
    {RECORD_OF("b", URL, ABC " CLAUDE.md\n"), 0, 0, 0, "its record is damaged"},
    {RECORD_OF("a", URL "s", ABC " CLAUDE.md\n"), 0, 0, 0,
     "its record is damaged"},
    {"", 0, 0, 0, "its record is damaged"},
    {NULL, 0, WP_PERMISSION_DENIED, 0,
     "its tenant's records cannot be read: permission denied"},
    {NULL, 0, 0, WP_PERMISSION_DENIED,
     "its record cannot be written: permission denied"},
    {RECORD_OF("a", URL, "- b\n"), 0, 0, WP_INVALID_ARGUMENT,
     "its record cannot be written: invalid argument"},
    {RECORD_OF("a", URL, "- CLAUDE.md\n"), 0, 0, 0,
     "not as first trusted: CLAUDE.md NEW"},
};

static void
stumble(size_t i)
{
    begin("a");
    if (stumbles[i].read != WP_OK || stumbles[i].record == NULL) {
        wp_recorder_answer(
            asked(WP_VERB_GET),
            stumbles[i].record == NULL ? WP_NOT_FOUND : stumbles[i].read, NULL);
    } else {
        answer_record(stumbles[i].record);
    }
    if (stumbles[i].listed != WP_OK) {
        wp_recorder_answer(asked(WP_VERB_LIST), stumbles[i].listed, NULL);
    } else if (stumbles[i].record == NULL) {
        answer_text(WP_VERB_LIST, "{'items': []}");
    }
    if (stumbles[i].written != WP_OK) {
        wp_recorder_answer(
            asked(stumbles[i].record == NULL ? WP_VERB_POST : WP_VERB_PATCH),
            stumbles[i].written, NULL);
    }
}

static void
what_cannot_be_told_is_a_difference(void **state)
{
    static struct heard heard;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(stumbles); i++) {
        for (int enforce = 0; enforce < 2; enforce++) {
            char line[600];
            const char *logged;

            set_up(enforce ? WP_TRUST_ENFORCE : WP_TRUST_REPORT, "CLAUDE.md",
                   "abc");
            heard_begin(&heard);
            stumble(i);
            logged = heard_end(&heard);
            assert_said(enforce ? WP_FAILED_PRECONDITION : WP_OK,
                        stumbles[i].reason);
            (void)snprintf(line, sizeof line,
                           "WARN instruction files of a repository are not "
                           "trusted tenant=a repository=" URL
                           " record=%s error=\"%s\" sandbox=\"%s\"\n",
                           wp_recorder_call(api, 0)->name, stumbles[i].reason,
                           enforce ? "does not get it"
                                   : "gets it all the same");
            assert_string_equal(logged, line);
            tear_down();
        }
    }
}

static void
a_record_that_is_no_text(void **state)
{
    static const char *const maps[] = {
        "{'metadata': {'resourceVersion': '7'}}",
        "{'metadata': {'resourceVersion': '7'}, 'data': {'record': 5}}",
        "[]",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(maps); i++) {
        set_up(WP_TRUST_ENFORCE, "CLAUDE.md", "abc");
        begin("a");
        answer_text(WP_VERB_GET, maps[i]);
        assert_said(WP_FAILED_PRECONDITION, "its record is damaged");
        tear_down();
    }
    /* A path of the setting that is not UTF-8. */
    set_up(WP_TRUST_ENFORCE, "CLAUDE\xff.md", "abc");
    begin("a");
    wp_recorder_answer(asked(WP_VERB_GET), WP_NOT_FOUND, NULL);
    answer_text(WP_VERB_LIST, "{'items': []}");
    assert_said(WP_FAILED_PRECONDITION, "its record is no text");
    tear_down();
}

static void
a_tenant_has_so_many_records(void **state)
{
    (void)state;
    for (int many = 0; many < 2; many++) {
        json_t *items = json_array();
        json_t *list = json_pack("{s:o}", "items", items);

        for (int i = 0; i < WP_TRUST_TENANT_RECORDS_MAX - 1 + many; i++) {
            (void)json_array_append_new(items, json_object());
        }
        set_up(WP_TRUST_ENFORCE, "CLAUDE.md", "abc");
        begin("a");
        wp_recorder_answer(asked(WP_VERB_GET), WP_NOT_FOUND, NULL);
        wp_recorder_answer(asked(WP_VERB_LIST), WP_OK, list);
        if (many) {
            assert_said(WP_FAILED_PRECONDITION,
                        "its tenant has as many records as there may be");
        } else {
            wp_recorder_answer(asked(WP_VERB_POST), WP_OK, NULL);
            assert_said(WP_OK, "");
        }
        tear_down();
        json_decref(list);
    }
}

/* The file that was fetched is cut short. */
static void
an_image_that_cannot_be_looked_at(void **state)
{
    (void)state;
    set_up(WP_TRUST_ENFORCE, "CLAUDE.md", "abc");
    assert_int_equal(ftruncate(tree.fd, WP_TREE_HEAD + 3), 0);
    begin("a");
    answer_record(FIRST);
    assert_said(WP_FAILED_PRECONDITION,
                "its instruction files cannot be looked at");
    begin("a");
    wp_recorder_answer(asked(WP_VERB_GET), WP_CANCELLED, NULL);
    assert_said(WP_CANCELLED, "");
    tear_down();
}

/* Of a folder of the workspace: its files have other names. */
static void
a_folder_of_the_workspace(void **state)
{
    (void)state;
    set_up(WP_TRUST_ENFORCE, "docs/CLAUDE.md", "abc");
    tree.dir = "docs";
    begin("a");
    answer_record(RECORD_OF("a", URL, "- docs/CLAUDE.md\n- CLAUDE.md\n"));
    assert_said(WP_FAILED_PRECONDITION, "not as first trusted: CLAUDE.md NEW");
    tear_down();
}

/* With each call under way: nobody waits any more, or the client goes. */
static void
it_ends_in_the_middle(void **state)
{
    (void)state;
    for (int goes = 0; goes < 2; goes++) {
        for (int answers = 0; answers < 3; answers++) {
            set_up(WP_TRUST_ENFORCE, "CLAUDE.md", "abc");
            begin("a");
            if (answers > 0) {
                wp_recorder_answer(asked(WP_VERB_GET), WP_NOT_FOUND, NULL);
            }
            if (answers > 1) {
                answer_text(WP_VERB_LIST, "{'items': []}");
            }
            if (!goes) {
                wp_trust_judge_cancel(judged);
                /* Whatever the answer is. */
                wp_recorder_answer(
                    wp_recorder_open(api, WP_VERB_ANY, WP_KIND_COUNT), WP_OK,
                    NULL);
            }
            tear_down();
            assert_int_equal(said.times, goes);
            assert_true(!goes || (said.status == WP_CANCELLED &&
                                  said.reason[0] == '\0'));
        }
    }
    wp_trust_judge_cancel(NULL);
}

static void
when_it_is_off_nothing_is_judged(void **state)
{
    struct wp_err err;

    (void)state;
    memset(&judge, 0, sizeof judge);
    assert_int_equal(
        wp_trust_judge_init(&judge, WP_TRUST_OFF, "/bad/", NULL, "", &err),
        WP_OK);
    assert_false(wp_trust_judge_asks(&judge));
    assert_int_equal(
        wp_trust_judge_init(&judge, WP_TRUST_REPORT, "/bad/", NULL, "", &err),
        WP_INVALID_ARGUMENT);
    assert_true(wp_trust_judge_asks(&judge));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_time_it_is_kept),
        cmocka_unit_test(a_record_grows),
        cmocka_unit_test(others_always_write_it),
        cmocka_unit_test(what_cannot_be_told_is_a_difference),
        cmocka_unit_test(a_record_that_is_no_text),
        cmocka_unit_test(a_tenant_has_so_many_records),
        cmocka_unit_test(an_image_that_cannot_be_looked_at),
        cmocka_unit_test(a_folder_of_the_workspace),
        cmocka_unit_test(it_ends_in_the_middle),
        cmocka_unit_test(when_it_is_off_nothing_is_judged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
