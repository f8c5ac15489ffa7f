/*
 * Names of objects of a run, "/machine/process/thread", and patterns that
 * select them. In each part of a pattern `*` matches any text and `?` any
 * character; the first slash may be left out. A pattern with fewer parts
 * selects the objects that it matches and everything below them; "" and "/"
 * select everything. No side effects.
 */
#ifndef IPS_COMMON_OBJECT_H
#define IPS_COMMON_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

/* Does the pattern select `object`? Cost: O(length of both), more for patterns
 * with many stars. */
bool ips_object_matches_pattern(const char *pattern, const char *object);
/* May the pattern select an object of machine `machine`? */
bool ips_object_pattern_matches_machine(const char *pattern,
                                        const char *machine);
/* Returns the number of parts of a pattern: 0 for "/", 1 for "/m", 2 for
 * "/m/p". */
unsigned ips_object_count_components(const char *pattern);

#endif
