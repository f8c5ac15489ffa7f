/*
 * The data pool's format, version 3: what the writer inside the measured
 * program stores and the slave reads. docs/pool-format.md is the same text
 * byte by byte; test_format holds the two together with static asserts.
 *
 * POOL/RUN/control        one struct ips_control, mapped by every process
 * POOL/RUN/PID.TID.STAMP.seg   one segment: header, then records
 *
 * Invariants:
 *  - one writer per segment (a thread); the slave only reads records, and
 *    writes `state` alone (CLOSED -> DRAINED).
 *  - little endian, natural alignment, every record a multiple of 8 bytes.
 *  - offsets, never pointers.
 *  - a record is published by a release store of its head word; the reader's
 *    partner is an acquire load of the same word.
 *  - bytes after the last reservation are zero; head word 0 = nothing here yet.
 *  - a record never crosses the end of its segment.
 *
 * Source: IPS-2, IPS-5, DPM-1.
 */
#ifndef IPS_AGENT_POOL_FORMAT_H
#define IPS_AGENT_POOL_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#include "agent/pool/begun.h"
#include "agent/pool/operations.h"
#include "agent/pool/ready.h"

#define IPS_POOL_VERSION 3
#define IPS_CONTROL_MAGIC 0x314c525443535049ULL /* "IPSCTRL1" */
#define IPS_SEGMENT_MAGIC 0x3147455353504900ULL /* "\0IPSSEG1" */
#define IPS_SEGMENT_SUFFIX ".seg"
#define IPS_SEGMENT_BYTES (1u << 20)      /* default size, sparse */
#define IPS_SEGMENT_MAX_BYTES (64u << 20) /* reader refuses larger */
/* Populated are first one page, then steps as long as what is there already
 * (MADV_POPULATE_WRITE), from the one to the other. */
#define IPS_GROW_FIRST_BYTES (16u << 10)
#define IPS_GROW_STEP_BYTES (64u << 10)

enum ips_clock_kind {
    IPS_CLOCK_TSC = 1, /* stamps are the CPU's counter; convert with mult */
    IPS_CLOCK_RAW = 2, /* stamps are CLOCK_MONOTONIC_RAW nanoseconds */
};

/* t_ns = raw0_ns + (stamp - counter0) * mult_q32 / 2^32  (signed difference) */
struct ips_clock {
    uint32_t kind; /* enum ips_clock_kind */
    uint32_t reserved;
    uint64_t counter0;
    uint64_t raw0_ns;
    uint64_t mult_q32;
};

#define IPS_LOST_CAUSES(X)                                                     \
    X(POOL_FULL, 0, "pool full")                                               \
    X(QUOTA, 1, "quota")                                                       \
    X(NESTED, 2, "nested signal")                                              \
    X(TORN, 3, "torn")                                                         \
    X(NO_SEGMENT, 4, "no segment could be made")                               \
    X(NO_CHANNEL, 5, "descriptor table full")                                  \
    X(OVERWRITTEN, 6, "overwritten")                                           \
    X(ENDED, 7, "after the thread's end")
enum ips_lost_cause {
#define X(name, number, text) IPS_LOST_##name = (number),
    IPS_LOST_CAUSES(X)
#undef X
        IPS_LOST_COUNT = 8 /* room in the header */
};

