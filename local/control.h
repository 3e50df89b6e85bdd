/* local/control.h - what the daemon and warmpool-init say to each other.
 *
 * Over one SOCK_SEQPACKET pair; each message is a letter, perhaps with text.
 * The sandboxed program never has the descriptor. Either side closing it ends
 * the sandbox, unless the daemon has said KEEP: then a later daemon connects to
 * "control.sock" in the sandbox's directory, which takes the pair's place. */
#ifndef WP_LOCAL_CONTROL_H
#define WP_LOCAL_CONTROL_H

enum {
    WP_CONTROL_MAX = 256, /* Bytes of a message. */

    /* From warmpool-init. */
    WP_CONTROL_HELLO = 'H',   /* Up; its credentials come along. */
    WP_CONTROL_OPEN = 'O',    /* First answer on the port. */
    WP_CONTROL_ANSWERS = 'Y', /* Reply to PROBE. */
    WP_CONTROL_SILENT = 'N',  /* Reply to PROBE. */
    WP_CONTROL_EXIT = 'X',    /* The program ended; text says how. */
    WP_CONTROL_FAIL = 'F',    /* It could not be started; text says why. */

    /* From the daemon. */
    WP_CONTROL_PROBE = 'P',
    WP_CONTROL_TERMINATE = 'T', /* SIGTERM to the program. */
    WP_CONTROL_KEEP = 'K',      /* Stay when the daemon is gone. */
};

#endif
