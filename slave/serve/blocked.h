/* Describes blocked threads: each is in a call that has not ended (struct
 * ips_blocked_row). */
#ifndef IPS_SLAVE_SERVE_BLOCKED_H
#define IPS_SLAVE_SERVE_BLOCKED_H

#include "slave/build/waits.h"

/* Describes what the thread waits for, for example "the mutex at 0x55d0c0" or
 * "bytes from pipe 13:771". The caller frees the text; NULL: out of memory. */
char *slave_blocked_describe_wait(const struct ips_built *b,
                                  const struct ips_blocked_row *r);
/* Whether only a recorded thread can end the wait (no timer, device or
 * unrecorded process). */
bool slave_blocked_needs_recorded_waker(const struct ips_built *b,
                                        const struct ips_blocked_row *r);

#endif
