/*
 * A pool written by hand, for tests of its reader: a control, segments byte by
 * byte in every state a writer (or a hostile one) can leave them in. Header
 * only; each test program includes it once.
 */
#ifndef IPS_TESTS_UNIT_HELP_POOL_MAKER_H
#define IPS_TESTS_UNIT_HELP_POOL_MAKER_H

#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/pool/format.h"

#define MAKER_SEGMENT_BYTES 65536u

struct maker {
    char root[128]; /* everything below */
    char pool[160];
    char state[160];
    pid_t child; /* a process that lives until maker_kill */
};

static inline void maker_check(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        abort();
    }
}

/* A process that does nothing: the writer of the segments. */
static inline pid_t maker_process(void)
{
    pid_t pid = fork();
    if (pid == 0) { /* nor longer than a test that was killed */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    maker_check(pid > 0, "fork");
    return pid;
}

static inline void maker_kill(pid_t *pid)
{
    if (*pid > 0) {
        kill(*pid, SIGKILL);
        waitpid(*pid, NULL, 0);
    }
    *pid = 0;
}

static inline void maker_open(struct maker *m)
{
    snprintf(m->root, sizeof(m->root), "/dev/shm/slave-test-XXXXXX");
    maker_check(mkdtemp(m->root) != NULL, "mkdtemp");
    snprintf(m->pool, sizeof(m->pool), "%s/pool", m->root);
    snprintf(m->state, sizeof(m->state), "%s/state", m->root);
    maker_check(mkdir(m->pool, 0700) == 0, m->pool);
    m->child = maker_process();
}

static inline int maker_remove(const char *path, const struct stat *st,
                               int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline void maker_close(struct maker *m)
{
    maker_kill(&m->child);
    maker_check(nftw(m->root, maker_remove, 16, FTW_DEPTH | FTW_PHYS) == 0,
                m->root);
}

static inline uint64_t maker_raw_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline struct ips_clock maker_clock(void)
{
    return (struct ips_clock){.kind = IPS_CLOCK_RAW,
                              .mult_q32 = (uint64_t)1 << 32};
}

static inline void maker_run(const struct maker *m, const char *run)
{
    char path[400];
    struct ips_control c = {.magic = IPS_CONTROL_MAGIC,
                            .version = IPS_POOL_VERSION,
                            .control_bytes = sizeof(c),
                            .clock = maker_clock(),
                            .quota_bytes = 1 << 24,
                            .probe_ns = 100,
                            .cpus = 2};
    c.created_raw_ns = maker_raw_ns();
    snprintf(c.run, sizeof(c.run), "%s", run);
    snprintf(c.command, sizeof(c.command), "test %s", run);
    snprintf(path, sizeof(path), "%s/%s", m->pool, run);
    maker_check(mkdir(path, 0700) == 0, path);
    snprintf(path, sizeof(path), "%s/%s/control", m->pool, run);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    maker_check(fd >= 0 && write(fd, &c, sizeof(c)) == sizeof(c), path);
    close(fd);
}

struct maker_segment {
    char path[500];
    char file[96];
    int fd;
    uint32_t at;
    struct ips_segment_header head;
};

static inline void maker_put_header(struct maker_segment *s)
{
    maker_check(pwrite(s->fd, &s->head, sizeof(s->head), 0) == sizeof(s->head),
                "header");
}

/* Segment `seq` of thread `tid` of process `pid`; open. */
static inline void maker_segment(struct maker_segment *s, const struct maker *m,
                                 const char *run, pid_t pid, uint32_t tid,
                                 uint32_t seq)
{
    struct stat st;
    maker_check(stat("/proc/self/ns/pid", &st) == 0, "pidns");
    *s = (struct maker_segment){.at = sizeof(s->head)};
    s->head = (struct ips_segment_header){
        .magic = IPS_SEGMENT_MAGIC,
        .version = IPS_POOL_VERSION,
        .header_bytes = sizeof(s->head),
        .segment_bytes = MAKER_SEGMENT_BYTES,
        .seq = seq,
        .pid = (uint32_t)pid,
        .tid = tid,
        .pidns = st.st_ino,
        .image_stamp = 1000,
        .stream_stamp = 1000 + tid,
        .clock = maker_clock(),
        .state = IPS_SEGMENT_OPEN,
    };
    s->head.image_stamp = maker_raw_ns() / 1000000000u * 1000000000u;
    snprintf(s->file, sizeof(s->file), "%d.%u.%x.seg", pid, tid, seq);
    snprintf(s->path, sizeof(s->path), "%s/%s/%d.%u.%x.seg", m->pool, run, pid,
             tid, seq);
    s->fd = open(s->path, O_RDWR | O_CREAT | O_EXCL, 0600);
    maker_check(s->fd >= 0, s->path);
    maker_check(ftruncate(s->fd, MAKER_SEGMENT_BYTES) == 0, "ftruncate");
    maker_put_header(s);
}

/* A MARK with `number` as its text; returns its length. */
static inline uint32_t maker_mark(struct maker_segment *s, uint64_t number,
                                  int publish)
{
    union {
        struct ips_rec_text rec;
        char bytes[sizeof(struct ips_rec_text) + 24];
    } r = {.bytes = {0}};
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    r.rec.h.a = (uint32_t)strlen(text);
    r.rec.h.t = maker_raw_ns();
    memcpy(r.bytes + sizeof(r.rec), text, strlen(text) + 1);
    uint32_t bytes =
        (uint32_t)(sizeof(struct ips_rec_text) + strlen(text) + 1 + 7) / 8 * 8;
    r.rec.h.word = publish ? IPS_REC_MARK | bytes / 8 << 8
                           : IPS_REC_RESERVED | bytes / 8 << 8 |
                                 (uint32_t)IPS_REC_MARK << 16;
    maker_check(pwrite(s->fd, &r, bytes, (off_t)s->at) == (ssize_t)bytes,
                "mark");
    s->at += bytes;
    return bytes;
}

static inline void maker_raw(struct maker_segment *s, const void *data,
                             size_t len)
{
    maker_check(pwrite(s->fd, data, len, (off_t)s->at) == (ssize_t)len, "raw");
    s->at += (uint32_t)len;
}

static inline void maker_state(struct maker_segment *s, uint32_t state)
{
    s->head.state = state;
    maker_check(pwrite(s->fd, &state, sizeof(state),
                       offsetof(struct ips_segment_header, state)) ==
                    sizeof(state),
                "state");
}

static inline void maker_abandon(struct maker_segment *s)
{
    uint32_t one = 1;
    maker_check(pwrite(s->fd, &one, sizeof(one),
                       offsetof(struct ips_segment_header, abandoned)) ==
                    sizeof(one),
                "abandoned");
}

static inline uint32_t maker_read_state(const struct maker_segment *s)
{
    uint32_t state = 0;
    maker_check(pread(s->fd, &state, sizeof(state),
                      offsetof(struct ips_segment_header, state)) ==
                    sizeof(state),
                "state");
    return state;
}

#endif
