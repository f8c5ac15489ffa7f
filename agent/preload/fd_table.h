/*
 * The descriptor table: what this process knows about its descriptors. It has
 * one word per descriptor, which every read and write reads with one load.
 *
 * Invariants:
 * - The table is process-wide and lock-free. A word changes only by
 *   compare-and-swap against the word that the caller saw, and each
 *   ips_fd_clear increments the generation in the word. So if a descriptor is
 *   closed and reused while the kernel is asked about it, the outdated answer
 *   is never stored.
 * - The kernel empties the table in a fork child (MADV_WIPEONFORK), because
 *   channel ids are valid in one process only.
 * - A vfork child never uses the table: it has descriptors of its own, but
 *   shares its parent's memory.
 *
 * Async-signal-safe; errno stays as it was.
 */
#ifndef IPS_AGENT_PRELOAD_FD_TABLE_H
#define IPS_AGENT_PRELOAD_FD_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/record/stream.h"

enum ips_fd_class {
    IPS_FD_UNKNOWN = 0, /* not identified yet */
    IPS_FD_NONE,        /* a directory, /dev/null: nothing to record */
    IPS_FD_STREAM,      /* pipe, TCP, Unix stream and seqpacket */
    IPS_FD_DGRAM,       /* UDP, Unix datagram */
    IPS_FD_LISTEN,
    IPS_FD_EVENTFD,
    IPS_FD_TIMERFD,
    IPS_FD_SIGNALFD,
    IPS_FD_FILE, /* regular file, block device */
    IPS_FD_TERMINAL,
    IPS_FD_WATCH, /* inotify, fanotify, userfaultfd: reads wait for events */
    IPS_FD_PIDFD,
    IPS_FD_EPOLL,
    IPS_FD_OPENED, /* opened by path, not a pipe: examined when first used */
};
/* in the word of an inotify descriptor, in place of the channel id */
#define IPS_WATCH_INOTIFY 1u

/* Layout of a table word, from the lowest bit: channel id (32 bits), class (8),
 * flags (4), generation (20). In place of the channel id, an eventfd has its
 * number in the kernel plus 1 (0: unknown), a pidfd its process id, a signalfd
 * its signals, a message queue its number (pool/ready.h), and a pseudo terminal
 * IPS_FD_PTY (0: another kind of terminal). */
/* `master`: 1 for the side that controls the pseudo terminal (/dev/ptmx), 0 for
 * the terminal itself. */
#define IPS_FD_PTY(number, master) (((uint32_t)(number) + 1) << 1 | (master))
/* TCP socket: the kernel answers TCP_INFO */
#define IPS_FD_TCP (1ull << 40)
#define IPS_FD_CONNECTED (1ull << 41) /* the socket's connect is recorded */
/* This process took a file lock through this descriptor: by flock, or by fcntl
 * or lockf. */
#define IPS_FD_FLOCKED (1ull << 42)
#define IPS_FD_RECORD_LOCKED (1ull << 43)
#define IPS_FD_LOCKED (IPS_FD_FLOCKED | IPS_FD_RECORD_LOCKED)
#define IPS_FD_FLAGS (IPS_FD_TCP | IPS_FD_CONNECTED | IPS_FD_LOCKED)
#define IPS_FD_GENERATION (1ull << 44)

#define IPS_FD_NOT_A_CHANNEL ((uint64_t)IPS_FD_NONE << 32)

#define IPS_FD_CHUNK 512u
#define IPS_FD_CHUNKS 4096u
#define IPS_FD_MAX (IPS_FD_CHUNK * IPS_FD_CHUNKS)

/* The chunks of the table, each mapped at its first use. The chunk of the
 * descriptors below IPS_FD_CHUNK is in ips_core.fds instead, in a cache line
 * that each call reads anyway. */
extern _Atomic(ips_fd_word *) ips_fd_chunks[IPS_FD_CHUNKS]
    __attribute__((visibility("hidden")));
static inline ips_fd_word *ips_fd_chunk(unsigned fd)
{
    if (__builtin_expect(fd < IPS_FD_CHUNK, 1))
        return atomic_load_explicit(&ips_core.fds, memory_order_acquire);
    return atomic_load_explicit(&ips_fd_chunks[fd / IPS_FD_CHUNK],
                                memory_order_acquire);
}

static inline enum ips_fd_class ips_fd_class(uint64_t word)
{
    return (enum ips_fd_class)(word >> 32 & 0xff);
}
/* Returns the channel id in a table word; 0: not a channel. */
static inline uint32_t ips_fd_channel_id(uint64_t word)
{
    return ips_fd_class(word) <= IPS_FD_LISTEN ? (uint32_t)word : 0;
}

/* Returns the word of `fd`. Its class is UNKNOWN if nothing was stored, and
 * NONE if the table cannot hold `fd` (negative, or at least IPS_FD_MAX). */
static inline uint64_t ips_fd_get(int fd)
{
    unsigned at = (unsigned)fd;
    ips_fd_word *chunk =
        atomic_load_explicit(&ips_core.fds, memory_order_acquire);
    if (__builtin_expect(at >= IPS_FD_CHUNK, 0)) {
        if (at >= IPS_FD_MAX)
            return IPS_FD_NOT_A_CHANNEL;
        chunk = ips_fd_chunk(at);
        at %= IPS_FD_CHUNK;
    }
    if (__builtin_expect(!chunk, 0))
        return 0;
    return atomic_load_explicit(&chunk[at], memory_order_acquire);
}

/* Whether the descriptor of a table word was not identified yet, so that the
 * kernel must be asked. */
static inline bool ips_fd_must_be_identified(uint64_t word)
{
    return ips_fd_class(word) == IPS_FD_UNKNOWN ||
           ips_fd_class(word) == IPS_FD_OPENED;
}

/* Whether the table's memory for the word of `fd` is mapped already. */
static inline bool ips_fd_has_chunk(int fd)
{
    return (unsigned)fd < IPS_FD_MAX && ips_fd_chunk((unsigned)fd);
}

/* Stores the given facts about `fd`, if its word is still `seen`. Returns the
 * word to use: the stored one; the one that another thread stored first; or
 * IPS_FD_NOT_A_CHANNEL if none could be stored. */
uint64_t ips_fd_store_if_unchanged(int fd, uint64_t seen,
                                   enum ips_fd_class klass, uint32_t chan,
                                   uint64_t flags);

/* Removes all facts about `fd` and increments its generation. To be called
 * after the descriptor was closed, replaced or newly created. */
void ips_fd_clear(int fd);

/* Returns the greatest descriptor ever stored, plus one. A fork child inherits
 * this value. */
int ips_fd_upper_bound(void);

/* Returns a new channel id, counted from 1; 0: no memory. */
uint32_t ips_fd_allocate_channel_id(void);

#endif
