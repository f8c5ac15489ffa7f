/*
 * Recognises, by its instructions, a loop that only reads memory until another
 * thread changes the memory. No side effects; async-signal-safe.
 *
 * x86-64: a short loop without calls that stores only to variables on the stack
 * and reads at most two words, whose addresses are the same in every turn (so a
 * walk along a list is not a spin loop). A loop that counts must also have
 * PAUSE. A loop with an atomic operation is not a spin loop: it usually
 * succeeds at once. AArch64: a short loop with YIELD, ISB or WFE.
 */
#ifndef IPS_AGENT_UNWIND_SPIN_LOOP_H
#define IPS_AGENT_UNWIND_SPIN_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is the instruction at code[at], of `length` bytes of code, in such a loop? A
 * loop that is not wholly within the bytes is not recognised. */
bool ips_is_code_in_spin_loop(const uint8_t *code, size_t length, size_t at);

#endif
