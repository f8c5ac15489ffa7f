/*
 * Reserves a directory for one daemon at a time. The file DIR/NAME stays locked
 * as long as the descriptor is open; it holds the daemon's pid for people to
 * read.
 */
#ifndef IPS_COMMON_LOCK_H
#define IPS_COMMON_LOCK_H

#include "common/err.h"

/* Returns the descriptor of the locked file, or an error. Waits up to `wait_ms`
 * for a holder that is about to end. Errors: IPS_E_BUSY (the message names the
 * holder's pid, and the `option` that chooses another directory), IPS_E_IO. The
 * directory must exist. */
int ips_lock_directory(const char *dir, const char *name, const char *option,
                       unsigned wait_ms, struct ips_err *err) IPS_MUST_USE;

#endif
