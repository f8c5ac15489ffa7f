/*
 * The data pool's format, version 3: the agent inside the recorded program
 * writes it and the slave reads it. docs/pool-format.md describes the same
 * format byte by byte; test_format compares the two with static asserts.
 *
 * POOL/RUN/control        one struct ips_control, mapped by every process
 * POOL/RUN/PID.TID.STAMP.seg   one segment: header, then records
 *
 * Invariants:
 *  - one writer per segment (a thread); the slave only reads records. When it
 *    has read all of a CLOSED segment, it zeroes the records and sets `state`
 *    to DRAINED.
 *  - little endian, natural alignment, every record a multiple of 8 bytes.
 *  - offsets, never pointers.
 *  - a record is published by a release store of its head word; the reader's
 *    partner is an acquire load of the same word.
 *  - bytes after the last reservation are zero; head word 0: no record yet.
 *  - a record never crosses the end of its segment.
 *
 * Sources: IPS-2, IPS-5, DPM-1 (docs/paper-map.md).
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
#define IPS_SEGMENT_BYTES (1u << 20)      /* default size of the sparse file */
#define IPS_SEGMENT_MAX_BYTES (64u << 20) /* the reader refuses more */
/* A segment's memory is populated (MADV_POPULATE_WRITE) in steps: first one
 * page, then as much as is populated already, but at least IPS_GROW_FIRST_BYTES
 * and at most IPS_GROW_STEP_BYTES. */
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
    X(NO_CHANNEL, 5, "channel table full")                                     \
    X(OVERWRITTEN, 6, "overwritten")                                           \
    X(ENDED, 7, "after the thread's end")
enum ips_lost_cause {
#define X(name, number, text) IPS_LOST_##name = (number),
    IPS_LOST_CAUSES(X)
#undef X
        IPS_LOST_COUNT = 8 /* size of the tables `lost` */
};

enum ips_probe {
    IPS_PROBE_EVENT = 0, /* a record with one stamp */
    IPS_PROBE_CALL = 1,  /* a recorded call: its wrapper, two stamps, CPU time
                            and call site */
    /* extra cost, beyond CALL, of a call in which the thread was switched out
     * and the CPU clock was not read */
    IPS_PROBE_BLOCK = 2,
    IPS_PROBE_SAMPLE = 3,
    IPS_PROBE_PROC = 4, /* entry and exit of a procedure */
    IPS_PROBE_COUNT = 5,
    IPS_PROBE_SYNC = 6,
    IPS_PROBE_READ = 7,  /* a reading of the thread's CPU clock */
    IPS_PROBE_FIRST = 8, /* costs from this one up are in probe_more_ps */
    IPS_PROBE_STACK = 8, /* recording the call stack of a wait */
    /* IMAGE and FORK exclude the cost of the start, which CALLS records report.
     */
    IPS_PROBE_IMAGE = 9, /* a new program image, from its exec to its end */
    IPS_PROBE_FORK = 10, /* a fork child, from fork to its end */
    IPS_PROBE_LAST = 11, /* this cost is in probe_spawn_ps */
    /* a spawn, vfork, popen or system: its cost above IPS_PROBE_CALL */
    IPS_PROBE_SPAWN = 11,
    IPS_PROBE_LATE = 12, /* costs from this one up are in probe_late_ps */
    IPS_PROBE_FILE = 12, /* a call on a file that leaves no record */
    /* Like IMAGE and FORK, for a stream that starts in a spare segment. */
    IPS_PROBE_SPARE_IMAGE = 13,
    IPS_PROBE_SPARE_FORK = 14,
    IPS_PROBE_POLL = 15,   /* a poll that found a descriptor ready at once */
    IPS_PROBE_THREAD = 16, /* creation to end of a thread, creator included */
    IPS_PROBE_COLD = 17,   /* extra cost, beyond CALL, of a call that comes
                              IPS_COLD_NS or more after the last one */
    /* The agent adds up the costs of these three itself and reports them in `a`
     * (ns) of CALLS. */
    IPS_PROBE_OPEN = 18, /* opening and closing a file */
    IPS_PROBE_PASS = 19, /* a read or write that needs no record */
    IPS_PROBE_LOCK = 20, /* taking and releasing a free lock */
    IPS_PROBE_COSTS = 21
};
/* After this many ns without a recorded call, none of the agent's code and data
 * is left in the first-level caches. */
