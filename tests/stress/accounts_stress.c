/* Threads count claims of more tenants than a small table has accounts for, so
 * that accounts are used anew all the time, and end them.
 *
 * Of one tenant's claims that its quota allows, never more live than the quota;
 * an account never counts another tenant's; at the end every count is 0. */
#include <stdatomic.h>
#include <string.h>

#include "pool/claims/accounts.h"
#include "tests/support/base/stress.h"

enum {
    TENANTS = 150, /* The table has 64 places. */
    HELD = 12,     /* By each thread. */
    QUOTA = 3,
};

static struct wp_accounts accounts;
static char names[TENANTS][16];
static _Atomic(uint32_t) holding[TENANTS];
static _Atomic(uint64_t) served;
static _Atomic(uint64_t) refused;
static _Atomic(uint64_t) shared;

struct held {
    uint32_t account;
    uint32_t tenant; /* TENANTS: none. */
};

static void
end_claim(struct held *held)
{
    if (held->tenant < TENANTS) {
        (void)atomic_fetch_sub(&holding[held->tenant], 1);
    }
    wp_accounts_give(&accounts, held->account);
}

/* Half the claims are of four tenants, which so reach their quotas. */
static uint32_t
choose(struct wp_rng *rng)
{
    return (uint32_t)(wp_rng_next(rng) % 2 == 0 ? wp_rng_next(rng) % 4
                                                : wp_rng_next(rng) % TENANTS);
}

static void
body(struct stress_thread *self)
{
    struct held held[HELD];
    uint32_t n = 0;

    for (uint64_t i = 0; i < self->stress->ops; i++) {
        uint32_t tenant = choose(&self->rng);
        int64_t retry_ns;
        struct wp_counted counted;

        if (n == HELD || (n > 0 && wp_rng_next(&self->rng) % 2 == 0)) {
            uint32_t k = (uint32_t)(wp_rng_next(&self->rng) % n);

            end_claim(&held[k]);
            held[k] = held[--n];
            continue;
        }
        counted = wp_accounts_take(&accounts, 0, wp_str_from(names[tenant]),
                                   (int64_t)i + 1);
        held[n].account = counted.account;
        held[n].tenant = TENANTS;
        if (counted.account == WP_ACCOUNT_OTHERS) {
            (void)atomic_fetch_add(&shared, 1);
            n++;
        } else if (wp_accounts_check(&accounts, counted, 1, &retry_ns) ==
                   WP_ACCOUNT_OK) {
            held[n++].tenant = tenant;
            (void)atomic_fetch_add(&served, 1);
            STRESS_CHECK(atomic_fetch_add(&holding[tenant], 1) < QUOTA);
            STRESS_CHECK(strcmp(accounts.account[counted.account].tenant,
                                names[tenant]) == 0);
        } else {
            (void)atomic_fetch_add(&refused, 1);
            wp_accounts_give(&accounts, counted.account);
        }
        if (i % 64 == 0) {
            wp_accounts_sweep(&accounts, (int64_t)i);
        }
    }
    while (n > 0) {
        end_claim(&held[--n]);
    }
}

int
main(int argc, char **argv)
{
    struct stress stress = stress_args(argc, argv, "accounts", 200000);
    const struct wp_quota quota = {QUOTA, WP_QUOTA_NONE, WP_QUOTA_NONE};

    STRESS_CHECK(wp_accounts_init(&accounts, 1, (struct wp_hash_key){3, 4}));
    STRESS_CHECK(accounts.mask + 1 == 64);
    wp_accounts_set_pool(&accounts, 0, 1, &quota);
    for (uint32_t i = 0; i < TENANTS; i++) {
        (void)snprintf(names[i], sizeof names[i], "tenant-%u", i);
    }
    stress_run(&stress, body);
    for (uint32_t i = 0; i <= accounts.mask; i++) {
        STRESS_CHECK(wp_account_live(&accounts.account[i]) == 0);
    }
    STRESS_CHECK(wp_accounts_active(&accounts, 0) <= accounts.n_used);
    STRESS_CHECK(stress.ops < 10000 || atomic_load(&refused) > 0);
    (void)printf("accounts: ok, %llu served, %llu refused, %llu shared\n",
                 (unsigned long long)atomic_load(&served),
                 (unsigned long long)atomic_load(&refused),
                 (unsigned long long)atomic_load(&shared));
    wp_accounts_fini(&accounts);
    return 0;
}