enum ips_probe {
    IPS_PROBE_EVENT = 0, /* one stamp */
    IPS_PROBE_CALL = 1,  /* a recorded call: call and return stamps, CPU, site,
                            and the wrapper round it */
    IPS_PROBE_BLOCK = 2, /* what a call that was switched out costs beyond CALL,
                            the clock not read */
    IPS_PROBE_SAMPLE = 3,
    IPS_PROBE_PROC = 4, /* entry and exit of a procedure */
    IPS_PROBE_COUNT = 5,
    IPS_PROBE_SYNC = 6,
    IPS_PROBE_READ = 7,  /* a reading of the thread's CPU clock */
    IPS_PROBE_FIRST = 8, /* from here on in probe_more_ps */
    IPS_PROBE_STACK = 8, /* the stack of a wait */
    /* Both without what the beginning says of itself (CALLS). */
    IPS_PROBE_IMAGE = 9,  /* a new image, from its exec to its end */
    IPS_PROBE_FORK = 10,  /* a fork child, from fork to its end */
    IPS_PROBE_LAST = 11,  /* and in probe_spawn_ps */
    IPS_PROBE_SPAWN = 11, /* a spawn, vfork, popen or system beyond CALL */
    IPS_PROBE_LATE = 12,  /* from here on in probe_late_ps */
    IPS_PROBE_FILE = 12,  /* a call on a file, that leaves no record */
    /* The same that begin in a spare segment. */
    IPS_PROBE_SPARE_IMAGE = 13,
    IPS_PROBE_SPARE_FORK = 14,
    IPS_PROBE_POLL = 15, /* a poll that found something at once */
    IPS_PROBE_THREAD =
        16,              /* a thread, from its making to its end, both sides */
    IPS_PROBE_COLD = 17, /* what a call costs beyond CALL that comes
                            IPS_COLD_NS or more after the last */
    /* The three that the agent itself counts with beyond_ns of CALLS. */
    IPS_PROBE_OPEN = 18, /* a file opened and closed */
    IPS_PROBE_PASS = 19, /* a read or write of what is nothing to record */
    IPS_PROBE_LOCK = 20, /* a free lock taken and given back */
    IPS_PROBE_COSTS = 21
};
/* Who has done something else for so long finds none of us in the first caches.
 */
#define IPS_COLD_NS 2000u
/* Which takings of locks leave a record; --locks. */
enum ips_locks { IPS_LOCKS_CONTENDED = 0, IPS_LOCKS_ALL = 1 };

/* POOL/RUN/control. Written by ipsrun before CMD starts; `used_bytes` and
 * `lost` by everybody in the run, `released_bytes` by the slave. Readers treat
 * it as untrusted. */
struct ips_control {
    uint64_t magic;
    uint32_t version;
    uint32_t control_bytes; /* sizeof(struct ips_control) */
    char run[64];           /* run name, NUL ended */
    char machine[64];       /* machine name */
    char boot_id[40];       /* /proc/sys/kernel/random/boot_id */
    char command[512];      /* what ipsrun was given, joined by spaces, cut */
    struct ips_clock clock;
    uint64_t created_raw_ns;  /* CLOCK_MONOTONIC_RAW */
    uint64_t created_real_ns; /* CLOCK_REALTIME, for people */
    uint64_t quota_bytes;     /* a quarter of the tmpfs's free space */
    uint64_t probe_ns;        /* cost of one I/O record as measured here */
    uint32_t root_pid; /* pid that became CMD: END of it is the goal; 0 where
                          the run was only joined on this machine */
    uint32_t cpus;     /* usable cores, from affinity */
    uint32_t segment_bytes;
    uint32_t uid;
    char tags[256]; /* --tag K=V, NUL separated, ends with an empty one */
    /* Test option: the agent adds this to every stamp (docs/HACKING.md). */
    int64_t test_offset_ns;
    int64_t test_drift_ppm;
    int64_t test_step_ns;
    uint64_t test_step_at_ns;              /* after created_raw_ns */
    _Atomic uint64_t used_bytes;           /* populated by writers, ever */
    _Atomic uint64_t lost[IPS_LOST_COUNT]; /* without a segment of their own */
    /* Of used_bytes, what was freed by unlinking; stored by the slave alone. In
     * use: ips_control_in_use(), held against quota_bytes. */
    _Atomic uint64_t released_bytes;
    /* What ipsrun was asked for; fixed before the command starts. */
    uint32_t procedures; /* enum ips_procedures */
    uint32_t sample_us;  /* CPU time of a thread between two samples */
    uint32_t cpu_mode;   /* enum ips_cpu_mode */
    uint32_t on_full;    /* enum ips_on_full */
    uint32_t budget_ppm; /* procedures=exact: share of the CPU it may take */
    uint32_t probe_extra_ns; /* tests: burnt at every record as well */
    /* Cost of each kind of probe as measured here before the start, in
     * thousandths of a ns; enum ips_probe. */
    uint64_t probe_cost_ps[IPS_PROBE_FIRST];
    uint32_t receive_stamps; /* 1: QUEUE before a datagram that waited */
    uint32_t delays;         /* 1: RUNDELAY records are written */
    uint64_t probe_more_ps[IPS_PROBE_LAST - IPS_PROBE_FIRST]; /* the others */
    uint32_t locks; /* enum ips_locks */
    /* The slave that drains the run, if it is in the initial pid namespace: its
     * pid there, and where the kernel has its list of robust locks, which no
     * other process has at that address. pid 0: not known. */
    uint32_t slave_pid;
    uint64_t slave_list;
    uint64_t probe_spawn_ps; /* of probe_cost_ps, the last */
    /* In spare segments when they were made, ever; stored by the slave alone.
     * In use = used_bytes + spare_bytes - released_bytes. */
    _Atomic uint64_t spare_bytes;
    uint64_t probe_late_ps[IPS_PROBE_COSTS - IPS_PROBE_LATE];
};

