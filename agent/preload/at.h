/*
 * Calls made on behalf of another call site. Each function here makes and
 * records the call that it is named after, as if the program made the call at
 * `site`. The first ones are also the slow paths of the wrappers in
 * preload/io/io.c and preload/io/msg.c, for descriptors that are not streams.
 * The wrapper of syscall() (preload/start/syscall.c) calls all of them. They
 * take `site` as a parameter because their own return address is inside the
 * interposer and would be useless in a record.
 */
#ifndef IPS_AGENT_PRELOAD_AT_H
#define IPS_AGENT_PRELOAD_AT_H

#include "agent/preload/wrap.h"

ssize_t ips_read_slow(int fd, void *buf, size_t n, uint64_t site);
ssize_t ips_write_slow(int fd, const void *buf, size_t n, uint64_t site);
ssize_t ips_readv_slow(int fd, const struct iovec *iov, int count,
                       uint64_t site);
ssize_t ips_writev_slow(int fd, const struct iovec *iov, int count,
                        uint64_t site);
ssize_t ips_sendto_slow(int fd, const void *buf, size_t n, int flags,
                        const struct sockaddr *to, socklen_t len,
                        uint64_t site);
ssize_t ips_recvfrom_slow(int fd, void *buf, size_t n, int flags,
                          struct sockaddr *from, socklen_t *len, uint64_t site);
ssize_t ips_sendmsg_slow(int fd, const struct msghdr *m, int flags,
                         uint64_t site);
/* Makes and records a recvmsg on a datagram socket whose caller did not ask for
 * the sender's address, or not for the bytes of each joined datagram; asks the
 * kernel for both. Returns the result of recvmsg. */
ssize_t ips_receive_and_record_with_sender(struct ips_io *io, struct msghdr *m,
                                           int flags);
ssize_t ips_recvmsg_at(int fd, struct msghdr *m, int flags, uint64_t site);

/* The next functions are in preload/io/io.c and preload/io/msg.c. */
ssize_t ips_call_preadv2_and_record(int fd, const struct iovec *iov, int count,
                                    off_t at, int flags, uint64_t site);
ssize_t ips_pwritev2_at(int fd, const struct iovec *iov, int count, off_t at,
                        int flags, uint64_t site);
ssize_t ips_sendfile_at(int to, int from, off_t *at, size_t n, uint64_t site);
ssize_t ips_splice_at(int from, off64_t *from_at, int to, off64_t *to_at,
                      size_t n, unsigned flags, uint64_t site);
ssize_t ips_tee_at(int from, int to, size_t n, unsigned flags, uint64_t site);
ssize_t ips_vmsplice_at(int fd, const struct iovec *iov, size_t count,
                        unsigned flags, uint64_t site);
int ips_sendmmsg_at(int fd, struct mmsghdr *v, unsigned n, int flags,
                    uint64_t site);
int ips_recvmmsg_at(int fd, struct mmsghdr *v, unsigned n, int flags,
                    struct timespec *timeout, uint64_t site);

/* The next functions are in preload/io/fd.c. */
/* Records a send with MSG_FASTOPEN, made at `call`, that returned `r`. Such a
 * send also connects the socket. */
void ips_record_fastopen_send(int fd, ssize_t r, const struct sockaddr *to,
                              socklen_t len, struct ips_moment call,
                              uint64_t site);
int ips_connect_at(int fd, const struct sockaddr *to, socklen_t len,
                   uint64_t site);
int ips_accept_at(int fd, struct sockaddr *from, socklen_t *len, uint64_t site);
int ips_accept4_at(int fd, struct sockaddr *from, socklen_t *len, int flags,
                   uint64_t site);
int ips_fcntl_at(int fd, int command, void *arg, uint64_t site);
int ips_close_at(int fd, uint64_t site);
void ips_store_linger_option_used(void);
int ips_close_range_at(unsigned first, unsigned last, int flags, uint64_t site);
int ips_dup3_at(int fd, int to, int flags, uint64_t site);
int ips_shutdown_at(int fd, int how, uint64_t site);
int ips_call_listen_and_record(int fd, int backlog, uint64_t site);
int ips_dup2_at(int fd, int to, uint64_t site);

/* The next function is in preload/io/open.c. */
int ips_openat_at(int at, const char *path, int flags, mode_t mode,
                  uint64_t site);

/* The next functions are in preload/process/child.c. */
pid_t ips_wait4_at(pid_t pid, int *status, int options, struct rusage *ru,
                   uint64_t site);
long ips_waitid_with_usage_at(const long args[6], uint64_t site);
int ips_waitid_at(idtype_t type, id_t id, siginfo_t *out, int options,
                  uint64_t site);

/* The next functions are in preload/io/file.c. */
ssize_t ips_pread_at(int fd, void *buf, size_t n, off_t at, uint64_t site);
ssize_t ips_pwrite_at(int fd, const void *buf, size_t n, off_t at,
                      uint64_t site);
ssize_t ips_preadv_at(int fd, const struct iovec *iov, int count, off_t at,
                      uint64_t site);
ssize_t ips_pwritev_at(int fd, const struct iovec *iov, int count, off_t at,
                       uint64_t site);
ssize_t ips_copy_file_range_at(int from, off64_t *from_at, int to,
                               off64_t *to_at, size_t n, unsigned flags,
                               uint64_t site);
int ips_fsync_at(int fd, uint64_t site);
int ips_fdatasync_at(int fd, uint64_t site);
int ips_syncfs_at(int fd, uint64_t site);
int ips_sync_file_range_at(int fd, off64_t from, off64_t n, unsigned flags,
                           uint64_t site);
int ips_msync_at(void *at, size_t n, int flags, uint64_t site);
int ips_flock_at(int fd, int operation, uint64_t site);

/* The next functions are in preload/sync/ipc.c. If `ts` or `until` is NULL, the
 * call waits without a time limit. */
int ips_semtimedop_at(int id, struct sembuf *ops, size_t n,
                      const struct timespec *ts, uint64_t site);
int ips_msgsnd_at(int id, const void *message, size_t bytes, int flags,
                  uint64_t site);
ssize_t ips_msgrcv_at(int id, void *message, size_t bytes, long type, int flags,
                      uint64_t site);
int ips_mq_send_at(mqd_t q, const char *text, size_t bytes, unsigned priority,
                   const struct timespec *until, uint64_t site);
ssize_t ips_mq_receive_at(mqd_t q, char *text, size_t bytes, unsigned *priority,
                          const struct timespec *until, uint64_t site);

/* preload/io/path.c. Notes the result `r` of a call that needs the file at
 * `path` (relative to directory `at`). -1 with errno ENOENT: the file does not
 * exist. Returns `r`. */
int ips_record_or_count_existence_test(int at, const char *path, int r,
                                       uint64_t site);
/* Records an open with O_CREAT of `path`, made at `call`, that returned `fd`.
 * If it may have created the file, writes a RELEASE of kind WATCH and a BLOCK
 * with op MADE. If it failed with EEXIST, counts a failed try: the file belongs
 * to another thread. */
void ips_record_open_to_create(int at, const char *path, int fd, int flags,
                               struct ips_moment call, uint64_t site);

#endif
