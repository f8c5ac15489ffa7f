/*
 * The data that the passes of a build hand to each other (build/internal.h):
 * element types of flat arrays, indexed by uint32_t; IPS_NONE: no element.
 * Times are ns of CLOCK_MONOTONIC_RAW, CPU times ns of one thread.
 */
#ifndef IPS_SLAVE_BUILD_TYPES_H
#define IPS_SLAVE_BUILD_TYPES_H

#include <string.h>

#include "common/types.h"
#include "slave/build/build.h"
#include "slave/build/channel.h"

/* Declares an array with its number of elements and its capacity. */
#define B_ARRAY(type)                                                          \
    struct {                                                                   \
        type *v;                                                               \
        uint32_t n, capacity;                                                  \
    }

/* Receives from one channel that failed with EAGAIN. */
struct b_tries {
    uint32_t chan;   /* channel id; 0: accepts, on any socket */
    uint64_t t, cpu; /* time and CPU time at the call of the first one */
};
#define B_TRIES_KEPT 4u

/* Naps since the stream's last record of another kind
 * (b_update_nap_run_with_record()). A nap is a short sleep, or a wait that
 * reached its time limit, between two tests of a condition. */
struct b_naps {
    uint32_t count, odd; /* number of naps; how many of them are odd: of another
                            length, or after much CPU time */
    uint32_t run; /* index of these naps in nap_runs; valid once there are
                     NAPS_MIN of them (build/retry.c) */
    uint64_t site, from;  /* call site and start of the first nap */
    uint64_t object;      /* hash of what was waited for; 0: sleeps */
    uint64_t cpu_ret, ns; /* CPU time at the return of the last nap; length of
                             the last nap that was not odd in length */
};

struct b_stream {
    const struct ips_stream_in *in;
    struct ips_clock clock;
    /* image_stamp and stream_stamp of the stream's header, converted to ns */
    uint64_t image_ns, stream_ns;
    uint32_t image, chain;
    uint32_t next; /* the stream that continues the chain after this one, or
                      IPS_NONE */
    bool task, empty;
    uint64_t first_ns, last_ns; /* earliest and latest time of the stream's
                                   records; without records: stream_ns */
    uint64_t first_cpu, last_cpu;
    uint64_t events, node_capacity;
    uint64_t one_node; /* number of sends that need only one node: they did not
                          sleep, and no earlier call of the stream returned
                          after them */
    uint64_t cost_ret_ns; /* for b_check_cold_caches_and_note_call(): when the
                             stream's last recorded call returned */
    uint64_t read_cpu_ns; /* for b_add_record_cost(): CPU time at the agent's
                             last reading of the CPU clock */
    /* CPU time used in calls that blocked since the reading at read_cpu_ns;
     * below: the number of these calls */
    uint64_t blocks_unread_ns;
    uint32_t blocks_unread;
    /* fields of the START record */
    uint8_t start_kind; /* kind of the first START record; 0: no START */
    uint32_t ppid;
    uint64_t start_ns, start_cpu, fork_seq, parent_image;
    bool exec_last; /* the stream ends with an EXEC that did not fail */
    uint64_t exec_ns;
    const uint8_t *exec; /* path of the stream's last EXEC, or NULL */
    bool named_exec;     /* the program that this EXEC started is counted as
                            untraced already */
    uint8_t end_kind;    /* kind of the stream's last END record; 0: no END */
    uint64_t end_ns, end_status;
    const uint8_t *name; /* text of the stream's last NAME, or NULL */
    uint32_t name_len;
    /* This stream's first index in forks, joins, kills, takings, syncs,
     * retries, mades and nap_runs, which are in stream order. */
    uint32_t first_fork, first_join, first_kill, first_taking, first_sync;
    uint32_t first_retry, first_made, first_nap_run;
    /* `tries`: receives that failed since the last call of another kind.
     * `napped`: failed receives that a nap followed; a receive that succeeds
     * removes the entry of its channel. */
    struct b_tries tries[B_TRIES_KEPT], napped[B_TRIES_KEPT];
    uint32_t try_count, napped_count;
    struct b_naps naps;
    /* slept_ns: total time of sleeps and of polls that timed out; nap_ret_ns:
     * when the last of these returned */
    uint64_t slept_ns, nap_ret_ns;
    bool paged; /* a PAGEFAULT came after the last reading of the run delay */
    uint32_t first_delay, delay_count; /* the stream's readings of the run
                                          delay: a range in delays */
    /* index in b->delays, and number, of the readings of the run delay that the
     * last b_scan_new_records() added */
    uint32_t first_fresh, fresh;
    struct ips_rec_guessed guessed; /* the last GUESSED record */
};

