/*
 * Calls that fail when a test says so: allocations, system calls on files,
 * SQLite. The linker leads the product's calls here (--wrap; the list is in
 * CMakeLists.txt); libraries' own calls are not touched.
 *
 * A test runs its story once under fault_watch(), which counts the calls and
 * notes from where each came. fault_pick() then names calls that are worth
 * failing: of each way to a call (its callers, eight deep) the first one and
 * the last one. The test runs the story again for each of them, under
 * fault_arm(); fault_end() says whether the call was reached.
 *
 * A call fails without having done anything, as full disks, spent descriptors
 * and lacking memory let it fail: ENOSPC, EMFILE, ENOMEM, EIO by the call; of
 * SQLite BUSY, FULL and IOERR in turn, the latter two after the rollback that
 * SQLite itself makes then.
 *
 * Calls of any thread count. Without fault_watch or fault_arm nothing differs
 * from a program that was linked without this.
 */
#ifndef IPS_TESTS_FAULT_H
#define IPS_TESTS_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault_kind {
    FAULT_ALLOC = 1, /* malloc, calloc, realloc, strdup, mmap of no file */
    FAULT_CALL = 2,  /* system calls: see fault.c */
    FAULT_DB = 4,    /* sqlite3_step, prepare, exec, open */
    FAULT_SHORT = 8, /* pwrite and write do half of what they are told */
};

/* While > 0 nothing is counted and nothing fails: for the parts of a test that
 * share the process with the product. */
extern _Atomic unsigned fault_pause;

void fault_watch(unsigned kinds);
/* The nth call of these kinds, from 1, fails; the next ones do not. */
void fault_arm(unsigned kinds, uint64_t nth);
/* The next system call of that name fails ("rename"). */
void fault_arm_name(const char *name);
/* Ends each. Watching: how many calls there were; armed: 1 if one failed. */
uint64_t fault_end(void);
/* Has the armed call been reached? */
bool fault_struck(void);
/* Calls chosen from what was watched last, ascending; the caller frees them
 * after fault_end(). Where these are more than `most`: first ones alone, and
 * of these every so manieth. With IPS_TEST_EVERY_FAULT in the environment all
 * of them, which takes minutes: for whoever changes what allocates. */
uint64_t *fault_pick(size_t most, size_t *count);
/* The name of the call that failed last, for messages. */
const char *fault_last(void);

/* CLOCK_MONOTONIC as the product sees it: `ns` from now on, 0 the real one. */
void fault_clock(uint64_t ns);

#endif
