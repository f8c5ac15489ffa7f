/*
 * The agent's core: per-thread streams in the data pool. Linked into libips.so
 * and libips-preload.so; independent of interposition.
 *
 * Agent law (for every function here): no lock, no allocation from the
 * program's malloc (mmap only, never on the recording path), no stdio, errno
 * kept, async-signal-safe. No function calls a libc function that the preload
 * library interposes, except through raw system calls (agent/record/sys.h), so
 * there is no recursion.
 *
 * Recording: rec = ips_rec_begin(type, bytes) reserves space in the calling
 * thread's segment (made on first use) and fills the head; the caller fills the
 * rest; ips_rec_publish() makes the record visible. NULL = not recorded and
 * already counted as lost: the caller does nothing more. A signal handler that
 * records in between gets its own space after it (the reservation is one xadd).
 */
#ifndef IPS_AGENT_RECORD_CORE_H
#define IPS_AGENT_RECORD_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/pool/format.h"

/* Places large tables after all other zero-initialised data (the linker sorts
 * the sections by name). So a process touches little more than one page at its
 * start; each page costs a fault of 1 us. */
#define IPS_TABLE __attribute__((section(".bss.tables")))
#define IPS_TABLE_FIRST                                                        \
    __attribute__((section(".bss.first"))) /* [0] is used                      \
                                            */

/* Reads IPS_POOL and IPS_RUN and maps control. `image_kind` goes into the START
 * of this image. Idempotent. false = not recording (no run, pool missing,
 * version differs): the program runs as if the agent were absent. */
bool ips_core_init(enum ips_start_kind image_kind);
bool ips_core_active(void);
const struct ips_control *ips_core_control(void); /* NULL if inactive */

/* argv of main(), for the image's NAME record; NULL: the agent reads it from
 * /proc. The preload library sets it before ips_core_init. */
extern char **ips_core_arguments __attribute__((visibility("hidden")));

/* Returns IPS_WIPED_BYTES of memory, 64-byte aligned, that the kernel zeroes in
 * every fork child; NULL: not available. */
#define IPS_WIPED_BYTES 4160u
void *ips_core_wiped_memory(void);

uint64_t ips_core_now(void); /* current stamp, test offset applied */
uint64_t ips_core_cpu(void); /* calling thread's CPU, ns */

void *ips_rec_begin(enum ips_rec_type type, size_t bytes);
void *ips_rec_begin_at(enum ips_rec_type type, size_t bytes, uint64_t stamp);
void ips_rec_publish(void *rec);
void ips_core_count_lost(enum ips_lost_cause cause, uint64_t count);

/* Fork. ips_core_fork_before returns the fork_seq for FORK. The child must
 * first call ips_core_fork_child, which drops the parent's segments and starts
 * the child's own stream with START (IPS_START_FORK, cpu 0). A fork without
 * these calls is noticed at the next record, by a MADV_WIPEONFORK page. */
uint64_t ips_core_fork_before(void);
void ips_core_fork_child(uint64_t fork_seq, uint32_t ppid, uint32_t ptid,
                         uint64_t parent_image);
uint64_t ips_core_image_stamp(void);

/* Threads: call ips_core_thread_start in the new thread. ips_core_thread_end
 * writes END (IPS_END_THREAD) and closes its segment. */
void ips_core_thread_start(uint64_t fork_seq, uint32_t ptid);
void ips_core_thread_end(void);

/* Process end: writes END of `kind` in the calling thread and THREADCPU for
 * every other known thread. More records may follow (stdio's flush at exit). */
void ips_core_process_end(enum ips_end_kind kind, int status);

/* true: the program is about to forbid itself system calls (seccomp), so the
 * agent makes none from now on (agent/record/sys.h). It first makes the
 * available space of the calling thread's segment writable; records that do not
 * fit are lost (NO_SEGMENT). CPU times are estimates from then on: a call
 * longer than 2 us counts as waiting, all other time as running. false: the
 * program did not do it after all. */
void ips_core_set_quiet(bool on);
/* Stops recording in this process; no more stamps are taken. */
void ips_core_stop(void);
/* Registers hooks. `begun` is called in a thread right after its stream's START
 * (all signals blocked), `ending` right before its END; not for tasks. `flush`
 * writes records kept in memory, before an END of the process and
 * (ips_core_flush) before an exec. At most one of each, set before init. */
void ips_core_register_hooks(void (*begun)(enum ips_start_kind kind),
                             void (*ending)(void), void (*flush)(void));
void ips_core_flush(void);

#endif
