/* The name of a channel as `ipsq events` shows it:
 * "tcp 10.0.0.1:80-10.0.0.2:4000", "pipe 13:771". Pure. */
#ifndef IPS_SLAVE_CHAN_TEXT_H
#define IPS_SLAVE_CHAN_TEXT_H

#include <stddef.h>

#include "agent/format.h"

void slave_chan_text(char *out, size_t len, const struct ips_rec_chan *c);

#endif
