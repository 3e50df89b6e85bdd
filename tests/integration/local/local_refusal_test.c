/* tests/integration/local/local_refusal_test.c - what the local backend cannot do:
 * on such a machine, with such settings, for such orders; and what it says
 * then. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/backend_local.h"
#include "pool/base/clock.h"
#include "tests/support/local/local_rig.h"

static void
refused(struct local_rig *rig, const char *words)
{
    struct wp_err err = {.msg = ""};
    struct wp_local *local = wp_local_create(&rig->config, &err);

    assert_null(local);
    if (strstr(err.msg, words) == NULL) {
        fail_msg("'%s' does not say '%s'", err.msg, words);
    }
}

static void
test_second_daemon_is_refused(void **state)
{
    static struct local_rig rig;

    (void)state;
    local_rig_init_runtime(&rig);
    local_rig_start(&rig);
    refused(&rig, "another daemon uses the state directory");
    local_rig_fini(&rig);
}

static void
test_bwrap_missing(void **state)
{
    static struct local_rig rig;
    struct wp_host_report report;
    struct wp_err err;

    (void)state;
    local_rig_init_runtime(&rig);
    rig.config.bwrap_path = "/nonexistent/bwrap";
    refused(&rig, "bubblewrap is missing");
    assert_int_equal(wp_local_probe(&rig.config, &report, &err),
                     WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "install the package 'bubblewrap'"));
    local_rig_fini(&rig);
}

/* As a launcher may have left it. */
static void
test_children_ignored(void **state)
{
    static struct local_rig rig;

    (void)state;
    assert_true(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    local_rig_init_runtime(&rig);
    local_rig_start_one(&rig);
    local_rig_fini(&rig);
}

/* What bwrap says where user namespaces are switched off. */
static void
test_namespaces_forbidden(void **state)
{
    static struct local_rig rig;
    char path[96];
    FILE *file;

    (void)state;
    local_rig_init_runtime(&rig);
    (void)snprintf(path, sizeof path, "%s/bwrap", rig.dir);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs("#!/bin/sh\n"
                "[ \"$1\" = --version ] && { echo bubblewrap 0.8.0; exit 0; }\n"
                "echo \"bwrap: No permissions to create new namespace, likely"
                " because the kernel does not allow non-privileged user"
                " namespaces.\" >&2\n"
                "exit 1\n",
                file);
    (void)fclose(file);
    assert_int_equal(chmod(path, 0755), 0);
    rig.config.bwrap_path = path;
    refused(&rig, "user namespaces are forbidden on this machine");
    local_rig_fini(&rig);
}

static void
test_bad_images(void **state)
{
    static struct local_rig rig;
    char path[128];

    (void)state;
    local_rig_init_runtime(&rig);
    rig.tmpl.image = "python:3.12";
    refused(&rig, "no rootfs directory is set");
    rig.config.rootfs_dir = rig.dir;
    refused(&rig, "image 'python:3.12' is not a directory in");
    rig.tmpl.image = "../../etc";
    refused(&rig, "is not a name below the rootfs directory");
    (void)snprintf(path, sizeof path, "%s/out", rig.dir);
    assert_int_equal(symlink("/", path), 0);
    rig.tmpl.image = "out/usr";
    refused(&rig, "image 'out/usr' leads out of");
    /* A daemon that did not start leaves no roots behind. */
    (void)snprintf(path, sizeof path, "%s/roots", rig.state_dir);
    assert_int_equal(access(path, F_OK), -1);
    local_rig_fini(&rig);
}

static void
test_runtime_classes(void **state)
{
    static struct local_rig rig;

    (void)state;
    local_rig_init_runtime(&rig);
    rig.tmpl.runtime_class = WP_RUNTIME_GVISOR;
    rig.config.runsc_path = "/nonexistent/runsc";
    refused(&rig,
            "template t: runtimeClassName gvisor: runsc is not installed");
    rig.config.runsc_path = "/bin/true";
    refused(&rig, "template t: runtimeClassName gvisor: a trial sandbox of"
                  " /bin/true did not run");
    local_rig_fini(&rig);
}

static void
test_bad_orders(void **state)
{
    static struct local_rig rig;
    const uint8_t uid[WP_UID_LEN] = {0};
    struct wp_err err;
    struct wp_sandbox_order order = {
        .ref = {0, 1},
        .pool_namespace = WP_STR("default"),
        .template_name = WP_STR("t"),
        .name = WP_STR("../escape"),
        .uid = uid,
        .ready_within_ns = WP_NS_PER_S,
    };

    (void)state;
    local_rig_init_runtime(&rig);
    rig.config.sandboxes_max = 1;
    local_rig_start(&rig);
    assert_int_equal(rig.backend.ops->create(rig.backend.self, &order, &err),
                     WP_INVALID_ARGUMENT);
    order.name = WP_STR("p-1");
    order.template_name = WP_STR("unknown");
    assert_int_equal(rig.backend.ops->create(rig.backend.self, &order, &err),
                     WP_NOT_FOUND);
    local_rig_create(&rig, 0, PATIENCE_MS);
    order.template_name = WP_STR("t");
    order.ref.index = 1;
    assert_int_equal(rig.backend.ops->create(rig.backend.self, &order, &err),
                     WP_RESOURCE_EXHAUSTED);
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    local_rig_create(&rig, 1, PATIENCE_MS);
    /* Never heard of: no report, no harm. */
    local_rig_destroy(&rig, 7);
    local_rig_wait(&rig, 1, RIG_READY, PATIENCE_MS);
    local_rig_fini(&rig);
}

/* A state directory without room: the order fails with the reason, nothing is
 * left of it, and it works again once there is room. */
static void
test_full_disk(void **state)
{
    static struct local_rig rig;
    char path[128];
    int files = 0;

    (void)state;
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        print_message("SKIP: mounting needs root\n");
        skip();
    }
    local_rig_init_runtime(&rig);
    assert_int_equal(mkdir(rig.state_dir, 0755), 0);
    assert_int_equal(mount("none", rig.state_dir, "tmpfs", 0,
                           "size=64m,nr_inodes=20000,mode=755"),
                     0);
    local_rig_start(&rig);
    for (;;) {
        int fd;

        (void)snprintf(path, sizeof path, "%s/filler%d", rig.state_dir, files);
        fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0) {
            break;
        }
        (void)close(fd);
        files++;
    }
    assert_int_equal(errno, ENOSPC);
    local_rig_create(&rig, 0, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_non_null(strstr(rig.slots[0].reason, "No space left on device"));
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    assert_false(local_rig_has_dir(&rig, 0));
    while (files-- > 0) {
        (void)snprintf(path, sizeof path, "%s/filler%d", rig.state_dir, files);
        (void)unlink(path);
    }
    local_rig_create(&rig, 1, PATIENCE_MS);
    local_rig_wait(&rig, 1, RIG_READY, PATIENCE_MS);
    assert_int_equal(wp_local_stop(rig.local, 20 * WP_NS_PER_S), 0);
    wp_local_destroy(rig.local);
    rig.local = NULL;
    assert_int_equal(umount2(rig.state_dir, MNT_DETACH), 0);
    local_rig_fini(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_daemon_is_refused),
        cmocka_unit_test(test_bwrap_missing),
        cmocka_unit_test(test_children_ignored),
        cmocka_unit_test(test_namespaces_forbidden),
        cmocka_unit_test(test_bad_images),
        cmocka_unit_test(test_runtime_classes),
        cmocka_unit_test(test_bad_orders),
        cmocka_unit_test(test_full_disk), /* Last: it changes our mounts. */
    };

    if (!local_rig_begin(argc, argv, NULL)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
