#include "runtime/mcp/mcp_tools.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/formats/json_text.h"
#include "runtime/exec/exec_result.h"
#include "runtime/files/file_text.h"
#include "pool/base/os_error.h"
#include "runtime/runtime.h"
#include "runtime/mcp/skills.h"

/* A tool's way to its answer. */
struct answer {
    wp_mcp_tool_done done;
    void *user;
};

static void
answer_text(const struct answer *answer, json_t *text, bool is_error)
{
    answer->done(answer->user, wp_mcp_text_result(text, is_error), 0, NULL);
}

static void
answer_failure(const struct answer *answer, const char *text)
{
    answer_text(answer, wp_json_from_text(text), true);
}

/* The text is itself JSON. Takes value. */
static void
answer_json(const struct answer *answer, json_t *value)
{
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;

    json_decref(value);
    answer_text(answer, text != NULL ? json_string(text) : NULL, false);
    free(text);
}

/* A string argument; "" when absent. False, and answered, when it is of
 * another type, or has a NUL, which no path or command can hold. */
static bool
arg_string(const struct answer *answer, const json_t *args, const char *key,
           const char **out)
{
    const json_t *value = json_object_get(args, key);
    char msg[96];

    *out = "";
    if (value == NULL || json_is_null(value)) {
        return true;
    }
    if (json_is_string(value) &&
        strlen(json_string_value(value)) == json_string_length(value)) {
        *out = json_string_value(value);
        return true;
    }
    snprintf(msg, sizeof(msg), "arguments.%s: a string%s is required", key,
             json_is_string(value) ? " without NUL" : "");
    answer->done(answer->user, NULL, WP_MCP_INVALID_PARAMS, msg);
    return false;
}