struct b_image {
    uint32_t first_stream, stream_count;
    uint32_t task_count; /* number of TASK streams; they are the last streams of
                            the image */
    uint32_t main;       /* stream of the main thread or IPS_NONE */
    uint32_t proc;
    uint32_t first_chan, chan_count;
    bool continues; /* an exec of the process that had the previous image
                       started it */
};

struct b_proc { /* data of the process that only the build needs; same index as
                   its struct ips_proc */
    uint32_t first_image, image_count;
    /* chain of the thread that survives execs; or IPS_NONE */
    uint32_t main_chain;
    uint32_t end_chain; /* chain whose END is the process's end */
    uint32_t fork;      /* the FORK that made the process, or IPS_NONE */
    /* the JOIN that waited for the end of the process, or IPS_NONE */
    uint32_t join;
    uint64_t last_ns;    /* time of the last record of the process */
    uint32_t order_next; /* where find_open_popen_fork() starts to search: index
                            in the forks sorted by process */
    bool spawned; /* the child of a vfork, spawn, popen or system: its first
                     START has kind IMAGE */
    uint32_t first_stop, stop_count; /* range in job_stops[] */
    /* the signal that ended the process, or 0; its KILL, index in kills[], or
     * IPS_NONE; whether the process ended as soon as that KILL was sent
     * (build/process_ends.c) */
    uint32_t death_signal, killer;
    bool died_at_kill;
};

struct b_chain { /* data that only the build needs of the chain g.chains[] with
                    the same index */
    uint32_t first_stream, last_stream;
    uint32_t fork; /* the FORK that is the predecessor of the chain's START, or
                      IPS_NONE */
    uint64_t base; /* the thread's CPU time at START (its coordinate) */
    uint64_t cpu_known; /* the thread's CPU time at the last reading, ns */
    uint32_t image_aux; /* spawned child: node at which its program started;
                           else IPS_NO_NODE */
    /* coordinate of the chain's END less the CPU time recorded there
     * (cpu_at) */
    int64_t end_shift;
    uint64_t unknown_ns; /* sum of the time off the CPU outside of calls */
    bool read_delays;    /* the kernel's run delay of the thread was read, so
                            build.off is in use */
    /* pass `match` must match the receives of this chain, because some of them
     * cannot be matched early (build/plain/early.c) */
    bool late;
};

struct b_fork {
    uint64_t t, t_ret, cpu, cpu_ret, seq;
    uint64_t done_ns; /* popen, system: return of the JOIN for this fork; else
                         UINT64_MAX */
    uint32_t pid, stream;
    uint32_t child;      /* chain of the child, or IPS_NONE */
    uint32_t child_proc; /* the child process; IPS_NONE: not known, or the fork
                            made a thread */
    uint32_t node;
    uint8_t kind;
    bool failed;
    bool named; /* the child is counted as untraced already */
};

struct b_join {
    uint64_t t_ret, seq, child_cpu;
    uint32_t pid, status, stream;
    uint32_t child;      /* chain whose END the join waited for, or IPS_NONE */
    uint32_t child_proc; /* process that the join waited for, or IPS_NONE */
    /* when the stream's last sleep before the join returned */
    uint64_t nap_ret_ns;
    uint32_t node;
    uint8_t kind;
    bool ended;      /* the child has ended; false: it was only stopped */
    bool unrecorded; /* the FORK is the only record of the joined thread */
};

