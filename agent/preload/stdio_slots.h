/*
 * The C library's own reads, writes and closes: stdio, getline, printf, the
 * flush at exit. They do not go through `read` and `write` as a wrapper could
 * see them, but every stream calls them through the slots of a jump table,
 * which is data. We put our functions into the slots read, write and close of
 * `_IO_file_jumps` and `_IO_wfile_jumps`, and of popen's table when a stream of
 * popen is first seen.
 *
 * A slot is replaced only where it holds exactly the exported function that
 * belongs there (`_IO_file_read` ...): another C library, or another layout,
 * is left untouched. The tables lie in pages that the loader made read-only;
 * they are writable for the moment of the store and read-only again after.
 */
#ifndef IPS_AGENT_PRELOAD_STDIO_SLOTS_H
#define IPS_AGENT_PRELOAD_STDIO_SLOTS_H

#include <stdint.h>
#include <stdio.h>

/* Once per image, before other threads. */
void ips_stdio_init(void);

/* A stream that popen returned: its close is the end of the child that `seq`
 * began. */
void ips_stdio_popened(FILE *stream, uint64_t seq);

/* An address in the C library. */
void *ips_stdio_code(void);

#endif
