/*
 * Zeroed memory for arrays that are large and read or written from end to end.
 * Above a few MB the kernel is asked for huge pages: a fault and a place in the
 * TLB for 2 MB instead of 4 KB. Any thread.
 */
#ifndef IPS_COMMON_LARGE_H
#define IPS_COMMON_LARGE_H

#include <stddef.h>

/* calloc(count, size): NULL where there is no memory. Release with free(). */
void *ips_calloc_large(size_t count, size_t size);

#endif
