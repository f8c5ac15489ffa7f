/* Hooks our functions into stdio's jump tables: see stdio_slots.h. */
#include "agent/preload/stdio_slots.h"

#include <dlfcn.h>

#include "agent/preload/sample/sample.h"
#include "agent/preload/wrap.h"
#include "agent/record/sys.h"

/* Indexes in glibc's struct _IO_jump_t (two dummies, then finish = 2). */
enum { SLOT_READ = 14, SLOT_WRITE = 15, SLOT_CLOSE = 17 };

typedef ssize_t read_slot(FILE *, void *, ssize_t);
typedef ssize_t write_slot(FILE *, const void *, ssize_t);
typedef int close_slot(FILE *);

static read_slot *file_read;
static write_slot *file_write;
static close_slot *file_close;
static close_slot *proc_close;
static _Atomic(void *)
    proc_table; /* popen's jump table, once we replaced its slots */

/* Calls a function of the C library; like REAL, stops the exact sampling timer
 * before. */
#define IN_LIBC(name)                                                          \
    (ips_sample_pause_timer((uint64_t)(uintptr_t)(name)), (name))

/* the streams that popen returned and that are not closed yet */
#define POPENED 64
static struct popen_streams {
    _Atomic(FILE *) stream;
    uint64_t seq;
} popened[POPENED] IPS_TABLE;

/* Returns the call site of the program's stdio call on `fd`; 0: not recorded.
 * It is looked up before the call only for a descriptor of class STREAM, each
 * of whose calls leaves a record, because the first lookup takes a third of the
 * cost of a start. For others returns IPS_SITE_LATER. */
static uint64_t call_site_behind_stdio(int fd)
{
    if (!ips_wrap_start_library_and_check_recording())
        return 0;
    return ips_fd_class(ips_fd_get(fd)) == IPS_FD_STREAM
               ? ips_call_site_outside_libc()
               : IPS_SITE_LATER;
}

static ssize_t stdio_read_hook(FILE *f, void *buf, ssize_t n)
{
    IPS_IO(io);
    if (n <= 0 ||
        !ips_io_open_call_if_recorded(&io, IPS_REC_RECV, f->_fileno,
                                      call_site_behind_stdio(f->_fileno)))
        return IN_LIBC(file_read)(f, buf, n);
    ssize_t r = IN_LIBC(file_read)(f, buf, n);
    return ips_io_record_received(&io, IPS_OP_STDIO, r, IPS_IOV(buf, (size_t)n),
                                  NULL, 0);
}

/* The C library writes until all is written or an error occurs, and returns the
 * number of bytes written: fewer than asked means that an error followed. */
static ssize_t stdio_write_hook(FILE *f, const void *buf, ssize_t n)
{
    IPS_IO(io);
    if (n <= 0 ||
        !ips_io_open_call_if_recorded(&io, IPS_REC_SEND, f->_fileno,
                                      call_site_behind_stdio(f->_fileno)))
        return IN_LIBC(file_write)(f, buf, n);
    ssize_t r = IN_LIBC(file_write)(f, buf, n);
    int saved = errno;
    if (r > 0)
        ips_io_record_sent(&io, IPS_OP_STDIO, r, IPS_IOV(buf, (size_t)n), NULL,
                           0);
    if (r < n) {
        errno = saved;
        ips_io_record_sent(&io, IPS_OP_STDIO, -1, NULL, 0, NULL, 0);
    }
    errno = saved;
    return r;
}

/* A stdio stream without a buffer was never used, and its call site is not
 * looked up. Small programs close their standard streams at the end, used or
 * not, and the first lookup of a call site takes 30 us, a third of the cost of
 * a start. */
static int stdio_close_hook(FILE *f)
{
    if (ips_wrap_start_library_and_check_recording())
        ips_chan_record_close_and_clear(f->_fileno,
                                        f->_IO_buf_base ? IPS_SITE_LATER : 0);
    return IN_LIBC(file_close)(f);
}

static int popen_close_hook(FILE *f)
{
    if (!ips_wrap_start_library_and_check_recording())
        return IN_LIBC(proc_close)(f);
    uint64_t seq = 0;
    for (int i = 0; i < POPENED && !seq; i++)
        if (atomic_load(&popened[i].stream) == f) {
            seq = popened[i].seq;
            atomic_store(&popened[i].stream, NULL);
        }
    uint64_t site = ips_call_site_outside_libc();
    ips_chan_record_close_and_clear(f->_fileno, site);
    struct ips_moment call = ips_take_call_moment();
    struct ips_reap reap = ips_reap_take_snapshot();
    int status = IN_LIBC(proc_close)(f);
    if (status != -1)
        ips_record_join(IPS_JOIN_SYSTEM, 0, seq, call,
                        ips_count_reaped_child_and_get_its_cpu(reap),
                        (uint32_t)status, site);
    return status;
}

static void *load_function_pointer(const void *pointer_to_it)
{
    void *p;
    memcpy(&p, pointer_to_it, sizeof(p));
    return p;
}

void *ips_stdio_libc_file_write_address(void)
{
    return load_function_pointer(&file_write);
}

#define PAGE 4096u

/* Gives the pages of a table's slots the protection `prot` (writable, or
 * read-only again), together with the read-only pages that follow. So the
 * kernel only moves the border between two memory areas. Changing the slots'
 * pages alone would create a third area, at one and a half times the cost.
 * False: refused. */
