/*
 * Processes with descriptors, for the tests of ends and of who their peers are.
 */
#ifndef IPS_TESTS_UNIT_HELP_REC_ENDS_H
#define IPS_TESTS_UNIT_HELP_REC_ENDS_H

#include <errno.h>

#include "recorder.h"

/* A process of one thread that is there from the beginning. */
static inline rs process(struct recorder *r, uint32_t pid)
{
    rs s = rec_stream(r, pid, pid, pid * 100);
    rec_start(s, IPS_START_IMAGE, 1, 0);
    return s;
}
/* A fork child of `parent` (an image made by process()), at t. */
static inline rs child(struct recorder *r, rs parent, uint32_t pid, uint64_t t)
{
    static uint64_t seq = 100;
    seq++;
    rec_fork(parent, IPS_FORK_FORK, t, t, 0, 0, pid, seq);
    rs s = rec_stream(r, pid, pid, t);
    struct ips_rec_start *st = rec_start(s, IPS_START_FORK, t + 1, 0);
    st->fork_seq = seq;
    st->ppid = parent->head.pid;
    st->parent_image = parent->head.image_stamp;
    return s;
}
#define SEND(b, tid, n) rec_kind(b, tid, IPS_NODE_SEND, n)
#define RECV(b, tid, n) rec_kind(b, tid, IPS_NODE_RECV, n)
#define AUX(b, tid, n) rec_kind(b, tid, IPS_NODE_AUX, n)

#endif