#define IPS_COLD_NS 2000u
/* --locks: which acquisitions of locks are recorded. */
enum ips_locks { IPS_LOCKS_CONTENDED = 0, IPS_LOCKS_ALL = 1 };

/* POOL/RUN/control. Written by ipsrun before CMD starts. Later every process of
 * the run changes `used_bytes` and `lost`, and the slave changes
 * `released_bytes`, `spare_bytes`, `slave_pid` and `slave_list`. Readers treat
 * the file as untrusted. */
struct ips_control {
    uint64_t magic;
    uint32_t version;
    uint32_t control_bytes; /* sizeof(struct ips_control) */
    char run[64];           /* run name, NUL ended */
    char machine[64];       /* machine name */
    char boot_id[40];       /* /proc/sys/kernel/random/boot_id */
    char command[512];      /* the command line, truncated */
    struct ips_clock clock;
    uint64_t created_raw_ns;  /* CLOCK_MONOTONIC_RAW */
    uint64_t created_real_ns; /* CLOCK_REALTIME, for people */
    uint64_t quota_bytes;     /* limit of this run's bytes in use */
    uint64_t probe_ns; /* cost of one I/O record, measured on this machine */
    uint32_t root_pid; /* pid of CMD, whose END is the goal of the path; 0 if
                          this machine only joined the run */
    uint32_t cpus;     /* usable cores (CPU affinity) */
    uint32_t segment_bytes;
    uint32_t uid;
    char tags[256]; /* --tag K=V, NUL separated, ends with an empty one */
    /* Test option: the agent makes every stamp wrong by this offset, drift and
     * step (docs/HACKING.md). */
    int64_t test_offset_ns;
    int64_t test_drift_ppm;
    int64_t test_step_ns;
    uint64_t test_step_at_ns; /* time of the step: ns after created_raw_ns */
    /* Total bytes of segments that writers have populated so far. */
    _Atomic uint64_t used_bytes;
    /* Records lost by threads that had no segment. */
    _Atomic uint64_t lost[IPS_LOST_COUNT];
    /* Total bytes freed by unlinking segments; only the slave stores it.
     * quota_bytes limits the bytes in use (ips_control_bytes_in_use()). */
    _Atomic uint64_t released_bytes;
    /* Options of ipsrun; fixed before the command starts. */
    uint32_t procedures; /* enum ips_procedures */
    uint32_t sample_us;  /* CPU time of a thread between two samples, us */
    uint32_t cpu_mode;   /* enum ips_cpu_mode */
    uint32_t on_full;    /* enum ips_on_full */
    uint32_t budget_ppm; /* procedures=exact: maximal share of the CPU time for
                            recording */
    uint32_t probe_extra_ns; /* tests: extra CPU time burnt at every record */
    /* Cost of each kind of probe in thousandths of a ns, measured on this
     * machine before the start; index: enum ips_probe. */
    uint64_t probe_cost_ps[IPS_PROBE_FIRST];
    uint32_t receive_stamps; /* 1: QUEUE precedes the RECV of a datagram that
                                waited in the kernel */
    uint32_t delays;         /* 1: RUNDELAY records are written */
    /* Costs of the probes from IPS_PROBE_FIRST on, below IPS_PROBE_LAST. */
    uint64_t probe_more_ps[IPS_PROBE_LAST - IPS_PROBE_FIRST];
    uint32_t locks; /* enum ips_locks */
    /* The slave that drains the run, if that slave is in the initial pid
     * namespace: its pid there, and the address that get_robust_list() returns
     * for it. The address is randomised like the address space, so it
     * distinguishes the slave from another process with that pid. slave_pid 0:
     * unknown. */
    uint32_t slave_pid;
    uint64_t slave_list;
    uint64_t probe_spawn_ps; /* cost of IPS_PROBE_SPAWN */
    /* Total size of all spare segments made so far; only the slave stores it.
     * In use = used_bytes + spare_bytes - released_bytes. */
    _Atomic uint64_t spare_bytes;
    uint64_t probe_late_ps[IPS_PROBE_COSTS - IPS_PROBE_LATE];
    /* 1: a process of the run holds the master side of a pseudo terminal; only
     * then are reads and writes of pseudo terminals matched. */
    _Atomic uint32_t has_pty_master;
    uint32_t reserved;
};

