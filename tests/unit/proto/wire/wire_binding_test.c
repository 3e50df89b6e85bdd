/* What a claim brings, on the wire: it comes back as it was, and each field that
 * breaks the contract is refused by its name, without its value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "tests/support/services/wire_rig.h"

/* WP_STR for what is initialized before main. */
#define T(literal)                                                             \
    {                                                                          \
        (literal), sizeof(literal) - 1                                         \
    }

#define SECRET "s3cr3t"

static const struct wp_binding_env some_env[] = {
    {T("A"), T("1")},
    {T("_b2"), T("")},
    {T("LINES"), T("one\ntwo\t\xC3\xA4")},
};
static const struct wp_binding_secret some_secrets[] = {
    {T("tls.key"), {"\0\xff\n", 3}, false},
    {T("TOKEN"), T(SECRET), true},
};
static const struct wp_binding_file some_files[] = {
    {T("a"), T("x"), 0644},
    {T("dir/.hidden/b c"), {"\0", 1}, 0755},
    {T("..a/b.."), T(""), 0001},
};
static const struct wp_str some_words[] = {T("sh"), T("-c"), T("")};

static const struct wp_binding_repository some_repositories[] = {
    {T("https://example.org/a"), T("v1"), T("a/b"), T("p: \"w"), T("me")},
    {T("http://127.0.0.1:81/b.git"), T(""), T(""), T("pw"), T("")},
};

static const struct wp_binding_volume some_volumes[] = {
    {T("data"), T("")},
    {T("Cache_2.x"), T("a/cache")},
};

static const struct wp_binding some_binding = {
    .env = some_env,
    .n_env = 3,
    .secrets = some_secrets,
    .n_secrets = 2,
    .files = some_files,
    .n_files = 3,
    .working_dir = T("dir"),
    .command = some_words,
    .n_command = 3,
    .repositories = some_repositories,
    .n_repositories = 2,
    .volumes = some_volumes,
    .n_volumes = 2,
    .egress = T("packages *.a.test"),
    .audience = T("https://api.test"),
    .identity_ttl_ms = 60000,
};

static void
test_round_trip(void **state)
{
    struct wp_binding out;

    (void)state;
    WIRE_PACK(binding, &some_binding);
    WIRE_UNPACK(binding, &out);
    assert_int_equal(out.n_env, 3);
    assert_int_equal(out.n_secrets, 2);
    assert_int_equal(out.n_files, 3);
    assert_int_equal(out.n_command, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(wp_str_eq(out.env[i].name, some_env[i].name));
        assert_true(wp_str_eq(out.env[i].value, some_env[i].value));
        assert_true(wp_str_eq(out.files[i].path, some_files[i].path));
        assert_true(wp_str_eq(out.files[i].content, some_files[i].content));
        assert_int_equal(out.files[i].mode, some_files[i].mode);
        assert_true(wp_str_eq(out.command[i], some_words[i]));
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(wp_str_eq(out.secrets[i].name, some_secrets[i].name));
        assert_true(wp_str_eq(out.secrets[i].value, some_secrets[i].value));
        assert_int_equal(out.secrets[i].in_env, some_secrets[i].in_env);
        assert_true(
            wp_str_eq(out.repositories[i].url, some_repositories[i].url));
        assert_true(
            wp_str_eq(out.repositories[i].ref, some_repositories[i].ref));
        assert_true(
            wp_str_eq(out.repositories[i].dir, some_repositories[i].dir));
        assert_true(wp_str_eq(out.repositories[i].password,
                              some_repositories[i].password));
        assert_true(
            wp_str_eq(out.repositories[i].user, some_repositories[i].user));
        assert_true(wp_str_eq(out.volumes[i].name, some_volumes[i].name));
        assert_true(wp_str_eq(out.volumes[i].dir, some_volumes[i].dir));
    }
    assert_int_equal(out.n_volumes, 2);
    assert_int_equal(out.n_repositories, 2);
    assert_true(wp_str_is(out.working_dir, "dir"));
    assert_true(wp_str_is(out.egress, "packages *.a.test"));
    assert_true(wp_str_is(out.audience, "https://api.test"));
    assert_int_equal(out.identity_ttl_ms, 60000);
}

