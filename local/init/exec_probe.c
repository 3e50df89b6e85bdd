#include "local/init/init_impl.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RETRY_LAST_US = 16000,
    RETRY_LAST_EXEC_US = 250000, /* To start a program costs more. */
    PROBE_TIMEOUT_US = 1000000,
};

static void
end_exec_probe(struct wp_init *init)
{
    if (init->probe_child > 0) {
        (void)kill(-init->probe_child, SIGKILL); /* It has its own session. */
        init->probe_child = 0;
    }
}

bool
wp_init_is_probing(const struct wp_init *init)
{
    return init->probe_child > 0 || wp_inner_probe_running(&init->probe);
}

void
wp_init_start_probe(struct wp_init *init)
{
    const struct wp_program *program = &init->programs.probe;
    pid_t pid;
    int null;

    if (program->argv == NULL) {
        init->wake_us = wp_init_now_us() + PROBE_TIMEOUT_US;
        wp_inner_probe_start(&init->probe);
        return;
    }
    init->wake_us = wp_init_now_us() + (int64_t)program->timeout_s * 1000000;
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    pid = null >= 0 ? fork() : -1;
    if (pid == 0) {
        wp_init_run_program(init, program, null, null);
    }
    if (null >= 0) {
        (void)close(null);
    }
    if (pid < 0) {
        init->probe.done(&init->probe, false);
        return;
    }
    init->probe_child = pid;
}

void
wp_init_exec_probe_ended(struct wp_init *init, int status)
{
    init->probe_child = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        init->wake_us = wp_init_now_us() + PROBE_TIMEOUT_US;
        wp_inner_probe_start(&init->probe);
    } else {
        init->probe.done(&init->probe, false);
    }
}

void
wp_init_probe_done(struct wp_inner_probe *probe, bool answered)
{
    struct wp_init *init = WP_CONTAINER_OF(probe, struct wp_init, probe);
    int64_t last_us =
        init->programs.probe.argv != NULL ? RETRY_LAST_EXEC_US : RETRY_LAST_US;

    init->wake_us = INT64_MAX;
    if (init->opened) {
        if (init->asked) {
            init->asked = false;
            wp_init_tell(init,
                         answered ? WP_CONTROL_ANSWERS : WP_CONTROL_SILENT, "");
        }
    } else if (answered) {
        init->opened = true;
        wp_init_tell(init, WP_CONTROL_OPEN, "");
    } else {
        init->wake_us = wp_init_now_us() + init->retry_us;
        init->retry_us = init->retry_us * 3 / 2;
        if (init->retry_us > last_us) {
            init->retry_us = last_us;
        }
    }
}

void
wp_init_probe_due(struct wp_init *init)
{
    init->wake_us = INT64_MAX;
    if (init->probe_child > 0) {
        end_exec_probe(init);
        init->probe.done(&init->probe, false);
    } else if (wp_inner_probe_running(&init->probe)) {
        wp_inner_probe_give_up(&init->probe);
    } else if (!init->opened) {
        wp_init_start_probe(init);
    }
}
