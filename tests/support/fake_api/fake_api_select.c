/* Label and field selectors. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/fake_api/fake_api_impl.h"

static const char *
label_of(const json_t *object, const char *key)
{
    const json_t *meta = json_object_get(object, "metadata");

    return json_string_value(
        json_object_get(json_object_get(meta, "labels"), key));
}

/* The text at a dotted path. */
static const char *
field_of(const json_t *object, char *path)
{
    char *save = NULL;

    for (char *part = strtok_r(path, ".", &save); part != NULL;
         part = strtok_r(NULL, ".", &save)) {
        object = json_object_get(object, part);
    }
    return json_is_string(object) ? json_string_value(object) : "";
}

static char *
trim(char *text)
{
    size_t len;

    text += strspn(text, " ");
    len = strlen(text);
    while (len > 0 && text[len - 1] == ' ') {
        text[--len] = '\0';
    }
    return text;
}

/* "(a,b)" */
static bool
in_set(const char *value, const char *set)
{
    size_t len = strlen(value);

    for (const char *at = set + strspn(set, " ("); *at != '\0' && *at != ')';) {
        size_t n = strcspn(at, ",) ");

        if (n == len && strncmp(at, value, len) == 0) {
            return true;
        }
        at += n;
        at += strspn(at, ", ");
    }
    return false;
}

/* One requirement: "k", "!k", "k=v", "k==v", "k!=v", "k in (...)", "k notin". */
static bool
meets(const json_t *object, char *text, bool is_field)
{
    char *term = trim(text);
    char *word;
    const char *value;

    if ((word = strstr(term, " notin ")) != NULL) {
        *word = '\0';
        value = label_of(object, trim(term));
        return value == NULL || !in_set(value, word + 7);
    }
    if ((word = strstr(term, " in ")) != NULL) {
        *word = '\0';
        value = label_of(object, trim(term));
        return value != NULL && in_set(value, word + 4);
    }
    if ((word = strchr(term, '=')) != NULL) {
        bool not = word > term && word[-1] == '!';
        char *want = word + (word[1] == '=' ? 2 : 1);

        word[not ? -1 : 0] = '\0';
        value = is_field ? field_of(object, trim(term))
                         : label_of(object, trim(term));
        return (value != NULL && strcmp(value, trim(want)) == 0) != not ;
    }
    return term[0] == '!' ? label_of(object, term + 1) == NULL
                          : label_of(object, term) != NULL;
}

/* Terms are separated by commas outside brackets. */
static bool
meets_all(const json_t *object, const char *selector, bool is_field)
{
    char *copy = strdup(selector);
    char *at = copy;
    bool met = true;

    fake_must(copy != NULL, "memory");
    while (met && at != NULL && *at != '\0') {
        char *term = at;
        bool inside = false;

        while (*at != '\0' && (inside || *at != ',')) {
            inside = *at == '(' || (inside && *at != ')');
            at++;
        }
        if (*at == ',') {
            *at++ = '\0';
        }
        met = meets(object, term, is_field);
    }
    free(copy);
    return met;
}

bool
fake_selects(const json_t *object, const char *ns, const char *labels,
             const char *fields)
{
    return object != NULL &&
           (ns[0] == '\0' || strcmp(fake_meta(object, "namespace"), ns) == 0) &&
           meets_all(object, labels, false) && meets_all(object, fields, true);
}
