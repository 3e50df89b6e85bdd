#include "pool/base/os_error.h"

#include <stdio.h>
#include <string.h>

const char *
wp_os_error(int os_errno)
{
    static char text[96];
    const char *known = strerrordesc_np(os_errno);

    if (known == NULL) {
        snprintf(text, sizeof(text), "errno %d", os_errno);
        return text;
    }
    snprintf(text, sizeof(text), "%s", known);
    /* "RFS specific error" and the like keep their capitals. */
    if (text[0] >= 'A' && text[0] <= 'Z' &&
        !(text[1] >= 'A' && text[1] <= 'Z')) {
        text[0] = (char)(text[0] - 'A' + 'a');
    }
    return text;
}
