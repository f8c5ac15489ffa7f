/* For tests that write a real pool and read it back: a run in a fresh
 * directory of /dev/shm, and every record of it handed to a function. */
#ifndef IPS_TESTS_UNIT_HELP_POOL_HELP_H
#define IPS_TESTS_UNIT_HELP_POOL_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* after the four it needs */

#include "tests/support/pool_cursor.h"

struct pool_dir {
    char root[64];
    char dir[600];
};

/* One segment as read: records in order. */
struct pool_segment {
    struct ips_segment_header head;
    enum pool_cursor_answer end; /* how reading ended */
    unsigned torn;               /* reservations stepped over */
    char file[256];
};
typedef void (*pool_record_fn)(const struct pool_segment *seg, const void *rec,
                               size_t len, void *arg);
typedef void (*pool_segment_fn)(const struct pool_segment *seg, void *arg);

/* Makes the root and run "r" below `base` (NULL = /dev/shm). */
void pool_help_make(struct pool_dir *p, const char *base);
void pool_help_remove(struct pool_dir *p);
/* In the process that is going to record. */
void pool_help_enter(const struct pool_dir *p);
/* Changes control in place: opens it for the caller. Unmap with munmap. */
struct ips_control *pool_help_control(const struct pool_dir *p);
/* The bytes of all segments' blocks; adds up how many there are. */
uint64_t pool_help_blocks(const struct pool_dir *p, unsigned *files);
/* Reads every segment, in order of (pid, tid, stamp). `on_end` may be NULL.
 * Steps over torn reservations. Returns the number of segments. */
unsigned pool_help_read(const struct pool_dir *p, pool_record_fn on_record,
                        pool_segment_fn on_end, void *arg);

#endif
