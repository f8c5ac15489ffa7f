/* Starts a stream: writes START and, for a program image, NAME. */
#include <string.h>

#include "agent/record/fast.h"
#include "agent/record/own_table.h"
#include "agent/record/sys.h"

char **ips_core_arguments;

/* Fills `out` with the arguments in the format of /proc/self/cmdline,
 * truncated. Returns the length; 0: the arguments are unknown. */
static long copy_program_arguments(char *out, size_t size)
{
    size_t at = 0;
    for (char **arg = ips_core_arguments; arg && *arg && at < size; arg++) {
        size_t n = strnlen(*arg, size - at - 1) + 1;
        memcpy(out + at, *arg, n - 1);
        out[at + n - 1] = '\0';
        at += n;
    }
    return (long)at;
}

#define LINE_BYTES 512u

/* Writes NAME: the command line, its arguments separated by blanks. */
static void write_command_line_as_name_record(struct ips_stream *s,
                                              uint64_t stamp)
{
    char line[LINE_BYTES];
    long n = copy_program_arguments(line, sizeof(line) - 1);
    if (!n)
        n = ips_read_file_with_own_fd_table("/proc/self/cmdline", line,
                                            LINE_BYTES - 1);
    while (n > 0 && line[n - 1] == '\0')
        n--;
    if (n <= 0)
        return;
    for (long i = 0; i < n; i++)
        if (line[i] == '\0')
            line[i] = ' ';
    struct ips_rec_text *rec = ips_stream_begin_record(
        s, IPS_REC_NAME, sizeof(*rec) + (size_t)n + 1, stamp);
    if (!rec)
        return;
    rec->h.a = (uint32_t)n;
    rec->cpu = s->start_cpu;
    memcpy(rec->text, line, (size_t)n);
    rec->text[n] = '\0';
    ips_rec_publish(rec);
}

static void fill_start_origin(const struct ips_stream *s,
                              struct ips_rec_start *rec)
{
    rec->fork_seq = s->fork_seq;
    rec->ppid = s->ppid;
    rec->ptid = s->ptid;
    rec->parent_image = s->parent_image;
}

void ips_write_start_with_creator(const struct ips_stream *s)
{
    struct ips_rec_start *rec = ips_rec_begin(IPS_REC_START, sizeof(*rec));
    if (!rec)
        return;
    rec->h.a = IPS_START_KNOWN;
    rec->cpu = ips_core_thread_cpu_ns();
    fill_start_origin(s, rec);
    ips_rec_publish(rec);
}

void ips_write_start_records_and_call_hook(struct ips_stream *s)
{
    s->state = IPS_STREAM_BEGUN;
    struct ips_rec_start *rec =
        ips_stream_begin_record(s, IPS_REC_START, sizeof(*rec), s->start_t);
    if (!rec)
        return;
    rec->h.a = s->start_kind;
    rec->cpu = s->start_cpu;
    fill_start_origin(s, rec);
    uint32_t flags = s->start_flags;
    if (s->seg.base && ips_segment_head(&s->seg)->taken)
        flags |= IPS_REC_F_SPARE;
    if (flags)
        ips_rec_add_flags(rec, flags);
    ips_rec_publish(rec);
    /* Not for a ROOT: ipsrun itself writes the NAME of the command. */
    if (s->start_kind == IPS_START_IMAGE)
        write_command_line_as_name_record(s, s->start_t);
    if (ips_core.begun && s == &ips_me.stream)
        ips_core.begun((enum ips_start_kind)s->start_kind);
}

/* Called for each stream that starts. If start_kind is 0, the stream starts
 * because of the thread's first record: the agent did not see the creation of
 * the thread. */
void ips_fill_stream_and_register_thread(struct ips_stream *s, uint64_t stamp)
{
    if (s != &ips_me.stream)
        return; /* a task or a thread without records: complete already */
    s->generation = ips_core.generation;
    s->tid = ips_sys_gettid();
    if (s->start_kind == 0) {
        s->start_kind = IPS_START_THREAD;
        s->parent_image = ips_core.image_stamp;
        s->start_cpu = ips_core_thread_cpu_ns();
    }
    if (!s->stamp)
        s->stamp = stamp;
    if (!s->start_t)
        s->start_t = s->stamp;
    ips_threads_add(s->tid);
}
