/* Finds communication that leaves no records; see drain/unrecorded.h. */
#include "slave/drain/unrecorded.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "slave/drain/drain.h"

#define FIRST_NS (100 * SLAVE_MS_NS)
#define LAST_NS (60 * SLAVE_SECOND_NS)
#define EVERY_NS (50 * SLAVE_MS_NS)
#define PER_LOOK 16  /* maximum number of processes that one scan examines */
#define ROWS_MAX 256 /* maximum number of rows per examined process */

/* ---- searching /proc ---- */

struct examined_process {
    struct slave_drain *d;
    struct slave_image *image;
    unsigned rows;
    bool maps_agent, maps_anything;
};

bool slave_unrecorded_has_process_ended(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return pidfd >= 0 && poll(&p, 1, 0) != 0;
}

/* Stores a row of what was read from /proc/PID, unless the process has ended
 * since. In that case the pid may have belonged to another process when /proc
 * was read. */
static void store_unrecorded_row(struct examined_process *l,
                                 struct slave_unrecorded_row *row)
{
    struct ips_err err = {0};
    row->pid = l->image->pid;
    if (l->rows++ >= ROWS_MAX ||
        slave_unrecorded_has_process_ended(l->image->pidfd))
        return;
    if (slave_store_insert_unrecorded_if_new(l->d->store, l->image->run->row.id,
                                             row, &err) < 0)
        /* The row is not stored, but the next search finds the activity
         * again. */
        ips_log_debug("unseen: %s", err.msg);
}

static void store_row_if_process_uses_io_uring(struct examined_process *l)
{
    char path[64], text[64];
    snprintf(path, sizeof(path), "/proc/%u/fd", l->image->pid);
    DIR *dir = opendir(path);
    struct dirent *e;
    while (dir && (e = readdir(dir))) {
        ssize_t n = readlinkat(dirfd(dir), e->d_name, text, sizeof(text) - 1);
        if (n <= 0)
            continue;
        text[n] = '\0';
        if (strcmp(text, "anon_inode:[io_uring]") != 0)
            continue;
        struct slave_unrecorded_row row = {.kind = SLAVE_UNSEEN_URING};
        store_unrecorded_row(l, &row);
        break;
    }
    if (dir)
        closedir(dir);
}

/* GCC's OpenMP runtime waits on futexes with system calls of its own; LLVM's
 * and Intel's mostly spin on memory. If the row maps the code of such a
 * runtime, turns it into a SLAVE_UNSEEN_OWN row. */
static bool convert_row_if_threading_runtime(struct slave_unrecorded_row *row,
                                             const char *path, size_t len)
{
    const char *what = ips_find_runtime_of_library(path, len);
    if (!what)
        return false;
    snprintf(row->path, sizeof(row->path), "%s", what);
    row->kind = SLAVE_UNSEEN_OWN;
    return true;
}

bool slave_unrecorded_parse_maps_line(const char *line, const char *pool,
                                      struct slave_unrecorded_row *row)
{
    char perms[5] = "";
    unsigned major = 0, minor = 0;
    unsigned long long ino = 0;
    int at = 0;
    if (sscanf(line, "%*x-%*x %4s %*x %x:%x %llu %n", perms, &major, &minor,
               &ino, &at) < 4)
        return false;
    const char *path = at ? line + at : "";
    size_t n = strcspn(path, "\n"), p = strlen(pool);
    *row = (struct slave_unrecorded_row){.kind = SLAVE_UNSEEN_SHARED,
                                         .writes = perms[1] == 'w',
                                         .dev = (uint64_t)major << 32 | minor,
                                         .ino = ino};
    snprintf(row->path, sizeof(row->path), "%.*s",
             (int)ips_min_u64(n, sizeof(row->path) - 1), path);
    if (strncmp(path, "/[aio]", 6) == 0) {
        row->kind = SLAVE_UNSEEN_AIO;
        row->path[0] = '\0';
        row->dev = row->ino = 0;
        return true;
    }
    if (perms[2] == 'x' && convert_row_if_threading_runtime(row, path, n))
        return true;
    if (perms[3] != 's' || ino == 0 || strncmp(path, "anon_inode:", 11) == 0 ||
        (strncmp(path, pool, p) == 0 && path[p] == '/'))
        return false;
    /* Mappings of ordinary files that the process cannot write do not count:
     * caches of the C library, for example, are mapped by all processes. */
    return row->writes || strncmp(path, "/dev/shm/", 9) == 0 ||
           strncmp(path, "/memfd:", 7) == 0 || strncmp(path, "/SYSV", 5) == 0;
}