/* Within a claim, short and long; both point into the request's bytes. */
static void
test_in_a_claim(void **state)
{
    static char content[400000];
    const struct wp_binding_file file = {
        WP_STR("big"), {content, sizeof content}, 0600};
    struct wp_binding big = {.files = &file, .n_files = 1};
    const struct wp_binding *bindings[] = {&some_binding, &big};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(bindings); i++) {
        struct wp_wire_claim_request request = {
            .pool = {WP_STR("team"), WP_STR("agents")},
            .claim_id = WP_STR("id"),
            .tenant = WP_STR("t"),
            .wait_ms = 5,
        };
        struct wp_wire_claim_request out;
        size_t len = wp_wire_size_binding(bindings[i]);
        uint8_t *bytes = malloc(len);

        assert_non_null(bytes);
        assert_int_equal(wp_wire_pack_binding(bindings[i], bytes), len);
        request.binding = (struct wp_str){(const char *)bytes, len};
        WIRE_PACK(claim_request, &request);
        /* As much as a call has. */
        wp_arena_init(&wire_arena, wire_arena_memory, 8192);
        WIRE_UNPACK(claim_request, &out);
        assert_true(wp_str_eq(out.binding, request.binding));
        assert_true(wp_str_is(out.pool.pool_namespace, "team"));
        assert_true(wp_str_is(out.pool.name, "agents"));
        assert_true(wp_str_is(out.claim_id, "id"));
        assert_int_equal(out.claim_id.ptr[out.claim_id.len], '\0');
        assert_true(wp_str_is(out.tenant, "t"));
        assert_int_equal(out.wait_ms, 5);
        free(bytes);
    }
}

static void
test_bound(void **state)
{
    const struct wp_grant grant = {
        .pool_namespace = "d", .pool = "p", .sandbox = "s"};
    const struct wp_wire_claim_response response = {
        .claim_id = WP_STR("id"), .grant = &grant, .binding = &some_binding};
    struct wp_wire_claim_response out;

    (void)state;
    WIRE_PACK(claim_response, &response);
    for (size_t i = 0; i + sizeof SECRET - 1 <= wire_packed_len; i++) {
        assert_memory_not_equal(wire_packed + i, SECRET, sizeof SECRET - 1);
    }
    WIRE_UNPACK(claim_response, &out);
    assert_non_null(out.bound);
    assert_int_equal(out.bound->n_env, 3);
    assert_string_equal(out.bound->env[1], "_b2");
    assert_int_equal(out.bound->n_secrets, 2);
    assert_string_equal(out.bound->secrets[1], "TOKEN");
    assert_int_equal(out.bound->n_files, 3);
    assert_string_equal(out.bound->files[1], "dir/.hidden/b c");
    assert_string_equal(out.bound->working_dir, "dir");
    assert_true(out.bound->started);
    assert_int_equal(out.bound->n_repositories, 2);
    assert_string_equal(out.bound->repositories[0], "https://example.org/a");
    assert_int_equal(out.bound->n_volumes, 2);
    assert_string_equal(out.bound->volumes[1], "Cache_2.x");
    assert_string_equal(out.bound->egress, "packages *.a.test");
    assert_string_equal(out.bound->identity, "https://api.test");
}

/* --- What is refused --- */

static void
expect(const struct wp_binding *binding, const char *says)
{
    size_t len = wp_wire_size_binding(binding);
    uint8_t *bytes = malloc(len + 1);
    struct wp_binding out;

    assert_non_null(bytes);
    (void)wp_wire_pack_binding(binding, bytes);
    wp_arena_init(&wire_arena, wire_arena_memory, WP_WIRE_ARENA_BINDING);
    assert_int_equal(
        wp_wire_unpack_binding(&wire_arena, bytes, len, &out, &wire_err),
        WP_INVALID_ARGUMENT);
    if (strncmp(wire_err.msg, says, strlen(says)) != 0) {
        fail_msg("'%s' expected, got '%s'", says, wire_err.msg);
    }
    free(bytes);
}

