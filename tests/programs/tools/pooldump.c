/*
 * pooldump RUN-DIRECTORY: every record of a run as JSON lines, one segment
 * after the other. For tests and for looking at what an agent wrote, without
 * any daemon.
 *
 * A line: {"seg":FILE,"pid":..,"tid":..,"seq":..,"task":bool,"image":..,
 * "type":"SEND","a":..,"ns":true (IPS_REC_F_NS only),"t":ns, fields...}; the
 * last line of a segment has "type":"segment" and "end": how reading ended,
 * "torn": reservations stepped over, "lost": by cause.
 * --torn   step over reservations never published (writer dead)
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "slave/build/proc_line.h"
#include "tests/support/pool_cursor.h"

static bool skip_torn;
static struct ips_segment_header head;
static struct ips_clock clock_of;
static uint32_t rec_flags;

static void put_text(const char *key, const char *text, size_t max)
{
    printf(",\"%s\":\"", key);
    for (size_t i = 0; i < max && text[i]; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void put_u(const char *key, uint64_t value)
{
    printf(",\"%s\":%" PRIu64, key, value);
}

static uint64_t ns(uint64_t stamp)
{
    return rec_flags & IPS_REC_F_NS
               ? stamp
               : ips_clock_convert_stamp_to_ns(&clock_of, stamp);
}

static const char *type_name(uint32_t type)
{
    static const char *const names[256] = {
#define X(name, code, record, text) [code] = #name,
#include "agent/pool/events.def"
#undef X
    };
    return names[type] ? names[type] : "unknown";
}

static const char *op_name(uint32_t op)
{
    switch (op) {
#define X(name, number, text)                                                  \
    case number:                                                               \
        return #name;
        IPS_OPS(X)
#undef X
    default: /* a plain number */
        return "unknown";
    }
}

static void put_addr(const char *key, const struct ips_addr *a)
{
    printf(",\"%s\":\"%u:", key, a->family);
    for (int i = 0; i < 16; i++)
        printf("%02x", a->addr[i]);
    printf(":%u\"", a->port);
}

static void put_io(const struct ips_rec_io *r)
{
    put_u("t_ret", ns(r->t_ret));
    put_u("cpu", r->cpu);
    put_u("cpu_ret", r->cpu_ret);
    printf(",\"result\":%" PRId64 ",\"op\":\"%s\"", r->result, op_name(r->op));
    put_u("err", r->err);
    put_u("site", r->site);
    put_u("ready", r->ready);
}

static void put_start(const struct ips_rec_start *r)
{
    put_u("cpu", r->cpu);
    put_u("fork_seq", r->fork_seq);
    put_u("ppid", r->ppid);
    put_u("ptid", r->ptid);
    put_u("parent_image", r->parent_image);
}

static void put_fork(const struct ips_rec_fork *r)
{
    put_u("t_ret", ns(r->t_ret));
    put_u("cpu", r->cpu);
    put_u("cpu_ret", r->cpu_ret);
    put_u("fork_seq", r->fork_seq);
    put_u("kind", r->kind);
    put_u("err", r->err);
}

static void put_join(const struct ips_rec_join *r)
{
    put_u("t_ret", ns(r->t_ret));
    put_u("cpu", r->cpu);
    put_u("cpu_ret", r->cpu_ret);
    put_u("seq", r->seq);
    put_u("child_cpu_ns", r->child_cpu_ns);
    put_u("status", r->status);
    put_u("kind", r->kind);
}

static void put_chan(const struct ips_rec_chan *r)
{
    put_u("fd", r->fd);
    put_u("kind", r->kind);
    put_u("side", r->side);
    put_u("flags", r->flags);
    put_u("dev", r->dev);
    put_u("ino", r->ino);
    put_u("peer_ino", r->peer_ino);
    put_u("cookie", r->cookie);
    put_u("netns", r->netns);
    put_u("sent_before", r->sent_before);
    put_u("recv_before", r->recv_before);
    put_u("name_hash", r->name_hash);
    put_u("peer_pid", r->peer_pid);
    put_addr("local", &r->local);
    put_addr("remote", &r->remote);
}

static void put_close(const struct ips_rec_close *r)
{
    put_u("cpu", r->cpu);
    put_u("fd", r->fd);
    put_u("how", r->how);
    put_u("sent", r->sent);
    put_u("recv", r->recv);
}

static void put_dgram(const struct ips_rec_dgram *r)
{
    put_u("hash", r->hash);
    put_u("path_hash", r->path_hash);
    put_addr("local", &r->local);
    put_addr("remote", &r->remote);
}

