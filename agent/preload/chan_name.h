/*
 * Names the ends of channels: asks the kernel what a descriptor is at its first
 * use in this process, and writes the answer as one CHAN record. Makes only raw
 * system calls and opens at most one descriptor at a time: a netlink socket to
 * find the peer of a Unix socket, or a file of /proc for an eventfd or pidfd;
 * it is close-on-exec, and closed before the return. Async-signal-safe; errno
 * stays as it was. Cost: 1 system call for a file, 3 for a pipe, about 12 for a
 * socket, once per descriptor.
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

/* Facts that the caller knows and the kernel may not report. */
struct ips_chan_hint {
    /* bits of enum ips_chan_flags to set in CHAN */
    unsigned flags;
    /* address that was given to connect; NULL: none */
    const struct sockaddr *peer;
    socklen_t peer_len;
    uint64_t peer_ino; /* socketpair: inode of the other end; 0: unknown */
    bool sent_too; /* a send (MSG_FASTOPEN) connected the socket; the bytes of
                      that send are not recorded yet */
};

/* Asks the kernel what `fd` is, stores the answer in the table and returns the
 * word of `fd`; for a channel also writes CHAN. `seen` is the table's word of
 * `fd` that the caller read. A stream socket that has no peer and does not
 * listen stays unknown: the word returned has class NONE and is not stored. */
uint64_t ips_chan_identify(int fd, uint64_t seen,
                           const struct ips_chan_hint *hint);

/* The name of a listening socket in records of kind IPS_SYNC_LISTEN: port and
 * network namespace, or the hash of the Unix name. ips_listen_name_of makes it
 * from the address `name`; false: `name` is no address of either kind. */
struct ips_listen_name {
    uint64_t dev, ino, object;
};
bool ips_listen_name_of(int fd, const struct sockaddr *name, socklen_t len,
                        struct ips_listen_name *out);
/* Makes the name from the address that the socket is bound to (`peer` false) or
 * from its peer's. False: the socket has no such address. */
bool ips_listen_name(int fd, bool peer, struct ips_listen_name *out);

/* Stores in *value the number after `key` (for example "Pid:") in
 * /proc/self/fdinfo/FD. False: not found. */
bool ips_fdinfo(int fd, const char *key, uint64_t *value);

/* Returns the table's word of `fd`. A descriptor that was not seen before is
 * named first, which writes its CHAN. */
static inline uint64_t ips_fd_identified_word(int fd)
{
    uint64_t word = ips_fd_get(fd);
    return ips_fd_must_be_identified(word) ? ips_chan_identify(fd, word, NULL)
                                           : word;
}

/* Like ips_fd_identified_word, for callers that need channels only: a file
 * opened by path (class OPENED) is no channel, so it is not examined. */
static inline uint64_t ips_fd_identified_word_of_channel(int fd)
{
    uint64_t word = ips_fd_get(fd);
    return ips_fd_class(word) == IPS_FD_UNKNOWN
               ? ips_chan_identify(fd, word, NULL)
               : word;
}

/* Writes CLOSE for the channel of `word`. `stamp` is the moment just before the
 * close. Only a CLOSE with `how` IPS_CLOSE_FD carries the TCP totals. */
void ips_chan_record_close(int fd, uint64_t word, enum ips_close_how how,
                           uint64_t stamp, uint64_t site);

/* Names `fd` if needed, writes its CLOSE if it is a channel, and removes it
 * from the table. Call this while the descriptor is still open. */
void ips_chan_record_close_and_forget(int fd, uint64_t site);

/* preload/io/file.c: records the release of the file locks that this process
 * took through `fd`, which is about to be closed. */
void ips_record_file_lock_release(int fd);

/* Writes DGRAM for the `len` bytes at the start of `iov`: one datagram, or
 * several of `segment` bytes each, of which the last may be shorter. `name` is
 * the peer's address; NULL: the socket is connected. */
void ips_record_dgram(int fd, uint32_t chan, uint64_t stamp,
                      const struct iovec *iov, size_t iovcnt, uint64_t len,
                      uint64_t segment, const struct sockaddr *name,
                      socklen_t name_len);

/* preload/io/segments.c: notes, when a UDP socket is named, whether one call on
 * it may move several datagrams (UDP_SEGMENT, UDP_GRO). */
void ips_note_segment_options(int fd);

#endif
