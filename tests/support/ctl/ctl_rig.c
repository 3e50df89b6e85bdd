#include "tests/support/ctl/ctl_rig.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <ctype.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/ctl/commands.h"
#include "allocator/ctl/rpc_client.h"
#include "allocator/ctl/run.h"
#include "pool/base/clock.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/pool/manual_clock.h"

enum {
    ANSWERS_MAX = 16,
    MESSAGES_MAX = 8,
    WORDS_MAX = 600,
    DEPTH_MAX = 8,
    SHOWN_MAX = 2000, /* Of a text. */
    SHOWN_PART = 40,
};

struct answer {
    enum wp_status status;
    const char *message;
    int64_t retry_after_ns;
    struct {
        uint8_t *bytes;
        size_t len;
    } messages[MESSAGES_MAX];
    int n;
};

struct ctl_rig ctl_rig;
static struct answer answers[ANSWERS_MAX];
static int n_answers;
static int next_answer;
static struct wp_clock_manual ctl_clock;

/* --- The transcript --- */

void
ctl_note(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    assert_true(vfprintf(ctl_rig.transcript, fmt, args) >= 0);
    va_end(args);
}

static void
note_escaped(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool plain = isprint(bytes[i]) != 0 && bytes[i] != '\\';

        ctl_note(plain ? "%c" : "\\x%02x", bytes[i]);
    }
}

void
ctl_note_bytes(const char *label, const void *bytes, size_t len)
{
    ctl_note("%s ", label);
    note_escaped(bytes, len);
    ctl_note("\n");
}

/* --- Messages, as their bytes tell: {field: value ...} --- */

static bool
get_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; *p < end && shift < 64; shift += 7) {
        uint8_t byte = *(*p)++;

        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

static bool
is_text(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (isprint(bytes[i]) == 0) {
            return false;
        }
    }
    return true;
}

/* A long one: its beginning, and how much there is. */
static void
put_text(FILE *out, const uint8_t *bytes, size_t len)
{
    bool whole = len <= SHOWN_MAX;

    (void)fputc('"', out);
    for (size_t i = 0; i < (whole ? len : SHOWN_PART); i++) {
        (void)fprintf(out, isprint(bytes[i]) != 0 ? "%c" : "\\x%02x", bytes[i]);
    }
    if (whole) {
        (void)fputc('"', out);
    } else {
        (void)fprintf(out, "...\" of %zu bytes", len);
    }
}

/* Writes it to out; false: it is no message. NOLINTBEGIN(misc-no-recursion) */
static bool
put_message(FILE *out, const uint8_t *p, size_t len, int depth)
{
    const uint8_t *end = p + len;
    uint64_t key;
    uint64_t value;

    (void)fputc('{', out);
    while (p < end) {
        const char *space = p == end - len ? "" : " ";

        if (!get_varint(&p, end, &key) || key >> 3 == 0 || key >> 3 > 64) {
            return false;
        }
        (void)fprintf(out, "%s%u: ", space, (unsigned)(key >> 3));
        if ((key & 7) == 0 && get_varint(&p, end, &value)) {
            (void)fprintf(out, "%lld", (long long)value);
        } else if ((key & 7) == 2 && get_varint(&p, end, &value) &&
                   value <= (uint64_t)(end - p)) {
            char *inner = NULL;
            size_t inner_len = 0;
            FILE *in = open_memstream(&inner, &inner_len);
            bool nested = !is_text(p, value) && depth < DEPTH_MAX &&
                          put_message(in, p, value, depth + 1);

            (void)fclose(in);
            if (nested) {
                (void)fputs(inner, out);
            } else {
                put_text(out, p, value);
            }
            free(inner);
            p += value;
        } else {
            return false;
        }
    }
    (void)fputc('}', out);
    return true;
}
/* NOLINTEND(misc-no-recursion) */

/* --- The daemon --- */

void
ctl_answer(enum wp_status status, const char *message, int64_t retry_after_ns)
{
    assert_true(n_answers < ANSWERS_MAX);
    answers[n_answers++] = (struct answer){
        .status = status, .message = message, .retry_after_ns = retry_after_ns};
}

uint8_t *
ctl_answer_message(size_t len)
{
    struct answer *answer = &answers[n_answers - 1];

    assert_true(n_answers > 0 && answer->n < MESSAGES_MAX);
    answer->messages[answer->n].len = len;
    answer->messages[answer->n].bytes = calloc(1, len + 1);
    assert_non_null(answer->messages[answer->n].bytes);
    return answer->messages[answer->n++].bytes;
}

