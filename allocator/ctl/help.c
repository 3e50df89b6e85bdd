#include "allocator/ctl/commands.h"

#include <string.h>

enum {
    WIDTH = 80,
    INDENT = 24, /* Of the options' explanations. */
};

/* Text in lines of at most WIDTH, all but the first indented. */
static void
print_wrapped(const char *text, FILE *out)
{
    int column = INDENT;

    while (*text != '\0') {
        int word = (int)strcspn(text, " ");

        if (column > INDENT && column + 1 + word > WIDTH) {
            (void)fprintf(out, "\n%*s", INDENT, "");
            column = INDENT;
        } else if (column > INDENT) {
            (void)fputc(' ', out);
            column++;
        }
        (void)fprintf(out, "%.*s", word, text);
        column += word;
        text += word;
        text += *text == ' ';
    }
    (void)fputc('\n', out);
}

static void
print_option(const struct wp_ctl_command *command, const char *name, FILE *out)
{
    const struct wp_ctl_option *option = wp_ctl_option_find(name);
    char head[64];
    int n = 0;

    n = option->letter != '\0'
            ? snprintf(head, sizeof head, "  -%c, --%s", option->letter, name)
            : snprintf(head, sizeof head, "      --%s", name);
    if (option->operand != NULL) {
        n +=
            snprintf(head + n, sizeof head - (size_t)n, " %s", option->operand);
    }
    if (n >= INDENT) {
        (void)fprintf(out, "%s\n%*s", head, INDENT, "");
    } else {
        (void)fprintf(out, "%-*s", INDENT, head);
    }
    print_wrapped(wp_ctl_option_help(option, command->name), out);
}

void
wp_help_usage(const struct wp_ctl_command *command, FILE *out)
{
    (void)fprintf(
        out, "Usage: warmpoolctl %s%s%s%s\n", command->name,
        command->operands[0] != '\0' ? " " : "", command->operands,
        strstr(command->operands, "[options]") != NULL ? "" : " [options]");
}

void
wp_help_command(const struct wp_ctl_command *command, FILE *out)
{
    const char *examples = strstr(command->help, "Examples:\n");
    int text_len = examples != NULL ? (int)(examples - command->help)
                                    : (int)strlen(command->help);

    wp_help_usage(command, out);
    (void)fprintf(out, "\n%.*s", text_len, command->help);
    if (command->options[0] != NULL) {
        (void)fputs("Options:\n", out);
        for (const char *const *p = command->options; *p != NULL; p++) {
            print_option(command, *p, out);
        }
        (void)fputc('\n', out);
    }
    (void)fputs("Common options:\n", out);
    for (const char *const *p = wp_ctl_options_common; *p != NULL; p++) {
        print_option(command, *p, out);
    }
    if (examples != NULL) {
        (void)fprintf(out, "\n%s", examples);
    }
}
