/* Calls that are wrapped for the sake of sampling alone: System V IPC, which is
 * never restarted after a signal, and dlclose. */
#include "agent/wrap.h"

#include <dlfcn.h>
#include <sys/msg.h>
#include <sys/sem.h>

#include "agent/modules.h"
#include "agent/wrap_sample.h"

IPS_EXPORT int semop(int id, struct sembuf *ops, size_t n)
{
    int r;
    ips_wrap_on();
    IPS_UNDISTURBED(r, REAL(semop)(id, ops, n), r == -1, errno, (void)0);
    return r;
}

IPS_EXPORT int semtimedop(int id, struct sembuf *ops, size_t n,
                          const struct timespec *ts)
{
    const struct timespec *asked = ts;
    struct timespec room;
    ips_wrap_on();
    struct ips_moment call = {ips_core_now(), 0, 0};
    int r;
    IPS_UNDISTURBED(r, REAL(semtimedop)(id, ops, n, ts), r == -1, errno,
                    ts = ips_wait_left(asked, &call, &room));
    return r;
}

IPS_EXPORT int msgsnd(int id, const void *message, size_t bytes, int flags)
{
    int r;
    ips_wrap_on();
    IPS_UNDISTURBED(r, REAL(msgsnd)(id, message, bytes, flags), r == -1, errno,
                    (void)0);
    return r;
}

IPS_EXPORT ssize_t msgrcv(int id, void *message, size_t bytes, long type,
                          int flags)
{
    ssize_t r;
    ips_wrap_on();
    IPS_UNDISTURBED(r, REAL(msgrcv)(id, message, bytes, type, flags), r == -1,
                    errno, (void)0);
    return r;
}

IPS_EXPORT int dlclose(void *handle)
{
    int r = 0;
    bool on = ips_wrap_on();
    r = REAL(dlclose)(handle);
    if (on) {
        int saved = errno;
        ips_modules_closed();
        errno = saved;
    }
    return r;
}
