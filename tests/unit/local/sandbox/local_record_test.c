/* tests/unit/local/sandbox/local_record_test.c - what a sandbox's record says, and of which
 * process. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/record.h"
#include "local/walls/rootfs.h"

static void
fill(char *text, size_t cap)
{
    memset(text, 'x', cap - 1);
    text[cap - 1] = '\0';
}

/* As long as a record can be. */
static struct wp_record
longest(void)
{
    struct wp_record record = {
        .version = WP_RECORD_VERSION,
        .outer_pid = INT32_MAX,
        .outer_start = UINT64_MAX,
        .inner_pid = INT32_MAX,
        .inner_start = UINT64_MAX,
        .template_hash = UINT64_MAX,
        .host_uid = UINT32_MAX,
        .roots = UINT32_MAX,
        .ready = true,
    };

    memset(record.uid, 0xab, sizeof record.uid);
    fill(record.boot_id, sizeof record.boot_id);
    fill(record.pool_namespace, sizeof record.pool_namespace);
    fill(record.pool, sizeof record.pool);
    fill(record.template_name, sizeof record.template_name);
    fill(record.name, sizeof record.name);
    fill(record.endpoint, sizeof record.endpoint);
    fill(record.egress, sizeof record.egress);
    fill(record.narrowed, sizeof record.narrowed);
    fill(record.audience, sizeof record.audience);
    record.identity_ttl_ms = INT64_MAX;
    for (int i = 0; i < WP_BINDING_VOLUMES_MAX; i++) {
        char key[WP_VOLUME_KEY_MAX + 1];

        memset(key, 'a' + i, WP_VOLUME_KEY_MAX);
        key[WP_VOLUME_KEY_MAX] = '\0';
        assert_true(wp_volume_keys_add(record.volumes, wp_str_from(key)));
    }
    return record;
}

static void
assert_same(const struct wp_record *a, const struct wp_record *b)
{
    assert_int_equal(a->version, b->version);
    assert_int_equal(a->outer_pid, b->outer_pid);
    assert_true(a->outer_start == b->outer_start);
    assert_int_equal(a->inner_pid, b->inner_pid);
    assert_true(a->inner_start == b->inner_start);
    assert_memory_equal(a->uid, b->uid, sizeof a->uid);
    assert_string_equal(a->boot_id, b->boot_id);
    assert_string_equal(a->pool_namespace, b->pool_namespace);
    assert_string_equal(a->pool, b->pool);
    assert_string_equal(a->template_name, b->template_name);
    assert_true(a->template_hash == b->template_hash);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->endpoint, b->endpoint);
    assert_int_equal(a->host_uid, b->host_uid);
    assert_int_equal(a->roots, b->roots);
    assert_int_equal(a->ready, b->ready);
    assert_string_equal(a->egress, b->egress);
    assert_string_equal(a->narrowed, b->narrowed);
    assert_string_equal(a->audience, b->audience);
    assert_true(a->identity_ttl_ms == b->identity_ttl_ms);
    assert_string_equal(a->volumes, b->volumes);
}

/* What is written is read; of a part of it, nothing is, but where it ends with
 * a line of what the claim added. */
static void
test_round_trip(void **state)
{
    struct wp_record record = longest();
    struct wp_record again;
    char text[WP_RECORD_BYTES_MAX];
    size_t len = wp_record_format(&record, text);

    (void)state;
    assert_int_equal(strlen(text), len);
    assert_true(wp_record_parse(text, len, &again));
    assert_same(&record, &again);
    for (size_t cut = 0; cut < len; cut++) {
        bool line_of_claim =
            cut >= (size_t)(strstr(text, "\nend\n") + 5 - text) &&
            text[cut - 1] == '\n';

        assert_int_equal(wp_record_parse(text, cut, &again), line_of_claim);
    }
    record.pool[0] = '\0';
    record.boot_id[0] = '\0';
    record.ready = false;
    len = wp_record_format(&record, text);
    assert_true(wp_record_parse(text, len, &again));
    assert_same(&record, &again);
}

/* Of no field is a byte taken that could not be shown. */
static void
test_bytes_that_are_not_printable(void **state)
{
    struct wp_record record = longest();
    struct wp_record again;
    char text[WP_RECORD_BYTES_MAX];
    size_t len = wp_record_format(&record, text);

    (void)state;
    for (char *end = strchr(text, '\n'); end != NULL;
         end = strchr(end + 1, '\n')) {
        char last = end[-1];

        end[-1] = '\1';
        if (wp_record_parse(text, len, &again)) {
            fail_msg("taken, at %d", (int)(end - text));
        }
        end[-1] = last;
    }
    assert_true(wp_record_parse(text, len, &again));
}