static void
test_bad_env(void **state)
{
    static const struct {
        struct wp_str name;
        struct wp_str value;
        const char *says;
    } bad[] = {
        {T(""), T(""), "binding.env[1].name: 1 to 128 letters"},
        {T("1A"), T(""), "binding.env[1].name: 1 to 128 letters"},
        {T("A=B"), T(""), "binding.env[1].name: 1 to 128 letters"},
        {T("A B"), T(""), "binding.env[1].name: 1 to 128 letters"},
        {T("\xC3\xA4"), T(""), "binding.env[1].name: 1 to 128 letters"},
        {{"A\0B", 3}, T(""), "binding.env[1].name: 1 to 128 letters"},
        {T("WARMPOOL_X"), T(""),
         "binding.env[1].name: a name that does not begin with WARMPOOL_"},
        {T("FIRST"), T(""),
         "binding.env[1]: another one has that "
         "name"},
        {T("B"), {"a\0b", 3}, "binding.env[1].value: UTF-8 without NUL"},
        {T("B"), T("\xC0\xAF"), "binding.env[1].value: UTF-8 without NUL"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        const struct wp_binding_env env[] = {{WP_STR("FIRST"), WP_STR("")},
                                             {bad[i].name, bad[i].value}};
        const struct wp_binding binding = {.env = env, .n_env = 2};

        expect(&binding, bad[i].says);
    }
}

static void
test_bad_secrets(void **state)
{
    static const struct {
        struct wp_str name;
        struct wp_str value;
        bool in_env;
        const char *says;
    } bad[] = {
        {T(""), T(""), false, "binding.secrets[1].name: 1 to 128"},
        {T("../x"), T(""), false, "binding.secrets[1].name: 1 to 128"},
        {T(".x"), T(""), false, "binding.secrets[1].name: 1 to 128"},
        {T("-x"), T(""), false, "binding.secrets[1].name: 1 to 128"},
        {T("a/b"), T(""), false, "binding.secrets[1].name: 1 to 128"},
        {{"a\0b", 3}, T(""), false, "binding.secrets[1].name: 1 to 128"},
        {T("a.b"), T(""), true,
         "binding.secrets[1].name: 1 to 128 letters, digits and '_'"},
        {T("FIRST"), T(""), false,
         "binding.secrets[1]: another one has that name"},
        {T("VAR"), T(""), true,
         "binding.secrets[1]: another one has that name"},
        {T("B"),
         {SECRET "\0", sizeof SECRET},
         true,
         "binding.secrets[1].value: UTF-8 without NUL expected"},
    };
    const struct wp_binding_env env = {WP_STR("VAR"), WP_STR("")};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        const struct wp_binding_secret secrets[] = {
            {WP_STR("FIRST"), WP_STR(""), false},
            {bad[i].name, bad[i].value, bad[i].in_env}};
        const struct wp_binding binding = {
            .env = &env, .n_env = 1, .secrets = secrets, .n_secrets = 2};

        expect(&binding, bad[i].says);
        assert_null(strstr(wire_err.msg, SECRET));
    }
}

/* Variables may come after the secrets. A secret that is a file only takes no
 * variable's name. */