static inline uint64_t ips_control_in_use(const struct ips_control *c)
{
    uint64_t made = atomic_load_explicit(&c->used_bytes, memory_order_relaxed) +
                    atomic_load_explicit(&c->spare_bytes, memory_order_relaxed);
    uint64_t freed =
        atomic_load_explicit(&c->released_bytes, memory_order_relaxed);
    return made > freed ? made - freed : 0;
}
/* What a control of an earlier version ends with, as archives have it. */
#define IPS_CONTROL_LEAST offsetof(struct ips_control, probe_more_ps)

static inline uint64_t ips_probe_ps(const struct ips_control *c,
                                    enum ips_probe probe)
{
    return probe < IPS_PROBE_FIRST  ? c->probe_cost_ps[probe]
           : probe < IPS_PROBE_LAST ? c->probe_more_ps[probe - IPS_PROBE_FIRST]
           : probe < IPS_PROBE_LATE ? c->probe_spawn_ps
                                    : c->probe_late_ps[probe - IPS_PROBE_LATE];
}
enum ips_procedures {
    IPS_PROCEDURES_OFF = 0,
    IPS_PROCEDURES_SAMPLE = 1,
    IPS_PROCEDURES_EXACT = 2,
};
enum ips_cpu_mode {
    IPS_CPU_FAST = 0,  /* interpolated between readings of the clock */
    IPS_CPU_EXACT = 1, /* the clock is read after every switch */
    IPS_CPU_CLOCK = 2, /* the clock is read at every moment: the kernel does
                          not tell of switches (agent/record/cpu.h) */
};
enum ips_on_full {
    IPS_ON_FULL_DROP = 0,
    IPS_ON_FULL_BLOCK = 1,
    IPS_ON_FULL_RING = 2, /* flight recorder: the newest records are kept */
};

/* The kernel's number for the initial pid namespace (PROC_PID_INIT_INO). */
#define IPS_PIDNS_INITIAL 0xEFFFFFFCu

enum ips_segment_state {
    IPS_SEGMENT_OPEN = 1,   /* the writer appends */
    IPS_SEGMENT_CLOSED = 2, /* the writer is done; next is `seq` + 1 */
    IPS_SEGMENT_DRAINED = 3 /* the slave has it all, and zeroed the records */
};

struct ips_segment_header { /* 256 bytes */
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;  /* offset of the first record: 256 */
    uint32_t segment_bytes; /* whole file */
    uint32_t seq;           /* 0, 1, 2 ... within the stream */
    uint32_t pid;           /* in its own pid namespace */
    uint32_t tid;           /* kernel tid; for an API task, its number */
    uint64_t pidns;         /* inode of the pid namespace, 0 unknown */
    uint64_t image_stamp;   /* raw counter when this image of pid began */
    uint64_t stream_stamp;  /* raw counter when this stream began */
    uint32_t uid;
    uint32_t flags; /* enum ips_segment_flags */
    char comm[16];
    struct ips_clock clock;
    _Atomic uint32_t state;     /* enum ips_segment_state */
    _Atomic uint32_t abandoned; /* writer unmapped it: slave may unlink */
    _Atomic uint64_t lost[IPS_LOST_COUNT];
    /* Of a spare (below): its writer has taken it; it is withdrawn. */
    _Atomic uint32_t taken;
    _Atomic uint32_t withdrawn;
    struct ips_begun begun;
    uint8_t reserved[16];
};