static void
note_given(const char *name, const char *value)
{
    if (value != NULL) {
        ctl_note(" %s=%s", name, value);
    }
}

struct wp_rpc_client *
__wrap_wp_rpc_client_open(const struct wp_rpc_target *target,
                          struct wp_err *err);
struct wp_rpc_client *
__wrap_wp_rpc_client_open(const struct wp_rpc_target *target,
                          struct wp_err *err)
{
    ctl_note("connect");
    note_given("address", target->address);
    note_given("ca", target->tls_ca);
    note_given("cert", target->tls_cert);
    note_given("key", target->tls_key);
    note_given("name", target->tls_name);
    note_given("token", target->token_file);
    ctl_note(target->token_optional ? " optional\n" : "\n");
    if (ctl_rig.refused != NULL) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "%s", ctl_rig.refused);
        ctl_rig.refused = NULL;
        return NULL;
    }
    return (struct wp_rpc_client *)&ctl_rig;
}

void __wrap_wp_rpc_client_close(struct wp_rpc_client *client);
void
__wrap_wp_rpc_client_close(struct wp_rpc_client *client)
{
    if (client != NULL) {
        assert_ptr_equal(client, &ctl_rig);
        ctl_note("disconnect\n");
    }
}

enum wp_status __wrap_wp_rpc_client_call(struct wp_rpc_client *client,
                                         struct wp_rpc_call *call,
                                         struct wp_err *err);
enum wp_status
__wrap_wp_rpc_client_call(struct wp_rpc_client *client,
                          struct wp_rpc_call *call, struct wp_err *err)
{
    const struct answer *answer = &answers[next_answer];

    assert_ptr_equal(client, &ctl_rig);
    ctl_note("call %s ", call->method);
    if (call->timeout_ns == WP_TIME_NEVER) {
        ctl_note("for ever ");
    } else {
        ctl_note("%lld ms ", (long long)(call->timeout_ns / WP_NS_PER_MS));
    }
    if (!put_message(ctl_rig.transcript, call->request, call->request_len, 0)) {
        ctl_note("...\n");
        ctl_note_bytes("  whole:", call->request, call->request_len);
    } else {
        ctl_note("\n");
    }
    if (next_answer == n_answers) {
        return wp_err_set(err, WP_UNAVAILABLE, "nothing is queued");
    }
    next_answer++;
    for (int i = 0; i < answer->n; i++) {
        if (!call->on_message(call->ctx, answer->messages[i].bytes,
                              answer->messages[i].len)) {
            ctl_note("no more\n");
            return WP_OK;
        }
    }
    call->retry_after_ns = answer->retry_after_ns;
    return answer->status == WP_OK
               ? WP_OK
               : wp_err_set(err, answer->status, "%s", answer->message);
}

/* --- What else is not the same each time --- */

const struct wp_clock *__wrap_wp_clock_system(void);
const struct wp_clock *
__wrap_wp_clock_system(void)
{
    return &ctl_clock.clock;
}

void __wrap_wp_random_bytes(void *out, size_t n);
void
__wrap_wp_random_bytes(void *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ((uint8_t *)out)[i] = (uint8_t)(0x10 + i);
    }
}

int __wrap_isatty(int fd);
int
__wrap_isatty(int fd)
{
    (void)fd;
    return ctl_rig.tty ? 1 : 0;
}

/* --- One command line --- */

void
ctl_run_words(const char *const *words)
{
    static char *copies[WORDS_MAX + 2];
    static char *args[WORDS_MAX + 2]; /* Moved by the parser. */
    char *out_text = NULL;
    char *errors_text = NULL;
    size_t out_len = 0;
    size_t errors_len = 0;
    FILE *out = ctl_rig.full ? fopen("/dev/full", "we")
                             : open_memstream(&out_text, &out_len);
    FILE *errors = open_memstream(&errors_text, &errors_len);
    int n = 1;
    int code;

    assert_non_null(out);
    assert_non_null(errors);
    copies[0] = strdup("warmpoolctl");
    args[0] = copies[0];
    ctl_note("$");
    for (; words[n - 1] != NULL; n++) {
        assert_true(n < WORDS_MAX);
        copies[n] = strdup(words[n - 1]);
        args[n] = copies[n];
        if (n < 40) {
            ctl_note(" ");
            note_escaped((const uint8_t *)args[n], strnlen(args[n], 200));
        }
    }
    args[n] = NULL;
    ctl_note("\n");
    code = wp_ctl_main(wp_ctl_commands, n, args, out, errors);
    assert_true(fclose(out) == 0 || ctl_rig.full);
    assert_int_equal(fclose(errors), 0);
    ctl_note("%s", out_text != NULL ? out_text : "");
    if (errors_len > 0) {
        ctl_note("! %s", errors_text);
    }
    ctl_note("= %d\n", code);
    if (next_answer != n_answers) {
        ctl_note("(%d answers were not asked for)\n", n_answers - next_answer);
    }
    ctl_note("\n");
    for (int i = 0; i < n_answers; i++) {
        for (int j = 0; j < answers[i].n; j++) {
            free(answers[i].messages[j].bytes);
        }
    }
    n_answers = 0;
    next_answer = 0;
    ctl_sandbox_reset();
    free(out_text);
    free(errors_text);
    for (int i = 0; i < n; i++) {
        free(copies[i]);
    }
}