struct b_sync { /* an ACQUIRE or RELEASE record, long or short */
    uint64_t t, t_ret;
    uint64_t cpu; /* CPU time when the lock was obtained or released */
    uint64_t dev, ino, object;
    /* RECORD_LOCK: number of locked bytes from `object` on; UINT64_MAX: all
     * bytes from there on; 0: not known (an old record) */
    uint64_t length;
    uint32_t stream;
    uint32_t image; /* image whose memory has the object; IPS_NONE: the object
                       is in memory that processes share, or a file */
    uint32_t cause; /* ACQUIRE: the RELEASE that ended the wait, index in syncs,
                       or IPS_NONE */
    /* BARRIER: the wait of the thread that arrived just before, in the same use
     * of the barrier, index in syncs; or IPS_NONE */
    uint32_t arrived_before;
    uint32_t dead_owner; /* ACQUIRE of a robust mutex whose owner died: the
                            owner's chain; else IPS_NONE */
    uint32_t node;
    uint32_t next; /* the first node that the thread made after this record */
    int32_t value, left; /* `left`, of a RELEASE: number of waiters that it may
                            still wake */
    uint32_t err;
    uint8_t kind; /* enum ips_sync */
    bool release;
    bool used;     /* RELEASE: this release ended a thread's wait */
    bool ready;    /* ACQUIRE that did not wait: the eventfd had a value, or the
                      lock was free */
    bool is_short; /* a short record, which gets a node only if it ended a
                      thread's wait */
    bool polled;   /* ACQUIRE made from a poll that waited for an eventfd or a
                      message queue */
    bool notified; /* ACQUIRE made from a signal that a message had come
                      (mq_notify) */
};
/* Returns the value for b_sync.length from the ACQUIRE or RELEASE record at
 * `p`, which has `len` bytes. */
static inline uint64_t b_locked_length(const uint8_t *p, uint32_t len)
{
    struct ips_rec_sync r;
    uint64_t length;
    memcpy(&r, p, sizeof(r));
    if (r.h.a != IPS_SYNC_RECORD_LOCK || len < sizeof(r) + IPS_REC_LENGTH_BYTES)
        return 0;
    memcpy(&length, p + sizeof(r), sizeof(length));
    return length ? length : UINT64_MAX;
}
/* Whether objects of this kind are not locks but events: one thread causes the
 * event, and another waits for it. */
static inline bool b_is_event_object(uint32_t kind)
{
    return kind == IPS_SYNC_EVENTFD || kind == IPS_SYNC_WATCH ||
           kind == IPS_SYNC_TERMINAL;
}
/* Whether a TERMINAL record with this `ino` is about the input that the
 * controlling side writes. A person may type that input, or a program outside
 * of the run may write it. */
static inline bool b_is_terminal_input(uint64_t ino)
{
    return ino & 1;
}
/* Values of `value` in an ACQUIRE (agent/preload/sync.h): the lock was obtained
 * after repeated tries; the lock was free. */
#define B_SYNC_TRIED 2
#define B_SYNC_WAS_FREE 3
/* `value` of a RELEASE of kind WATCH (a directory changed): a file name became
 * free, because the file was removed or renamed. */
#define B_NAME_FREED 2
/* Whether the ACQUIRE is a connect, or a test of a file name, that succeeded
 * after failed tries. It is no wait itself: a BLOCK with op RETRY recorded the
 * tries. */
static inline bool b_is_connect_or_file_test_after_tries(uint32_t kind,
                                                         int32_t value)
{
    return kind == IPS_SYNC_LISTEN ||
           (kind == IPS_SYNC_WATCH && value == B_SYNC_TRIED);
}
/* Whether programs often make releases of this kind while no thread waits for
 * one. */
static inline bool b_is_release_mostly_without_waiter(uint32_t kind)
{
    return kind == IPS_SYNC_WATCH || kind == IPS_SYNC_TERMINAL;
}
/* Whether a wait of this kind often has no RELEASE, although no record is
 * missing. */
static inline bool b_may_wait_lack_release(uint32_t kind)
{
    return kind == IPS_SYNC_LISTEN || kind == IPS_SYNC_TERMINAL;
}
/* A series of tries of one operation, with naps between, up to the try that
 * succeeded; in stream order. The event that let the last try succeed is the
 * cause of that try's own record (`sync`, `join`, `chan` or FOUND). */
struct b_retry {
    uint64_t from, to; /* call of the first try, call of the successful one */
    uint32_t stream;
    /* the successful try: its ACQUIRE, index in syncs; its JOIN, index in
     * joins; the channel id of its RECV; else IPS_NONE */
    uint32_t sync, join, chan;
    bool whole;   /* the wait of the ACQUIRE covers all tries */
    bool of_file; /* the tries were for the file (dev, ino); a BLOCK with op
                     FOUND recorded them */
    uint32_t dev;
    uint64_t ino;
    uint32_t made; /* the MADE that created the file, index of mades; or
                      IPS_NONE */
    bool asked; /* the thread sent something on the channel between the tries */
    uint32_t node; /* node of the FOUND record */
};
/* A sequence of naps between which the thread tested a condition; no record
 * shows the condition. In stream order. */
