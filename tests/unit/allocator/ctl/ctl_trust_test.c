/* warmpoolctl trust: which records are shown, how, and which are forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/remotes/trust_record.h"
#include "tests/support/ctl/ctl_rig.h"

#define GOLDEN(name) WP_TEST_GOLDEN "/" name ".txt"
#define FOLDER "state/trust"

static const char *const formats[] = {"table", "json", "name"};

/* The next removal fails with this; 0: it is done. */
static int no_removal;

int __real_unlinkat(int dir_fd, const char *name, int flags);
int __wrap_unlinkat(int dir_fd, const char *name, int flags);
int
__wrap_unlinkat(int dir_fd, const char *name, int flags)
{
    if (no_removal != 0) {
        errno = no_removal;
        no_removal = 0;
        return -1;
    }
    return __real_unlinkat(dir_fd, name, flags);
}

/* A file comes in pieces. */
ssize_t __real_read(int fd, void *bytes, size_t cap);
ssize_t __wrap_read(int fd, void *bytes, size_t cap);
ssize_t
__wrap_read(int fd, void *bytes, size_t cap)
{
    return __real_read(fd, bytes, cap < 50 ? cap : 50);
}

int __wrap_fsync(int fd);
int
__wrap_fsync(int fd)
{
    struct stat of_fd;
    struct stat of_folder;

    assert_int_equal(fstat(fd, &of_fd), 0);
    assert_int_equal(stat(FOLDER, &of_folder), 0);
    assert_int_equal(of_fd.st_ino, of_folder.st_ino);
    ctl_note("the folder is synced\n");
    return 0;
}

/* One that tells of two files. */
static void
record(const char *name, const char *tenant, const char *url)
{
    static struct wp_trust_record record;
    static char text[WP_TRUST_TEXT_MAX + 1];
    const struct timespec times[2] = {{1700000000, 0}, {1700000000, 999999999}};
    char path[200];

    memset(&record, 0, sizeof record);
    (void)strcpy(record.tenant, tenant);
    (void)strcpy(record.url, url);
    record.n = 2;
    (void)strcpy(record.files[0].path, "AGENTS.md");
    (void)strcpy(record.files[1].path, "CLAUDE.md");
    record.files[0].state = WP_TRUST_FILE;
    for (size_t i = 0; i < sizeof record.files[0].hash; i++) {
        record.files[0].hash[i] = (uint8_t)(0xa0 + i);
    }
    (void)wp_trust_record_write(&record, text);
    (void)snprintf(path, sizeof path, FOLDER "/%s", name);
    ctl_file(path, text);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

#define NAME_1 "00000000000000000000000000000001"
#define NAME_2 "00000000000000000000000000000002"
#define NAME_3 "0000000000000000000000000000000a"
#define NAME_4 "f0000000000000000000000000000000"

static void
make_records(void)
{
    record(NAME_4, "", "https://git.example.com/none");
    record(NAME_1, "ci", "https://git.example.com/app");
    record(NAME_3, "web", "https://git.example.com/app");
    record(NAME_2, "ci", "https://git.example.com/lib");
    /* None of these has a record's name. */
    record("000000000000000000000000000000ab.new", "x", "https://h/1");
    record("0000000000000000000000000000000", "x", "https://h/2");
    record("0000000000000000000000000000000A", "x", "https://h/3");
    record("g0000000000000000000000000000000", "x", "https://h/4");
}

static void
note_left(void)
{
    static const char *const names[] = {NAME_1, NAME_2, NAME_3, NAME_4};

    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        char path[200];

        (void)snprintf(path, sizeof path, FOLDER "/%s", names[i]);
        if (access(path, F_OK) == 0) {
            ctl_note("left: %s\n", names[i]);
        }
    }
    ctl_note("\n");
}

static void
test_records_are_shown(void **state)
{
    char line[200];

    (void)state;
    make_records();
    for (size_t i = 0; i < WP_ARRAY_LEN(formats); i++) {
        (void)snprintf(line, sizeof line, "trust --state-dir state -o %s",
                       formats[i]);
        ctl_run(line);
        (void)snprintf(line, sizeof line,
                       "trust https://git.example.com/app --tenant web "
                       "--state-dir state -o %s",
                       formats[i]);
        ctl_run(line);
    }
    ctl_run("trust https://git.example.com/lib --state-dir state");
    ctl_run("trust --tenant ci --state-dir state -o name");
    ctl_run("trust --tenant none --state-dir state");
    ctl_run("trust https://git.example.com/other --state-dir state");
    ctl_run("trust --state-dir missing");
    ctl_file("state/file/trust", "");
    ctl_run("trust --state-dir state/file");
    /* Where the daemon has it by default. */
    ctl_run("trust");
    assert_int_equal(mkdir("run", 0700), 0);
    assert_int_equal(mkdir("run/state", 0700), 0);
    assert_int_equal(rename(FOLDER, "run/state/trust"), 0);
    ctl_run("trust -o name");
    note_left();
    ctl_compare(GOLDEN("trust"));
}

static void
test_what_is_no_record(void **state)
{
    (void)state;
    make_records();
    ctl_file(FOLDER "/" NAME_2, "warmpool-trust 2\n");
    assert_int_equal(unlink(FOLDER "/" NAME_3), 0);
    assert_int_equal(symlink(NAME_1, FOLDER "/" NAME_3), 0);
    assert_int_equal(unlink(FOLDER "/" NAME_4), 0);
    assert_int_equal(mkdir(FOLDER "/" NAME_4, 0700), 0);
    ctl_run("trust --state-dir state");
    ctl_run("trust https://git.example.com/app --state-dir state -o json");
    ctl_compare(GOLDEN("trust_no_record"));
}

static void
test_records_are_forgotten(void **state)
{
    (void)state;
    make_records();
    ctl_run("trust --forget --state-dir state");
    note_left();
    ctl_run("trust https://h/x --forget --state-dir state");
    note_left();
    ctl_run("trust https://git.example.com/app --forget --tenant web "
            "--state-dir state");
    note_left();
    no_removal = EACCES;
    ctl_run("trust https://git.example.com/lib --forget --state-dir state");
    note_left();
    /* Somebody else was faster. */
    no_removal = ENOENT;
    ctl_run("trust https://git.example.com/lib --forget --state-dir state -o "
            "json");
    ctl_run("trust https://git.example.com/lib --forget --state-dir state -o "
            "name");
    note_left();
    make_records();
    no_removal = EACCES;
    ctl_run("trust https://git.example.com/app --forget --state-dir state");
    note_left();
    ctl_run("trust https://git.example.com/app --forget --state-dir state");
    note_left();
    ctl_compare(GOLDEN("trust_forget"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        CTL_TEST(test_records_are_shown),
        CTL_TEST(test_what_is_no_record),
        CTL_TEST(test_records_are_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