static void
test_variables_beside_secrets(void **state)
{
    static const struct {
        struct wp_str secret;
        bool in_env;
        struct wp_str variable;
        bool fits;
    } pairs[] = {
        {T("A"), true, T("B"), true},
        {T("A"), false, T("A"), true},
        {T("A"), false, T("B"), true},
        {T("A"), true, T("A"), false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(pairs); i++) {
        const struct wp_binding_secret secret = {pairs[i].secret, WP_STR("s"),
                                                 pairs[i].in_env};
        const struct wp_binding_env env = {pairs[i].variable, WP_STR("v")};
        const struct wp_binding first = {.secrets = &secret, .n_secrets = 1};
        const struct wp_binding second = {.env = &env, .n_env = 1};
        uint8_t bytes[128];
        size_t len = wp_wire_size_binding(&first);
        struct wp_binding out;
        enum wp_status status;

        assert_true(len + wp_wire_size_binding(&second) <= sizeof bytes);
        (void)wp_wire_pack_binding(&first, bytes);
        len += wp_wire_pack_binding(&second, bytes + len);
        wp_arena_init(&wire_arena, wire_arena_memory, WP_WIRE_ARENA_BINDING);
        status =
            wp_wire_unpack_binding(&wire_arena, bytes, len, &out, &wire_err);
        assert_int_equal(status, pairs[i].fits ? WP_OK : WP_INVALID_ARGUMENT);
        if (pairs[i].fits) {
            assert_int_equal(out.n_env, 1);
            assert_true(wp_str_eq(out.env[0].name, pairs[i].variable));
            assert_int_equal(out.n_secrets, 1);
            assert_true(wp_str_eq(out.secrets[0].name, pairs[i].secret));
        }
    }
}

static void
test_bad_files(void **state)
{
    static char long_part[300];
    const struct {
        struct wp_str path;
        uint32_t mode;
        const char *says;
    } bad[] = {
        {WP_STR(""), 0644, "binding.files[1].path: 1 to 512 bytes expected"},
        {WP_STR("/etc/passwd"), 0644,
         "binding.files[1].path: a path below the workspace expected"},
        {WP_STR("../x"), 0644,
         "binding.files[1].path: a path below the workspace expected"},
        {WP_STR("a/../../x"), 0644,
         "binding.files[1].path: a path below the workspace expected"},
        {WP_STR("a/.."), 0644,
         "binding.files[1].path: a path below the workspace expected"},
        {WP_STR("./a"), 0644,
         "binding.files[1].path: a path below the workspace expected"},
        {WP_STR("a//b"), 0644,
         "binding.files[1].path: a path below the workspace expected"},
        {WP_STR("a/"), 0644,
         "binding.files[1].path: a path below the workspace expected"},
        {WP_STR("a\nb"), 0644, "binding.files[1].path: UTF-8 without control"},
        {{"a\0b", 3}, 0644, "binding.files[1].path: UTF-8 without control"},
        {{long_part, 256},
         0644,
         "binding.files[1].path: a path below the workspace expected"},
        {WP_STR("b"), 01000,
         "binding.files[1].mode: permissions up to 0777 expected"},
        {WP_STR("b"), 04755,
         "binding.files[1].mode: permissions up to 0777 expected"},
        {WP_STR("first"), 0644, "binding.files[1]: another one has that path"},
    };

    (void)state;
    memset(long_part, 'a', sizeof long_part);
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        const struct wp_binding_file files[] = {
            {WP_STR("first"), WP_STR(""), 0644},
            {bad[i].path, WP_STR(""), bad[i].mode}};
        const struct wp_binding binding = {.files = files, .n_files = 2};

        expect(&binding, bad[i].says);
    }
}

