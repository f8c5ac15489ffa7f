/* The slaves of cluster.h: what they answer. */
#ifndef IPS_TESTS_FAKE_SLAVE_H
#define IPS_TESTS_FAKE_SLAVE_H

#include "common/log.h"
#include "tests/support/cluster.h"

void fake_slave_report(struct fake_slave *s);
void fake_slave_release(struct fake_slave *s);

/* A reply to ask `id`, now or as late as the slave is told to be. */
void fake_slave_answer(struct fake_slave *s, uint64_t id, Ips__Reply *reply,
                       bool last);
void fake_slave_subgraph(struct fake_slave *s, const Ips__Request *r,
                         bool corrupt);
/* The graph as that lane sees it, by the message times that were told. */
void fake_slave_view(const struct fake_slave *s,
                     const struct ips_scenario *lane, struct ips_view *out);
void fake_slave_peers(struct fake_slave *s, const Ips__PeersAsk *ask);
void fake_slave_echo(struct fake_slave *s, const Ips__Request *r);
void fake_slave_trip(struct fake_slave *s, const Ips__Request *r);
void fake_slave_ready(struct fake_slave *s, const Ips__Request *r);
/* Arcs of a node that is 0 or 1 modulo 3 are procedure "even" or "odd"'s, but
 * for 1 ns; the others nobody's. */
void fake_slave_portions(struct fake_slave *s, const Ips__Request *r,
                         bool corrupt);
/* In the first half of all bins 100 ns of CPU and 3 messages of 5 bytes each,
 * in the others nothing but 7 ns of waiting; tops are process 0 and "f". */
void fake_slave_series(struct fake_slave *s, const Ips__Request *r,
                       bool corrupt);
void fake_slave_reduce(struct fake_slave *s, const Ips__Request *r,
                       bool corrupt);
void fake_slave_finish(struct fake_slave *s, const Ips__Request *r,
                       bool corrupt);
void fake_slave_cm_begin(struct fake_slave *s, const Ips__Request *r,
                         bool corrupt);
void fake_slave_cm_message(struct fake_slave *s, const Ips__CmMessage *m,
                           bool corrupt);
/* The ask that goes on, 0 none. */
uint64_t fake_slave_cm_id(const struct fake_slave *s);
void fake_slave_cm_end(struct fake_slave *s);
void fake_slave_expand(struct fake_slave *s, const Ips__Request *r,
                       bool corrupt);

#endif