bool slave_unrecorded_is_map_of_agent(const char *line, const char *pool)
{
    const char *path = strchr(line, '/');
    if (!path)
        return false;
    const char *name = strrchr(path, '/') + 1;
    size_t n = strlen(pool);
    return (strncmp(path, pool, n) == 0 && path[n] == '/') ||
           strncmp(name, "libips", 6) == 0 ||
           strstr(name, IPS_SEGMENT_SUFFIX) != NULL;
}

static bool has_several_threads(uint32_t pid)
{
    char path[64];
    unsigned count = 0;
    snprintf(path, sizeof(path), "/proc/%u/task", pid);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && count < 2 && (e = readdir(dir));)
        count += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count == 2;
}

static void store_rows_of_memory_maps(struct examined_process *l)
{
    char path[64], *line = NULL;
    size_t room = 0;
    struct slave_unrecorded_row row;
    snprintf(path, sizeof(path), "/proc/%u/maps", l->image->pid);
    FILE *f = fopen(path, "re");
    while (f && getline(&line, &room, f) > 0) {
        l->maps_anything = true;
        l->maps_agent |= slave_unrecorded_is_map_of_agent(line, l->d->pool);
        if (slave_unrecorded_parse_maps_line(line, l->d->pool, &row) &&
            (row.kind != SLAVE_UNSEEN_OWN ||
             has_several_threads(l->image->pid)))
            store_unrecorded_row(l, &row);
    }
    free(line);
    if (f)
        fclose(f);
}

/* Whether the ELF note segment `h` contains a note of the Go linker. Notes are
 * small, so only the first bytes are searched. */
static bool has_go_note(int fd, const Elf64_Phdr *h)
{
    char buf[512];
    ssize_t n = pread(fd, buf, ips_min_u64(h->p_filesz, sizeof(buf)),
                      (off_t)h->p_offset);
    Elf64_Nhdr note;
    for (size_t at = 0; n > 0 && at + sizeof(note) + 4 <= (size_t)n;) {
        memcpy(&note, buf + at, sizeof(note));
        at += sizeof(note);
        if (note.n_namesz == 4 && memcmp(buf + at, "Go\0", 4) == 0)
            return true;
        if (note.n_namesz > sizeof(buf) || note.n_descsz > sizeof(buf))
            return false;
        at += ((note.n_namesz + 3) & ~3u) + ((note.n_descsz + 3) & ~3u);
    }
    return false;
}

bool slave_unrecorded_is_go_program(int fd)
{
    Elf64_Ehdr e;
    Elf64_Phdr h;
    if (pread(fd, &e, sizeof(e), 0) != sizeof(e) ||
        memcmp(e.e_ident, ELFMAG, SELFMAG) != 0 ||
        e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_phentsize != sizeof(h))
        return false;
    for (unsigned i = 0; i < e.e_phnum && i < 64; i++) {
        off_t at = (off_t)(e.e_phoff + i * sizeof(h));
        if (pread(fd, &h, sizeof(h), at) != sizeof(h))
            return false;
        if (h.p_type == PT_NOTE && has_go_note(fd, &h))
            return true;
    }
    return false;
}

/* Adds a row if the process runs a Go program. A running program is a regular
 * file, so reading it does not block. */
static void store_row_if_process_runs_go(struct examined_process *l)
{
    struct slave_unrecorded_row row = {.kind = SLAVE_UNSEEN_OWN,
                                       .path = IPS_GO_RUNTIME};
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/exe", l->image->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && slave_unrecorded_is_go_program(fd))
        store_unrecorded_row(l, &row);
    if (fd >= 0)
        close(fd);
}

