/* Which path is whose, which Origin may talk, which settings are good. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/formats/sandbox_token.h"
#include "runtime/mcp/skills.h"
#include "runtime/runtime.h"
#include "runtime/sandboxd/rest.h"
#include "runtime/server/bind.h"
#include "runtime/server/exec_stream.h"
#include "runtime/server/identity.h"
#include "tests/support/runtime/fake_http.h"

enum {
    MCP = WP_ROLE_MCP,
    REST = WP_ROLE_REST,
    BOTH = MCP | REST,
};

static void
gives_each_path_its_handler(void **state)
{
    static const struct {
        const char *method;
        const char *path;
        unsigned roles;
        const struct wp_http_ops *ops;
    } cases[] = {
        {"GET", "/", BOTH, &wp_rest_status_ops},
        {"HEAD", "/", BOTH, &wp_rest_status_ops},
        {"POST", "/", BOTH, &wp_mcp_ops},
        {"GET", "/", MCP, &wp_mcp_ops},
        {"POST", "/mcp", BOTH, &wp_mcp_ops},
        {"DELETE", "/mcp", BOTH, &wp_mcp_ops},
        {"POST", "/mcp", REST, NULL},
        {"GET", "/healthz", MCP, &wp_rest_health_ops},
        {"GET", "/healthz", REST, &wp_rest_health_ops},
        {"POST", "/v1/exec", MCP, &wp_exec_session_ops},
        {"POST", "/v1/exec", REST, &wp_exec_session_ops},
        {"POST", "/execute", BOTH, &wp_rest_execute_ops},
        {"GET", "/execute", BOTH, &wp_mcp_ops},
        {"GET", "/execute", REST, NULL},
        {"POST", "/execute/x", BOTH, &wp_mcp_ops},
        {"POST", "/upload", REST, &wp_rest_upload_ops},
        {"GET", "/list", BOTH, &wp_rest_list_ops},
        {"GET", "/list/", BOTH, &wp_rest_list_ops},
        {"GET", "/list/a/b", BOTH, &wp_rest_list_ops},
        {"GET", "/listing", BOTH, &wp_mcp_ops},
        {"GET", "/download/x", REST, &wp_rest_download_ops},
        {"GET", "/exists/x", REST, &wp_rest_exists_ops},
        {"GET", "", BOTH, &wp_mcp_ops},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_ptr_equal(
            wp_runtime_find(cases[i].method, cases[i].path, cases[i].roles),
            cases[i].ops);
    }
}

static const char *
name_of(const struct wp_http_ops *ops)
{
    static const struct {
        const struct wp_http_ops *ops;
        const char *name;
    } names[] = {
        {&wp_rest_health_ops, "health"},
        {&wp_exec_session_ops, "exec"},
        {&wp_bind_ops, "bind"},
        {&wp_identity_ops, "identity"},
        {&wp_rest_status_ops, "status"},
        {&wp_rest_execute_ops, "execute"},
        {&wp_rest_upload_ops, "upload"},
        {&wp_rest_download_ops, "download"},
        {&wp_rest_list_ops, "list"},
        {&wp_rest_exists_ops, "exists"},
        {&wp_sandboxd_get_ops, "get"},
        {&wp_sandboxd_put_ops, "put"},
        {&wp_sandboxd_delete_ops, "delete"},
        {&wp_sandboxd_health_ops, "sandboxd's health"},
        {&wp_sandboxd_metadata_ops, "metadata"},
        {&wp_mcp_ops, "mcp"},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        if (names[i].ops == ops) {
            return names[i].name;
        }
    }
    return ops == NULL ? "none" : "?";
}

/* Who serves it, or the answer of whom nobody serves. */
static void
asks(struct wp_runtime *runtime, struct wp_http_req req)
{
    const struct wp_http_ops *ops;

    req.app = runtime;
    req.name = "-";
    journal("%s %s of %u:", req.method, req.path, req.roles);
    journal_line();
    ops = wp_runtime_route(&req);
    if (ops != NULL || !req.replied) {
        journal("  %s", name_of(ops));
        journal_line();
    }
}

static void
answers_what_nobody_serves(void **state)
{
    static const char *const paths[] = {
        "/",           "/healthz",     "/healthz/",    "/v1/exec",
        "/v1/bind",    "/v1/identity", "/execute",     "/execute/x",
        "/upload",     "/download",    "/download/a",  "/downloads",
        "/list",       "/list/a/b",    "/exists/a",    "/v1/files",
        "/v1/files/a", "/v1/health",   "/v1/metadata", "/v1",
        "/mcp",        "/nothing",
    };
    static const char *const methods[] = {"GET", "HEAD", "POST", "DELETE"};
    struct wp_runtime runtime = {.options.token_digest = NULL};

    (void)state;
    for (size_t p = 0; p < WP_ARRAY_LEN(paths); p++) {
        for (size_t m = 0; m < WP_ARRAY_LEN(methods); m++) {
            /* With MCP every method is somebody's: two of them will do. */
            for (unsigned roles = 0; roles <= BOTH; roles++) {
                if (roles != REST && m % 2 != 0) {
                    continue;
                }
                asks(&runtime, (struct wp_http_req){.method = methods[m],
                                                    .path = paths[p],
                                                    .roles = roles});
            }
        }
    }
    journal_compare(WP_TEST_GOLDEN "/routes_answers.txt");
}

