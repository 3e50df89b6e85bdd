#include "tests/chaos/marks.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/str.h"

enum {
    PARTINGS_MAX = 1 << 16,
};

#define MARK_STAYS_NS (10 * WP_NS_PER_S)

/* A mark that is to be removed once its lease is surely over. */
struct parting {
    int64_t at_ns;
    uint8_t uid[WP_UID_LEN];
};

struct wp_marks {
    int fd; /* Of the directory. */
    uint64_t first;
    uint64_t last;
    struct parting partings[PARTINGS_MAX]; /* A ring. */
};

struct wp_marks *
wp_marks_open(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct wp_marks *marks;

    if (fd < 0) {
        return NULL;
    }
    marks = calloc(1, sizeof *marks);
    WP_ASSERT(marks != NULL);
    marks->fd = fd;
    return marks;
}

void
wp_marks_close(struct wp_marks *marks)
{
    wp_marks_remove_old(marks, WP_TIME_NEVER);
    (void)close(marks->fd);
    free(marks);
}

void
wp_marks_remove(struct wp_marks *marks, const uint8_t *uid)
{
    char name[2 * WP_UID_LEN + 1];

    wp_hex_encode(uid, WP_UID_LEN, name);
    (void)unlinkat(marks->fd, name, 0);
}

bool
wp_marks_set(struct wp_marks *marks, const uint8_t *uid, uint64_t claim)
{
    char name[2 * WP_UID_LEN + 1];
    uint64_t other = 0;
    int fd;

    wp_hex_encode(uid, WP_UID_LEN, name);
    fd = openat(marks->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        bool ok = write(fd, &claim, sizeof claim) == sizeof claim;

        (void)close(fd);
        return ok;
    }
    fd = openat(marks->fd, name, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, &other, sizeof other) != sizeof other) {
            other = 0;
        }
        (void)close(fd);
    }
    return other == claim;
}

void
wp_marks_part(struct wp_marks *marks, const uint8_t *uid)
{
    struct parting *parting = &marks->partings[marks->last++ % PARTINGS_MAX];

    if (marks->last - marks->first > PARTINGS_MAX) {
        wp_marks_remove(marks, parting->uid);
        marks->first++;
    }
    parting->at_ns = wp_clock_mono_ns(wp_clock_system()) + MARK_STAYS_NS;
    memcpy(parting->uid, uid, WP_UID_LEN);
}

void
wp_marks_remove_old(struct wp_marks *marks, int64_t at_ns)
{
    while (marks->first < marks->last &&
           marks->partings[marks->first % PARTINGS_MAX].at_ns <= at_ns) {
        wp_marks_remove(marks,
                        marks->partings[marks->first++ % PARTINGS_MAX].uid);
    }
}
