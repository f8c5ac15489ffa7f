/*
 * The agent's core: per-thread streams in the data pool. Linked into libips.so
 * and libips-preload.so; knows nothing of interposition.
 *
 * Agent law (shared by every function here): no lock, no allocation from the
 * program's malloc (mmap only, never on the recording path), no stdio, errno
 * kept, async-signal-safe. Nothing here calls a libc function that the
 * preload library interposes except through raw system calls
 * (agent/record/sys.h), so there is no recursion.
 *
 * Recording: rec = ips_rec_begin(type, bytes) reserves in the calling thread's
 * segment (making it on first use) and fills the head; the caller fills the
 * rest; ips_rec_publish() makes it visible. NULL = not recorded, already
 * counted as lost: the caller does nothing more. A signal handler that records
 * in between gets its own place after it (the reservation is one xadd).
 */
#ifndef IPS_AGENT_RECORD_CORE_H
#define IPS_AGENT_RECORD_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/pool/format.h"

/* Large tables lie behind all else that is zero at first (the linker sorts the
 * sections by name), so that what every process touches when it begins is
 * little more than a page: each is a fault of 1 us. */
#define IPS_TABLE __attribute__((section(".bss.tables")))
#define IPS_TABLE_FIRST                                                        \
    __attribute__((section(".bss.first"))) /* [0] is used                      \
                                            */

/* Reads IPS_POOL and IPS_RUN, maps control. `image_kind` is what START of this
 * image says. Idempotent. false = not recording (no run, pool missing, version
 * differs): the program runs as if we were not there. */
bool ips_core_init(enum ips_start_kind image_kind);
bool ips_core_active(void);
const struct ips_control *ips_core_control(void); /* NULL if inactive */

/* argv of main(), for the image's NAME; NULL: it is read from /proc. Set by the
 * preload library before ips_core_init. */
extern char **ips_core_arguments __attribute__((visibility("hidden")));

/* IPS_WIPED_BYTES that a fork child finds zeroed, 64-byte aligned; NULL: none.
 */
#define IPS_WIPED_BYTES 4160u
void *ips_core_wiped(void);

uint64_t ips_core_now(void); /* stamp, test offset applied */
uint64_t ips_core_cpu(void); /* calling thread's CPU, ns */

void *ips_rec_begin(enum ips_rec_type type, size_t bytes);
void *ips_rec_begin_at(enum ips_rec_type type, size_t bytes, uint64_t stamp);
void ips_rec_publish(void *rec);
void ips_core_lost(enum ips_lost_cause cause, uint64_t count);

/* Fork. `before` returns the fork_seq for FORK; the child calls `child` first
 * of all: it drops the parent's segments and begins its own stream with START
 * (IPS_START_FORK, cpu 0). A fork nobody announced is noticed by a
 * MADV_WIPEONFORK page at the next record. */
uint64_t ips_core_fork_before(void);
void ips_core_fork_child(uint64_t fork_seq, uint32_t ppid, uint32_t ptid,
                         uint64_t parent_image);
uint64_t ips_core_image_stamp(void);

/* Threads: `thread_start` in the new thread; `thread_end` closes its segment
 * with END (IPS_END_THREAD). */
void ips_core_thread_start(uint64_t fork_seq, uint32_t ptid);
void ips_core_thread_end(void);

/* Process end: END of `kind` in the calling thread and THREADCPU for every
 * other thread known. More records may follow (stdio's flush at exit). */
void ips_core_process_end(enum ips_end_kind kind, int status);

/* The program is about to forbid itself system calls; from here on we make
 * none (agent/record/sys.h). What room there is in the calling thread's segment
 * is made before; what does not fit is lost (NO_SEGMENT). CPU times are
 * estimates from then on: a call longer than 2 us waited, all else ran.
 * `false`: it did not come to that. */
void ips_core_quiet(bool on);
/* Nothing more is recorded in this process, and no stamp taken. */
void ips_core_stop(void);
/* Called in a thread right after its stream's START (all signals blocked) and
 * right before its END; not for tasks. `flush`: what is kept in memory is to be
 * written, before an END of the process and (ips_core_flush) before an exec.
 * At most one of each, set before init. */
void ips_core_on_stream(void (*begun)(enum ips_start_kind kind),
                        void (*ending)(void), void (*flush)(void));
void ips_core_flush(void);

#endif
