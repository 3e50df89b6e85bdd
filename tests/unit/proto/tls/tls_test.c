/* TLS of the daemon's listeners: which files are taken, how connections are
 * made of them, when they are read again and who a certificate names. Compared
 * whole with golden/tls_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "proto/tls/tls.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/http/tls_certs.h"
#include "tests/support/pool/manual_clock.h"

enum {
    FILE_MAX = 1 << 20,
    FD = 77, /* Never used. */
};

static char dir[512];
static struct wp_clock_manual hands;
static int stat_shift; /* Which field of a file's stamp is another one. */
static int open_fails; /* An errno: no file can be opened. */
static X509 *shown;    /* What the peer has shown. */

const struct wp_clock *__wrap_wp_clock_system(void);
int __wrap_stat(const char *path, struct stat *st);
int __real_stat(const char *path, struct stat *st);
ssize_t __wrap_wp_path_read(const char *path, int flags, char *text, size_t cap,
                            struct stat *st);
ssize_t __real_wp_path_read(const char *path, int flags, char *text, size_t cap,
                            struct stat *st);
X509 *__wrap_SSL_get0_peer_certificate(const SSL *ssl);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
SSL_CTX *__wrap_SSL_CTX_new(const SSL_METHOD *method);
SSL_CTX *__real_SSL_CTX_new(const SSL_METHOD *method);
SSL *__wrap_SSL_new(SSL_CTX *context);
SSL *__real_SSL_new(SSL_CTX *context);
int __wrap_SSL_set_fd(SSL *ssl, int fd);
int __real_SSL_set_fd(SSL *ssl, int fd);
BIO *__wrap_BIO_new_mem_buf(const void *bytes, int len);
BIO *__real_BIO_new_mem_buf(const void *bytes, int len);

static const char *failing; /* A function. */
static unsigned fails_in;   /* 0: it does not fail. */

static void
fail_at(const char *function, unsigned nth)
{
    failing = function;
    fails_in = nth;
}

static bool
fails(const char *function)
{
    if (failing == NULL || strcmp(failing, function) != 0 || fails_in == 0 ||
        --fails_in > 0) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails("calloc") ? NULL : __real_calloc(n, size);
}

SSL_CTX *
__wrap_SSL_CTX_new(const SSL_METHOD *method)
{
    return fails("SSL_CTX_new") ? NULL : __real_SSL_CTX_new(method);
}

SSL *
__wrap_SSL_new(SSL_CTX *context)
{
    return fails("SSL_new") ? NULL : __real_SSL_new(context);
}

int
__wrap_SSL_set_fd(SSL *ssl, int fd)
{
    return fails("SSL_set_fd") ? 0 : __real_SSL_set_fd(ssl, fd);
}

BIO *
__wrap_BIO_new_mem_buf(const void *bytes, int len)
{
    return fails("BIO_new_mem_buf") ? NULL : __real_BIO_new_mem_buf(bytes, len);
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    return &hands.clock;
}

static void
shift(const char *path, struct stat *st)
{
    if (strcmp(path, "server.key") == 0) {
        st->st_dev += stat_shift == 1;
        st->st_ino += stat_shift == 2;
        st->st_mtim.tv_sec += stat_shift == 3;
        st->st_mtim.tv_nsec += stat_shift == 4;
        st->st_ctim.tv_sec += stat_shift == 5;
        st->st_ctim.tv_nsec += stat_shift == 6;
    }
}

int
__wrap_stat(const char *path, struct stat *st)
{
    int rc = __real_stat(path, st);

    if (rc == 0) {
        shift(path, st);
        st->st_size += stat_shift == 7;
    }
    return rc;
}

ssize_t
__wrap_wp_path_read(const char *path, int flags, char *text, size_t cap,
                    struct stat *st)
{
    ssize_t n;

    assert_int_equal(flags, O_NONBLOCK);
    if (open_fails != 0) {
        errno = open_fails;
        return -1;
    }
    n = __real_wp_path_read(path, flags, text, cap, st);
    shift(path, st);
    return n;
}

X509 *
__wrap_SSL_get0_peer_certificate(const SSL *ssl)
{
    assert_null(ssl);
    return shown;
}

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/tls_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

/* ----------------------------------------------------------------- files */

