#include "runtime/mcp/skills.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/files/file_text.h"

static struct wp_str
trim(struct wp_str s, const char *set)
{
    while (s.len > 0 && strchr(set, s.ptr[0]) != NULL && s.ptr[0] != '\0') {
        s.ptr++;
        s.len--;
    }
    while (s.len > 0 && s.ptr[s.len - 1] != '\0' &&
           strchr(set, s.ptr[s.len - 1]) != NULL) {
        s.len--;
    }
    return s;
}

static void
key_value(struct wp_str line, struct wp_skill_head *out)
{
    const char *colon = memchr(line.ptr, ':', line.len);
    struct wp_str key;
    struct wp_str value;

    if (colon == NULL) {
        return;
    }
    key = trim((struct wp_str){line.ptr, (size_t)(colon - line.ptr)}, " \t");
    value =
        (struct wp_str){colon + 1, line.len - (size_t)(colon + 1 - line.ptr)};
    value = trim(trim(value, " \t"), "\"'");
    if (wp_str_is(key, "name")) {
        out->name = value;
    } else if (wp_str_is(key, "description")) {
        out->description = value;
    }
}

void
wp_skill_head_parse(struct wp_str text, struct wp_skill_head *out)
{
    bool inside = false;

    *out = (struct wp_skill_head){{"", 0}, {"", 0}};
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.ptr) : text.len;
        struct wp_str line = trim((struct wp_str){text.ptr, len}, " \t\r");

        if (wp_str_is(line, "---")) {
            if (inside) {
                return;
            }
            inside = true;
        } else if (inside && line.len > 0) {
            key_value(line, out);
        }
        len += end != NULL;
        text.ptr += len;
        text.len -= len;
    }
}

/* Folders only; a link to one is not, as the tool's clients know it. */
static int
is_folder(const struct dirent *entry)
{
    return entry->d_name[0] != '\0' && strcmp(entry->d_name, ".") != 0 &&
           strcmp(entry->d_name, "..") != 0 &&
           (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
}

static int
by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void
list_add(FILE *out, const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct wp_skill_head head;
    size_t len = 0;
    char *text;

    if (snprintf(path, sizeof(path), "%s/%s/SKILL.md", dir, name) >=
        (int)sizeof(path)) {
        return;
    }
    text = wp_file_read_head(path, WP_SKILL_HEAD_MAX, &len);
    if (text == NULL) {
        return;
    }
    wp_skill_head_parse((struct wp_str){text, len}, &head);
    if (head.name.len == 0) {
        head.name = wp_str_from(name);
    }
    fprintf(out, "- %.*s: %.*s\n", WP_STR_ARG(head.name),
            WP_STR_ARG(head.description));
    free(text);
}

char *
wp_skills_list(const char *dir)
{
    struct dirent **entries = NULL;
    int count = scandir(dir, &entries, is_folder, by_bytes);
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    for (int i = 0; i < count; i++) {
        if (out != NULL && i < WP_SKILLS_MAX) {
            list_add(out, dir, entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    if (out == NULL || fclose(out) != 0) {
        free(text);
        return NULL;
    }
    if (len > 0 && text[len - 1] == '\n') {
        text[len - 1] = '\0';
    }
    return text;
}

enum wp_status
wp_skills_read(const char *dir, const char *name, json_t **out,
               struct wp_err *err)
{
    char path[PATH_MAX];
    enum wp_status status;

    if (strstr(name, "..") != NULL || strpbrk(name, "/\\") != NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "invalid skill name: %s",
                          name);
    }
    if (snprintf(path, sizeof(path), "%s/%s%sSKILL.md", dir, name,
                 name[0] != '\0' ? "/" : "") >= (int)sizeof(path)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "invalid skill name: too long");
    }
    status = wp_file_read(path, WP_SKILL_FILE_MAX, out, err);
    return status == WP_OK ? WP_OK
                           : wp_err_wrap(err, "failed to read skill %s", name);
}
