/*
 * libips: the agent's explicit API, for events that the interposer cannot see.
 * Plain C ABI, usable from any language. No function blocks, prints, or makes
 * the program fail: without a recorded run every call returns at once.
 *
 * Two uses:
 *  - marks in the calling thread: ips_mark(). "begin NAME ..." and "end NAME
 *    ..." (NAME one word) enclose a request, which `ipsq requests` reports.
 *  - tasks: separate chains of events (green threads, simulated processes, a
 *    message system in shared memory). The caller passes the time stamps of a
 *    task's events or, with IPS_NOW, lets the library read the clocks.
 *
 * A task belongs to one thread at a time; different threads may use different
 * tasks at once. For one task, either pass stamps in all calls or IPS_NOW in
 * all calls. With IPS_NOW the task must stay in the thread that started it,
 * because it uses that thread's CPU clock. A fork child has none of its
 * parent's tasks: calls with them do nothing there.
 *
 * A mark goes into the stream of the calling thread. Threads have streams only
 * if the program runs under ipsrun (the preload library): a program that is
 * merely linked with libips records its tasks and nothing else.
 */
#ifndef IPS_AGENT_API_IPS_H
#define IPS_AGENT_API_IPS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IPS_API __attribute__((visibility("default")))

struct ips_task;

/* A time stamp: elapsed ns on this machine's clock, from any zero point, and
 * the task's own CPU time in ns since its start. IPS_NOW (NULL) means: read the
 * clocks now. */
struct ips_stamp {
    uint64_t t_ns;
    uint64_t cpu_ns;
};
#define IPS_NOW ((const struct ips_stamp *)0)

/* Returns 1 if this process is being recorded, else 0. */
IPS_API int ips_active(void);

/* Writes a mark with `text` (truncated to 511 bytes) into the calling thread's
 * stream. Does nothing if the thread has no stream (see above). */
IPS_API void ips_mark(const char *text);

/* ips_task_start starts a chain of events named `name`, without a parent.
 * ips_task_fork also records a FORK in `parent` at `parent_at`, on which the
 * START of the new task depends; with `parent` NULL it does the same as
 * ips_task_start. Both return NULL if nothing is recorded; every other function
 * accepts a NULL task and does nothing. */
IPS_API struct ips_task *ips_task_start(const char *name,
                                        const struct ips_stamp *at);
IPS_API struct ips_task *ips_task_fork(struct ips_task *parent,
                                       const struct ips_stamp *parent_at,
                                       const char *name,
                                       const struct ips_stamp *at);

/* Records a message. `channel` is a name that both ends use, also on different
 * machines. A channel is a byte stream from one sending task to one receiving
 * task. A receive has the stamps of its call and of its return; if only one of
 * them is IPS_NOW, the other is used for both. */
IPS_API void ips_task_send(struct ips_task *task, const char *channel,
                           uint64_t bytes, const struct ips_stamp *at);
IPS_API void ips_task_recv(struct ips_task *task, const char *channel,
                           uint64_t bytes, const struct ips_stamp *call,
                           const struct ips_stamp *ret);

/* Records that `task` waited for the end of `child` (which must have been ended
 * by ips_task_end). */
IPS_API void ips_task_join(struct ips_task *task, struct ips_task *child,
                           const struct ips_stamp *call,
                           const struct ips_stamp *ret);

/* Ends the task's chain of events. The handle stays valid for one
 * ips_task_join; ips_task_free frees it. */
IPS_API void ips_task_end(struct ips_task *task, const struct ips_stamp *at);
IPS_API void ips_task_free(struct ips_task *task);

#ifdef __cplusplus
}
#endif

#endif
