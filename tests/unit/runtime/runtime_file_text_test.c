/* tests/unit/runtime/runtime_file_text_test.c - whole files, and no parts of them
 * that pass for the whole. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/files/file_text.h"

enum {
    BYTES = 20000
};

static bool no_memory;

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);

void *
__wrap_realloc(void *p, size_t size)
{
    return no_memory ? NULL : __real_realloc(p, size);
}

/* A pipe says nothing of its size, so the buffer must grow. */
static void
test_growing(void **state)
{
    static char bytes[BYTES];
    char dir[] = "/tmp/wp-text-XXXXXX";
    struct wp_err err = {.msg = ""};
    char path[64];
    json_t *text = NULL;
    size_t len;
    char *head;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/pipe", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(write(fd, bytes, sizeof bytes), BYTES);
    no_memory = true;
    assert_int_not_equal(wp_file_read(path, 1 << 20, &text, &err), WP_OK);
    assert_non_null(strstr(err.msg, "memory"));
    no_memory = false;
    (void)close(fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, sizeof bytes), BYTES);
    /* What was asked for is all there. */
    head = wp_file_read_head(path, 4096, &len);
    assert_non_null(head);
    assert_int_equal(len, 4096);
    free(head);
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
