/* Makes texts for events; see event_text.h. */
#include "slave/symbols/event_text.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static void format_address_and_port(char *out, size_t len,
                                    const struct ips_addr *a)
{
    char text[INET6_ADDRSTRLEN] = "?";
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0,    0,
                                       0, 0, 0, 0, 0xff, 0xff};
    if (memcmp(a->addr, mapped, sizeof(mapped)) == 0) {
        inet_ntop(AF_INET, a->addr + 12, text, sizeof(text));
        snprintf(out, len, "%s:%u", text, a->port);
    } else {
        inet_ntop(AF_INET6, a->addr, text, sizeof(text));
        snprintf(out, len, "[%s]:%u", text, a->port);
    }
}

void slave_channel_format_text(char *out, size_t len,
                               const struct ips_rec_chan *c)
{
    char local[56], remote[56];
    format_address_and_port(local, sizeof(local), &c->local);
    format_address_and_port(remote, sizeof(remote), &c->remote);
    switch (c->kind) {
    case IPS_CHAN_PIPE:
        snprintf(out, len, "pipe %llu:%llu", (unsigned long long)c->dev,
                 (unsigned long long)c->ino);
        break;
    case IPS_CHAN_UNIX:
    case IPS_CHAN_UNIX_DGRAM:
    case IPS_CHAN_UNIX_LISTEN:
        snprintf(out, len, "unix %llu-%llu", (unsigned long long)c->ino,
                 (unsigned long long)c->peer_ino);
        break;
    case IPS_CHAN_TCP:
        snprintf(out, len, "tcp %s-%s", local, remote);
        break;
    case IPS_CHAN_TCP_LISTEN:
        snprintf(out, len, "tcp %s", local);
        break;
    case IPS_CHAN_UDP:
        snprintf(out, len, "udp %s-%s", local, remote);
        break;
    case IPS_CHAN_USER:
        snprintf(out, len, "user %016llx", (unsigned long long)c->name_hash);
        break;
    /* the kind comes from a file, so a newer version of IPS may have written
     * it */
    default:
        snprintf(out, len, "channel kind %u", c->kind);
    }
}

const char *slave_op_text(uint16_t op)
{
    static const char *const names[] = {
#define X(name, number, text) [number] = text,
        IPS_OPS(X)
#undef X
    };
    return op < sizeof(names) / sizeof(*names) && names[op] ? names[op]
                                                            : "unknown";
}

const char *slave_lost_cause_text(uint32_t cause)
{
    switch (cause) {
#define X(name, number, text)                                                  \
    case number:                                                               \
        return text;
        IPS_LOST_CAUSES(X)
#undef X
    default: /* the cause comes from a file, so it may be unknown */
        return "unknown cause";
    }
}

const char *slave_sync_kind_text(uint32_t kind)
{
    static const char *const names[] = {
#define X(name, number, text) [number] = text,
        IPS_SYNCS(X)
#undef X
    };
    return kind < sizeof(names) / sizeof(*names) && names[kind] ? names[kind]
                                                                : "unknown";
}
