/* A thread in a call that does not end (struct ips_blocked_row), in words. */
#ifndef IPS_SLAVE_SERVE_BLOCKED_H
#define IPS_SLAVE_SERVE_BLOCKED_H

#include "slave/build/waits.h"

/* What it waits for: "the mutex at 0x55d0c0", "bytes from pipe 13:771"; to be
 * freed; NULL: no memory. */
char *slave_blocked_text(const struct ips_built *b,
                         const struct ips_blocked_row *r);
/* Can only threads that are recorded end it? */
bool slave_blocked_within(const struct ips_built *b,
                          const struct ips_blocked_row *r);

#endif