static void
put(const char *name, const char *text, size_t len)
{
    FILE *file = fopen(name, "we");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

/* The file's text, with that much room behind it; to be freed. */
static char *
get(const char *name, size_t *len)
{
    char *text = calloc(1, FILE_MAX + 2);
    FILE *file = fopen(name, "re");

    assert_non_null(text);
    assert_non_null(file);
    *len = fread(text, 1, FILE_MAX, file);
    assert_int_equal(fclose(file), 0);
    return text;
}

/* The PEM files a and b, one behind the other. */
static void
join(const char *name, const char *a, const char *b)
{
    size_t a_len;
    size_t b_len;
    char *text = get(a, &a_len);
    char *more = get(b, &b_len);

    memcpy(text + a_len, more, b_len);
    put(name, text, a_len + b_len);
    free(text);
    free(more);
}

/* The same, filled up to that size. */
static void
fill(const char *name, const char *from, size_t size)
{
    size_t len;
    char *text = get(from, &len);

    memset(text + len, '\n', size - len);
    put(name, text, size);
    free(text);
}

static void
lock_key(const char *name, const char *from)
{
    FILE *in = fopen(from, "re");
    FILE *out = fopen(name, "we");
    EVP_PKEY *key = PEM_read_PrivateKey(in, NULL, NULL, NULL);

    assert_non_null(key);
    assert_int_equal(PEM_write_PrivateKey(out, key, EVP_aes_128_cbc(),
                                          (const unsigned char *)"abcd", 4,
                                          NULL, NULL),
                     1);
    EVP_PKEY_free(key);
    assert_int_equal(fclose(in), 0);
    assert_int_equal(fclose(out), 0);
}

static int
set_up(void **state)
{
    (void)state;
    temp_dir_make_fast(dir, sizeof dir);
    assert_int_equal(chdir(dir), 0);
    tls_certs_make(".");
    assert_int_equal(mkdir("folder", 0700), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    put("empty", "", 0);
    put("words", "words\n", 6);
    put("one", "x", 1);
    join("chain.pem", "server.pem", "ca.pem");
    join("bad-chain.pem", "server.pem", "words");
    join("two-ca.pem", "ca.pem", "other-ca.pem");
    fill("most.pem", "server.pem", FILE_MAX);
    fill("more.pem", "server.pem", FILE_MAX + 1);
    lock_key("locked.key", "server.key");
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    (void)rmdir(dir);
    {
        char folder[600];

        (void)snprintf(folder, sizeof folder, "%s/folder", dir);
        (void)rmdir(folder);
    }
    temp_dir_remove(dir);
    return 0;
}

static int
begin(void **state)
{
    (void)state;
    wp_clock_manual_init(&hands, 1000 * WP_NS_PER_S, 0);
    stat_shift = 0;
    open_fails = 0;
    fails_in = 0;
    journal_drop();
    return 0;
}

/* ----------------------------------------------------------------- tests */

static struct wp_tls *
make(const char *cert, const char *key, const char *ca)
{
    static struct wp_tls_config config;
    struct wp_err err = {0};
    struct wp_tls *tls;

    config = (struct wp_tls_config){
        .cert = cert, .key = key, .client_ca = ca, .protocol = "h2"};
    tls = wp_tls_create(&config, &err);
    journal("%s %s %s: %s", cert, key, ca != NULL ? ca : "-",
            tls != NULL ? "good" : err.msg);
    if (tls == NULL) {
        journal(" (%d)", (int)err.status);
    }
    journal_line();
    return tls;
}

static void
only_good_files_are_taken(void **state)
{
    static const char *const cases[][3] = {
        {"server.pem", "server.key", NULL},
        {"server.pem", "server.key", "ca.pem"},
        {"chain.pem", "server.key", "two-ca.pem"},
        {"most.pem", "server.key", NULL},
        {"more.pem", "server.key", NULL},
        {"empty", "server.key", NULL},
        {"one", "server.key", NULL},
        {"nothing", "server.key", NULL},
        {"folder", "server.key", NULL},
        {"fifo", "server.key", NULL},
        {"words", "server.key", NULL},
        {"server.key", "server.key", NULL},
        {"bad-chain.pem", "server.key", NULL},
        {"server.pem", "nothing", NULL},
        {"server.pem", "words", NULL},
        {"server.pem", "locked.key", NULL},
        {"server.pem", "client.key", NULL},
        {"server.pem", "server.pem", NULL},
        {"server.pem", "server.key", "nothing"},
        {"server.pem", "server.key", "words"},
        {"server.pem", "server.key", "server.key"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof(cases[0]); i++) {
        wp_tls_destroy(make(cases[i][0], cases[i][1], cases[i][2]));
        /* No word of it is left for who asks OpenSSL next. */
        assert_int_equal(ERR_peek_error(), 0);
    }
    open_fails = EACCES;
    wp_tls_destroy(make("server.pem", "server.key", NULL));
    wp_tls_destroy(NULL);
    golden("files");
}

static void
memory_may_lack_at_each_step(void **state)
{
    static const char *const steps[] = {"calloc", "SSL_CTX_new",
                                        "BIO_new_mem_buf"};
    struct wp_tls *tls;
    SSL *ssl;

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof(steps[0]); i++) {
        for (unsigned nth = 1;; nth++) {
            journal("%s %u: ", steps[i], nth);
            fail_at(steps[i], nth);
            tls = make("server.pem", "server.key", "ca.pem");
            if (tls != NULL) {
                break;
            }
        }
        wp_tls_destroy(tls);
    }
    fails_in = 0;
    tls = make("server.pem", "server.key", "ca.pem");
    assert_non_null(tls);
    fail_at("SSL_new", 1);
    assert_null(wp_tls_open(tls, FD));
    fail_at("SSL_set_fd", 1);
    assert_null(wp_tls_open(tls, FD));
    ssl = wp_tls_open(tls, FD);
    assert_non_null(ssl);
    SSL_free(ssl);
    wp_tls_destroy(tls);
    golden("no_memory");
}

static void
show(const struct wp_tls_config *config)
{
    struct wp_err err;
    struct wp_tls *tls = wp_tls_create(config, &err);
    SSL *ssl;
    SSL_CTX *context;
    STACK_OF(X509) *chain = NULL;

    assert_non_null(tls);
    ssl = wp_tls_open(tls, FD);
    assert_non_null(ssl);
    context = SSL_get_SSL_CTX(ssl);
    journal("fd %d, server %d, at least %lx, verify %d", SSL_get_fd(ssl),
            SSL_is_server(ssl), (unsigned long)SSL_get_min_proto_version(ssl),
            SSL_get_verify_mode(ssl));
    journal_line();
    journal("options %llx, mode %lx, cache %ld, tickets %zu",
            (unsigned long long)(SSL_get_options(ssl) &
                                 (SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                                  SSL_OP_NO_COMPRESSION |
                                  SSL_OP_CIPHER_SERVER_PREFERENCE |
                                  SSL_OP_IGNORE_UNEXPECTED_EOF)),
            (unsigned long)SSL_get_mode(ssl),
            SSL_CTX_get_session_cache_mode(context),
            SSL_CTX_get_num_tickets(context));
    journal_line();
    for (int i = 0; SSL_get_cipher_list(ssl, i) != NULL; i++) {
        journal(" %s", SSL_get_cipher_list(ssl, i));
    }
    journal_line();
    (void)SSL_CTX_get0_chain_certs(context, &chain);
    journal("chain %d, authorities %d", chain != NULL ? sk_X509_num(chain) : 0,
            SSL_CTX_get_client_CA_list(context) != NULL
                ? sk_X509_NAME_num(SSL_CTX_get_client_CA_list(context))
                : 0);
    journal_line();
    SSL_free(ssl);
    wp_tls_destroy(tls);
}

static void
connections_are_made_so(void **state)
{
    (void)state;
    show(&(struct wp_tls_config){
        .cert = "server.pem", .key = "server.key", .protocol = "h2"});
    show(&(struct wp_tls_config){.cert = "chain.pem",
                                 .key = "server.key",
                                 .client_ca = "ca.pem",
                                 .protocol = "h2"});
    show(&(struct wp_tls_config){.cert = "chain.pem",
                                 .key = "server.key",
                                 .client_ca = "two-ca.pem",
                                 .client_may_hide = true,
                                 .protocol = "h2"});
    golden("contexts");
}

/* A handshake in memory with a client that offers these protocols ("" for
 * none) and shows that certificate. */
static void
shake(struct wp_tls *tls, const char *offered, size_t len, const char *cert)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *client;
    SSL *server = wp_tls_open(tls, FD);
    BIO *ends[2];
    const unsigned char *chosen = NULL;
    unsigned chosen_len = 0;
    int rc[2] = {-1, -1};

    assert_non_null(context);
    assert_non_null(server);
    if (len > 0) {
        assert_int_equal(SSL_CTX_set_alpn_protos(context,
                                                 (const unsigned char *)offered,
                                                 (unsigned)len),
                         0);
    }
    if (cert != NULL) {
        char name[64];

        (void)snprintf(name, sizeof name, "%s.pem", cert);
        assert_int_equal(
            SSL_CTX_use_certificate_file(context, name, SSL_FILETYPE_PEM), 1);
        (void)snprintf(name, sizeof name, "%s.key", cert);
        assert_int_equal(
            SSL_CTX_use_PrivateKey_file(context, name, SSL_FILETYPE_PEM), 1);
    }
    client = SSL_new(context);
    assert_int_equal(BIO_new_bio_pair(&ends[0], 1 << 16, &ends[1], 1 << 16), 1);
    SSL_set_bio(client, ends[0], ends[0]);
    SSL_set_bio(server, ends[1], ends[1]);
    SSL_set_connect_state(client);
    for (int i = 0; i < 10; i++) {
        rc[0] = SSL_do_handshake(client);
        rc[1] = SSL_do_handshake(server);
    }
    SSL_get0_alpn_selected(server, &chosen, &chosen_len);
    journal("offers %zu, shows %s: %d, speaks %.*s", len,
            cert != NULL ? cert : "none", rc[1] == 1, (int)chosen_len,
            (const char *)chosen);
    journal_line();
    SSL_free(client);
    SSL_free(server);
    SSL_CTX_free(context);
    ERR_clear_error();
}

static void
one_protocol_is_spoken(void **state)
{
    static const char both[] = "\x8http/1.1\2h2";
    static const char other[] = "\3h2c\1h";
    const struct wp_tls_config config = {.cert = "server.pem",
                                         .key = "server.key",
                                         .client_ca = "ca.pem",
                                         .protocol = "h2"};
    struct wp_tls_config hiding = config;
    struct wp_err err;
    struct wp_tls *tls = wp_tls_create(&config, &err);

    (void)state;
    assert_non_null(tls);
    shake(tls, both, sizeof both - 1, "client");
    shake(tls, other, sizeof other - 1, "client");
    shake(tls, "", 0, "client");
    shake(tls, both, sizeof both - 1, NULL);
    shake(tls, both, sizeof both - 1, "other-ca");
    wp_tls_destroy(tls);
    say("it may hide");
    hiding.client_may_hide = true;
    hiding.protocol = "http/1.1";
    tls = wp_tls_create(&hiding, &err);
    assert_non_null(tls);
    shake(tls, both, sizeof both - 1, NULL);
    shake(tls, both, sizeof both - 1, "other-ca");
    shake(tls, both, sizeof both - 1, "client");
    wp_tls_destroy(tls);
    golden("handshakes");
}

/* Whether a connection has other certificates than the one before. */
static void
open_one(struct wp_tls *tls, const char *when)
{
    static const SSL_CTX *before;
    struct heard heard;
    const char *log;
    SSL *ssl;

    heard_begin(&heard);
    ssl = wp_tls_open(tls, FD);
    log = heard_end(&heard);
    assert_non_null(ssl);
    journal("%s: %s, %llu reloads, log: %s", when,
            SSL_get_SSL_CTX(ssl) == before ? "the same" : "another",
            (unsigned long long)wp_tls_reloads(tls), log);
    journal_line();
    /* A new one may lie where the old one was: it is held. */
    SSL_CTX_up_ref(SSL_get_SSL_CTX(ssl));
    if (before != NULL) {
        SSL_CTX_free((SSL_CTX *)(uintptr_t)before);
    }
    before = SSL_get_SSL_CTX(ssl);
    if (strcmp(when, "last") == 0) {
        SSL_CTX_free((SSL_CTX *)(uintptr_t)before);
        before = NULL;
    }
    SSL_free(ssl);
}

static void
files_are_read_again_when_they_change(void **state)
{
    struct wp_tls *tls = make("server.pem", "server.key", "ca.pem");

    (void)state;
    assert_non_null(tls);
    open_one(tls, "first");
    for (stat_shift = 1; stat_shift <= 7; stat_shift++) {
        open_one(tls, "changed");
        open_one(tls, "as it is");
    }
    stat_shift = 0;
    open_one(tls, "last");
    wp_tls_destroy(tls);
    assert_int_equal(wp_tls_reloads(NULL), 0);
    golden("changes");
}

static void
what_is_not_usable_changes_nothing(void **state)
{
    struct wp_tls *tls;

    (void)state;
    join("s.pem", "server.pem", "empty");
    join("s.key", "server.key", "empty");
    tls = make("s.pem", "s.key", NULL);
    assert_non_null(tls);
    open_one(tls, "first");
    say("half a renewal");
    join("s.pem", "client.pem", "words");
    open_one(tls, "bad");
    hands.now_mono_ns += 10 * WP_NS_PER_S;
    open_one(tls, "as bad");
    join("s.key", "client.key", "words");
    open_one(tls, "whole");
    say("away");
    assert_int_equal(unlink("s.key"), 0);
    open_one(tls, "away");
    join("s.key", "client.key", "words");
    open_one(tls, "back");
    say("it cannot be read");
    join("s.key", "client.key", "one");
    open_fails = EMFILE;
    open_one(tls, "unread");
    hands.now_mono_ns += WP_NS_PER_S - 1;
    open_one(tls, "too early");
    hands.now_mono_ns += 1;
    open_one(tls, "unread, without a word");
    open_fails = 0;
    hands.now_mono_ns += WP_NS_PER_S - 1;
    open_one(tls, "too early again");
    hands.now_mono_ns += 1;
    open_one(tls, "read");
    hands.now_mono_ns += WP_NS_PER_S;
    open_one(tls, "as it is");
    say("no memory, and then there is");
    join("s.key", "client.key", "empty");
    fail_at("SSL_CTX_new", 1);
    open_one(tls, "none");
    hands.now_mono_ns += WP_NS_PER_S - 1;
    open_one(tls, "too early");
    hands.now_mono_ns += 1;
    open_one(tls, "there is");
    say("from unread to unusable");
    join("s.key", "client.key", "one");
    open_fails = EMFILE;
    open_one(tls, "unread");
    open_fails = 0;
    join("s.key", "server.key", "empty");
    open_one(tls, "unusable");
    hands.now_mono_ns += WP_NS_PER_S;
    open_one(tls, "last");
    wp_tls_destroy(tls);
    golden("unusable");
}

/* ----------------------------------------------------------------- names */

static bool
on_name(void *ctx, struct wp_str name)
{
    unsigned *left = ctx;

    journal(" [%.*s]", (int)name.len, name.ptr);
    return --*left > 0;
}

/* common: "" for none; alternatives NULL: none. */
static void
name_it(const char *common, const char *alternatives)
{
    shown = X509_new();
    assert_non_null(shown);
    if (*common != '\0') {
        assert_int_equal(X509_NAME_add_entry_by_txt(
                             X509_get_subject_name(shown), "CN", MBSTRING_UTF8,
                             (const unsigned char *)common, -1, -1, 0),
                         1);
    }
    if (alternatives != NULL) {
        X509_EXTENSION *extension =
            X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, alternatives);

        assert_non_null(extension);
        assert_int_equal(X509_add_ext(shown, extension, -1), 1);
        X509_EXTENSION_free(extension);
    }
    journal("%s, %s:", common, alternatives != NULL ? alternatives : "-");
    journal_line();
    for (unsigned most = 1; most <= 7; most++) {
        unsigned left = most;

        journal(" ");
        wp_tls_names(NULL, on_name, &left);
        journal_line();
        if (left > 0) {
            break;
        }
    }
    X509_free(shown);
    shown = NULL;
}

static void
a_certificate_names_in_order(void **state)
{
    unsigned left = 9;

    (void)state;
    wp_tls_names(NULL, on_name, &left);
    name_it("common", NULL);
    name_it("", NULL);
    name_it("caf\xc3\xa9", "DNS:one,URI:https://two,URI:spiffe://three,"
                           "IP:127.0.0.1,DNS:four,URI:spiffe://five");
    name_it("", "DNS:spiffe://dns,URI:spiffe:/uri,email:a@b");
    assert_int_equal(ERR_peek_error(), 0);
    golden("names");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup(test, begin)
    const struct CMUnitTest tests[] = {
        ONE(only_good_files_are_taken),
        ONE(memory_may_lack_at_each_step),
        ONE(connections_are_made_so),
        ONE(one_protocol_is_spoken),
        ONE(files_are_read_again_when_they_change),
        ONE(what_is_not_usable_changes_nothing),
        ONE(a_certificate_names_in_order),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
