/*
 * Memory for arrays that are large and read or written from end to end, and how
 * much of it a process may have. Above a MB an array is a mapping of its own,
 * in huge pages where the kernel has some: a fault and a place in the TLB for 2
 * MB instead of 4 KB. What would take all these mappings together beyond the
 * limit is mapped from a file without a name instead, whose pages the kernel
 * writes out and takes back when somebody needs the memory. So arrays larger
 * than the memory can be worked on; slower, but with the same result.
 *
 * Invariants: `memory`, with what is kept for reuse, never exceeds the limit;
 * the file's room is reserved before it is mapped, so that a full disk is NULL
 * here and never a signal later. Any thread.
 */
#ifndef IPS_COMMON_LARGE_H
#define IPS_COMMON_LARGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Arrays below are the allocator's; they are not counted. */
#ifndef IPS_LARGE_MIN /* less, to find who releases with free() */
#define IPS_LARGE_MIN ((size_t)1 << 20)
#endif

/* Zeroed; NULL: no memory, and no room for a file either. */
void *ips_calloc_large(size_t count, size_t size);
/* The same with undefined contents, for who writes all of it. Where a mapping
 * was released shortly before, it is that one: the kernel's clearing of fresh
 * pages is a quarter of a build else. */
void *ips_alloc_large(size_t count, size_t size);
/* Zeroed, for who will write little of it or nothing: pages that nobody wrote
 * take neither memory nor time. */
void *ips_thin_large(size_t count, size_t size);
/* `v`, of any kind or NULL, with room for `bytes` instead of `old` bytes;
 * the new ones are undefined. NULL: `v` is as it was. */
void *ips_resize_large(void *v, size_t old, size_t bytes);
/* Gives back what lies behind the first `bytes` of an array. */
void ips_trim_large(void *v, size_t bytes);
/* Releases what came from either, from malloc() and its like, or NULL. */
void ips_free_large(void *v);

/* What was released is kept for ips_alloc_large: at most a GB, a quarter of
 * the limit, and what the limit leaves. This gives it back; true: there was
 * some. */
bool ips_large_tidy(void);

/* From now on at most `bytes` in memory, what is more in files in `dir`.
 * Without this call, or with UINT64_MAX, there is no limit. `dir` is copied. */
void ips_large_limit(uint64_t bytes, const char *dir);

struct ips_large_use {
    uint64_t limit;
    uint64_t memory, files;           /* bytes mapped now */
    uint64_t memory_most, files_most; /* ... at a time since ips_large_begin */
};
struct ips_large_use ips_large_use(void);
/* The most is what there is now. */
void ips_large_begin(void);

#endif
