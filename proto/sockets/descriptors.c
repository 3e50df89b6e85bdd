#include "proto/sockets/descriptors.h"

#include <sys/resource.h>

uint32_t
wp_descriptors_fit(uint32_t asked, uint32_t each, uint32_t others)
{
    rlim_t want = (rlim_t)asked * each + others;
    rlim_t room;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return asked;
    }
    if (limit.rlim_cur < want) {
        limit.rlim_cur = limit.rlim_max < want ? limit.rlim_max : want;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= want) {
        return asked;
    }
    room = limit.rlim_cur / 2 > others ? limit.rlim_cur - others
                                       : limit.rlim_cur / 2;
    return room > each ? (uint32_t)(room / each) : 1;
}
