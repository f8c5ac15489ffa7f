/*
 * Log lines of the daemons, on standard error: "2026-01-31T12:00:00.123Z
 * slave[m1] info text". Not used inside a recorded program: the agent never
 * prints.
 */
#ifndef IPS_COMMON_LOG_H
#define IPS_COMMON_LOG_H

enum ips_log_level { IPS_LOG_ERROR, IPS_LOG_WARN, IPS_LOG_INFO, IPS_LOG_DEBUG };

/* Sets the name of the daemon in its log lines: `who`, for example "slave[m1]",
 * which is copied. The level comes from the environment variable IPS_LOG
 * (error|warn|info|debug); default: info. Call once, before threads exist. */
void ips_log_init(const char *who);
void ips_log(enum ips_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define ips_log_error(...) ips_log(IPS_LOG_ERROR, __VA_ARGS__)
#define ips_log_warn(...) ips_log(IPS_LOG_WARN, __VA_ARGS__)
#define ips_log_info(...) ips_log(IPS_LOG_INFO, __VA_ARGS__)
#define ips_log_debug(...) ips_log(IPS_LOG_DEBUG, __VA_ARGS__)

#endif
