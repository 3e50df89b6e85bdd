/* local/init/idle.c: when a sandbox is said to be idle, and for how long, by its
 * connections and by the time its processes have had. Processes, clock and
 * connections are the test's own. The journal is in golden/. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/init/egress.h"
#include "local/init/init_impl.h"
#include "tests/support/base/journal.h"

#define LINE(...) (journal(__VA_ARGS__), journal_line())

enum {
    PROCESSES = 8,
    LISTEN = 13,
    TICKS = 100, /* Of a second. */
};

static struct {
    bool on;
    int64_t now_us;
    bool no_proc;
    bool egress_used;
    const char *names[PROCESSES];
    const char *texts[PROCESSES]; /* NULL: it has gone meanwhile. */
    int at;
    struct dirent entry;
} rig;

static struct wp_init init;

DIR *__wrap_opendir(const char *path);
struct dirent *__wrap_readdir(DIR *dir);
int __wrap_closedir(DIR *dir);
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
long __wrap_sysconf(int what);
int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);

DIR *
__wrap_opendir(const char *path)
{
    assert_string_equal(path, "/proc");
    rig.at = 0;
    return rig.no_proc ? NULL : (DIR *)&rig;
}

struct dirent *
__wrap_readdir(DIR *dir)
{
    assert_ptr_equal(dir, &rig);
    if (rig.at == PROCESSES || rig.names[rig.at] == NULL) {
        return NULL;
    }
    (void)snprintf(rig.entry.d_name, sizeof rig.entry.d_name, "%s",
                   rig.names[rig.at++]);
    return &rig.entry;
}

int
__wrap_closedir(DIR *dir)
{
    assert_ptr_equal(dir, &rig);
    LINE("  closes the list");
    return 0;
}

FILE *
__wrap_fopen(const char *path, const char *mode)
{
    static char copy[1024];

    if (!rig.on) {
        return __real_fopen(path, mode);
    }
    LINE("  reads %s", path);
    if (rig.texts[rig.at - 1] == NULL) {
        return NULL;
    }
    (void)snprintf(copy, sizeof copy, "%s", rig.texts[rig.at - 1]);
    return fmemopen(copy, strlen(copy), "r");
}

int
__wrap_fclose(FILE *file)
{
    if (rig.on) {
        LINE("  closes it");
    }
    return __real_fclose(file);
}

long
__wrap_sysconf(int what)
{
    assert_int_equal(what, _SC_CLK_TCK);
    return TICKS;
}

int
__wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    if (!rig.on) {
        return __real_clock_gettime(clock, out);
    }
    out->tv_sec = rig.now_us / 1000000;
    out->tv_nsec = rig.now_us % 1000000 * 1000;
    return 0;
}

bool
wp_init_egress_in_use(uint16_t port)
{
    LINE("  egress at %u", port);
    return rig.egress_used;
}

void
wp_bridge_close(struct wp_bridge *bridge)
{
    LINE("  closes the bridge%s", bridge == &init.bridge ? "" : " ?");
}

void
wp_init_tell(const struct wp_init *of, char what, const char *text)
{
    LINE("  tells %c '%s'%s", what, text, of == &init ? "" : " ?");
}

void
wp_init_tell_fd(const struct wp_init *of, char what, const char *text, int fd)
{
    LINE("  tells %c '%s' with %d%s", what, text, fd, of == &init ? "" : " ?");
}

static void
begin(const char *what)
{
    memset(&rig, 0, sizeof rig);
    rig.now_us = 10000000;
    rig.names[0] = ".";
    rig.names[1] = "self";
    rig.names[2] = "7";
    init = (struct wp_init){
        .egress_fd = -1,
        .options = {.egress_port = 1080},
        .bridge = {.listen_fd = LISTEN},
    };
    LINE("--- %s", what);
}

/* Fields 14 to 17 are user and system time, own and children's. */
#define STAT(times) "7 (a) b) c) S 1 2 3 4 5 6 7 8 9 10 " times " 18 19 20\n"

