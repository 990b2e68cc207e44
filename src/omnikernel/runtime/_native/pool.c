/* The thread pool: spins briefly, then parks; work is claimed in chunks of programs by CAS on one word a part.
 *
 * The word holds how many units, of some programs each, of the part nobody has claimed yet. It is zero between launches,
 * so a successful decrement always claims units of the launch that is live now, and the launch cannot end before these
 * are reported done. Hence every other field is read after the claim, and a worker that comes late, from whatever launch
 * it had seen, finds either nothing or real work.
 *
 * A launch whose programs may wait for each other is one part, of which equal chunks are handed out in increasing order,
 * so that it makes progress. So is a long one, but first in large chunks, since a thread keeps packed operands from one
 * program to the next, then in smaller ones, so that all are done at the same time. Else every thread has a part of its
 * own, the same one in every launch over the same grid, and finds in its cache what it has written there; who is done
 * helps the others, the lowest first.
 *
 * The caller takes part and waits only for chunks that a worker has claimed: a worker that the system does not schedule
 * costs nothing. A launch from inside a launch, or from a second thread meanwhile, runs inline.
 */
#define _GNU_SOURCE /* sched_getcpu */
#include "native.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Waking a thread costs half as much as this. */
#define BRIEF_BELOW_NS 60000.0
/* What is briefer is shared with threads that are awake (see trial.c), if it is no shorter than this, each getting so much. */
#define SHARED_FROM_NS 3000.0
#define LEAST_PART_NS 2000.0
/* Where threads may have to be woken, each gets so much. */
#define LEAST_LONG_PART_NS 15000.0
/* Below this much for each thread, data may still be in the cache of the thread that had it last. */
#define OWN_PART_BELOW_NS 150000.0
/* No longer one is run alone to learn what it takes. */
#define LONGEST_ALONE_NS 2000000.0
/* So many brief launches close to each other wake the workers; so many more, if those did not come meanwhile. */
#define STREAK 8
#define STREAK_ANEW 128
#define CHUNKS_IN_ORDER 16 /* for each thread */
#define MOST_UNITS 256     /* for each thread */
#define ONE_AT_A_TIME UINT32_MAX
#define WORKER_SPIN_NS 50000
#define CALLER_SPIN_NS 50000
#define MAX_THREADS 1024
#define ASLEEP (-1)
#define ELSEWHERE (-2) /* where the system does not tell processors */
#define LINES 128 /* two cache lines: processors fetch pairs of them */

/* Part 0 is the caller's, or the whole launch; worker w owns part w + 1. */
typedef struct {
    _Alignas(LINES) _Atomic uint32_t left;
    _Atomic uint32_t share; /* a chunk is what is left divided by this; read before the claim, so a stale one must do, too */
    uint32_t units;
    int64_t first, last, unit; /* programs */
    ok_kernel kernel;
    const uint64_t *args;
    size_t arena_bytes;
    int32_t grid[3];
    _Atomic int processor; /* its worker's, written by that alone; ASLEEP */
} ok_part;

static ok_part parts[MAX_THREADS];

static struct {
    /* Read by everyone, written when the number of threads changes. */
    _Alignas(LINES) _Atomic int active; /* workers that may take part */
    _Atomic int count;                  /* parts */
    _Atomic int threads;
    _Atomic unsigned roused; /* counts calls to be awake, without work */
    _Atomic int processor;   /* the caller's */
    _Atomic int64_t failed_at; /* first program of the lowest chunk that failed; INT64_MAX: none */
    /* Of the live launch. */
    _Alignas(LINES) _Atomic uint32_t done;
    _Atomic int waiting; /* the caller is parked */
    uint32_t units;
    /* The caller's and the sleepers'. */
    _Alignas(LINES) _Atomic int busy; /* a launch owns the pool */
    _Atomic int sleepers;
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_cond_t finished;
    int workers; /* started; touched by the owner only, as are the next two */
    int streak;
    int64_t last_brief;
    _Atomic int64_t shared; /* launches so far */
    /* The failure of the lowest program so far. */
    int32_t status;
    int32_t fault[3];
} pool;

