/* Launches of all kinds on the pool, for ThreadSanitizer: test_pool_races.py compiles this with pool.c and runs it.
 *
 * A kernel counts its programs without atomics, so that a program which runs twice, or is missed, or whose counts the
 * caller reads too early, is found by the counts or as a race.
 */
#include "native.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    int *counts;
    int work;
    int fails_at; /* a program, or -1 */
} Given;

typedef struct {
    int programs;
    double cost; /* what the pool is told; 0: unknown */
    int in_order;
    int brief; /* may be shared with threads that are awake */
    int work;
    int launches;
    int fails_at;
} Kind;

static int32_t kernel(const uint64_t *args, const int32_t grid[3], int64_t first, int64_t last, void *arena,
                      void *fault) {
    const Given *given = (const Given *)(uintptr_t)args[0];
    (void)grid;
    memset(arena, 1, 128);
    for (int64_t p = first; p < last; p++) {
        given->counts[p]++;
        for (volatile int i = 0; i < given->work; i++) {
        }
        if (p == given->fails_at) {
            *(int32_t *)fault = (int32_t)p;
            return 7;
        }
    }
    return 0;
}

static void check(int right, const char *what, const Kind *kind) {
    if (right) return;
    fprintf(stderr, "%s: %d programs of %g ns, in order %d, brief %d\n", what, kind->programs, kind->cost,
            kind->in_order, kind->brief);
    exit(1);
}

/* Launches of one kind; how many were shared. */
static int run(Kind kind) {
    Given given = {calloc((size_t)kind.programs, sizeof(int)), kind.work, kind.fails_at};
    uint64_t slots[1] = {(uint64_t)(uintptr_t)&given};
    int shared = 0;
    for (int number = 0; number < kind.launches; number++) {
        ok_launch launch = {kernel, slots, {kind.programs, 1, 1}, kind.programs, 128, kind.cost};
        launch.in_order = kind.in_order;
        launch.share_brief = kind.brief;
        launch.measure = number % 3 == 0;
        launch.learned = number > 0;
        int32_t fault[3] = {0, 0, 0}, status = ok_pool_run(&launch, fault);
        check(kind.fails_at < 0 ? status == 0 : status == 7 && fault[0] == kind.fails_at, "wrong result", &kind);
        shared += launch.on > 1;
        if (number % 100 == 99) nanosleep(&(struct timespec){0, 200000}, NULL); /* the workers fall asleep */
    }
    for (int p = 0; p < kind.programs && kind.fails_at < 0; p++)
        check(given.counts[p] == kind.launches, "not once each", &kind);
    free(given.counts);
    return shared;
}

static void *caller(void *number) {
    int work = 3 * (int)(intptr_t)number;
    for (int i = 0; i < 3; i++) {
        run((Kind){97, 50, 0, 1, work, 500, -1});
        run((Kind){64, 1000, 0, 0, 20, 100, -1});
        run((Kind){33, 1000, 1, 0, 20, 100, -1});
    }
    return NULL;
}

int main(void) {
    if (ok_pool_init() != 0) return 1;
    for (int threads = 2; threads <= 6; threads++) {
        ok_pool_set_threads(threads);
        int brief = run((Kind){97, 100, 0, 1, 30, 2000, -1}) + run((Kind){3, 2500, 0, 1, 300, 500, -1});
        int parts = run((Kind){500, 200, 0, 0, 30, 200, -1}), order = run((Kind){500, 200, 1, 0, 30, 200, -1});
        int unknown = run((Kind){500, 0, 1, 0, 30, 100, -1}), longer = run((Kind){5000, 100000, 0, 0, 3, 50, -1});
        for (int at = 0; at < 500; at += 83) {
            run((Kind){500, 200, 0, 0, 10, 10, at});
            run((Kind){500, 1000, 1, 0, 10, 10, at});
        }
        printf("%d threads shared %d brief, %d by parts, %d in order, %d unknown, %d long\n", threads, brief, parts, order,
               unknown, longer);
    }
    pthread_t callers[3];
    for (int i = 0; i < 3; i++) pthread_create(&callers[i], NULL, caller, (void *)(intptr_t)i);
    for (int i = 0; i < 3; i++) pthread_join(callers[i], NULL);
    return 0;
}
