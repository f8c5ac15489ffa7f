/*
 * Wrappers of name resolution and syslog. The C library talks to the servers by
 * internal calls, so only the wait of the caller can be recorded.
 */
#include "agent/preload/wrap.h"

#include <syslog.h>

/* Body of a wrapper: makes `real_call` and records it as a wait. `result`: an
 * expression of its result `r`; negative: failed. */
#define RESOLVE(type, real_call, result)                                       \
    do {                                                                       \
        if (!ips_wrap_start_library_and_check_recording())                     \
            return real_call;                                                  \
        struct ips_moment call = ips_take_call_moment();                       \
        type r = real_call;                                                    \
        int saved = errno;                                                     \
        ips_record_wait_if_blocked_or_ready(IPS_OP_RESOLVE, call, result,      \
                                            saved, IPS_SITE, 0);               \
        errno = saved;                                                         \
        return r;                                                              \
    } while (0)

IPS_EXPORT int getaddrinfo(const char *name, const char *service,
                           const struct addrinfo *hints, struct addrinfo **out)
{
    RESOLVE(int, REAL(getaddrinfo)(name, service, hints, out), r ? -1 : 0);
}

/* Threads of the C library resolve the names; only time in which this call
 * itself waits is recorded. */
IPS_EXPORT int getaddrinfo_a(int mode, struct gaicb *list[], int n,
                             struct sigevent *event)
{
    RESOLVE(int, REAL(getaddrinfo_a)(mode, list, n, event), r ? -1 : 0);
}

IPS_EXPORT int gai_suspend(const struct gaicb *const list[], int n,
                           const struct timespec *ts)
{
    RESOLVE(int, REAL(gai_suspend)(list, n, ts), r ? -1 : 0);
}

IPS_EXPORT int getnameinfo(const struct sockaddr *addr, socklen_t len,
                           char *host, socklen_t host_len, char *service,
                           socklen_t service_len, int flags)
{
    RESOLVE(int,
            REAL(getnameinfo)(addr, len, host, host_len, service, service_len,
                              flags),
            r ? -1 : 0);
}

IPS_EXPORT struct hostent *gethostbyname(const char *name)
{
    RESOLVE(struct hostent *, REAL(gethostbyname)(name), r ? 0 : -1);
}

IPS_EXPORT struct hostent *gethostbyname2(const char *name, int family)
{
    RESOLVE(struct hostent *, REAL(gethostbyname2)(name, family), r ? 0 : -1);
}

IPS_EXPORT struct hostent *gethostbyaddr(const void *addr, socklen_t len,
                                         int family)
{
    RESOLVE(struct hostent *, REAL(gethostbyaddr)(addr, len, family),
            r ? 0 : -1);
}

IPS_EXPORT int gethostbyname_r(const char *name, struct hostent *entry,
                               char *buf, size_t n, struct hostent **out,
                               int *err)
{
    RESOLVE(int, REAL(gethostbyname_r)(name, entry, buf, n, out, err),
            r ? -1 : 0);
}

IPS_EXPORT int gethostbyname2_r(const char *name, int family,
                                struct hostent *entry, char *buf, size_t n,
                                struct hostent **out, int *err)
{
    RESOLVE(int, REAL(gethostbyname2_r)(name, family, entry, buf, n, out, err),
            r ? -1 : 0);
}

IPS_EXPORT int gethostbyaddr_r(const void *addr, socklen_t len, int family,
                               struct hostent *entry, char *buf, size_t n,
                               struct hostent **out, int *err)
{
    RESOLVE(int,
            REAL(gethostbyaddr_r)(addr, len, family, entry, buf, n, out, err),
            r ? -1 : 0);
}

IPS_EXPORT int res_query(const char *name, int klass, int type,
                         unsigned char *answer, int len)
{
    RESOLVE(int, REAL(res_query)(name, klass, type, answer, len), r);
}
int __res_query(const char *, int, int, unsigned char *, int)
    IPS_ALIAS(res_query);

