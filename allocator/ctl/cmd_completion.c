/* completion and version. The scripts are made from the tables of commands and
 * options, so that they never lag behind. */
#include <string.h>

#include "allocator/ctl/commands.h"
#include "allocator/ctl/ctl.h"
#include "allocator/ctl/print.h"

/* What completes a subject, as each shell's command substitution wants it. */
#define POOLS_COMMAND "warmpoolctl pools --output name 2>/dev/null"
#define CLAIMS_COMMAND "warmpoolctl list --output name 2>/dev/null"
#define OUTPUTS "table json name"
#define SHELLS "bash zsh fish"

/* Every option once: the common ones, then each command's own. */
static void
each_option(const struct wp_ctl_command *commands,
            void (*each)(const struct wp_ctl_option *option, FILE *out),
            FILE *out)
{
    const char *seen[64];
    size_t n = 0;

    for (const struct wp_ctl_command *c = commands;; c++) {
        const char *const *names =
            c->name != NULL ? c->options : wp_ctl_options_common;

        for (; *names != NULL; names++) {
            bool again = false;

            for (size_t i = 0; i < n; i++) {
                again = again || strcmp(seen[i], *names) == 0;
            }
            if (!again && n < WP_ARRAY_LEN(seen)) {
                seen[n++] = *names;
                each(wp_ctl_option_find(*names), out);
            }
        }
        if (c->name == NULL) {
            return;
        }
    }
}

static void
print_flags(const char *const *names, FILE *out)
{
    for (; *names != NULL; names++) {
        (void)fprintf(out, " --%s", *names);
    }
}

/* The first len bytes in single quotes, as all three shells read them. */
static void
print_quoted(const char *text, size_t len, FILE *out)
{
    (void)fputc('\'', out);
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\'') {
            (void)fputs("'\\''", out);
        } else {
            (void)fputc(text[i], out);
        }
    }
    (void)fputc('\'', out);
}

/* "claim|release|..." */
static void
print_alternatives(const struct wp_ctl_command *commands, FILE *out)
{
    for (const struct wp_ctl_command *c = commands; c->name != NULL; c++) {
        (void)fprintf(out, "%s%s", c == commands ? "" : "|", c->name);
    }
}

/* --- bash --- */

/* What completes a command's operands, but files: words for a shell. */
static const char *const operand_words[] = {
    [WP_SUBJECT_NONE] = "",
    [WP_SUBJECT_FILE] = "",
    [WP_SUBJECT_POOL] = "$(" POOLS_COMMAND ")",
    [WP_SUBJECT_CLAIM] = "$(" CLAIMS_COMMAND ")",
    [WP_SUBJECT_OUTPUT] = "",
    [WP_SUBJECT_SHELL] = SHELLS,
};

static void
bash_option(const struct wp_ctl_option *option, FILE *out)
{
    static const char *const actions[] = {
        [WP_SUBJECT_NONE] = "()",
        [WP_SUBJECT_FILE] = "($(compgen -f -- \"$cur\"))",
        [WP_SUBJECT_POOL] =
            "($(compgen -W \"$(" POOLS_COMMAND ")\" -- \"$cur\"))",
        [WP_SUBJECT_CLAIM] = "()",
        [WP_SUBJECT_OUTPUT] = "($(compgen -W \"" OUTPUTS "\" -- \"$cur\"))",
        [WP_SUBJECT_SHELL] = "()",
    };

    if (option->operand == NULL) {
        return;
    }
    (void)fprintf(out, "    --%s", option->name);
    if (option->letter != '\0') {
        (void)fprintf(out, "|-%c", option->letter);
    }
    (void)fprintf(out, ") COMPREPLY=%s; return ;;\n", actions[option->subject]);
}

