/* local/sandbox/record.h - what the next daemon must know of a sandbox.
 *
 * A small text in the sandbox's directory, `record`. Version 1, of earlier
 * daemons, names the two processes only. Of a record that was not written to
 * its end nothing is believed. */
#ifndef WP_LOCAL_SANDBOX_RECORD_H
#define WP_LOCAL_SANDBOX_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "local/volumes/volumes.h"
#include "pool/backend.h"
#include "pool/base/status.h"
#include "pool/limits.h"

enum {
    WP_BOOT_ID_LEN = 36,
    /* What a claim adds may be there three times. */
    WP_RECORD_BYTES_MAX = 1024 + 4 * (WP_EGRESS_TEXT_MAX + 10) +
                          3 * (WP_AUDIENCE_MAX + 40 + WP_VOLUME_KEYS_MAX +
                               WP_BINDING_VOLUMES_MAX * (int)sizeof "volume"),
    WP_RECORD_VERSION = 2,
};

struct wp_record {
    uint32_t version;
    pid_t outer_pid;      /* bwrap */
    uint64_t outer_start; /* Clock ticks since boot: tells a pid used again. */
    pid_t inner_pid;      /* Process 1 of the sandbox. */
    uint64_t inner_start;

    /* "", 0 and false in version 1. */
    char boot_id[WP_BOOT_ID_LEN + 1]; /* Another one: nobody above lives. */
    uint8_t uid[WP_UID_LEN];
    char pool_namespace[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    char template_name[WP_TEMPLATE_NAME_MAX + 1];
    uint64_t template_hash;
    char name[WP_SANDBOX_NAME_MAX + 1];
    char endpoint[WP_ENDPOINT_MAX + 1];
    uint32_t host_uid; /* UINT32_MAX: the daemon's. */
    uint32_t roots;    /* Which prepared roots its own is of. */
    bool ready;        /* It was, and is to be kept. */
    char egress[WP_EGRESS_TEXT_MAX + 1];   /* Its policy; "": none. */
    char narrowed[WP_EGRESS_TEXT_MAX + 1]; /* By its claim; "": not. */
    char audience[WP_AUDIENCE_MAX + 1];    /* Of its identity; "": none. */
    /* Keys of volumes that its claim has brought, each with a newline. */
    char volumes[WP_VOLUME_KEYS_MAX + 1];
    uint64_t identity_ttl_ms;
};

/* The text of a record of WP_RECORD_VERSION, terminated; its length. The texts
 * must hold no control characters. */
size_t wp_record_format(const struct wp_record *record,
                        char out[WP_RECORD_BYTES_MAX]);
/* False: not a whole record. Of a version that is newer than we know, only the
 * processes are read. */
WP_MUST_CHECK bool wp_record_parse(const char *text, size_t len,
                                   struct wp_record *record);

/* Replaces the record of a sandbox's directory, or leaves the old one: whoever
 * reads it, after a kill too, finds a whole one. */
WP_MUST_CHECK enum wp_status wp_record_write(const char *dir,
                                             const struct wp_record *record,
                                             struct wp_err *err);
/* Adds what its claim has made of the sandbox: volumes, narrowed, audience and
 * identity_ttl_ms. At most three times. Not WP_OK: the record is as it was, or
 * the next daemon ends the sandbox. */
WP_MUST_CHECK enum wp_status
wp_record_add_claimed(const char *dir, const struct wp_record *record,
                      struct wp_err *err);
/* False, with errno: there is none, it cannot be read, or (EINVAL) is none. */
WP_MUST_CHECK bool wp_record_read(const char *dir, struct wp_record *record);

/* Of the running kernel; "" when it has none, which matches no record. */
void wp_boot_id_read(char out[WP_BOOT_ID_LEN + 1]);
/* 0 when there is no such process; errno says so, or why it is not known. */
uint64_t wp_process_start_time(pid_t pid);
/* A pidfd of exactly that process, alive; -1 otherwise, with errno ESRCH unless
 * it could not be found out. */
WP_MUST_CHECK int wp_process_open(pid_t pid, uint64_t start);

#endif
