/* What a fuzz target does with inputs in files, where it is no libFuzzer. */
#ifndef IPS_TESTS_FUZZ_REPLAY_H
#define IPS_TESTS_FUZZ_REPLAY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input of every file named, its first MiB. 1 if one cannot be read. */
static inline int fuzz_replay(int argc, char **argv)
{
    static uint8_t data[1u << 20];
    int status = 0;
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rbe");
        if (!f) {
            perror(argv[i]);
            status = 1;
            continue;
        }
        size_t n = fread(data, 1, sizeof(data), f);
        fclose(f);
        LLVMFuzzerTestOneInput(data, n);
    }
    return status;
}

#endif