struct b_nap_run {
    uint64_t from, to; /* call of the first nap; return of the last */
    uint32_t stream;
    bool known;   /* `shared` and `in_vain` are valid */
    bool shared;  /* another thread or process can write to the napping thread's
                     memory */
    bool in_vain; /* the thread did nothing after the naps, and no thread waited
                     for its end */
};
/* A loop in which a thread runs commands as children, with naps between, until
 * a command has another result (build/child_tries.c). A round is all children
 * between two naps. In order of stream and time. */
struct b_child_tries {
    /* start of the first round, of the last round without a changed result, and
     * of the round that changed the result */
    uint64_t from, last_from, to;
    bool named; /* the command line of the child with the changed result is
                   known, and another process may have caused the change */
    uint32_t stream;
    uint32_t first_join, final_join; /* first and last join of the round that
                                        changed the result */
    /* RELEASEs of kind WATCH, index in syncs, or IPS_NONE: that round created a
     * file; another process had freed its name before */
    uint32_t taken, freed;
};
struct b_created_file { /* BLOCK op MADE: the call may have created file (dev,
                           ino) */
    uint64_t t, cpu, ino;
    uint32_t dev, stream, node;
    bool used; /* a thread waited for the file */
};
struct b_spin { /* CPU time that a thread spent spinning between a node and the
                   next node of its chain */
    uint32_t node;
    uint64_t ns;
};

struct b_corrected_wait { /* a node's g.wait before it was corrected */
    uint32_t node;
    uint64_t wait;
};

struct b_delay { /* a RUNDELAY record: the kernel's sum of run delay at t */
    uint64_t t, ns;
};

/* One window of build/delay.c: the time between two readings of a chain's run
 * delay, or after the last reading. */
struct b_delay_span {
    uint32_t node; /* first node after the reading that begins the window */
    /* position of the reading that ends the window: its stream, and its index
     * there */
    uint32_t stream, next;
    /* `known`, `last_t`: the kernel's sum of run delay, and the time, at the
     * previous reading; `left`: run delay of earlier windows that exceeded the
     * time off the CPU in them. */
    uint64_t known, left, last_t;
    /* has_base: `known` is valid; read: there was a previous reading */
    bool has_base, read;
    /* Run delay, ns, that earlier windows added to the thread's row and to the
     * counts. */
    uint64_t delay_ns, woken_ns, unknown_ns, dealt_ns;
};
/* Where the passes that follow pass `node` begin in a chain of an incremental
 * build (build/incremental/grow.h): the nodes with numbers below `node` are
 * final, and the sums are over those nodes. */
struct b_resume_point {
    uint32_t node;
    uint64_t at; /* coordinate of the node before `node` */
    uint64_t cpu_ns, probe_ns, unknown_ns;
    ips_u128 xlen;
    struct b_delay_span window;
};

/* Time and CPU time at the last node of the current chain, and the total time
 * off the CPU between its nodes that no call explains. */
struct b_gaps {
    uint64_t t, cpu, unknown_ns;
};

struct b_cpu { /* THREADCPU: the CPU time of thread `tid`, read by another
                  thread */
    uint64_t t, cpu;
    uint32_t stream, tid;
};

struct b_kill { /* a KILL record: a process sent a signal */
    uint64_t t, cpu, value;
    uint32_t stream, node;
    uint32_t pid, tid, sig; /* receiver's pid and tid (0: any thread); signal */
    uint32_t group; /* process group that got the signal; 0: not known, or no
                       group */
    bool to_group, is_taken;
};
struct b_signal_taken { /* a SIGNAL record: a signal was delivered to a thread
                         */
    uint64_t t, cpu, value;
    uint32_t stream, node;
    uint32_t from, sig; /* sender's pid, or 0 */
    int32_t code;
    /* the KILL that sent the signal, index in kills[]; process whose end the
     * signal reports; or IPS_NONE */
    uint32_t kill, child;
    bool outside; /* the sender is no process of the run */
    /* `polled`: a poll of a signalfd that no read followed. It was called at
     * `asked` and returned at t; `sig` has the signals that the signalfd is
     * for, as bits (IPS_READY_SIGNALFD). */
    bool polled;
    uint64_t asked;
};
/* A stop of a process: from SIGSTOP, or from the time at which its parent saw
 * it stopped, until a call of kill() sent SIGCONT (build/job_control.c).
 * `kill`: the KILL record of that call. Sorted by (proc, until). */