/* Spare segments: POOL/RUN/spare.N, made ahead by the slave, for a process to
 * take instead of making a file. Sized, its first page made and zero but for a
 * copy of `control` behind the header, which its writer reads and clears. Who
 * changes `taken` from 0 has it, unless `withdrawn` is set then; the slave sets
 * that before it looks whether it is taken. One that is taken is renamed to a
 * segment's name. */
#define IPS_SPARE_PREFIX "spare."
#define IPS_SPARES 128u
#if defined(__x86_64__)
#define IPS_SPARE_FIRST_BYTES 4096u
#else
#define IPS_SPARE_FIRST_BYTES 65536u
#endif
enum ips_segment_flags {
    IPS_SEGMENT_TASK = 1, /* chain made by the API, not a kernel thread */
    /* --on-full=ring: what was kept of the segments up to `seq`, whose place
     * it takes. Of two, the one with the higher seq holds. */
    IPS_SEGMENT_DIGEST = 2,
};

/* Stream = all segments with equal (pidns, pid, image_stamp, tid,
 * stream_stamp), in order of seq. Image = all streams with equal (pidns, pid,
 * image_stamp). A process is one or more images joined by EXEC. */

#define IPS_REC_RESERVED 0xffu
#define IPS_REC_MAX_BYTES 1024u

enum ips_rec_type {
#define X(name, code, record, text) IPS_REC_##name = (code),
#include "agent/pool/events.def"
#undef X
};

/* word = type | words << 8 | flags << 16, where words = bytes / 8 */
struct ips_rec_head {
    _Atomic uint32_t word;
    uint32_t a; /* small argument, see each record */
    uint64_t t; /* stamp: of the call, or of the moment */
};
#define IPS_REC_F_NS 1u /* t, t_ret are ns already (API explicit stamps) */
/* SEND, RECV: stands for earlier ones too, that were overwritten; `result` is
 * the bytes of all of them. */
#define IPS_REC_F_SUM 2u
/* Of a START: its stream began in a spare segment. */
#define IPS_REC_F_SPARE 4u
/* SAMPLE: taken later than was due, in the kernel's tick or at the return of a
 * call: where the program is then may depend on it. */
#define IPS_REC_F_LATE 2u
/* MARK: its text has a place from here on, in the flags from bit 2: 1 to 8, 0
 * none. The text is no longer than that, NUL included. */
#define IPS_REC_F_PLACE 2u /* bits to shift by */
/* SEND_SHORT, RECV_SHORT: `op` in the flags from bit 2. */
#define IPS_REC_F_OP 2u
#define IPS_REC_OP_MAX 31u
#define IPS_MARK_PLACES 8u
#define IPS_MARK_PLACE_BYTES 40u

/* SEND RECV RECVCALL BLOCK; a = channel id, 0 none; or why it was ready */
struct ips_rec_io {
    struct ips_rec_head h;
    uint64_t t_ret;
    uint64_t cpu;     /* thread CPU ns at the call */
    uint64_t cpu_ret; /* and at the return */
    int64_t result;   /* bytes moved; RECV 0 = end-of-file; BLOCK: the value */
    uint64_t site;    /* return address of the call, 0 unknown */
    uint16_t op;      /* enum ips_op */
    uint16_t err;     /* errno where the call failed, else 0 */
    uint32_t ready; /* BLOCK: the first ready descriptor, RECV: pool/ready.h */
};