static bool
parses(const char *text, struct wp_record *record)
{
    return wp_record_parse(text, strlen(text), record);
}

/* Of other versions the processes are known, and that it cannot be adopted. */
static void
test_versions(void **state)
{
    struct wp_record record;

    (void)state;
    assert_true(parses("warmpool 1\nouter 12 34\ninner 56 78\nend\n", &record));
    assert_int_equal(record.version, 1);
    assert_int_equal(record.outer_pid, 12);
    assert_int_equal(record.inner_start, 78);
    assert_false(record.ready);
    assert_true(parses("warmpool 3\nouter 12 34\ninner 56 78\nready 1\nend\n",
                       &record));
    assert_int_equal(record.version, 3);
    assert_int_equal(record.inner_pid, 56);
    assert_false(record.ready);
    assert_false(
        parses("warmpool 3\nouter 12 34\ninner 56 78\nready", &record));
    assert_false(parses("warmpool 0\nouter 1 3\ninner 5 7\nend\n", &record));
    assert_false(parses("warmpool 2\nouter 1 3\ninner 5 7\nend\n", &record));
    assert_false(parses("warmpool 1\nouter 1 3\ninner 5 7\nend\nx", &record));
    assert_false(parses("warmpool 1\nouter -1 3\ninner 5 7\nend\n", &record));
    assert_false(
        parses("warmpool 1\nouter 4294967297 3\ninner 5 7\nend\n", &record));
    assert_false(parses("", &record));
    assert_true(parses("warmpool 3\nouter 1 3\ninner 5 7\n\nend\n", &record));
    assert_false(parses("warmpool 1\nouter-1 3\ninner 5 7\nend\n", &record));
    assert_false(
        parses("warmpool 1\nouter 1 3\ninner 5 7\negress x\nend\n", &record));
}

/* Lines that claims have added. */
static void
test_added_lines(void **state)
{
#define BEFORE "warmpool 1\nouter 1 3\ninner 5 7\nend\n"
    struct wp_record record;

    (void)state;
    assert_true(parses(BEFORE "identity 9223372036854775807 a\n", &record));
    assert_true(record.identity_ttl_ms == INT64_MAX);
    assert_false(parses(BEFORE "identity 9223372036854775808 a\n", &record));
    assert_false(parses(BEFORE "identity 5 \n", &record));
    assert_false(parses(BEFORE "identity 5\n", &record));
    assert_true(parses(BEFORE "volume a\nvolume b\n", &record));
    assert_string_equal(record.volumes, "a\nb\n");
    assert_false(parses(BEFORE "volume \n", &record));
    assert_false(parses(BEFORE "narrowed \1\n", &record));
    assert_false(parses(BEFORE "other a\n", &record));
#undef BEFORE
}

static void
test_file(void **state)
{
    char dir[] = "/tmp/wp-record-XXXXXX";
    struct wp_record record = longest();
    struct wp_record again;
    struct wp_err err;
    char path[64];
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_false(wp_record_read(dir, &again));
    assert_int_equal(errno, ENOENT);
    assert_int_equal(wp_record_write(dir, &record, &err), WP_OK);
    record.ready = false;
    assert_int_equal(wp_record_write(dir, &record, &err), WP_OK);
    assert_true(wp_record_read(dir, &again));
    assert_same(&record, &again);
    (void)snprintf(path, sizeof path, "%s/record", dir);
    file = fopen(path, "ae");
    assert_non_null(file);
    for (int i = 0; i < 2 * WP_RECORD_BYTES_MAX; i++) {
        (void)fputs("end\n", file);
    }
    (void)fclose(file);
    assert_false(wp_record_read(dir, &again));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(unlink(path), 0);
    /* In its place stands something that cannot be replaced or read. */
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(wp_record_read(dir, &again));
    assert_int_equal(wp_record_write(dir, &record, &err), WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "cannot write"));
    assert_non_null(strstr(err.msg, strerror(EISDIR)));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* A record that cannot be had or kept says why, and nothing is left half
 * written. */
static void
test_file_failures(void **state)
{
    char dir[] = "/tmp/wp-record-XXXXXX";
    char longest_dir[1024];
    struct wp_record record = longest();
    struct rlimit limit = {.rlim_cur = 20, .rlim_max = RLIM_INFINITY};
    struct wp_err err;

    (void)state;
    memset(longest_dir, 'd', sizeof longest_dir - 1);
    longest_dir[sizeof longest_dir - 1] = '\0';
    assert_false(wp_record_read(longest_dir, &record));
    assert_int_equal(errno, ENAMETOOLONG);
    assert_int_equal(wp_record_write(longest_dir, &record, &err),
                     WP_UNAVAILABLE);
    assert_int_equal(wp_record_add_claimed(longest_dir, &record, &err),
                     WP_UNAVAILABLE);
    assert_int_equal(wp_record_write("/nonexistent", &record, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, strerror(ENOENT)));
    assert_int_equal(wp_record_add_claimed("/nonexistent", &record, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, strerror(ENOENT)));
    assert_non_null(mkdtemp(dir));
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(wp_record_write(dir, &record, &err), WP_UNAVAILABLE);
    limit.rlim_cur = RLIM_INFINITY;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_non_null(strstr(err.msg, strerror(ENOSPC)));
    assert_int_equal(rmdir(dir), 0);
}

