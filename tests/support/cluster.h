/*
 * A whole cluster in one process and one event loop: a real master, slaves
 * that are not (they serve a given subgraph, and misbehave as told), and a
 * client. For tests of the master without pools, programs or daemons.
 */
#ifndef IPS_TESTS_CLUSTER_H
#define IPS_TESTS_CLUSTER_H

#include "analysis/graph/contract.h"
#include "analysis/graph/message_time.h"
#include "analysis/graph/path.h"
#include "analysis/graph/view.h"
#include "master/base/master.h"
#include "proto/message.h"

#define CLUSTER_SLAVES 4
#define CLUSTER_PATIENCE_MS 20000

/* How a slave misbehaves at its `at`-th ask (from 1), or at any of a kind. */
enum fault {
    FAULT_NONE,
    FAULT_CLOSE,   /* the connection goes */
    FAULT_ERROR,   /* an error reply */
    FAULT_BUSY,    /* its graph is another */
    FAULT_TYPE,    /* answers something else */
    FAULT_CORRUPT, /* numbers that are none */
    FAULT_SILENT,  /* takes the ask and says nothing */
};

struct later;
struct fake_cm;

struct fake_slave {
    struct cluster *c;
    struct ips_peer *peer;
    char machine[32];
    char run[64];
    bool unknown_run; /* answers NOT_FOUND */
    bool refused;     /* the master did not take it */
    char why[512];
    const struct ips_graph *g; /* borrowed */
    const struct ips_peer_end *peer_end;
    uint32_t end_count;
    uint32_t number; /* of this machine in peer_end */
    bool open, has_root;
    uint64_t lost;
    uint64_t more_events; /* than its graph has nodes, as it says */
    uint32_t events;      /* that EventsAsk gets, one a reply */
    /* misbehaviour */
    enum fault fault;
    uint32_t fault_at;
    uint32_t asks;           /* taken so far */
    uint32_t built_permille; /* reported when it falls silent; 0: nothing is */
    uint64_t building_for;   /* the ask that it left without an answer */
    unsigned delay_ms;       /* replies come after up to this */
    struct later *queue;
    struct event *due;
    /* observed */
    uint32_t window_most; /* replies sent and not yet allowed again */
    uint32_t window_left, window_sent;
    uint64_t stream_id;
    uint32_t stream_at, stream_total;
    bool stopped;
    /* bytes of the last FinishAsk */
    uint8_t *values;
    size_t value_bytes;
    /* pairs of the last ExpandAsk: from, to, in, out */
    uint32_t *pairs;
    size_t pair_count;
    struct ips_est est;
    struct ips_scenario lane;
    struct ips_view view; /* of that lane */
    struct fake_cm *cm;   /* a distributed computation */
    /* message times as PeersAsk told them */
    struct ips_message_time_map message_times;
    /* measuring: what TripAsk gets, the same times for all lengths n: base_ns +
     * n; or an error */
    uint64_t trip_ns, trip_spread_ns, wake_ns;
    uint32_t load_milli;
    bool trip_late; /* a quarter of the time its ends waited */
    bool trip_fails, echo_fails;
    bool trip_waits; /* one length, and then nothing until it is stopped */
    uint64_t trip_id;
    bool trip_stopped;
};

struct cluster {
    char dir[64];
    struct event_base *base;
    struct master master;
    bool running;
    bool keeps; /* else every question is `fresh` (master/query/answer_cache.h)
                 */
    struct fake_slave slave[CLUSTER_SLAVES];
    uint32_t slave_count;
    uint64_t seed;
    struct event *beat;
};

struct answer { /* of one question */
    struct cluster *c;
    uint64_t id;
    Ips__Envelope **env;
    uint32_t count;
    bool done;
    bool closed;
};

void cluster_start(struct cluster *c);
void cluster_stop(struct cluster *c);
/* The daemon alone; the slaves stay and must be connected again. */
void cluster_restart_master(struct cluster *c);

struct fake_slave *cluster_add(struct cluster *c, const char *machine,
                               const char *run, const struct ips_graph *g,
                               const struct ips_peer_end *peer_end,
                               uint32_t end_count);
void cluster_connect(struct fake_slave *s);
void cluster_disconnect(struct fake_slave *s);
/* Turns the loop until all slaves are connected and have reported. */
void cluster_settle(struct cluster *c);
void cluster_turn(struct cluster *c, unsigned ms);

/* A client of its own for every question. Turns the loop until the last reply;
 * fails the test when it does not come. Free with answer_release. */
void cluster_ask(struct cluster *c, Ips__Request *request, struct answer *out);
/* The same without waiting. `peer` is closed by cluster_hang_up or at the
 * last reply. */
struct ips_peer *cluster_begin(struct cluster *c, Ips__Request *request,
                               struct answer *out);
void cluster_wait(struct cluster *c, struct answer *a);
const Ips__Reply *answer_last(const struct answer *a);
void answer_release(struct answer *a);

#endif
