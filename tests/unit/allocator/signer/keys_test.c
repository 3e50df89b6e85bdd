/* tests/unit/allocator/signer/keys_test.c - the keys of identities one by one:
 * their names and their order, whose turn it is to the second, and what follows
 * when a call below fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/signer/keys_impl.h"
#include "pool/base/log.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/held_locks.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/pool/manual_clock.h"

#define START_S INT64_C(1700000000)

static char dir[512];
static struct wp_clock_manual wall;

/* The n-th call of each fails; 0: none. */
static struct {
    unsigned calloc, strdup, mkdir, stat, opendir, fdopen, write, fflush, fsync,
        fclose, rename, sign, sign_init, gen;
} fails;
static unsigned opened;  /* Folders. */
static int64_t folder_s; /* What stat says of a folder's change; 0: as it is. */
static bool same_names;  /* Each is that of the last one made then. */

#define FAILS(name) (fails.name > 0 && --fails.name == 0)

#define WRAP(type, name, ...)                                                  \
    type __real_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

WRAP(void *, calloc, size_t n, size_t size);
WRAP(char *, strdup, const char *text);
WRAP(int, mkdir, const char *path, mode_t mode);
WRAP(int, stat, const char *path, struct stat *out);
WRAP(DIR *, opendir, const char *path);
WRAP(FILE *, fdopen, int fd, const char *mode);
WRAP(int, PEM_write_PrivateKey, FILE *file, const EVP_PKEY *pair,
     const EVP_CIPHER *cipher, const unsigned char *pass, int len,
     pem_password_cb *ask, void *ctx);
WRAP(int, fflush, FILE *file);
WRAP(int, fsync, int fd);
WRAP(int, fclose, FILE *file);
WRAP(int, rename, const char *from, const char *to);
WRAP(int, EVP_PKEY_sign, EVP_PKEY_CTX *ctx, unsigned char *out, size_t *len,
     const unsigned char *in, size_t in_len);
WRAP(int, EVP_PKEY_sign_init, EVP_PKEY_CTX *ctx);
WRAP(EVP_PKEY *, EVP_PKEY_Q_keygen, OSSL_LIB_CTX *lib, const char *query,
     const char *type, ...);
WRAP(void, wp_random_bytes, void *out, size_t len);

static int
failed(int error)
{
    errno = error;
    return -1;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return FAILS(calloc) ? NULL : __real_calloc(n, size);
}

char *
__wrap_strdup(const char *text)
{
    return FAILS(strdup) ? NULL : __real_strdup(text);
}

int
__wrap_mkdir(const char *path, mode_t mode)
{
    assert_int_equal(mode, 0700);
    return FAILS(mkdir) ? failed(EROFS) : __real_mkdir(path, mode);
}

int
__wrap_stat(const char *path, struct stat *out)
{
    int rc = FAILS(stat) ? failed(ENOENT) : __real_stat(path, out);

    if (rc == 0 && folder_s != 0) {
        out->st_mtim = (struct timespec){.tv_sec = folder_s};
    }
    return rc;
}

DIR *
__wrap_opendir(const char *path)
{
    if (strcmp(path, dir) != 0) { /* Who counts descriptors. */
        return __real_opendir(path);
    }
    opened++;
    if (FAILS(opendir)) {
        errno = EMFILE;
        return NULL;
    }
    return __real_opendir(path);
}

FILE *
__wrap_fdopen(int fd, const char *mode)
{
    if (FAILS(fdopen)) {
        errno = ENOMEM;
        return NULL;
    }
    return __real_fdopen(fd, mode);
}

int
__wrap_PEM_write_PrivateKey(FILE *file, const EVP_PKEY *pair,
                            const EVP_CIPHER *cipher, const unsigned char *pass,
                            int len, pem_password_cb *ask, void *ctx)
{
    return FAILS(write) ? 0
                        : __real_PEM_write_PrivateKey(file, pair, cipher, pass,
                                                      len, ask, ctx);
}

int
__wrap_fflush(FILE *file)
{
    return FAILS(fflush) ? failed(ENOSPC) : __real_fflush(file);
}

int
__wrap_fsync(int fd)
{
    return FAILS(fsync) ? failed(EDQUOT) : __real_fsync(fd);
}

