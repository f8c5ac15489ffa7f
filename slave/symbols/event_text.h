/* Texts for events, as `ipsq events` shows them. The numbers come from files,
 * so unknown numbers have a text, too. Pure. */
#ifndef IPS_SLAVE_SYMBOLS_EVENT_TEXT_H
#define IPS_SLAVE_SYMBOLS_EVENT_TEXT_H

#include <stddef.h>

#include "agent/pool/format.h"

/* Writes the text of a channel, such as "tcp 10.0.0.1:80-10.0.0.2:4000" or
 * "pipe 13:771". */
void slave_channel_format_text(char *out, size_t len,
                               const struct ips_rec_chan *c);
/* name of an operation, a value of enum ips_op */
const char *slave_op_text(uint16_t op);
/* name of a cause of lost events, a value of enum ips_lost_cause */
const char *slave_lost_cause_text(uint32_t cause);
/* name of a kind of lock etc., a value of enum ips_sync */
const char *slave_sync_kind_text(uint32_t kind);

#endif