static void put_signal(const struct ips_rec_signal *r)
{
    put_u("cpu", r->cpu);
    printf(",\"to\":%d,\"thread\":%d,\"code\":%d", r->pid, r->tid, r->code);
    put_u("how", r->how);
    put_u("value", r->value);
}

static void put_sync(const struct ips_rec_sync *r, size_t len)
{
    put_u("t_ret", ns(r->t_ret));
    put_u("cpu", r->cpu);
    put_u("cpu_ret", r->cpu_ret);
    put_u("dev", r->dev);
    put_u("ino", r->ino);
    put_u("object", r->object);
    put_u("site", r->site);
    printf(",\"value\":%d,\"err\":%u", r->value, r->err);
    if (len >= sizeof(*r) + IPS_REC_LENGTH_BYTES) {
        uint64_t length;
        memcpy(&length, r + 1, sizeof(length));
        put_u("length", length);
    }
}

static void put_fields(const void *rec, size_t len)
{
    uint32_t type = ips_rec_type(rec);
    const struct ips_rec_text *text = rec;
    const struct ips_rec_end *end = rec;
    if (type == IPS_REC_SEND || type == IPS_REC_RECV ||
        type == IPS_REC_RECVCALL || type == IPS_REC_BLOCK) {
        put_io(rec);
    } else if (type == IPS_REC_START) {
        put_start(rec);
    } else if (type == IPS_REC_END) {
        put_u("cpu", end->cpu);
        put_u("status", end->status);
    } else if (type == IPS_REC_FORK) {
        put_fork(rec);
    } else if (type == IPS_REC_JOIN) {
        put_join(rec);
    } else if (type == IPS_REC_EXEC || type == IPS_REC_EXECFAIL ||
               type == IPS_REC_MARK || type == IPS_REC_UNSEEN ||
               type == IPS_REC_NAME) {
        put_u("cpu", text->cpu);
        put_text("text", text->text, len - sizeof(*text));
    } else if (type == IPS_REC_LOST) {
        put_u("count", ((const struct ips_rec_lost *)rec)->count);
    } else if (type == IPS_REC_CHAN) {
        put_chan(rec);
    } else if (type == IPS_REC_CLOSE) {
        put_close(rec);
    } else if (type == IPS_REC_DGRAM) {
        put_dgram(rec);
    } else if (type == IPS_REC_KILL || type == IPS_REC_SIGNAL) {
        put_signal(rec);
    } else if (type == IPS_REC_ACQUIRE || type == IPS_REC_RELEASE) {
        put_sync(rec, len);
    } else if (type == IPS_REC_ACQUIRE_SHORT || type == IPS_REC_RELEASE_SHORT) {
        put_u("cpu", ((const struct ips_rec_lock *)rec)->cpu);
        put_u("object", ((const struct ips_rec_lock *)rec)->object);
    } else if (type == IPS_REC_THREADCPU || type == IPS_REC_PAGEFAULT) {
        put_u("cpu", ((const struct ips_rec_cpu *)rec)->cpu);
    } else if (type == IPS_REC_RUNDELAY) {
        put_u("delay", ((const struct ips_rec_delay *)rec)->delay_ns);
    } else if (type == IPS_REC_GUESSED) {
        const struct ips_rec_guessed *r = rec;
        put_u("guessed", r->guessed_ns);
        put_u("off", r->off_ns);
        put_u("off_max", r->off_max_ns);
    } else if (type == IPS_REC_CALLS) {
        put_u("calls", ((const struct ips_rec_calls *)rec)->calls);
        put_u("beyond", ((const struct ips_rec_calls *)rec)->h.a);
    }
}

static void put_begin(const char *file, const char *type)
{
    printf("{\"seg\":\"%s\",\"pid\":%u,\"tid\":%u,\"seq\":%u,\"task\":%s,"
           "\"image\":%" PRIu64 ",\"type\":\"%s\"",
           file, head.pid, head.tid, head.seq,
           head.flags & IPS_SEGMENT_TASK ? "true" : "false", head.image_stamp,
           type);
}

