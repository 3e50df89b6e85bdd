/* Which API server, and as whom: what a kubeconfig and a Pod say, and every
 * refusal with its field. */
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "k8s/api/api_config.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/temp_dir.h"

#define HEAD                                                                   \
    "apiVersion: v1\n"                                                         \
    "kind: Config\n"                                                           \
    "current-context: main\n"                                                  \
    "contexts:\n"                                                              \
    "- {name: main, context: {cluster: c, user: u, namespace: own}}\n"         \
    "- {name: other, context: {cluster: d, user: u}}\n"
#define CLUSTERS(more)                                                         \
    "clusters:\n"                                                              \
    "- name: c\n"                                                              \
    "  cluster:\n"                                                             \
    "    server: https://api.example:6443/\n" more "- name: d\n"               \
    "  cluster: {server: 'http://127.0.0.1:8001'}\n"
#define USERS(what) "users:\n- name: u\n  user: {" what "}\n"

/* "-----BEGIN X-----\n" */
#define PEM_BASE64 "LS0tLS1CRUdJTiBYLS0tLS0K"

static enum wp_status
parse(struct wp_api_config *config, const char *text, const char *context,
      struct wp_err *err)
{
    err->msg[0] = '\0';
    return wp_api_config_parse(config, wp_str_from(text), "/etc/kube", context,
                               err);
}

/* A whole file: the current context, paths beside the file, data decoded. */
static void
whole(void **state)
{
    struct wp_api_config config;
    struct wp_err err;

    (void)state;
    assert_int_equal(
        parse(&config,
              HEAD CLUSTERS("    certificate-authority: pki/ca.crt\n"
                            "    tls-server-name: inner\n")
                  USERS("client-certificate: /abs/c.crt, "
                        "client-key-data: " PEM_BASE64 ", token: abc"),
              NULL, &err),
        WP_OK);
    assert_string_equal(config.server, "https://api.example:6443");
    assert_string_equal(config.server_name, "inner");
    assert_string_equal(config.ca_file, "/etc/kube/pki/ca.crt");
    assert_null(config.ca_pem);
    assert_string_equal(config.cert_file, "/abs/c.crt");
    assert_null(config.key_file);
    assert_string_equal(config.key_pem, "-----BEGIN X-----\n");
    assert_string_equal(config.token, "abc");
    assert_string_equal(config.own_namespace, "own");
    assert_false(config.insecure);
    wp_api_config_fini(&config);
    assert_null(config.token);
}

/* Of all that it may have nothing is left. */
static void
nothing_left(void **state)
{
    static const struct wp_api_config zero;
    struct wp_api_config config;

    (void)state;
    memset(&config, 0, sizeof config);
    config = (struct wp_api_config){
        .server = strdup("a"),
        .server_name = strdup("b"),
        .ca_file = strdup("c"),
        .ca_pem = strdup("d"),
        .cert_file = strdup("e"),
        .cert_pem = strdup("f"),
        .key_file = strdup("g"),
        .key_pem = strdup("h"),
        .token_file = strdup("i"),
        .token = strdup("j"),
        .user = strdup("k"),
        .own_namespace = strdup("l"),
        .insecure = true,
    };
    wp_api_config_fini(&config);
    assert_memory_equal(&config, &zero,
                        offsetof(struct wp_api_config, insecure));
    assert_false(config.insecure);
}

/* The context that is asked for, its namespace by default, and data before
 * files; a token file before a fixed token. */
static void
precedence(void **state)
{
    struct wp_api_config config;
    struct wp_err err;

    (void)state;
    assert_int_equal(parse(&config,
                           HEAD CLUSTERS("")
                               USERS("client-certificate: c.crt, "
                                     "client-certificate-data: " PEM_BASE64
                                     ", client-key: k.key, token: t, "
                                     "tokenFile: token"),
                           "other", &err),
                     WP_OK);
    assert_string_equal(config.server, "http://127.0.0.1:8001");
    assert_string_equal(config.own_namespace, "default");
    assert_null(config.cert_file);
    assert_string_equal(config.cert_pem, "-----BEGIN X-----\n");
    assert_string_equal(config.key_file, "/etc/kube/k.key");
    assert_string_equal(config.token_file, "/etc/kube/token");
    assert_null(config.token);
    wp_api_config_fini(&config);
}

