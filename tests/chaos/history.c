#include "tests/chaos/history.h"

#include <unistd.h>

bool
wp_chaos_write(int fd, const struct wp_chaos_event *event)
{
    return write(fd, event, sizeof *event) == (ssize_t)sizeof *event;
}
