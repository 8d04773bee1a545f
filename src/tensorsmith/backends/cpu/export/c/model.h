/* $NAME$: made by Tensorsmith $VERSION$ for $TARGET$.
 *
 *     $NAME$_t *model;
 *     if ($NAME$_create(&model, 0$WEIGHTS_EXAMPLE$) != $UPPER$_OK) ...
 *     $NAME$_run(model, $ARGUMENT_NAMES$);
 *     $NAME$_destroy(model);
 *
 * Arrays are dense, the last dimension fastest, and do not overlap; each begins at a multiple of its element's size. `run` allocates
 * nothing. One handle serves one call at a time: a second one meanwhile gets $UPPER$_BUSY. Make a handle for each thread that calls,
 * or hold a lock; handles share nothing but the weights.
 */
#ifndef $UPPER$_H
#define $UPPER$_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define $UPPER$_INPUTS $INPUT_COUNT$
#define $UPPER$_OUTPUTS $OUTPUT_COUNT$
$SHAPES$
enum {
    $UPPER$_OK = 0,
    $UPPER$_NO_MEMORY = 1,     /* there is not as much memory as it needs */
    $UPPER$_BAD_ARGUMENT = 2,  /* a null pointer, or a negative number of threads */
    $UPPER$_BAD_WEIGHTS = 3,   /* the weights cannot be read, or are not this model's */
    $UPPER$_WRONG_MACHINE = 4, /* this processor lacks instructions that the code uses */
    $UPPER$_BUSY = 5,          /* another call with this handle is running */
    $UPPER$_BAD_INDEX = 6      /* an index in the data is out of bounds: only if it was compiled to check them */
};

typedef struct $NAME$ $NAME$_t;

/* A model that can be run, by so many threads, the caller's included; 0: as many as the system has processors. */
int $NAME$_create($NAME$_t **model, int threads$WEIGHTS_PARAMETER$);

/* Inputs, then outputs. */
int $NAME$_run($NAME$_t *model, $PARAMETERS$);

void $NAME$_destroy($NAME$_t *model);

/* What the model itself calls its inputs and outputs, in UTF-8, by their number from 0; NULL if there is none of that number. */
const char *$NAME$_input_name(int n);
const char *$NAME$_output_name(int n);

/* What a number that these functions return means. */
const char *$NAME$_message(int code);

#ifdef __cplusplus
}
#endif

#endif
