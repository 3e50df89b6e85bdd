/* runtime/mcp/skills.h - the skills an agent may load: DIR/<name>/SKILL.md. */
#ifndef WP_RUNTIME_MCP_SKILLS_H
#define WP_RUNTIME_MCP_SKILLS_H

#include <jansson.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_SKILLS_MAX = 256,           /* Listed; further ones are left out. */
    WP_SKILL_HEAD_MAX = 64 * 1024, /* Bytes searched for front matter. */
    WP_SKILL_FILE_MAX = 8 << 20,   /* Bytes of one SKILL.md. */
};

/* Front matter: lines between two "---", "key: value"; quotes are trimmed. */
struct wp_skill_head {
    struct wp_str name; /* Empty when the text gives none. */
    struct wp_str description;
};
/* The slices point into text. Any thread. */
void wp_skill_head_parse(struct wp_str text, struct wp_skill_head *out);

/* "- name: description" a line, sorted by folder, "" when there are none (no
 * folder is no error; what cannot be read is left out). malloc'ed, or NULL on
 * no memory. */
char *wp_skills_list(const char *dir);

/* The whole SKILL.md of one skill as a JSON string. Errors: INVALID_ARGUMENT
 * ("invalid skill name: ..."), NOT_FOUND ("failed to read skill ..."). */
WP_MUST_CHECK enum wp_status wp_skills_read(const char *dir, const char *name,
                                            json_t **out, struct wp_err *err);

#endif