static void
test_bad_repositories(void **state)
{
    static const struct {
        struct wp_str url;
        struct wp_str ref;
        struct wp_str dir;
        const char *says;
    } bad[] = {
        {T(""), T(""), T("d"), "binding.repositories[1].url: a URL of 1 to"},
        {T("file:///etc"), T(""), T("d"),
         "binding.repositories[1].url: a URL that begins with https://"},
        {T("https://me:pw@h/a"), T(""), T("d"),
         "binding.repositories[1].url: a URL without a user or password"},
        {{"https://h/a\0b", 13},
         T(""),
         T("d"),
         "binding.repositories[1].url: a path of letters"},
        {T("https://h/a"), T("-x"), T("d"),
         "binding.repositories[1].ref: a branch, a tag"},
        {T("https://h/a"),
         {"a\0b", 3},
         T("d"),
         "binding.repositories[1].ref: a branch, a tag"},
        {T("https://h/a"), T(""), T("../d"),
         "binding.repositories[1].directory: a path below the workspace"},
        {T("https://h/a"), T(""), T("/d"),
         "binding.repositories[1].directory: a path below the workspace"},
        {T("https://h/a"), T(""), T("first"),
         "binding.repositories[1]: another one has that directory"},
    };
    struct wp_binding_repository many[WP_BINDING_REPOSITORIES_MAX + 1];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        const struct wp_binding_repository repositories[] = {
            {.url = WP_STR("https://h/b"), .dir = WP_STR("first")},
            {.url = bad[i].url, .ref = bad[i].ref, .dir = bad[i].dir}};
        const struct wp_binding binding = {.repositories = repositories,
                                           .n_repositories = 2};

        expect(&binding, bad[i].says);
        assert_null(strstr(wire_err.msg, "pw@"));
    }
    /* Neither message has the field: the workspace itself, twice. */
    expect(&(struct wp_binding){.repositories =
                                    (const struct wp_binding_repository[]){
                                        {.url = T("https://h/b")},
                                        {.url = T("https://h/a")}},
                                .n_repositories = 2},
           "binding.repositories[1]: another one has that directory");
    for (size_t i = 0; i < WP_ARRAY_LEN(many); i++) {
        many[i] = some_repositories[0];
    }
    expect(&(struct wp_binding){.repositories = many,
                                .n_repositories = WP_ARRAY_LEN(many)},
           "binding.repositories: at most 8 expected");
}

static void
test_bad_volumes(void **state)
{
    static const char long_name[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    static const struct {
        struct wp_str name;
        struct wp_str dir;
        const char *says;
    } bad[] = {
        {T(""), T(""), "binding.volumes[1].name: 1 to 63 letters"},
        {T("a/b"), T(""), "binding.volumes[1].name: 1 to 63 letters"},
        {T(".."), T(""), "binding.volumes[1].name: 1 to 63 letters"},
        {T("-a"), T(""), "binding.volumes[1].name: 1 to 63 letters"},
        {T(long_name), T(""), "binding.volumes[1].name: 1 to 63 letters"},
        {{"a\0b", 3}, T(""), "binding.volumes[1].name: 1 to 63 letters"},
        {T("a"), T(".."), "binding.volumes[1].directory: a path below"},
        {T("a"), T("/a"), "binding.volumes[1].directory: a path below"},
        {T("first"), T("b"), "binding.volumes[1]: another one has that name"},
        {T("a"), T("here"),
         "binding.volumes[1]: another one has that directory"},
        {T("here"), T(""),
         "binding.volumes[1]: another one has that directory"},
    };
    struct wp_binding_volume many[WP_BINDING_VOLUMES_MAX + 1];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        const struct wp_binding_volume volumes[] = {
            {WP_STR("first"), WP_STR("here")}, {bad[i].name, bad[i].dir}};

        expect(&(struct wp_binding){.volumes = volumes, .n_volumes = 2},
               bad[i].says);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(many); i++) {
        many[i] = some_volumes[0];
    }
    expect(
        &(struct wp_binding){.volumes = many, .n_volumes = WP_ARRAY_LEN(many)},
        "binding.volumes: at most 4 expected");
}

