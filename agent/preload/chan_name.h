/*
 * Identifies the ends of channels: at the first use of a descriptor in this
 * process, asks the kernel what it is, and writes the answer as one CHAN
 * record.
 *
 * Makes only raw system calls. At most one descriptor is open at a time: a
 * netlink socket to find the peer of a Unix socket, or a file of /proc for an
 * eventfd or pidfd. It is close-on-exec, and closed before the return.
 * Async-signal-safe; errno stays as it was. Cost: 1 system call for a file, 3
 * for a pipe, about 12 for a socket, once per descriptor.
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

/* Facts about a channel that the caller knows and the kernel may not report. */
struct ips_chan_hint {
    /* bits of enum ips_chan_flags to set in the CHAN record */
    unsigned flags;
    /* the address that was passed to connect; NULL: none */
    const struct sockaddr *peer;
    socklen_t peer_len;
    uint64_t peer_ino; /* socketpair: inode of the other end; 0: unknown */
    bool sent_too; /* a send (MSG_FASTOPEN) connected the socket; the bytes of
                      that send are not recorded yet */
};

/* Asks the kernel what `fd` is, stores the answer in the descriptor table
 * (fd_table.h), and returns the table's word for `fd`. For a channel, also
 * writes a CHAN record. `seen` is the word that the caller read from the table.
 * A stream socket that has no peer and does not listen stays unknown: the
 * returned word has class NONE and is not stored. */
uint64_t ips_chan_identify_and_record(int fd, uint64_t seen,
                                      const struct ips_chan_hint *hint);

/* The name of a listening socket in records of kind IPS_SYNC_LISTEN: port and
 * network namespace, or the hash of its Unix socket name.
 * ips_listen_name_of_address makes it from the address `name`. False: `name` is
 * neither an Internet nor a Unix address. */
struct ips_listen_name_of_socket {
    uint64_t dev, ino, object;
};
bool ips_listen_name_of_address(int fd, const struct sockaddr *name,
                                socklen_t len,
                                struct ips_listen_name_of_socket *out);
/* Makes the name from the address that the socket is bound to or, if `peer`,
 * from the address of its peer. False: the socket has no such address. */
bool ips_listen_name_of_socket(int fd, bool peer,
                               struct ips_listen_name_of_socket *out);

/* Stores in *value the number after `key` (for example "Pid:") in
 * /proc/self/fdinfo/FD. False: not found. */
bool ips_read_fdinfo_number(int fd, const char *key, uint64_t *value);

/* Returns the table's word for `fd`. If this is the first use of the
 * descriptor, asks the kernel first what it is (ips_chan_identify_and_record).
 */
static inline uint64_t ips_fd_get_or_identify(int fd)
{
    uint64_t word = ips_fd_get(fd);
    return ips_fd_must_be_identified(word)
               ? ips_chan_identify_and_record(fd, word, NULL)
               : word;
}

/* Like ips_fd_get_or_identify, for callers that need channels only: a file
 * opened by path (class OPENED) is not a channel, so the kernel is not asked.
 */
static inline uint64_t ips_fd_get_or_identify_unless_opened_by_path(int fd)
{
    uint64_t word = ips_fd_get(fd);
    return ips_fd_class(word) == IPS_FD_UNKNOWN
               ? ips_chan_identify_and_record(fd, word, NULL)
               : word;
}

/* Writes a CLOSE record for the channel of `word`. `stamp` is the time just
 * before the close. With `how` IPS_CLOSE_FD, the record of a TCP socket has the
 * total numbers of bytes sent and received. */
void ips_chan_record_close(int fd, uint64_t word, enum ips_close_how how,
                           uint64_t stamp, uint64_t site);

/* Records that `fd` is about to be closed: identifies it if needed, writes a
 * CLOSE record if it is a channel, records the release of the file locks taken
 * through it, and removes it from the table. To be called while the descriptor
 * is still open.
 */
void ips_chan_record_close_and_clear(int fd, uint64_t site);

/* preload/io/file.c: records the release of the file locks that this process
 * took through `fd`, which is about to be closed. */
void ips_record_file_lock_releases_of_fd(int fd);

/* Writes a DGRAM record for the `len` bytes at the start of `iov`: one datagram
 * (`segment` 0), or several of `segment` bytes each, of which the last may be
 * shorter. `name` is the peer's address; NULL: the socket is connected, so the
 * kernel knows it. */
void ips_record_dgram(int fd, uint32_t chan, uint64_t stamp,
                      const struct iovec *iov, size_t iovcnt, uint64_t len,
                      uint64_t segment, const struct sockaddr *name,
                      socklen_t name_len);

/* preload/io/segments.c: to be called when a UDP socket is identified. Notes
 * whether one call on it may move several datagrams (UDP_SEGMENT, UDP_GRO). */
void ips_note_if_fd_has_udp_segment_options(int fd);

#endif
