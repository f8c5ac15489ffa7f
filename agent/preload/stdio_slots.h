/*
 * Records the C library's own reads, writes and closes: stdio, getline, printf,
 * the flush at exit. stdio does not call the wrapped `read` and `write`. Each
 * stream calls its functions through the slots of a jump table, which is data.
 * We put our functions into the slots read, write and close of `_IO_file_jumps`
 * and `_IO_wfile_jumps`, and of popen's table when popen first returns a
 * stream.
 *
 * A slot is replaced only if it holds exactly the exported function that
 * belongs there (`_IO_file_read` ...), so another C library, or another layout,
 * is left untouched. The loader made the pages of the tables read-only; they
 * are made writable for the store only.
 */
#ifndef IPS_AGENT_PRELOAD_STDIO_SLOTS_H
#define IPS_AGENT_PRELOAD_STDIO_SLOTS_H

#include <stdint.h>
#include <stdio.h>

/* Puts our functions into the slots of stdio's two file tables. To be called
 * once per image, before other threads exist. */
void ips_stdio_hook_file_tables(void);

/* Notes that popen returned `stream`, whose close waits for the child whose
 * FORK has the number `seq`. The first call replaces the slots of popen's
 * table. */
void ips_stdio_hook_popen_and_store_stream(FILE *stream, uint64_t seq);

/* Returns the address of one function of the C library. It serves to find the
 * library's address range, and as a base for offsets. */
void *ips_stdio_libc_file_write_address(void);

#endif
