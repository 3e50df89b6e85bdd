/* tests/unit/local/init/local_init_parts_test.c - the parts of warmpool-init,
 * called as it calls them: its options, its programs, the words about an end,
 * and what it tells. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <getopt.h>

#include "proto/checkout/tree_image.h"
#include "tests/support/base/temp_dir.h"
#include "tests/unit/local/init/parts.h"

/* --- Options --- */

enum {
    ARGS_MAX = 2 * WP_INIT_WRITABLE_MAX + 16
};

static char *
text_of(const char *text)
{
    return (char *)(uintptr_t)text;
}

static char **
parse(struct wp_init_options *options, const char *const *args)
{
    static char *argv[ARGS_MAX];
    int argc = 1;

    argv[0] = text_of("warmpool-init");
    for (; args[argc - 1] != NULL; argc++) {
        assert_true(argc < ARGS_MAX - 1);
        argv[argc] = text_of(args[argc - 1]);
    }
    argv[argc] = NULL;
    optind = 0;
    return wp_init_options_parse(options, argc, argv);
}

static void
test_every_option_is_read(void **state)
{
    static const char *const args[] = {"--listen",
                                       "3",
                                       "--control",
                                       "4",
                                       "--port",
                                       "65535",
                                       "--http",
                                       "/ok",
                                       "--write",
                                       "/a",
                                       "--procs",
                                       "4294967295",
                                       "--conns",
                                       "7",
                                       "--rejoin",
                                       "5",
                                       "--egress",
                                       "3128",
                                       "--write",
                                       "/b",
                                       "--programs",
                                       "6",
                                       "--prepare",
                                       "/c",
                                       "--bound",
                                       "/bound",
                                       "--workspace",
                                       "/w",
                                       "--confines-itself",
                                       "program",
                                       "--port",
                                       "1",
                                       NULL};
    struct wp_init_options options;
    char **command = parse(&options, args);

    (void)state;
    assert_string_equal(command[0], "program");
    assert_string_equal(command[1], "--port");
    assert_string_equal(command[2], "1");
    assert_null(command[3]);
    assert_int_equal(options.listen_fd, 3);
    assert_int_equal(options.control_fd, 4);
    assert_int_equal(options.rejoin_fd, 5);
    assert_int_equal(options.programs_fd, 6);
    assert_int_equal(options.port, 65535);
    assert_int_equal(options.egress_port, 3128);
    assert_string_equal(options.probe_path, "/ok");
    assert_int_equal(options.conns_max, 7);
    assert_true(options.procs_max == UINT32_MAX);
    assert_true(options.confines_itself);
    assert_string_equal(options.bound_dir, "/bound");
    assert_string_equal(options.workspace, "/w");
    assert_int_equal(options.writable_len, 2);
    assert_string_equal(options.writable[0], "/a");
    assert_string_equal(options.writable[1], "/b");
    assert_int_equal(options.prepared_len, 1);
    assert_string_equal(options.prepared[0], "/c");
}

static void
test_what_options_are_when_left_out(void **state)
{
    static const char *const args[] = {"--listen", "0", "--control",
                                       "0",        "p", NULL};
    struct wp_init_options options;

    (void)state;
    assert_string_equal(parse(&options, args)[0], "p");
    assert_int_equal(options.listen_fd, 0);
    assert_int_equal(options.control_fd, 0);
    assert_int_equal(options.rejoin_fd, -1);
    assert_int_equal(options.programs_fd, -1);
    assert_int_equal(options.port, 0);
    assert_int_equal(options.egress_port, 0);
    assert_null(options.probe_path);
    assert_int_equal(options.conns_max, 64);
    assert_int_equal(options.procs_max, 512);
    assert_false(options.confines_itself);
    assert_null(options.bound_dir);
    assert_string_equal(options.workspace, ".");
    assert_int_equal(options.writable_len, 0);
    assert_int_equal(options.prepared_len, 0);
}

