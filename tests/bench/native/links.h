/*
 * bench_links: the engines over real TCP between processes in network
 * namespaces of their own, a slave each and a master, so that queueing
 * disciplines limit what goes between them. The state machines and the wire
 * form of graphs are those of the daemons (analysis/, proto/graph_wire.h); what
 * carries them is as little as possible: a frame is 4 bytes of length, 1 of
 * kind, 8 of a number, and its bytes. Everything aborts the program where it
 * fails.
 */
#ifndef IPS_TESTS_BENCH_NATIVE_LINKS_H
#define IPS_TESTS_BENCH_NATIVE_LINKS_H

#include "analysis/distributed/cm_async.h"
#include "analysis/distributed/cm_sync.h"
#include "analysis/distributed/joins.h"
#include "analysis/graph/path.h"
#include "proto/graph_wire.h"
#include "tests/bench/native/synth.h"

#define LINKS_HOSTS 17 /* sixteen slaves and the master */
#define LINKS_HEAD 13

enum links_kind {
    LINKS_READY,   /* slave: connected to all */
    LINKS_SEND,    /* master: central: your graph */
    LINKS_REDUCE,  /* master: contract: your joins */
    LINKS_PIECE,   /* slave: of a graph or joins; a: it is the last */
    LINKS_VALUES,  /* master: of remote ins; a: they are the last */
    LINKS_EXPAND,  /* master: the path's visits: from, in + 1, to, out + 1 */
    LINKS_OPEN,    /* master: cm: agree on the links */
    LINKS_OPENED,  /* slave: a of them come in */
    LINKS_WANTS,   /* slave to slave */
    LINKS_MATCHES, /* slave to slave */
    LINKS_LANE,    /* master: compute; a: links; 1 byte: async */
    LINKS_BATCH,   /* slave to slave */
    LINKS_ACK,     /* slave to slave, or to the master; a: how many */
    LINKS_TOLD,    /* slave: struct links_told */
    LINKS_OVER,    /* master: values are final */
    LINKS_DONE,    /* slave: struct links_done */
    LINKS_WALK,    /* master: from node a, or (1 byte: from part) link a */
    LINKS_WALKED,  /* slave: struct links_walked, then the pieces */
    LINKS_BYE,     /* master: how much did you send? */
    LINKS_SENT     /* slave: struct links_sent */
};
struct links_told {
    uint64_t sent, taken, unfinished;
};
struct links_done {
    uint64_t t_max, end, values, passes, computed; /* end + 1 */
};
struct links_walked {
    uint64_t est;
    uint32_t crosses, part, link;
};
struct links_sent {
    uint64_t messages, bytes, cpu_ns;
};

struct links_frame {
    uint32_t from;
    enum links_kind kind;
    uint64_t a;
    const uint8_t *data; /* until the next call */
    size_t len;
};

struct links_net {
    uint32_t self, count; /* the master is count - 1 */
    struct links_conn {
        int fd;
        uint8_t *in, *out;
        size_t in_at, in_len, in_cap, out_at, out_len, out_cap;
    } conn[LINKS_HOSTS];
    uint64_t messages, bytes; /* sent */
};

/* Host k listens on 10.99.0.(k + 1) of the namespace it is in; returns when
 * each is connected to each. */
void links_join(struct links_net *n, uint32_t self, uint32_t count);
void links_send(struct links_net *n, uint32_t to, enum links_kind kind,
                uint64_t a, const void *data, size_t len);
/* The next frame of anybody; `wait`: until there is one. */
bool links_next(struct links_net *n, bool wait, struct links_frame *out);
/* Until all is sent. */
void links_flush(struct links_net *n);
void links_leave(struct links_net *n);
void links_die(const char *what);

/* A graph to the master, in pieces. */
void links_send_graph(struct links_net *n, const struct ips_graph *g,
                      uint32_t ends);
/* Moves what was taken into a graph. */
void links_graph(struct ips_wire_receiver *t, struct ips_graph *g);

void links_slave(struct links_net *n, const struct synth *s);

extern const struct ips_scenario links_lane;

#endif
