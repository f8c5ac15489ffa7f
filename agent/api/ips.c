/* The exported functions of the API. This file is part of libips and, compiled
 * with IPS_PRELOAD, of the preload library, which then exports its table, too.
 */
#include <stddef.h>

#include "agent/api/api.h"

#ifdef IPS_PRELOAD
IPS_API extern const struct ips_api *const ips_preload_api;
const struct ips_api *const ips_preload_api = &ips_api_own;

static const struct ips_api *find_api(void)
{
    return &ips_api_own;
}
#else
extern const struct ips_api *const ips_preload_api
    __attribute__((weak, visibility("default")));

static const struct ips_api *find_api(void)
{
    if (&ips_preload_api && ips_preload_api->version == IPS_API_VERSION)
        return ips_preload_api;
    return &ips_api_own;
}

/* Attaches to the run at load time, while the process has one thread: attaching
 * is not thread-safe, and the program's first API calls may come from several
 * threads at once. */
static __attribute__((constructor)) void attach_at_load(void)
{
    find_api()->active();
}
#endif

int ips_active(void)
{
    return find_api()->active();
}

void ips_mark(const char *text)
{
#ifdef IPS_PRELOAD
    ips_record_mark(text);
#else
    find_api()->mark(text);
#endif
}

struct ips_task *ips_task_start(const char *name, const struct ips_stamp *at)
{
    return find_api()->task_fork(NULL, IPS_NOW, name, at);
}

struct ips_task *ips_task_fork(struct ips_task *parent,
                               const struct ips_stamp *parent_at,
                               const char *name, const struct ips_stamp *at)
{
    return find_api()->task_fork(parent, parent_at, name, at);
}

void ips_task_send(struct ips_task *task, const char *channel, uint64_t bytes,
                   const struct ips_stamp *at)
{
    find_api()->task_send(task, channel, bytes, at);
}

void ips_task_recv(struct ips_task *task, const char *channel, uint64_t bytes,
                   const struct ips_stamp *call, const struct ips_stamp *ret)
{
    find_api()->task_recv(task, channel, bytes, call, ret);
}

void ips_task_join(struct ips_task *task, struct ips_task *child,
                   const struct ips_stamp *call, const struct ips_stamp *ret)
{
    find_api()->task_join(task, child, call, ret);
}

void ips_task_end(struct ips_task *task, const struct ips_stamp *at)
{
    find_api()->task_end(task, at);
}

void ips_task_free(struct ips_task *task)
{
    find_api()->task_free(task);
}
