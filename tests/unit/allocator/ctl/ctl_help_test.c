/* What `warmpoolctl help COMMAND` says, of every command, and what shells are
 * told of all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/ctl/commands.h"
#include "allocator/ctl/ctl.h"
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

static void
test_completion_of_shells(void **state)
{
    char bash[] = "bash";
    char zsh[] = "zsh";
    char fish[] = "fish";
    char *const shells[] = {bash, zsh, fish};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(shells); i++) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);
        struct wp_ctl ctl = {.out = out, .commands = wp_ctl_commands};
        char path[512];

        assert_non_null(out);
        ctl.options.args = &shells[i];
        assert_int_equal(wp_cmd_completion(&ctl), 0);
        assert_int_equal(fclose(out), 0);
        (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/completion.%s",
                       shells[i]);
        golden_compare(text, path);
        free(text);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help_of_commands),
        cmocka_unit_test(test_completion_of_shells),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
