/* Work in units of loop iterations, never of time: how much a problem is of a
 * program does not depend on the machine. */
#ifndef IPS_TESTS_WHY_WORK_H
#define IPS_TESTS_WHY_WORK_H

#define WORK_UNIT 1000000L /* iterations; some ms */

/* `units` thousandths of a unit, in the procedure that holds it. */
#define WORK(units)                                                            \
    do {                                                                       \
        volatile double x_ = 1;                                                \
        for (long left_ = WORK_UNIT / 1000 * (units); left_ > 0; left_--)      \
            x_ = x_ * 1.0000001 + 0.5;                                         \
    } while (0)

/* many.c: as many procedures, each with an equal part. */
void work_spread(long units);  /* over 60 */
void work_several(long units); /* over 8 */

#endif
