/* Opens files of measured programs and their debug files; see
 * symbols/file.h. */
#include "slave/symbols/file.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/paths.h"

#define FILE_MAX_BYTES ((off_t)2 << 30)
/* A debug file without a build id is verified by a checksum over the whole
 * file. So debug files without a build id are not used if they are larger than
 * this. */
#define CRC_MAX_BYTES ((off_t)512 << 20)

/* ---- files ---- */

void symbol_file_close(struct symbol_file *o)
{
    if (o->dwarf)
        dwarf_end(o->dwarf);
    if (o->elf)
        elf_end(o->elf);
    if (o->fd >= 0)
        close(o->fd);
    *o = (struct symbol_file){.fd = -1};
}

/* Opens the file as ELF. O_NONBLOCK: opening a FIFO or device must not
 * block. */
static int open_elf_file(struct symbol_file *o, const char *path,
                         struct ips_err *err)
{
    *o = (struct symbol_file){.fd = -1};
    o->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (o->fd < 0 || fstat(o->fd, &o->st) < 0) {
        bool refused = errno == EACCES || errno == EPERM;
        ips_err_errno(err, "%s", path);
        symbol_file_close(o);
        if (err)
            err->code = refused ? IPS_E_REFUSED : IPS_E_NOT_FOUND;
        return refused ? IPS_E_REFUSED : IPS_E_NOT_FOUND;
    }
    if (!S_ISREG(o->st.st_mode)) {
        symbol_file_close(o);
        return ips_err_set(err, IPS_E_REFUSED, "%s: not a regular file", path);
    }
    if (o->st.st_size > FILE_MAX_BYTES) {
        long long has = (long long)o->st.st_size;
        symbol_file_close(o);
        return ips_err_set(err, IPS_E_LIMIT,
                           "%s has %lld bytes, and files of more than %lld "
                           "are not read; put its symbols into a smaller file",
                           path, has, (long long)FILE_MAX_BYTES);
    }
    o->elf = elf_begin(o->fd, ELF_C_READ_MMAP_PRIVATE, NULL);
    if (!o->elf || elf_kind(o->elf) != ELF_K_ELF) {
        symbol_file_close(o);
        return ips_err_set(err, IPS_E_CORRUPT, "%s: not an ELF file", path);
    }
    return 0;
}

static bool has_given_build_id(const struct symbol_file *o, const uint8_t *id,
                               size_t len)
{
    const void *own = NULL;
    ssize_t n = dwelf_elf_gnu_build_id(o->elf, &own);
    return n > 0 && own && (size_t)n >= len && memcmp(own, id, len) == 0;
}

/* Opens the vdso of this process. The vdso is kernel code that is mapped in
 * every process, so the measured program's is the same. */
static int open_own_vdso(struct symbol_file *o, struct ips_err *err)
{
    unsigned long start, end;
    char line[256];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "re");
    *o = (struct symbol_file){.fd = -1};
    while (f && !found && fgets(line, sizeof(line), f))
        found = strstr(line, "[vdso]") &&
                sscanf(line, "%lx-%lx", &start, &end) == 2;
    if (f)
        fclose(f);
    if (!found)
        return ips_err_set(err, IPS_E_NOT_FOUND, "no vdso here");
    /* NOLINTNEXTLINE(performance-no-int-to-ptr): the address was parsed from a
     * text */
    o->elf = elf_memory((char *)start, end - start);
    return o->elf ? 0
                  : ips_err_set(err, IPS_E_CORRUPT, "the vdso is no ELF file");
}

int symbol_file_open_if_unchanged(struct symbol_file *o,
                                  const struct slave_symbol_ask *a,
                                  struct ips_err *err)
{
    int rc = strcmp(a->path, "[vdso]") == 0 ? open_own_vdso(o, err)
             : a->path[0] == '/'
                 ? open_elf_file(o, a->path, err)
                 : ips_err_set(err, IPS_E_NOT_FOUND, "%s: no file", a->path);
    if (rc < 0)
        return rc;
    uint64_t changed = (uint64_t)o->st.st_mtim.tv_sec * 1000000000u +
                       (uint64_t)o->st.st_mtim.tv_nsec;
    bool same = a->build_id_bytes
                    ? has_given_build_id(o, a->build_id, a->build_id_bytes)
                    : !a->not_after_real_ns || changed <= a->not_after_real_ns;
    if (!same)
        return ips_err_set(err, IPS_E_NOT_FOUND,
                           "%s was replaced since the run", a->path);
    return 0;
}