static void
completion_bash(const struct wp_ctl_command *commands, FILE *out)
{
    (void)fputs("# bash completion for warmpoolctl\n"
                "_warmpoolctl() {\n"
                "    local cur=${COMP_WORDS[COMP_CWORD]} cmd='' words='' i\n"
                "    COMPREPLY=()\n"
                "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                "        case ${COMP_WORDS[i]} in\n        ",
                out);
    print_alternatives(commands, out);
    (void)fputs(") cmd=${COMP_WORDS[i]}; break ;;\n"
                "        esac\n    done\n"
                "    case ${COMP_WORDS[COMP_CWORD - 1]} in\n",
                out);
    each_option(commands, bash_option, out);
    (void)fputs("    esac\n    if [[ $cur == -* ]]; then\n        words='",
                out);
    print_flags(wp_ctl_options_common, out);
    (void)fputs("'\n        case $cmd in\n", out);
    for (const struct wp_ctl_command *c = commands; c->name != NULL; c++) {
        if (c->options[0] != NULL) {
            (void)fprintf(out, "        %s) words+='", c->name);
            print_flags(c->options, out);
            (void)fputs("' ;;\n", out);
        }
    }
    (void)fputs("        esac\n    else\n        case $cmd in\n        '') "
                "words='",
                out);
    for (const struct wp_ctl_command *c = commands; c->name != NULL; c++) {
        (void)fprintf(out, "%s ", c->name);
    }
    (void)fputs("help' ;;\n", out);
    for (const struct wp_ctl_command *c = commands; c->name != NULL; c++) {
        if (c->subject == WP_SUBJECT_FILE) {
            (void)fprintf(out,
                          "        %s) COMPREPLY=($(compgen -f -- \"$cur\")); "
                          "return ;;\n",
                          c->name);
        } else if (c->subject != WP_SUBJECT_NONE) {
            (void)fprintf(out, "        %s) words=\"%s\" ;;\n", c->name,
                          operand_words[c->subject]);
        }
    }
    (void)fputs("        esac\n    fi\n"
                "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                "}\ncomplete -F _warmpoolctl warmpoolctl\n",
                out);
}

/* --- zsh --- */

static void
zsh_option(const struct wp_ctl_option *option, FILE *out)
{
    static const char *const actions[] = {
        [WP_SUBJECT_NONE] = ":",
        [WP_SUBJECT_FILE] = "_files",
        [WP_SUBJECT_POOL] = ("compadd -- ${(f)\"$(" POOLS_COMMAND ")\"}"),
        [WP_SUBJECT_CLAIM] = ":",
        [WP_SUBJECT_OUTPUT] = ("compadd -- " OUTPUTS),
        [WP_SUBJECT_SHELL] = ":",
    };

    if (option->operand == NULL) {
        return;
    }
    (void)fprintf(out, "    (--%s", option->name);
    if (option->letter != '\0') {
        (void)fprintf(out, "|-%c", option->letter);
    }
    (void)fprintf(out, ") %s; return ;;\n", actions[option->subject]);
}

static void
completion_zsh(const struct wp_ctl_command *commands, FILE *out)
{
    (void)fputs("#compdef warmpoolctl\n"
                "_warmpoolctl() {\n"
                "    local cmd='' i\n    local -a commands\n"
                "    for ((i = 2; i < CURRENT; i++)); do\n"
                "        case $words[i] in\n        (",
                out);
    print_alternatives(commands, out);
    (void)fputs(") cmd=$words[i]; break ;;\n        esac\n    done\n"
                "    case $words[CURRENT-1] in\n",
                out);
    each_option(commands, zsh_option, out);
    (void)fputs("    esac\n    if [[ $PREFIX == -* ]]; then\n"
                "        compadd --",
                out);
    print_flags(wp_ctl_options_common, out);
    (void)fputs("\n        case $cmd in\n", out);
    for (const struct wp_ctl_command *c = commands; c->name != NULL; c++) {
        if (c->options[0] != NULL) {
            (void)fprintf(out, "        (%s) compadd --", c->name);
            print_flags(c->options, out);
            (void)fputs(" ;;\n", out);
        }
    }
    (void)fputs("        esac\n        return\n    fi\n    case $cmd in\n"
                "    ('') commands=(\n",
                out);
    for (const struct wp_ctl_command *c = commands; c->name != NULL; c++) {
        (void)fprintf(out, "        %s:", c->name);
        print_quoted(c->summary, strlen(c->summary), out);
        (void)fputc('\n', out);
    }
    (void)fputs("        ); _describe command commands ;;\n", out);
    for (const struct wp_ctl_command *c = commands; c->name != NULL; c++) {
        if (c->subject == WP_SUBJECT_FILE) {
            (void)fprintf(out, "    (%s) _files ;;\n", c->name);
        } else if (c->subject == WP_SUBJECT_SHELL) {
            (void)fprintf(out, "    (%s) compadd -- " SHELLS " ;;\n", c->name);
        } else if (c->subject != WP_SUBJECT_NONE) {
            (void)fprintf(out, "    (%s) compadd -- ${(f)\"%s\"} ;;\n", c->name,
                          operand_words[c->subject]);
        }
    }
    (void)fputs("    esac\n}\n"
                "if [[ $ZSH_EVAL_CONTEXT == *:file ]]; then\n"
                "    compdef _warmpoolctl warmpoolctl\n"
                "else\n    _warmpoolctl \"$@\"\nfi\n",
                out);
}

