/*
 * libips: the agent's explicit API, for what the interposer cannot see. Plain
 * C ABI, usable from any language. Nothing here ever blocks, prints, or fails
 * the program: where no run is being recorded every call returns at once.
 *
 * Two uses:
 *  - marks in the calling thread: ips_mark(). "begin NAME ..." and "end NAME
 * ..." (NAME one word) hold a request, which `ipsq requests` tells of.
 *  - tasks: chains of one's own (green threads, simulated processes, a message
 *    system in shared memory). A task's stamps are given by the caller or, with
 *    IPS_NOW, taken from the clocks.
 *
 * A task belongs to one thread at a time; different tasks may be used by
 * different threads at once. The stamps of one task are all given or all
 * IPS_NOW; with IPS_NOW it stays in the thread that started it, whose CPU clock
 * is its own. A fork child has none of its parent's tasks: calls with them do
 * nothing there.
 *
 * A mark goes into the stream of the calling thread, which has one only where
 * the program runs under ipsrun (the preload library): a program that is merely
 * linked with libips records its tasks and nothing else.
 */
#ifndef IPS_AGENT_API_IPS_H
#define IPS_AGENT_API_IPS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IPS_API __attribute__((visibility("default")))

struct ips_task;

/* A moment: elapsed ns on this machine's clock (any zero) and the task's own
 * CPU ns since its start. IPS_NOW (NULL) = read the clocks. */
struct ips_stamp {
    uint64_t t_ns;
    uint64_t cpu_ns;
};
#define IPS_NOW ((const struct ips_stamp *)0)

/* 1 where this process is being recorded, else 0. */
IPS_API int ips_active(void);

/* Puts `text` (at most 511 bytes kept) in the calling thread's stream. */
IPS_API void ips_mark(const char *text);

/* Starts a chain named `name`. NULL where nothing is recorded; every other
 * call takes a NULL task and does nothing. `parent` may be NULL: a root. Where
 * it is given, a FORK is recorded in `parent` at `parent_at` and the child's
 * START hangs on it. */
IPS_API struct ips_task *ips_task_start(const char *name,
                                        const struct ips_stamp *at);
IPS_API struct ips_task *ips_task_fork(struct ips_task *parent,
                                       const struct ips_stamp *parent_at,
                                       const char *name,
                                       const struct ips_stamp *at);

/* `channel` is a name shared by both ends on whatever machine; bytes are
 * counted in order per channel, from one sending task to one receiving task.
 * A receive has the stamps of its call and of its return; where one of them is
 * IPS_NOW the other stands for both. */
IPS_API void ips_task_send(struct ips_task *task, const char *channel,
                           uint64_t bytes, const struct ips_stamp *at);
IPS_API void ips_task_recv(struct ips_task *task, const char *channel,
                           uint64_t bytes, const struct ips_stamp *call,
                           const struct ips_stamp *ret);

/* Takes the end of `child` (which must have been ended by ips_task_end). */
IPS_API void ips_task_join(struct ips_task *task, struct ips_task *child,
                           const struct ips_stamp *call,
                           const struct ips_stamp *ret);

/* Ends the chain; the handle stays valid for one ips_task_join and is freed
 * by ips_task_free. */
IPS_API void ips_task_end(struct ips_task *task, const struct ips_stamp *at);
IPS_API void ips_task_free(struct ips_task *task);

#ifdef __cplusplus
}
#endif

#endif
