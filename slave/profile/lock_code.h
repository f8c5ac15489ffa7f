/*
 * Recognises, by name, the procedures of the C library that take and release
 * locks. From a sample's stack it finds who called them and whether the lock
 * was contended. An uncontended lock is taken and released without a futex
 * call, so time in the functions that sleep for a lock, or wake a sleeping
 * thread, means that another thread wanted the lock. Pure.
 */
#ifndef IPS_SLAVE_PROFILE_LOCK_CODE_H
#define IPS_SLAVE_PROFILE_LOCK_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum slave_lock_procedure_class {
    SLAVE_LOCK_NONE,
    /* a helper function of locks, conditions and semaphores */
    SLAVE_LOCK_FUTEX,
    /* a function of condition variables: takes the mutex and an internal lock
     */
    SLAVE_LOCK_COND,
    SLAVE_LOCK_TAKES,    /* takes a lock, contended or not */
    SLAVE_LOCK_RELEASES, /* releases a lock, contended or not */
    SLAVE_LOCK_SLEEPS,   /* called only if another thread holds the lock */
    SLAVE_LOCK_WAKES,    /* called only if another thread waits for the lock */
    /* yields the CPU, as a thread does that waits for a variable to change */
    SLAVE_LOCK_YIELDS
};

/* Returns the class of procedure `name` in `module` (a path). */
enum slave_lock_procedure_class
slave_lock_procedure_class(const char *name, size_t len, const char *module);
/* slave_module_is_c_library: whether `module` (a path) is the C library or its
 * loader. slave_module_is_recorder: whether it is IPS's recording library. */
bool slave_module_is_c_library(const char *module);
bool slave_module_is_recorder(const char *module);

/* The use of a lock, or a yield of the CPU, that the innermost procedures of a
 * sample's stack show. */
struct slave_lock_use {
    /* symbol of the procedure that took or released the lock; for a lock inside
     * the C library: the library function that the program called */
    uint32_t site;
    uint32_t caller; /* symbol of the innermost procedure outside the library;
                        `site` if there is none */
    bool contended, gives, library, yields;
};
struct slave_proc_names;
/* Finds the use of a lock in a stack, given as `count` symbols, innermost
 * first. Returns false if the stack shows none. */
bool slave_lock_find_use_in_stack(const struct slave_proc_names *names,
                                  const uint32_t *symbols, uint32_t count,
                                  struct slave_lock_use *out);

#endif
