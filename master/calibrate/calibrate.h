/*
 * The measurement of `ipsq calibrate` (calibrate/measure.c), and the answer
 * that is made from it (calibrate/query.c).
 */
#ifndef IPS_MASTER_CALIBRATE_CALIBRATE_H
#define IPS_MASTER_CALIBRATE_CALIBRATE_H

#include "master/query/query.h"

struct calibration; /* stored in query.data */

/* Measures the message times between the machines that the request names (all,
 * if it names none); ends with calibrate_send_answer() or a failure. */
void calibrate_measure(struct query *q);
/* Adds the failed pairs and the progress of the measurement to the answer; does
 * nothing if no measurement was made. */
void calibrate_fill_failures_and_progress(const struct query *q,
                                          Ips__CalibrateAnswer *out);
void calibrate_release(struct query *q);

/* Sends the last reply: the rows of the table (with_rows), and `text` unless it
 * is NULL. */
void calibrate_send_answer(struct query *q, bool with_rows, char *text);

#endif
