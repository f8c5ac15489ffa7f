/*
 * Names of objects of a run, "/machine/process/thread", and patterns that
 * select them: in each part `*` stands for any text, `?` for any character; the
 * first slash may be left out. A pattern of fewer parts selects what it fits
 * and all below that; "" and "/" select everything. Pure.
 */
#ifndef IPS_COMMON_OBJECT_H
#define IPS_COMMON_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

/* Is `object` selected? O(length of both) but for patterns with many stars. */
bool ips_object_in(const char *pattern, const char *object);
/* May something of machine `machine` be selected? */
bool ips_object_machine(const char *pattern, const char *machine);
/* Number of parts: 0 "/", 1 "/m", 2 "/m/p". */
unsigned ips_object_parts(const char *pattern);

#endif