enum ips_start_kind {
    IPS_START_ROOT = 1,   /* ipsrun just before it execs CMD */
    IPS_START_FORK = 2,   /* child of fork */
    IPS_START_IMAGE = 3,  /* after exec (or spawn, vfork+exec: a new process) */
    IPS_START_THREAD = 4, /* pthread */
    IPS_START_TASK = 5,   /* API task */
    /* No beginning: who made a thread that a pending signal's handler has begun
     * to record before its creator was known. */
    IPS_START_KNOWN = 6,
};
struct ips_rec_start { /* a = enum ips_start_kind */
    struct ips_rec_head h;
    uint64_t cpu;      /* thread CPU at this record (0 for fork, thread) */
    uint64_t fork_seq; /* FORK/THREAD: `fork_seq` of the FORK record; else 0 */
    uint32_t ppid;     /* parent process; THREAD, TASK: its own process */
    uint32_t ptid;     /* thread that forked, 0 unknown */
    uint64_t parent_image; /* FORK/THREAD/TASK: image_stamp of the parent */
    uint64_t parent_t;     /* IMAGE: 0 */
};

enum ips_end_kind {
    IPS_END_THREAD = 1,      /* thread returned, pthread_exit, cancelled */
    IPS_END_PROVISIONAL = 2, /* our destructor ran; stdio may still flush */
    IPS_END_EXIT = 3,        /* _exit, _Exit, quick_exit: final */
    IPS_END_ABORT = 4,
    IPS_END_TASK = 5,
};
struct ips_rec_end { /* a = enum ips_end_kind */
    struct ips_rec_head h;
    uint64_t cpu;
    uint64_t status;
};

enum ips_fork_kind {
    IPS_FORK_FORK = 1,
    IPS_FORK_VFORK = 2,
    IPS_FORK_SPAWN = 3,
    IPS_FORK_POPEN = 4,  /* child pid unknown: a = 0 */
    IPS_FORK_SYSTEM = 5, /* child pid unknown: a = 0; JOIN follows */
    IPS_FORK_THREAD = 6,
    IPS_FORK_TASK = 7,
};
/* SEND_SHORT, RECV_SHORT: the thread has been on its core since the last SEND
 * or RECV of its segment returned: CPU is that one's `cpu_ret` plus the time
 * since, at the call and at the return. err and ready are 0. */
struct ips_rec_io_short { /* a = channel id */
    struct ips_rec_head h;
    uint32_t took;   /* t_ret - t */
    uint32_t result; /* bytes moved */
    uint64_t site;
};

/* FORK, JOIN, KILL and CLOSE of calls of the program have one more word behind
 * their structure: the call's return address, 0 unknown, or they have none. */
#define IPS_REC_SITE_BYTES 8u

struct ips_rec_fork { /* a = child's pid (process), 0 unknown */
    struct ips_rec_head h;
    uint64_t t_ret;
    uint64_t cpu;
    uint64_t cpu_ret;
    uint64_t fork_seq; /* unique within the image; START of the child has it */
    uint32_t kind;     /* enum ips_fork_kind */
    uint32_t err;      /* errno: nothing was created */
};

enum ips_join_kind {
    IPS_JOIN_WAIT = 1,   /* a = child's pid */
    IPS_JOIN_THREAD = 2, /* seq = fork_seq of the thread's FORK */
    IPS_JOIN_SYSTEM = 3, /* return of system/pclose: seq = fork_seq */
    IPS_JOIN_TASK = 4,
};
struct ips_rec_join { /* a = child's pid or 0 */
    struct ips_rec_head h;
    uint64_t t_ret;
    uint64_t cpu;
    uint64_t cpu_ret;
    uint64_t seq;
    uint64_t child_cpu_ns; /* rusage: child and what it waited for; or ~0 */
    uint32_t status;       /* as wait gives it */
    uint32_t kind;         /* enum ips_join_kind */
};

struct ips_rec_exec { /* a = errno (EXECFAIL) or length of path (EXEC) */
    struct ips_rec_head h;
    uint64_t cpu;
    char path[]; /* EXEC: NUL ended, padded to 8 bytes, at most 256 */
};

struct ips_rec_lost { /* a = enum ips_lost_cause */
    struct ips_rec_head h;
    uint64_t count;
};

