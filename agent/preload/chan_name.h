/*
 * Names for the ends of channels: what the kernel says of a descriptor at its
 * first use in this process, written as one CHAN record. Only raw system calls;
 * at most one transient, close-on-exec descriptor (netlink, Unix stream
 * sockets). Async-signal-safe, errno untouched. Cost: 1 system call for a file,
 * 3 for a pipe, about 12 for a socket; once per descriptor.
 */
#ifndef IPS_AGENT_PRELOAD_CHAN_NAME_H
#define IPS_AGENT_PRELOAD_CHAN_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "agent/pool/format.h"
#include "agent/preload/fd_table.h"

/* What the caller knows better than the kernel will say. */
struct ips_chan_hint {
    unsigned flags;              /* enum ips_chan_flags to set */
    const struct sockaddr *peer; /* connect's argument, or NULL */
    socklen_t peer_len;
    uint64_t peer_ino; /* socketpair: the other end, 0 unknown */
    bool
        sent_too; /* connected by a send: what that moved is not recorded yet */
};

/* Looks at `fd` and stores what it is; CHAN is written for a channel. `seen`
 * is the word of the table it was looked up by. A socket without a peer that
 * does not listen stays unknown (class NONE is returned, not stored). */
uint64_t ips_chan_name(int fd, uint64_t seen, const struct ips_chan_hint *hint);

/* Where a socket of that address listens, as LISTEN of the records names it: by
 * its port and network namespace, or by the hash of its Unix name. False: of
 * no such address. */
struct ips_listen_name {
    uint64_t dev, ino, object;
};
bool ips_listen_name_of(int fd, const struct sockaddr *name, socklen_t len,
                        struct ips_listen_name *out);
/* The same of the socket's own name (`peer` false) or its peer's. */
bool ips_listen_name(int fd, bool peer, struct ips_listen_name *out);

/* The number after `key` ("Pid:") in /proc/self/fdinfo; false where there is
 * none. Three system calls. */
bool ips_fdinfo(int fd, const char *key, uint64_t *value);

/* The word of `fd`, named first where it is unknown. */
static inline uint64_t ips_chan_of(int fd)
{
    uint64_t word = ips_fd_get(fd);
    return ips_fd_is_new(word) ? ips_chan_name(fd, word, NULL) : word;
}

/* The same where only a channel matters: what was opened by path is none. */
static inline uint64_t ips_chan_if_any(int fd)
{
    uint64_t word = ips_fd_get(fd);
    return ips_fd_class(word) == IPS_FD_UNKNOWN ? ips_chan_name(fd, word, NULL)
                                                : word;
}

/* Writes CLOSE for the channel of `word`, with the stamp of the moment just
 * before it happens or happened. The TCP totals go with a close only. */
void ips_chan_closed(int fd, uint64_t word, enum ips_close_how how,
                     uint64_t stamp, uint64_t site);

/* Names `fd` if needed, writes its CLOSE if it is a channel, forgets it: to be
 * called before the descriptor goes. */
void ips_chan_drop(int fd, uint64_t site);

/* preload/io/file.c: a descriptor by which a lock was taken is about to go. */
void ips_lock_dropped(int fd);

/* Writes DGRAM for `len` bytes whose payload begins in `iov`: one datagram, or
 * several of `segment` bytes each, the last one of what is left. `name` is the
 * peer, NULL = the connected one. */
void ips_chan_dgram(int fd, uint32_t chan, uint64_t stamp,
                    const struct iovec *iov, size_t iovcnt, uint64_t len,
                    uint64_t segment, const struct sockaddr *name,
                    socklen_t name_len);

/* preload/io/segments.c: sockets whose calls may move several datagrams. What
 * is known of a socket when it is named. */
void ips_segments_named(int fd);

#endif
