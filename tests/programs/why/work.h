/* Work in units of turns of a loop, never of time: how much a problem is of a
 * program does not depend on the machine. */
#ifndef IPS_TESTS_WHY_WORK_H
#define IPS_TESTS_WHY_WORK_H

#include "tests/programs/compute.h"

#define WORK_UNIT 4000000L /* turns; some ms */

/* `units` thousandths of a unit, in the procedure that holds it. */
#define WORK(units) COMPUTE_TURNS(WORK_UNIT / 1000 * (units))

/* many.c: as many procedures, each with an equal part. */
void work_spread(long units);  /* over 60 */
void work_several(long units); /* over 8 */

#endif
