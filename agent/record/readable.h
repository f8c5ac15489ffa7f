/*
 * Tests whether memory that the program passed to a call can be read or
 * written.
 *
 * Where the kernel finds bad memory, a call fails with EFAULT. The agent must
 * not end such a program by reading or writing that memory itself. If it needs
 * the memory before the call, it asks here first. After a call that succeeded
 * it need not ask: the kernel has used the memory itself.
 *
 * Each function makes a system call for each page, which changes nothing and
 * fails with EFAULT. If the agent may make no system calls (ips_sys_quiet), the
 * memory counts as good. Async-signal-safe, errno kept.
 */
#ifndef IPS_AGENT_RECORD_READABLE_H
#define IPS_AGENT_RECORD_READABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Can the 8 bytes at `at`, rounded down to a multiple of 8, be read? */
bool ips_is_word_readable(const void *at);
/* Can the text be read up to its NUL? NULL counts as readable: every caller
 * tests for it. */
bool ips_is_string_readable(const char *text);
/* Can the array of texts, which ends with NULL, and all the texts be read? NULL
 * counts as readable. */
bool ips_is_text_list_readable(char *const *list);

/* Can the `bytes` bytes at `at` be read and written? */
bool ips_is_memory_writable(const void *at, size_t bytes);

#endif