/* Which archives there are tar_test tries; here what is made of one. */
static void
test_archives(void **state)
{
    /* Of the file "a", empty, by its sum. */
    static char tar[512] = "a";
    const struct wp_binding_file file = {WP_STR("a"), WP_STR("x"), 0600};
    struct wp_binding_archive archives[WP_BINDING_ARCHIVES_MAX + 1];
    struct wp_binding binding = {.archives = archives, .n_archives = 1};
    uint8_t bytes[8192];
    struct wp_binding out;
    size_t len;

    (void)state;
    memset(tar + 124, '0', 11);
    memset(tar + 148, ' ', 8);
    (void)snprintf(tar + 148, 8, "%06o", 'a' + 11 * '0' + 8 * ' ');
    for (size_t i = 0; i < WP_ARRAY_LEN(archives); i++) {
        archives[i] = (struct wp_binding_archive){.dir = WP_STR("d/e"),
                                                  .content = {tar, sizeof tar}};
    }
    len = wp_wire_pack_binding(&binding, bytes);
    assert_int_equal(len, wp_wire_size_binding(&binding));
    assert_int_equal(wp_wire_binding_room(bytes, len),
                     WP_WIRE_ARENA_BINDING + WP_WIRE_ARENA_ARCHIVES);
    assert_int_equal(wp_wire_binding_room(bytes, 0), WP_WIRE_ARENA_BINDING);
    wp_arena_init(&wire_arena, wire_arena_memory, WP_WIRE_ARENA_BINDING);
    assert_int_equal(
        wp_wire_unpack_binding(&wire_arena, bytes, len, &out, &wire_err),
        WP_OK);
    assert_int_equal(out.n_files, 1);
    assert_int_equal(out.n_archives, 0);
    assert_true(wp_str_is(out.files[0].path, "d/e/a"));
    assert_int_equal(out.files[0].mode, 0644);
    archives[0].dir = WP_STR("../d");
    expect(&binding, "binding.archives[0].directory: a path below");
    archives[0].dir = WP_STR("");
    binding.files = &file;
    binding.n_files = 1;
    expect(&binding, "binding.archives[0]: file 1: another one has that path");
    archives[0].content.len = 511;
    expect(&binding, "binding.archives[0].content: a tar archive");
    binding.n_archives = WP_ARRAY_LEN(archives);
    expect(&binding, "binding.archives: at most 8 expected");
}

/* What is wrong with a password is said without it. */
static void
test_bad_passwords(void **state)
{
    static char too_long[WP_BINDING_PASSWORD_MAX + 1];
    static const struct {
        struct wp_str url;
        struct wp_str password;
        struct wp_str user;
        const char *says;
    } bad[] = {
        {T("https://h/a"), T("wp-pw\r\nX: y"), T(""),
         "binding.repositories[0].password: at most 1024 bytes without"},
        {T("https://h/a"),
         {"wp-pw\0b", 7},
         T(""),
         "binding.repositories[0].password: at most 1024 bytes without"},
        {T("https://h/a"),
         {too_long, sizeof too_long},
         T(""),
         "binding.repositories[0].password: at most 1024 bytes without"},
        {T("https://h/a"), T("wp-pw"), T("a:b"),
         "binding.repositories[0].user: at most 128 bytes without"},
        {T("https://h/a"), T("wp-pw"), T("a\n"),
         "binding.repositories[0].user: at most 128 bytes without"},
        {T("https://h/a"),
         T("wp-pw"),
         {too_long, 129},
         "binding.repositories[0].user: at most 128 bytes without"},
        {T("https://h/a"), T(""), T("me"),
         "binding.repositories[0].password: it is missing"},
        {T("http://h/a"), T("wp-pw"), T(""),
         "binding.repositories[0].password: it is not sent in clear"},
        {T("http://10.0.0.1/a"), T("wp-pw"), T(""),
         "binding.repositories[0].password: it is not sent in clear"},
        {T("http://localhost/a"), T("wp-pw"), T(""),
         "binding.repositories[0].password: it is not sent in clear"},
    };

    (void)state;
    memset(too_long, 'a', sizeof too_long);
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        const struct wp_binding_repository it = {.url = bad[i].url,
                                                 .password = bad[i].password,
                                                 .user = bad[i].user};

        expect(&(struct wp_binding){.repositories = &it, .n_repositories = 1},
               bad[i].says);
        assert_null(strstr(wire_err.msg, "wp-pw"));
    }
}

