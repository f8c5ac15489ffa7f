#include "common/object.h"

#include <string.h>

/* Does the text of `n` bytes match the pattern of `pn` bytes, with `*` and `?`?
 */
static bool glob_matches(const char *pattern, size_t pn, const char *text,
                         size_t n)
{
    size_t p = 0, t = 0, star = pn, from = 0;
    while (t < n) {
        if (p < pn && pattern[p] == '*') {
            star = p++;
            from = t;
        } else if (p < pn && (pattern[p] == '?' || pattern[p] == text[t])) {
            p++;
            t++;
        } else if (star < pn) { /* let the last star match one more character */
            p = star + 1;
            t = ++from;
        } else {
            return false;
        }
    }
    while (p < pn && pattern[p] == '*')
        p++;
    return p == pn;
}

static size_t skip_slashes_and_measure_component(const char **at)
{
    while (**at == '/')
        ++*at;
    return strcspn(*at, "/");
}

bool ips_object_matches_pattern(const char *pattern, const char *object)
{
    for (;;) {
        size_t pn = skip_slashes_and_measure_component(&pattern),
               n = skip_slashes_and_measure_component(&object);
        if (pn == 0)
            return true;
        if (n == 0 || !glob_matches(pattern, pn, object, n))
            return false;
        pattern += pn;
        object += n;
    }
}

bool ips_object_pattern_matches_machine(const char *pattern,
                                        const char *machine)
{
    size_t pn = skip_slashes_and_measure_component(&pattern);
    return pn == 0 || glob_matches(pattern, pn, machine, strlen(machine));
}

unsigned ips_object_count_components(const char *pattern)
{
    unsigned parts = 0;
    for (size_t n; (n = skip_slashes_and_measure_component(&pattern)) > 0;
         parts++)
        pattern += n;
    return parts;
}
