/* A chain of calls, built several times with other frames (test_unwind.cmake):
 * CHAIN(call) calls chain_said with its argument at its end, and notes the
 * return address of each of its functions. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/help/unwind_chain.h"

#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define N(name) CAT(IPS_CHAIN, name)
#define NOINLINE __attribute__((noinline, noclone))

static volatile uint64_t sink;

static NOINLINE void N(_leaf)(uint64_t a)
{
    chain_note(__builtin_return_address(0));
    uint64_t b = a * 3, c = a ^ 5, d = a + 7, e = a - 9, f = a << 1;
    chain_said();
    /* enough that lives over the call for every saved register */
    sink += a + b * c + d * e + f;
}

/* A frame whose size is known when it runs only. */
static NOINLINE void N(_alloca)(uint64_t a)
{
    chain_note(__builtin_return_address(0));
    char *room = __builtin_alloca(a * 16 + 16);
    memset(room, (int)a, a * 16 + 16);
    N(_leaf)(a + (uint64_t)room[3]);
    sink += (uint64_t)room[5];
}

/* A realigned one: its CFA is an expression. */
static NOINLINE void N(_aligned)(uint64_t a)
{
    chain_note(__builtin_return_address(0));
    _Alignas(128) volatile char line[256];
    line[a] = 1;
    N(_alloca)(a + (uint64_t)line[a]);
    sink += (uint64_t)line[a];
}

static NOINLINE int N(_compare)(const void *a, const void *b)
{
    chain_note(__builtin_return_address(0));
    N(_aligned)(2);
    return memcmp(a, b, 1);
}

void N(_run)(int through_qsort)
{
    chain_note(__builtin_return_address(0));
    char two[2] = "b";
    if (through_qsort)
        qsort(two, 2, 1, N(_compare));
    else
        sink += (uint64_t)N(_compare)("a", two);
    sink++;
}