static inline uint64_t ips_control_bytes_in_use(const struct ips_control *c)
{
    uint64_t made = atomic_load_explicit(&c->used_bytes, memory_order_relaxed) +
                    atomic_load_explicit(&c->spare_bytes, memory_order_relaxed);
    uint64_t freed =
        atomic_load_explicit(&c->released_bytes, memory_order_relaxed);
    return made > freed ? made - freed : 0;
}
/* Least size of an archived `control`, which is that of earlier versions. */
#define IPS_CONTROL_LEAST offsetof(struct ips_control, probe_more_ps)

static inline uint64_t ips_probe_cost_ps(const struct ips_control *c,
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
    IPS_CPU_FAST = 0,  /* CPU time is guessed between clock readings */
    IPS_CPU_EXACT = 1, /* the clock is read after every thread switch */
    IPS_CPU_CLOCK = 2, /* the clock is read at every event: the kernel does not
                          show thread switches here (agent/record/cpu.h) */
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
    IPS_SEGMENT_CLOSED = 2, /* the writer is done; next segment: `seq` + 1 */
    IPS_SEGMENT_DRAINED = 3 /* the slave has read all records and zeroed them */
};

struct ips_segment_header { /* 256 bytes */
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;  /* offset of the first record: 256 */
    uint32_t segment_bytes; /* size of the whole file */
    uint32_t seq;           /* 0, 1, 2 ... within the stream */
    uint32_t pid;           /* in the process's own pid namespace */
    uint32_t tid;           /* kernel tid; for an API task, its number */
    uint64_t pidns;         /* inode of the pid namespace, 0 unknown */
    uint64_t image_stamp;   /* raw counter when this image of pid began */
    uint64_t stream_stamp;  /* raw counter when this stream began */
    uint32_t uid;
    uint32_t flags; /* enum ips_segment_flags */
    char comm[16];
    struct ips_clock clock;
    _Atomic uint32_t state; /* enum ips_segment_state */
    _Atomic uint32_t
        abandoned; /* writer has unmapped it: the slave may unlink it */
    _Atomic uint64_t lost[IPS_LOST_COUNT];
    /* Spare segments only (below). taken: set by the process that takes the
     * spare; withdrawn: set by the slave when it takes the spare back. */
    _Atomic uint32_t taken;
    _Atomic uint32_t withdrawn;
    struct ips_current_call begun;
    uint8_t reserved[16];
};

/* Spare segments: POOL/RUN/spare.N. The slave makes them ahead of need, so that
 * a process can take one instead of creating a file. A spare has its full size;
 * its first page exists and is zero except for a copy of `control` after the
 * header, which the writer reads and clears. The process that changes `taken`
 * from 0 owns the spare, unless `withdrawn` is set by then; the slave sets
 * `withdrawn` before it checks `taken`. A spare that was taken is renamed to
 * the name of a segment. */
#define IPS_SPARE_PREFIX "spare."
#define IPS_SPARES 128u
#if defined(__x86_64__)
#define IPS_SPARE_FIRST_BYTES 4096u
#else
#define IPS_SPARE_FIRST_BYTES 65536u
#endif
enum ips_segment_flags {
    IPS_SEGMENT_TASK = 1, /* stream of an API task, not of a kernel thread */
    /* --on-full=ring: this segment replaces all segments up to `seq` and holds
     * the records kept of them. If there are two, the one with the higher seq
     * is valid. */
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
    uint64_t t; /* stamp of the event; of a call: its beginning */
};
#define IPS_REC_F_NS 1u /* t and t_ret are ns that the program gave (API) */
/* SEND, RECV: the record also represents earlier ones that were overwritten;
 * `result` is the sum of the bytes of all of them. */
