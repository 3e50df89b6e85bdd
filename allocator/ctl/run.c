#include "allocator/ctl/run.h"

#include <string.h>
#include <sys/mman.h>

#include "allocator/ctl/commands.h"
#include "allocator/ctl/rpc_client.h"
#include "pool/base/nearest.h"

/* Of address space; pages that are not written cost nothing. */
#define ARENA_SIZE ((size_t)1 << 30)

static void
help_all(const struct wp_ctl_command *commands, FILE *out)
{
    (void)fputs(
        "warmpoolctl talks to warmpoold: it claims sandboxes, uses them, and "
        "looks\nafter pools.\n\n"
        "Usage: warmpoolctl COMMAND [operands] [options]\n\nCommands:\n",
        out);
    for (const struct wp_ctl_command *c = commands; c->name != NULL; c++) {
        (void)fprintf(out, "  %-12s%s\n", c->name, c->summary);
    }
    (void)fputs(
        "\nA first round:\n"
        "  warmpoolctl pools                          what is there\n"
        "  id=$(warmpoolctl claim POOL -o name)       lease a sandbox\n"
        "  warmpoolctl exec $id -- sh -c 'uname -a'   use it\n"
        "  warmpoolctl release $id                    end the lease\n"
        "\nExit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 "
        "unavailable,\n5 exhausted or timed out; exec has its own (see exec "
        "--help).\n"
        "\nwarmpoolctl COMMAND --help explains a command, with examples.\n",
        out);
}

/* "help", "help COMMAND" (args[0] is "help"), --help, or no word at all, which
 * is a mistake (asked is false) and goes to ctl->errors. Returns the exit
 * code. */
static int
help_main(int n_args, char **args, bool asked, const struct wp_ctl *ctl)
{
    if (n_args > 0 && strcmp(args[0], "help") == 0) {
        n_args--;
        args++;
        asked = true;
    }
    if (n_args > 0) {
        for (const struct wp_ctl_command *c = ctl->commands; c->name != NULL;
             c++) {
            if (strcmp(c->name, args[0]) == 0) {
                wp_help_command(c, ctl->out);
                return WP_EXIT_OK;
            }
        }
    }
    help_all(ctl->commands, asked ? ctl->out : ctl->errors);
    return asked ? WP_EXIT_OK : WP_EXIT_USAGE;
}

static const struct wp_ctl_command *
find_command(const struct wp_ctl_command *commands, const char *name,
             struct wp_nearest *nearest)
{
    wp_nearest_init(nearest, wp_str_from(name));
    for (const struct wp_ctl_command *c = commands; c->name != NULL; c++) {
        if (strcmp(c->name, name) == 0) {
            return c;
        }
        wp_nearest_offer(nearest, c->name);
    }
    return NULL;
}

static int
unknown_command(struct wp_ctl *ctl, const char *name,
                const struct wp_nearest *nearest)
{
    struct wp_err err;

    (void)wp_err_set(&err, WP_INVALID_ARGUMENT, "unknown command '%.40s'%s%s%s",
                     name, nearest->best != NULL ? "; did you mean " : "",
                     nearest->best != NULL ? nearest->best : "",
                     nearest->best != NULL ? "?" : "");
    return wp_ctl_usage(ctl, &err);
}

/* Are there as many operands as the command takes? */
static enum wp_status
check_operands(const struct wp_ctl *ctl, struct wp_err *err)
{
    const struct wp_ctl_command *command = ctl->command;
    int n = ctl->options.n_args;

    if (n > command->args_max && !command->with_rest) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "%s: '%.60s' is too much",
                          command->name, ctl->options.args[command->args_max]);
    }
    if (n < command->args_min || n > command->args_max ||
        (command->with_rest && ctl->options.n_rest == 0)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "%s: expected %s",
                          command->name, command->operands);
    }
    return WP_OK;
}

static int
run_command(struct wp_ctl *ctl, char **args, int n)
{
    struct wp_err err;
    int code;

    if (wp_ctl_options_parse(&ctl->options, ctl->command->options,
                             ctl->command->with_rest, args, n, &err) != WP_OK) {
        return wp_ctl_usage(ctl, &err);
    }
    if (ctl->options.help) {
        wp_help_command(ctl->command, ctl->out);
        return WP_EXIT_OK;
    }
    if (check_operands(ctl, &err) != WP_OK) {
        return wp_ctl_usage(ctl, &err);
    }
    code = ctl->command->run(ctl);
    /* What failed before may have been dropped by now. */
    if ((fflush(ctl->out) != 0 || ferror(ctl->out) != 0) &&
        code == WP_EXIT_OK) {
        (void)wp_err_set(&err, WP_INTERNAL, "cannot write the output");
        return wp_ctl_fail(ctl, &err, 0);
    }
    return code;
}

int
wp_ctl_main(const struct wp_ctl_command *commands, int argc, char **argv,
            FILE *out, FILE *errors)
{
    struct wp_ctl ctl = {.commands = commands, .out = out, .errors = errors};
    void *memory = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct wp_nearest nearest;
    struct wp_err err;
    char **args = argv + 1;
    int n = argc > 0 ? argc - 1 : 0;
    int at = 0;
    int code;

    if (memory == MAP_FAILED) {
        (void)fputs("warmpoolctl: out of memory\n", errors);
        return WP_EXIT_FAILED;
    }
    wp_arena_init(&ctl.arena, memory, ARENA_SIZE);
    wp_ctl_options_init(&ctl.options);
    if (wp_ctl_options_parse_first(&ctl.options, args, n, &at, &err) != WP_OK) {
        code = wp_ctl_usage(&ctl, &err);
    } else if (at == n || ctl.options.help || strcmp(args[at], "help") == 0) {
        code = help_main(n - at, args + at, ctl.options.help, &ctl);
    } else {
        ctl.command = find_command(commands, args[at], &nearest);
        code = ctl.command == NULL
                   ? unknown_command(&ctl, args[at], &nearest)
                   : run_command(&ctl, args + at + 1, n - at - 1);
    }
    wp_rpc_client_close(ctl.rpc);
    (void)munmap(memory, ARENA_SIZE);
    return code;
}