/* So many folders; more are passed over. */
static void
test_most_folders(void **state)
{
    static const char *const names[] = {"--write", "--prepare"};

    (void)state;
    for (size_t which = 0; which < WP_ARRAY_LEN(names); which++) {
        const char *args[ARGS_MAX] = {"--listen", "3", "--control", "4"};
        struct wp_init_options options;
        size_t n = 4;

        for (int i = 0; i < WP_INIT_WRITABLE_MAX + 1; i++) {
            args[n++] = names[which];
            args[n++] = i < WP_INIT_WRITABLE_MAX ? "/a" : "/one too many";
        }
        args[n] = "p";
        assert_string_equal(parse(&options, args)[0], "p");
        assert_int_equal(options.writable_len,
                         which == 0 ? WP_INIT_WRITABLE_MAX : 0);
        assert_int_equal(options.prepared_len,
                         which == 1 ? WP_INIT_WRITABLE_MAX : 0);
        assert_string_equal(
            (which == 0 ? options.writable : options.prepared)[39], "/a");
        assert_int_equal(options.programs_fd, -1);
    }
}

/* 2, and what it says; or 0. */
static int
parse_in_child(const char *const *args, char *said, size_t cap)
{
    int output[2];
    int status;
    ssize_t n;
    size_t len = 0;
    pid_t pid;

    assert_int_equal(pipe(output), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct wp_init_options options;

        (void)dup2(output[1], 2);
        (void)parse(&options, args);
        _exit(0);
    }
    (void)close(output[1]);
    while ((n = read(output[0], said + len, cap - 1 - len)) > 0) {
        len += (size_t)n;
    }
    said[len] = '\0';
    (void)close(output[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void
test_options_that_are_refused(void **state)
{
    static const struct {
        const char *args[8];
        const char *said;
    } rows[] = {
        {{"--listen", "3", "p"}, "warmpool-init: started by warmpoold only\n"},
        {{"--control", "3", "p"}, "warmpool-init: started by warmpoold only\n"},
        {{"--control", "3", "--listen", "3"},
         "warmpool-init: started by warmpoold only\n"},
        {{"--procs", "4294967296"},
         "warmpool-init: not a number: 4294967296\n"},
        {{"--procs", "4x"}, "warmpool-init: not a number: 4x\n"},
        {{"--other", "4"}, "warmpool-init: unrecognized option '--other'\n"},
    };
    char said[256];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_int_equal(parse_in_child(rows[i].args, said, sizeof said), 2);
        assert_string_equal(said, rows[i].said);
    }
}

/* --- Programs --- */

/* In a child, since what they point to lasts as long as the process. What is
 * read goes by check; true: read, and so. */
static bool
read_programs(int fd, bool (*check)(const struct wp_programs *programs))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct wp_programs programs;

        _exit(wp_programs_read(fd, &programs) && check(&programs) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    (void)close(fd);
    return WEXITSTATUS(status) == 0;
}

/* The texts, and no more. */
static bool
are(char *const *texts, const char *first, const char *second)
{
    return strcmp(texts[0], first) == 0 &&
           (second == NULL ? texts[1] == NULL
                           : strcmp(texts[1], second) == 0 && texts[2] == NULL);
}

static bool
are_most(const struct wp_programs *programs)
{
    const struct wp_program *probe = &programs->probe;
    bool ok = programs->inits_len == WP_CONTROL_INITS_MAX;

    for (size_t i = 0; ok && i < programs->inits_len; i++) {
        const struct wp_program *program = &programs->inits[i];

        ok = strcmp(program->name, "n") == 0 &&
             strcmp(program->dir, "/d") == 0 && program->timeout_s == 0 &&
             are(program->argv, "a", NULL) && are(program->env, "A=b", "C=d");
    }
    return ok && strcmp(probe->name, "") == 0 && strcmp(probe->dir, "") == 0 &&
           probe->timeout_s == INT32_MAX && are(probe->argv, "b", "") &&
           probe->env == NULL;
}

/* All of them at their most: so many init containers, and a probe. */
static void
test_most_programs(void **state)
{
    static const char init[] = "init\0n\0"
                               "0\0/d\0"
                               "1\0a\0"
                               "2\0A=b\0C=d";
    static const char probe[] = "probe\0\0"
                                "2147483647\0\0"
                                "2\0b\0\0"
                                "0";

    (void)state;
    for (int more = 0; more < 2; more++) {
        int fd = memfd_create("programs", MFD_CLOEXEC);

        for (int i = 0; i < WP_CONTROL_INITS_MAX + more; i++) {
            assert_int_equal(write(fd, init, sizeof init), sizeof init);
        }
        assert_int_equal(write(fd, probe, sizeof probe), sizeof probe);
        assert_int_equal(read_programs(fd, are_most), more == 0);
    }
}

#define BROKEN(text)                                                           \
    {                                                                          \
        text, sizeof(text)                                                     \
    }

static bool
are_any(const struct wp_programs *programs)
{
    (void)programs;
    return true;
}

static bool
are_no_inits(const struct wp_programs *programs)
{
    return programs->inits_len == 0;
}

static void
test_programs_that_make_no_sense(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {
        {"", 0},
        {"probe\0n\0001\0d\0001\0a\0000", 17}, /* Without its last zero. */
        BROKEN("other\0n\0001\0d\0001\0a\0000"),
        BROKEN("init\0n\0001\0d\0001\0a\0000"), /* Without variables. */
        BROKEN("probe\0n\0001\0d\0000\0000"),
        BROKEN("probe\0n\0001\0d\0002\0a"),
        BROKEN("probe\0n\0001\0d\0001\0a"),
        BROKEN("probe\0n\0001\0d\0001\0a\0001"),
        BROKEN("probe\0n\0001"),
        BROKEN("probe\0n\0002147483648\0d\0001\0a\0000"),
        BROKEN("probe\0n\0001s\0d\0001\0a\0000"),
        BROKEN("probe\0n\0-1\0d\0001\0a\0000"),
        BROKEN("probe\0n\0:\0d\0001\0a\0000"),
        BROKEN("probe\0n\0\0d\0001\0a\0000"),
        BROKEN("probe\0n\0001\0d\0001\0a\0000\0probe\0n\0001\0d\0001\0a\0000"),
        BROKEN("probe\0n\0001\0d\0001\0a\0000\0init"),
    };
    static const char good[] = "probe\0n\0001\0d\0001\0a\0000";
    int fd;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        fd = memfd_create("programs", MFD_CLOEXEC);
        assert_int_equal(write(fd, rows[i].bytes, rows[i].len), rows[i].len);
        if (read_programs(fd, are_any)) {
            fail_msg("row %zu is read", i);
        }
    }
    fd = memfd_create("programs", MFD_CLOEXEC);
    assert_int_equal(write(fd, good, sizeof good), sizeof good);
    assert_true(read_programs(fd, are_no_inits));
}

/* --- Last words --- */

/* What the program printed, as it is told of its end with that status. */
static void
expect_words(bool runsc, int status, const char *printed, size_t len,
             int rounds, const char *words)
{
    int daemon;
    struct wp_init *init = make_init(&daemon);
    char text[WP_CONTROL_MAX] = "It ";
    char expected[WP_CONTROL_MAX];
    int output[2];

    assert_int_equal(pipe2(output, O_CLOEXEC | O_NONBLOCK), 0);
    assert_int_equal(write(output[1], printed, len), len);
    init->output_fd = output[0];
    init->options.confines_itself = runsc;
    wp_init_drain_output(init, rounds);
    wp_init_print_end(init, status << 8, text);
    (void)snprintf(expected, sizeof expected, "It exited with status %d%s%s",
                   status, words[0] != '\0' ? ": " : "", words);
    assert_string_equal(text, expected);
    (void)close(output[0]);
    (void)close(output[1]);
    end_init(init, daemon);
}

static void
test_printable_words(void **state)
{
    static char all[3 * 4096 + 1];
    static const char controls[] = "\n\ta  b\x1f!~\x7f\x80 c \n";

    (void)state;
    expect_words(false, 0, "", 0, 4, "");
    expect_words(false, 0, " ", 1, 4, "");
    expect_words(false, 255, "x", 1, 4, "x");
    expect_words(false, 1, controls, strlen(controls), 4, "a b !~ c");
    /* So many rounds of 4096 bytes, and no more. */
    memset(all, 'a', sizeof all);
    memset(all + 4096, 'b', 4096);
    memset(all + 8192, 'c', 4096);
    for (int rounds = 0; rounds <= 3; rounds++) {
        char words[161] = "";

        if (rounds > 0) {
            memset(words, 'a' + rounds - 1, 160);
        }
        expect_words(false, 1, all, sizeof all - 1, rounds, words);
    }
}

/* The room is 160 bytes, halved when it is full. */
static void
test_longest_words(void **state)
{
    char printed[200];

    (void)state;
    for (size_t len = 159; len <= 162; len++) {
        int daemon;
        struct wp_init *init = make_init(&daemon);
        char text[WP_CONTROL_MAX] = "";
        char expected[WP_CONTROL_MAX];
        int output[2];
        size_t cut = len > 160 ? 80 : 0;

        for (size_t i = 0; i < len; i++) {
            printed[i] = (char)('!' + i % 90);
        }
        assert_int_equal(pipe2(output, O_CLOEXEC | O_NONBLOCK), 0);
        init->output_fd = output[0];
        /* In two parts, each of which fits. */
        assert_int_equal(write(output[1], printed, 100), 100);
        wp_init_drain_output(init, 1);
        assert_int_equal(write(output[1], printed + 100, len - 100), len - 100);
        wp_init_drain_output(init, 1);
        wp_init_print_end(init, 0, text);
        (void)snprintf(expected, sizeof expected, "exited with status 0: %.*s",
                       (int)(len - cut), printed + cut);
        assert_string_equal(text, expected);
        (void)close(output[0]);
        (void)close(output[1]);
        end_init(init, daemon);
    }
}

/* Of runsc's own failure the last 64 bytes, from a word's begin on. */
static void
test_words_of_runsc(void **state)
{
    char printed[100];

    (void)state;
    memset(printed, 'x', sizeof printed);
    expect_words(
        true, 128, printed, 64, 1,
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x");
    /* One word: from its middle on. */
    expect_words(
        true, 128, printed, 65, 1,
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x");
    printed[10] = ' ';
    printed[35] = ' '; /* 64 before the end. */
    expect_words(
        true, 128, printed, 100, 1,
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "x");
    printed[35] = 'x';
    printed[36] = ' ';
    printed[98] = ' ';
    expect_words(
        true, 128, printed, 100, 1,
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx "
        "x");
    printed[36] = 'x';
    expect_words(true, 128, printed, 100, 1, "x");
    /* Others are told whole. */
    memset(printed, 'x', sizeof printed);
    printed[50] = ' ';
    expect_words(true, 127, printed, 65, 1,
                 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx "
                 "xxxxxxxxxxxxxx");
    expect_words(false, 128, printed, 65, 1,
                 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx "
                 "xxxxxxxxxxxxxx");
}

static void
test_output_is_watched_to_its_end(void **state)
{
    int daemon;
    struct wp_init *init = make_init(&daemon);
    struct epoll_event event = {.events = EPOLLIN};
    int output[2];

    (void)state;
    assert_int_equal(pipe2(output, O_CLOEXEC | O_NONBLOCK), 0);
    init->output_fd = output[0];
    assert_int_equal(
        epoll_ctl(init->epoll_fd, EPOLL_CTL_ADD, output[0], &event), 0);
    wp_init_drain_output(init, 2);
    assert_int_equal(epoll_wait(init->epoll_fd, &event, 1, 0), 0);
    assert_int_equal(write(output[1], "x", 1), 1);
    assert_int_equal(epoll_wait(init->epoll_fd, &event, 1, 0), 1);
    (void)close(output[1]);
    wp_init_drain_output(init, 2);
    assert_int_equal(init->tail_len, 1);
    assert_int_equal(epoll_wait(init->epoll_fd, &event, 1, 0), 0);
    (void)close(output[0]);
    end_init(init, daemon);
}

static void
test_signals_have_their_names(void **state)
{
    int daemon;
    struct wp_init *init = make_init(&daemon);
    char text[WP_CONTROL_MAX] = "one ";

    (void)state;
    wp_init_print_end(init, SIGSEGV, text);
    assert_string_equal(text, "one killed by SIGSEGV");
    end_init(init, daemon);
}

/* --- What is told --- */

/* A message is cut, but for one that comes with a descriptor. */
static void
test_longest_message(void **state)
{
    char text[300];
    int daemon;
    struct wp_init *init = make_init(&daemon);

    (void)state;
    for (size_t len = 253; len <= 257; len++) {
        char expected[300];

        memset(text, 'x', len);
        text[len] = '\0';
        wp_init_tell(init, 'Z', text);
        (void)snprintf(expected, sizeof expected, "Z%.254s", text);
        expect_told(daemon, expected);
        wp_init_tell_fd(init, 'Z', text, daemon);
        expect_told(daemon, len < 255 ? expected : NULL);
    }
    wp_init_tell(init, 'Z', "");
    expect_told(daemon, "Z");
    end_init(init, daemon);
}

/* --- Trees --- */

/* A tree of one file, "f" with "text". */
static int
make_tree(void)
{
    const struct wp_tree_entry entry = {
        .kind = WP_TREE_FILE, .mode = 0644, .path_len = 1, .content_len = 4};
    uint8_t image[WP_TREE_HEAD + 5];
    int fd = memfd_create("tree", MFD_CLOEXEC);

    wp_tree_put_head(&entry, image);
    memcpy(image + WP_TREE_HEAD, "ftext", 5);
    assert_int_equal(write(fd, image, sizeof image), sizeof image);
    return fd;
}

/* Where text says, behind its fingerprint; and only before a binding, where
 * there can be one, and while all that came before was put. */
static void
test_where_a_tree_goes(void **state)
{
    static const struct {
        const char *text;
        const char *fingerprint; /* Of the binding that is there. */
        const char *untaken;     /* Before. */
        bool bindable;
        bool is_put;
    } rows[] = {{"0123456789abcdef", "", "", true, true},
                {"0123456789abcde", "", "", true, false},
                {"0123456789abcdef", "0123456789abcdef", "", true, false},
                {"0123456789abcdef", "", "why", true, false},
                {"0123456789abcdef", "", "", false, false}};
    char dir[256];
    int fd = make_tree();

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        int daemon;
        struct wp_init *init = make_init(&daemon);
        char path[300];

        temp_dir_make(dir, sizeof dir);
        init->options.workspace = dir;
        init->options.bound_dir = rows[i].bindable ? dir : NULL;
        (void)strcpy(init->taken.fingerprint, rows[i].fingerprint);
        (void)strcpy(init->untaken, rows[i].untaken);
        wp_init_take_tree(init, rows[i].text, fd);
        assert_string_equal(init->untaken, rows[i].untaken);
        (void)snprintf(path, sizeof path, "%s/f", dir);
        assert_int_equal(access(path, F_OK) == 0, rows[i].is_put);
        temp_dir_remove(dir);
        end_init(init, daemon);
    }
    (void)close(fd);
}

static void
test_trees_that_cannot_be_read(void **state)
{
    int fds[2] = {memfd_create("tree", MFD_CLOEXEC), eventfd(1, EFD_CLOEXEC)};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(fds); i++) {
        int daemon;
        struct wp_init *init = make_init(&daemon);

        init->options.workspace = "/nonexistent";
        init->options.bound_dir = "/nonexistent";
        wp_init_take_tree(init, "0123456789abcdef", fds[i]);
        assert_string_equal(init->untaken, "a tree that came cannot be read");
        (void)close(fds[i]);
        end_init(init, daemon);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_option_is_read),
        cmocka_unit_test(test_what_options_are_when_left_out),
        cmocka_unit_test(test_most_folders),
        cmocka_unit_test(test_options_that_are_refused),
        cmocka_unit_test(test_most_programs),
        cmocka_unit_test(test_programs_that_make_no_sense),
        cmocka_unit_test(test_printable_words),
        cmocka_unit_test(test_longest_words),
        cmocka_unit_test(test_words_of_runsc),
        cmocka_unit_test(test_output_is_watched_to_its_end),
        cmocka_unit_test(test_signals_have_their_names),
        cmocka_unit_test(test_longest_message),
        cmocka_unit_test(test_where_a_tree_goes),
        cmocka_unit_test(test_trees_that_cannot_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
