/*
 * Our own versions of the few functions on bytes and strings that we call. The
 * loader would bind each of the C library's at its first call, which takes 1 to
 * 2 us at every start, and the program may replace them. Our versions are
 * hidden, so only this library uses them. They need not be fast: the strings
 * are short, and records without strings do not use them. errno and
 * pthread_self are here for the same reason.
 */
#include "agent/preload/wrap.h"

#define HIDDEN __attribute__((visibility("hidden")))
/* Keeps the compiler from replacing the loop of a function by a call of that
 * same function. */
#define AS_WRITTEN() __asm__ volatile("")

HIDDEN void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
#if defined(__x86_64__)
    void *at = to;
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(n) : : "memory");
#else
    unsigned char *out = to;
    const unsigned char *in = from;
    for (; n; n--) {
        *out++ = *in++;
        AS_WRITTEN();
    }
#endif
    return to;
}

HIDDEN void *memset(void *to, int value, size_t n)
{
#if defined(__x86_64__)
    void *at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(value) : "memory");
#else
    for (unsigned char *out = to; n; n--) {
        *out++ = (unsigned char)value;
        AS_WRITTEN();
    }
#endif
    return to;
}

HIDDEN int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;
    for (; n; n--, x++, y++) {
        if (*x != *y)
            return *x - *y;
        AS_WRITTEN();
    }
    return 0;
}

HIDDEN size_t strnlen(const char *s, size_t most)
{
    size_t n = 0;
    while (n < most && s[n]) {
        n++;
        AS_WRITTEN();
    }
    return n;
}

HIDDEN size_t strlen(const char *s)
{
    return strnlen(s, (size_t)-1);
}

HIDDEN int strncmp(const char *a, const char *b, size_t n)
{
    for (; n; n--, a++, b++) {
        if (*a != *b || !*a)
            return (unsigned char)*a - (unsigned char)*b;
        AS_WRITTEN();
    }
    return 0;
}

HIDDEN int strcmp(const char *a, const char *b)
{
    return strncmp(a, b, (size_t)-1);
}

HIDDEN char *strchr(const char *s, int c)
{
    for (; *s != (char)c; s++) {
        if (!*s)
            return NULL;
        AS_WRITTEN();
    }
    return (char *)(size_t)s;
}

HIDDEN char *strrchr(const char *s, int c)
{
    const char *found = NULL;
    for (;; s++) {
        if (*s == (char)c)
            found = s;
        if (!*s)
            return (char *)(size_t)found;
        AS_WRITTEN();
    }
}

/* The C library keeps errno at the same offset from the thread pointer in every
 * thread, so the offset is looked up once. */
HIDDEN int *__errno_location(void)
{
    static _Atomic ptrdiff_t at;
    char *thread = __builtin_thread_pointer();
    ptrdiff_t offset = atomic_load_explicit(&at, memory_order_relaxed);
    if (unlikely(!offset)) {
        int *(*theirs)(void);
        ips_install_real_function_stubs();
        void *found = ips_find_real("__errno_location");
        memcpy(&theirs, &found, sizeof(theirs));
        offset = (char *)theirs() - thread;
        atomic_store_explicit(&at, offset, memory_order_relaxed);
    }
    return (int *)(void *)(thread + offset);
}

#if defined(__x86_64__) /* x86-64 only, where the ABI defines the thread       \
                           pointer */
HIDDEN pthread_t pthread_self(void)
{
    return (pthread_t)__builtin_thread_pointer();
}
#endif