/* kubectl writes JSON as well, and nulls where nothing is. */
static void
json(void **state)
{
    struct wp_api_config config;
    struct wp_err err;

    (void)state;
    assert_int_equal(
        parse(&config,
              "{\"current-context\":\"m\",\"preferences\":{},"
              "\"contexts\":[{\"name\":\"m\",\"context\":{\"cluster\":\"c\","
              "\"user\":\"u\"}}],\"clusters\":[{\"name\":\"c\",\"cluster\":"
              "{\"server\":\"https://[::1]:6443\","
              "\"insecure-skip-tls-verify\":true}}],"
              "\"users\":[{\"name\":\"u\",\"user\":null}]}",
              NULL, &err),
        WP_OK);
    assert_true(config.insecure);
    assert_string_equal(config.server, "https://[::1]:6443");
    wp_api_config_fini(&config);
}

static const struct {
    const char *text;
    const char *context;
    const char *field;
} refused[] = {
    {"", NULL, "kubeconfig was expected"},
    {"- a", NULL, "kubeconfig was expected"},
    {"a: [", NULL, "not YAML"},
    {"a: &x b\nc: *x", NULL, "anchors"},
    {"a: !!str b", NULL, "tags"},
    {"<<: {a: b}", NULL, "merge keys"},
    {"a: b\na: c", NULL, "twice"},
    {"a: null\na: c", NULL, "twice"},
    {"a: b\n---\na: b", NULL, "one document"},
    {"[[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]", NULL, "16 deep"},
    {"{[a]: b}", NULL, "key was expected"},
    {"a: \"\\0\"", NULL, "NUL"},
    {"a: b", NULL, "current-context"},
    {HEAD, "none", "contexts: 'none'"},
    {HEAD, NULL, "clusters: 'c'"},
    {HEAD "clusters: {}", NULL, "clusters: a list"},
    {HEAD "clusters: [x]", NULL, "a map with a name"},
    {HEAD "clusters: [{name: c, cluster: 3}]", NULL, "cluster: a map"},
    {HEAD "clusters: [{name: c}]", NULL, "server: https"},
    {HEAD "clusters: [{name: c, cluster: {server: [1]}}]", NULL,
     "server: a text"},
    {HEAD "clusters: [{name: c, cluster: {server: 'ftp://a'}}]", NULL,
     "server: https"},
    {HEAD "clusters: [{name: c, cluster: {server: 'https://u:p@a'}}]", NULL,
     "server: https"},
    {HEAD "clusters: [{name: c, cluster: {server: 'https://a b'}}]", NULL,
     "server: https"},
    {HEAD "clusters: [{name: c, cluster: {server: 'https:///a'}}]", NULL,
     "server: https"},
    {HEAD CLUSTERS("    proxy-url: http://proxy\n"), NULL, "proxy-url"},
    {HEAD CLUSTERS("    insecure-skip-tls-verify: maybe\n"), NULL,
     "insecure-skip-tls-verify: true or false"},
    {HEAD CLUSTERS("    insecure-skip-tls-verify: true\n"
                   "    certificate-authority: ca\n"),
     NULL, "insecure-skip-tls-verify: false"},
    {HEAD CLUSTERS("    certificate-authority-data: S3VjaGVu\n"), NULL,
     "certificate-authority-data: PEM"},
    {HEAD CLUSTERS("    certificate-authority-data: LS0tLS1CRUdJT\n"), NULL,
     "certificate-authority-data: base64"},
    {HEAD CLUSTERS(""), NULL, "users: 'u'"},
    {HEAD CLUSTERS("") "users: [{name: u}, {name: u}]\n", NULL,
     "users: 'u' is there twice"},
    {HEAD CLUSTERS("") USERS("exec: {command: aws}"), NULL,
     "exec: exec plugins are not supported; use"},
    {HEAD CLUSTERS("") USERS("auth-provider: {name: gcp}"), NULL,
     "auth-provider"},
    {HEAD CLUSTERS("") USERS("username: a, password: hush"), NULL,
     "username: basic authentication"},
    {HEAD CLUSTERS("") USERS("as: other"), NULL, "as: impersonation"},
    {HEAD CLUSTERS("") USERS("client-certificate: hush"), NULL,
     "client-certificate: a certificate and its key"},
    {HEAD CLUSTERS("") USERS("client-key: hush"), NULL,
     "client-certificate: a certificate and its key"},
    {HEAD CLUSTERS("") USERS("token: 'hush hush'"), NULL, "token: visible"},
    {HEAD CLUSTERS("") USERS("token: \"hush\\r\\nX: y\""), NULL,
     "token: a text without control"},
    {"current-context: m\ncontexts: [{name: m, context: {cluster: c}}]", NULL,
     "user: a name"},
    {"current-context: m\ncontexts: [{name: m, context: {user: c}}]", NULL,
     "cluster: a name"},
    {"current-context: m\ncontexts: [{name: m, context: {cluster: c, user: "
     "u, namespace: 'Not One'}}]",
     NULL, "namespace: a namespace's name"},
};

