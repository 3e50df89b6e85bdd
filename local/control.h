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
    WP_CONTROL_IDENTITY_MAX = 4096,

    WP_CONTROL_INITS_MAX = 16, /* Init containers. */

    WP_CONTROL_FINGERPRINT = 16,        /* Digits of a binding's. */
    WP_CONTROL_TREE_MAX = 1 + 16 + 512, /* Bytes of TREE. */

    /* From warmpool-init. */
    WP_CONTROL_HELLO = 'H',   /* Up; its credentials come along. */
    WP_CONTROL_OPEN = 'O',    /* First answer on the port. */
    WP_CONTROL_ANSWERS = 'Y', /* Reply to PROBE. */
    WP_CONTROL_SILENT = 'N',  /* Reply to PROBE. */
    WP_CONTROL_EXIT = 'X',    /* The program ended; text says how. */
    WP_CONTROL_FAIL = 'F',    /* It could not be started; text says why. */
    /* Replies to BIND. After UNBOUND with another cause than that it cannot be
     * bound at all, init leaves, and takes what is half bound with it. */
    WP_CONTROL_BOUND = 'D',   /* All is there. */
    WP_CONTROL_UNBOUND = 'U', /* Text says what is not. */
    /* The socket where the sandbox's egress proxy is to accept comes along; to
     * each daemon anew. */
    WP_CONTROL_EGRESS = 'E',
    /* Reply to LOOK: text is for how many milliseconds the sandbox has been
     * idle. When that is as long as was asked for, its listening socket comes
     * along, and init accepts no connection there until AWAKE. */
    WP_CONTROL_IDLE = 'Z',

    /* From the daemon. */
    WP_CONTROL_PROBE = 'P',
    WP_CONTROL_TERMINATE = 'T', /* SIGTERM to the program. */
    WP_CONTROL_KEEP = 'K',      /* Stay when the daemon is gone. */
    /* A parcel (proto/parcel/parcel.h) comes along as a descriptor; text is the
     * binding's fingerprint in hexadecimal. A second one with the same
     * fingerprint is answered as the first, without a look at it. */
    WP_CONTROL_BIND = 'B',
    /* Before BIND: its parcel, to be taken at once. The command that it names
     * starts at BIND, which also tells of how it went. */
    WP_CONTROL_PARCEL = 'A',
    /* Before PARCEL and BIND: a tree image (proto/checkout/tree_image.h) comes
     * along as a descriptor; text is the binding's fingerprint, and the folder
     * below the workspace. BIND tells of how it went. */
    WP_CONTROL_TREE = 'R',
    /* Text, up to WP_CONTROL_IDENTITY_MAX bytes in all, is the sandbox's
     * identity: before BIND, and anew while it is leased. */
    WP_CONTROL_IDENTITY = 'I',
    /* Is it idle? Text is for how many milliseconds it has to be, so that it
     * can be frozen; 0: it will not be. */
    WP_CONTROL_LOOK = 'L',
    WP_CONTROL_AWAKE = 'W', /* It is not frozen, or not any more. */
};

/* What warmpool-init runs beside the command comes through a descriptor: as
 * terminated texts, of each program its kind, its name, its timeout in seconds,
 * its directory ("": where warmpool-init is), the number of its arguments and
 * they, the number of its variables (0: those of warmpool-init) and they. */
#define WP_PROGRAM_INIT "init"   /* Runs to its end before the command. */
#define WP_PROGRAM_PROBE "probe" /* Status 0: the command is ready. */

#endif
