/* tests/unit/local/sandbox/sandbox_volume_test.c - a volume is in one sandbox
 * at most, is written down before it is there, and who waits for one is told
 * when some may be free. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "local/sandbox/sandbox_impl.h"
#include "local/volumes/mount_into.h"
#include "pool/base/compiler.h"
#include "tests/support/local/journal.h"

static struct wp_local local;
static struct wp_sandbox boxes[3];
static struct wp_sandbox *index_[4] = {NULL, &boxes[0], &boxes[1], &boxes[2]};
static struct wp_bind_volumes *wanted;
static int calls;
static int fails_at; /* The call that fails; 0: none. */

int __wrap_event_add(struct event *event, const struct timeval *wait);

int
__wrap_event_add(struct event *event, const struct timeval *wait)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(boxes); i++) {
        if (event == &boxes[i].bind_timer) {
            NOTE("add %s %lld.%06ld\n", boxes[i].name, (long long)wait->tv_sec,
                 (long)wait->tv_usec);
        }
    }
    return 0;
}

static enum wp_status
outcome(struct wp_err *err, const char *what)
{
    return ++calls == fails_at ? wp_err_set(err, WP_UNAVAILABLE, "no %s", what)
                               : WP_OK;
}

bool
wp_volume_keys_have(const char *keys, const char *key)
{
    return strstr(keys, key) != NULL;
}

/* Three letters have room. */
bool
wp_volume_keys_add(char keys[WP_VOLUME_KEYS_MAX + 1], struct wp_str key)
{
    size_t len = strlen(keys);

    assert_int_equal(key.len, 1);
    if (strchr(keys, key.ptr[0]) == NULL) {
        if (len == 3) {
            return false;
        }
        keys[len] = key.ptr[0];
        keys[len + 1] = '\0';
    }
    return true;
}

enum wp_status
wp_sandbox_record_claimed(const struct wp_sandbox *sandbox, struct wp_err *err)
{
    NOTE("record %s '%s'\n", sandbox->name, sandbox->volumes);
    return outcome(err, "record");
}

enum wp_status
wp_volumes_make(const struct wp_volumes *volumes, const char *key,
                char path[WP_VOLUME_PATH_MAX], struct wp_err *err)
{
    assert_ptr_equal(volumes, &local.volumes);
    (void)snprintf(path, WP_VOLUME_PATH_MAX, "/v/%s", key);
    NOTE("make %s\n", key);
    return outcome(err, "folder");
}

enum wp_status
wp_mount_into(const struct wp_mount_into *m, struct wp_err *err)
{
    NOTE("mount %s into %d %d at %s/%s, users %d", m->from, m->pid, m->pidfd,
         m->top, m->path, m->own_user);
    if (m->own_user) {
        NOTE(" %u %u", m->user, m->owner);
    }
    NOTE("\n");
    return outcome(err, "mount");
}

static void
begin(const char *keys)
{
    memset(&local, 0, sizeof local);
    memset(boxes, 0, sizeof boxes);
    local.by_index = index_;
    local.by_index_len = WP_ARRAY_LEN(index_);
    local.volumes = (struct wp_volumes){.user_first = 1000, .owner = 77};
    for (uint32_t i = 0; i < WP_ARRAY_LEN(boxes); i++) {
        boxes[i].local = &local;
        boxes[i].inner_pid = 55;
        boxes[i].inner_fd = 66;
        boxes[i].host_user = 5;
        (void)snprintf(boxes[i].name, sizeof boxes[i].name, "box%u", i);
    }
    free(wanted);
    wanted = calloc(1, sizeof *wanted + 4 * sizeof wanted->at[0]);
    assert_non_null(wanted);
    for (; keys[wanted->n] != '\0'; wanted->n++) {
        struct wp_bind_volume *v = &wanted->at[wanted->n];

        v->key[0] = keys[wanted->n];
        (void)snprintf(v->name, sizeof v->name, "name-%c", v->key[0]);
        (void)snprintf(v->dir, sizeof v->dir, "dir/%c", v->key[0]);
    }
    calls = fails_at = 0;
}

static void
mount(const char *what, struct wp_sandbox *sandbox)
{
    struct wp_err err = {.status = WP_OK};

    NOTE("--- %s\n", what);
    calls = 0;
    journal_status("mount", wp_sandbox_mount(sandbox, wanted, &err), &err);
    NOTE("= has '%s'\n", sandbox->volumes);
}

static void
test_volumes_are_recorded_and_then_mounted(void **state)
{
    (void)state;
    journal_begin();
    begin("ab");
    mount("two", &boxes[1]);
    mount("again", &boxes[1]);
    begin("z");
    memset(boxes[1].volumes, 'z', WP_VOLUME_KEYS_MAX);
    {
        struct wp_err err;

        NOTE("--- again, with as many as have room\n");
        assert_int_equal(wp_sandbox_mount(&boxes[1], wanted, &err), WP_OK);
    }
    begin("abc");
    boxes[1].host_user = UINT32_MAX;
    mount("without users of their own", &boxes[1]);
    begin("");
    mount("none", &boxes[0]);
    for (int n = 1; n <= 6; n++) {
        char what[32];

        begin("ab");
        (void)snprintf(boxes[0].volumes, sizeof boxes[0].volumes, "x");
        fails_at = n;
        (void)snprintf(what, sizeof what, "call %d fails", n);
        mount(what, &boxes[0]);
    }
    begin("abcd");
    mount("too many", &boxes[2]);
    journal_compare("volume_mounted");
}

static void
test_one_sandbox_has_a_volume(void **state)
{
    (void)state;
    journal_begin();
    for (int i = 0; i < 3; i++) {
        begin("abc");
        (void)snprintf(boxes[i].volumes, sizeof boxes[i].volumes, "b");
        mount("the second is in one of them", &boxes[1]);
    }
    journal_compare("volume_taken");
}

static void
test_who_waits_for_a_volume_looks_again(void **state)
{
    (void)state;
    journal_begin();
    begin("");
    boxes[0].volume_until_ns = 1;
    boxes[2].volume_until_ns = 1;
    wp_local_volumes_freed(&local);
    free(wanted);
    wanted = NULL;
    journal_compare("volume_freed");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volumes_are_recorded_and_then_mounted),
        cmocka_unit_test(test_one_sandbox_has_a_volume),
        cmocka_unit_test(test_who_waits_for_a_volume_looks_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
