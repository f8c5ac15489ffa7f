#include "common/large.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_BYTES ((size_t)2 << 20)

void *ips_calloc_large(size_t count, size_t size)
{
    char *v = calloc(count, size);
    size_t bytes = count * size; /* calloc checked the product */
    if (!v || bytes < 2 * HUGE_BYTES)
        return v;
    /* Whole huge pages within: the rest is the allocator's as well. */
    size_t skip = -(uintptr_t)v & (HUGE_BYTES - 1);
    bytes = (bytes - skip) & ~(HUGE_BYTES - 1);
    if (bytes) /* it may refuse: then pages are small */
        (void)madvise(v + skip, bytes, MADV_HUGEPAGE);
    return v;
}
