#include "local/fetch/checkout.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local/fetch/git.h"
#include "local/fetch/tree_write.h"
#include "local/walls/rootfs.h"
#include "pool/base/fnv.h"

enum {
    LISTING_MAX = 64 << 10,
    NAME_MAX_BYTES = 320,
    FOLDER_BYTES = 4096,
};

/* One way to what is asked for. */
struct way {
    struct wp_checkout *out;
    struct wp_git git;
    char source[WP_REF_NAME_MAX + 1]; /* What is fetched: a ref, or a commit. */
    char key[16];                     /* Of source, in names. */
    bool ref_is_commit;
    char listing[LISTING_MAX];
    size_t listing_len;
    struct wp_listing_sum sum;
};

WP_PRINTF(2, 3) static bool refuse(const struct way *way, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(way->out->why, sizeof way->out->why, fmt, ap);
    va_end(ap);
    return false;
}

static bool
keep_listing(void *ctx, const char *bytes, size_t len)
{
    struct way *way = ctx;

    if (len > sizeof way->listing - way->listing_len) {
        return false;
    }
    memcpy(way->listing + way->listing_len, bytes, len);
    way->listing_len += len;
    return true;
}

static bool
keep_sum(void *ctx, const char *bytes, size_t len)
{
    struct way *way = ctx;

    return wp_listing_add(&way->sum, bytes, len) &&
           way->sum.files <= WP_TREE_ENTRIES_MAX &&
           way->sum.bytes <= way->out->bytes_max;
}

/* git in that folder; its words when it fails. */
static bool
run(struct way *way, const char *dir, const char *protocol,
    bool (*output)(void *ctx, const char *bytes, size_t len),
    const char *const args[])
{
    way->git.dir = dir;
    way->git.protocol = protocol;
    way->git.config_fd =
        strcmp(protocol, "file") != 0 ? way->out->config_fd : 0;
    way->git.output = output;
    way->git.ctx = way;
    way->git.file_max = way->out->bytes_max;
    way->listing_len = 0;
    return wp_git_run(&way->git, args) ||
           refuse(way, "git: %s", way->git.error);
}

static const char *
remote_protocol(const struct wp_checkout *out)
{
    return strncmp(out->url, "https:", 6) == 0 ? "https" : "http";
}

/* --- What the ref names --- */

static bool
is_listed(struct way *way, const char *space, const char *ref)
{
    struct wp_str listing = {way->listing, way->listing_len};
    char peeled[WP_REF_NAME_MAX + 8];
    int n = snprintf(way->source, sizeof way->source, "%s%s", space, ref);

    if ((size_t)n >= sizeof way->source) {
        return false;
    }
    /* What an annotated tag is of. */
    (void)snprintf(peeled, sizeof peeled, "%s^{}", way->source);
    return wp_listing_commit(listing, peeled, way->out->commit) ||
           wp_listing_commit(listing, way->source, way->out->commit);
}

/* A full name, or the branch or else the tag of that name. */
static bool
pick(struct way *way, const char *ref)
{
    bool full = strncmp(ref, "refs/", 5) == 0;

    return is_listed(way, full ? "" : "refs/heads/", ref) ||
           (!full && is_listed(way, "refs/tags/", ref)) ||
           refuse(way, "it has no branch or tag '%.80s'", ref);
}

static bool
ask_head(struct way *way)
{
    const char *const args[] = {"ls-remote",   "--symref", "--quiet",
                                way->out->url, "HEAD",     NULL};
    struct wp_str listing;

    if (!run(way, ".", remote_protocol(way->out), keep_listing, args)) {
        return false;
    }
    listing = (struct wp_str){way->listing, way->listing_len};
    if (!wp_listing_commit(listing, "HEAD", way->out->commit)) {
        return refuse(way, "its HEAD names nothing");
    }
    if (!wp_listing_head(listing, way->source) ||
        strncmp(way->source, "refs/heads/", 11) != 0) {
        (void)snprintf(way->source, sizeof way->source, "HEAD");
    }
    return true;
}