/* ---- separate debug information ---- */

Elf_Scn *symbol_file_find_section(const struct symbol_file *o, const char *name,
                                  GElf_Shdr *header)
{
    size_t names;
    if (!o->elf || elf_getshdrstrndx(o->elf, &names) < 0)
        return NULL;
    for (Elf_Scn *s = NULL; (s = elf_nextscn(o->elf, s));) {
        GElf_Shdr h;
        const char *own =
            gelf_getshdr(s, &h) ? elf_strptr(o->elf, names, h.sh_name) : NULL;
        if (!own || strcmp(own, name) != 0 || h.sh_type == SHT_NOBITS)
            continue;
        if (header)
            *header = h;
        return s;
    }
    return NULL;
}

/* Returns the CRC-32 of the whole file, which .gnu_debuglink contains as its
 * checksum. */
static uint32_t compute_file_crc32(int fd)
{
    uint8_t buf[16384];
    uint32_t table[256], crc = ~0u;
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int k = 0; k < 8; k++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    off_t at = 0;
    ssize_t n;
    while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            crc = crc >> 8 ^ table[(crc ^ buf[i]) & 0xff];
        at += n;
    }
    return ~crc;
}

/* Opens `path` if it is the module's debug file: it must have the module's
 * build id or, if the module has none, the checksum `crc` of .gnu_debuglink.
 * *why is set if the file is too large. */
static bool open_debug_file_if_match(const struct symbol_file *o,
                                     const char *path, const uint32_t *crc,
                                     struct symbol_file *debug,
                                     struct ips_err *why)
{
    const void *id = NULL;
    struct ips_err err = {0};
    ssize_t len = dwelf_elf_gnu_build_id(o->elf, &id);
    if (open_elf_file(debug, path, &err) < 0) {
        if (err.code == IPS_E_LIMIT && why)
            *why = err;
        return false;
    }
    bool same = o->fd < 0 || debug->st.st_ino != o->st.st_ino ||
                debug->st.st_dev != o->st.st_dev;
    if (len > 0) {
        same = same && has_given_build_id(debug, id, (size_t)len);
    } else if (debug->st.st_size > CRC_MAX_BYTES) {
        same = false;
        ips_err_set(why, IPS_E_LIMIT,
                    "%s has more than %lld bytes and no build id, so all of it "
                    "would have to be read: link the program with --build-id",
                    path, (long long)CRC_MAX_BYTES);
    } else {
        same = same && crc && compute_file_crc32(debug->fd) == *crc;
    }
    if (!same)
        symbol_file_close(debug);
    /* clear the reason of an earlier candidate that was too large */
    else if (why)
        *why = (struct ips_err){0};
    return same;
}

void symbol_file_open_debug(const struct symbol_file *o,
                            const struct slave_symbol_ask *a,
                            struct symbol_file *debug, struct ips_err *why)
{
    char path[IPS_PATH_BYTES], dir[IPS_PATH_BYTES];
    const void *id = NULL;
    ssize_t len = dwelf_elf_gnu_build_id(o->elf, &id);
    if (len > 1 && len <= 64) {
        int n = snprintf(path, sizeof(path), "%s/.build-id/%02x/",
                         a->debug_root, ((const uint8_t *)id)[0]);
        for (ssize_t i = 1; i < len && n < (int)sizeof(path); i++)
            n += snprintf(path + n, sizeof(path) - (size_t)n, "%02x",
                          ((const uint8_t *)id)[i]);
        if (n < (int)sizeof(path))
            snprintf(path + n, sizeof(path) - (size_t)n, ".debug");
        if (open_debug_file_if_match(o, path, NULL, debug, why))
            return;
    }
    GElf_Word crc = 0;
    const char *link = dwelf_elf_gnu_debuglink(o->elf, &crc);
    if (!link || strchr(link, '/') || a->path[0] != '/')
        return;
    snprintf(dir, sizeof(dir), "%s", a->path);
    *strrchr(dir, '/') = '\0';
    const char *const places[3][2] = {
        {"", ""}, {"", "/.debug"}, {a->debug_root, ""}};
    for (int i = 0; i < 3; i++) {
        int n = snprintf(path, sizeof(path), "%s%s%s/%s", places[i][0], dir,
                         places[i][1], link);
        if (n > 0 && n < (int)sizeof(path) &&
            open_debug_file_if_match(o, path, &crc, debug, why))
            return;
    }
}
