/*
 * Which procedures of the C library take and give locks, by their names; and by
 * a sample's stack who called them, and whether the lock was contended. An
 * uncontended lock is taken and given without a futex: time in the functions
 * that sleep for a lock, or wake a thread that does, is of one that another
 * thread wanted. Pure.
 */
#ifndef IPS_SLAVE_PROFILE_LOCK_CODE_H
#define IPS_SLAVE_PROFILE_LOCK_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum slave_lock_code {
    SLAVE_LOCK_NONE,
    SLAVE_LOCK_FUTEX, /* a helper of locks, conditions and semaphores */
    SLAVE_LOCK_COND,  /* a condition: takes its mutex and a lock of its own */
    SLAVE_LOCK_TAKES, /* takes or gives, whether it is contended or not */
    SLAVE_LOCK_GIVES,
    SLAVE_LOCK_SLEEPS, /* only where another thread has it */
    SLAVE_LOCK_WAKES,  /* only where another thread waits for it */
    SLAVE_LOCK_YIELDS  /* lets others run, as threads do that wait for a
                          variable to change */
};

/* Of a procedure in a module (its path). */
enum slave_lock_code slave_lock_code(const char *name, size_t len,
                                     const char *module);
/* The C library and its loader; the library that records is none of them. */
bool slave_lock_is_library(const char *module);
bool slave_lock_is_recorder(const char *module);

/* Of a sample whose innermost procedures are of a lock, or yield the core. */
struct slave_lock_use {
    uint32_t site;   /* symbol: that took or gave it. Of a lock inside the C
                        library: the library's function that was called */
    uint32_t caller; /* symbol: the first outside the library; or `site` */
    bool contended, gives, library, yields;
};
struct slave_proc_names;
/* `symbols` [count] innermost first; false: it is of no lock. */
bool slave_lock_use(const struct slave_proc_names *names,
                    const uint32_t *symbols, uint32_t count,
                    struct slave_lock_use *out);

#endif