/* The path argument; false, and answered, when it is missing or unfit. */
static bool
arg_path(const struct answer *answer, const json_t *args, const char **out)
{
    if (!arg_string(answer, args, "path", out)) {
        return false;
    }
    if (**out == '\0') {
        answer_failure(answer, "path must not be empty");
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ exec */

static void
on_exec_done(void *user, const struct wp_process_result *result)
{
    struct answer *answer = user;

    wp_exec_result_log("mcp", result);
    answer_json(answer, wp_exec_result_json(result, result->exit_code));
    free(answer);
}

static void
tool_exec(struct wp_runtime *runtime, const json_t *args,
          const struct answer *answer)
{
    static const struct wp_process_events events = {.done = on_exec_done};
    const json_t *timeout = json_object_get(args, "timeout_ms");
    const char *command;
    const char *dir;
    char sh[] = "sh";
    char flag[] = "-c";
    char *argv[4] = {sh, flag, NULL, NULL};
    struct wp_process_spec spec = {
        .argv = argv, .cwd_fd = -1, .output_max = runtime->options.output_max};
    struct wp_process *process;
    struct answer *later;
    struct wp_err err;

    if (!arg_string(answer, args, "command", &command) ||
        !arg_string(answer, args, "working_dir", &dir)) {
        return;
    }
    if (timeout != NULL && !json_is_number(timeout) && !json_is_null(timeout)) {
        answer->done(answer->user, NULL, WP_MCP_INVALID_PARAMS,
                     "arguments.timeout_ms: a number is required");
        return;
    }
    if (*command == '\0') {
        answer_failure(answer, "command must not be empty");
        return;
    }
    spec.cwd = *dir != '\0' ? dir : NULL;
    if (json_is_number(timeout) && json_number_value(timeout) >= 1) {
        double ms = json_number_value(timeout);

        /* About 31 years: more is as good as none. */
        spec.timeout_ms = ms < 1e12 ? (int64_t)ms : INT64_C(1000000000000);
    }
    later = malloc(sizeof(*later));
    argv[2] = strdup(command);
    if (later == NULL || argv[2] == NULL) {
        answer_text(answer, NULL, true);
        free(later);
        free(argv[2]);
        return;
    }
    *later = *answer;
    if (wp_process_start(runtime->processes, &spec, &events, later, &process,
                         &err) != WP_OK) {
        (void)wp_err_wrap(&err, "failed to run command");
        answer_failure(answer, err.msg);
        free(later);
    }
    free(argv[2]);
}

/* ----------------------------------------------------------------- files */

static void
tool_read_file(struct wp_runtime *runtime, const json_t *args,
               const struct answer *answer)
{
    const char *path;
    json_t *text;
    struct wp_err err;

    if (!arg_path(answer, args, &path)) {
        return;
    }
    if (wp_file_read(path, runtime->options.read_max, &text, &err) != WP_OK) {
        (void)wp_err_wrap(&err, "failed to read file %s", path);
        answer_failure(answer, err.msg);
        return;
    }
    answer_text(answer, text, false);
}

/* Makes the folder of path; false, and answered, when it cannot. */
static bool
make_parent(const struct answer *answer, const char *path)
{
    const char *slash = strrchr(path, '/');
    char dir[PATH_MAX];
    struct wp_err err;

    if (slash == NULL || slash == path) {
        return true;
    }
    if ((size_t)(slash - path) >= sizeof(dir)) {
        answer_failure(answer,
                       "failed to create directory: file name too long");
        return false;
    }
    memcpy(dir, path, (size_t)(slash - path));
    dir[slash - path] = '\0';
    if (wp_file_make_dirs(dir, &err) != WP_OK) {
        (void)wp_err_wrap(&err, "failed to create directory %s", dir);
        answer_failure(answer, err.msg);
        return false;
    }
    return true;
}

static void
tool_write_file(struct wp_runtime *runtime, const json_t *args,
                const struct answer *answer)
{
    const json_t *content = json_object_get(args, "content");
    struct wp_str bytes;
    const char *path;
    struct wp_err err;

    (void)runtime;
    if (!arg_string(answer, args, "path", &path)) {
        return;
    }
    if (!json_is_string(content)) {
        answer->done(answer->user, NULL, WP_MCP_INVALID_PARAMS,
                     "arguments.content: a string is required");
        return;
    }
    if (*path == '\0') {
        answer_failure(answer, "path must not be empty");
        return;
    }
    if (!make_parent(answer, path)) {
        return;
    }
    bytes = (struct wp_str){json_string_value(content),
                            json_string_length(content)};
    if (wp_file_write(path, bytes, &err) != WP_OK) {
        (void)wp_err_wrap(&err, "failed to write file %s", path);
        answer_failure(answer, err.msg);
        return;
    }
    answer_json(answer, json_pack("{s:b}", "ok", 1));
}

/* A link counts as a file, with its own size. NULL when it has gone. */
static json_t *
entry_json(int dir, const char *name)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return NULL;
    }
    return json_pack("{s:o, s:s, s:I}", "name", wp_json_from_text(name), "type",
                     S_ISDIR(st.st_mode) ? "dir" : "file", "size",
                     (json_int_t)st.st_size);
}

static void
tool_list_dir(struct wp_runtime *runtime, const json_t *args,
              const struct answer *answer)
{
    struct dirent **names = NULL;
    json_t *entries = json_array();
    const char *path;
    struct wp_err err;
    int count;
    int dir;

    (void)runtime;
    if (!arg_string(answer, args, "path", &path)) {
        json_decref(entries);
        return;
    }
    path = *path != '\0' ? path : ".";
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    count = dir >= 0 ? wp_workspace_scan(dir, &names) : -1;
    if (count < 0) {
        (void)wp_err_set(&err, WP_NOT_FOUND,
                         "failed to list directory %s: open %s: %s", path, path,
                         wp_os_error(errno));
        answer_failure(answer, err.msg);
        json_decref(entries);
        if (dir >= 0) {
            close(dir);
        }
        return;
    }
    for (int i = 0; i < count; i++) {
        if (i < WP_MCP_DIR_ENTRIES_MAX) {
            json_array_append_new(entries, entry_json(dir, names[i]->d_name));
        }
        free(names[i]);
    }
    free(names);
    close(dir);
    answer_json(answer, json_pack("{s:o}", "entries", entries));
}

