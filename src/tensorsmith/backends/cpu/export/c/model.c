/* $NAME$: the steps of a network, and what runs them. Made by Tensorsmith $VERSION$ for $TARGET$. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* to say where threads may run */
#endif
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif

#include "$NAME$.h"

#include "$NAME$_pool.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
$INCLUDES$$MACHINE_INCLUDES$
#define ALIGNMENT 64 /* of everything that kernels are given by us */
#define MOST_THREADS 4096
#define ROUND_UP(n) (((size_t)(n) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

typedef void (*entry)(void **arguments, void *scratch, void *pool, ts_parallel_for parallel_for);

$KERNELS$
/* A step runs a kernel on the places from `first` on; without one (-1) it copies so many bytes from its first place to its second. */
struct step {
    int32_t kernel, first;
    int64_t copied_bytes;
};
static const struct step steps[] = {
$STEPS$};

enum { INPUT, OUTPUT, WEIGHT, ARENA };
struct place {
    int32_t kind;
    int64_t at; /* the number of an input or output, or an offset */
};
static const struct place places[] = {
$PLACES$};

/* Bytes of scratch memory that a kernel needs: shared by all threads, and of each. */
struct scratch {
    int64_t shared, each;
};
static const struct scratch scratches[] = {
$SCRATCHES$};

#define STEPS $STEP_COUNT$
#define PLACES $PLACE_COUNT$
#define KERNELS $KERNEL_COUNT$
#define ARENA_BYTES $ARENA_BYTES$
#define ARENA_THREADS $ARENA_THREADS$ /* up to so many have their scratch memory at the beginning of the arena */
#define WEIGHT_BYTES $WEIGHT_BYTES$
$WEIGHTS$$GUARD$
struct $NAME$ {
    void *allocated; /* the block that everything below lies in */
    void **arguments;
    char *arena, *scratch;
    const char *weights;
    struct ts_pool *pool;
    atomic_flag busy;
};

static size_t scratch_bytes(int64_t threads) {
    size_t most = 0;
    if (threads <= ARENA_THREADS)
        return 0;
    for (int n = 0; n < KERNELS; n++) {
        size_t bytes = ROUND_UP(scratches[n].shared) + (size_t)threads * ROUND_UP(scratches[n].each);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int right_machine(void) {
$MACHINE$    return 1;
}

int $NAME$_create($NAME$_t **model, int threads$WEIGHTS_PARAMETER$) {
    if (!model || threads < 0$WEIGHTS_MISSING$)
        return $UPPER$_BAD_ARGUMENT;
    *model = NULL;
    if (!right_machine())
        return $UPPER$_WRONG_MACHINE;
#ifndef TS_SERIAL
    if (threads == 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        threads = online > 0 ? (int)online : 1;
    }
#endif
    threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    struct ts_pool *pool = ts_make_pool(threads);
    $NAME$_t *made = calloc(1, sizeof *made);
    size_t beyond = pool ? scratch_bytes(pool->threads) : 0;
    size_t tables = ROUND_UP((PLACES + 1) * sizeof(void *));
    char *block = malloc(ALIGNMENT + tables + ROUND_UP(ARENA_BYTES) + beyond);
    if (!pool || !made || !block) {
        ts_end_pool(pool);
        free(made);
        free(block);
        return $UPPER$_NO_MEMORY;
    }
    char *begin = block + (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT;
    made->allocated = block;
    made->pool = pool;
    made->arguments = (void **)begin;
    made->arena = begin + tables;
    made->scratch = made->arena + (beyond ? ROUND_UP(ARENA_BYTES) : 0);
    atomic_flag_clear(&made->busy);
    *model = made;
$WEIGHTS_OPEN$    for (int n = 0; n < PLACES; n++) {
        if (places[n].kind == ARENA)
            made->arguments[n] = made->arena + places[n].at;
        else if (places[n].kind == WEIGHT)
            made->arguments[n] = (void *)(uintptr_t)(made->weights + places[n].at);
    }
    return $UPPER$_OK;
}

int $NAME$_run($NAME$_t *model, $PARAMETERS$) {
    if (!model || $ANY_NULL$)
        return $UPPER$_BAD_ARGUMENT;
    if (atomic_flag_test_and_set_explicit(&model->busy, memory_order_acquire))
        return $UPPER$_BUSY;
    void *const inputs[] = {$INPUT_POINTERS$};
    void *const outputs[] = {$OUTPUT_POINTERS$};
    for (int n = 0; n < PLACES; n++) {
        if (places[n].kind == INPUT)
            model->arguments[n] = inputs[places[n].at];
        else if (places[n].kind == OUTPUT)
            model->arguments[n] = outputs[places[n].at];
    }
    int code = $UPPER$_OK;
    for (int n = 0; n < STEPS; n++) {
$GUARD_CALL$        void **arguments = model->arguments + steps[n].first;
        if (steps[n].kernel < 0)
            memcpy(arguments[1], arguments[0], (size_t)steps[n].copied_bytes);
        else
            kernels[steps[n].kernel](arguments, model->scratch, model->pool, ts_run_region);
    }
    atomic_flag_clear_explicit(&model->busy, memory_order_release);
    return code;
}

void $NAME$_destroy($NAME$_t *model) {
    if (!model)
        return;
    ts_end_pool(model->pool);
$WEIGHTS_CLOSE$    free(model->allocated);
    free(model);
}

const char *$NAME$_message(int code) {
    switch (code) {
    case $UPPER$_OK:
        return "no error";
    case $UPPER$_NO_MEMORY:
        return "there is not as much memory as $NAME$ needs";
    case $UPPER$_BAD_ARGUMENT:
        return "a pointer is null, or the number of threads is negative";
    case $UPPER$_BAD_WEIGHTS:
        return "the weights cannot be read, or are not those of $NAME$";
    case $UPPER$_WRONG_MACHINE:
        return "$NAME$ was compiled for $TARGET$, and this processor lacks instructions of it";
    case $UPPER$_BUSY:
        return "another call with this handle is running";
    case $UPPER$_BAD_INDEX:
        return "an index in the data is out of bounds";
    default:
        return "this is none of the codes of $NAME$";
    }
}
