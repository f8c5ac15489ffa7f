/*
 * Records of signals and of the calls they end, beside recorder.h's.
 */
#ifndef IPS_TESTS_UNIT_HELP_REC_SIGNAL_H
#define IPS_TESTS_UNIT_HELP_REC_SIGNAL_H

#include <errno.h>
#include <signal.h>

#include "recorder.h"

static inline struct ips_rec_signal *put(rs s, enum ips_rec_type type,
                                         enum ips_signal_how how, int sig,
                                         uint64_t t, uint64_t cpu, int32_t pid,
                                         int32_t code)
{
    struct ips_rec_signal *r = rec_put(s, type, sizeof(*r), (uint32_t)sig, t);
    r->cpu = cpu;
    r->pid = pid;
    r->code = code;
    r->how = how;
    r->t_ret = t;
    return r;
}
static inline struct ips_rec_signal *put_kill(rs s, int sig, uint64_t t,
                                              uint64_t cpu, int32_t target)
{
    return put(s, IPS_REC_KILL, IPS_KILL_PROCESS, sig, t, cpu, target, 0);
}
static inline struct ips_rec_signal *put_taken(rs s, int sig, uint64_t t,
                                               uint64_t cpu, int32_t from)
{
    return put(s, IPS_REC_SIGNAL, IPS_SIGNAL_HANDLER, sig, t, cpu, from,
               SI_USER);
}
static inline struct ips_rec_io *put_block(rs s, enum ips_op op, uint64_t t,
                                           uint64_t t_ret, uint64_t cpu,
                                           uint64_t cpu_ret, int64_t result)
{
    struct ips_rec_io *r =
        rec_io(s, IPS_REC_BLOCK, 0, t, t_ret, cpu, cpu_ret, result);
    r->op = (uint16_t)op;
    r->err = result < 0 ? EINTR : 0;
    return r;
}
static inline rs process(struct recorder *r, uint32_t pid)
{
    rs s = rec_stream(r, pid, pid, pid);
    rec_start(s, IPS_START_IMAGE, pid, 0);
    return s;
}
#define AUX(b, tid, n) rec_kind(b, tid, IPS_NODE_AUX, n)

#endif