/* Adds a row if the process no longer runs the program of the image: then none
 * of its mappings belongs to the agent. That is also the case for a moment in
 * every exec. So an answer ignores the row if the image ends with an EXEC
 * record, if the next image of the process recorded, or if the process recorded
 * its end. Without a pidfd no row is added, because the pid may belong to
 * another process by now. */
static void store_row_if_process_changed_program(struct examined_process *l)
{
    struct slave_unrecorded_row row = {.kind = SLAVE_UNSEEN_PROGRAM,
                                       .ino = l->image->stamp};
    char path[64];
    if (!l->maps_anything || l->maps_agent || l->image->pidfd < 0)
        return;
    snprintf(path, sizeof(path), "/proc/%u/exe", l->image->pid);
    ssize_t n = readlink(path, row.path, sizeof(row.path) - 1);
    /* the process is ending, so the list of its mappings was incomplete */
    if (n <= 0)
        return;
    row.path[n] = '\0';
    store_unrecorded_row(l, &row);
}

void slave_unrecorded_scan_due_processes(struct slave_drain *d, uint64_t now_ns)
{
    unsigned budget = PER_LOOK;
    if (now_ns < d->next_unrecorded_ns)
        return;
    d->next_unrecorded_ns = now_ns + EVERY_NS;
    for (struct slave_run *r = d->runs; r && budget; r = r->next) {
        if (!r->in_pool || !r->row.id)
            continue;
        for (struct slave_image *i = r->images; i && budget; i = i->next) {
            if (i->state != SLAVE_IMAGE_ALIVE || i->pidns != d->pidns)
                continue;
            if (!i->unrecorded_wait_ns) {
                i->unrecorded_wait_ns = FIRST_NS;
                i->next_unrecorded_ns = now_ns + FIRST_NS;
            }
            if (now_ns < i->next_unrecorded_ns)
                continue;
            i->unrecorded_wait_ns =
                ips_min_u64(4 * i->unrecorded_wait_ns, LAST_NS);
            i->next_unrecorded_ns = now_ns + i->unrecorded_wait_ns;
            struct examined_process l = {.d = d, .image = i};
            store_row_if_process_uses_io_uring(&l);
            store_rows_of_memory_maps(&l);
            store_row_if_process_runs_go(&l);
            store_row_if_process_changed_program(&l);
            budget--;
        }
    }
}

bool slave_unrecorded_is_program_change(const struct ips_built *b,
                                        const struct slave_unrecorded_row *row)
{
    if (row->kind != SLAVE_UNSEEN_PROGRAM)
        return false;
    for (uint32_t i = 0; i < b->proc_count; i++)
        if (b->procs[i].pid == row->pid && b->procs[i].image_stamp == row->ino)
            return !b->procs[i].left_image && !b->procs[i].recorded_end;
    return false;
}

/* ---- texts for the certificate ---- */

struct activity_texts {
    const struct ips_built *b;
    const char *machine;
    char **text_line;
    uint32_t count;
    uint64_t more;
};

static void add_distinct_activity_text(struct activity_texts *w,
                                       const char *text)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (strcmp(w->text_line[i], text) == 0)
            return;
    char *copy = w->count < SLAVE_UNSEEN_LINES - 1 ? strdup(text) : NULL;
    if (copy)
        w->text_line[w->count++] = copy;
    else
        w->more++;
}

/* Writes the name of the last recorded process that had the pid; if none had
 * it, a text with the pid. */
static void format_process_name_of_pid(const struct activity_texts *w,
                                       uint32_t pid, char *out, size_t size)
{
    for (uint32_t i = w->b->proc_count; i > 0; i--)
        if (w->b->procs[i - 1].pid == pid) {
            snprintf(out, size, "/%s/%s", w->machine, w->b->procs[i - 1].name);
            return;
        }
    snprintf(out, size, "process %u of %s", pid, w->machine);
}

static void add_activity_text_of_process(struct activity_texts *w,
                                         const char *what, const char *name)
{
    char text[256];
    snprintf(text, sizeof(text),
             "%s in %.150s: IPS does not see what moves through it", what,
             name);
    add_distinct_activity_text(w, text);
}

