/* The thread pool that parallel regions of the kernels run on. C11 and POSIX threads; with TS_SERIAL defined there are no threads.
 *
 * A region is body(context, begin, end, thread) over [0, count). Every thread owns a contiguous share of it, takes that in chunks,
 * and then takes chunks of the others' shares. The caller is thread 0. A region opens a gate; a worker that sees it open counts
 * itself in. When the caller finds no chunk left it closes the gate and waits for those inside only, so that a worker which comes
 * late delays nobody. Idle workers poll the gate for some 50 microseconds, then sleep.
 *
 * A worker that is woken may be put on the processor of the one that wakes it, and it takes the system milliseconds to see that this
 * halves the speed of both. So under Linux whoever wakes workers first bars them from its own processor, if there are enough others.
 */
#ifndef TS_POOL_H
#define TS_POOL_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef void (*ts_body)(void *context, int64_t begin, int64_t end, int64_t thread);
typedef void (*ts_parallel_for)(void *pool, ts_body body, void *context, int64_t count);

#if defined(__wasm__) && !defined(TS_SERIAL)
#define TS_SERIAL
#endif

#ifdef TS_SERIAL

struct ts_pool {
    int64_t threads;
};

static void ts_run_region(void *pool, ts_body body, void *context, int64_t count) {
    (void)pool;
    if (count > 0)
        body(context, 0, count, 0);
}

static struct ts_pool *ts_make_pool(int64_t threads) {
    struct ts_pool *pool = malloc(sizeof *pool);
    (void)threads;
    if (pool)
        pool->threads = 1;
    return pool;
}

static void ts_end_pool(struct ts_pool *pool) {
    free(pool);
}

#else

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#if defined(__linux__) && defined(_GNU_SOURCE)
#include <sys/syscall.h>
#include <unistd.h>
#define TS_PLACES
#endif

#if defined(__x86_64__) || defined(__i386__)
#define TS_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__) || defined(__arm__)
#define TS_PAUSE() __asm__ volatile("yield")
#else
#define TS_PAUSE() ((void)0)
#endif

#define TS_APART 128 /* bytes between what different threads write: lines are fetched in pairs */
#define TS_OPEN ((uint64_t)1 << 31)
#define TS_INSIDE (TS_OPEN - 1)
#define TS_POLL_NANOSECONDS 50000

struct ts_share {
    _Atomic int64_t next;
    int64_t end;
    char apart[TS_APART - 2 * sizeof(int64_t)];
};

struct ts_worker {
    struct ts_pool *pool;
    int64_t number;
    pthread_t thread;
#ifdef TS_PLACES
    _Atomic pid_t id; /* 0 until it runs */
#endif
};

struct ts_pool {
    _Atomic uint64_t gate; /* number of the region << 32 | open << 31 | workers inside */
    char apart_gate[TS_APART - sizeof(uint64_t)];
    _Atomic int sleepers;
    char apart_sleepers[TS_APART - sizeof(int)];
    _Atomic int busy;
    _Atomic int stop;
    char apart_busy[TS_APART - 2 * sizeof(int)];
    ts_body body;
    void *context;
    int64_t chunk, threads, polls;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct ts_worker *workers;
    struct ts_share *shares;
#ifdef TS_PLACES
    cpu_set_t allowed;
    int home; /* the processor that workers are barred from; -1: from none yet, -2: they are not to be */
#endif
};

#ifdef TS_PLACES
static void ts_place(struct ts_pool *pool) {
    int here = sched_getcpu();
    if (pool->home == -2 || here < 0 || here >= CPU_SETSIZE || here == pool->home)
        return;
    cpu_set_t others = pool->allowed;
    CPU_CLR(here, &others);
    pool->home = here;
    for (int64_t n = 1; n < pool->threads; n++) {
        pid_t id = atomic_load_explicit(&pool->workers[n].id, memory_order_relaxed);
        if (!id)
            pool->home = -1; /* it has not started yet: next time */
        else
            sched_setaffinity(id, sizeof others, &others);
    }
}
#else
#define ts_place(pool) ((void)(pool))
#endif

static void ts_take_chunks(struct ts_pool *pool, int64_t thread) {
    for (int64_t n = 0; n < pool->threads; n++) {
        struct ts_share *share = &pool->shares[(thread + n) % pool->threads];
        for (;;) {
            int64_t begin = atomic_fetch_add_explicit(&share->next, pool->chunk, memory_order_relaxed);
            if (begin >= share->end)
                break;
            int64_t end = begin + pool->chunk < share->end ? begin + pool->chunk : share->end;
            pool->body(pool->context, begin, end, thread);
        }
    }
}