int
__wrap_fclose(FILE *file)
{
    bool fails_now = FAILS(fclose);
    int rc = __real_fclose(file);

    return fails_now ? failed(EFBIG) : rc;
}

int
__wrap_rename(const char *from, const char *to)
{
    return FAILS(rename) ? failed(EXDEV) : __real_rename(from, to);
}

int
__wrap_EVP_PKEY_sign(EVP_PKEY_CTX *ctx, unsigned char *out, size_t *len,
                     const unsigned char *in, size_t in_len)
{
    return FAILS(sign) ? 0 : __real_EVP_PKEY_sign(ctx, out, len, in, in_len);
}

int
__wrap_EVP_PKEY_sign_init(EVP_PKEY_CTX *ctx)
{
    return FAILS(sign_init) ? 0 : __real_EVP_PKEY_sign_init(ctx);
}

/* What EVP_EC_gen is. */
EVP_PKEY *
__wrap_EVP_PKEY_Q_keygen(OSSL_LIB_CTX *lib, const char *query, const char *type,
                         ...)
{
    const char *curve;
    va_list args;

    va_start(args, type);
    curve = va_arg(args, const char *);
    va_end(args);
    errno = 0;
    return FAILS(gen) ? NULL
                      : __real_EVP_PKEY_Q_keygen(lib, query, type, curve);
}

void
__wrap_wp_random_bytes(void *out, size_t len)
{
    if (same_names) {
        memset(out, 0xab, len);
    } else {
        __real_wp_random_bytes(out, len);
    }
}

static int
set_up(void **state)
{
    (void)state;
    memset(&fails, 0, sizeof fails);
    folder_s = 0;
    same_names = false;
    temp_dir_make(dir, sizeof dir);
    wp_clock_manual_init(&wall, 0, START_S * WP_NS_PER_S);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    held_locks_are_free();
    memset(&fails, 0, sizeof fails);
    temp_dir_remove(dir);
    return 0;
}

static struct wp_signer_keys_config
config_of(const char *at)
{
    return (struct wp_signer_keys_config){.dir = at,
                                          .turn_s = 1000,
                                          .ahead_s = 100,
                                          .life_s = 500,
                                          .clock = &wall.clock};
}

/* ------------------------------------------------------ texts and their order */

static void
test_base64_of_each_length(void **state)
{
    static const uint8_t bytes[] = {0xfb, 0xff, 0xfe, 0x00, 0x10, 0xff, 0xff};
    static const char *const texts[] = {
        "", "-w", "-_8", "-__-", "-__-AA", "-__-ABA", "-__-ABD_", "-__-ABD__w"};
    char out[16];

    (void)state;
    for (size_t len = 0; len < WP_ARRAY_LEN(texts); len++) {
        memset(out, 'x', sizeof out);
        assert_int_equal(wp_signer_b64(bytes, len, out), strlen(texts[len]));
        assert_string_equal(out, texts[len]);
    }
}

static void
test_names_of_keys(void **state)
{
    static const char *const bad[] = {"",
                                      "1700000000-01234567.pem",
                                      "001700000000-0123456.pem",
                                      "001700000000-012345678.pem",
                                      "001700000000_01234567.pem",
                                      "001700000000-01234567.pen",
                                      "00170000000x-01234567.pem",
                                      "-01700000000-01234567.pem",
                                      "001700000000-01234567.pem.new"};
    struct wp_signer_key key;
    char name[WP_SIGNER_KEY_NAME_MAX + 1];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        assert_false(wp_signer_key_read_name(bad[i], &key));
    }
    assert_true(wp_signer_key_read_name("001700000001-89abcdef.pem", &key));
    assert_true(key.made_s == START_S + 1);
    assert_string_equal(key.name, "001700000001-89abcdef.pem");
    same_names = true;
    wp_signer_key_name(START_S, name);
    assert_string_equal(name, "001700000000-abababab.pem");
    wp_signer_key_name(7, name);
    assert_string_equal(name, "000000000007-abababab.pem");
}

static void
insert(struct wp_signer_keys *keys, int64_t made_s)
{
    struct wp_signer_key key = {.made_s = made_s};

    (void)snprintf(key.name, sizeof key.name, "%012lld-00000000.pem",
                   (long long)made_s);
    wp_signer_keys_insert(keys, &key);
}

