/*
 * Recognises, by its instructions, a loop that only reads memory until another
 * thread changes it. Pure; async-signal-safe.
 *
 * x86-64: a short loop without calls, which stores nothing but variables on the
 * stack, and reads at most two words, whose addresses are the same in every
 * turn (a walk along a list is none). A loop that counts must also have PAUSE.
 * Loops with an atomic operation are none: they usually succeed at once.
 * AArch64: a short loop with YIELD, ISB or WFE.
 */
#ifndef IPS_AGENT_UNWIND_SPIN_LOOP_H
#define IPS_AGENT_UNWIND_SPIN_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is the instruction at code[at], of `length` bytes of code, in such a loop? A
 * loop that is not wholly within the bytes is not recognised. */
bool ips_is_spin_loop(const uint8_t *code, size_t length, size_t at);

#endif