static void
test_claimed(void **state)
{
    char dir[] = "/tmp/wp-record-XXXXXX";
    struct wp_record record = longest();
    struct wp_record again;
    struct rlimit limit = {.rlim_max = RLIM_INFINITY};
    struct stat st;
    struct wp_err err;
    char path[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/record", dir);
    assert_int_equal(wp_record_add_claimed(dir, &record, &err), WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "cannot write"));
    record.narrowed[0] = record.audience[0] = record.volumes[0] = '\0';
    record.identity_ttl_ms = 0;
    assert_int_equal(wp_record_write(dir, &record, &err), WP_OK);
    /* Three times, the longest there can be; the last of a kind counts, and
     * each volume once. */
    record = longest();
    assert_int_equal(wp_record_add_claimed(dir, &record, &err), WP_OK);
    assert_true(wp_record_read(dir, &again));
    assert_same(&record, &again);
    record.narrowed[0] = 'y';
    record.identity_ttl_ms = 7;
    /* A disk that takes a part of it has none of it. */
    assert_int_equal(stat(path, &st), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    limit.rlim_cur = (rlim_t)st.st_size + 20;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(wp_record_add_claimed(dir, &record, &err), WP_UNAVAILABLE);
    limit.rlim_cur = RLIM_INFINITY;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_non_null(strstr(err.msg, strerror(ENOSPC)));
    assert_true(wp_record_read(dir, &again));
    assert_string_equal(again.narrowed, longest().narrowed);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wp_record_add_claimed(dir, &record, &err), WP_OK);
        assert_true(wp_record_read(dir, &again));
        assert_same(&record, &again);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Only the very process, and only while it lives. */
static void
test_process(void **state)
{
    struct rlimit limit;
    rlim_t files;
    siginfo_t info;
    uint64_t start;
    pid_t child = fork();
    int fd;

    (void)state;
    if (child == 0) {
        for (;;) {
            (void)pause();
        }
    }
    start = wp_process_start_time(child);
    assert_true(start > 0);
    fd = wp_process_open(child, start);
    assert_in_range(fd, 0, 1 << 20);
    (void)close(fd);
    assert_int_equal(wp_process_open(child, start + 1), -1);
    errno = 0;
    assert_int_equal(wp_process_open(child, 0), -1);
    assert_int_equal(errno, ESRCH);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    files = limit.rlim_cur;
    /* Whether it is that one cannot be found out: which is not that it is not.
     */
    limit.rlim_cur = (rlim_t)fd + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(wp_process_open(child, start), -1);
    assert_int_equal(errno, EMFILE);
    limit.rlim_cur = files;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(wp_process_open(1, wp_process_start_time(1)), -1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    /* Dead, and its number not yet free. */
    assert_int_equal(wp_process_open(child, start), -1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(wp_process_open(child, start), -1);
    assert_true(wp_process_start_time(child) == 0);
}

/* Whatever its name is. */
static void
test_start_time_behind_a_name(void **state)
{
    uint64_t start = wp_process_start_time(getpid());
    char name[16];

    (void)state;
    assert_int_equal(prctl(PR_GET_NAME, name), 0);
    assert_int_equal(prctl(PR_SET_NAME, "a) R 1 2 (b) 3"), 0);
    assert_true(wp_process_start_time(getpid()) == start);
    assert_int_equal(prctl(PR_SET_NAME, name), 0);
}

static void
test_boot_id(void **state)
{
    char first[WP_BOOT_ID_LEN + 1];
    char second[WP_BOOT_ID_LEN + 1];

    (void)state;
    wp_boot_id_read(first);
    wp_boot_id_read(second);
    assert_string_equal(first, second);
    assert_int_equal(strlen(first), WP_BOOT_ID_LEN);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_that_are_not_printable),
        cmocka_unit_test(test_added_lines),
        cmocka_unit_test(test_file_failures),
        cmocka_unit_test(test_start_time_behind_a_name),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_process),
        cmocka_unit_test(test_boot_id),
        cmocka_unit_test(test_claimed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