static void
are(const struct wp_signer_keys *keys, const char *expected)
{
    char text[256] = "";

    for (uint32_t i = 0; i < keys->n; i++) {
        size_t at = strlen(text);

        (void)snprintf(text + at, sizeof text - at, "%lld ",
                       (long long)keys->key[i].made_s);
    }
    assert_string_equal(text, expected);
}

/* The oldest first; where there is no room it goes, and is not taken. */
static void
test_the_order_of_keys(void **state)
{
    static const int64_t made_s[] = {50, 20, 80, 30, 70, 40, 60, 25};
    struct wp_signer_keys keys = {.n = 0};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(made_s); i++) {
        insert(&keys, made_s[i]);
    }
    are(&keys, "20 25 30 40 50 60 70 80 ");
    insert(&keys, 10);
    are(&keys, "20 25 30 40 50 60 70 80 ");
    insert(&keys, 22);
    are(&keys, "22 25 30 40 50 60 70 80 ");
    insert(&keys, 90);
    are(&keys, "25 30 40 50 60 70 80 90 ");
    insert(&keys, 55);
    are(&keys, "30 40 50 55 60 70 80 90 ");
    wp_signer_keys_drop(&keys, 7);
    wp_signer_keys_drop(&keys, 0);
    wp_signer_keys_drop(&keys, 2);
    are(&keys, "40 50 60 70 80 ");
    while (keys.n > 0) {
        wp_signer_keys_drop(&keys, 0);
    }
}

/* One signs from ahead_s after it was made, for turn_s; what it has signed is
 * good for life_s. */
static void
test_when_a_key_is_due_and_over(void **state)
{
    static const struct {
        int64_t now_s;
        bool due;
        uint32_t over;
    } rows[] = {
        {0, true, 0},     {899, true, 0},   {900, false, 0}, {2600, false, 0},
        {2601, false, 1}, {2899, false, 1}, {2900, true, 1}, {9999, true, 1},
    };
    struct wp_signer_keys keys = {.config = config_of(NULL)};

    (void)state;
    assert_true(wp_signer_keys_are_due(&keys, 5));
    assert_int_equal(wp_signer_keys_over(&keys, 5), 0);
    insert(&keys, 1000);
    insert(&keys, 2000);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_int_equal(wp_signer_keys_are_due(&keys, rows[i].now_s),
                         rows[i].due);
        assert_int_equal(wp_signer_keys_over(&keys, rows[i].now_s),
                         rows[i].over);
    }
    keys.n = 0;
}

/* --- What is a key --- */

static void
test_which_pair_is_a_key(void **state)
{
    struct wp_signer_key key = {.signs = NULL};

    (void)state;
    assert_false(wp_signer_key_take(&key, NULL));
    assert_null(key.signs);
    assert_false(wp_signer_key_take(&key, EVP_EC_gen("P-384")));
    assert_null(key.signs);
    assert_false(wp_signer_key_take(&key, EVP_RSA_gen(1024)));
    assert_null(key.signs);
    fails.sign_init = 1;
    assert_false(wp_signer_key_take(&key, EVP_EC_gen("P-256")));
    assert_null(key.signs);
    assert_true(wp_signer_key_take(&key, EVP_EC_gen("P-256")));
    assert_int_equal(strlen(key.public_key.id), WP_SIGNER_B64_MAX);
    assert_int_equal(strlen(key.public_key.x), WP_SIGNER_B64_MAX);
    assert_int_equal(strlen(key.public_key.y), WP_SIGNER_B64_MAX);
    EVP_PKEY_CTX_free(key.signs);
}

