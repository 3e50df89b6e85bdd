#include "proto/checkout/trust_look.h"

#include <nettle/sha2.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/checkout/tree_image.h"

enum {
    LOOKS_MAX = 32, /* Through the image, for one file. */
    PATH_BYTES = WP_TREE_PATH_MAX + 1,
};

struct path {
    size_t len;
    char bytes[PATH_BYTES];
};

/* A way through the tree, as a reader goes it. */
struct way {
    struct path at;   /* So far, without "." and "..". */
    struct path rest; /* What is still to be gone. */
};

/* Appends text, behind a slash when something is there; false: too long. */
static bool
append(struct path *path, const char *text, size_t len)
{
    size_t slash = path->len > 0 ? 1 : 0;

    if (path->len + slash + len >= PATH_BYTES) {
        return false;
    }
    path->bytes[path->len] = '/';
    memcpy(path->bytes + path->len + slash, text, len);
    path->len += slash + len;
    return true;
}

/* The first part of the rest: a name, or empty, "." or "..". */
static size_t
first_part(const struct path *rest)
{
    const char *slash = memchr(rest->bytes, '/', rest->len);

    return slash != NULL ? (size_t)(slash - rest->bytes) : rest->len;
}

static bool
is_dots(const char *part, size_t len)
{
    return len <= 2 && memcmp(part, "..", len) == 0;
}

/* Takes that part away. "f/" leaves ".", for it asks for a folder. */
static void
drop_first(struct path *rest)
{
    size_t len = first_part(rest);

    if (len + 1 == rest->len) {
        rest->len = 1;
        rest->bytes[0] = '.';
        return;
    }
    len += len < rest->len ? 1 : 0;
    rest->len -= len;
    memmove(rest->bytes, rest->bytes + len, rest->len);
}

/* Goes on by names alone; false: it becomes too long. */
static bool
go_down(struct way *way)
{
    while (way->rest.len > 0) {
        size_t len = first_part(&way->rest);

        if (is_dots(way->rest.bytes, len)) {
            break;
        }
        if (!append(&way->at, way->rest.bytes, len)) {
            return false;
        }
        drop_first(&way->rest);
    }
    return true;
}

static void
cut_last(struct path *path)
{
    const char *slash =
        path->len > 0 ? memrchr(path->bytes, '/', path->len) : NULL;

    path->len = slash != NULL ? (size_t)(slash - path->bytes) : 0;
}

/* From a folder by what is no name; false: it leaves the tree. */
static bool
go_by_dots(struct way *way)
{
    while (way->rest.len > 0) {
        size_t len = first_part(&way->rest);

        if (!is_dots(way->rest.bytes, len)) {
            break;
        }
        if (len == 2 && way->at.len == 0) {
            return false;
        }
        if (len == 2) {
            cut_last(&way->at);
        }
        drop_first(&way->rest);
    }
    return true;
}

/* The last entry at path, or the link that is on the way there. */
static bool
find(const uint8_t *image, size_t len, const struct path *path,
     struct wp_tree_entry *out)
{
    struct wp_tree_image tree = {image, image + len};
    struct wp_tree_entry entry;
    bool found = false;

    while (wp_tree_next(&tree, &entry)) {
        if (entry.path_len <= path->len &&
            memcmp(entry.path, path->bytes, entry.path_len) == 0 &&
            (entry.path_len == path->len ||
             (entry.kind == WP_TREE_LINK &&
              path->bytes[entry.path_len] == '/'))) {
            *out = entry;
            found = true;
        }
    }
    return found;
}

/* The way goes on from the link's folder, by where the link leads. */
static bool
follow(const struct wp_tree_entry *link, struct way *way)
{
    struct path next = {.len = 0};
    size_t behind = way->at.len - link->path_len; /* From the slash on. */

    if (link->content_len == 0 || link->content[0] == '/' ||
        !append(&next, link->content, link->content_len) ||
        (behind > 0 &&
         !append(&next, way->at.bytes + link->path_len + 1, behind - 1)) ||
        (way->rest.len > 0 && !append(&next, way->rest.bytes, way->rest.len))) {
        return false;
    }
    way->at.len = link->path_len;
    cut_last(&way->at);
    way->rest = next;
    return true;
}

static bool
is_covered(const struct wp_trust_covers *covers, const struct path *path)
{
    for (uint32_t i = 0; i < covers->n; i++) {
        size_t len = strlen(covers->dirs[i]);

        if (len == 0 || (path->len >= len &&
                         memcmp(path->bytes, covers->dirs[i], len) == 0 &&
                         (path->len == len || path->bytes[len] == '/'))) {
            return true;
        }
    }
    return false;
}

/* Part by part, and never by the text alone: where ".." leads is known only
 * once what is before it is no link. ABSENT: nothing is there. */
