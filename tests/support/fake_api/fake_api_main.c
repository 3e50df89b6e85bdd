/* tests/support/fake_api/fake_api_main.c - the fake API server as a program, for tests of whole
 * daemons.
 *
 *   fake_api [pod_ready_ms=N] [pod_stop_ms=N] [sandbox_ready_ms=N] [gc=1]
 *            [bookmark_ms=N] [gone_as_event=1] [future_silent=1]
 *
 * Prints its URL. A line "OPERATION JSON" on its input is answered with a line of
 * JSON on its output (see fake_api_control; null: no such thing). It ends with
 * its input, so that it never outlives a test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/compiler.h"
#include "tests/support/fake_api/fake_api.h"

static bool
option(struct fake_api_options *options, const char *text)
{
    const struct {
        const char *name;
        int64_t *number;
        bool *flag;
    } rows[] = {{"pod_ready_ms=", &options->pod_ready_ms, NULL},
                {"pod_stop_ms=", &options->pod_stop_ms, NULL},
                {"sandbox_ready_ms=", &options->sandbox_ready_ms, NULL},
                {"bookmark_ms=", &options->bookmark_ms, NULL},
                {"gc=", NULL, &options->gc},
                {"gone_as_event=", NULL, &options->gone_as_event},
                {"future_silent=", NULL, &options->future_silent}};

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        size_t len = strlen(rows[i].name);

        if (strncmp(text, rows[i].name, len) == 0) {
            long long value = strtoll(text + len, NULL, 10);

            if (rows[i].flag != NULL) {
                *rows[i].flag = value != 0;
            } else {
                *rows[i].number = value;
            }
            return true;
        }
    }
    return false;
}

static void
answer(struct fake_api *api, char *line)
{
    char *space = strchr(line, ' ');
    json_t *args = NULL;
    json_t *reply;
    char *text;

    if (space != NULL) {
        *space = '\0';
        args = json_loads(space + 1, 0, NULL);
    }
    reply = fake_api_control(api, line, args);
    text = reply != NULL ? json_dumps(reply, JSON_COMPACT | JSON_ENCODE_ANY)
                         : strdup("null");
    (void)printf("%s\n", text != NULL ? text : "null");
    (void)fflush(stdout);
    free(text);
    json_decref(reply);
    json_decref(args);
}

int
main(int argc, char **argv)
{
    struct fake_api_options options;
    struct fake_api *api;
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;

    fake_api_options_init(&options);
    for (int i = 1; i < argc; i++) {
        if (!option(&options, argv[i])) {
            (void)fprintf(stderr, "unknown option: %s\n", argv[i]);
            return 2;
        }
    }
    api = fake_api_start(&options);
    (void)printf("%s\n", fake_api_url(api));
    (void)fflush(stdout);
    while ((len = getline(&line, &cap, stdin)) > 0) {
        line[strcspn(line, "\n")] = '\0';
        answer(api, line);
    }
    free(line);
    fake_api_stop(api);
    return 0;
}