/* Every refusal names the field and what was expected, and no secret. */
static void
refusals(void **state)
{
    static struct golden golden;

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct wp_api_config config;
        struct wp_err err;

        if (parse(&config, refused[i].text, refused[i].context, &err) !=
                WP_INVALID_ARGUMENT ||
            strstr(err.msg, refused[i].field) == NULL ||
            strstr(err.msg, "hush") != NULL) {
            fail_msg("row %zu: '%s' expected in '%s'", i, refused[i].field,
                     err.msg);
        }
        assert_null(config.server);
        /* What libyaml says of it is its own affair. */
        golden_add(&golden, "%zu: %s\n", i,
                   strcmp(refused[i].field, "not YAML") != 0 ? err.msg
                                                             : "not YAML");
    }
    golden_compare(golden.text, WP_TEST_REFUSALS);
}

/* Base64, to the letter; line ends are skipped. */
static void
base64(void **state)
{
    static const struct {
        const char *text;
        const char *pem; /* NULL: refused. */
    } rows[] = {
        {"LS0tLS1CRUdJTiBYLS0tLS0K", "-----BEGIN X-----\n"},
        {"LS0tLS1CRUdJTiBYWS0tLS0tCg==", "-----BEGIN XY-----\n"},
        {"LS0tLS1CRUdJTiBYWVotLS0tLQo=", "-----BEGIN XYZ-----\n"},
        {"LS0tLS1CRUdJ\\r\\nTiBYLS0tLS0K\\n", "-----BEGIN X-----\n"},
        {"LS0tLS1CRUdJTiBYWS0tLS0tCg=", NULL},   /* Too little padding. */
        {"LS0tLS1CRUdJTiBYWS0tLS0tCg===", NULL}, /* Too much. */
        {"LS0tLS1CRUdJTiBYWS0tLS0tCh==", NULL},  /* Bits left over. */
        {"LS0tLS1CRUdJTiBYWVotLS0tLQp=", NULL},  /* The same. */
        {"LS0t=LS1CRUdJTiBYLS0tLS0K", NULL},     /* Padding within. */
        {"LS0tLS1CRUdJTiBYLS0tLS0-", NULL},      /* The URL alphabet. */
        {"LS0tLS1CRUdJ TiBYLS0tLS0K", NULL},     /* A space. */
        {"LS0tLS1CRUdJTiBYLS0tLS0K====", NULL},  /* Padding alone. */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wp_api_config config;
        struct wp_err err;
        char text[1024];

        (void)snprintf(text, sizeof text,
                       HEAD CLUSTERS("    certificate-authority-data: \"%s\"\n")
                           USERS(""),
                       rows[i].text);
        if (rows[i].pem == NULL) {
            assert_int_equal(parse(&config, text, NULL, &err),
                             WP_INVALID_ARGUMENT);
            assert_non_null(strstr(err.msg, "base64 was expected"));
            continue;
        }
        assert_int_equal(parse(&config, text, NULL, &err), WP_OK);
        assert_string_equal(config.ca_pem, rows[i].pem);
        wp_api_config_fini(&config);
    }
}