/* MARK_SHORT: a head only, `a` a place: the text is that of the last MARK of
 * this place before it in the stream, which stands in the same segment; its CPU
 * is that of the last MARK that has a place (any), plus the time since. */
struct ips_rec_text { /* a = length without the NUL */
    struct ips_rec_head h;
    uint64_t cpu;
    char text[]; /* NUL ended, padded to 8 bytes, at most 512 */
};

struct ips_rec_cpu { /* a = tid */
    struct ips_rec_head h;
    uint64_t cpu;
};

/* The kernel's figure for this thread since it was made (sched_info's
 * run_delay), wake-up latencies included. Written after the thread was off its
 * core, at most every IPS_DELAY_EVERY_NS, and at END; never where the kernel
 * does not keep it. */
struct ips_rec_delay { /* a = ns that the reading took */
    struct ips_rec_head h;
    uint64_t delay_ns;
};
#define IPS_DELAY_EVERY_NS 2000000u

/* How much of the thread's CPU time is guessed (agent/record/cpu_guess.h), and
 * how far the guesses were off, since the thread began: the last one of a
 * stream has all. Written when guesses were settled, at most every
 * IPS_GUESSED_EVERY_NS, and before END. */
struct ips_rec_guessed { /* a = readings of the clock that settled guesses */
    struct ips_rec_head h;
    uint64_t guessed_ns; /* CPU that was guessed */
    uint64_t off_ns;     /* what was handed out differed from the clock by so
                            much at these readings, without sign, all of them */
    uint64_t off_max_ns; /* and by so much at most */
};
#define IPS_GUESSED_EVERY_NS 10000000u

/* Calls on files that left no record, since the CALLS before in this stream:
 * what they cost belongs to the dilation, as does what the agent did that has
 * no price, or took longer than that, as it measured it itself (IPS_APART):
 * stacks, of which the first of an image reads tables that nothing has touched,
 * more of the pool, names of channels, the CPU clock read where no record tells
 * of it; and at their prices opens, calls that passed through, and free locks.
 * The first of an image and of a fork child says what its beginning took. Then
 * every IPS_CALLS_EVERY calls, at a sample where `a` is IPS_BEYOND_DUE_NS, and
 * before END and EXEC where there were IPS_CALLS_LEAST or IPS_BEYOND_LEAST_NS.
 */
struct ips_rec_calls { /* a = ns beyond prices, 0 in those of earlier versions
                        */
    struct ips_rec_head h;
    uint64_t calls;
};
#define IPS_CALLS_EVERY 4096u
#define IPS_CALLS_LEAST 64u
#define IPS_BEYOND_DUE_NS 1000000u
#define IPS_BEYOND_LEAST_NS 2000u

/* ENTER_SHORT, EXIT_SHORT: a head only. The last ENTER or EXIT before it in the
 * stream, which stands in the same segment, has the rest: `a` is the lower half
 * of the procedure's address, that one's procedure has the upper half, and the
 * thread has been on its core since: its CPU is that one's plus the time
 * between the two. */
struct ips_rec_proc { /* ENTER, EXIT; a = 0 */
    struct ips_rec_head h;
    uint64_t cpu;
    uint64_t procedure; /* address of its entry */
};

/* Every module of an image right after its START and NAME (not with
 * procedures=off); one that comes later where an address of it is first seen:
 * before the SAMPLE or the call, after the STACK. gone = 1 (path empty) at
 * dlclose. [start, end) is the whole mapping. A fork child has its parent's. */
struct ips_rec_module { /* a = length of path */
    struct ips_rec_head h;
    uint64_t start; /* addresses [start, end) are its */
    uint64_t end;
    uint64_t bias; /* address - bias = address in the file's symbol table */
    uint8_t build_id[20];
    uint8_t build_id_bytes; /* 0 = it has none */
    uint8_t gone;
    uint8_t go; /* it has the note of Go's linker */
    uint8_t reserved;
    char path[]; /* NUL ended, padded to 8 bytes, at most 512 */
};

#define IPS_FRAMES_MAX 64u
/* Stands for one period of the thread's CPU time. A stack of more frames is cut
 * at its outer end. Without frames: from here on the thread is sampled. */
