/*
 * "did you mean X?": finds the valid name nearest to a word that is not valid.
 * The nearest name is one that begins with the word; else the one that takes
 * the fewest single edits: one character added, removed or replaced, or two
 * neighbours swapped. At most about a third of the word may be edited, and
 * never more than three characters. If several names are equally near, the one
 * offered first wins. No side effects.
 */
#ifndef IPS_COMMON_NEAREST_H
#define IPS_COMMON_NEAREST_H

#include <stddef.h>

#define IPS_NEAREST_BYTES 512 /* longer names are never suggested */

struct ips_nearest {
    const char *word; /* the misspelt word; not copied */
    /* number of edits from `word` to `name`; a name that needs as many or more
     * is ignored */
    size_t changes;
    char name[IPS_NEAREST_BYTES];
    char text[IPS_NEAREST_BYTES + 24];
};

void ips_nearest_start_search(struct ips_nearest *n, const char *word);
/* Offers a valid name as a candidate. Cost: O(length of word * length of name).
 */
void ips_nearest_consider_candidate(struct ips_nearest *n, const char *name);
/* Returns the end of an error message: "; did you mean 'NAME'?", or "" if no
 * name is near or the word itself is a valid name. */
const char *ips_nearest_format_suggestion(struct ips_nearest *n);

#endif
