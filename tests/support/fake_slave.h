/* The slaves of cluster.h: what they answer. */
#ifndef IPS_TESTS_FAKE_SLAVE_H
#define IPS_TESTS_FAKE_SLAVE_H

#include "common/log.h"
#include "tests/support/cluster.h"

void fake_slave_report(struct fake_slave *s);
void fake_slave_release(struct fake_slave *s);

#endif