/* Its point, and the thumbprint of RFC 7638. */
static void
test_what_is_published_of_a_key(void **state)
{
    static const char pem[] =
        "-----BEGIN EC PRIVATE KEY-----\n"
        "MHcCAQEEIPwjbsn9MKfJZegfpjSKu9qMu5pQ07r0nA+IUZEsGOp2oAoGCCqGSM49\n"
        "AwEHoUQDQgAEU4irk4guvIA8Uo+WBpUz6JzSUkXAtygsAKPupwksEebEZAJ1pzKm\n"
        "jkqNQWCv3SFSUOw4dsGG1ZFKLlld0NQwhw==\n"
        "-----END EC PRIVATE KEY-----\n";
    BIO *bio = BIO_new_mem_buf(pem, -1);
    struct wp_signer_key key;

    (void)state;
    assert_true(wp_signer_key_take(
        &key, PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL)));
    assert_string_equal(key.public_key.x,
                        "U4irk4guvIA8Uo-WBpUz6JzSUkXAtygsAKPupwksEeY");
    assert_string_equal(key.public_key.y,
                        "xGQCdacypo5KjUFgr90hUlDsOHbBhtWRSi5ZXdDUMIc");
    assert_string_equal(key.public_key.id,
                        "tan0O-rwNUyKRrSUPFW-4pZK8YNVaXMIqogtZYkIJBM");
    EVP_PKEY_CTX_free(key.signs);
    BIO_free(bio);
}

/* ------------------------------------------------------------------ a folder */

/* The names in the folder, as far as they are known. */
static unsigned
files(void)
{
    DIR *folder = __real_opendir(dir);
    const struct dirent *entry;
    unsigned n = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        n += entry->d_name[0] != '.';
    }
    (void)closedir(folder);
    return n;
}

/* With one call failing no keys can be had, and nothing is left behind. */
static void
is_refused(const char *path, enum wp_status status, const char *what,
           const char *why)
{
    const struct wp_signer_keys_config config = config_of(path);
    size_t before = descriptors_count();
    struct wp_err err = {.msg = ""};
    char text[700];

    assert_null(wp_signer_keys_create(&config, &err));
    memset(&fails, 0, sizeof fails);
    assert_int_equal(err.status, status);
    (void)snprintf(text, sizeof text, "%s%.200s%s", what,
                   why[0] != '\0' ? path : "", why[0] == ' ' ? "" : why);
    assert_string_equal(err.msg, text);
    assert_int_equal(descriptors_count(), before);
}

#define NO_KEY "cannot make a key of identities in "

static void
test_no_keys_can_be_had(void **state)
{
    char below[600];

    (void)state;
    fails.calloc = 1;
    is_refused(dir, WP_RESOURCE_EXHAUSTED, "no memory", "");
    fails.strdup = 1;
    is_refused(dir, WP_RESOURCE_EXHAUSTED, "no memory", "");
    fails.mkdir = 1;
    is_refused(dir, WP_FAILED_PRECONDITION, "cannot make ",
               ": Read-only file system");
    fails.gen = 1;
    is_refused(dir, WP_UNAVAILABLE, NO_KEY, ": Success");
    fails.fdopen = 1;
    is_refused(dir, WP_UNAVAILABLE, NO_KEY, ": Cannot allocate memory");
    assert_int_equal(files(), 0);
    fails.write = 1;
    is_refused(dir, WP_UNAVAILABLE, NO_KEY, ": Input/output error");
    fails.fflush = 1;
    is_refused(dir, WP_UNAVAILABLE, NO_KEY, ": No space left on device");
    fails.fsync = 1;
    is_refused(dir, WP_UNAVAILABLE, NO_KEY, ": Disk quota exceeded");
    fails.fclose = 1;
    is_refused(dir, WP_UNAVAILABLE, NO_KEY, ": File too large");
    fails.rename = 1;
    is_refused(dir, WP_UNAVAILABLE, NO_KEY, ": Invalid cross-device link");
    assert_int_equal(files(), 0);
    /* What was made, and cannot be read. */
    fails.opendir = 2;
    is_refused(dir, WP_UNAVAILABLE, "cannot read the keys of identities in ",
               " ");
    temp_dir_empty(dir);
    fails.stat = 2;
    is_refused(dir, WP_UNAVAILABLE, "cannot read the keys of identities in ",
               " ");
    temp_dir_empty(dir);
    (void)snprintf(below, sizeof below, "%s/none/keys", dir);
    is_refused(below, WP_FAILED_PRECONDITION, "cannot make ",
               ": No such file or directory");
}