/* First where it comes from, then the token, then who serves it. */
static void
asks_who_may_in_order(void **state)
{
    /* The SHA-256 of "sesame". */
    struct wp_runtime runtime = {
        .options.token_digest =
            "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272"};
    static const char *const origins[] = {NULL, "http://localhost:1",
                                          "http://a.example"};
    static const char *const tokens[] = {NULL, "sesame", "Sesame"};

    (void)state;
    for (size_t o = 0; o < WP_ARRAY_LEN(origins); o++) {
        for (size_t t = 0; t < WP_ARRAY_LEN(tokens); t++) {
            struct wp_http_req req = {
                .method = "POST", .path = "/v1/exec", .roles = REST};
            size_t n = 0;

            if (origins[o] != NULL) {
                req.headers[n++] = "Origin";
                req.headers[n++] = origins[o];
            }
            if (tokens[t] != NULL) {
                req.headers[n++] = WP_SANDBOX_TOKEN_FIELD;
                req.headers[n++] = tokens[t];
            }
            journal(
                "from %s, token %s: ", origins[o] != NULL ? origins[o] : "-",
                tokens[t] != NULL ? tokens[t] : "-");
            asks(&runtime, req);
        }
    }
    journal_compare(WP_TEST_GOLDEN "/routes_order.txt");
}

static void
judges_origins(void **state)
{
    const struct wp_options options = {.origins = {"https://a.example"},
                                       .origins_count = 1};
    const struct wp_options any = {.origins = {"*"}, .origins_count = 1};
    static const char *const good[] = {
        "http://localhost", "https://LOCALHOST:8443", "http://127.0.0.1:1",
        "http://[::1]:80", "https://a.example"};
    static const char *const bad[] = {"",
                                      "null",
                                      "localhost",
                                      "http://localhost.evil",
                                      "http://localhost:",
                                      "http://localhost:80.evil",
                                      "http://127.0.0.1.evil",
                                      "http://a.example",
                                      "https://a.example.evil"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(good); i++) {
        assert_true(wp_runtime_origin_allowed(&options, good[i]));
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        if (i != 4) { /* An empty port is a port left out. */
            assert_false(wp_runtime_origin_allowed(&options, bad[i]));
        }
        assert_true(wp_runtime_origin_allowed(&any, bad[i]));
    }
}

static void
asks_for_the_token(void **state)
{
    /* The SHA-256 of "sesame". */
    struct wp_options options = {
        .token_digest =
            "d0c04f4b1951e4aeaaec8223ed2039e542f3aae805a6fa7f6d794e5afff5d272"};
    static const char *const tools[] = {"/", "/execute", "/mcp", "/v1/execute",
                                        "/download/v1/exec"};

    (void)state;
    assert_false(wp_runtime_token_fits(&options, "/v1/exec", NULL));
    assert_false(wp_runtime_token_fits(&options, "/v1/exec", ""));
    assert_false(wp_runtime_token_fits(&options, "/v1/exec", "Sesame"));
    assert_false(
        wp_runtime_token_fits(&options, "/v1/exec", options.token_digest));
    assert_true(wp_runtime_token_fits(&options, "/v1/exec", "sesame"));
    for (unsigned all = 0; all < 2; all++) {
        options.token_for = all ? WP_TOKEN_FOR_ALL : WP_TOKEN_FOR_CONTROL;
        for (size_t i = 0; i < WP_ARRAY_LEN(tools); i++) {
            assert_int_equal(wp_runtime_token_fits(&options, tools[i], NULL),
                             all == 0);
            assert_true(wp_runtime_token_fits(&options, tools[i], "sesame"));
        }
        assert_true(wp_runtime_token_fits(&options, "/healthz", NULL));
        assert_true(wp_runtime_token_fits(&options, "/v1/health", NULL));
        assert_false(wp_runtime_token_fits(&options, "/v1/bind", NULL));
        assert_false(wp_runtime_token_fits(&options, "/v1/identity", NULL));
    }
    options.token_digest = NULL;
    assert_true(wp_runtime_token_fits(&options, "/v1/exec", NULL));
}