#define IPS_REC_F_SUM 2u
/* START: the stream began in a spare segment. */
#define IPS_REC_F_SPARE 4u
/* SAMPLE: the sample was taken later than its timer expired: at a tick of the
 * kernel or when a call returned. So its address may be biased. */
#define IPS_REC_F_LATE 2u
/* SAMPLE: the first frame is in a loop that only reads memory until the memory
 * changes (agent/unwind/spin_loop.h). */
#define IPS_REC_F_SPINS 4u
/* MARK: the agent keeps the text in a slot, to which later MARK_SHORT records
 * refer. The flags from bit 2 on hold the slot's number, 1 to 8; 0: no slot.
 * Such a text has at most IPS_MARK_PLACE_BYTES, NUL included. */
#define IPS_REC_F_PLACE 2u /* shift of the slot's number */
/* SEND_SHORT, RECV_SHORT: the flags from bit 2 hold `op`. */
#define IPS_REC_F_OP 2u
#define IPS_REC_OP_MAX 31u
#define IPS_MARK_PLACES 8u
#define IPS_MARK_PLACE_BYTES 40u

/* SEND RECV RECVCALL BLOCK; a = channel id (0 none), or for BLOCK of a poll:
 * why the descriptor was ready (pool/ready.h) */
struct ips_rec_io {
    struct ips_rec_head h;
    uint64_t t_ret;
    uint64_t cpu;     /* thread CPU ns at the call */
    uint64_t cpu_ret; /* thread CPU ns at the return */
    int64_t result;   /* bytes moved; RECV 0 = end-of-file; BLOCK: what the call
                         returned */
    uint64_t site;    /* return address of the call, 0 unknown */
    uint16_t op;      /* enum ips_op */
    uint16_t err;     /* errno if the call failed; else 0 */
    uint32_t ready; /* pool/ready.h: BLOCK: the first ready descriptor; RECV of
                       a datagram: whether it was cut off */
};

