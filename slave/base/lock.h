/*
 * POOL/slave.lock: the one slave that drains a pool holds it (flock), with its
 * pid in it for people. And the end of a private slave (docs/design/pool.md).
 */
#ifndef IPS_SLAVE_BASE_LOCK_H
#define IPS_SLAVE_BASE_LOCK_H

#include <stdbool.h>

#include "common/err.h"

/* Makes the pool root where it is missing: 0700, root's 0711. */
int slave_lock_make_pool(const char *pool, struct ips_err *err) IPS_MUST_USE;

/* The descriptor, or IPS_E_BUSY (message names the holder's pid). */
int slave_lock_take(const char *pool, struct ips_err *err) IPS_MUST_USE;
void slave_lock_release(int fd);

/* pool.lock, without waiting: no run is made or joined while it is held. The
 * descriptor (close releases), or -1. */
int slave_lock_pool(const char *pool);

#endif