struct ips_rec_sample { /* a = frames */
    struct ips_rec_head h;
    uint64_t cpu;       /* thread CPU at the sample */
    uint64_t period_ns; /* thread CPU that was asked for between two */
    uint64_t frames[];  /* program counter first, then return addresses */
};

/* Follows a SEND, RECV, RECVCALL, BLOCK, JOIN or ACQUIRE that lasted more than
 * 50 us. Left out where the last STACK of the same site in this stream was of
 * the same depth: then it holds again. */
struct ips_rec_stack { /* a = frames; h.t = that of the record before it */
    struct ips_rec_head h;
    uint64_t frames[]; /* return addresses, the call's own first */
};

/* Calls of one procedure without ENTER. 0 calls: from `t` on it has none. */
struct ips_rec_count { /* a = tid of the thread that called, 0 this one */
    struct ips_rec_head h;
    uint64_t procedure; /* address of its entry */
    uint64_t calls;     /* since the COUNT before of the same procedure */
};

/* ACQUIRE: a wait for the object that is over; only where it really waited (and
 * at every barrier). RELEASE: an unlock, post, wake, write; at least where
 * somebody may be waiting. The object is (dev, ino, object): in memory of this
 * image alone 0, 0, the address; in shared memory the file's device and inode
 * and the offset in it; of a descriptor its device, inode (eventfd: its id) and
 * 0 or the lock's start; others: docs/pool-format.md. */
struct ips_rec_sync { /* a = enum ips_sync */
    struct ips_rec_head h;
    uint64_t t_ret;
    uint64_t cpu;
    uint64_t cpu_ret;
    uint64_t dev;
    uint64_t ino;
    uint64_t object;
    uint64_t site;
    int32_t value; /* RELEASE: how many it lets go (broadcast -1); ACQUIRE of a
                      barrier: 1 in the serial thread; COND: 0; MUTEX: 1 taken
                      again at the end of the wait for the condition in the
                      record before; 2: waited by spinning (trylock); err
                      EOWNERDEAD: the tid that died; 3: it was free (as
                      ACQUIRE_SHORT, where the object is shared) */
    uint32_t err;  /* ACQUIRE: errno it ended with (ETIMEDOUT), 0 got it */
};

/* ACQUIRE_SHORT, RELEASE_SHORT, with --locks=all alone: taken without a wait
 * (t: when it had it); given back when nobody was seen to wait (t: before the
 * call). Of this image's own memory. */
struct ips_rec_lock { /* a = enum ips_sync */
    struct ips_rec_head h;
    uint64_t cpu;    /* thread CPU at t */
    uint64_t object; /* address */
};

enum ips_signal_how {
    IPS_KILL_PROCESS = 1, /* kill, killpg, raise of a process */
    IPS_KILL_QUEUE = 2,   /* sigqueue */
    IPS_KILL_THREAD = 3,  /* pthread_kill, tgkill, pthread_sigqueue,
                             pthread_cancel */
    IPS_SIGNAL_HANDLER = 16,
    IPS_SIGNAL_WAIT = 17, /* sigwait, sigwaitinfo, sigtimedwait; a wait that was
                             told of child `pid`: SIGCHLD, CLD_STOPPED or
                             CLD_CONTINUED */
    IPS_SIGNAL_FD = 18,   /* read from a signalfd */
    /* a poll's first ready descriptor is a pidfd: process `pid` ended (SIGCHLD,
     * CLD_EXITED); follows its BLOCK, with the stamp of its return */
    IPS_SIGNAL_PIDFD = 19,
    /* a thread ends because it was cancelled, by a KILL of IPS_CANCEL from its
     * own process; after the cleanup handlers, before its END */
    IPS_SIGNAL_CANCELLED = 20,
};
/* The signal by which the C library cancels a thread: pthread_cancel's. */
#define IPS_CANCEL 32u
struct ips_rec_signal { /* KILL, SIGNAL: a = signal number */
    struct ips_rec_head h;
    uint64_t cpu;
    int32_t pid;    /* KILL: target as given (a thread: its process; < 0 or 0 a
                       group); SIGNAL: si_pid, 0 none */
    int32_t tid;    /* KILL of a thread: its tid, else 0 */
    int32_t code;   /* SIGNAL: si_code */
    uint32_t how;   /* enum ips_signal_how */
    uint64_t value; /* sigqueue's, si_value */
    uint64_t t_ret; /* same as t: KILL is written before the call, so that a
                       signal to oneself comes after it */
};

