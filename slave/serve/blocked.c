/* Describes blocked threads in words; see blocked.h. */
#include "slave/serve/blocked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lock objects below this value are numbers of queues or descriptors; others
 * are addresses.
 */
#define LEAST_ADDRESS 65536u

static const char *lock_kind_text(uint32_t kind)
{
    static const char *const names[] = {
        [IPS_SYNC_MUTEX] = "mutex",
        [IPS_SYNC_RDLOCK] = "rwlock (to read)",
        [IPS_SYNC_WRLOCK] = "rwlock (to write)",
        [IPS_SYNC_COND] = "condition",
        [IPS_SYNC_BARRIER] = "barrier",
        [IPS_SYNC_SEMAPHORE] = "semaphore or queue",
        [IPS_SYNC_SPIN] = "spin lock",
        [IPS_SYNC_FLOCK] = "lock of the file with descriptor",
        [IPS_SYNC_RECORD_LOCK] = "lock in the file with descriptor",
        [IPS_SYNC_FUTEX] = "futex",
        [IPS_SYNC_FIFO] = "other end of a FIFO or a file",
    };
    return kind < sizeof(names) / sizeof(*names) && names[kind] ? names[kind]
                                                                : "lock";
}

static const char *text_of_awaited_event(uint32_t op)
{
    switch (op) {
    case IPS_OP_SLEEP:
        return "its time (sleep)";
    case IPS_OP_SIGWAIT:
    case IPS_OP_SIGNALFD:
        return "a signal";
    case IPS_OP_EVENTFD:
        return "an eventfd";
    case IPS_OP_TIMERFD:
        return "a timer";
    case IPS_OP_TERMINAL:
        return "the terminal";
    case IPS_OP_DISK:
        return "a file";
    case IPS_OP_POLL:
    case IPS_OP_SELECT:
    case IPS_OP_EPOLL:
        return "an event (poll)";
    default:
        return "something not recorded";
    }
}

static int format_lock_wait(char **text, const struct ips_current_call *begun)
{
    const char *name = lock_kind_text(IPS_BEGUN_NUMBER(begun->what));
    const unsigned long long object = begun->object;
    if (object >= LEAST_ADDRESS)
        return asprintf(text, "the %s at 0x%llx", name, object);
    return object ? asprintf(text, "the %s %llu", name, object)
                  : asprintf(text, "the %s", name);
}

static int format_join_wait(char **text, const struct ips_current_call *begun)
{
    const uint32_t pid = IPS_BEGUN_NUMBER(begun->what);
    if (pid)
        return asprintf(text, "the end of process %u", pid);
    return asprintf(text, "the end of a %s",
                    begun->object ? "thread" : "child");
}

static int format_channel_wait(char **text, const struct ips_built *b,
                               const struct ips_blocked_row *r)
{
    const uint32_t op = IPS_BEGUN_OP(r->begun.what);
    const char *on = r->end == IPS_NONE ? "a channel" : b->ends[r->end].name;
    if (op == IPS_OP_CONNECT || op == IPS_OP_ACCEPT)
        return asprintf(text, "a connection");
    if (IPS_BEGUN_TYPE(r->begun.what) == IPS_REC_SEND)
        return asprintf(text, "room in %s", on);
    return asprintf(text, "bytes from %s", on);
}

char *slave_blocked_describe_wait(const struct ips_built *b,
                                  const struct ips_blocked_row *r)
{
    char *text = NULL;
    int n;
    switch (IPS_BEGUN_TYPE(r->begun.what)) {
    case IPS_REC_ACQUIRE:
        n = format_lock_wait(&text, &r->begun);
        break;
    case IPS_REC_JOIN:
        n = format_join_wait(&text, &r->begun);
        break;
    case IPS_REC_SEND:
    case IPS_REC_RECV:
        n = format_channel_wait(&text, b, r);
        break;
    default:
        n = asprintf(&text, "%s",
                     text_of_awaited_event(IPS_BEGUN_OP(r->begun.what)));
        break;
    }
    return n < 0 ? NULL : text;
}

bool slave_blocked_needs_recorded_waker(const struct ips_built *b,
                                        const struct ips_blocked_row *r)
{
    switch (IPS_BEGUN_TYPE(r->begun.what)) {
    case IPS_REC_ACQUIRE:
        return IPS_BEGUN_NUMBER(r->begun.what) != IPS_SYNC_FIFO;
    case IPS_REC_JOIN:
        return r->by != IPS_NONE || !IPS_BEGUN_NUMBER(r->begun.what);
    case IPS_REC_SEND:
    case IPS_REC_RECV:
        return r->end != IPS_NONE && b->ends[r->end].peer == IPS_PEER_LOCAL;
    default:
        return false;
    }
}
