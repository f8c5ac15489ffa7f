/*
 * The pool's files as the slave opens them. Their owners are not trusted: in
 * root's pool anybody in a run may put files beside ours, and change or cut
 * them at any moment. Therefore:
 *  - what is checked and kept is a private copy that nobody changes under our
 *    checks. pread gives a short read where a file was cut; what is mapped is
 *    touched through drain/guarded_mapping.h alone, which outlives the SIGBUS.
 *  - every open is O_NOFOLLOW, of a regular file with one link, whose owner is
 *    us, or anybody where we are root.
 */
#ifndef IPS_SLAVE_DRAIN_POOLFS_H
#define IPS_SLAVE_DRAIN_POOLFS_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/pool/format.h"
#include "common/err.h"

/* Opens directory `name` in `at` (AT_FDCWD allowed): no symlink, ours (or
 * root's). Returns the descriptor or a negative code. */
int slave_poolfs_open_dir(int at, const char *name,
                          struct ips_err *err) IPS_MUST_USE;

/* Reads and checks `control` of a run's directory. IPS_E_NOT_FOUND where there
 * is none. Every text in *out ends with a NUL. */
int slave_poolfs_control(int dirfd, struct ips_control *out,
                         struct ips_err *err) IPS_MUST_USE;

/* Opens a segment for reading and for its state word. Returns the descriptor,
 * or a negative code. */
int slave_poolfs_segment(int dirfd, const char *file,
                         struct ips_err *err) IPS_MUST_USE;

/* Reads the header. IPS_E_INCOMPLETE while the writer has not filled it yet;
 * IPS_E_CORRUPT or IPS_E_VERSION where it cannot be right. `state` is read
 * first: records read after this call are complete where it says CLOSED. */
int slave_poolfs_header(int fd, struct ips_segment_header *out,
                        struct ips_err *err) IPS_MUST_USE;

/* The same of a header that was read, state first, but for the file's size. */
int slave_poolfs_header_check(struct ips_segment_header *out,
                              struct ips_err *err) IPS_MUST_USE;

/* Run names: [A-Za-z0-9._-]{1,63}, not beginning with a dot. */
bool slave_poolfs_run_name(const char *name);

/* Bytes used and size of the file system that holds the pool. */
int slave_poolfs_usage(const char *root, uint64_t *used, uint64_t *size);

#endif