static void ts_run_region(void *handle, ts_body body, void *context, int64_t count) {
    struct ts_pool *pool = handle;
    if (count <= 1 || pool->threads <= 1 || atomic_exchange_explicit(&pool->busy, 1, memory_order_acquire)) {
        if (count > 0)
            body(context, 0, count, 0);
        return;
    }
    int64_t share = (count + pool->threads - 1) / pool->threads;
    pool->body = body;
    pool->context = context;
    pool->chunk = share / 8 > 1 ? share / 8 : 1;
    for (int64_t n = 0; n < pool->threads; n++) {
        int64_t begin = n * share < count ? n * share : count;
        atomic_store_explicit(&pool->shares[n].next, begin, memory_order_relaxed);
        pool->shares[n].end = begin + share < count ? begin + share : count;
    }
    uint64_t region = (atomic_load_explicit(&pool->gate, memory_order_relaxed) >> 32) + 1;
    atomic_store(&pool->gate, region << 32 | TS_OPEN);
    if (atomic_load(&pool->sleepers)) {
        ts_place(pool);
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
    }
    ts_take_chunks(pool, 0);
    uint64_t gate = atomic_fetch_and_explicit(&pool->gate, ~TS_OPEN, memory_order_acquire);
    for (int64_t n = 0; gate & TS_INSIDE; n++) {
        if (n < pool->polls)
            TS_PAUSE();
        else
            sched_yield();
        gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
    }
    atomic_store_explicit(&pool->busy, 0, memory_order_release);
}

static int ts_is_new(struct ts_pool *pool, uint64_t gate, uint64_t last) {
    return atomic_load(&pool->stop) || ((gate & TS_OPEN) && gate >> 32 != last);
}

static uint64_t ts_wait(struct ts_pool *pool, uint64_t last) {
    uint64_t gate = atomic_load(&pool->gate);
    for (int64_t n = 0; n < pool->polls && !ts_is_new(pool, gate, last); n++) {
        TS_PAUSE();
        gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
    }
    if (ts_is_new(pool, gate, last))
        return gate;
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1); /* before the gate is looked at again: whoever opens it does the opposite */
    while (!ts_is_new(pool, gate = atomic_load(&pool->gate), last))
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
    return gate;
}

static void *ts_work(void *given) {
    struct ts_worker *worker = given;
    struct ts_pool *pool = worker->pool;
    uint64_t last = 0;
#ifdef TS_PLACES
    atomic_store_explicit(&worker->id, (pid_t)syscall(SYS_gettid), memory_order_relaxed);
#endif
    for (;;) {
        uint64_t gate = ts_wait(pool, last);
        if (atomic_load(&pool->stop))
            return NULL;
        if (!atomic_compare_exchange_strong(&pool->gate, &gate, gate + 1))
            continue; /* another one came in, or it was closed: look again */
        ts_take_chunks(pool, worker->number);
        last = gate >> 32;
        atomic_fetch_sub_explicit(&pool->gate, 1, memory_order_release);
    }
}

static int64_t ts_count_polls(void) {
    struct timespec begun, ended;
    int64_t best = INT64_MAX;
    for (int round = 0; round < 5; round++) {
        clock_gettime(CLOCK_MONOTONIC, &begun);
        for (int n = 0; n < 1000; n++)
            TS_PAUSE();
        clock_gettime(CLOCK_MONOTONIC, &ended);
        int64_t took = (ended.tv_sec - begun.tv_sec) * (int64_t)1000000000 + ended.tv_nsec - begun.tv_nsec;
        best = took < best ? took : best;
    }
    return (int64_t)1000 * TS_POLL_NANOSECONDS / (best > 1000 ? best : 1000);
}

static void ts_end_pool(struct ts_pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->stop, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    for (int64_t n = 1; n < pool->threads; n++)
        pthread_join(pool->workers[n].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    free(pool->workers);
    free(pool->shares);
    free(pool);
}

/* NULL if there is no memory; with fewer threads than asked for if the system gives no more. */
static struct ts_pool *ts_make_pool(int64_t threads) {
    struct ts_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->shares = calloc((size_t)threads, sizeof *pool->shares);
    pool->workers = calloc((size_t)threads, sizeof *pool->workers);
    if (!pool->shares || !pool->workers) {
        free(pool->shares);
        free(pool->workers);
        free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->polls = ts_count_polls();
#ifdef TS_PLACES
    pool->home = sched_getaffinity(0, sizeof pool->allowed, &pool->allowed) || threads > CPU_COUNT(&pool->allowed) ? -2 : -1;
#endif
    pool->threads = 1; /* a worker that starts while others are missing finds no region anyway */
    for (int64_t n = 1; n < threads; n++) {
        pool->workers[n].pool = pool;
        pool->workers[n].number = n;
        if (pthread_create(&pool->workers[n].thread, NULL, ts_work, &pool->workers[n]))
            break;
        pool->threads = n + 1;
    }
    return pool;
}

#endif
#endif
