#include "k8s/lead/scope.h"

#include <string.h>

/* Has the list, "a,b", this word of so many characters? */
static bool
has_word(const char *list, const char *word, size_t len)
{
    while (*list != '\0') {
        size_t n = strcspn(list, ",");

        if (n == len && strncmp(list, word, len) == 0) {
            return true;
        }
        list += n + (list[n] == ',' ? 1 : 0);
    }
    return false;
}

bool
wp_scopes_meet(const char *ours, const char *theirs)
{
    size_t our_ns = strcspn(ours, " ");
    size_t their_ns = strcspn(theirs, " ");
    const char *word = ours + our_ns + (ours[our_ns] == ' ' ? 1 : 0);
    const char *list = theirs + their_ns + (theirs[their_ns] == ' ' ? 1 : 0);

    if (theirs[0] == '\0') {
        return true;
    }
    if (ours[0] != '*' && theirs[0] != '*' &&
        (our_ns != their_ns || strncmp(ours, theirs, our_ns) != 0)) {
        return false;
    }
    while (*word != '\0') {
        size_t n = strcspn(word, ",");

        if (has_word(list, word, n)) {
            return true;
        }
        word += n + (word[n] == ',' ? 1 : 0);
    }
    return false;
}
