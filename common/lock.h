/*
 * Reserves a directory for one daemon at a time. The lock is on the directory
 * itself, so removing files in it does not release it. The file DIR/NAME is
 * also locked: it shows others whether a daemon runs, and contains the daemon's
 * pid for people to read. Where the file system refuses to lock a directory,
 * only the file is locked.
 */
#ifndef IPS_COMMON_LOCK_H
#define IPS_COMMON_LOCK_H

#include "common/err.h"

struct ips_lock {
    int dir_fd, file_fd; /* -1: not held */
};
#define IPS_LOCK_NONE ((struct ips_lock){-1, -1})

/* Fills *out and returns 0, or returns an error and leaves *out as
 * IPS_LOCK_NONE. Waits up to `wait_ms` for a holder that is about to end. `own`
 * (may be NULL): a lock that the caller already holds. If `own` is on the same
 * directory, only the file DIR/NAME is locked, and the caller must keep `own`
 * as long as *out. Errors: IPS_E_BUSY (the message names the holder's pid, and
 * the `option` that chooses another directory), IPS_E_IO. The directory must
 * exist. */
int ips_lock_directory_and_store_pid(const char *dir, const char *name,
                                     const char *option, unsigned wait_ms,
                                     const struct ips_lock *own,
                                     struct ips_lock *out,
                                     struct ips_err *err) IPS_MUST_USE;
/* Erases the pid and releases the lock, if it is held. */
void ips_lock_release(struct ips_lock *lock);

#endif
