/* See unwind_chain.c. */
#ifndef IPS_TESTS_UNIT_HELP_UNWIND_CHAIN_H
#define IPS_TESTS_UNIT_HELP_UNWIND_CHAIN_H

void chain_note(void *return_address);
void chain_said(void);

void with_fp_run(int through_qsort);
void without_fp_run(int through_qsort);
void debug_run(int through_qsort);

#endif