/* ---- scratch memory, one block a thread ---- */

typedef struct {
    void *base;
    size_t size;
} ok_arena;

static _Thread_local ok_arena arena;
static pthread_key_t arena_key;

static void free_arena(void *base) { free(base); }

/* 64-byte aligned scratch of this thread, kept for the next launch; NULL where memory is out. */
static void *thread_arena(size_t bytes) {
    if (bytes <= arena.size && arena.base) return arena.base;
    size_t size = (bytes + 4095) & ~(size_t)4095;
    if (size == 0) size = 4096;
    void *base = NULL;
    if (posix_memalign(&base, 64, size) != 0) return NULL;
    free(arena.base);
    arena.base = base;
    arena.size = size;
    pthread_setspecific(arena_key, base);
    return base;
}

void *ok_thread_arena(size_t bytes) { return thread_arena(bytes); }

/* ---- claiming and running chunks ---- */

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

typedef struct {
    const ok_part *part;
    int64_t first, last;
    uint32_t units;
} ok_chunk;

static int claim(ok_part *part, ok_chunk *chunk) {
    uint32_t left = atomic_load_explicit(&part->left, memory_order_acquire);
    while (left != 0) {
        uint32_t share = atomic_load_explicit(&part->share, memory_order_relaxed), taken = share ? left / share : 1;
        if (taken == 0) taken = 1;
        if (atomic_compare_exchange_weak_explicit(&part->left, &left, left - taken, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            int64_t first = part->first + (int64_t)(part->units - left) * part->unit, size = taken * part->unit;
            *chunk = (ok_chunk){part, first, part->last - first < size ? part->last : first + size, taken};
            return 1;
        }
    }
    return 0;
}

/* A chunk of one's own part, else of the lowest part that has any. */
static int find_chunk(int own, ok_chunk *chunk) {
    if (claim(&parts[own], chunk)) return 1;
    int count = atomic_load_explicit(&pool.count, memory_order_relaxed);
    for (int i = 0; i < count; i++)
        if (claim(&parts[i], chunk)) return 1;
    return 0;
}

static void report_failure(int64_t first, int32_t status, const int32_t fault[3]) {
    pthread_mutex_lock(&pool.lock);
    if (first < atomic_load(&pool.failed_at)) {
        atomic_store(&pool.failed_at, first);
        pool.status = status;
        memcpy(pool.fault, fault, sizeof pool.fault);
    }
    pthread_mutex_unlock(&pool.lock);
}

static void run_programs(const ok_part *part, int64_t first, int64_t last) {
    if (first >= atomic_load_explicit(&pool.failed_at, memory_order_relaxed)) return;
    int32_t fault[3] = {0, 0, 0}, status = OK_NO_MEMORY;
    void *scratch = thread_arena(part->arena_bytes);
    if (scratch) status = part->kernel(part->args, part->grid, first, last, scratch, fault);
    if (status != 0) report_failure(first, status, fault);
}

/* Runs one claimed chunk and counts it as done. Chunks above a failed one are skipped, those below are not: so the
 * lowest failing program is the one that is reported, whatever the timing. */
static void run_chunk(const ok_chunk *chunk) {
    uint32_t units = pool.units;
    run_programs(chunk->part, chunk->first, chunk->last);
    if (atomic_fetch_add(&pool.done, chunk->units) + chunk->units == units && atomic_load(&pool.waiting)) {
        pthread_mutex_lock(&pool.lock);
        pthread_cond_broadcast(&pool.finished);
        pthread_mutex_unlock(&pool.lock);
    }
}

static int has_work(int worker) {
    if (worker >= atomic_load(&pool.active)) return 0;
    int count = atomic_load(&pool.count);
    for (int i = 0; i < count; i++)
        if (atomic_load(&parts[i].left) != 0) return 1;
    return 0;
}

/* ---- workers ---- */

static int processor(void) {
#ifdef __linux__
    return sched_getcpu();
#else
    return ELSEWHERE;
#endif
}

/* A store costs the others a fetch, even of the same value. */
static void set(_Atomic int *word, int value) {
    if (atomic_load_explicit(word, memory_order_relaxed) != value) atomic_store(word, value);
}

/* The system may wake a worker on the caller's processor, where it waits until the caller gives up spinning for it; it is
 * milliseconds before the system moves one of them. So a worker that finds itself there leaves: a mask without that
 * processor takes it elsewhere, and the old mask leaves it there. */
static void keep_off_the_caller(int worker) {
    int here = processor();
#ifdef __linux__
    cpu_set_t allowed, others;
    if (here >= 0 && here == atomic_load(&pool.processor) && sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        others = allowed;
        CPU_CLR(here, &others);
        if (CPU_COUNT(&others) > 0 && sched_setaffinity(0, sizeof others, &others) == 0)
            sched_setaffinity(0, sizeof allowed, &allowed);
        here = processor();
    }
#endif
    set(&parts[worker + 1].processor, here);
}

/* 1 once there is something in a worker's part or in the caller's; other parts' words would be polled by too many. */
static int spin(int worker) {
    int64_t until = now_ns() + WORKER_SPIN_NS;
    do {
        keep_off_the_caller(worker);
        for (int i = 0; i < 64; i++) {
            uint32_t own = atomic_load_explicit(&parts[worker + 1].left, memory_order_acquire);
            if ((own | atomic_load_explicit(&parts[0].left, memory_order_acquire)) != 0)
                return worker < atomic_load(&pool.active);
            relax();
        }
    } while (now_ns() < until);
    return 0;
}

static void sleep_until_work(int worker) {
    pthread_mutex_lock(&pool.lock);
    unsigned roused = atomic_load(&pool.roused);
    atomic_store(&parts[worker + 1].processor, ASLEEP);
    atomic_fetch_add(&pool.sleepers, 1);
    while (!has_work(worker) && (worker >= atomic_load(&pool.active) || atomic_load(&pool.roused) == roused))
        pthread_cond_wait(&pool.work, &pool.lock);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.lock);
    keep_off_the_caller(worker);
}