enum ips_chan_kind {
    IPS_CHAN_PIPE = 1, /* pipe or FIFO: key is (boot, dev, ino) */
    IPS_CHAN_UNIX = 2, /* Unix stream or seqpacket, socketpair too */
    IPS_CHAN_UNIX_DGRAM = 3,
    IPS_CHAN_TCP = 4,
    IPS_CHAN_UDP = 5,
    IPS_CHAN_USER = 6, /* named through the API: key is name_hash */
    IPS_CHAN_UNIX_LISTEN = 7,
    IPS_CHAN_TCP_LISTEN = 8,
};
enum ips_chan_side { IPS_SIDE_READ = 1, IPS_SIDE_WRITE = 2, IPS_SIDE_BOTH = 3 };
struct ips_addr { /* family AF_INET6 (v4 mapped) or 0 */
    uint16_t family;
    uint16_t port; /* host byte order */
    uint8_t addr[16];
};
struct ips_rec_chan { /* a = channel id, unique within the image, from 1 */
    struct ips_rec_head h;
    uint32_t fd;
    uint8_t kind;  /* enum ips_chan_kind */
    uint8_t side;  /* enum ips_chan_side: what this descriptor can do */
    uint8_t flags; /* enum ips_chan_flags */
    uint8_t reserved;
    uint64_t dev;
    uint64_t ino;         /* of this end (a pipe's two ends share it) */
    uint64_t peer_ino;    /* Unix: inode of the other end, 0 unknown */
    uint64_t cookie;      /* SO_COOKIE, 0 none */
    uint64_t netns;       /* SO_NETNS_COOKIE; before Linux 5.14 its inode */
    uint64_t sent_before; /* TCP: bytes already sent and received when named */
    uint64_t recv_before;
    uint64_t name_hash; /* USER: of the name; Unix: of the bound or peer path */
    uint32_t peer_pid;  /* Unix: SO_PEERCRED */
    struct ips_addr local;
    struct ips_addr remote;
    uint32_t reserved2;
};
enum ips_chan_flags {
    IPS_CHAN_CONNECTED = 1, /* this process called connect on it */
    IPS_CHAN_ACCEPTED = 2,  /* this process accepted it */
    IPS_CHAN_CLOEXEC = 4,
    IPS_CHAN_INHERITED = 8, /* named when the image began */
    /* Seqpacket, O_DIRECT pipe: a receive takes one message, and drops what it
     * has no room for. */
    IPS_CHAN_PACKETS = 16,
};

enum ips_close_how {
    IPS_CLOSE_FD = 1,
    IPS_CLOSE_SHUT_RD = 2,
    IPS_CLOSE_SHUT_WR = 3,
    IPS_CLOSE_SHUT_RDWR = 4,
};
struct ips_rec_close { /* a = channel id */
    struct ips_rec_head h;
    uint64_t cpu;
    uint32_t fd;
    uint32_t how;  /* enum ips_close_how */
    uint64_t sent; /* TCP_INFO totals at the close; ~0 unknown */
    uint64_t recv;
};

/* If one call moved several datagrams (UDP_SEGMENT, UDP_GRO), the record is
 * followed by the bytes of each but the last, and the hashes of the others. */
struct ips_rec_dgram { /* a = channel id; precedes its SEND or RECV */
    struct ips_rec_head h;
    uint64_t hash;      /* FNV-1a of the payload, first 256 bytes and length */
    uint64_t path_hash; /* Unix datagram: of the peer's path, 0 unnamed */
    struct ips_addr local; /* port at least, for an unbound sender 0 */
    struct ips_addr
        remote; /* peer: destination of a send, source of a receive */
};

#endif
