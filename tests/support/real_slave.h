/*
 * A slave as it is, in the process and the event loop of the test: what main()
 * of ips-slave sets up but for signals, priorities and the end of a private
 * one. It drains a pool of its own and serves the master at an address.
 */
#ifndef IPS_TESTS_REAL_SLAVE_H
#define IPS_TESTS_REAL_SLAVE_H

#include <stdbool.h>

struct event_base;
struct real_slave; /* `struct slave` is another one in the master */

/* Below `dir`: pool-MACHINE, which must exist, and the state. Fails the test
 * where it cannot be done. */
struct real_slave *real_slave_start(struct event_base *base, const char *dir,
                                    const char *machine, const char *master);
void real_slave_stop(struct real_slave *r);

bool real_slave_run_closed(const struct real_slave *r, const char *run);

/* Nothing is in hand, of nobody. */
bool real_slave_at_rest(const struct real_slave *r);
/* It has a master that answered its Hello. */
bool real_slave_connected(const struct real_slave *r);
/* Connects now, if it has to, not when it is time again. */
void real_slave_hurry(struct real_slave *r);
/* At rest: the graphs it has are forgotten, their files too. */
void real_slave_forget(struct real_slave *r, const char *run);

#endif
