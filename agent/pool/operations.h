/*
 * Codes in records: what a call did (`op` of SEND, RECV, RECVCALL and BLOCK),
 * and on what kind of resource (`a` of ACQUIRE and RELEASE). The numbers are
 * part of the pool's format.
 */
#ifndef IPS_AGENT_POOL_OPERATIONS_H
#define IPS_AGENT_POOL_OPERATIONS_H

/* Operations of SEND, RECV, RECVCALL, BLOCK (`op`). */
#define IPS_OPS(X)                                                             \
    X(DATA, 0, "read/write/send/recv")                                         \
    X(CONNECT, 1, "connect")                                                   \
    X(ACCEPT, 2, "accept")                                                     \
    X(STDIO, 3, "C library's own read or write")                               \
    X(SENDFILE, 4, "sendfile, splice, tee, copy_file_range")                   \
    X(MADE, 14, "made a file")                                                 \
    X(FOUND, 15, "file found after failed tries")                              \
    X(POLL, 16, "poll")                                                        \
    X(SELECT, 17, "select")                                                    \
    X(EPOLL, 18, "epoll_wait")                                                 \
    X(SLEEP, 19, "sleep")                                                      \
    X(SIGWAIT, 20, "signal wait")                                              \
    X(EVENTFD, 21, "eventfd")                                                  \
    X(TIMERFD, 22, "timerfd")                                                  \
    X(SIGNALFD, 23, "signalfd")                                                \
    X(RESOLVE, 24, "name resolution")                                          \
    X(SYSLOG, 25, "syslog")                                                    \
    X(DISK, 26, "file")                                                        \
    X(TERMINAL, 27, "terminal")                                                \
    X(SPIN, 28, "fruitless attempts")                                          \
    X(CHILD, 29, "wait for a child, in vain")                                  \
    X(RETRY, 30, "failed tries with naps between")                             \
    X(OTHER, 31, "other")
enum ips_op {
#define X(name, number, text) IPS_OP_##name = (number),
    IPS_OPS(X)
#undef X
};

/* Kinds of resources that threads wait for and release. */
#define IPS_SYNCS(X)                                                           \
    X(MUTEX, 1, "mutex")                                                       \
    X(RDLOCK, 2, "rwlock, to read")                                            \
    X(WRLOCK, 3, "rwlock, to write")                                           \
    X(COND, 4, "condition")                                                    \
    X(BARRIER, 5, "barrier")                                                   \
    X(SEMAPHORE, 6, "semaphore")                                               \
    X(SPIN, 7, "spin lock")                                                    \
    X(ONCE, 8, "once")                                                         \
    X(EVENTFD, 9, "eventfd")                                                   \
    X(FLOCK, 10, "flock")                                                      \
    X(RECORD_LOCK, 11, "fcntl or lockf record lock")                           \
    X(FUTEX, 12, "futex by syscall()")                                         \
    X(FIFO, 13, "FIFO's other end")                                            \
    X(LISTEN, 14, "listening socket")                                          \
    X(WATCH, 15, "name in a watched directory")                                \
    X(TERMINAL, 16, "pseudo terminal")
enum ips_sync {
#define X(name, number, text) IPS_SYNC_##name = (number),
    IPS_SYNCS(X)
#undef X
};

#endif