static enum wp_trust_state
go_to(const uint8_t *image, size_t len, const struct wp_trust_covers *covers,
      const char *path, struct wp_tree_entry *out)
{
    enum wp_trust_state nothing = WP_TRUST_ABSENT;
    struct way way = {.at = {.len = 0}};
    bool fits = append(&way.rest, path, strlen(path));

    for (int looks = 0; fits && looks < LOOKS_MAX; looks++) {
        if (!go_by_dots(&way) || !go_down(&way) ||
            (nothing == WP_TRUST_ASTRAY && is_covered(covers, &way.at))) {
            return WP_TRUST_ASTRAY;
        }
        if (way.at.len == 0 || !find(image, len, &way.at, out)) {
            return nothing;
        }
        if (out->kind == WP_TREE_LINK) {
            /* Behind a link, nothing is a link that leads nowhere. */
            nothing = WP_TRUST_ASTRAY;
            fits = follow(out, &way);
        } else if (out->kind == WP_TREE_FILE && way.rest.len == 0) {
            return WP_TRUST_FILE;
        } else if (out->kind == WP_TREE_FILE || way.rest.len == 0) {
            return nothing;
        }
    }
    return WP_TRUST_ASTRAY;
}

static void
look_at(const uint8_t *image, size_t len, const struct wp_trust_covers *covers,
        struct wp_trust_file *file)
{
    struct wp_tree_entry entry = {.kind = WP_TREE_FOLDER};
    struct sha256_ctx sha;

    memset(file->hash, 0, sizeof file->hash);
    file->state = go_to(image, len, covers, file->path, &entry);
    if (file->state == WP_TRUST_FILE) {
        sha256_init(&sha);
        sha256_update(&sha, entry.content_len, (const uint8_t *)entry.content);
        sha256_digest(&sha, sizeof file->hash, file->hash);
    }
}

bool
wp_trust_look(const uint8_t *image, size_t len,
              const struct wp_trust_covers *covers,
              struct wp_trust_record *record)
{
    struct wp_tree_image tree = {image, image + len};
    struct wp_tree_entry entry;

    while (wp_tree_next(&tree, &entry)) {
        continue;
    }
    if (tree.pos != tree.end) {
        return false;
    }
    for (uint32_t i = 0; i < record->n; i++) {
        look_at(image, len, covers, &record->files[i]);
    }
    return true;
}

/* A copy in memory of len bytes, which nobody else has; NULL: it cannot be had,
 * or the file has become shorter. To be unmapped. */
static const uint8_t *
copy_of(int fd, size_t len)
{
    int memory = memfd_create("warmpool-trust", MFD_CLOEXEC);
    void *map = MAP_FAILED;
    off_t at = 0;

    while (memory >= 0 && (size_t)at < len &&
           sendfile(memory, fd, &at, len - (size_t)at) > 0) {
    }
    if (memory >= 0 && (size_t)at == len) {
        map = mmap(NULL, len, PROT_READ, MAP_PRIVATE, memory, 0);
    }
    if (memory >= 0) {
        (void)close(memory);
    }
    return map != MAP_FAILED ? map : NULL;
}

bool
wp_trust_look_fd(int fd, const struct wp_trust_covers *covers,
                 struct wp_trust_record *record)
{
    struct stat st;
    const uint8_t *image;
    bool whole;

    if (fstat(fd, &st) != 0) {
        return false;
    }
    if (st.st_size == 0) {
        return wp_trust_look((const uint8_t *)"", 0, covers, record);
    }
    image = copy_of(fd, (size_t)st.st_size);
    whole = image != NULL &&
            wp_trust_look(image, (size_t)st.st_size, covers, record);
    if (image != NULL) {
        union {
            const uint8_t *image;
            void *map;
        } at = {.image = image};

        (void)munmap(at.map, (size_t)st.st_size);
    }
    return whole;
}

void
wp_trust_record_name(const char *tenant, const char *url,
                     char out[WP_TRUST_NAME_LEN + 1])
{
    uint8_t own[SHA256_DIGEST_SIZE];
    uint8_t both[SHA256_DIGEST_SIZE];
    struct sha256_ctx sha;

    sha256_init(&sha);
    sha256_update(&sha, strlen(tenant) + 1, (const uint8_t *)tenant);
    sha256_digest(&sha, sizeof own, own);
    sha256_update(&sha, strlen(tenant) + 1, (const uint8_t *)tenant);
    sha256_update(&sha, strlen(url), (const uint8_t *)url);
    sha256_digest(&sha, sizeof both, both);
    memcpy(both, own, WP_TRUST_NAME_TENANT / 2);
    wp_hex_encode(both, WP_TRUST_NAME_LEN / 2, out);
}