static void
tool_get_skill(struct wp_runtime *runtime, const json_t *args,
               const struct answer *answer)
{
    const char *name;
    json_t *text;
    struct wp_err err;

    if (!arg_string(answer, args, "name", &name)) {
        return;
    }
    if (wp_skills_read(runtime->options.skills_dir, name, &text, &err) !=
        WP_OK) {
        answer_failure(answer, err.msg);
        return;
    }
    answer_text(answer, text, false);
}

/* ----------------------------------------------------------------- table */

#define SKILL_TEXT "Load the full content of a skill by name."

struct arg {
    const char *name; /* NULL ends a list. */
    const char *type;
    const char *description;
    bool required;
};

static const struct tool {
    const char *name;
    const char *description;
    struct arg args[4];
    void (*run)(struct wp_runtime *runtime, const json_t *args,
                const struct answer *answer);
} tools[] = {
    {"exec",
     "Execute a shell command in the sandbox",
     {{"command", "string", "The shell command, run by sh -c", true},
      {"timeout_ms", "integer", "Time limit in milliseconds; 0: none", false},
      {"working_dir", "string", "Folder to run in", false}},
     tool_exec},
    {"read_file",
     "Read the content of a file",
     {{"path", "string", "Path of the file", true}},
     tool_read_file},
    {"write_file",
     "Write content to a file (creates parent directories if needed)",
     {{"path", "string", "Path of the file", true},
      {"content", "string", "The file's whole new content", true}},
     tool_write_file},
    {"list_dir",
     "List entries in a directory",
     {{"path", "string", "Path of the directory (default .)", false}},
     tool_list_dir},
    {"get_skill",
     SKILL_TEXT,
     {{"name", "string", "Name of the skill", true}},
     tool_get_skill},
};

static json_t *
schema_of(const struct tool *tool)
{
    json_t *properties = json_object();
    json_t *required = json_array();
    json_t *schema;

    for (const struct arg *arg = tool->args; arg->name != NULL; arg++) {
        json_object_set_new(properties, arg->name,
                            json_pack("{s:s, s:s}", "type", arg->type,
                                      "description", arg->description));
        if (arg->required) {
            json_array_append_new(required, json_string(arg->name));
        }
    }
    schema =
        json_pack("{s:s, s:o}", "type", "object", "properties", properties);
    if (json_array_size(required) > 0) {
        json_object_set(schema, "required", required);
    }
    json_decref(required);
    return schema;
}

json_t *
wp_mcp_tools_describe(const char *skills)
{
    json_t *list = json_array();

    for (size_t i = 0; i < WP_ARRAY_LEN(tools); i++) {
        json_t *tool = json_pack("{s:s, s:s, s:o}", "name", tools[i].name,
                                 "description", tools[i].description,
                                 "inputSchema", schema_of(&tools[i]));

        if (tools[i].run == tool_get_skill && *skills != '\0') {
            char *text = NULL;

            if (asprintf(&text, "%s\n\nAvailable skills:\n%s", SKILL_TEXT,
                         skills) > 0) {
                json_object_set_new(tool, "description",
                                    wp_json_from_text(text));
                free(text);
            }
        }
        json_array_append_new(list, tool);
    }
    return list;
}

void
wp_mcp_tools_call(void *app, const char *name, const json_t *args,
                  wp_mcp_tool_done done, void *user)
{
    const struct answer answer = {done, user};
    char msg[160];

    for (size_t i = 0; i < WP_ARRAY_LEN(tools); i++) {
        if (strcmp(name, tools[i].name) == 0) {
            tools[i].run(app, args, &answer);
            return;
        }
    }
    snprintf(msg, sizeof(msg), "unknown tool \"%s\"", name);
    done(user, NULL, WP_MCP_INVALID_PARAMS, msg);
}
