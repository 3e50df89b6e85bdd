#include "runtime/mcp/mcp_tools.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/formats/json_text.h"
#include "runtime/files/file_text.h"
#include "pool/base/os_error.h"
#include "runtime/mcp/mcp_args.h"
#include "runtime/mcp/mcp_exec.h"
#include "runtime/runtime.h"
#include "runtime/mcp/skills.h"

/* ----------------------------------------------------------------- files */

static void
tool_read_file(struct wp_runtime *runtime, const json_t *args,
               const struct wp_mcp_answer *answer)
{
    const char *path = wp_mcp_arg_string(args, "path");
    json_t *text;
    struct wp_err err;

    if (*path == '\0') {
        wp_mcp_answer_failure(answer, "path must not be empty");
        return;
    }
    if (wp_file_read(path, runtime->options.read_max, &text, &err) != WP_OK) {
        (void)wp_err_wrap(&err, "failed to read file %s", path);
        wp_mcp_answer_failure(answer, err.msg);
        return;
    }
    wp_mcp_answer_text(answer, text);
}

/* Makes the folder of path; false, and answered, when it cannot. */
static bool
make_parent(const struct wp_mcp_answer *answer, const char *path)
{
    const char *slash = strrchr(path, '/');
    char dir[PATH_MAX];
    struct wp_err err;

    if (slash == NULL || slash == path) {
        return true;
    }
    if ((size_t)(slash - path) >= sizeof(dir)) {
        wp_mcp_answer_failure(answer,
                              "failed to create directory: file name too long");
        return false;
    }
    memcpy(dir, path, (size_t)(slash - path));
    dir[slash - path] = '\0';
    if (wp_file_make_dirs(dir, &err) != WP_OK) {
        (void)wp_err_wrap(&err, "failed to create directory %s", dir);
        wp_mcp_answer_failure(answer, err.msg);
        return false;
    }
    return true;
}

static void
tool_write_file(struct wp_runtime *runtime, const json_t *args,
                const struct wp_mcp_answer *answer)
{
    const json_t *content = json_object_get(args, "content");
    const char *path = wp_mcp_arg_string(args, "path");
    struct wp_str bytes;
    struct wp_err err;

    (void)runtime;
    if (*path == '\0') {
        wp_mcp_answer_failure(answer, "path must not be empty");
        return;
    }
    if (!make_parent(answer, path)) {
        return;
    }
    bytes = (struct wp_str){json_string_value(content),
                            json_string_length(content)};
    if (wp_file_write(path, bytes, &err) != WP_OK) {
        (void)wp_err_wrap(&err, "failed to write file %s", path);
        wp_mcp_answer_failure(answer, err.msg);
        return;
    }
    wp_mcp_answer_json(answer, json_pack("{s:b}", "ok", 1));
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
              const struct wp_mcp_answer *answer)
{
    struct dirent **names = NULL;
    json_t *entries = json_array();
    const char *path = wp_mcp_arg_string(args, "path");
    struct wp_err err;
    int count;
    int dir;

    (void)runtime;
    path = *path != '\0' ? path : ".";
    dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    count = dir >= 0 ? wp_workspace_scan(dir, &names) : -1;
    if (count < 0) {
        (void)wp_err_set(&err, WP_NOT_FOUND,
                         "failed to list directory %s: open %s: %s", path, path,
                         wp_os_error(errno));
        wp_mcp_answer_failure(answer, err.msg);
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
    wp_mcp_answer_json(answer, json_pack("{s:o}", "entries", entries));
}

static void
tool_get_skill(struct wp_runtime *runtime, const json_t *args,
               const struct wp_mcp_answer *answer)
{
    const char *name = wp_mcp_arg_string(args, "name");
    json_t *text;
    struct wp_err err;

    if (wp_skills_read(runtime->options.skills_dir, name, &text, &err) !=
        WP_OK) {
        wp_mcp_answer_failure(answer, err.msg);
        return;
    }
    wp_mcp_answer_text(answer, text);
}

/* ----------------------------------------------------------------- table */

#define SKILL_TEXT "Load the full content of a skill by name."

/* By name, as clients see them listed. */
static const struct tool {
    const char *name;
    const char *description;
    struct wp_mcp_arg args[4];
    void (*run)(struct wp_runtime *runtime, const json_t *args,
                const struct wp_mcp_answer *answer);
} tools[] = {
    {"exec",
     "Execute a shell command in the sandbox",
     {{"command", WP_MCP_ARG_STRING, "The shell command, run by sh -c", true},
      {"timeout_ms", WP_MCP_ARG_WHOLE, "Time limit in milliseconds; 0: none",
       false},
      {"working_dir", WP_MCP_ARG_STRING, "Folder to run in", false}},
     wp_mcp_exec},
    {"get_skill",
     SKILL_TEXT,
     {{"name", WP_MCP_ARG_STRING, "Name of the skill", true}},
     tool_get_skill},
    {"list_dir",
     "List entries in a directory",
     {{"path", WP_MCP_ARG_STRING, "Path of the directory (default .)", false}},
     tool_list_dir},
    {"read_file",
     "Read the content of a file",
     {{"path", WP_MCP_ARG_STRING, "Path of the file", true}},
     tool_read_file},
    {"write_file",
     "Write content to a file (creates parent directories if needed)",
     {{"path", WP_MCP_ARG_STRING, "Path of the file", true},
      {"content", WP_MCP_ARG_CONTENT, "The file's whole new content", true}},
     tool_write_file},
};

json_t *
wp_mcp_tools_describe(const char *skills)
{
    json_t *list = json_array();

    for (size_t i = 0; i < WP_ARRAY_LEN(tools); i++) {
        json_t *tool =
            json_pack("{s:s, s:s, s:o}", "name", tools[i].name, "description",
                      tools[i].description, "inputSchema",
                      wp_mcp_args_schema(tools[i].args));

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
wp_mcp_tools_call(void *app, const char *name, json_t *args,
                  wp_mcp_tool_done done, void *user)
{
    const struct wp_mcp_answer answer = {done, user};
    char msg[160];
    struct wp_err err;

    for (size_t i = 0; i < WP_ARRAY_LEN(tools); i++) {
        if (strcmp(name, tools[i].name) != 0) {
            continue;
        }
        if (wp_mcp_args_check(tools[i].args, args, &err) == WP_OK) {
            tools[i].run(app, args, &answer);
        } else {
            (void)wp_err_wrap(&err, "invalid params");
            done(user, NULL, WP_MCP_INVALID_PARAMS, err.msg);
        }
        return;
    }
    snprintf(msg, sizeof(msg), "unknown tool \"%s\"", name);
    done(user, NULL, WP_MCP_INVALID_PARAMS, msg);
}