static void
look(int64_t after_us, const char *stat, const char *enough)
{
    rig.now_us += after_us;
    rig.texts[2] = stat;
    rig.on = true;
    wp_init_look(&init, enough);
    rig.on = false;
    LINE("= active %lld, looked %lld, ticks %llu",
         (long long)init.idle.active_us, (long long)init.idle.looked_us,
         (unsigned long long)init.idle.ticks);
}

static void
counts_what_its_processes_had(void **state)
{
    (void)state;
    begin("all four times, of all that there are");
    rig.names[3] = "4711";
    rig.texts[3] = STAT("1000 2000 4000 8000");
    rig.names[4] = "12345678901";
    rig.texts[4] = STAT("0 0 0 16000");
    rig.names[5] = "99";
    rig.names[6] = "x1";
    look(0, STAT("1 20 300 4000"), "0");
    begin("lines that are cut");
    rig.names[3] = "8";
    rig.texts[3] = "8 (a) S 1 2 3 4 5 6 7 8 9 10 5 6";
    rig.names[4] = "9";
    rig.texts[4] = "nothing";
    rig.names[5] = "10";
    rig.texts[5] = "10 (a)";
    look(0, "7 (a) S 1 2 3 4 5 6 7 8 9 10 5 6 7 8", "0");
    begin("there are none to be seen");
    rig.no_proc = true;
    look(0, NULL, "0");
    look(1000000, NULL, "0");
    begin("a name as long as can be");
    look(0,
         STAT("1 2 3 4") "                                                "
                         "                                                "
                         "                                                "
                         "                                                "
                         "                                                "
                         "                                                "
                         "                                                "
                         "                                                "
                         "                                                "
                         ") 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9",
         "0");
    journal_compare(WP_TEST_GOLDEN "/idle_times.txt");
}

static void
is_idle_since_it_did_something(void **state)
{
    (void)state;
    begin("the first look");
    look(0, STAT("0 0 0 0"), "1");
    begin("a twentieth of the time, and a bit more");
    look(0, STAT("100 0 0 0"), "0");
    look(1000000, STAT("105 0 0 0"), "0");
    look(1000000, STAT("111 0 0 0"), "0");
    look(1000000, STAT("111 0 0 0"), "1000");
    look(1000001, STAT("116 0 0 0"), "2000");
    look(999999, STAT("121 0 0 0"), "0");
    begin("less than before: a process has gone");
    look(0, STAT("100 0 0 0"), "0");
    look(500000, STAT("90 0 0 0"), "0");
    look(1000, STAT("91 0 0 0"), "0");
    begin("as long as asked, or not");
    look(0, STAT("0 0 0 0"), "0");
    look(999999, STAT("0 0 0 0"), "1000");
    look(1, STAT("0 0 0 0"), "1000");
    look(1000, STAT("0 0 0 0"), "1000");
    look(0, STAT("0 0 0 0"), "1");
    look(0, STAT("0 0 0 0"), "0");
    look(0, STAT("0 0 0 0"), "-1");
    look(0, STAT("0 0 0 0"), "");
    begin("connections");
    look(0, STAT("0 0 0 0"), "0");
    init.bridge.conns = 1;
    look(1000000, STAT("0 0 0 0"), "500");
    init.bridge.conns = 0;
    init.bridge.ended_at = (struct timespec){.tv_sec = 11, .tv_nsec = 499999};
    look(1000000, STAT("0 0 0 0"), "2000");
    init.bridge.ended_at = (struct timespec){.tv_sec = 10, .tv_nsec = 0};
    look(1000000, STAT("0 0 0 0"), "0");
    begin("egress");
    init.egress_fd = 0;
    rig.egress_used = true;
    look(0, STAT("0 0 0 0"), "0");
    look(1000000, STAT("0 0 0 0"), "1");
    rig.egress_used = false;
    look(1000000, STAT("0 0 0 0"), "1");
    init.egress_fd = -1;
    rig.egress_used = true;
    look(1000000, STAT("0 0 0 0"), "1");
    journal_compare(WP_TEST_GOLDEN "/idle_since.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_its_processes_had),
        cmocka_unit_test(is_idle_since_it_did_something),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