static void put_end(const char *file, enum pool_cursor_answer answer,
                    unsigned torn)
{
    static const char *const lost_names[IPS_LOST_COUNT] = {
#define X(name, number, text) [number] = #name,
        IPS_LOST_CAUSES(X)
#undef X
    };
    put_begin(file, "segment");
    printf(",\"end\":\"%s\",\"torn\":%u,\"state\":%u,\"lost\":{",
           answer == POOL_CURSOR_CLOSED    ? "closed"
           : answer == POOL_CURSOR_PENDING ? "pending"
           : answer == POOL_CURSOR_CORRUPT ? "corrupt"
                                           : "end",
           torn, (unsigned)atomic_load(&head.state));
    const char *comma = "";
    for (int i = 0; i < IPS_LOST_COUNT; i++)
        if (lost_names[i] && atomic_load(&head.lost[i])) {
            printf("%s\"%s\":%" PRIu64, comma, lost_names[i],
                   (uint64_t)atomic_load(&head.lost[i]));
            comma = ",";
        }
    printf("},\"stream_stamp\":%" PRIu64 ",\"uid\":%u", head.stream_stamp,
           head.uid);
    put_text("comm", head.comm, sizeof(head.comm));
    puts("}");
}

static int dump_records(const char *file, int fd, struct ips_err *err)
{
    static _Alignas(8) unsigned char rec[IPS_REC_MAX_BYTES];
    struct pool_cursor c;
    int rc = pool_cursor_open(&c, fd, &head, err);
    if (rc < 0)
        return rc;
    clock_of = head.clock;
    unsigned torn = 0;
    struct slave_record_expander line = {0};
    for (;;) {
        size_t len = 0;
        enum pool_cursor_answer answer = pool_cursor_next(&c, rec, &len);
        if (answer == POOL_CURSOR_PENDING && skip_torn) {
            torn++;
            pool_cursor_skip(&c);
            continue;
        }
        if (answer != POOL_CURSOR_MORE) {
            put_end(file, answer, torn);
            return answer == POOL_CURSOR_CORRUPT ? IPS_E_CORRUPT : 0;
        }
        uint32_t type = ips_rec_type((const void *)rec), bytes = (uint32_t)len;
        const void *whole = slave_expand_record_if_short(&line, &head.clock,
                                                         rec, &type, &bytes);
        if (!whole)
            continue; /* a short one of nothing */
        const struct ips_rec_head *h = whole;
        rec_flags = ips_rec_flags(h);
        put_begin(file, type_name(ips_rec_type(h)));
        printf(",\"a\":%u,\"t\":%" PRIu64, h->a, ns(h->t));
        if (rec_flags & IPS_REC_F_NS)
            printf(",\"ns\":true");
        put_fields(whole, bytes);
        puts("}");
    }
}

static int dump_segment(int dir, const char *file, struct ips_err *err)
{
    int fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return ips_err_errno(err, "open");
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st) < 0)
        rc = ips_err_errno(err, "stat");
    else if (!S_ISREG(st.st_mode) || st.st_size % 8 ||
             st.st_size > IPS_SEGMENT_MAX_BYTES)
        rc = ips_err_set(err, IPS_E_CORRUPT, "no segment has %lld bytes",
                         (long long)st.st_size);
    else if (st.st_size > 0) /* else its maker ended before it gave it a size */
        rc = dump_records(file, fd, err);
    close(fd);
    return rc;
}

static int is_segment(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return dot && strcmp(dot, IPS_SEGMENT_SUFFIX) == 0;
}

/* By pid, tid and stamp; versionsort would take hexadecimal for numbers. */
static int by_stamp(const struct dirent **a, const struct dirent **b)
{
    unsigned long long x[3] = {0}, y[3] = {0};
    sscanf((*a)->d_name, "%llu.%llu.%llx", &x[0], &x[1], &x[2]);
    sscanf((*b)->d_name, "%llu.%llu.%llx", &y[0], &y[1], &y[2]);
    for (int i = 0; i < 3; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--torn") == 0) {
        skip_torn = true;
        argv++;
        argc--;
    }
    if (argc != 2) {
        fprintf(stderr, "usage: pooldump [--torn] RUN-DIRECTORY\n");
        return 2;
    }
    struct dirent **names;
    int n = scandir(argv[1], &names, is_segment, by_stamp);
    int dir = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (n < 0 || dir < 0) {
        perror(argv[1]);
        return 1;
    }
    int status = 0;
    for (int i = 0; i < n; i++) {
        struct ips_err err = {0};
        int rc = dump_segment(dir, names[i]->d_name, &err);
        if (rc < 0 && rc != IPS_E_BUSY) {
            fprintf(stderr, "pooldump: %s: %s\n", names[i]->d_name,
                    err.code ? err.msg : ips_err_text_of_code(rc));
            status = 1;
        }
        free(names[i]);
    }
    free(names);
    close(dir);
    return status;
}
