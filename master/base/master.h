/*
 * The master daemon as one object, and the clock that it passes to its
 * modules.
 *
 *   main.c       options, the list of set-up steps, the loop
 *   session.c    connections: which are clients, which are slaves
 *   roster.c     slaves by machine name        catalogue.c  runs, on disk
 *   query.c      one question in progress: asks, replies, time limits, order
 *   gather.c     the rounds with which most questions start
 *   query_*.c    one file per question
 *   engine_*.c   the critical path, computed in several ways
 *   join.c, metrics.c, shares.c   pure functions: no I/O, no state
 *
 * Thread: the event loop's, except for jobs given to the worker.
 */
#ifndef IPS_MASTER_BASE_MASTER_H
#define IPS_MASTER_BASE_MASTER_H

#include "common/lock.h"
#include "common/paths.h"
#include "master/base/catalogue.h"
#include "master/base/message_times.h"
#include "master/base/roster.h"
#include "master/base/worker.h"
#include "proto/peer.h"

#define MASTER_MAX_CLIENTS 256
/* limit of simultaneous questions of one client */
#define MASTER_MAX_QUERIES 16

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
    struct ips_lock state_lock;
    struct roster roster;
    struct client *clients;
    uint32_t client_count;
    /* list of questions, in order of arrival */
    struct query *queries;
    /* id of the last request sent to a slave */
    uint64_t next_ask;
    struct message_times message_times; /* measured message times, on disk */
    /* tables of the last run (tables/cache.h) */
    struct cached_tables *table_cache;
    /* complete answers (query/answer_cache.h) */
    struct cached_answer *answer_cache;
    struct refresh *refreshes; /* runs to refresh (tables/refresh.h) */
    /* shortest time between two refreshes of a run's tables (tables/refresh.h);
     * 0: the tables are not kept up to date */
    uint64_t refresh_ns;
    struct event *tick, *on_term, *on_int;
    char state[IPS_PATH_BYTES];
    char address[IPS_PATH_BYTES];
    bool private_mode, stopping;
    /* Time limits of a question (query.h); tests shorten them. */
    uint64_t silence_ns, stopped_ns, limit_ns;
    unsigned idle_s;
    uint64_t started_ns;
    /* last moment at which a slave or a client was connected */
    uint64_t used_ns;
};

uint64_t master_now_ns(void); /* reads CLOCK_MONOTONIC */

/* session.c: the accept callback for ips_listener_new. */
void session_await_hello_of_peer(struct ips_peer *peer, void *arg);
/* Closes every connection; no callback follows. */
void session_close_clients_and_slaves(struct master *m);

/* Options of master_start(). */
struct master_options {
    const char *listen; /* address; NULL: STATE/master.sock */
    const char *state;
    bool private_mode;
    unsigned idle_s;
};
/* setup.c: starts the daemon except for options and signals, so that tests can
 * run a master inside their process. On failure it releases everything. */
int master_start(struct master *m, struct event_base *base,
                 const struct master_options *options,
                 struct ips_err *err) IPS_MUST_USE;
void master_release(struct master *m);

#endif
