/* Any bytes as a configuration file: refused with a message, or printed as a
 * file that is read again. */
#include <stdlib.h>

#include "allocator/conf/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_conf *conf = wp_conf_create();
    struct wp_err err = {.msg = ""};
    struct wp_str text = {(const char *)data, size};

    if (conf == NULL) {
        return 0;
    }
    if (wp_conf_read_text(conf, text, "fuzz", &err) == WP_OK) {
        struct wp_conf *again = wp_conf_create();
        char *printed = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&printed, &len);

        if (wp_conf_resolve(conf, &err) == WP_OK && again != NULL) {
            (void)wp_conf_check(conf, &err);
        }
        wp_conf_print(conf, out);
        (void)fclose(out);
        if (again != NULL &&
            wp_conf_read_text(again, (struct wp_str){printed, len}, "printed",
                              &err) != WP_OK) {
            (void)fprintf(stderr, "%s\n%s\n", err.msg, printed);
            abort();
        }
        wp_conf_destroy(again);
        free(printed);
    } else if (err.msg[0] == '\0') {
        abort();
    }
    wp_conf_destroy(conf);
    return 0;
}