enum ips_start_kind {
    IPS_START_ROOT = 1,   /* ipsrun just before it execs CMD */
    IPS_START_FORK = 2,   /* child of fork */
    IPS_START_IMAGE = 3,  /* after exec (or spawn, vfork+exec: a new process) */
    IPS_START_THREAD = 4, /* new thread */
    IPS_START_TASK = 5,   /* API task */
    /* Not a start: names the creator of a thread whose recording began before
     * its creator was known, in the handler of a pending signal. */
    IPS_START_KNOWN = 6,
};
struct ips_rec_start { /* a = enum ips_start_kind */
    struct ips_rec_head h;
    uint64_t cpu;      /* thread CPU ns at this record (fork, thread: 0) */
    uint64_t fork_seq; /* FORK/THREAD: `fork_seq` of the FORK record; else 0 */
    uint32_t ppid;     /* parent process; THREAD, TASK: its own process */
    uint32_t ptid;     /* thread that forked, 0 unknown */
    uint64_t parent_image; /* FORK/THREAD/TASK: image_stamp of the parent */
    uint64_t parent_t;     /* always 0 */
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
/* SEND_SHORT, RECV_SHORT: the thread has not left its core since the last long
 * SEND or RECV in the same segment returned. CPU time at the call and at the
 * return is therefore that record's `cpu_ret` plus the time since its return.
 * err and ready are 0. */
struct ips_rec_io_short { /* a = channel id */
    struct ips_rec_head h;
    uint32_t took;   /* t_ret - t, in stamps */
    uint32_t result; /* bytes moved */
    uint64_t site;
};

/* FORK, JOIN, KILL and CLOSE may have one more word after their structure: the
 * return address of the program's call, 0 unknown. */
#define IPS_REC_SITE_BYTES 8u
#define IPS_REC_LENGTH_BYTES 8u /* length word of a RECORD_LOCK */

struct ips_rec_fork { /* a = child's pid (process), 0 unknown */
    struct ips_rec_head h;
    uint64_t t_ret;
    uint64_t cpu;
    uint64_t cpu_ret;
    uint64_t fork_seq; /* unique in the image; the child's START repeats it */
    uint32_t kind;     /* enum ips_fork_kind */
    uint32_t err;      /* errno if nothing was created, else 0 */
};

enum ips_join_kind {
    IPS_JOIN_WAIT = 1,   /* a = child's pid */
    IPS_JOIN_THREAD = 2, /* seq = fork_seq of the thread's FORK */
    IPS_JOIN_SYSTEM = 3, /* return of system/pclose: seq = fork_seq */
    IPS_JOIN_TASK = 4,
    IPS_JOIN_GONE = 5, /* a test found that the process was gone: a = its pid */
};
struct ips_rec_join { /* a = child's pid or 0 */
    struct ips_rec_head h;
    uint64_t t_ret;
    uint64_t cpu;
    uint64_t cpu_ret;
    uint64_t seq;
    uint64_t child_cpu_ns; /* CPU time (rusage) of the child and of the children
                              that it waited for; ~0: unknown */
    uint32_t status;       /* as wait() returns it */
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

/* MARK_SHORT: a head only; `a` is a slot number. The text is that of the last
 * MARK before it with the same slot, always in the same segment. CPU time is
 * that of the last MARK with any slot, plus the time since. */
struct ips_rec_text { /* a = length without the NUL */
    struct ips_rec_head h;
    uint64_t cpu;
    char text[]; /* NUL ended, padded to 8 bytes, at most 512 */
};

struct ips_rec_cpu { /* a = tid; PAGEFAULT: number of major page faults */
    struct ips_rec_head h;
    uint64_t cpu;
};

/* The kernel's run delay of this thread since the thread was created
 * (sched_info's run_delay), wake-up latencies included. Written after the
 * thread was off its core, at most every IPS_DELAY_EVERY_NS, and at END; never
 * written if the kernel does not keep the figure. */
struct ips_rec_delay { /* a = ns that the reading took */
    struct ips_rec_head h;
    uint64_t delay_ns;
};
#define IPS_DELAY_EVERY_NS 2000000u

/* How much of the thread's CPU time was guessed (agent/record/cpu_guess.h) and
 * how wrong the guesses were, both since the thread started: the last such
 * record of a stream holds the totals. Written after the guesses were corrected
 * by a reading of the clock, at most once every IPS_GUESSED_EVERY_NS, and
 * before END. */
struct ips_rec_guessed { /* a = number of clock readings that corrected guesses
                          */
    struct ips_rec_head h;
    uint64_t guessed_ns; /* CPU time that was guessed */
    uint64_t off_ns; /* sum of the absolute errors of the recorded CPU time at
                        the readings that `a` counts */
    uint64_t off_max_ns; /* largest absolute error */
};
#define IPS_GUESSED_EVERY_NS 10000000u

/* Counts the calls on files that left no record since the last CALLS of this
 * stream. Their cost counts as recording overhead. `a` is further overhead
 * (ns). The agent measured most of it (IPS_APART): work without a probe cost,
 * or beyond it, such as the first call stack of an image, growth of the pool,
 * names of channels, and readings of the CPU clock that no record shows. `a`
 * also includes the probe costs of opens, of unrecorded reads and writes, and
 * of free locks. The first CALLS of an image or fork child holds the cost of
 * its start. Later ones are written every IPS_CALLS_EVERY calls, at a sample
 * when `a` reached IPS_BEYOND_DUE_NS, and before END and EXEC when there were
 * IPS_CALLS_LEAST calls or IPS_BEYOND_LEAST_NS. */
struct ips_rec_calls { /* a = ns of agent work without a probe cost, 0 in
                          earlier versions */
    struct ips_rec_head h;
    uint64_t calls;
};
#define IPS_CALLS_EVERY 4096u
#define IPS_CALLS_LEAST 64u
#define IPS_BEYOND_DUE_NS 1000000u
#define IPS_BEYOND_LEAST_NS 2000u

/* ENTER_SHORT, EXIT_SHORT: a head only. It refers to the last long ENTER or
 * EXIT, which is in the same segment. `a` is the lower half of the procedure's
 * address; the upper half is the same as in the long record. The thread has not
 * left its core since, so its CPU time is that of the long record plus the time
 * between the two. */
struct ips_rec_proc { /* ENTER, EXIT: a = 0 */
    struct ips_rec_head h;
    uint64_t cpu;
    uint64_t procedure; /* address of its entry */
};

/* The modules of an image follow its START and NAME (not with procedures=off).
 * A module loaded later is recorded when one of its addresses is first seen:
 * before the SAMPLE that needs it, but a call's own record or a STACK may
 * precede its MODULE. gone = 1 (path empty) at dlclose. [start, end) is the
 * whole mapping. A fork child has the modules of its parent. */
struct ips_rec_module { /* a = length of path */
    struct ips_rec_head h;
    uint64_t start; /* the module's addresses are [start, end) */
    uint64_t end;
    uint64_t bias; /* address - bias = address in the file's symbol table */
    uint8_t build_id[20];
    uint8_t build_id_bytes; /* 0: no build id */
    uint8_t gone;
    uint8_t go; /* 1: it has an ELF note of Go's linker */
    uint8_t reserved;
    char path[]; /* NUL ended, padded to 8 bytes, at most 512 */
};

#define IPS_FRAMES_MAX 64u
/* A sample represents one period of the thread's CPU time. A stack with more
 * frames is cut at its outer end. A SAMPLE without frames marks where the
 * sampling of the thread starts. */
struct ips_rec_sample { /* a = number of frames */
    struct ips_rec_head h;
    uint64_t cpu;       /* thread CPU at the sample */
    uint64_t period_ns; /* requested CPU time between two samples */
    uint64_t frames[];  /* program counter first, then return addresses */
};

/* Follows a SEND, RECV, RECVCALL, BLOCK, JOIN or ACQUIRE of more than 50 us.
 * Omitted if the stack pointer was the same as at the last STACK of the same
 * call site in this stream: that STACK is then valid again. */
struct ips_rec_stack { /* a = frames; h.t = `t` of the record before it */
    struct ips_rec_head h;
    uint64_t frames[]; /* return addresses, the call's own first */
};

/* Calls of one procedure that left no ENTER. 0 calls: from `t` on the procedure
 * has no ENTER records. */
struct ips_rec_count { /* a = tid of the calling thread, 0: the writer */
    struct ips_rec_head h;
    uint64_t procedure; /* address of its entry */
    uint64_t calls;     /* since the last COUNT of the same procedure */
};

/* ACQUIRE: a wait for the object has ended; written only if the thread really
 * waited (and at every barrier). RELEASE: an unlock, post, wake or write;
 * written at least whenever a thread may be waiting. The object is (dev, ino,
 * object): in private memory of this image 0, 0, the address; in shared memory
 * the file's device and inode and the offset in it; for a descriptor its
 * device, inode (eventfd: its id) and 0 or the lock's start (RECORD_LOCK: one
 * more word has its length); others: docs/pool-format.md. */
struct ips_rec_sync { /* a = enum ips_sync */
    struct ips_rec_head h;
    uint64_t t_ret;
    uint64_t cpu;
    uint64_t cpu_ret;
    uint64_t dev;
    uint64_t ino;
    uint64_t object;
    uint64_t site;
    /* RELEASE: number of waiters that it released; -1: all (broadcast). ACQUIRE
     * of a condition: 0; of a barrier: 1 in the serial thread, else 0; with err
     * EOWNERDEAD: the tid of the owner that died. Other ACQUIREs: 0: the thread
     * slept (1: for a file lock, eventfd, terminal or watched directory); 1: a
     * mutex was taken again after the wait in the record before; 2: the thread
     * tried again and again; 3: the lock was free (as in ACQUIRE_SHORT, for
     * shared memory). */
    int32_t value;
    uint32_t err; /* ACQUIRE: errno of the wait (ETIMEDOUT), 0 acquired */
};

/* ACQUIRE_SHORT: a lock was taken without waiting (t: the moment it was held).
 * RELEASE_SHORT: a lock was released and no thread was seen waiting for it (t:
 * before the call). Written only with --locks=all, and only for locks in memory
 * that this process shares with no other. */
struct ips_rec_lock { /* a = enum ips_sync */
    struct ips_rec_head h;
    uint64_t cpu;    /* thread CPU at t */
    uint64_t object; /* address of the lock */
};

enum ips_signal_how {
    IPS_KILL_PROCESS = 1, /* kill, killpg, pidfd_send_signal */
    IPS_KILL_QUEUE = 2,   /* sigqueue */
    /* raise, pthread_kill, tgkill, pthread_sigqueue, pthread_cancel */
    IPS_KILL_THREAD = 3,
    IPS_SIGNAL_HANDLER = 16,
    /* sigwait, sigwaitinfo, sigtimedwait; also a wait that reported a change of
       child `pid`: SIGCHLD, CLD_STOPPED or CLD_CONTINUED */
    IPS_SIGNAL_WAIT = 17,
    IPS_SIGNAL_FD = 18, /* the program read it from a signalfd */
    /* the first ready descriptor of a poll is a pidfd: process `pid` ended
     * (SIGCHLD, CLD_EXITED); follows the poll's BLOCK, at its return */
    IPS_SIGNAL_PIDFD = 19,
    /* a thread ends because a KILL of IPS_CANCEL from its own process cancelled
     * it; written after the cleanup handlers, before its END */
    IPS_SIGNAL_CANCELLED = 20,
};
/* The signal with which the C library's pthread_cancel cancels a thread. */
#define IPS_CANCEL 32u
struct ips_rec_signal { /* KILL, SIGNAL: a = signal number */
    struct ips_rec_head h;
    uint64_t cpu;
    int32_t pid;  /* KILL: target as passed (a thread: its process; <= 0 a
                     group); SIGNAL: si_pid, 0 none */
    int32_t tid;  /* KILL of a thread: its tid, else 0 */
    int32_t code; /* SIGNAL: si_code */
    uint32_t how; /* enum ips_signal_how */
    /* KILL by sigqueue, SIGNAL with SI_QUEUE or SI_TIMER: si_value. SIGNAL with
     * SI_MESGQ: the `ino` of the queue's ACQUIREs, 0 unknown. SIGNAL that the
     * kernel sent because a descriptor became ready (fcntl's F_SETSIG,
     * O_ASYNC): `ready` of pool/ready.h, with enum ips_ready_why in the upper
     * half; 0 unknown. */
    uint64_t value;
    uint64_t t_ret; /* same as t: KILL is written before the call, so that a
                       signal to the sender itself comes after it */
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
    uint64_t ino;      /* inode of this end (both ends of a pipe share one) */
    uint64_t peer_ino; /* Unix: inode of the other end, 0 unknown */
    uint64_t cookie;   /* SO_COOKIE, 0: none */
    uint64_t netns;    /* network namespace: SO_NETNS_COOKIE, or inode */
    uint64_t sent_before; /* TCP: bytes sent and received before this record */
    uint64_t recv_before;
    uint64_t name_hash; /* hash of the name (USER) or of the bound or peer path
                           (Unix) */
    uint32_t peer_pid;  /* Unix: pid of the peer, by SO_PEERCRED */
    struct ips_addr local;
    struct ips_addr remote;
    uint32_t reserved2;
};
enum ips_chan_flags {
    IPS_CHAN_CONNECTED = 1, /* this process called connect on the socket */
    IPS_CHAN_ACCEPTED = 2,  /* this process accepted the connection */
    IPS_CHAN_CLOEXEC = 4,
    IPS_CHAN_INHERITED = 8, /* the descriptor was open when the image began */
    /* Seqpacket, O_DIRECT pipe: a receive takes one message, and drops the part
     * that does not fit its buffer. */
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

/* If one call moved several datagrams (UDP_SEGMENT, UDP_GRO), the record
 * continues with one word, the bytes of each datagram but the last, then the
 * hashes of all datagrams but the first. */
struct ips_rec_dgram { /* a = channel id; precedes its SEND or RECV */
    struct ips_rec_head h;
    uint64_t hash;      /* FNV-1a of the payload, first 256 bytes and length */
    uint64_t path_hash; /* Unix datagram: hash of the peer's path, 0 unnamed */
    struct ips_addr local; /* own address, at least its port; 0: unbound */
    struct ips_addr
        remote; /* peer: destination of a send, source of a receive */
};

#endif
