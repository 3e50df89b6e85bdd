#include "runtime/exec/environment.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/exec/bound.h"

extern char **environ;

static size_t
inherited(void)
{
    size_t count = 0;

    while (environ[count] != NULL) {
        count++;
    }
    return count;
}

bool
wp_environment_init(struct wp_environment *environment, size_t count)
{
    wp_bound_look();
    environment->own = 0;
    environment->list = calloc(count + inherited() + 1, sizeof(char *));
    return environment->list != NULL;
}

/* The index of what sets the variable that entry sets; own without one. */
static size_t
find(const struct wp_environment *environment, const char *entry)
{
    size_t len = strcspn(entry, "=") + 1;
    size_t i = 0;

    while (i < environment->own &&
           strncmp(environment->list[i], entry, len) != 0) {
        i++;
    }
    return i;
}

bool
wp_environment_add(struct wp_environment *environment, struct wp_str name,
                   struct wp_str value)
{
    char *entry;
    size_t at;

    if (name.len == 0 || memchr(name.ptr, '=', name.len) != NULL ||
        memchr(name.ptr, '\0', name.len) != NULL ||
        (value.len > 0 && memchr(value.ptr, '\0', value.len) != NULL)) {
        return false;
    }
    entry = malloc(name.len + value.len + 2);
    if (entry == NULL) {
        return false;
    }
    memcpy(entry, name.ptr, name.len);
    entry[name.len] = '=';
    if (value.len > 0) {
        memcpy(entry + name.len + 1, value.ptr, value.len);
    }
    entry[name.len + 1 + value.len] = '\0';
    at = find(environment, entry);
    if (at < environment->own) {
        free(environment->list[at]);
    } else {
        environment->own++;
    }
    environment->list[at] = entry;
    return true;
}

void
wp_environment_inherit(struct wp_environment *environment)
{
    size_t count = environment->own;

    for (size_t i = 0; environ[i] != NULL; i++) {
        if (find(environment, environ[i]) == environment->own) {
            environment->list[count++] = environ[i];
        }
    }
}

void
wp_environment_fini(struct wp_environment *environment)
{
    for (size_t i = 0; i < environment->own; i++) {
        free(environment->list[i]);
    }
    free(environment->list);
    *environment = (struct wp_environment){NULL, 0};
}
