#include "common/large.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/types.h"

#define HUGE_BYTES ((size_t)2 << 20)
#define PAGE_BYTES ((size_t)4096)
#define DIR_BYTES 4096
#define KEPT_MAX 64u
#define KEPT_BYTES ((size_t)1 << 30)

struct mapping {
    char *at;
    size_t bytes;
    bool file;
    bool thin; /* a sparse array: most of its pages were never touched, so it is
                  not reused */
};

static struct {
    pthread_mutex_t lock;
    struct mapping *v;
    size_t count, capacity;
    struct ips_large_use use;
    /* released mappings, kept mapped for reuse; memory only, no files */
    struct mapping reusable[KEPT_MAX];
    size_t reusable_count, reusable_bytes;
    char dir[DIR_BYTES];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .use = {.limit = UINT64_MAX}};

/* ---- mappings kept for reuse; under the lock ---- */

/* Unmaps reusable mappings until at most `most` bytes of them are left. */
static void unmap_reusable_above(uint64_t most)
{
    while (all.reusable_bytes > most) {
        struct mapping *m = &all.reusable[--all.reusable_count];
        all.reusable_bytes -= m->bytes;
        munmap(m->at, m->bytes);
    }
}

static uint64_t reusable_bytes_limit(void)
{
    uint64_t left = ips_sub_sat(all.use.limit, all.use.memory);
    return ips_min_u64(ips_min_u64(KEPT_BYTES, all.use.limit / 4), left);
}

static bool keep_mapping_for_reuse_if_allowed(const struct mapping *m)
{
    if (m->file || m->thin || m->bytes < HUGE_BYTES ||
        all.reusable_count == KEPT_MAX ||
        all.reusable_bytes + m->bytes > reusable_bytes_limit())
        return false;
    all.reusable[all.reusable_count++] = *m;
    all.reusable_bytes += m->bytes;
    return true;
}

/* Returns the index of the reusable mapping that fits best: the smallest that
 * has `bytes` to twice as many bytes; else the largest that has at least half
 * as many. Returns reusable_count if none fits. */
static size_t find_best_reusable_mapping(size_t bytes)
{
    size_t best = all.reusable_count, has = 0;
    for (size_t i = all.reusable_count; i > 0 && has != bytes; i--) {
        size_t n = all.reusable[i - 1].bytes;
        if (n / 2 > bytes || n < bytes / 2)
            continue;
        if (!has ||
            (n >= bytes ? has < bytes || n < has : has < bytes && n > has)) {
            best = i - 1;
            has = n;
        }
    }
    return best;
}

/* Takes a released mapping and cuts it to `bytes`, or extends it in place if
 * the addresses after it are free, because an array that was trimmed is often
 * needed in full again. Returns NULL if no mapping can be reused. */
static char *reuse_mapping(size_t bytes)
{
    size_t i = find_best_reusable_mapping(bytes);
    if (i == all.reusable_count)
        return NULL;
    struct mapping m = all.reusable[i];
    if (m.bytes < bytes && mremap(m.at, m.bytes, bytes, 0) == MAP_FAILED)
        return NULL;
    if (m.bytes > bytes)
        munmap(m.at + bytes, m.bytes - bytes);
    all.reusable_bytes -= m.bytes;
    all.reusable[i] = all.reusable[--all.reusable_count];
    return m.at;
}

bool ips_large_unmap_kept_mappings(void)
{
    pthread_mutex_lock(&all.lock);
    bool some = all.reusable_count > 0;
    unmap_reusable_above(0);
    pthread_mutex_unlock(&all.lock);
    return some;
}

void ips_large_set_limit_and_file_directory(uint64_t bytes, const char *dir)
{
    size_t len = strlen(dir);
    pthread_mutex_lock(&all.lock);
    unmap_reusable_above(0);
    all.use.limit = len < DIR_BYTES ? bytes : UINT64_MAX;
    memcpy(all.dir, dir, len < DIR_BYTES ? len + 1 : 0);
    pthread_mutex_unlock(&all.lock);
}

struct ips_large_use ips_large_get_use(void)
{
    pthread_mutex_lock(&all.lock);
    struct ips_large_use use = all.use;
    pthread_mutex_unlock(&all.lock);
    return use;
}

void ips_large_restart_peaks(void)
{
    pthread_mutex_lock(&all.lock);
    all.use.memory_most = all.use.memory;
    all.use.files_most = all.use.files;
    pthread_mutex_unlock(&all.lock);
}

/* ---- the table of mappings; under the lock ---- */

static void add_to_usage_and_peak(uint64_t *now, uint64_t *most, size_t bytes)
{
    *now += bytes;
    *most = ips_max_u64(*most, *now);
}

