/*
 * The locks in the pool's directory, POOL. The one slave that drains the pool
 * holds POOL/slave.lock (flock); the file contains its pid, for people to read.
 * While a process holds POOL/pool.lock, no run can be created or joined. A
 * slave takes pool.lock to close runs; a private slave also takes it before it
 * ends (docs/design/pool.md).
 */
#ifndef IPS_SLAVE_BASE_LOCK_H
#define IPS_SLAVE_BASE_LOCK_H

#include <stdbool.h>

#include "common/err.h"
#include "common/lock.h"

/* Creates the pool directory if it does not exist: mode 0711 for root, else
 * 0700. IPS_E_USAGE: `pool` is no directory; IPS_E_REFUSED: it belongs to
 * another user. */
int slave_make_and_check_pool_directory(const char *pool,
                                        struct ips_err *err) IPS_MUST_USE;

/* Takes slave.lock; waits up to 0.3 s for it. IPS_E_BUSY: another slave holds
 * it; the message names its pid. ips_lock_release() releases it. */
int slave_lock_take_drain_lock(const char *pool, struct ips_lock *out,
                               struct ips_err *err) IPS_MUST_USE;

/* Takes pool.lock without waiting. While it is held, no run can be created or
 * joined. Returns the lock's descriptor (close() releases the lock), or -1 if
 * another process holds the lock or the file cannot be opened. */
int slave_lock_try_pool_lock(const char *pool);

#endif