/* --- fish --- */

static void
fish_option(const struct wp_ctl_option *option, const char *command,
            const char *condition, FILE *out)
{
    static const char *const values[] = {
        [WP_SUBJECT_NONE] = "-x",
        [WP_SUBJECT_FILE] = "-r -F",
        [WP_SUBJECT_POOL] = "-x -a '(" POOLS_COMMAND ")'",
        [WP_SUBJECT_CLAIM] = "-x",
        [WP_SUBJECT_OUTPUT] = "-x -a '" OUTPUTS "'",
        [WP_SUBJECT_SHELL] = "-x",
    };
    const char *help = wp_ctl_option_help(option, command);
    size_t first = strcspn(help, ".;:");

    (void)fprintf(out, "complete -c warmpoolctl %s -l %s", condition,
                  option->name);
    if (option->letter != '\0') {
        (void)fprintf(out, " -s %c", option->letter);
    }
    if (option->operand != NULL) {
        (void)fprintf(out, " %s", values[option->subject]);
    }
    (void)fputs(" -d ", out);
    print_quoted(help, first, out);
    (void)fputc('\n', out);
}

static void
fish_operands(const struct wp_ctl_command *c, FILE *out)
{
    static const char *const values[] = {
        [WP_SUBJECT_NONE] = NULL,
        [WP_SUBJECT_FILE] = "-F",
        [WP_SUBJECT_POOL] = "-a '(" POOLS_COMMAND ")'",
        [WP_SUBJECT_CLAIM] = "-a '(" CLAIMS_COMMAND ")'",
        [WP_SUBJECT_OUTPUT] = NULL,
        [WP_SUBJECT_SHELL] = "-a '" SHELLS "'",
    };

    if (values[c->subject] != NULL) {
        (void)fprintf(out,
                      "complete -c warmpoolctl -n '__fish_seen_subcommand_from "
                      "%s' %s\n",
                      c->name, values[c->subject]);
    }
}

static void
completion_fish(const struct wp_ctl_command *commands, FILE *out)
{
    (void)fputs("# fish completion for warmpoolctl\n"
                "complete -c warmpoolctl -f\n",
                out);
    for (const char *const *p = wp_ctl_options_common; *p != NULL; p++) {
        fish_option(wp_ctl_option_find(*p), "", "", out);
    }
    for (const struct wp_ctl_command *c = commands; c->name != NULL; c++) {
        char condition[100];

        (void)fprintf(out,
                      "complete -c warmpoolctl -n __fish_use_subcommand -a %s "
                      "-d ",
                      c->name);
        print_quoted(c->summary, strlen(c->summary), out);
        (void)fputc('\n', out);
        (void)snprintf(condition, sizeof condition,
                       "-n '__fish_seen_subcommand_from %s'", c->name);
        for (const char *const *p = c->options; *p != NULL; p++) {
            fish_option(wp_ctl_option_find(*p), c->name, condition, out);
        }
        fish_operands(c, out);
    }
}

int
wp_cmd_completion(struct wp_ctl *ctl)
{
    const char *shell = ctl->options.args[0];
    struct wp_err err;

    if (strcmp(shell, "bash") == 0) {
        completion_bash(ctl->commands, ctl->out);
    } else if (strcmp(shell, "zsh") == 0) {
        completion_zsh(ctl->commands, ctl->out);
    } else if (strcmp(shell, "fish") == 0) {
        completion_fish(ctl->commands, ctl->out);
    } else {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "'%.40s': expected bash, zsh or fish", shell);
        return wp_ctl_usage(ctl, &err);
    }
    return WP_EXIT_OK;
}

int
wp_cmd_version(struct wp_ctl *ctl)
{
    if (ctl->options.output == WP_OUTPUT_JSON) {
        wp_print_json(ctl->out, json_pack("{s:s}", "version", WP_VERSION),
                      true);
    } else {
        (void)fprintf(ctl->out, "warmpoolctl " WP_VERSION "\n");
    }
    return WP_EXIT_OK;
}