static void
write_file(const char *dir, const char *name, const char *text)
{
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Of blocks that hold a huge file, those without a byte of it. */
static int frees_wiped;

static uint32_t memory; /* This allocation from now on fails; 0: none. */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__real_strndup(const char *text, size_t len);
char *__wrap_strndup(const char *text, size_t len);
void __real_free(void *p);
void __wrap_free(void *p);

void
__wrap_free(void *p)
{
    static const char wiped[(1 << 20) + 1];

    if (p != NULL && malloc_usable_size(p) >= sizeof wiped) {
        frees_wiped += memcmp(p, wiped, sizeof wiped) == 0;
    }
    __real_free(p);
}

static bool
fails(void)
{
    return memory != 0 && --memory == 0;
}

void *
__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

char *
__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

char *
__wrap_strndup(const char *text, size_t len)
{
    return fails() ? NULL : __real_strndup(text, len);
}

/* Whatever memory lacks for, it is said, and nothing is left. */
static void
no_memory(void **state)
{
    static const struct wp_api_config zero;
    struct wp_api_config config;
    struct wp_err err;
    char dir[256];
    char path[512];
    uint32_t n = 1;
    enum wp_status status;

    (void)state;
    temp_dir_make(dir, sizeof dir);
    write_file(dir, "config",
               HEAD CLUSTERS("    certificate-authority: /pki/ca.crt\n"
                             "    tls-server-name: inner\n")
                   USERS("client-certificate-data: " PEM_BASE64
                         ", client-key-data: " PEM_BASE64 ", token: abc"));
    (void)snprintf(path, sizeof path, "%s/config", dir);
    for (;; n++) {
        memory = n;
        status = wp_api_config_read(&config, path, NULL, &err);
        if (memory != 0) {
            break;
        }
        assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
        assert_memory_equal(&config, &zero,
                            offsetof(struct wp_api_config, insecure));
    }
    memory = 0;
    assert_int_equal(status, WP_OK);
    assert_in_range(n, 8, 200);
    wp_api_config_fini(&config);
    temp_dir_remove(dir);
}

/* A file beside us; what it names is beside us as well. */
static void
relative_path(void **state)
{
    struct wp_api_config config;
    struct wp_err err;
    char dir[256];
    int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)state;
    assert_true(before >= 0);
    temp_dir_make(dir, sizeof dir);
    write_file(dir, "config",
               HEAD CLUSTERS("    certificate-authority: ca.crt\n") USERS(""));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(wp_api_config_read(&config, "config", NULL, &err), WP_OK);
    assert_string_equal(config.ca_file, "./ca.crt");
    wp_api_config_fini(&config);
    assert_int_equal(fchdir(before), 0);
    assert_int_equal(close(before), 0);
    temp_dir_remove(dir);
}

/* A token may have 64 KiB. */
static void
long_tokens(void **state)
{
    enum {
        MOST = 64 << 10
    };
    char *text = malloc(MOST + 2048);

    (void)state;
    assert_non_null(text);
    for (size_t more = 0; more < 2; more++) {
        struct wp_api_config config;
        struct wp_err err;
        char *end;

        (void)strcpy(text, HEAD CLUSTERS("") "users:\n- name: u\n  user: "
                                             "{token: ");
        end = text + strlen(text);
        memset(end, 't', MOST + more);
        (void)strcpy(end + MOST + more, "}\n");
        assert_int_equal(parse(&config, text, NULL, &err),
                         more == 0 ? WP_OK : WP_INVALID_ARGUMENT);
        if (more == 0) {
            assert_int_equal(strlen(config.token), MOST);
            wp_api_config_fini(&config);
        }
    }
    free(text);
}

/* Where the service of a Pod may be, in what words it is refused otherwise. */
static void
pod_addresses(void **state)
{
    static const struct {
        const char *host;
        const char *port;
        const char *server; /* NULL: refused. */
        const char *error;
    } rows[] = {
        {"10.0.0.1", "1", "https://10.0.0.1:1", NULL},
        {"10.0.0.1", "65535", "https://10.0.0.1:65535", NULL},
        {"[::1]", "443", "https://[::1]:443", NULL},
        {"::1", "443", "https://[::1]:443", NULL},
        {"api.svc", "443", "https://api.svc:443", NULL},
        {"10.0.0.1", "0", NULL, "KUBERNETES_SERVICE_PORT: a port was expected"},
        {"10.0.0.1", "65536", NULL,
         "KUBERNETES_SERVICE_PORT: a port was expected"},
        {"10.0.0.1", "x", NULL, "KUBERNETES_SERVICE_PORT: a port was expected"},
        {"a b", "443", NULL,
         "KUBERNETES_SERVICE_HOST: an address was expected"},
        {"", "443", NULL,
         "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT were expected: "
         "outside of a Pod a kubeconfig is needed"},
        {"10.0.0.1", NULL, NULL,
         "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT were expected: "
         "outside of a Pod a kubeconfig is needed"},
    };
    static const struct wp_api_config zero;
    char dir[256];

    (void)state;
    temp_dir_make(dir, sizeof dir);
    write_file(dir, "token", "abc");
    write_file(dir, "ca.crt", "x");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wp_api_config config;
        struct wp_err err = {.msg = ""};
        enum wp_status status;

        assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", rows[i].host, 1), 0);
        assert_int_equal(
            rows[i].port == NULL
                ? unsetenv("KUBERNETES_SERVICE_PORT")
                : setenv("KUBERNETES_SERVICE_PORT", rows[i].port, 1),
            0);
        status = wp_api_config_in_cluster(&config, dir, &err);
        if (rows[i].server != NULL) {
            assert_int_equal(status, WP_OK);
            assert_string_equal(config.server, rows[i].server);
            wp_api_config_fini(&config);
        } else {
            assert_true(status != WP_OK);
            assert_string_equal(err.msg, rows[i].error);
            assert_memory_equal(&config, &zero,
                                offsetof(struct wp_api_config, insecure));
        }
    }
    temp_dir_remove(dir);
}

