/* The command line of ips-slave. */
#ifndef IPS_SLAVE_OPTIONS_H
#define IPS_SLAVE_OPTIONS_H

#include "slave/serve/slave.h"

enum slave_options_result { SLAVE_RUN, SLAVE_EXIT_OK, SLAVE_EXIT_USAGE };

/* Fills *opt, defaults included; prints help, version and errors. */
enum slave_options_result slave_options_parse(int argc, char **argv,
                                              struct slave_options *opt);

#endif