struct b_job_stop {
    uint64_t from, until;
    uint32_t proc, kill;
};
struct b_poll { /* a poll of a stream that has a node of its own, because no
                   receive took over its wait */
    uint64_t t, t_ret;
    uint64_t slept, reply_ns; /* as blocked_ns and reply_ns in b_external */
    uint32_t node, end, last_send;
    uint8_t why; /* enum ips_ready_why */
};
struct b_failed_child_wait { /* a wait for children that the kernel reaped
                                itself */
    uint64_t t_ret;
    /* `pid`: the child that the thread waited for; 0: any child */
    uint32_t node, proc, pid;
};
/* A send during which its process ended. It has no record, so how much it sent
 * is not known. */
struct b_unfinished_send {
    uint64_t t, t_ret; /* time of the call; time at which the process ended */
    uint32_t node, end, chain;
};
struct b_packet { /* a receive in packet mode; `bytes`: what it received, maybe
                     less than the packet */
    uint32_t node;
    uint64_t bytes;
};
struct b_job_stopped { /* the node at which a stopped thread continued, or at
                          which a signal ended a thread; index of the KILL */
    uint32_t node, kill;
};
struct b_unrecorded { /* an UNSEEN record, or the MODULE record of a runtime */
    bool runtime;
    bool of_threads; /* the activity is a wait between threads, so it does not
                        matter in a process with one thread */
    uint64_t t;
    const uint8_t *text;
    uint32_t len, stream;
    /* the last FORK of the stream before this record, or IPS_NONE */
    uint32_t fork;
};

struct b_channel_use { /* a stream has SENDs (or RECVs) on channel `id` */
    uint32_t stream, id;
    bool receives;
};

struct b_chan {
    uint64_t t;
    const uint8_t *rec;
    uint32_t image, id, stream;
    uint32_t end_recv, end_send; /* the receiving and the sending end: two ends
                                    for pipes, else the same end; or IPS_NONE */
    bool open; /* pass `hold`: the descriptor of this channel is open */
};

/* A send on a byte stream, with the data of its node that pass `match` needs.
 * That pass works end by end, and reading the node's columns would cost a cache
 * miss each. Positions are sums of `len`.
 *
 * A receive has no b_send. Its node has its end (g.site). Until its send on
 * this machine is found, g.xlen is the number of bytes, and g.xpred how long
 * the call took, ns (IPS_NO_NODE: see long_reads). Afterwards, until
 * b_make_weights(), g.xkind is B_X_SENT and g.xpred the send's slot
 * (b_send_at). But if the send's node is not changed any more, g.xkind is
 * B_X_FOUND and g.xpred the send's node. B_X_THERE is added to B_X_FOUND if the
 * receive slept although the data had been sent before, provided that the node
 * keeps its coordinate and its wait. */
struct b_send {
    uint64_t t, t_ret, len;
    /* the node's coordinate less cpu_at, CPU ns, never negative */
    uint64_t past_cpu_ns;
    uint32_t node;
    uint32_t chain : 31, blocked : 1;
};
#define B_X_SENT 0x80u
#define B_X_FOUND 0x40u
#define B_X_THERE 0x20u
#define B_X_MATCHED (B_X_SENT | B_X_FOUND | B_X_THERE)
/* The sends of one end are stored in blocks of 4, 8, 16... consecutive slots of
 * one slab. So they never move, and reading them end by end is sequential. */
#define B_SLAB_OPS (1u << 17)
#define B_BLOCK_OPS 1024u
struct b_block {
    uint32_t at, n; /* first slot; number of sends */
    uint32_t next;  /* the next block of the end, or IPS_NONE */
};
struct b_sends {
    /* first and last block with sends of the end, or IPS_NONE */
    uint32_t first, last;
    uint32_t n, capacity; /* number of sends in all blocks; number of free slots
                             in `last` */
};
struct b_read { /* a receive of bytes at an end that is `listed` */
    uint64_t t, t_ret, len;
    uint32_t node, chain;
    uint32_t ext; /* index of the receive's b_external if the peer is not local,
                     else IPS_NONE */
};
struct b_long_read { /* a receive whose duration exceeds 32 bits (g.xpred) */
    uint64_t t;
    uint32_t node;
};
/* Data of a channel end that only the build needs; same index as its struct
 * ips_end. */
