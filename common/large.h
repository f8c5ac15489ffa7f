/*
 * Memory for arrays that are large and read or written from end to end, and a
 * limit on how much of it a process may have.
 *
 * An array of 1 MB or more is a mapping of its own, in huge pages if the kernel
 * has some: one page fault and one TLB entry for 2 MB instead of 4 KB. A
 * mapping that would exceed the limit is made from an unnamed file instead; the
 * kernel writes the file's pages to disk when memory is short and reads them
 * back when they are used. So arrays larger than the memory can be processed:
 * more slowly, but with the same result.
 *
 * Invariants: `memory`, together with the mappings kept for reuse, never
 * exceeds the limit. A file's disk space is reserved before it is mapped, so a
 * full disk gives NULL here and never a signal later. May be called from any
 * thread.
 */
#ifndef IPS_COMMON_LARGE_H
#define IPS_COMMON_LARGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Smaller arrays come from malloc and are not counted. Tests set a smaller
 * value, to find code that releases an array with free(). */
#ifndef IPS_LARGE_MIN
#define IPS_LARGE_MIN ((size_t)1 << 20)
#endif

/* Returns a zeroed array, or NULL if there is neither memory nor disk space for
 * a file. */
void *ips_calloc_large(size_t count, size_t size);
/* Like ips_calloc_large, but with undefined contents, for callers that write
 * all of the array. Reuses a mapping that was released shortly before, if there
 * is one: otherwise the kernel's clearing of fresh pages takes a quarter of the
 * time in which a slave builds a graph. */
void *ips_alloc_large(size_t count, size_t size);
/* Like ips_calloc_large, for callers that will write only a small part of the
 * array: untouched pages take neither memory nor time. */
void *ips_calloc_large_sparse(size_t count, size_t size);
/* Moves the array `v` of `old` bytes (from a function here, from malloc, or
 * NULL) to one of `bytes` bytes, and returns that; added bytes are undefined.
 * Returns NULL if there is no memory; `v` is then unchanged. */
void *ips_resize_large(void *v, size_t old, size_t bytes);
/* Releases all pages after the first `bytes` of an array. */
void ips_trim_large_array(void *v, size_t bytes);
/* Releases an array from any function here or from malloc(); NULL is
 * allowed. */
void ips_free_large(void *v);

/* Unmaps the released mappings that are kept for ips_alloc_large, and returns
 * whether there were any. At most 1 GB is kept, at most a quarter of the limit,
 * and no more than the limit leaves. */
bool ips_large_unmap_kept_mappings(void);

/* From now on at most `bytes` are in memory; arrays beyond that are in files in
 * `dir`. Without this call, or with UINT64_MAX, there is no limit. `dir` is
 * copied. */
void ips_large_set_limit_and_file_directory(uint64_t bytes, const char *dir);

struct ips_large_use {
    uint64_t limit;
    uint64_t memory, files; /* bytes that are mapped now */
    /* peaks of `memory` and `files` since ips_large_restart_peaks */
    uint64_t memory_most, files_most;
};
struct ips_large_use ips_large_get_use(void);
/* Restarts both peaks from the present values. */
void ips_large_restart_peaks(void);

#endif
