/* The thread pool: spins briefly, then parks; work is claimed in chunks of programs by CAS on one word.
 *
 * The word holds how many chunks of the running launch nobody has claimed yet. It is zero between launches, so a
 * successful decrement always claims a chunk of the launch that is live now, and the launch cannot end before that
 * chunk is reported done. Hence every field of the launch is read after the claim, and a worker that comes late, from
 * whatever launch it had seen, finds either nothing or real work.
 *
 * Chunks are handed out in increasing order, so a kernel whose programs wait for lower ones makes progress. The caller
 * takes part and waits only for chunks that a worker has claimed: a worker that the system does not schedule costs
 * nothing. A launch from inside a launch, or from a second thread meanwhile, runs inline.
 */
#include "native.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Shorter launches run on one thread, also where they follow each other and find the workers awake: an addition of 12 to
 * 25 us took longer on two, the median over many, since each finds half of its data in the other one's cache. */
#define INLINE_BELOW_NS 30000.0
#define CHUNKS_PER_THREAD 16
#define WORKER_SPIN_NS 20000
#define CALLER_SPIN_NS 50000
#define MAX_THREADS 1024

static struct {
    _Atomic uint32_t unclaimed;
    _Atomic uint32_t done;
    _Atomic int busy;    /* a launch owns the pool */
    _Atomic int active;  /* workers that may take part in the live launch */
    _Atomic int sleepers;
    _Atomic int waiting; /* the caller is parked */
    _Atomic int threads;
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_cond_t finished;
    int workers; /* started; touched by the owner only */
    _Atomic int64_t shared; /* launches so far */
    /* The live launch; written by the owner while `unclaimed` is zero. */
    ok_launch launch;
    int64_t chunk;
    uint32_t chunks;
    /* The failure of the lowest program so far. */
    _Atomic int64_t failed_at; /* first program of the chunk that failed; INT64_MAX: none */
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

static int claim(uint32_t *index) {
    uint32_t left = atomic_load_explicit(&pool.unclaimed, memory_order_acquire);
    while (left != 0) {
        if (atomic_compare_exchange_weak_explicit(&pool.unclaimed, &left, left - 1, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *index = pool.chunks - left;
            return 1;
        }
    }
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

/* Runs one claimed chunk and counts it as done. Chunks above a failed one are skipped, those below are not: so the
 * lowest failing program is the one that is reported, whatever the timing. */
static void run_chunk(uint32_t index) {
    const ok_launch *launch = &pool.launch;
    uint32_t chunks = pool.chunks;
    int64_t first = (int64_t)index * pool.chunk;
    int64_t last = first + pool.chunk < launch->programs ? first + pool.chunk : launch->programs;
    if (first < atomic_load_explicit(&pool.failed_at, memory_order_relaxed)) {
        int32_t fault[3] = {0, 0, 0};
        void *scratch = thread_arena(launch->arena_bytes);
        int32_t status = scratch ? launch->kernel(launch->args, launch->grid, first, last, scratch, fault)
                                 : OK_NO_MEMORY;
        if (status != 0) report_failure(first, status, fault);
    }
    if (atomic_fetch_add(&pool.done, 1) + 1 == chunks && atomic_load(&pool.waiting)) {
        pthread_mutex_lock(&pool.lock);
        pthread_cond_broadcast(&pool.finished);
        pthread_mutex_unlock(&pool.lock);
    }
}

static int has_work(int worker) { return atomic_load(&pool.unclaimed) != 0 && worker < atomic_load(&pool.active); }

static void *worker_main(void *argument) {
    int worker = (int)(intptr_t)argument;
    for (;;) {
        uint32_t index;
        while (worker < atomic_load(&pool.active) && claim(&index)) run_chunk(index);
        int64_t until = now_ns() + WORKER_SPIN_NS;
        int found = 0;
        while (!(found = has_work(worker)) && now_ns() < until)
            for (int i = 0; i < 32; i++) relax();
        if (found) continue;
        pthread_mutex_lock(&pool.lock);
        atomic_fetch_add(&pool.sleepers, 1);
        while (!has_work(worker)) pthread_cond_wait(&pool.work, &pool.lock);
        atomic_fetch_sub(&pool.sleepers, 1);
        pthread_mutex_unlock(&pool.lock);
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

static void wait_for_claimed(void) {
    int64_t until = 0;
    while (atomic_load_explicit(&pool.done, memory_order_acquire) != pool.chunks) {
        for (int i = 0; i < 32; i++) relax();
        int64_t now = now_ns();
        if (until == 0) until = now + CALLER_SPIN_NS;
        if (now < until) continue;
        pthread_mutex_lock(&pool.lock);
        atomic_store(&pool.waiting, 1);
        while (atomic_load(&pool.done) != pool.chunks) pthread_cond_wait(&pool.finished, &pool.lock);
        atomic_store(&pool.waiting, 0);
        pthread_mutex_unlock(&pool.lock);
    }
}

static int32_t run_inline(const ok_launch *launch, int32_t fault[3]) {
    void *scratch = thread_arena(launch->arena_bytes);
    if (!scratch) return OK_NO_MEMORY;
    return launch->kernel(launch->args, launch->grid, 0, launch->programs, scratch, fault);
}

static int32_t run_shared(const ok_launch *launch, int threads, int32_t fault[3]) {
    atomic_fetch_add(&pool.shared, 1);
    int64_t chunk = launch->programs / ((int64_t)threads * CHUNKS_PER_THREAD);
    pool.launch = *launch;
    pool.chunk = chunk < 1 ? 1 : chunk;
    pool.chunks = (uint32_t)((launch->programs + pool.chunk - 1) / pool.chunk);
    pool.status = 0;
    atomic_store(&pool.failed_at, INT64_MAX);
    atomic_store(&pool.done, 0);
    atomic_store(&pool.active, threads - 1);
    atomic_store(&pool.unclaimed, pool.chunks);
    wake((int64_t)pool.chunks - 1 < threads - 1 ? (int)pool.chunks - 1 : threads - 1);
    uint32_t index;
    while (claim(&index)) run_chunk(index);
    wait_for_claimed();
    memcpy(fault, pool.fault, sizeof pool.fault);
    return pool.status;
}

/* ---- on how many threads ---- */

int32_t ok_pool_run(ok_launch *launch, int32_t fault[3]) {
    int threads = atomic_load(&pool.threads);
    launch->took = 0;
    if (launch->programs <= 0) return 0;
    if (launch->programs < threads) threads = (int)launch->programs;
    if (threads < 2) return run_inline(launch, fault);
    double total = launch->cost * (double)launch->programs;
    int small = launch->cost > 0 && total < INLINE_BELOW_NS;
    int64_t start = launch->measure || total >= INLINE_BELOW_NS ? now_ns() : 0;
    int idle = 0;
    int32_t status;
    if (small) {
        threads = 1;
        status = run_inline(launch, fault);
    } else if (!atomic_compare_exchange_strong(&pool.busy, &idle, 1)) {
        return run_inline(launch, fault);
    } else {
        threads = 1 + ensure_workers(threads - 1);
        status = threads < 2 ? run_inline(launch, fault) : run_shared(launch, threads, fault);
        atomic_store(&pool.busy, 0);
    }
    if (!start) return status;
    double took = (double)(now_ns() - start) * threads / (double)launch->programs;
    /* On several threads more may be the fault of other processes. */
    if (threads == 1 || launch->cost <= 0 || took < launch->cost) launch->took = took;
    return status;
}

/* ---- set-up ---- */

static void reset(void) {
    pool.workers = 0;
    atomic_store(&pool.unclaimed, 0);
    atomic_store(&pool.done, 0);
    atomic_store(&pool.busy, 0);
    atomic_store(&pool.active, 0);
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
