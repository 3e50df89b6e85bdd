#include "proto/checkout/trust_look.h"

#include <nettle/sha2.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/checkout/tree_image.h"

enum {
    HOPS_MAX = 16, /* Links one after the other. */
    PATH_BYTES = WP_TREE_PATH_MAX + 1,
};

struct path {
    size_t len;
    char bytes[PATH_BYTES];
};

/* Appends the parts of text; false: it leaves the tree, or is too long. */
static bool
walk(struct path *path, const char *text, size_t len)
{
    size_t at = 0;

    while (at < len) {
        const char *slash = memchr(text + at, '/', len - at);
        size_t part = slash != NULL ? (size_t)(slash - text) - at : len - at;

        if (part == 2 && memcmp(text + at, "..", 2) == 0) {
            const char *last =
                path->len > 0 ? memrchr(path->bytes, '/', path->len) : NULL;

            if (path->len == 0) {
                return false;
            }
            path->len = last != NULL ? (size_t)(last - path->bytes) : 0;
        } else if (part > 0 && !(part == 1 && text[at] == '.')) {
            if (path->len + 1 + part >= PATH_BYTES) {
                return false;
            }
            if (path->len > 0) {
                path->bytes[path->len++] = '/';
            }
            memcpy(path->bytes + path->len, text + at, part);
            path->len += part;
        }
        at += part + 1;
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

/* Where the link leads, into path. */
static bool
follow(const struct wp_tree_entry *link, struct path *path)
{
    struct path next = {.len = 0};
    const char *slash = memrchr(link->path, '/', link->path_len);

    if (link->content_len == 0 || link->content[0] == '/') {
        return false;
    }
    if ((slash != NULL &&
         !walk(&next, link->path, (size_t)(slash - link->path))) ||
        !walk(&next, link->content, link->content_len) ||
        !walk(&next, path->bytes + link->path_len,
              path->len - link->path_len)) {
        return false;
    }
    *path = next;
    return true;
}

static void
look_at(const uint8_t *image, size_t len, struct wp_trust_file *file)
{
    struct path path;
    struct wp_tree_entry entry = {.kind = WP_TREE_FOLDER};
    struct sha256_ctx sha;

    path.len = strlen(file->path);
    memcpy(path.bytes, file->path, path.len);
    memset(file->hash, 0, sizeof file->hash);
    for (int hops = 0; hops < HOPS_MAX; hops++) {
        /* Behind a link, nothing is a link that leads nowhere. */
        file->state = hops > 0 ? WP_TRUST_ASTRAY : WP_TRUST_ABSENT;
        if (!find(image, len, &path, &entry) || entry.kind == WP_TREE_FOLDER) {
            return;
        }
        if (entry.kind == WP_TREE_FILE) {
            sha256_init(&sha);
            sha256_update(&sha, entry.content_len,
                          (const uint8_t *)entry.content);
            sha256_digest(&sha, sizeof file->hash, file->hash);
            file->state = WP_TRUST_FILE;
            return;
        }
        if (!follow(&entry, &path)) {
            break;
        }
    }
    file->state = WP_TRUST_ASTRAY;
}

bool
wp_trust_look(const uint8_t *image, size_t len, struct wp_trust_record *record)
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
        look_at(image, len, &record->files[i]);
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
wp_trust_look_fd(int fd, struct wp_trust_record *record)
{
    struct stat st;
    const uint8_t *image;
    bool whole;

    if (fstat(fd, &st) != 0) {
        return false;
    }
    if (st.st_size == 0) {
        return wp_trust_look((const uint8_t *)"", 0, record);
    }
    image = copy_of(fd, (size_t)st.st_size);
    whole = image != NULL && wp_trust_look(image, (size_t)st.st_size, record);
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
