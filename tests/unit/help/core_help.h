/* For tests of the recording core: records that know whether they are whole,
 * written in a child and read back here. */
#ifndef IPS_TESTS_UNIT_HELP_CORE_HELP_H
#define IPS_TESTS_UNIT_HELP_CORE_HELP_H

#include "tests/unit/help/pool_help.h"

#include <stdbool.h>

#include "agent/record/core.h"

#define SOURCES 64
struct seen {
    uint64_t next[SOURCES]; /* expected number of each source */
    uint64_t count[SOURCES];
    uint64_t starts[8], ends[8];
    uint64_t lost_said, lost_counted[IPS_LOST_COUNT];
    uint64_t thread_cpu;
    unsigned torn, corrupt, exact; /* exact: numbers have no gaps */
};

/* What a field of record `number` of `source` must hold. */
uint64_t mix(uint64_t source, uint64_t number, unsigned field);
/* false: refused, counted as lost. */
bool write_one(uint32_t source, uint64_t number);

/* Everything in the pool, checked record by record; `exact`: the numbers of a
 * source follow each other without a gap. */
struct seen read_all(const struct pool_dir *p, bool exact);

/* In a child: records into `p`, dies with the test, also where that fails. */
void record_here(const struct pool_dir *p);
/* Runs `body` in a child that records into `p`; returns its wait status. */
int in_child(const struct pool_dir *p, void (*body)(void *), void *arg);
/* 64 KiB instead of 1 MiB. */
void small_segments(const struct pool_dir *p);

/* A thread that writes CORE_EACH records of source `arg` and ends. */
#define CORE_EACH 5000
void *core_thread_body(void *arg);
void pause_ms(long ms);

#endif
