/*
 * Random activity graphs for tests: a simulated program of message-passing
 * processes on a few machines, so that every graph is a possible one. The same
 * seed gives the same graph.
 *
 * It comes in two forms that must give the same answers: `whole`, and one
 * subgraph a machine with remote references and the table of who is whose
 * peer. Weights are small, so that ties are common.
 */
#ifndef IPS_TESTS_RANDOM_GRAPH_H
#define IPS_TESTS_RANDOM_GRAPH_H

#include "analysis/graph/contract.h"
#include "analysis/graph/path.h"

#define RG_MACHINES 4

struct rg_options {
    uint64_t seed;
    uint32_t machines;   /* 1..RG_MACHINES */
    uint32_t chains;     /* to begin with, at least 1 */
    uint32_t steps;      /* operations in all */
    uint32_t weight_max; /* chain arcs are 0..weight_max */
    bool external;       /* with EXTERNAL and IDLE arcs */
    bool unmatched;      /* with remote ins that nobody wrote */
};

struct rg {
    struct ips_graph whole;
    uint32_t machines;
    struct ips_graph part[RG_MACHINES];
    struct ips_peer_end *peer[RG_MACHINES];
    uint32_t end_count[RG_MACHINES];
    uint32_t base[RG_MACHINES]; /* first node of each machine in `whole` */
    uint32_t unmatched;
};

/* Aborts the test program where memory is short. */
void rg_make(const struct rg_options *opt, struct rg *out);
void rg_release(struct rg *r);

/* Options drawn from a seed, of every flavour. */
struct rg_options rg_options_of(uint64_t seed);

uint64_t rg_random(uint64_t *state); /* splitmix64 */
uint32_t rg_below(uint64_t *state, uint32_t limit);

/* Times that a run of `g` could have had: at, wait, delay. */
void rg_give_times(struct ips_graph *g, uint64_t seed);
/* Those of r->whole to machine m's part, on a clock that is off by `off`. */
void rg_split_times(struct rg *r, uint32_t m, uint64_t off);

/* `contract` as the master and the slaves do it, in one process: makes every
 * part's joins, solves them together, hands the remote values back, solves the
 * full parts, and expands the path. Node and chain numbers of the result are
 * `whole`'s. */
struct rg_answer {
    uint64_t t_max, total;
    uint32_t end;
    struct ips_path path;
    uint64_t *est;    /* [whole.node_count] from the finished parts */
    uint8_t *crossed; /* same */
    uint32_t kept;    /* joins of all parts */
    uint64_t unmatched;
};
int rg_contract(const struct rg *r, const struct ips_scenario *lane,
                struct rg_answer *out, struct ips_err *err) IPS_MUST_USE;
void rg_answer_release(struct rg_answer *a);

/* The main of a program that prints what seeds give: NAME FIRST COUNT. */
int rg_main(int argc, char **argv, const char *name,
            int (*one)(uint64_t seed, struct ips_err *err));
/* The end of an object: "ends": when each chain ends, and "makespan". */
struct ips_replay;
void rg_print_ends(const struct ips_replay *r, uint32_t chains);

#endif