static bool
resolve(struct way *way)
{
    const char *ref = way->out->ref;
    char head[WP_REF_NAME_MAX + 16];
    char tag[WP_REF_NAME_MAX + 16];
    char peeled[WP_REF_NAME_MAX + 24];
    bool full = strncmp(ref, "refs/", 5) == 0;
    const char *const args[] = {"ls-remote", "--quiet", way->out->url, head,
                                tag,         peeled,    NULL};

    if (way->ref_is_commit) {
        (void)snprintf(way->source, sizeof way->source, "%s", ref);
        memcpy(way->out->commit, ref, WP_COMMIT_LEN + 1);
        return true;
    }
    if (ref[0] == '\0') {
        return ask_head(way);
    }
    (void)snprintf(head, sizeof head, "%s%s", full ? "" : "refs/heads/", ref);
    (void)snprintf(tag, sizeof tag, "%s%s", full ? "" : "refs/tags/", ref);
    (void)snprintf(peeled, sizeof peeled, "%s^{}", tag);
    return run(way, ".", remote_protocol(way->out), keep_listing, args) &&
           pick(way, ref);
}

/* --- Images that are there --- */

static void
image_name(const struct way *way, char out[NAME_MAX_BYTES])
{
    (void)snprintf(out, NAME_MAX_BYTES, "%s-%s" WP_CHECKOUT_IMAGE,
                   way->out->commit, way->key);
}