static bool add_mapping(char *at, size_t bytes, bool file, bool thin)
{
    if (all.count == all.capacity) {
        size_t room = all.capacity ? 2 * all.capacity : 64;
        struct mapping *v = realloc(all.v, room * sizeof(*v));
        if (!v)
            return false;
        all.v = v;
        all.capacity = room;
    }
    all.v[all.count++] = (struct mapping){at, bytes, file, thin};
    if (file)
        add_to_usage_and_peak(&all.use.files, &all.use.files_most, bytes);
    else
        add_to_usage_and_peak(&all.use.memory, &all.use.memory_most, bytes);
    return true;
}

/* Searches from the end, because the newest mappings are usually released
 * first. */
static struct mapping *find_mapping(const char *at)
{
    for (size_t i = all.count; i > 0; i--)
        if (all.v[i - 1].at == at)
            return &all.v[i - 1];
    return NULL;
}

static void remove_mapping(struct mapping *m)
{
    *(m->file ? &all.use.files : &all.use.memory) -= m->bytes;
    *m = all.v[--all.count];
}

/* ---- mapping ---- */

static void *map_pages(size_t bytes, int flags, int fd)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Maps memory aligned to the size of a huge page. */
static char *map_memory(size_t bytes)
{
    char *p = map_pages(bytes + HUGE_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!p)
        return NULL;
    size_t skip = -(uintptr_t)p & (HUGE_BYTES - 1);
    if (skip)
        munmap(p, skip);
    munmap(p + skip + bytes, HUGE_BYTES - skip);
    if (bytes >= HUGE_BYTES) /* if the kernel refuses, we use small pages */
        (void)madvise(p + skip, bytes, MADV_HUGEPAGE);
    return p + skip;
}

static char *map_unnamed_file(size_t bytes)
{
    int fd = open(all.dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    char *p = posix_fallocate(fd, 0, (off_t)bytes) == 0
                  ? map_pages(bytes, MAP_SHARED, fd)
                  : NULL;
    close(fd);
    return p;
}

static size_t round_up_to_pages(size_t bytes)
{
    return (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

enum contents { UNDEFINED, ZEROED, THIN };

static void *allocate_large(size_t bytes, enum contents contents)
{
    bool zeroed = contents == ZEROED, thin = contents == THIN;
    bytes = round_up_to_pages(bytes);
    pthread_mutex_lock(&all.lock);
    bool file = bytes > ips_sub_sat(all.use.limit, all.use.memory);
    char *p = file || thin ? NULL : reuse_mapping(bytes), *again = p;
    if (!file)
        unmap_reusable_above(all.use.limit - all.use.memory - bytes);
    if (!p)
        p = file ? map_unnamed_file(bytes) : map_memory(bytes);
    if (p && !add_mapping(p, bytes, file, thin)) {
        munmap(p, bytes);
        p = NULL;
    }
    pthread_mutex_unlock(&all.lock);
    if (p && again && zeroed) /* clearing reused pages takes a quarter of the
                                 time of getting fresh ones */
        memset(p, 0, bytes);
    return p;
}

/* ---- arrays ---- */

static void *allocate_array(size_t count, size_t size, enum contents contents)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4)
        return NULL;
    return bytes < IPS_LARGE_MIN ? calloc(count, size)
                                 : allocate_large(bytes, contents);
}

void *ips_calloc_large(size_t count, size_t size)
{
    return allocate_array(count, size, ZEROED);
}

void *ips_alloc_large(size_t count, size_t size)
{
    return allocate_array(count, size, UNDEFINED);
}

void *ips_calloc_large_sparse(size_t count, size_t size)
{
    return allocate_array(count, size, THIN);
}

void *ips_resize_large(void *v, size_t old, size_t bytes)
{
    if (bytes > SIZE_MAX / 4)
        return NULL;
    if (bytes < IPS_LARGE_MIN && old < IPS_LARGE_MIN)
        return realloc(v, bytes);
    void *to = bytes < IPS_LARGE_MIN ? malloc(bytes)
                                     : allocate_large(bytes, UNDEFINED);
    if (!to)
        return NULL;
    if (v)
        memcpy(to, v, old < bytes ? old : bytes);
    ips_free_large(v);
    return to;
}

void ips_trim_large_array(void *v, size_t bytes)
{
    size_t keep = round_up_to_pages(bytes ? bytes : 1);
    pthread_mutex_lock(&all.lock);
    struct mapping *m = v ? find_mapping(v) : NULL;
    if (m && keep < m->bytes) {
        size_t less = m->bytes - keep;
        munmap(m->at + keep, less);
        m->bytes = keep;
        *(m->file ? &all.use.files : &all.use.memory) -= less;
    }
    pthread_mutex_unlock(&all.lock);
}

void ips_free_large(void *v)
{
    if (!v)
        return;
    pthread_mutex_lock(&all.lock);
    struct mapping *m = find_mapping(v), was = m ? *m : (struct mapping){0};
    if (m)
        remove_mapping(m);
    bool kept = was.at && keep_mapping_for_reuse_if_allowed(&was);
    pthread_mutex_unlock(&all.lock);
    if (kept)
        return;
    if (was.at)
        munmap(was.at, was.bytes);
    else
        free(v);
}
