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
#define TS_ALIGNMENT 64 /* of everything that kernels are given by us */
#define TS_MOST_THREADS 4096
#define TS_ROUND_UP(n) (((size_t)(n) + TS_ALIGNMENT - 1) / TS_ALIGNMENT * TS_ALIGNMENT)

typedef void (*ts_entry)(void **arguments, void *scratch, void *pool, ts_parallel_for parallel_for);

$KERNELS$
/* A step runs a kernel on the places from `first` on; without one (-1) it copies so many bytes from its first place to its second. */
struct ts_step {
    int32_t kernel, first;
    int64_t copied_bytes;
};
static const struct ts_step ts_steps[] = {
$STEPS$};

enum { TS_INPUT, TS_OUTPUT, TS_WEIGHT, TS_ARENA };
struct ts_argument_place {
    int32_t kind;
    int64_t at; /* the number of an input or output, or an offset */
};
static const struct ts_argument_place ts_places[] = {
$PLACES$};

/* Bytes of scratch memory that a kernel needs: shared by all threads, and of each. */
struct ts_scratch {
    int64_t shared, each;
};
static const struct ts_scratch ts_scratches[] = {
$SCRATCHES$};

#define TS_STEP_COUNT $STEP_COUNT$
#define TS_PLACE_COUNT $PLACE_COUNT$
#define TS_KERNEL_COUNT $KERNEL_COUNT$
#define TS_ARENA_BYTES $ARENA_BYTES$
#define TS_ARENA_THREADS $ARENA_THREADS$ /* up to so many have their scratch memory at the beginning of the arena */
#define TS_WEIGHT_BYTES $WEIGHT_BYTES$
$WEIGHTS$$GUARD$
struct $NAME$ {
    void *allocated; /* the block that everything below lies in */
    void **arguments;
    char *arena, *scratch;
    const char *weights;
    struct ts_pool *pool;
    atomic_flag busy;
};

static size_t ts_scratch_bytes(int64_t threads) {
    size_t most = 0;
    if (threads <= TS_ARENA_THREADS)
        return 0;
    for (int n = 0; n < TS_KERNEL_COUNT; n++) {
        size_t bytes = TS_ROUND_UP(ts_scratches[n].shared) + (size_t)threads * TS_ROUND_UP(ts_scratches[n].each);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int ts_right_machine(void) {
$MACHINE$    return 1;
}

int $NAME$_create($NAME$_t **model, int threads$WEIGHTS_PARAMETER$) {
    if (!model || threads < 0$WEIGHTS_MISSING$)
        return $UPPER$_BAD_ARGUMENT;
    *model = NULL;
    if (!ts_right_machine())
        return $UPPER$_WRONG_MACHINE;
#ifndef TS_SERIAL
    if (threads == 0) {
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        threads = online > 0 ? (int)online : 1;
    }
#endif
    threads = threads < TS_MOST_THREADS ? threads : TS_MOST_THREADS;
    struct ts_pool *pool = ts_make_pool(threads);
    $NAME$_t *made = calloc(1, sizeof *made);
    size_t beyond = pool ? ts_scratch_bytes(pool->threads) : 0;
    size_t tables = TS_ROUND_UP((TS_PLACE_COUNT + 1) * sizeof(void *));
    char *block = malloc(TS_ALIGNMENT + tables + TS_ROUND_UP(TS_ARENA_BYTES) + beyond);
    if (!pool || !made || !block) {
        ts_end_pool(pool);
        free(made);
        free(block);
        return $UPPER$_NO_MEMORY;
    }
    char *begin = block + (TS_ALIGNMENT - (uintptr_t)block % TS_ALIGNMENT) % TS_ALIGNMENT;
    made->allocated = block;
    made->pool = pool;
    made->arguments = (void **)begin;
    made->arena = begin + tables;
    made->scratch = made->arena + (beyond ? TS_ROUND_UP(TS_ARENA_BYTES) : 0);
    atomic_flag_clear(&made->busy);
    *model = made;
$WEIGHTS_OPEN$    for (int n = 0; n < TS_PLACE_COUNT; n++) {
        if (ts_places[n].kind == TS_ARENA)
            made->arguments[n] = made->arena + ts_places[n].at;
        else if (ts_places[n].kind == TS_WEIGHT)
            made->arguments[n] = (void *)(uintptr_t)(made->weights + ts_places[n].at);
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
    for (int n = 0; n < TS_PLACE_COUNT; n++) {
        if (ts_places[n].kind == TS_INPUT)
            model->arguments[n] = inputs[ts_places[n].at];
        else if (ts_places[n].kind == TS_OUTPUT)
            model->arguments[n] = outputs[ts_places[n].at];
    }
    int code = $UPPER$_OK;
    for (int n = 0; n < TS_STEP_COUNT; n++) {
$GUARD_CALL$        void **arguments = model->arguments + ts_steps[n].first;
        if (ts_steps[n].kernel < 0)
            memcpy(arguments[1], arguments[0], (size_t)ts_steps[n].copied_bytes);
        else
            ts_kernels[ts_steps[n].kernel](arguments, model->scratch, model->pool, ts_run_region);
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

const char *$NAME$_input_name(int n) {
    static const char *const names[] = {
$INPUT_NAMES$    };
    return n >= 0 && n < $UPPER$_INPUTS ? names[n] : NULL;
}

const char *$NAME$_output_name(int n) {
    static const char *const names[] = {
$OUTPUT_NAMES$    };
    return n >= 0 && n < $UPPER$_OUTPUTS ? names[n] : NULL;
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
