/* The pieces of random_program.c: hidden.c, what nobody sees (log, waiting);
 * channels.c, the operations on channels. */
#pragma once

#include "words.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    MAX_THREADS = 64,
    MAX_OPS = 4096,
    MAX_CHANNELS = 48,
    MAX_OBJECTS = 128,
    MAX_QUEUES = 16,
    FIRST_FD = 200,    /* of the channels; nothing else is up here */
    FIRST_QUEUE = 300, /* but descriptors of message queues */
    LOG_BYTES = 1 << 18
};

struct op {
    int code;
    long a, b, c, d;
};

struct entry {
    uint32_t op;
    uint32_t code; /* of the call: enum call */
    uint64_t before_ns, after_ns;
    int64_t result, extra;
};

struct log {
    uint64_t pid, tid;
    _Atomic uint64_t count;
    _Atomic uint64_t over; /* operations */
    struct entry entry[];
};

enum active_call {
    CALL_OP, /* the operation's own */
    CALL_READ,
    CALL_WRITE,
    CALL_POLL,
    CALL_CLOSE, /* extra: the descriptor's channel * 2 + side */
    CALL_RANGE
};

extern const char *log_path;
extern _Thread_local int my_op, my_thread;
extern int channel_count, channel_kind[MAX_CHANNELS];

/* --- hidden.c --- */

/* A system call that nobody records. */
long raw(long n, long a, long b, long c, long d, long e, long f);
/* A message and status 3. */
void die(const char *what, long code);
/* CLOCK_MONOTONIC_RAW. */
uint64_t now(void);
void spin(uint64_t ns);
void hidden_sleep(long us);
/* This thread is `thread` from now on: opens its log, or goes on with it. */
void be(int thread);
/* So many of its operations are over. */
void over(int operations);
/* An entry of the log: finish() after the call, at once. Fails where result is
 * negative and `what` is not NULL. */
struct entry *begin(enum active_call code);
long finish(struct entry *e, long result, const char *what);
/* Of a thread's log, once there is one. */
struct log hidden_header(int thread);
/* Until `thread` sleeps in its operation `op`; or until that is over. */
void await(int thread, long op, int until_over);
/* Until the process is stopped. */
void await_stopped(const struct log *of);

/* --- channels.c: a channel's number first --- */

/* 0-3: nothing, poll, epoll, select until it is readable; no channel's. */
void look(int fd, long how);
int fd_of(long channel, long side);
void make_channel(long c);
void do_connect(long c);
void do_accept(long c);
void do_receive(long c, long bytes, long chunk, long how);
void do_receive_both(const struct op *o);
void do_send_broken(long c);
void do_send(long c, long bytes, long how);
void do_send_datagram(long c, long bytes);
void do_close(long c, long side);
void do_trim(unsigned long low, unsigned long high);
