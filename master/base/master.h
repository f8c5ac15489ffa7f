/*
 * The master daemon as one object, and the clock its parts are given.
 *
 *   main.c       options, the list of set-up steps, the loop
 *   session.c    connections: who is a client, who a slave, what they say
 *   roster.c     slaves by machine name        catalogue.c  runs, on disk
 *   query.c      one question in progress: asks, replies, time limits, order
 *   gather.c     the steps most questions begin with (sync, tables, ends)
 *   query_*.c    one file per question
 *   engine_*.c   the critical path, computed in two ways
 *   join.c, metrics.c, shares.c   pure
 *
 * Thread: the loop's, but for jobs given to the worker.
 */
#ifndef IPS_MASTER_BASE_MASTER_H
#define IPS_MASTER_BASE_MASTER_H

#include "common/paths.h"
#include "master/base/catalogue.h"
#include "master/base/mtimes.h"
#include "master/base/roster.h"
#include "master/base/worker.h"
#include "proto/peer.h"

#define MASTER_MAX_CLIENTS 256
#define MASTER_MAX_QUERIES 16 /* at once, of one client */

struct event;
struct query;
struct refresh;
struct cached_tables;
struct cached_answer;

struct client {
    struct client *next;
    struct ips_peer *peer;
};

struct master {
    struct event_base *base;
    struct ips_listener *listener;
    struct catalogue *catalogue;
    struct worker *worker;
    int state_fd; /* the lock of the state directory, -1 none */
    struct roster roster;
    struct client *clients;
    uint32_t client_count;
    struct query *queries;              /* in order of arrival */
    uint64_t next_ask;                  /* id of the last question to a slave */
    struct mtimes mtimes;               /* message times, on disk */
    struct cached_tables *table_cache;  /* tables/cache.c */
    struct cached_answer *answer_cache; /* query/answer_cache.c */
    struct refresh *refreshes;          /* refresh.c */
    uint64_t refresh_ns;                /* 0: tables are not kept up to date */
    struct event *tick, *on_term, *on_int;
    char state[IPS_PATH_BYTES];
    char address[IPS_PATH_BYTES];
    bool private_mode, stopping;
    /* How long a question waits (query.h); tests shorten them. */
    uint64_t silence_ns, stopped_ns, limit_ns;
    unsigned idle_s;
    uint64_t started_ns;
    uint64_t used_ns; /* last moment with a slave or a client */
};

uint64_t master_now_ns(void); /* CLOCK_MONOTONIC */

/* session.c: given to ips_listener_new. */
void session_on_accept(struct ips_peer *peer, void *arg);
/* Closes every connection; no callback comes afterwards. */
void session_release(struct master *m);

/* setup.c: everything but options and signals, so that tests can run a master
 * inside. On failure nothing is left. */
struct master_options {
    const char *listen; /* NULL: STATE/master.sock */
    const char *state;
    bool private_mode;
    unsigned idle_s;
};
int master_start(struct master *m, struct event_base *base,
                 const struct master_options *options,
                 struct ips_err *err) IPS_MUST_USE;
void master_stop_loop(struct master *m);

#endif
