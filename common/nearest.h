/*
 * "did you mean X?": of all names that are right in a place, the one nearest to
 * a word that is none of them. Nearest is a name that begins with the word,
 * then the one that the fewest single changes make of it: a character more,
 * less, another, or two neighbours swapped. At most a third of the word may
 * change, and never more than three characters. Of equally near names the
 * first that was offered wins. Pure.
 */
#ifndef IPS_COMMON_NEAREST_H
#define IPS_COMMON_NEAREST_H

#include <stddef.h>

#define IPS_NEAREST_BYTES 512 /* longer names are never suggested */

struct ips_nearest {
    const char *word; /* borrowed */
    size_t changes;   /* that `name` needs; more are refused */
    char name[IPS_NEAREST_BYTES];
    char text[IPS_NEAREST_BYTES + 24];
};

void ips_nearest_begin(struct ips_nearest *n, const char *word);
/* O(length of word * length of name). */
void ips_nearest_offer(struct ips_nearest *n, const char *name);
/* The end of an error message: "; did you mean 'NAME'?", or "". It is "" where
 * the word is one of the names itself. */
const char *ips_nearest_text(struct ips_nearest *n);

#endif
