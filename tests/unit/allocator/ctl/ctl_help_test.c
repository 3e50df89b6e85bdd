/* What `warmpoolctl help COMMAND` says, of every command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/ctl/commands.h"
#include "tests/support/base/golden.h"

enum {
    COLUMNS_MAX = 80,
};

static void
test_help_of_commands(void **state)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    (void)state;
    assert_non_null(out);
    for (const struct wp_ctl_command *c = wp_ctl_commands; c->name != NULL;
         c++) {
        (void)fprintf(out, "=== %s\n", c->name);
        wp_help_command(c, out);
    }
    assert_int_equal(fclose(out), 0);
    golden_compare(text, WP_TEST_GOLDEN "/help.txt");
    for (const char *line = text; *line != '\0';) {
        size_t line_len = strcspn(line, "\n");

        assert_true(line_len <= COLUMNS_MAX ||
                    strncmp(line, "Usage: ", 7) == 0);
        line += line_len + 1;
    }
    free(text);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help_of_commands),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
