/* Functions of metrics_procs.c: `ipsq metrics --level procedure`. */
#ifndef IPS_CLIENT_COMMANDS_METRICS_H
#define IPS_CLIENT_COMMANDS_METRICS_H

#include "client/base/command.h"

extern const struct ipsq_columns ipsq_metrics_procedure_columns;

/* Asks the master for the metrics of procedures and prints them. Returns an
 * exit status, or a negative code with `err` set. */
int ipsq_run_procedure_metrics(const struct ipsq_options *o,
                               struct ipsq_session *s, struct ips_err *err);

#endif