IPS_EXPORT int res_search(const char *name, int klass, int type,
                          unsigned char *answer, int len)
{
    RESOLVE(int, REAL(res_search)(name, klass, type, answer, len), r);
}
int __res_search(const char *, int, int, unsigned char *, int)
    IPS_ALIAS(res_search);

IPS_EXPORT int res_querydomain(const char *name, const char *domain, int klass,
                               int type, unsigned char *answer, int len)
{
    RESOLVE(int, REAL(res_querydomain)(name, domain, klass, type, answer, len),
            r);
}
int __res_querydomain(const char *, const char *, int, int, unsigned char *,
                      int) IPS_ALIAS(res_querydomain);

IPS_EXPORT int res_send(const unsigned char *msg, int msg_len,
                        unsigned char *answer, int len)
{
    RESOLVE(int, REAL(res_send)(msg, msg_len, answer, len), r);
}
int __res_send(const unsigned char *, int, unsigned char *, int)
    IPS_ALIAS(res_send);

IPS_EXPORT int res_nquery(struct __res_state *state, const char *name,
                          int klass, int type, unsigned char *answer, int len)
{
    RESOLVE(int, REAL(res_nquery)(state, name, klass, type, answer, len), r);
}
int __res_nquery(struct __res_state *, const char *, int, int, unsigned char *,
                 int) IPS_ALIAS(res_nquery);

IPS_EXPORT int res_nsearch(struct __res_state *state, const char *name,
                           int klass, int type, unsigned char *answer, int len)
{
    RESOLVE(int, REAL(res_nsearch)(state, name, klass, type, answer, len), r);
}
int __res_nsearch(struct __res_state *, const char *, int, int, unsigned char *,
                  int) IPS_ALIAS(res_nsearch);

IPS_EXPORT int res_nquerydomain(struct __res_state *state, const char *name,
                                const char *domain, int klass, int type,
                                unsigned char *answer, int len)
{
    RESOLVE(
        int,
        REAL(res_nquerydomain)(state, name, domain, klass, type, answer, len),
        r);
}
int __res_nquerydomain(struct __res_state *, const char *, const char *, int,
                       int, unsigned char *, int) IPS_ALIAS(res_nquerydomain);

IPS_EXPORT int res_nsend(struct __res_state *state, const unsigned char *msg,
                         int msg_len, unsigned char *answer, int len)
{
    RESOLVE(int, REAL(res_nsend)(state, msg, msg_len, answer, len), r);
}
int __res_nsend(struct __res_state *, const unsigned char *, int,
                unsigned char *, int) IPS_ALIAS(res_nsend);

/* --- syslog --------------------------------------------------------------- */

IPS_EXPORT void vsyslog(int priority, const char *format, va_list ap)
{
    if (!ips_wrap_start_library_and_check_recording()) {
        REAL(vsyslog)(priority, format, ap);
        return;
    }
    int saved = errno; /* the format may print errno (%m) */
    struct ips_moment call = ips_take_call_moment();
    errno = saved;
    REAL(vsyslog)(priority, format, ap);
    saved = errno;
    ips_record_wait_if_blocked_or_ready(IPS_OP_SYSLOG, call, 0, 0, IPS_SITE, 0);
    errno = saved;
}

void __vsyslog_chk(int priority, int flag, const char *format, va_list ap);
IPS_EXPORT void __vsyslog_chk(int priority, int flag, const char *format,
                              va_list ap)
{
    if (!ips_wrap_start_library_and_check_recording()) {
        REAL(__vsyslog_chk)(priority, flag, format, ap);
        return;
    }
    struct ips_moment call = ips_take_call_moment();
    REAL(__vsyslog_chk)(priority, flag, format, ap);
    int saved = errno;
    ips_record_wait_if_blocked_or_ready(IPS_OP_SYSLOG, call, 0, 0, IPS_SITE, 0);
    errno = saved;
}

IPS_EXPORT void syslog(int priority, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsyslog(priority, format, ap);
    va_end(ap);
}

void __syslog_chk(int priority, int flag, const char *format, ...);
IPS_EXPORT void __syslog_chk(int priority, int flag, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    __vsyslog_chk(priority, flag, format, ap);
    va_end(ap);
}
