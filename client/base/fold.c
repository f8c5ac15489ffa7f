#include "client/base/fold.h"

#include <stdbool.h>
#include <string.h>

unsigned ipsq_text_width(const char *text, size_t bytes)
{
    unsigned n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

void ipsq_print_wrapped_text(FILE *file, const char *text, unsigned columns,
                             unsigned indent)
{
    unsigned at = 0;
    bool begun = false; /* the output line has a word already */
    while (*text) {
        unsigned blanks = (unsigned)strspn(text, " ");
        const char *word = text + blanks;
        size_t bytes = strcspn(word, " \n");
        unsigned width = ipsq_text_width(word, bytes);
        if (begun && bytes && columns && at + blanks + width > columns) {
            fprintf(file, "\n%*s", (int)indent, "");
            at = indent + width;
        } else {
            fprintf(file, "%*s", (int)blanks, "");
            at += blanks + width;
        }
        fwrite(word, 1, bytes, file);
        begun = true;
        text = word + bytes;
        if (*text == '\n') {
            fputc(*text++, file);
            begun = false;
            at = 0;
        }
    }
}