static enum wp_options_outcome
parse(const char *a, const char *b, struct wp_options *out)
{
    char name[] = "warmpool-runtime";
    char first[64];
    char second[64];
    char *argv[] = {name, first, second, NULL};
    int argc = 1 + (a != NULL) + (b != NULL);
    struct wp_err err;

    assert_true(wp_str_copy(wp_str_from(a != NULL ? a : ""), first, 64));
    assert_true(wp_str_copy(wp_str_from(b != NULL ? b : ""), second, 64));
    return wp_options_parse(argc, argv, out, &err);
}

static void
reads_settings(void **state)
{
    struct wp_options options;

    (void)state;
    unsetenv("PORT");
    assert_int_equal(parse(NULL, NULL, &options), WP_OPTIONS_RUN);
    assert_int_equal(options.port, 8080);
    assert_int_equal(options.mcp_port, WP_OPTIONS_PORT_NONE);
    assert_string_equal(options.skills_dir, "/skills");
    assert_int_equal(options.execs_max, 32);
    setenv("PORT", "9000", 1);
    setenv("SKILLS_DIR", "/s", 1);
    assert_int_equal(parse(NULL, NULL, &options), WP_OPTIONS_RUN);
    assert_int_equal(options.port, 9000);
    assert_string_equal(options.skills_dir, "/s");
    assert_int_equal(parse("--port", "0", &options), WP_OPTIONS_RUN);
    assert_int_equal(options.port, 0);
    assert_int_equal(parse("--port=7", NULL, &options), WP_OPTIONS_RUN);
    assert_int_equal(options.port, 7);
    setenv("PORT", "http", 1);
    assert_int_equal(parse(NULL, NULL, &options), WP_OPTIONS_INVALID);
    unsetenv("PORT");
    assert_int_equal(parse("--mcp-port=0", "--rest-port=0", &options),
                     WP_OPTIONS_RUN);
    assert_int_equal(options.port, WP_OPTIONS_PORT_NONE);
    assert_int_equal(parse("--confine", "--log-level=debug", &options),
                     WP_OPTIONS_RUN);
    assert_true(options.confine);
    assert_int_equal(options.log_level, WP_LOG_DEBUG);
    assert_int_equal(parse("--port", NULL, &options), WP_OPTIONS_INVALID);
    assert_int_equal(parse("--ports", "1", &options), WP_OPTIONS_INVALID);
    assert_int_equal(parse("--execs-max", "-1", &options), WP_OPTIONS_INVALID);
    assert_int_equal(parse("stray", NULL, &options), WP_OPTIONS_INVALID);
}

static void
packs_and_unpacks_frames(void **state)
{
    const struct wp_exec_frame frame = {WP_EXEC_STDERR, 0x0000ABCD};
    const uint8_t want[WP_EXEC_HEAD_LEN] = {17, 0, 0, 0, 0, 0, 0xAB, 0xCD};
    uint8_t head[WP_EXEC_HEAD_LEN];
    struct wp_exec_frame back;

    (void)state;
    wp_exec_frame_pack(frame, head);
    assert_memory_equal(head, want, sizeof(want));
    assert_true(wp_exec_frame_unpack(head, &back));
    assert_int_equal(back.type, frame.type);
    assert_int_equal(back.len, frame.len);
    head[2] = 1;
    assert_false(wp_exec_frame_unpack(head, &back));
    wp_exec_frame_pack((struct wp_exec_frame){0, WP_EXEC_PAYLOAD_MAX}, head);
    assert_true(wp_exec_frame_unpack(head, &back));
    wp_exec_frame_pack((struct wp_exec_frame){0, WP_EXEC_PAYLOAD_MAX + 1},
                       head);
    assert_false(wp_exec_frame_unpack(head, &back));
}

static void
reads_front_matter(void **state)
{
    static const struct {
        const char *text;
        const char *name;
        const char *description;
    } cases[] = {
        {"---\nname: a\ndescription: b: c\n---\nname: no\n", "a", "b: c"},
        {"intro\n---\r\n  name : \"a\" \r\n---", "a", ""},
        {"---\nname: 'a'\nother\n", "a", ""},
        {"name: a\n", "", ""},
        {"", "", ""},
        {"---\n---\nname: a\n", "", ""},
    };
    struct wp_skill_head head;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        wp_skill_head_parse(wp_str_from(cases[i].text), &head);
        assert_true(wp_str_is(head.name, cases[i].name));
        assert_true(wp_str_is(head.description, cases[i].description));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_each_path_its_handler),
        cmocka_unit_test(answers_what_nobody_serves),
        cmocka_unit_test(asks_who_may_in_order),
        cmocka_unit_test(judges_origins),
        cmocka_unit_test(asks_for_the_token),
        cmocka_unit_test(reads_settings),
        cmocka_unit_test(packs_and_unpacks_frames),
        cmocka_unit_test(reads_front_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