static void *worker_main(void *argument) {
    int worker = (int)(intptr_t)argument;
    ok_chunk chunk;
    for (;;) {
        while (worker < atomic_load(&pool.active) && find_chunk(worker + 1, &chunk)) run_chunk(&chunk);
        if (!spin(worker)) sleep_until_work(worker);
    }
    return NULL;
}

/* Starts workers up to `wanted`; fewer where the system refuses. Signals stay with Python's threads. */
static int ensure_workers(int wanted) {
    if (pool.workers >= wanted) return wanted;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.workers < wanted) {
        pthread_t thread;
        atomic_store(&parts[pool.workers + 1].processor, ASLEEP);
        if (pthread_create(&thread, NULL, worker_main, (void *)(intptr_t)pool.workers) != 0) break;
        pthread_detach(thread);
        pool.workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pool.workers < wanted ? pool.workers : wanted;
}

static void wake(int wanted) {
    int sleepers = atomic_load(&pool.sleepers);
    if (sleepers == 0) return;
    pthread_mutex_lock(&pool.lock);
    /* A single wake-up could reach a worker beyond the limit, which would go back to sleep. */
    if (wanted >= sleepers || pool.workers > atomic_load(&pool.active))
        pthread_cond_broadcast(&pool.work);
    else
        for (int i = 0; i < wanted; i++) pthread_cond_signal(&pool.work);
    pthread_mutex_unlock(&pool.lock);
}

static int all_done(void) { return atomic_load_explicit(&pool.done, memory_order_acquire) == pool.units; }

