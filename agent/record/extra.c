/* Maps and frees the extra state of a thread; see extra.h. */
#include "agent/record/extra.h"

#include "agent/record/sys.h"

__attribute__((noinline, cold)) struct ips_extra *ips_extra_map(void)
{
    struct ips_thread *me = &ips_me;
    struct ips_extra *none = NULL;
    if (me->stream.state == IPS_STREAM_ENDED)
        return me->extra;
    /* MAP_POPULATE avoids page faults: the caller will write to the pages. */
    uint64_t at = ips_sys_mmap(0, sizeof(*none), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1);
    if (ips_sys_is_error(at))
        return me->extra;
    struct ips_extra *made = (struct ips_extra *)at;
    /* A signal handler may have mapped the state meanwhile. */
    if (__atomic_compare_exchange_n(&me->extra, &none, made, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return made;
    ips_sys_munmap(at, sizeof(*made));
    return none;
}

void ips_extra_free(void)
{
    struct ips_extra *extra = ips_me.extra;
    ips_me.extra = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    if (extra && extra->mmsg)
        ips_sys_munmap((uint64_t)(uintptr_t)extra->mmsg, extra->mmsg_bytes);
    if (extra)
        ips_sys_munmap((uint64_t)(uintptr_t)extra, sizeof(*extra));
}
