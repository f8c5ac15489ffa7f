/*
 * The agent's core: per-thread streams in the data pool. Linked into libips.so
 * and libips-preload.so; independent of interposition.
 *
 * Rules for every function here: it takes no lock, does not call the program's
 * malloc (it uses mmap, and not even that on the recording path) or stdio, does
 * not change errno, and is async-signal-safe. Instead of libc functions that
 * the preload library interposes, it makes raw system calls
 * (agent/record/sys.h), so there is no recursion.
 *
 * Recording: rec = ips_rec_begin(type, bytes) reserves space in the calling
 * thread's segment (made on first use) and fills the head; the caller fills the
 * rest; ips_rec_publish() makes the record visible. If ips_rec_begin returns
 * NULL, the record cannot be written (if recording is on, it is already counted
 * as lost), and the caller does nothing more. A signal handler that records in
 * between gets its own space behind that record (a reservation is one xadd).
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
    __attribute__((section(".bss.first"))) /* tables whose entry 0 is used */

/* Starts recording in this process: reads IPS_POOL and IPS_RUN and maps the
 * run's control file. `image_kind` goes into the START of this image.
 * Idempotent. Returns false if nothing is recorded (no run, pool missing,
 * version differs): the program then runs as if the agent were absent. */
bool ips_core_init_and_start_main_stream(enum ips_start_kind image_kind);
bool ips_core_is_recording(void);
const struct ips_control *ips_core_control(void); /* NULL: not recording */

/* argv of main(), for the image's NAME record. NULL: the agent reads the
 * command line from /proc. The preload library sets it before ips_core_init. */
extern char **ips_core_arguments __attribute__((visibility("hidden")));

/* Returns IPS_WIPED_BYTES of memory, 64-byte aligned, that the kernel zeroes in
 * every fork child; NULL: not available. */
#define IPS_WIPED_BYTES 4160u
void *ips_core_get_memory_wiped_on_fork(void);

uint64_t ips_core_stamp_now(void); /* current stamp (test options applied) */
uint64_t ips_core_thread_cpu_ns(void); /* calling thread's CPU time, ns */

void *ips_rec_begin(enum ips_rec_type type, size_t bytes);
void *ips_rec_begin_at(enum ips_rec_type type, size_t bytes, uint64_t stamp);
void ips_rec_publish(void *rec);
void ips_core_count_and_write_lost(enum ips_lost_cause cause, uint64_t count);

/* Fork. ips_core_prepare_fork_and_get_seq returns the fork_seq for FORK. The
 * child must first call ips_core_reset_and_start_in_fork_child, which drops the
 * parent's segments and starts the child's own stream with START
 * (IPS_START_FORK, cpu 0). If a child does not, the core notices the fork at
 * the next record, by a MADV_WIPEONFORK page.
 */
uint64_t ips_core_prepare_fork_and_get_seq(void);
void ips_core_reset_and_start_in_fork_child(uint64_t fork_seq, uint32_t ppid,
                                            uint32_t ptid,
                                            uint64_t parent_image);
uint64_t ips_core_image_stamp(void);

/* Threads: a new thread calls ips_core_begin_thread_stream. At its end it calls
 * ips_core_end_thread_stream, which writes END (IPS_END_THREAD) and closes its
 * segments. */
void ips_core_begin_thread_stream(uint64_t fork_seq, uint32_t ptid);
void ips_core_end_thread_stream(void);

/* Process end: writes END of `kind` in the calling thread and THREADCPU for
 * every other known thread. More records may follow (stdio's flush at exit). */
void ips_core_record_process_end(enum ips_end_kind kind, int status);

/* Quiet mode. Call with true if the program is about to forbid itself system
 * calls (seccomp): the agent makes none from now on (agent/record/sys.h). First
 * the function makes as much as possible of the calling thread's segment
 * writable; records that do not fit are lost (NO_SEGMENT). CPU times are
 * estimates from then on: a call of 2 us or more counts as waiting, all other
 * time as running. Call with false if the program could not install its filter.
 */
void ips_core_prepare_and_set_syscalls_forbidden(bool on);
/* Stops recording in this process. The agent takes no more stamps. */
void ips_core_stop_recording(void);
/* Registers hooks. The core calls `begun` in a thread right after its stream's
 * START (all signals blocked), and `ending` right before its END, but not for
 * tasks. It calls `flush`, which writes records that are still in memory,
 * before an END of the process and, by ips_core_write_pending_counts, before an
 * exec. Register at most one of each, before ips_core_init. */
void ips_core_register_hooks(void (*begun)(enum ips_start_kind kind),
                             void (*ending)(void), void (*flush)(void));
void ips_core_write_pending_counts(void);

#endif
