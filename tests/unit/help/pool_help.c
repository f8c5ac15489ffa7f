#include "tests/unit/help/pool_help.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void pool_help_make(struct pool_dir *p, const char *base)
{
    struct ips_err err = {0};
    snprintf(p->root, sizeof(p->root), "%s/ips-test-XXXXXX",
             base ? base : "/dev/shm");
    assert_non_null(mkdtemp(p->root));
    struct ips_run_options opt = {
        .pool_root = p->root, .run = "r", .machine = "m", .command = "test"};
    if (ips_pool_make_or_join_run(&opt, p->dir, sizeof(p->dir), &err) < 0)
        fail_msg("%s", err.msg);
}

static void empty(const char *dir)
{
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(dir);
}

void pool_help_remove(struct pool_dir *p)
{
    empty(p->dir);
    empty(p->root);
}

void pool_help_enter(const struct pool_dir *p)
{
    setenv("IPS_POOL", p->root, 1);
    setenv("IPS_RUN", "r", 1);
}

struct ips_control *pool_help_control(const struct pool_dir *p)
{
    char path[700];
    snprintf(path, sizeof(path), "%s/control", p->dir);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    struct ips_control *c =
        mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(c != MAP_FAILED);
    close(fd);
    return c;
}

static int is_segment(const struct dirent *e)
{
    return strstr(e->d_name, IPS_SEGMENT_SUFFIX) != NULL;
}

uint64_t pool_help_blocks(const struct pool_dir *p, unsigned *files)
{
    uint64_t sum = 0;
    DIR *dir = opendir(p->dir);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        struct stat st;
        if (!is_segment(e))
            continue;
        assert_int_equal(fstatat(dirfd(dir), e->d_name, &st, 0), 0);
        sum += (uint64_t)st.st_blocks * 512;
        ++*files;
    }
    closedir(dir);
    return sum;
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

static void read_one(const struct pool_dir *p, struct pool_segment *seg,
                     pool_record_fn on_record, pool_segment_fn on_end,
                     void *arg)
{
    static _Alignas(8) unsigned char rec[IPS_REC_MAX_BYTES];
    char path[900];
    struct ips_err err = {0};
    struct stat st;
    struct pool_cursor c;
    snprintf(path, sizeof(path), "%s/%s", p->dir, seg->file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    /* nobody else may read what was recorded */
    assert_int_equal(st.st_mode & 07777, 0600);
    int rc =
        st.st_size ? pool_cursor_open(&c, fd, &seg->head, &err) : IPS_E_BUSY;
    if (rc == IPS_E_BUSY) { /* killed while making it */
        close(fd);
        return;
    }
    if (rc < 0)
        fail_msg("%s: %s", seg->file, err.msg);
    seg->torn = 0;
    for (;;) {
        size_t len = 0;
        seg->end = pool_cursor_next(&c, rec, &len);
        if (seg->end == POOL_CURSOR_MORE) {
            on_record(seg, rec, len, arg);
        } else if (seg->end == POOL_CURSOR_PENDING) {
            pool_cursor_skip(&c);
            seg->torn++;
        } else {
            break;
        }
    }
    if (on_end)
        on_end(seg, arg);
    close(fd);
}

unsigned pool_help_read(const struct pool_dir *p, pool_record_fn on_record,
                        pool_segment_fn on_end, void *arg)
{
    struct dirent **names;
    int n = scandir(p->dir, &names, is_segment, by_stamp);
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        struct pool_segment seg = {.end = POOL_CURSOR_END};
        snprintf(seg.file, sizeof(seg.file), "%s", names[i]->d_name);
        read_one(p, &seg, on_record, on_end, arg);
        free(names[i]);
    }
    free(names);
    return (unsigned)n;
}