/* An empty file is one; its refusal names it. */
static void
empty_file(void **state)
{
    struct wp_api_config config;
    struct wp_err err;
    char dir[256];
    char *huge = malloc((1 << 20) + 1);
    int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)state;
    assert_non_null(huge);
    assert_true(before >= 0);
    temp_dir_make(dir, sizeof dir);
    assert_int_equal(chdir(dir), 0);
    write_file(dir, "config", "");
    assert_int_equal(wp_api_config_read(&config, "config", NULL, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg,
                        "kubeconfig config: a kubeconfig was expected: a map "
                        "with clusters, users and contexts");
    /* As large as may be. */
    memset(huge, '#', 1 << 20);
    huge[1 << 20] = '\0';
    write_file(dir, "config", huge);
    free(huge);
    assert_int_equal(wp_api_config_read(&config, "config", NULL, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg,
                        "kubeconfig config: a kubeconfig was expected: a map "
                        "with clusters, users and contexts");
    assert_int_equal(fchdir(before), 0);
    assert_int_equal(close(before), 0);
    temp_dir_remove(dir);
}

/* What a Pod is given: all of it, and a namespace's name to the letter. */
static void
pod_files(void **state)
{
    static const char n63[] =
        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn";
    static const struct {
        const char *text;
        const char *namespace_; /* NULL: refused. */
    } rows[] = {
        {"a", "a"},      {"a\r\n", "a"}, {"", NULL},
        {"\n", NULL},    {"%s", n63},    {"%s\n", n63},
        {"%s\r\n", n63}, {"%sn", NULL},  {"%snnn", NULL},
    };
    struct wp_api_config config;
    struct wp_err err;
    char dir[256];
    char path[512];

    (void)state;
    temp_dir_make(dir, sizeof dir);
    assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1), 0);
    assert_int_equal(setenv("KUBERNETES_SERVICE_PORT", "443", 1), 0);
    for (int i = 0; i < 2; i++) {
        write_file(dir, i == 0 ? "token" : "ca.crt", "x");
        assert_int_equal(wp_api_config_in_cluster(&config, dir, &err),
                         WP_FAILED_PRECONDITION);
        (void)snprintf(path, sizeof path, "%s/%s", dir,
                       i == 0 ? "token" : "ca.crt");
        assert_int_equal(unlink(path), 0);
    }
    write_file(dir, "token", "x");
    write_file(dir, "ca.crt", "x");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[128] = "";
        const char *rest = strstr(rows[i].text, "%s");

        if (rest != NULL) {
            (void)strcpy(text, n63);
            rest += 2;
        } else {
            rest = rows[i].text;
        }
        (void)strcat(text, rest);
        write_file(dir, "namespace", text);
        if (rows[i].namespace_ != NULL) {
            assert_int_equal(wp_api_config_in_cluster(&config, dir, &err),
                             WP_OK);
            assert_string_equal(config.own_namespace, rows[i].namespace_);
            wp_api_config_fini(&config);
        } else {
            assert_int_equal(wp_api_config_in_cluster(&config, dir, &err),
                             WP_INVALID_ARGUMENT);
            assert_non_null(strstr(err.msg, "a namespace's name was expected"));
        }
    }
    temp_dir_remove(dir);
}

/* 512 bytes are an address, more are none. */
static void
long_servers(void **state)
{
    char text[2048];

    (void)state;
    for (size_t more = 0; more < 2; more++) {
        struct wp_api_config config;
        struct wp_err err;
        char server[600] = "https://";

        memset(server + 8, 's', 504 + more);
        server[512 + more] = '\0';
        (void)snprintf(text, sizeof text,
                       "%sclusters:\n- name: c\n  cluster: {server: '%s'}\n"
                       "users:\n- name: u\n  user: {}\n",
                       HEAD, server);
        assert_int_equal(parse(&config, text, NULL, &err),
                         more == 0 ? WP_OK : WP_INVALID_ARGUMENT);
        if (more == 0) {
            assert_string_equal(config.server, server);
            wp_api_config_fini(&config);
        }
    }
}

