/*
 * The least that an interposer does which says when a call began and ended:
 * two stamps and a record of 48 bytes (both, the result, the descriptor, the
 * site, the kind), no CPU time, nothing looked at. In LD_PRELOAD in the
 * agent's place, to have a floor measured in the same rounds
 * (tests/bench/run hot, cold, pingpong). Its records go round in 16 KiB, or
 * with BENCH_FLOOR_FRESH into new pages of a file in /dev/shm, made 64 KiB at a
 * time as the agent does.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "agent/pool/counter.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define EXPORT __attribute__((visibility("default"), hot, aligned(64)))
#define ROUND_BYTES 16384u
#define STEP_BYTES 65536u
#define FILE_BYTES (64u << 20)

struct record {
    uint64_t t, t_ret;
    int64_t result, fd;
    uint64_t site, kind;
};

static ssize_t (*real_send)(int, const void *, size_t, int);
static ssize_t (*real_recv)(int, void *, size_t, int);
static int fresh;
static __thread struct {
    char *at, *end;        /* records go here */
    char *file, *file_end; /* new pages come from here */
} room __attribute__((tls_model("initial-exec")));

__attribute__((constructor)) static void begin(void)
{
    void *s = dlsym(RTLD_NEXT, "send"), *r = dlsym(RTLD_NEXT, "recv");
    memcpy(&real_send, &s, sizeof(s));
    memcpy(&real_recv, &r, sizeof(r));
    fresh = getenv("BENCH_FLOOR_FRESH") != NULL;
}

static void new_file(void)
{
    char name[] = "/dev/shm/ips-bench-floor-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0 || unlink(name) < 0 || ftruncate(fd, FILE_BYTES) < 0)
        abort();
    room.file =
        mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (room.file == MAP_FAILED)
        abort();
    room.file_end = room.file + FILE_BYTES;
    close(fd);
}

static __attribute__((noinline, cold)) void more(void)
{
    static __thread char round[ROUND_BYTES] __attribute__((aligned(64)));
    if (!fresh) {
        room.at = round;
        room.end = round + ROUND_BYTES;
        return;
    }
    if (room.file == room.file_end)
        new_file();
    if (madvise(room.file, STEP_BYTES, MADV_POPULATE_WRITE) < 0)
        abort();
    room.at = room.file;
    room.end = room.file += STEP_BYTES;
}

static inline void record(uint64_t t, ssize_t result, int fd, uint64_t kind,
                          const void *site)
{
    uint64_t t_ret = ips_counter_read();
    if (__builtin_expect(room.end - room.at < (ptrdiff_t)sizeof(struct record),
                         0))
        more();
    *(struct record *)(void *)room.at =
        (struct record){t, t_ret, result, fd, (uint64_t)(uintptr_t)site, kind};
    room.at += sizeof(struct record);
}

EXPORT ssize_t send(int fd, const void *bytes, size_t n, int flags);
EXPORT ssize_t send(int fd, const void *bytes, size_t n, int flags)
{
    uint64_t t = ips_counter_read();
    ssize_t r = real_send(fd, bytes, n, flags);
    record(t, r, fd, 1, __builtin_return_address(0));
    return r;
}

EXPORT ssize_t recv(int fd, void *bytes, size_t n, int flags);
EXPORT ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
    uint64_t t = ips_counter_read();
    ssize_t r = real_recv(fd, bytes, n, flags);
    record(t, r, fd, 2, __builtin_return_address(0));
    return r;
}
