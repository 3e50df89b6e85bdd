#include "local/init/options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t
parse_u32(const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if (*end != '\0' || value > UINT32_MAX) {
        (void)fprintf(stderr, "warmpool-init: not a number: %s\n", text);
        exit(2);
    }
    return (uint32_t)value;
}

/* False: that is not one of them. */
static bool
take(struct wp_init_options *options, int c)
{
    switch (c) {
    case 'l':
        options->listen_fd = (int)parse_u32(optarg);
        break;
    case 'c':
        options->control_fd = (int)parse_u32(optarg);
        break;
    case 'p':
        options->port = (uint16_t)parse_u32(optarg);
        break;
    case 'h':
        options->probe_path = optarg;
        break;
    case 'w':
        if (options->writable_len < WP_INIT_WRITABLE_MAX) {
            options->writable[options->writable_len++] = optarg;
        }
        break;
    case 'n':
        options->procs_max = parse_u32(optarg);
        break;
    case 'm':
        options->conns_max = parse_u32(optarg);
        break;
    case 'r':
        options->rejoin_fd = (int)parse_u32(optarg);
        break;
    case 'e':
        options->egress_port = (uint16_t)parse_u32(optarg);
        break;
    case 's':
        options->confines_itself = true;
        break;
    case 'x':
        options->programs_fd = (int)parse_u32(optarg);
        break;
    case 'i':
        if (options->prepared_len < WP_INIT_WRITABLE_MAX) {
            options->prepared[options->prepared_len++] = optarg;
        }
        break;
    case 'b':
        options->bound_dir = optarg;
        break;
    case 'd':
        options->workspace = optarg;
        break;
    default:
        return false;
    }
    return true;
}

char **
wp_init_options_parse(struct wp_init_options *options, int argc, char **argv)
{
    static const struct option table[] = {
        {"listen", required_argument, NULL, 'l'},
        {"control", required_argument, NULL, 'c'},
        {"port", required_argument, NULL, 'p'},
        {"http", required_argument, NULL, 'h'},
        {"write", required_argument, NULL, 'w'},
        {"procs", required_argument, NULL, 'n'},
        {"conns", required_argument, NULL, 'm'},
        {"rejoin", required_argument, NULL, 'r'},
        {"egress", required_argument, NULL, 'e'},
        {"confines-itself", no_argument, NULL, 's'},
        {"programs", required_argument, NULL, 'x'},
        {"prepare", required_argument, NULL, 'i'},
        {"bound", required_argument, NULL, 'b'},
        {"workspace", required_argument, NULL, 'd'},
        {NULL, 0, NULL, 0},
    };
    int c;

    *options = (struct wp_init_options){
        .listen_fd = -1,
        .control_fd = -1,
        .rejoin_fd = -1,
        .programs_fd = -1,
        .conns_max = 64,
        .procs_max = 512,
        .workspace = ".",
    };
    while ((c = getopt_long(argc, argv, "+", table, NULL)) != -1) {
        if (!take(options, c)) {
            exit(2);
        }
    }
    if (options->listen_fd < 0 || options->control_fd < 0 || optind >= argc) {
        (void)fprintf(stderr, "warmpool-init: started by warmpoold only\n");
        exit(2);
    }
    return argv + optind;
}
