/*
 * How many blocks of memory are allocated in this process, libraries' too: the
 * allocator's functions are defined here and call the C library's own. For a
 * test program whose target has ENABLE_EXPORTS, else libraries call past it; to
 * be included once. With a sanitizer there are always 0.
 */
#ifndef IPS_TESTS_LIVE_BLOCKS_H
#define IPS_TESTS_LIVE_BLOCKS_H

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

static atomic_long live_count;

static inline long live_blocks(void)
{
    return atomic_load(&live_count);
}

/* Those have an allocator of their own, and look for leaks themselves. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#pragma GCC visibility push(default) /* for libraries' calls */

/* glibc's own names of what is below. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static inline void *live_counted(void *p)
{
    if (p)
        atomic_fetch_add(&live_count, 1);
    return p;
}

void *malloc(size_t n)
{
    return live_counted(__libc_malloc(n));
}

void *calloc(size_t n, size_t each)
{
    return live_counted(__libc_calloc(n, each));
}

void *realloc(void *p, size_t n)
{
    void *q = __libc_realloc(p, n);
    if (!p)
        return live_counted(q);
    if (!q && n == 0)
        atomic_fetch_sub(&live_count, 1);
    return q;
}

void *memalign(size_t align, size_t n)
{
    return live_counted(__libc_memalign(align, n));
}

void *aligned_alloc(size_t align, size_t n)
{
    return live_counted(__libc_memalign(align, n));
}

int posix_memalign(void **out, size_t align, size_t n)
{
    *out = live_counted(__libc_memalign(align, n));
    return *out ? 0 : ENOMEM;
}

void free(void *p)
{
    if (p)
        atomic_fetch_sub(&live_count, 1);
    __libc_free(p);
}

#pragma GCC visibility pop
#endif

#endif
