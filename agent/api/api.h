/*
 * The API's functions as a table. A process may contain two copies of the API,
 * in the preload library and in libips, but must have one state. So the preload
 * library exports its table, and libips passes every call on to that table.
 * libips uses its own copy only if the preload library is not loaded. (Symbol
 * interposition is not enough: dlsym on libips' handle, as from Python, finds
 * libips' own functions.)
 */
#ifndef IPS_AGENT_API_API_H
#define IPS_AGENT_API_API_H

#include "agent/api/ips.h"

#define IPS_API_VERSION 1

struct ips_api {
    unsigned version; /* IPS_API_VERSION; libips ignores a table of another
                         version */
    int (*active)(void);
    void (*mark)(const char *text);
    struct ips_task *(*task_fork)(struct ips_task *parent,
                                  const struct ips_stamp *parent_at,
                                  const char *name, const struct ips_stamp *at);
    void (*task_send)(struct ips_task *task, const char *channel,
                      uint64_t bytes, const struct ips_stamp *at);
    void (*task_recv)(struct ips_task *task, const char *channel,
                      uint64_t bytes, const struct ips_stamp *call,
                      const struct ips_stamp *ret);
    void (*task_join)(struct ips_task *task, struct ips_task *child,
                      const struct ips_stamp *call,
                      const struct ips_stamp *ret);
    void (*task_end)(struct ips_task *task, const struct ips_stamp *at);
    void (*task_free)(struct ips_task *task);
};

/* This library's own table (api/task.c). */
extern const struct ips_api ips_api_own __attribute__((visibility("hidden")));
/* Records a mark (api/mark.c). The preload library's table has it as `mark`. */
void ips_record_mark(const char *text) __attribute__((visibility("hidden")));

#endif