void
ctl_run(const char *line)
{
    char text[4096];
    const char *words[WORDS_MAX];
    int n = 0;
    char *p = text;

    assert_true(strlen(line) < sizeof text);
    (void)strcpy(text, line);
    while (*p != '\0') {
        bool quoted = *p == '\'';
        char *end;

        p += quoted ? 1 : 0;
        words[n++] = p;
        end = p + strcspn(p, quoted ? "'" : " ");
        p = *end == '\0' ? end : end + 1;
        *end = '\0';
        p += strspn(p, " ");
    }
    words[n] = NULL;
    ctl_run_words(words);
}

/* --- Files --- */

void
ctl_file_bytes(const char *path, const void *bytes, size_t len)
{
    char part[4096];
    FILE *file;

    assert_true(strlen(path) < sizeof part);
    for (const char *p = strchr(path, '/'); p != NULL; p = strchr(p + 1, '/')) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(p - path), path);
        (void)mkdir(part, 0700);
    }
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0644), 0);
}

void
ctl_file(const char *path, const char *text)
{
    ctl_file_bytes(path, text, strlen(text));
}

void
ctl_stdin(const char *text)
{
    ctl_file("stdin", text);
    assert_non_null(freopen("stdin", "r", stdin));
    assert_int_equal(unlink("stdin"), 0);
}

/* --- From beginning to end --- */

int
ctl_rig_set_up(void **state)
{
    static const char *const names[] = {"WARMPOOL_ADDRESS", "WARMPOOL_HTTP",
                                        "WARMPOOL_TENANT", "TRACEPARENT",
                                        "WARMPOOL_ACCESS_TOKEN_FILE"};
    char made[sizeof ctl_rig.dir - 8];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        (void)unsetenv(names[i]);
    }
    ctl_rig = (struct ctl_rig){.tty = false};
    ctl_rig.transcript = open_memstream(&ctl_rig.text, &ctl_rig.len);
    assert_non_null(ctl_rig.transcript);
    /* A short path: messages are cut, and have it in them. */
    temp_dir_make_fast(made, sizeof made);
    assert_int_equal(chdir(made), 0);
    assert_non_null(getcwd(ctl_rig.dir, sizeof ctl_rig.dir));
    (void)umask(022);
    (void)snprintf(made, sizeof made, "%.4000s/state", ctl_rig.dir);
    assert_int_equal(setenv("XDG_STATE_HOME", made, 1), 0);
    (void)snprintf(made, sizeof made, "%.4000s/run", ctl_rig.dir);
    assert_int_equal(setenv("RUNTIME_DIRECTORY", made, 1), 0);
    wp_clock_manual_init(&ctl_clock, 1, CTL_NOW_MS * WP_NS_PER_MS);
    ctl_sandbox_reset();
    return 0;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

int
ctl_rig_tear_down(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(nftw(ctl_rig.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS),
                     0);
    if (ctl_rig.transcript != NULL) {
        (void)fclose(ctl_rig.transcript);
    }
    free(ctl_rig.text);
    assert_non_null(freopen("/dev/null", "r", stdin));
    return 0;
}

void
ctl_compare(const char *path)
{
    char *in;
    char *out;
    size_t dir_len = strlen(ctl_rig.dir);

    assert_int_equal(fclose(ctl_rig.transcript), 0);
    ctl_rig.transcript = NULL;
    in = ctl_rig.text;
    out = ctl_rig.text;
    while (*in != '\0') {
        if (strncmp(in, ctl_rig.dir, dir_len) == 0) {
            memcpy(out, "TMP", 3);
            in += dir_len;
            out += 3;
        } else {
            *out++ = *in++;
        }
    }
    *out = '\0';
    golden_compare(ctl_rig.text, path);
}
