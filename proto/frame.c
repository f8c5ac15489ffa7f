#include "proto/frame.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 4u

/* Unpacking multiplies the size: an empty submessage takes two bytes on the
 * wire and a hundred in memory. This allocator gives each frame a budget, so
 * that a hostile frame fails to unpack instead of using up the daemon's
 * memory. */
struct budget {
    size_t left;
    bool no_memory; /* malloc failed, which is not the frame's fault */
};

static void *budget_alloc(void *data, size_t size)
{
    struct budget *b = data;
    if (size > b->left)
        return NULL;
    b->left -= size;
    void *p = malloc(size ? size : 1);
    b->no_memory |= !p;
    return p;
}

static void free_block_of_budget(void *data, void *p)
{
    (void)data;
    free(p);
}

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static void put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

int64_t ips_frame_length_if_complete(const uint8_t *data, size_t len,
                                     size_t max, struct ips_err *err)
{
    if (len < HEADER_BYTES)
        return 0;
    uint64_t whole = (uint64_t)get_u32(data) + HEADER_BYTES;
    if (whole > max)
        return ips_err_set(err, IPS_E_LIMIT,
                           "frame of %llu bytes; at most %zu are accepted",
                           (unsigned long long)whole, max);
    return whole <= len ? (int64_t)whole : 0;
}

Ips__Envelope *ips_frame_decode(const uint8_t *data, size_t len,
                                struct ips_err *err)
{
    int64_t whole =
        ips_frame_length_if_complete(data, len, IPS_FRAME_MAX_BYTES, err);
    if (whole < 0)
        return NULL;
    if (whole == 0 || (uint64_t)whole != len) {
        ips_err_set(err, IPS_E_PROTOCOL,
                    "frame of %zu bytes is cut short or "
                    "followed by others",
                    len);
        return NULL;
    }
    struct budget budget = {.left = IPS_DECODE_MAX_BYTES};
    ProtobufCAllocator allocator = {.alloc = budget_alloc,
                                    .free = free_block_of_budget,
                                    .allocator_data = &budget};
    Ips__Envelope *env = ips__envelope__unpack(&allocator, len - HEADER_BYTES,
                                               data + HEADER_BYTES);
    if (!env && budget.no_memory) {
        ips_err_set(err, IPS_E_NO_MEMORY, "no memory for a frame of %zu bytes",
                    len);
        return NULL;
    }
    if (!env) {
        ips_err_set(err, IPS_E_PROTOCOL,
                    "frame of %zu bytes is not an IPS message", len);
        return NULL;
    }
    if (env->body_case == IPS__ENVELOPE__BODY__NOT_SET) {
        ips__envelope__free_unpacked(env, NULL);
        ips_err_set(err, IPS_E_PROTOCOL, "message without a body");
        return NULL;
    }
    return env;
}

int ips_frame_encode(const Ips__Envelope *env, uint8_t **data, size_t *len,
                     struct ips_err *err)
{
    *data = NULL;
    *len = 0;
    size_t body = ips__envelope__get_packed_size(env);
    if (body > IPS_FRAME_MAX_BYTES - HEADER_BYTES)
        return ips_err_set(err, IPS_E_LIMIT,
                           "message of %zu bytes does not fit into a frame "
                           "(%u)",
                           body, IPS_FRAME_MAX_BYTES);
    uint8_t *out = malloc(body + HEADER_BYTES);
    if (!out)
        return ips_err_set(err, IPS_E_NO_MEMORY, "frame of %zu bytes", body);
    put_u32(out, (uint32_t)body);
    ips__envelope__pack(env, out + HEADER_BYTES);
    *data = out;
    *len = body + HEADER_BYTES;
    return 0;
}
