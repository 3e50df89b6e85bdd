#include "bench/harness/tally.h"

#include <stdlib.h>
#include <string.h>

struct wp_tally *
wp_tally_create(void)
{
    struct wp_tally *tally = calloc(1, sizeof *tally);

    if (tally != NULL) {
        wp_hist_reset(&tally->claim);
        wp_hist_reset(&tally->service);
        wp_hist_reset(&tally->release);
        wp_hist_reset(&tally->late);
        wp_slices_init(&tally->slices);
    }
    return tally;
}

void
wp_tally_destroy(struct wp_tally *tally)
{
    if (tally != NULL) {
        free(tally->records);
        free(tally->names);
        free(tally);
    }
}

/* Room for at least n of size bytes in *array. */
static bool
grow(void **array, uint64_t *room, uint64_t n, size_t size)
{
    uint64_t more = *room == 0 ? 1024 : *room;
    void *moved;

    if (n <= *room) {
        return true;
    }
    while (more < n) {
        more *= 2;
    }
    moved = realloc(*array, more * size);
    if (moved == NULL) {
        return false;
    }
    *array = moved;
    *room = more;
    return true;
}

struct wp_record *
wp_tally_record(struct wp_tally *tally, uint64_t max)
{
    void *array = tally->records;

    if (tally->n_records == max ||
        !grow(&array, &tally->records_room, tally->n_records + 1,
              sizeof *tally->records)) {
        tally->records_left_out++;
        return NULL;
    }
    tally->records = array;
    return &tally->records[tally->n_records++];
}

bool
wp_tally_name(struct wp_tally *tally, uint64_t hash)
{
    void *array = tally->names;

    if (!grow(&array, &tally->names_room, tally->n_names + 1,
              sizeof *tally->names)) {
        return false;
    }
    tally->names = array;
    tally->names[tally->n_names++] = hash;
    return true;
}

static bool
append(struct wp_tally *into, const struct wp_tally *from)
{
    void *records = into->records;
    void *names = into->names;
    bool ok = grow(&records, &into->records_room,
                   into->n_records + from->n_records, sizeof *into->records);

    into->records = records;
    if (ok) {
        ok = grow(&names, &into->names_room, into->n_names + from->n_names,
                  sizeof *into->names);
        into->names = names;
    }
    if (!ok) {
        return false;
    }
    if (from->n_records > 0) {
        memcpy(into->records + into->n_records, from->records,
               from->n_records * sizeof *into->records);
    }
    if (from->n_names > 0) {
        memcpy(into->names + into->n_names, from->names,
               from->n_names * sizeof *into->names);
    }
    into->n_records += from->n_records;
    into->n_names += from->n_names;
    return true;
}

static void
keep_larger(int64_t *into, int64_t value)
{
    *into = value > *into ? value : *into;
}

bool
wp_tally_merge(struct wp_tally *into, struct wp_tally *from)
{
    wp_hist_merge(&into->claim, &from->claim);
    wp_hist_merge(&into->service, &from->service);
    wp_hist_merge(&into->release, &from->release);
    wp_hist_merge(&into->late, &from->late);
    into->due += from->due;
    into->granted += from->granted;
    for (unsigned i = 0; i < WP_ARRAY_LEN(into->served); i++) {
        into->served[i] += from->served[i];
    }
    for (unsigned i = 0; i < WP_TALLY_CODES; i++) {
        into->failed[i] += from->failed[i];
    }
    into->held_back += from->held_back;
    into->releases += from->releases;
    into->calls += from->calls;
    into->reply_bytes += from->reply_bytes;
    into->replies += from->replies;
    into->releases_failed += from->releases_failed;
    into->bad_answers += from->bad_answers;
    into->lost += from->lost;
    into->duplicates += from->duplicates;
    into->connections_lost += from->connections_lost;
    into->records_left_out += from->records_left_out;
    into->in_flight_max += from->in_flight_max;
    keep_larger(&into->stall_max_ns, from->stall_max_ns);
    keep_larger(&into->elapsed_ns, from->elapsed_ns);
    into->client_cpu_ns += from->client_cpu_ns;
    wp_slices_merge(&into->slices, &from->slices);
    return append(into, from);
}

uint64_t
wp_tally_failed(const struct wp_tally *tally)
{
    uint64_t sum = 0;

    for (unsigned i = 1; i < WP_TALLY_CODES; i++) {
        sum += tally->failed[i];
    }
    return sum;
}

static int
compare_names(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

uint64_t
wp_tally_count_duplicates(uint64_t *names, uint64_t n)
{
    uint64_t found = 0;

    if (n == 0) {
        return 0;
    }
    qsort(names, n, sizeof *names, compare_names);
    for (uint64_t i = 1; i < n; i++) {
        found += names[i] == names[i - 1];
    }
    return found;
}

static int
compare_records(const void *a, const void *b)
{
    const struct wp_record *x = a;
    const struct wp_record *y = b;

    if (x->due_ns != y->due_ns) {
        return x->due_ns < y->due_ns ? -1 : 1;
    }
    return (x->number > y->number) - (x->number < y->number);
}

void
wp_tally_sort(struct wp_tally *tally)
{
    if (tally->n_records > 0) {
        qsort(tally->records, tally->n_records, sizeof *tally->records,
              compare_records);
    }
}

double
wp_tally_rate(const struct wp_tally *tally)
{
    return tally->elapsed_ns <= 0
               ? 0.0
               : (double)tally->granted * 1e9 / (double)tally->elapsed_ns;
}

const char *
wp_tally_code_name(unsigned code)
{
    static const char *const names[WP_TALLY_CODES] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
        "NO_ANSWER",
    };

    return code < WP_TALLY_CODES ? names[code] : "UNKNOWN";
}
