/* pool/base/os_error.h - the text of an errno, as the tools' clients know it.
 * */
#ifndef WP_BASE_OS_ERROR_H
#define WP_BASE_OS_ERROR_H

/* "no such file or directory": strerror's text with a small first letter.
 * Static storage, good until the next call. One thread. */
const char *wp_os_error(int os_errno);

#endif
