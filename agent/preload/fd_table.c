/* The table of this process's descriptors: see fd_table.h. */
#include "agent/preload/fd_table.h"

#include <assert.h>
#include <stddef.h>

#include "agent/record/core.h"
#include "agent/record/sys.h"

_Atomic(ips_fd_word *) ips_fd_chunks[IPS_FD_CHUNKS] IPS_TABLE_FIRST;
static _Atomic int fd_top;
/* The channel id counter and the table's first chunk, which nearly every
 * process needs. They are in memory that the core has mapped already and that
 * the kernel zeroes in every fork child (ips_core_get_memory_wiped_on_fork), so
 * they need no mapping of their own. */
struct first {
    _Atomic uint32_t next_chan;
    uint32_t reserved[15];
    ips_fd_word chunk[IPS_FD_CHUNK];
};
static_assert(sizeof(struct first) <= IPS_WIPED_BYTES, "more than there is");
static _Atomic(_Atomic(uint32_t) *) next_chan;

/* Maps memory that the kernel zeroes in every fork child. Returns NULL if the
 * kernel cannot do that. The channels of the process are then not recorded,
 * because a child would continue its parent's channel ids. */
static void *map_memory_wiped_on_fork(size_t bytes)
{
    uint64_t page = ips_sys_mmap(0, bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (ips_sys_is_error(page))
        return NULL;
    if (ips_sys_madvise(page, bytes, MADV_WIPEONFORK) < 0) {
        ips_sys_munmap(page, bytes);
        return NULL;
    }
    return (void *)(uintptr_t)page;
}

static ips_fd_word *get_or_map_chunk(unsigned fd)
{
    _Atomic(ips_fd_word *) *slot =
        fd < IPS_FD_CHUNK ? &ips_core.fds : &ips_fd_chunks[fd / IPS_FD_CHUNK];
    ips_fd_word *chunk = atomic_load_explicit(slot, memory_order_acquire);
    if (chunk)
        return chunk;
    const size_t bytes = IPS_FD_CHUNK * sizeof(ips_fd_word);
    struct first *first = (struct first *)ips_core_get_memory_wiped_on_fork();
    if (first && fd < IPS_FD_CHUNK) {
        atomic_store_explicit(slot, first->chunk, memory_order_release);
        return first->chunk;
    }
    ips_fd_word *made = (ips_fd_word *)map_memory_wiped_on_fork(bytes);
    if (!made)
        return NULL;
    if (atomic_compare_exchange_strong(slot, &chunk, made))
        return made;
    ips_sys_munmap((uint64_t)(uintptr_t)made, bytes);
    return chunk;
}

static void raise_upper_bound(int fd)
{
    int top = atomic_load_explicit(&fd_top, memory_order_relaxed);
    while (top <= fd && !atomic_compare_exchange_weak(&fd_top, &top, fd + 1))
        ;
}

uint64_t ips_fd_store_if_unchanged(int fd, uint64_t seen,
                                   enum ips_fd_class klass, uint32_t chan,
                                   uint64_t flags)
{
    uint64_t word = (uint64_t)chan | (uint64_t)klass << 32 | flags |
                    (seen & ~(IPS_FD_GENERATION - 1));
    ips_fd_word *chunk =
        (unsigned)fd < IPS_FD_MAX ? get_or_map_chunk((unsigned)fd) : NULL;
    if (!chunk)
        return IPS_FD_NOT_A_CHANNEL;
    if (atomic_compare_exchange_strong(&chunk[(unsigned)fd % IPS_FD_CHUNK],
                                       &seen, word)) {
        raise_upper_bound(fd);
        return word;
    }
    /* another thread identified the descriptor first, or closed it; the
     * exchange stored the current word in `seen` */
    return ips_fd_must_be_identified(seen) ? IPS_FD_NOT_A_CHANNEL : seen;
}

void ips_fd_clear(int fd)
{
    if ((unsigned)fd >= IPS_FD_MAX)
        return;
    ips_fd_word *chunk = ips_fd_chunk((unsigned)fd);
    if (!chunk)
        return; /* no chunk: nothing is stored about `fd` */
    ips_fd_word *place = &chunk[(unsigned)fd % IPS_FD_CHUNK];
    uint64_t word = atomic_load_explicit(place, memory_order_relaxed);
    uint64_t next;
    do {
        next = (word & ~(IPS_FD_GENERATION - 1)) + IPS_FD_GENERATION;
    } while (!atomic_compare_exchange_weak(place, &word, next));
}

int ips_fd_upper_bound(void)
{
    return atomic_load_explicit(&fd_top, memory_order_relaxed);
}

uint32_t ips_fd_allocate_channel_id(void)
{
    _Atomic uint32_t *page = atomic_load(&next_chan);
    struct first *first = (struct first *)ips_core_get_memory_wiped_on_fork();
    if (!page && first)
        page = &first->next_chan;
    if (!page) {
        _Atomic uint32_t *made =
            (_Atomic uint32_t *)map_memory_wiped_on_fork(4096);
        if (!made)
            return 0;
        if (atomic_compare_exchange_strong(&next_chan, &page, made))
            page = made;
        else
            ips_sys_munmap((uint64_t)(uintptr_t)made, 4096);
    }
    return atomic_fetch_add_explicit(page, 1, memory_order_relaxed) + 1;
}
