#include "local/trust/look.h"

#include <nettle/sha2.h>
#include <string.h>

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

/* The entry at path, or the link that is on the way there. */
static bool
find(const uint8_t *image, size_t len, const struct path *path,
     struct wp_tree_entry *out)
{
    struct wp_tree_image tree = {image, image + len};

    while (wp_tree_next(&tree, out)) {
        if (out->path_len <= path->len &&
            memcmp(out->path, path->bytes, out->path_len) == 0 &&
            (out->path_len == path->len ||
             (out->kind == WP_TREE_LINK &&
              path->bytes[out->path_len] == '/'))) {
            return true;
        }
    }
    return false;
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
    struct wp_tree_entry entry;
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
