/*
 * What `ipsq calibrate` measures, and the answer that it makes of it
 * (calibrate/query.c).
 */
#ifndef IPS_MASTER_CALIBRATE_CALIBRATE_H
#define IPS_MASTER_CALIBRATE_CALIBRATE_H

#include "master/query/query.h"

struct calibration; /* query.data */

/* Measures what the request says; ends with calibrate_answer() or a failure. */
void calibrate_measure(struct query *q);
/* What is told of it: none where nothing is measured. */
void calibrate_fill(const struct query *q, Ips__CalibrateAnswer *out);
void calibrate_release(struct query *q);

/* The last answer: the rows of the table, or its text. */
void calibrate_answer(struct query *q, bool with_rows, char *text);

#endif