static bool set_slot_page_protection(void *const *first, void *const *last,
                                     int prot)
{
    uint64_t from = (uint64_t)(uintptr_t)first & ~(uint64_t)(PAGE - 1);
    uint64_t to =
        ((uint64_t)(uintptr_t)(last + 1) + PAGE - 1) & ~(uint64_t)(PAGE - 1);
#if defined(__x86_64__) /* other architectures may have larger pages */
    uint64_t end = ips_find_relro_end(first) & ~(uint64_t)(PAGE - 1);
    if (end > to)
        to = end;
#endif
    return ips_sys3(SYS_mprotect, (long)from, (long)(to - from), prot) == 0;
}

static bool has_expected_slots(void *const *table, void *old_read,
                               void *old_write, void *old_close)
{
    return table[SLOT_READ] == old_read && table[SLOT_WRITE] == old_write &&
           table[SLOT_CLOSE] == old_close;
}

static void store_hooks(void **table, close_slot *new_close)
{
    read_slot *r = stdio_read_hook;
    write_slot *w = stdio_write_hook;
    __atomic_store_n(&table[SLOT_READ], load_function_pointer(&r),
                     __ATOMIC_RELEASE);
    __atomic_store_n(&table[SLOT_WRITE], load_function_pointer(&w),
                     __ATOMIC_RELEASE);
    __atomic_store_n(&table[SLOT_CLOSE], load_function_pointer(&new_close),
                     __ATOMIC_RELEASE);
}

/* Puts our functions into the table's slots read, write and close. False: the
 * table did not hold the old functions, or cannot be written; it is unchanged.
 */
static bool hook_jump_table(void **table, void *old_read, void *old_write,
                            void *old_close, close_slot *new_close)
{
    if (!has_expected_slots(table, old_read, old_write, old_close) ||
        !set_slot_page_protection(table + SLOT_READ, table + SLOT_CLOSE,
                                  PROT_READ | PROT_WRITE))
        return false;
    store_hooks(table, new_close);
    set_slot_page_protection(table + SLOT_READ, table + SLOT_CLOSE, PROT_READ);
    return true;
}

/* Puts our functions into the slots of both file tables `a` and `b`, which must
 * hold the functions `r`, `w` and `c` for read, write and close. False: the
 * tables do not, are far apart or cannot be written; nothing is changed.
 * Changing the protection of a page is half of the cost, so both tables are
 * made writable at once. */
static bool hook_both_file_jump_tables(void **a, void **b, void *r, void *w,
                                       void *c)
{
    void **low = a < b ? a : b, **high = a < b ? b : a;
    if ((uintptr_t)(high + SLOT_CLOSE) - (uintptr_t)low > 2 * PAGE ||
        !has_expected_slots(a, r, w, c) || !has_expected_slots(b, r, w, c) ||
        !set_slot_page_protection(low + SLOT_READ, high + SLOT_CLOSE,
                                  PROT_READ | PROT_WRITE))
        return false;
    store_hooks(a, stdio_close_hook);
    store_hooks(b, stdio_close_hook);
    set_slot_page_protection(low + SLOT_READ, high + SLOT_CLOSE, PROT_READ);
    return true;
}

void ips_stdio_hook_file_tables(void)
{
    void *r = ips_find_real("_IO_file_read");
    void *w = ips_find_real("_IO_file_write");
    void *c = ips_find_real("_IO_file_close");
    memcpy(&file_read, &r, sizeof(r));
    memcpy(&file_write, &w, sizeof(w));
    memcpy(&file_close, &c, sizeof(c));
    if (!r || !w || !c)
        return;
    void **files = (void **)ips_find_real("_IO_file_jumps");
    void **wide = (void **)ips_find_real("_IO_wfile_jumps");
    if (files && wide && hook_both_file_jump_tables(files, wide, r, w, c))
        return;
    if (files)
        hook_jump_table(files, r, w, c, stdio_close_hook);
    if (wide)
        hook_jump_table(wide, r, w, c, stdio_close_hook);
}

void ips_stdio_hook_popen_and_store_stream(FILE *stream, uint64_t seq)
{
    /* glibc's struct _IO_FILE_plus: the table's address follows the FILE. */
    void **table;
    memcpy(&table, (char *)stream + sizeof(FILE), sizeof(table));
    if (atomic_load(&proc_table) != (void *)table) {
        Dl_info ours, its;
        void *jumps = ips_find_real("_IO_file_jumps");
        void *p = ips_find_real("_IO_proc_close");
        memcpy(&proc_close, &p, sizeof(p));
        if (!proc_close || !jumps || !dladdr(jumps, &ours) ||
            !dladdr((void *)table, &its) || ours.dli_fbase != its.dli_fbase)
            return;
        if (!hook_jump_table(table, load_function_pointer(&file_read),
                             load_function_pointer(&file_write),
                             load_function_pointer(&proc_close),
                             popen_close_hook))
            return;
        atomic_store(&proc_table, (void *)table);
    }
    for (int i = 0; i < POPENED; i++) {
        FILE *none = NULL;
        if (atomic_compare_exchange_strong(&popened[i].stream, &none, stream)) {
            popened[i].seq = seq;
            return;
        }
    }
}
