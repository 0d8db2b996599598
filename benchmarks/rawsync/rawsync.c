/* Append records to a file, each with pwrite and fdatasync: what a durable append costs at least on this disk.
 *
 *   rawsync FILE RECORD_BYTES RECORDS HOW
 *
 * HOW: grow (the file grows with each record), allocate (its space is allocated before, with fallocate), zeros (it is
 * written before, with zeros, and synced), dsync (grow, with O_DSYNC in place of fdatasync).
 * Prints one JSON object: the seconds of all calls, and those of each.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "rawsync FILE RECORD_BYTES RECORDS HOW\n");
        return 2;
    }
    long size = atol(arguments[2]), records = atol(arguments[3]);
    char *record = calloc(1, (size_t)size);
    double *each = calloc((size_t)records, sizeof *each);
    const char *how = arguments[4];
    int direct = !strcmp(how, "dsync");
    int file = open(arguments[1], O_RDWR | O_CREAT | O_EXCL | (direct ? O_DSYNC : 0), 0644);
    if (!record || !each || file < 0) {
        perror(arguments[1]);
        return 1;
    }
    if (!strcmp(how, "allocate") && posix_fallocate(file, 0, size * records) != 0) {
        fprintf(stderr, "fallocate failed\n");
        return 1;
    }
    for (long one = 0; !strcmp(how, "zeros") && one < records; one++) {
        if (pwrite(file, record, (size_t)size, one * size) != size) {
            perror(arguments[1]);
            return 1;
        }
    }
    fsync(file);
    memset(record, 'v', (size_t)size);
    double start = now();
    for (long one = 0; one < records; one++) {
        double begun = now();
        if (pwrite(file, record, (size_t)size, one * size) != size || (!direct && fdatasync(file) != 0)) {
            perror(arguments[1]);
            return 1;
        }
        each[one] = now() - begun;
    }
    printf("{\"seconds\": %.9f, \"each\": [", now() - start);
    for (long one = 0; one < records; one++) {
        printf("%s%.9f", one ? ", " : "", each[one]);
    }
    printf("]}\n");
    return 0;
}
