#include "local/sandbox/subids.h"

#include <stdio.h>
#include <string.h>

#include "pool/base/str.h"

enum {
    LINE_MAX_BYTES = 1024
};

/* A line: OWNER:FIRST:COUNT. */
static bool
parse_line(char *line, uint64_t *first, uint64_t *count)
{
    char *a = strchr(line, ':');
    char *b = a != NULL ? strchr(a + 1, ':') : NULL;

    if (b == NULL) {
        return false;
    }
    *a++ = '\0';
    *b++ = '\0';
    b[strcspn(b, "\r\n \t")] = '\0';
    return wp_str_to_u64(wp_str_from(a), first) &&
           wp_str_to_u64(wp_str_from(b), count);
}

enum wp_status
wp_subids_check(const char *path, uint32_t first, uint32_t count,
                struct wp_err *err)
{
    FILE *file = fopen(path, "re");
    enum wp_status status = WP_OK;
    char line[LINE_MAX_BYTES];

    while (file != NULL && status == WP_OK &&
           fgets(line, sizeof line, file) != NULL) {
        uint64_t from;
        uint64_t n;

        if (!parse_line(line, &from, &n) || n == 0 ||
            from >= (uint64_t)first + count ||
            (from <= first && n <= first - from)) {
            continue;
        }
        status = wp_err_set(
            err, WP_FAILED_PRECONDITION,
            "setting 'sandbox_uid_first': users %u to %llu overlap those that"
            " %s gives to %.40s (%llu and %llu more): choose others",
            first, (unsigned long long)first + count - 1, path, line,
            (unsigned long long)from, (unsigned long long)(n - 1));
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return status;
}
