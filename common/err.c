#include "common/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int set_error_v(struct ips_err *e, int code, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

static int set_error_v(struct ips_err *e, int code, const char *fmt, va_list ap)
{
    if (e) {
        e->code = code;
        vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
    }
    return code;
}

int ips_err_set(struct ips_err *e, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set_error_v(e, code, fmt, ap);
    va_end(ap);
    return code;
}

int ips_err_wrap(struct ips_err *e, int code, const char *fmt, ...)
{
    if (!e)
        return code;
    char inner[sizeof(e->msg)];
    memcpy(inner, e->msg, sizeof(inner));
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
    va_end(ap);
    size_t at = strlen(e->msg);
    snprintf(e->msg + at, sizeof(e->msg) - at, ": %s", inner);
    return code;
}

int ips_err_errno(struct ips_err *e, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;
    va_start(ap, fmt);
    set_error_v(e, IPS_E_IO, fmt, ap);
    va_end(ap);
    if (e) {
        size_t at = strlen(e->msg);
        snprintf(e->msg + at, sizeof(e->msg) - at, ": %s", strerror(saved));
    }
    errno = saved;
    return IPS_E_IO;
}

const char *ips_err_text_of_code(int code)
{
    switch (code) {
    case 0:
        return "success";
#define X(name, number, text)                                                  \
    case -(number):                                                            \
        return text;
        IPS_ERRORS(X)
#undef X
    }
    return "unknown error";
}