/* What is in the way of a new key is not ours, and stays. */
static void
test_a_file_in_the_way(void **state)
{
    char path[600];
    int fd;

    (void)state;
    same_names = true;
    (void)snprintf(path, sizeof path, "%s/%s", dir,
                   "001700000000-abababab.pem.new");
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    is_refused(dir, WP_UNAVAILABLE, NO_KEY, ": File exists");
    assert_int_equal(access(path, F_OK), 0);
}

static struct wp_str
head(void *ctx, const char *key_id)
{
    (void)snprintf(ctx, 64, "%s", key_id);
    return WP_STR("text");
}

static struct wp_signer_keys *
open_keys(void)
{
    const struct wp_signer_keys_config config = config_of(dir);
    struct wp_err err;
    struct wp_signer_keys *keys = wp_signer_keys_create(&config, &err);

    if (keys == NULL) {
        fail_msg("%s", err.msg);
    }
    return keys;
}

static void
test_a_key_that_cannot_sign(void **state)
{
    struct wp_signer_keys *keys = open_keys();
    uint8_t signature[WP_SIGNER_SIGNATURE_BYTES];
    char id[64];
    struct wp_err err;

    (void)state;
    fails.sign = 1;
    assert_int_equal(wp_signer_keys_sign(keys, head, id, signature, &err),
                     WP_UNAVAILABLE);
    assert_string_equal(err.msg, "the identity cannot be signed");
    assert_int_equal(wp_signer_keys_sign(keys, head, id, signature, &err),
                     WP_OK);
    assert_string_equal(id, keys->key[0].public_key.id);
    wp_signer_keys_destroy(keys);
}

/* Of a folder that is as it was nothing is read again; and what cannot be read
 * now leaves the keys that there are. */
static void
test_a_folder_is_read_when_it_changes(void **state)
{
    struct wp_signer_public_key out[WP_SIGNER_KEYS_MAX];
    struct wp_signer_keys *keys;
    size_t before = descriptors_count();

    (void)state;
    folder_s = time(NULL) - 4;
    keys = open_keys();
    opened = 0;
    assert_int_equal(wp_signer_keys_public(keys, out), 1);
    assert_int_equal(opened, 0);
    folder_s++;
    fails.opendir = 1;
    assert_int_equal(wp_signer_keys_public(keys, out), 1);
    assert_int_equal(opened, 1);
    fails.stat = 1;
    assert_int_equal(wp_signer_keys_public(keys, out), 1);
    assert_int_equal(opened, 1);
    assert_int_equal(wp_signer_keys_public(keys, out), 1);
    assert_int_equal(opened, 2);
    assert_int_equal(wp_signer_keys_public(keys, out), 1);
    assert_int_equal(opened, 2);
    /* One that has changed a moment ago may change again. */
    folder_s = time(NULL) + 60;
    assert_int_equal(wp_signer_keys_public(keys, out), 1);
    assert_int_equal(wp_signer_keys_public(keys, out), 1);
    assert_int_equal(opened, 4);
    /* Another key is taken from it although its time is as before. */
    folder_s = time(NULL) - 1000;
    assert_int_equal(wp_signer_keys_public(keys, out), 1);
    wp_clock_manual_advance(&wall, 900 * WP_NS_PER_S);
    {
        uint8_t signature[WP_SIGNER_SIGNATURE_BYTES];
        char id[64];
        struct wp_err err;

        assert_int_equal(wp_signer_keys_sign(keys, head, id, signature, &err),
                         WP_OK);
    }
    assert_int_equal(keys->n, 2);
    assert_int_equal(files(), 2);
    wp_signer_keys_destroy(keys);
    assert_int_equal(descriptors_count(), before);
}

/* A folder's file that cannot be opened as one is none, and is told of. */
static void
test_what_cannot_be_opened(void **state)
{
    struct wp_signer_keys *keys = open_keys();
    struct wp_signer_public_key out[WP_SIGNER_KEYS_MAX];
    struct heard heard;
    char expected[300];
    char name[WP_SIGNER_KEY_NAME_MAX + 1];
    size_t before = descriptors_count();

    (void)state;
    (void)snprintf(name, sizeof name, "%s", keys->key[0].name);
    wp_signer_keys_destroy(keys);
    wp_log_configure(WP_LOG_INFO, WP_LOG_TEXT);
    heard_begin(&heard);
    fails.fdopen = 1;
    keys = open_keys();
    (void)snprintf(expected, sizeof expected,
                   "WARN key of identities not used: an ES256 key that only "
                   "the daemon's user can read was expected file=%s\n",
                   name);
    assert_string_equal(heard_end(&heard), expected);
    /* It has made another one; both are there once it can be opened. */
    assert_int_equal(wp_signer_keys_public(keys, out), 2);
    wp_signer_keys_destroy(keys);
    assert_int_equal(descriptors_count(), before);
}

