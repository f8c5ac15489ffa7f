#include "common/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char log_who[64] = "ips";
static enum ips_log_level log_level = IPS_LOG_INFO;
static const char *const level_names[] = {"error", "warn", "info", "debug"};

void ips_log_init(const char *who)
{
    snprintf(log_who, sizeof(log_who), "%s", who);
    const char *want = getenv("IPS_LOG");
    for (size_t i = 0; want && i < 4; i++) {
        if (strcmp(want, level_names[i]) == 0)
            log_level = (enum ips_log_level)i;
    }
}

void ips_log(enum ips_log_level level, const char *fmt, ...)
{
    if (level > log_level)
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm tm;
    gmtime_r(&now.tv_sec, &tm);
    char stamp[32], line[2048];
    strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
    int at = snprintf(line, sizeof(line), "%s.%03ldZ %s %s ", stamp,
                      now.tv_nsec / 1000000, log_who, level_names[level]);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line + at, sizeof(line) - (size_t)at - 1, fmt, ap);
    va_end(ap);
    /* The text may come from a peer. Without control characters it cannot
     * imitate further log lines. */
    for (char *c = line + at; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = '?';
    size_t len = strlen(line);
    line[len++] = '\n';
    /* One write, so that lines of several threads do not mix. */
    if (write(STDERR_FILENO, line, len) < 0)
        return;
}