static void
test_bad_rest(void **state)
{
    static const struct wp_str nothing = T("");
    static const struct wp_str bad_word[] = {T("a"), {"b\0", 2}};

    static const int64_t bad_ttl_ms[] = {-1, 1, 59999, 86400001, INT64_MAX};

    (void)state;
    expect(&(struct wp_binding){.fingerprint = 0},
           "binding: something expected in it, or no binding");
    expect(&(struct wp_binding){.working_dir = WP_STR("../a")},
           "binding.working_dir: a path that is absolute or below the");
    expect(&(struct wp_binding){.working_dir = WP_STR("/a/../b")},
           "binding.working_dir: a path that is absolute or below the");
    expect(&(struct wp_binding){.working_dir = WP_STR("/a//b")},
           "binding.working_dir: a path that is absolute or below the");
    expect(&(struct wp_binding){.egress = WP_STR("a.test\nend")},
           "binding.egress: UTF-8 without control characters expected");
    expect(&(struct wp_binding){.audience = WP_STR("a\tb")},
           "binding.identity.audience: UTF-8 without control characters");
    for (size_t i = 0; i < WP_ARRAY_LEN(bad_ttl_ms); i++) {
        expect(&(struct wp_binding){.audience = WP_STR("a"),
                                    .identity_ttl_ms = bad_ttl_ms[i]},
               "binding.identity.ttl_ms: 0, or 60000 to 86400000 expected");
    }
    expect(&(struct wp_binding){.command = &nothing, .n_command = 1},
           "binding.command[0]: a program expected, got nothing");
    expect(&(struct wp_binding){.command = bad_word, .n_command = 2},
           "binding.command[1]: UTF-8 without NUL expected");
}

/* One more than there may be, of each; and what is as much as there may be. */
static void
test_bounds(void **state)
{
    static struct wp_binding_env env[WP_BINDING_ENV_MAX + 1];
    static struct wp_binding_secret secrets[WP_BINDING_SECRETS_MAX + 1];
    static struct wp_binding_file files[WP_BINDING_FILES_MAX + 1];
    static struct wp_str words[WP_BINDING_ARGS_MAX + 1];
    static char names[WP_BINDING_ENV_MAX + 1][8];
    static char much[WP_BINDING_FILES_BYTES_MAX + 1];
    struct wp_binding binding = {
        .env = env, .secrets = secrets, .files = files, .command = words};
    struct wp_binding out;

    (void)state;
    memset(much, 'x', sizeof much);
    for (uint32_t i = 0; i <= WP_BINDING_ENV_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "N%u", i);
        env[i].name = wp_str_from(names[i]);
        files[i] =
            (struct wp_binding_file){wp_str_from(names[i]), {"x", 1}, 0644};
        if (i <= WP_BINDING_SECRETS_MAX) {
            secrets[i].name = wp_str_from(names[i]);
            words[i] = wp_str_from(names[i]);
        }
    }
    binding.n_env = WP_BINDING_ENV_MAX;
    binding.n_secrets = WP_BINDING_SECRETS_MAX;
    binding.n_files = WP_BINDING_FILES_MAX;
    binding.n_command = WP_BINDING_ARGS_MAX;
    WIRE_PACK(binding, &binding);
    wp_arena_init(&wire_arena, wire_arena_memory, WP_WIRE_ARENA_BINDING);
    WIRE_UNPACK(binding, &out);
    binding.n_env++;
    expect(&binding, "binding.env: at most 256 expected");
    binding.n_env = 0;
    binding.n_secrets++;
    expect(&binding, "binding.secrets: at most 64 expected");
    binding.n_secrets = 0;
    binding.n_files++;
    expect(&binding, "binding.files: at most 256 expected");
    binding.n_files = 0;
    binding.n_command++;
    expect(&binding, "binding.command: at most 64 expected");
    binding.n_command = 0;
    binding.n_env = 3;
    env[0].value = (struct wp_str){much, WP_BINDING_VALUE_MAX + 1};
    expect(&binding, "binding.env[0].value: at most 65536 bytes expected, got "
                     "65537");
    env[0].value.len = env[1].value.len = WP_BINDING_VALUE_MAX;
    env[1].value.ptr = much;
    expect(&binding, "binding: at most 131072 bytes of names, values and words "
                     "expected, got 131078");
    binding.n_env = 0;
    binding.n_files = 1;
    files[0].content = (struct wp_str){much, sizeof much};
    expect(&binding, "binding.files: at most 1048576 bytes of content and of "
                     "archives expected, got 1048577");
    binding.n_files = 0;
    binding.egress = (struct wp_str){much, WP_EGRESS_TEXT_MAX + 1};
    expect(&binding, "binding.egress: 0 to 1023 bytes expected, got 1024");
    binding.egress.len = 0;
    binding.audience = (struct wp_str){much, WP_AUDIENCE_MAX + 1};
    expect(&binding, "binding.identity.audience: 1 to 255 bytes expected, got "
                     "256");
}

