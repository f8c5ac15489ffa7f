/*
 * The pool's locks. POOL/slave.lock (flock) is held by the one slave that
 * drains the pool; its pid is in the file, for people to read. While
 * POOL/pool.lock is held, no run is created or joined: a slave takes it to
 * close runs, and a private slave before it ends (docs/design/pool.md).
 */
#ifndef IPS_SLAVE_BASE_LOCK_H
#define IPS_SLAVE_BASE_LOCK_H

#include <stdbool.h>

#include "common/err.h"
#include "common/lock.h"

/* Creates the pool directory if it does not exist: mode 0711 for root, else
 * 0700. IPS_E_USAGE: `pool` is no directory; IPS_E_REFUSED: it belongs to
 * another user. */
int slave_lock_make_pool_directory(const char *pool,
                                   struct ips_err *err) IPS_MUST_USE;

/* Takes slave.lock; waits up to 0.3 s for it. IPS_E_BUSY: the message names the
 * holder's pid. ips_lock_release() releases it. */
int slave_lock_take(const char *pool, struct ips_lock *out,
                    struct ips_err *err) IPS_MUST_USE;

/* Takes pool.lock without waiting: while it is held, no run is created or
 * joined. Returns the descriptor (close releases the lock), or -1. */
int slave_lock_try_pool_lock(const char *pool);

#endif
