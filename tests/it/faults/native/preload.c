/* A library that is loaded before others: it appends the name of each process that loads it to
   the file OUTSIDE, and says so. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(int argc, char **argv) {
    char line[200];
    int length = snprintf(line, sizeof line, "%s %s\n", argc > 0 ? argv[0] : "", argc > 1 ? argv[1] : "");
    int file = open(OUTSIDE, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file >= 0) {
        if (write(file, line, length < 200 ? length : 200) < 0)
            _exit(98);
        close(file);
    }
    if (write(1, "preloaded\n", 10) < 0)
        _exit(99);
}
