/* Claims a hundred sandboxes of a pool, most of them in no time:
 *
 *     cc claims_ahead.c $(pkg-config --cflags --libs warmpool) -o claims_ahead
 *     ./claims_ahead quickstart */
#include <stdio.h>
#include <warmpool.h>

enum {
    CLAIMS = 100,
};

int
main(int argc, char **argv)
{
    const struct warmpool_stock_options wanted = {
        .pool = argc > 1 ? argv[1] : "quickstart",
        .ahead = 4,
        .ttl_ms = 60000,
    };
    struct warmpool_error error = {0};
    struct warmpool *client = warmpool_connect(NULL, &error);
    struct warmpool_stock *stock =
        client != NULL ? warmpool_stock_open(client, &wanted, &error) : NULL;
    int ahead = 0;

    for (int i = 0; stock != NULL && i < CLAIMS; i++) {
        struct warmpool_lease lease;

        if (warmpool_stock_take(stock, &lease)) {
            ahead++;
        } else if (warmpool_stock_claim(stock, 5000, &lease, &error) != 0) {
            break;
        }
        /* Here the sandbox answers at lease.endpoint. */
        (void)warmpool_release(client, &lease, NULL);
    }
    if (error.code != 0) {
        fprintf(stderr, "%s\n", error.message);
    } else {
        printf("%d claims, %d of them ahead of need\n", CLAIMS, ahead);
    }
    warmpool_stock_close(stock);
    warmpool_disconnect(client);
    return error.code != 0;
}
