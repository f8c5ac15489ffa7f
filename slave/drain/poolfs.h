/*
 * Opens the pool's files for the slave. Their owners are not trusted: in root's
 * pool any user with a process in a run may add files, and change or truncate
 * files at any moment. Therefore:
 *  - the slave checks and keeps private copies, which nobody can change after
 *    the check. pread returns a short read if a file was truncated; mapped
 *    bytes are accessed only through drain/guarded_mapping.h, which survives
 *    the SIGBUS.
 *  - every open is O_NOFOLLOW, and accepts only a regular file with one link
 *    that belongs to the slave's user (root's slave accepts any owner).
 */
#ifndef IPS_SLAVE_DRAIN_POOLFS_H
#define IPS_SLAVE_DRAIN_POOLFS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/pool/format.h"
#include "common/err.h"

/* Opens directory `name` in `at` (AT_FDCWD allowed). It must not be a symlink
 * and must belong to the slave's user or root. Returns the descriptor or a
 * negative code. */
int slave_poolfs_open_trusted_dir(int at, const char *name,
                                  struct ips_err *err) IPS_MUST_USE;

/* Reads and checks the control file of a run's directory. IPS_E_NOT_FOUND:
 * there is none. Every text in *out ends with a NUL. */
int slave_poolfs_read_control(int dirfd, struct ips_control *out,
                              struct ips_err *err) IPS_MUST_USE;

/* Opens a segment for reading and for writing its state word. Returns the
 * descriptor, or a negative code. */
int slave_poolfs_open_segment(int dirfd, const char *file,
                              struct ips_err *err) IPS_MUST_USE;

/* Reads a segment's header. IPS_E_INCOMPLETE: the writer has not filled it yet;
 * IPS_E_CORRUPT or IPS_E_VERSION: it cannot be valid. `state` is read first: if
 * it is CLOSED, records read after this call are complete. */
int slave_poolfs_read_header(int fd, struct ips_segment_header *out,
                             struct ips_err *err) IPS_MUST_USE;

/* Checks a header like slave_poolfs_read_header, except for the file's size.
 * The caller has read the header, and its `state` before the rest. */
int slave_poolfs_check_header(struct ips_segment_header *out,
                              struct ips_err *err) IPS_MUST_USE;

/* Whether a run's name is valid: [A-Za-z0-9._-]{1,63}, not beginning with a
 * dot. */
bool slave_poolfs_is_run_name(const char *name);

/* Gets the used bytes and the size of the file system that holds the pool.
 * Returns 0 or -1. */
int slave_poolfs_get_filesystem_usage(const char *root, uint64_t *used,
                                      uint64_t *size);

#endif