static void wait_for_claimed(void) {
    int64_t until = 0;
    while (!all_done()) {
        for (int i = 0; i < 32 && !all_done(); i++) relax();
        int64_t now = now_ns();
        if (until == 0) until = now + CALLER_SPIN_NS;
        if (now < until) continue;
        pthread_mutex_lock(&pool.lock);
        atomic_store(&pool.waiting, 1);
        while (atomic_load(&pool.done) != pool.units) pthread_cond_wait(&pool.finished, &pool.lock);
        atomic_store(&pool.waiting, 0);
        pthread_mutex_unlock(&pool.lock);
    }
}

static int32_t run_inline(const ok_launch *launch, int32_t fault[3]) {
    void *scratch = thread_arena(launch->arena_bytes);
    if (!scratch) return OK_NO_MEMORY;
    return launch->kernel(launch->args, launch->grid, 0, launch->programs, scratch, fault);
}

/* Writes part `number` of `count` equal ones, all but `left`: cut into about so many units. */
static void cut(int number, int count, const ok_launch *launch, int64_t units, uint32_t share) {
    ok_part *part = &parts[number];
    part->first = launch->programs * number / count;
    part->last = launch->programs * (number + 1) / count;
    int64_t programs = part->last - part->first;
    part->unit = programs > units ? programs / units : 1;
    part->units = (uint32_t)((programs + part->unit - 1) / part->unit);
    atomic_store_explicit(&part->share, share, memory_order_relaxed);
    part->kernel = launch->kernel;
    part->args = launch->args;
    part->arena_bytes = launch->arena_bytes;
    memcpy(part->grid, launch->grid, sizeof part->grid);
}

static void begin(int count, int threads) {
    atomic_fetch_add(&pool.shared, 1);
    pool.status = 0;
    if (atomic_load(&pool.failed_at) != INT64_MAX) atomic_store(&pool.failed_at, INT64_MAX);
    atomic_store_explicit(&pool.done, 0, memory_order_relaxed);
    set(&pool.active, threads - 1);
    set(&pool.count, count);
}

static int32_t finish(int32_t fault[3]) {
    ok_chunk chunk;
    while (find_chunk(0, &chunk)) run_chunk(&chunk);
    wait_for_claimed();
    if (pool.status != 0) memcpy(fault, pool.fault, sizeof pool.fault);
    return pool.status;
}

static int32_t run_shared(const ok_launch *launch, int threads, int count, int32_t fault[3]) {
    begin(count, threads);
    int64_t units = (int64_t)(launch->in_order ? CHUNKS_IN_ORDER : MOST_UNITS) * threads / count;
    uint32_t share = launch->in_order ? ONE_AT_A_TIME : 2 * (uint32_t)threads / (uint32_t)count;
    pool.units = 0;
    for (int i = 0; i < count; i++) {
        cut(i, count, launch, units, share);
        pool.units += parts[i].units;
    }
    for (int i = 0; i < count; i++) atomic_store(&parts[i].left, parts[i].units);
    wake((int64_t)pool.units - 1 < threads - 1 ? (int)pool.units - 1 : threads - 1);
    return finish(fault);
}

/* With threads that are awake, one unit each; the caller's own is published to nobody. */
static int32_t run_brief(const ok_launch *launch, int threads, int32_t fault[3]) {
    begin(threads, threads);
    pool.units = (uint32_t)(threads - 1);
    for (int i = 1; i < threads; i++) {
        cut(i, threads, launch, 1, 1);
        atomic_store_explicit(&parts[i].left, 1, memory_order_release);
    }
    cut(0, threads, launch, 1, 1);
    run_programs(&parts[0], 0, parts[0].last);
    return finish(fault);
}

/* ---- on how many threads ---- */

static int is_spinning(int worker) {
    int where = atomic_load_explicit(&parts[worker + 1].processor, memory_order_relaxed);
    return where != ASLEEP && (where == ELSEWHERE || where != atomic_load_explicit(&pool.processor, memory_order_relaxed));
}

/* Workers, of those wanted, that are awake for a launch too brief to wake one. Where such launches follow each other they
 * are woken, for those to come. */