/* With keys that sign, a new one that cannot be made is only told of. */
static void
test_no_next_key(void **state)
{
    struct wp_signer_keys *keys = open_keys();
    uint8_t signature[WP_SIGNER_SIGNATURE_BYTES];
    char id[64];
    char expected[400];
    struct heard heard;
    struct wp_err err;
    enum wp_status status;

    (void)state;
    wp_clock_manual_advance(&wall, 900 * WP_NS_PER_S);
    wp_log_configure(WP_LOG_INFO, WP_LOG_TEXT);
    heard_begin(&heard);
    fails.rename = 1;
    status = wp_signer_keys_sign(keys, head, id, signature, &err);
    (void)heard_end(&heard);
    assert_int_equal(status, WP_OK);
    (void)snprintf(expected, sizeof expected,
                   "cannot make a key of identities in %.200s: Invalid "
                   "cross-device link",
                   dir);
    assert_memory_equal(heard.text, "WARN no new key for identities", 30);
    assert_non_null(strstr(heard.text, expected));
    assert_int_equal(keys->n, 1);
    assert_int_equal(files(), 1);
    wp_signer_keys_destroy(keys);
}

/* ------------------------------------------------------------------ a Secret */

/* A key's text in base64, with so many line feeds behind it. */
static json_t *
entry_of(size_t len)
{
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    BIO *bio = BIO_new(BIO_s_mem());
    unsigned char text[1200];
    unsigned char coded[1700];
    char *at;
    long n;

    assert_int_equal(
        PEM_write_bio_PrivateKey(bio, pair, NULL, NULL, 0, NULL, NULL), 1);
    n = BIO_get_mem_data(bio, &at);
    assert_in_range(n, 1, len);
    memset(text, '\n', sizeof text);
    memcpy(text, at, (size_t)n);
    (void)EVP_EncodeBlock(coded, text, (int)len);
    BIO_free(bio);
    EVP_PKEY_free(pair);
    return json_string((const char *)coded);
}

static void
test_how_long_an_entry_may_be(void **state)
{
    const struct wp_signer_keys_config config = config_of(NULL);
    struct wp_signer_public_key out[WP_SIGNER_KEYS_MAX];
    json_t *secret = json_object();
    struct wp_signer_keys *keys;
    struct heard heard;
    struct wp_err err;

    (void)state;
    keys = wp_signer_keys_create(&config, &err);
    assert_non_null(keys);
    (void)json_object_set_new(secret, "000000000001-00000000.pem",
                              entry_of(1020));
    (void)json_object_set_new(secret, "000000000002-00000000.pem",
                              entry_of(1021));
    wp_log_configure(WP_LOG_INFO, WP_LOG_TEXT);
    heard_begin(&heard);
    wp_signer_keys_take(keys, secret);
    assert_string_equal(heard_end(&heard),
                        "WARN key of identities not used: an ES256 key was "
                        "expected entry=000000000002-00000000.pem\n");
    assert_int_equal(wp_signer_keys_public(keys, out), 1);
    assert_true(keys->key[0].made_s == 1);
    json_decref(secret);
    wp_signer_keys_destroy(keys);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_base64_of_each_length),
        TEST(test_names_of_keys),
        TEST(test_the_order_of_keys),
        TEST(test_when_a_key_is_due_and_over),
        TEST(test_which_pair_is_a_key),
        TEST(test_what_is_published_of_a_key),
        TEST(test_no_keys_can_be_had),
        TEST(test_a_file_in_the_way),
        TEST(test_a_key_that_cannot_sign),
        TEST(test_a_folder_is_read_when_it_changes),
        TEST(test_what_cannot_be_opened),
        TEST(test_no_next_key),
        TEST(test_how_long_an_entry_may_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