static int compare_rows_by_object(const void *va, const void *vb)
{
    const struct slave_unrecorded_row *a = va, *b = vb;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->dev != b->dev)
        return a->dev < b->dev ? -1 : 1;
    if (a->ino != b->ino)
        return a->ino < b->ino ? -1 : 1;
    return a->pid < b->pid ? -1 : a->pid > b->pid;
}

/* If several processes map the memory object of rows [from, to) and at least
 * one may write it, adds a line about it. The rows are sorted by pid. */
static void
add_text_if_memory_is_shared(struct activity_texts *w,
                             const struct slave_unrecorded_row *rows,
                             uint32_t from, uint32_t to)
{
    char first[96], second[96], others[48] = "", text[512];
    uint32_t users = 0, pids[2] = {0, 0};
    bool written = false;
    for (uint32_t i = from; i < to; i++) {
        written |= rows[i].writes;
        if (i > from && rows[i].pid == rows[i - 1].pid)
            continue;
        if (users < 2)
            pids[users] = rows[i].pid;
        users++;
    }
    if (users < 2 || !written)
        return;
    format_process_name_of_pid(w, pids[0], first, sizeof(first));
    format_process_name_of_pid(w, pids[1], second, sizeof(second));
    if (users > 2)
        snprintf(others, sizeof(others), " and %u more", users - 2);
    snprintf(text, sizeof(text),
             "memory shared by %s, %s%s (%.100s): IPS does not see what "
             "they exchange there",
             first, second, others, rows[from].path);
    add_distinct_activity_text(w, text);
}

static void describe_rows(struct activity_texts *w,
                          const struct slave_unrecorded_row *rows,
                          uint32_t count)
{
    for (uint32_t i = 0, to; i < count; i = to) {
        char name[96];
        to = i + 1;
        if (rows[i].kind == SLAVE_UNSEEN_PROGRAM)
            continue;
        if (rows[i].kind == SLAVE_UNSEEN_SHARED) {
            while (to < count && rows[to].kind == SLAVE_UNSEEN_SHARED &&
                   rows[to].dev == rows[i].dev && rows[to].ino == rows[i].ino)
                to++;
            add_text_if_memory_is_shared(w, rows, i, to);
            continue;
        }
        format_process_name_of_pid(w, rows[i].pid, name, sizeof(name));
        add_activity_text_of_process(
            w,
            rows[i].kind == SLAVE_UNSEEN_URING ? "io_uring"
            : rows[i].kind == SLAVE_UNSEEN_AIO ? "kernel AIO"
                                               : rows[i].path,
            name);
    }
}

uint32_t
slave_unrecorded_count_communication(const struct ips_built *b,
                                     const struct slave_unrecorded_row *rows,
                                     uint32_t count)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->unrecorded_count; i++)
        n += !b->unrecorded[i].runtime;
    for (uint32_t i = 0; i < count; i++)
        n += rows[i].kind == SLAVE_UNSEEN_URING ||
             rows[i].kind == SLAVE_UNSEEN_AIO;
    return n;
}

uint32_t slave_unrecorded_describe(const struct ips_built *b,
                                   const char *machine,
                                   const struct slave_unrecorded_row *rows,
                                   uint32_t count, char ***out)
{
    struct activity_texts w = {.b = b, .machine = machine};
    struct slave_unrecorded_row *sorted = calloc(count + 1, sizeof(*sorted));
    w.text_line = calloc(SLAVE_UNSEEN_LINES, sizeof(*w.text_line));
    if (sorted && w.text_line) {
        for (uint32_t i = 0; i < b->unrecorded_count; i++) {
            char name[96];
            format_process_name_of_pid(
                &w, b->procs[b->unrecorded[i].process].pid, name, sizeof(name));
            add_activity_text_of_process(&w, b->unrecorded[i].what, name);
        }
        if (count)
            memcpy(sorted, rows, count * sizeof(*rows));
        qsort(sorted, count, sizeof(*sorted), compare_rows_by_object);
        describe_rows(&w, sorted, count);
    }
    if (w.more) {
        char text[96];
        snprintf(text, sizeof(text), "%llu more of the kind on %.30s",
                 (unsigned long long)w.more, machine);
        w.text_line[w.count] = strdup(text);
        w.count += w.text_line[w.count] != NULL;
    }
    free(sorted);
    *out = w.text_line;
    return w.count;
}