static int awake(int wanted, double total) {
    int found = 0;
    while (found < wanted && found < pool.workers && is_spinning(found)) found++;
    if (found == wanted) return found;
    int64_t now = now_ns();
    pool.streak = (double)(now - pool.last_brief) < WORKER_SPIN_NS + total ? pool.streak + 1 : 0;
    pool.last_brief = now;
    if (pool.streak >= STREAK) {
        pool.streak = STREAK - STREAK_ANEW;
        wanted = ensure_workers(wanted);
        set(&pool.active, wanted);
        atomic_fetch_add(&pool.roused, 1);
        wake(wanted);
    }
    return found;
}

static int32_t run_owned(ok_launch *launch, int threads, double total, int32_t fault[3]) {
    set(&pool.processor, processor());
    if (launch->brief) {
        int worth = (int)(total / LEAST_PART_NS);
        launch->on = 1 + awake((worth < threads ? worth : threads) - 1, total);
        return launch->on < 2 ? run_inline(launch, fault) : run_brief(launch, launch->on, fault);
    }
    if (launch->learned && total > 0 && total / LEAST_LONG_PART_NS < threads) threads = (int)(total / LEAST_LONG_PART_NS);
    launch->on = 1 + ensure_workers(threads - 1);
    if (launch->on < 2) return run_inline(launch, fault);
    int own = !launch->in_order && total > 0 && total < OWN_PART_BELOW_NS * launch->on;
    return run_shared(launch, launch->on, own ? launch->on : 1, fault);
}

int32_t ok_pool_run(ok_launch *launch, int32_t fault[3]) {
    int threads = atomic_load(&pool.threads), idle = 0;
    launch->wall = 0;
    launch->on = 1;
    launch->brief = 0;
    if (launch->programs <= 0) return 0;
    if (launch->programs < threads) threads = (int)launch->programs;
    if (threads < 2) return run_inline(launch, fault);
    double total = launch->cost * (double)launch->programs;
    launch->brief = launch->cost > 0 && total < BRIEF_BELOW_NS;
    int alone = launch->brief && (!launch->share_brief || launch->in_order || total < SHARED_FROM_NS);
    int64_t start = launch->measure || !launch->brief ? now_ns() : 0;
    int32_t status;
    if (alone || (launch->alone && total < LONGEST_ALONE_NS)) {
        status = run_inline(launch, fault);
    } else if (!atomic_compare_exchange_strong(&pool.busy, &idle, 1)) {
        return run_inline(launch, fault);
    } else {
        status = run_owned(launch, threads, total, fault);
        atomic_store_explicit(&pool.busy, 0, memory_order_release);
    }
    if (start) launch->wall = (double)(now_ns() - start);
    return status;
}

/* ---- set-up ---- */

static void reset(void) {
    for (int i = 0; i <= pool.workers; i++) {
        atomic_store(&parts[i].left, 0);
        atomic_store(&parts[i].processor, ASLEEP);
    }
    pool.workers = 0;
    pool.streak = 0;
    atomic_store(&pool.done, 0);
    atomic_store(&pool.busy, 0);
    atomic_store(&pool.active, 0);
    atomic_store(&pool.count, 0);
    atomic_store(&pool.failed_at, INT64_MAX);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.waiting, 0);
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.finished, NULL);
}

/* A forked child has none of the parent's workers; it starts its own at its first launch. */
int ok_pool_init(void) {
    static int ready = 0;
    if (ready) return 0;
    reset();
    atomic_store(&pool.threads, 1);
    if (pthread_key_create(&arena_key, free_arena) != 0) return -1;
    if (pthread_atfork(NULL, NULL, reset) != 0) return -1;
    ready = 1;
    return 0;
}

void ok_pool_set_threads(int threads) {
    atomic_store(&pool.threads, threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads);
}

int ok_pool_threads(void) { return atomic_load(&pool.threads); }

int64_t ok_pool_shared(void) { return atomic_load(&pool.shared); }