struct b_end {
    bool listen, datagram;
    bool packets; /* positions count messages, not bytes */
    bool local;   /* the peer is on this machine: `peer_end` */
    bool shared; /* an unrecorded process uses this end, too (build/shared.c) */
    bool uncertain; /* several ends may be the peer of this end, so the end gets
                       no peer */
    uint64_t netns, dev, ino, peer_ino, name_hash;
    uint64_t sent_before, recv_before;
    uint32_t namer_pid, peer_pid;
    struct ips_addr laddr, raddr;
    uint32_t connect_node;
    /* datagrams: the end of the socket that this flow belongs to */
    uint32_t socket;
    /* pass `node`: the last SEND on this end, with its chain; the traffic row
     * of the process that used the end last */
    uint32_t send_chain, send_node, traffic_proc, traffic;
    uint64_t send_t;
    /* from pass `hold`: when processes gave up the end (closed it, ended): a
     * range in releases[] */
    uint32_t first_release, release_count;
    uint64_t shut_ns; /* first shutdown(SHUT_WR), or UINT64_MAX */
    uint32_t shut_node;
    uint64_t deaf_ns; /* first shutdown(SHUT_RD), or UINT64_MAX */
    uint32_t deaf_node;
    uint32_t holders;
    /* From pass `node`: the sends and receives of bytes. For each direction:
     * the chain of the first one (send_op_chain, read_chain) and whether other
     * chains have some (send_many, read_many). send_blocked: at least one send
     * blocked. */
    struct b_sends sends; /* pass `match` sorts the sends by time of return */
    uint32_t send_op_chain, read_chain, read_count;
    bool send_many, read_many, send_blocked;
    /* build/plain/early.c: the only chain that sends to (receives from) this
     * end, plus 1; 0: no chain does; B_USERS: several chains, or not known */
    uint32_t writer, reader;
    /* pass `match`: the receives of this end are in reads[], in order of
     * return */
    bool listed;
    uint32_t first_read;
};

enum b_dir { B_SEND = 0, B_RECV = 1 };
/* Returns a position as the graph stores it: at most IPS_POS_EXACT - 1. */
static inline uint64_t b_clamp_pos(uint64_t pos)
{
    return ips_min_u64(pos, IPS_POS_EXACT - 1);
}
struct b_dgram { /* a datagram that was sent or received */
    uint64_t t, t_ret, len, hash, path_hash, pos;
    uint64_t bytes; /* bytes that the call moved, in all its datagrams */
    /* Of a receive: the last time before it at which the socket held no
     * datagram, because a receive or poll began to sleep then; 0: not known. */
    uint64_t empty_t;
    uint32_t node, end, ext;
    uint32_t twin; /* the datagram at the other end, or IPS_NONE */
    struct ips_addr local, remote;
    uint8_t dir;
    uint8_t cut; /* enum ips_cut */
    bool first;  /* the receive took a later datagram, too, so this one gets no
                    arc */
};
enum b_event_kind { B_EOF, B_BROKEN, B_ACCEPT };
struct b_event { /* a receive of 0 bytes, a failed send, or an accept */
    uint64_t t_ret;
    uint32_t node, end, ext;
    uint8_t kind;
};
/* A receive whose sender may be on another machine: the data for the rule of
 * external actions (DPM-4 in docs/paper-map.md). */
struct b_external {
    uint64_t pos, len, t_ns;
    uint64_t reply_ns; /* time from the SEND `last_send` to the return of the
                          receive, ns */
    uint64_t blocked_ns;
    uint32_t node, end;
    uint32_t last_send; /* node of the thread's send that this receive answers,
                           or IPS_NO_NODE */
    /* the thread slept in the receive, or in the poll before it */
    bool blocked;
    bool is_decided; /* the cause of the receive is known on this machine, so
                        other machines are not asked */
    bool polled; /* the entry is of a poll: if the peer sent no more bytes, the
                    poll saw end-of-file */
};
enum b_hold_kind {
    B_HOLD_CHAN,
    B_HOLD_FORK,
    B_HOLD_CLOSE,
    B_HOLD_EXEC,
    B_HOLD_END
};
struct b_hold_event {
    uint64_t t;
    uint32_t proc, arg, node, seq;
    uint8_t kind, how;
};
struct b_release_event {
    uint64_t t;
    uint32_t end, node;
};

#endif
