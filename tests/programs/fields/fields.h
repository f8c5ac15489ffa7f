/*
 * Does something of each kind that is recorded, and prints all that its record
 * must say but times: "want PID TID TYPE field=value ...", as it found out by
 * calls of its own. tests/system/recording/test_agent_fields.py compares whole
 * records with that.
 *
 * Values: numbers, text in quotes, @NAME for what only has to be the same
 * wherever that name is. in=FUNCTION stands for the place of the call (site).
 */
#ifndef FIELDS_H
#define FIELDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

void must(bool good);
void want(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Of the calling thread. */
pid_t tid(void);
uint64_t fnv(uint64_t hash, const void *bytes, size_t n);
#define FNV 0xcbf29ce484222325u
/* What a cross-check of times needs: ns of CLOCK_MONOTONIC_RAW and of the
 * thread's CPU clock. */
void say_times(const char *what);

extern unsigned next_chan; /* id of the channel that is named last */
/* A CHAN of a pipe or socket, next in order; the rest of its fields. */
void want_chan(int fd, unsigned kind, unsigned side, unsigned flags,
               const char *rest);
void want_io(const char *type, unsigned chan, long result, unsigned op,
             const char *in);
void want_close(int fd, unsigned chan, unsigned how, const char *totals,
                const char *in);
#define PIPE                                                                   \
    "peer_ino=0 cookie=0 netns=0 sent_before=0 recv_before=0 name_hash=0 "     \
    "peer_pid=0 local=0::0 remote=0::0"
#define NO_TOTALS "sent=18446744073709551615 recv=18446744073709551615"

void use_pipe(void), use_pair(void), use_tcp(void), use_udp(void),
    use_dgrams(void), use_names(void), use_poll(void);
void use_fork(void), use_spawn(void), use_waits(void), use_exec(void),
    use_thread(void), use_signals(void), use_locks(void), use_queue(void),
    leave_thread(void);

#endif
