/* Runs $NAME$ once, and then some times more for its speed.
 *
 *     main THREADS REPEATS INPUT... OUTPUT...$WEIGHTS_USAGE$
 *
 * Inputs and outputs are files of plain numbers, in the machine's order of bytes.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include "$NAME$.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *take(size_t bytes) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory) {
        fprintf(stderr, "there is no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

static void *read_file(const char *path, size_t bytes) {
    void *memory = take(bytes);
    FILE *file = fopen(path, "rb");
    if (!file || fread(memory, 1, bytes, file) != bytes) {
        fprintf(stderr, "%s cannot be read, or has less than %zu bytes\n", path, bytes);
        exit(1);
    }
    fclose(file);
    return memory;
}

static void write_file(const char *path, const void *memory, size_t bytes) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(memory, 1, bytes, file) != bytes || fclose(file)) {
        fprintf(stderr, "%s cannot be written\n", path);
        exit(1);
    }
}

int main(int count, char **words) {
    if (count != $WORDS$) {
        fprintf(stderr, "usage: %s THREADS REPEATS$FILES_USAGE$$WEIGHTS_USAGE$\n", words[0]);
        return 2;
    }
    $NAME$_t *model;
    int code = $NAME$_create(&model, atoi(words[1])$WEIGHTS_WORD$);
$READ$    double best = 0.0;
    int repeats = atoi(words[2]);
    for (int n = 0; n <= repeats && code == $UPPER$_OK; n++) {
        struct timespec begun, ended;
        clock_gettime(CLOCK_MONOTONIC, &begun);
        code = $NAME$_run(model, $ARGUMENT_NAMES$);
        clock_gettime(CLOCK_MONOTONIC, &ended);
        double took = (double)(ended.tv_sec - begun.tv_sec) + 1e-9 * (double)(ended.tv_nsec - begun.tv_nsec);
        best = n == 0 || took < best ? took : best;
    }
    if (code != $UPPER$_OK) {
        fprintf(stderr, "%s\n", $NAME$_message(code));
        return 1;
    }
$WRITE$    printf("best of %d: %.9f s\n", repeats + 1, best);
    $NAME$_destroy(model);
    return 0;
}