/* Cut anywhere it is refused or whole; never more. */
static void
test_cut(void **state)
{
    struct wp_binding out;

    (void)state;
    WIRE_PACK(binding, &some_binding);
    for (size_t len = 0; len < wire_packed_len; len++) {
        uint8_t *cut = malloc(len + 1);

        assert_non_null(cut);
        memcpy(cut, wire_packed, len);
        wp_arena_reset(&wire_arena);
        if (wp_wire_unpack_binding(&wire_arena, cut, len, &out, &wire_err) !=
            WP_OK) {
            assert_true(wire_err.msg[0] != '\0');
        }
        free(cut);
    }
}

static void
test_malformed(void **state)
{
    static const unsigned fields[] = {1, 2, 3, 4, 5, 6, 20, 25, 26};
    struct wp_binding out;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(fields); i++) {
        (void)wire_set_up(NULL);
        wire_put_int(fields[i], 7);
        WIRE_EXPECT_REFUSED(binding, wp_binding,
                            "message: a well-formed warmpool.v1.Binding");
    }
    /* A name that is a number; a flag that is a text. */
    (void)wire_set_up(NULL);
    wire_put_bytes(1, "\x08\x01", 2);
    WIRE_EXPECT_REFUSED(binding, wp_binding,
                        "message: a well-formed warmpool.v1.Binding");
    (void)wire_set_up(NULL);
    wire_put_bytes(2,
                   "\x0a\x01"
                   "a\x1a\x01"
                   "b",
                   6);
    WIRE_EXPECT_REFUSED(binding, wp_binding,
                        "message: a well-formed warmpool.v1.Binding");
    (void)wire_set_up(NULL);
    wire_put_bytes(26, "\x08\x01", 2);
    WIRE_EXPECT_REFUSED(binding, wp_binding,
                        "message: a well-formed warmpool.v1.Binding");
    (void)wire_set_up(NULL);
    wire_put_bytes(26, "", 0);
    WIRE_EXPECT_REFUSED(binding, wp_binding,
                        "binding.identity.audience: 1 to 255 bytes expected");
    /* Fields of a later version are passed over. */
    (void)wire_set_up(NULL);
    wire_put_text(9, "new");
    wire_put_int(10, 1);
    for (unsigned field = 27; field < 64; field++) {
        wire_put_int(field, 1);
    }
    wire_put_text(4, "dir");
    assert_int_equal(wp_wire_unpack_binding(&wire_arena, wire_message.at,
                                            wire_message.len, &out, &wire_err),
                     WP_OK);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        WIRE_TEST(test_round_trip),    WIRE_TEST(test_in_a_claim),
        WIRE_TEST(test_bound),         WIRE_TEST(test_bad_env),
        WIRE_TEST(test_bad_secrets),   WIRE_TEST(test_variables_beside_secrets),
        WIRE_TEST(test_bad_files),     WIRE_TEST(test_bad_repositories),
        WIRE_TEST(test_bad_passwords), WIRE_TEST(test_bad_volumes),
        WIRE_TEST(test_archives),      WIRE_TEST(test_bad_rest),
        WIRE_TEST(test_bounds),        WIRE_TEST(test_cut),
        WIRE_TEST(test_malformed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