static bool
open_image(struct way *way)
{
    char name[NAME_MAX_BYTES];

    image_name(way, name);
    way->out->fd = open(name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (way->out->fd < 0) {
        return false;
    }
    (void)futimens(way->out->fd, NULL); /* The sweep goes by it. */
    return true;
}

/* Of the same ref, before it moved. */
static void
drop_older_images(const struct way *way)
{
    DIR *dir = opendir(".");
    const struct dirent *entry;
    char suffix[NAME_MAX_BYTES];
    char own[NAME_MAX_BYTES];

    (void)snprintf(suffix, sizeof suffix, "-%s" WP_CHECKOUT_IMAGE, way->key);
    image_name(way, own);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        size_t len = strlen(entry->d_name);

        if (len == strlen(own) && strcmp(entry->d_name, own) != 0 &&
            strcmp(entry->d_name + len - strlen(suffix), suffix) == 0) {
            (void)unlink(entry->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

/* --- Making one --- */

bool
wp_checkout_clean(void)
{
    struct wp_err err;

    return wp_dir_remove(WP_CHECKOUT_MIRROR, &err) == WP_OK &&
           wp_dir_remove(WP_CHECKOUT_SCRATCH, &err) == WP_OK &&
           (unlink(WP_CHECKOUT_UNFINISHED) == 0 || errno == ENOENT);
}

static bool
fetch_mirror(struct way *way)
{
    char refspec[WP_REF_NAME_MAX + 48];
    char own[48];
    const char *const init[] = {
        "init", "-q", "--bare", "--template=", WP_CHECKOUT_MIRROR, NULL};
    const char *const fetch[] = {
        "fetch",       "-q",      "--depth=1",
        "--no-tags",   "--force", "--no-write-fetch-head",
        way->out->url, refspec,   NULL};
    const char *const parse[] = {"rev-parse", "--verify", "-q", own, NULL};
    const char *protocol = remote_protocol(way->out);

    (void)snprintf(refspec, sizeof refspec, "+%s:refs/warmpool/%s", way->source,
                   way->key);
    (void)snprintf(own, sizeof own, "refs/warmpool/%s^{commit}", way->key);
    if (access(WP_CHECKOUT_MIRROR, F_OK) != 0 &&
        !run(way, ".", protocol, NULL, init)) {
        return false;
    }
    if (!run(way, WP_CHECKOUT_MIRROR, protocol, NULL, fetch) ||
        !run(way, WP_CHECKOUT_MIRROR, protocol, keep_listing, parse)) {
        return false;
    }
    /* The ref may have moved since; what it named is hashed by git. */
    if (way->listing_len < WP_COMMIT_LEN ||
        (way->ref_is_commit &&
         memcmp(way->listing, way->out->commit, WP_COMMIT_LEN) != 0)) {
        return refuse(way, "the server sent another commit");
    }
    memcpy(way->out->commit, way->listing, WP_COMMIT_LEN);
    return true;
}

/* Before any of it is written out: a small pack can hold a lot, and a few
 * folders in each other can be more than git would ever list. */
static bool
check_size(struct way *way)
{
    const char *const list[] = {
        "ls-tree",        "-r", "-t", "-l", "-z", "--full-tree",
        way->out->commit, NULL};
    bool listed;

    listed = run(way, WP_CHECKOUT_MIRROR, "file", keep_sum, list);
    if (way->sum.files > WP_TREE_ENTRIES_MAX) {
        return refuse(way, "it has more than %d files and folders",
                      WP_TREE_ENTRIES_MAX);
    }
    if (way->sum.bytes > way->out->bytes_max) {
        return refuse(way,
                      "it is larger than %" PRIu64
                      " bytes (setting git_repository_size)",
                      way->out->bytes_max);
    }
    return listed;
}

/* "refs/heads/NAME" -> NAME; NULL: no branch, or one that git makes none of
 * here, since it looks like an option. */
static const char *
branch_of(const struct way *way)
{
    return strncmp(way->source, "refs/heads/", 11) == 0 &&
                   way->source[11] != '-'
               ? way->source + 11
               : NULL;
}

static bool
is_tag(const struct way *way)
{
    return strncmp(way->source, "refs/tags/", 10) == 0;
}

/* A name in quotes. What the remote's HEAD names may have some of its own; no
 * ref has a backslash or the end of a line. */
static void
put_name(FILE *file, const char *name)
{
    for (; *name != '\0'; name++) {
        (void)fprintf(file, "%s%c", *name == '"' ? "\\" : "", *name);
    }
}

/* So that "git fetch" and "git push" in the sandbox know where. */
static bool
write_remote(const struct way *way)
{
    const char *branch = branch_of(way);
    FILE *file = fopen(WP_CHECKOUT_SCRATCH "/.git/config", "ae");
    bool ok;

    if (file == NULL) {
        return false;
    }
    (void)fprintf(file, "[remote \"origin\"]\n\turl = \"%s\"\n", way->out->url);
    (void)fprintf(file, "\tfetch = \"+refs/heads/");
    put_name(file, branch != NULL ? branch : "*");
    (void)fprintf(file, ":refs/remotes/origin/");
    put_name(file, branch != NULL ? branch : "*");
    (void)fprintf(file, "\"\n");
    if (branch != NULL) {
        (void)fprintf(file, "[branch \"");
        put_name(file, branch);
        (void)fprintf(file, "\"]\n\tremote = origin\n\tmerge = \"refs/heads/");
        put_name(file, branch);
        (void)fprintf(file, "\"\n");
    }
    ok = ferror(file) == 0;
    return fclose(file) == 0 && ok;
}

/* From the mirror, so that the sandbox gets nothing but this commit. */
static bool
make_scratch(struct way *way)
{
    const char *branch = branch_of(way);
    char here[FOLDER_BYTES];
    char mirror[FOLDER_BYTES + 32];
    char refspec[2 * WP_REF_NAME_MAX + 64];
    char tracked[WP_REF_NAME_MAX + 32];
    const char *const init[] = {"init", "-q",
                                "--template=", WP_CHECKOUT_SCRATCH, NULL};
    const char *const fetch[] = {"fetch", "-q",    "--depth=1", "--no-tags",
                                 mirror,  refspec, NULL};
    const char *const on_branch[] = {"checkout", "-q",    "--no-track", "-B",
                                     branch,     tracked, NULL};
    const char *const detached[] = {"checkout", "-q", "--detach", "FETCH_HEAD",
                                    NULL};

    if (getcwd(here, sizeof here) == NULL) {
        return refuse(way, "the cache's folder: %s", strerror(errno));
    }
    (void)snprintf(mirror, sizeof mirror, "file://%s/" WP_CHECKOUT_MIRROR,
                   here);
    (void)snprintf(tracked, sizeof tracked, "refs/remotes/origin/%s",
                   branch != NULL ? branch : "");
    (void)snprintf(refspec, sizeof refspec, "+refs/warmpool/%s%s%s", way->key,
                   branch != NULL || is_tag(way) ? ":" : "",
                   branch != NULL ? tracked
                   : is_tag(way)  ? way->source
                                  : "");
    if (!run(way, ".", "file", NULL, init)) {
        return false;
    }
    if (!write_remote(way)) {
        return refuse(way, "its checkout cannot be written");
    }
    return run(way, WP_CHECKOUT_SCRATCH, "file", NULL, fetch) &&
           run(way, WP_CHECKOUT_SCRATCH, "file", NULL,
               branch != NULL ? on_branch : detached);
}

static bool
write_image(struct way *way)
{
    int fd = open(WP_CHECKOUT_UNFINISHED,
                  O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    char name[NAME_MAX_BYTES];
    bool ok;

    (void)unlink(WP_CHECKOUT_SCRATCH "/.git/FETCH_HEAD");
    image_name(way, name);
    if (fd < 0) {
        return refuse(way, "the cache: %s", strerror(errno));
    }
    ok = wp_tree_write(WP_CHECKOUT_SCRATCH, fd, way->out->bytes_max,
                       way->out->why);
    /* Whole on the disk before it has its name. */
    if (ok && (fsync(fd) != 0 || fchmod(fd, 0400) != 0 ||
               rename(WP_CHECKOUT_UNFINISHED, name) != 0)) {
        ok = refuse(way, "the cache: %s", strerror(errno));
    }
    (void)close(fd);
    return ok;
}

static bool
make(struct way *way)
{
    struct wp_err err;
    int dirty;

    if (access(WP_CHECKOUT_DIRTY, F_OK) == 0 && !wp_checkout_clean()) {
        return refuse(way, "what an earlier checkout left cannot be removed");
    }
    dirty = open(WP_CHECKOUT_DIRTY, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (dirty < 0) {
        return refuse(way, "the cache: %s", strerror(errno));
    }
    (void)close(dirty);
    if (!fetch_mirror(way) || !check_size(way) || !make_scratch(way) ||
        !write_image(way)) {
        return false;
    }
    drop_older_images(way);
    way->out->made = true;
    (void)utimensat(AT_FDCWD, WP_CHECKOUT_MIRROR, NULL, 0);
    return wp_dir_remove(WP_CHECKOUT_SCRATCH, &err) == WP_OK &&
           unlink(WP_CHECKOUT_DIRTY) == 0;
}

static bool
make_locked(struct way *way)
{
    int lock =
        open(WP_CHECKOUT_LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool ok;

    if (lock < 0 || flock(lock, LOCK_EX) != 0) {
        ok = refuse(way, "the cache: %s", strerror(errno));
    } else {
        /* Made by another, while this one waited for the lock. */
        ok = open_image(way) || (make(way) && open_image(way));
    }
    if (lock >= 0) {
        (void)close(lock);
    }
    return ok;
}

bool
wp_checkout(struct wp_checkout *checkout)
{
    static struct way way;

    memset(&way, 0, sizeof way);
    way.out = checkout;
    way.ref_is_commit =
        strlen(checkout->ref) == WP_COMMIT_LEN &&
        strspn(checkout->ref, "0123456789abcdef") == WP_COMMIT_LEN;
    checkout->fd = -1;
    checkout->made = false;
    (void)snprintf(checkout->why, sizeof checkout->why, "it cannot be had");
    if (!resolve(&way)) {
        return false;
    }
    (void)snprintf(way.key, sizeof way.key, "%08x",
                   wp_fnv32_str(wp_str_from(way.source)));
    return open_image(&way) || make_locked(&way);
}