/* Of a long one the beginning. */
static bool
says_path(const struct wp_err *err, const char *path)
{
    char shown[121];

    (void)snprintf(shown, sizeof shown, "%.120s", path);
    return strstr(err->msg, shown) != NULL;
}

/* From a file: relative paths are the file's; a missing and a huge one are
 * refused by name, and nothing of it stays in memory that was freed. */
static void
files(void **state)
{
    struct wp_api_config config;
    struct wp_err err;
    char dir[256];
    char path[512];
    char *huge;

    (void)state;
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(path, sizeof path, "%s/config", dir);
    assert_int_equal(wp_api_config_read(&config, path, NULL, &err),
                     WP_NOT_FOUND);
    assert_true(says_path(&err, path));
    write_file(dir, "config",
               HEAD CLUSTERS("    certificate-authority: ca.crt\n") USERS(""));
    assert_int_equal(wp_api_config_read(&config, path, NULL, &err), WP_OK);
    (void)snprintf(path, sizeof path, "%s/ca.crt", dir);
    assert_string_equal(config.ca_file, path);
    wp_api_config_fini(&config);

    huge = malloc((1 << 20) + 2);
    assert_non_null(huge);
    memset(huge, '#', (1 << 20) + 1);
    huge[(1 << 20) + 1] = '\0';
    write_file(dir, "config", huge);
    free(huge);
    (void)snprintf(path, sizeof path, "%s/config", dir);
    frees_wiped = 0;
    assert_int_equal(wp_api_config_read(&config, path, NULL, &err),
                     WP_INVALID_ARGUMENT);
    assert_int_equal(frees_wiped, 1);
    assert_non_null(strstr(err.msg, "1 MiB"));
    assert_int_equal(wp_api_config_read(&config, dir, NULL, &err),
                     WP_FAILED_PRECONDITION);
    temp_dir_remove(dir);
}

/* In a Pod: the service's address, the account's files, its namespace. */
static void
in_pod(void **state)
{
    struct wp_api_config config;
    struct wp_err err;
    char dir[256];
    char path[512];

    (void)state;
    temp_dir_make(dir, sizeof dir);
    assert_int_equal(unsetenv("KUBERNETES_SERVICE_HOST"), 0);
    assert_int_equal(wp_api_config_in_cluster(&config, dir, &err),
                     WP_FAILED_PRECONDITION);
    assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1), 0);
    assert_int_equal(setenv("KUBERNETES_SERVICE_PORT", "70000", 1), 0);
    assert_int_equal(wp_api_config_in_cluster(&config, dir, &err),
                     WP_INVALID_ARGUMENT);
    assert_int_equal(setenv("KUBERNETES_SERVICE_PORT", "443", 1), 0);
    assert_int_equal(wp_api_config_in_cluster(&config, dir, &err),
                     WP_FAILED_PRECONDITION);
    assert_true(says_path(&err, dir));
    write_file(dir, "token", "abc");
    write_file(dir, "ca.crt", "-----BEGIN CERTIFICATE-----\n");
    assert_int_equal(wp_api_config_in_cluster(&config, dir, &err), WP_OK);
    assert_string_equal(config.server, "https://[fd00::1]:443");
    assert_string_equal(config.own_namespace, "default");
    (void)snprintf(path, sizeof path, "%s/token", dir);
    assert_string_equal(config.token_file, path);
    wp_api_config_fini(&config);
    write_file(dir, "namespace", "warm\n");
    assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1), 0);
    assert_int_equal(wp_api_config_in_cluster(&config, dir, &err), WP_OK);
    assert_string_equal(config.server, "https://10.0.0.1:443");
    assert_string_equal(config.own_namespace, "warm");
    wp_api_config_fini(&config);
    write_file(dir, "namespace", "No Such");
    assert_int_equal(wp_api_config_in_cluster(&config, dir, &err),
                     WP_INVALID_ARGUMENT);
    temp_dir_remove(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),        cmocka_unit_test(nothing_left),
        cmocka_unit_test(precedence),   cmocka_unit_test(json),
        cmocka_unit_test(refusals),     cmocka_unit_test(base64),
        cmocka_unit_test(files),        cmocka_unit_test(in_pod),
        cmocka_unit_test(no_memory),    cmocka_unit_test(relative_path),
        cmocka_unit_test(long_tokens),  cmocka_unit_test(pod_addresses),
        cmocka_unit_test(empty_file),   cmocka_unit_test(pod_files),
        cmocka_unit_test(long_servers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
