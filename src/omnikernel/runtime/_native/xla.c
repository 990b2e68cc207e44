/* The one XLA handler behind every kernel inside jax.jit.
 *
 * Which kernel, with what grid and which scalars, is in the attribute `plan`, int64 numbers:
 *   key, grid x, y, z, repeats, parameters, and for each parameter: buffer, bits, step
 * `buffer` is the number of an argument or, after those, of a result; -1 for a scalar, whose slot is `bits`. The grid runs
 * `repeats` times (the axis that vmap adds), each time with every pointer `step` bytes further. A kernel whose key is not
 * known here, e.g. of a program that another process exported, is loaded once from the attribute `kernel`.
 *
 * Work is shared on XLA's own threads. Tasks may run late or not at all: the caller takes part, waits only for chunks that
 * a task has claimed, and the shared block is counted, so that a late task finds it alive and empty.
 */
#include "native.h"
#include "xla.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024
#define HEAD 6
#define PER_PARAMETER 3
#define MAX_PARAMETERS 256
#define INLINE_BELOW_NS 30000.0
#define CHUNKS_PER_THREAD 8
#define MAX_TASKS 256

/* ---- kernels by key; entries live as long as the process ---- */

typedef struct entry {
    struct entry *next;
    uint64_t key;
    ok_kernel kernel;
    size_t arena_bytes;
    double cost;
    int32_t asserts;
    char **messages; /* the kernel's name, then a message an assert */
} entry;

typedef int32_t (*loader)(uint64_t key, const void *data, size_t size);

static _Atomic(entry *) table[BUCKETS];
static _Atomic(loader) load_kernel;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

static entry *find(uint64_t key) {
    entry *at = atomic_load_explicit(&table[key % BUCKETS], memory_order_acquire);
    while (at && at->key != key) at = at->next;
    return at;
}

/* ---- one launch ---- */

typedef struct {
    _Atomic int references;
    _Atomic int64_t next;     /* first program that nobody has claimed */
    _Atomic int64_t finished; /* programs that are done */
    _Atomic int64_t failed_at;
    pthread_mutex_t lock;
    int64_t chunk;
    /* Valid until the caller returns, so only for holders of a claimed chunk. */
    const entry *entry;
    const int64_t *plan;
    const uint64_t *slots;
    int32_t grid[3];
    int64_t programs; /* of one repeat */
    int64_t total;
    int32_t status;
    int32_t fault[3];
} launch;

static int32_t run_range(const launch *l, int64_t first, int64_t last, int32_t fault[3]) {
    uint64_t slots[MAX_PARAMETERS];
    void *arena = ok_thread_arena(l->entry->arena_bytes);
    int64_t parameters = l->plan[5];
    if (!arena) return OK_NO_MEMORY;
    while (first < last) {
        int64_t repeat = first / l->programs, begin = first % l->programs;
        int64_t end = l->programs < begin + (last - first) ? l->programs : begin + (last - first);
        const uint64_t *used = l->slots;
        if (repeat) {
            for (int64_t i = 0; i < parameters; i++)
                slots[i] = l->slots[i] + (uint64_t)(repeat * l->plan[HEAD + PER_PARAMETER * i + 2]);
            used = slots;
        }
        int32_t status = l->entry->kernel(used, l->grid, begin, end, arena, fault);
        if (status) return status;
        first += end - begin;
    }
    return 0;
}

static void work(launch *l) {
    for (;;) {
        int64_t first = atomic_load_explicit(&l->next, memory_order_relaxed);
        int64_t last;
        do {
            if (first >= l->total) return;
            last = first + l->chunk < l->total ? first + l->chunk : l->total;
        } while (!atomic_compare_exchange_weak(&l->next, &first, last));
        if (first < atomic_load(&l->failed_at)) {
            int32_t fault[3] = {0, 0, 0};
            int32_t status = run_range(l, first, last, fault);
            if (status) {
                pthread_mutex_lock(&l->lock);
                if (first < atomic_load(&l->failed_at)) {
                    atomic_store(&l->failed_at, first);
                    l->status = status;
                    memcpy(l->fault, fault, sizeof fault);
                }
                pthread_mutex_unlock(&l->lock);
            }
        }
        atomic_fetch_add_explicit(&l->finished, last - first, memory_order_acq_rel);
    }
}

static void release(launch *l) {
    if (atomic_fetch_sub(&l->references, 1) == 1) {
        pthread_mutex_destroy(&l->lock);
        free(l);
    }
}

static void task(void *data) {
    launch *l = data;
    work(l);
    release(l);
}

static void destroy(const xla_api *api, xla_error *error) {
    xla_destroy_args args = {sizeof args, NULL, error};
    if (error) api->error_destroy(&args);
}

/* How many tasks beside the caller; 0 where the runtime has no pool. */
static int64_t helpers(const xla_frame *frame, const launch *l) {
    double cost = l->entry->cost;
    if (l->total < 2 || (cost > 0 && cost * (double)l->total < INLINE_BELOW_NS)) return 0;
    int64_t threads = 0, allowed = ok_pool_threads();
    xla_threads_args args = {sizeof args, NULL, frame->context, &threads};
    xla_error *error = frame->api->num_threads(&args);
    if (error) {
        destroy(frame->api, error);
        return 0;
    }
    if (threads > allowed) threads = allowed;
    if (threads > l->total) threads = l->total;
    return threads > MAX_TASKS ? MAX_TASKS : threads - 1;
}

static int32_t run(const xla_frame *frame, launch *on_stack, int32_t fault[3]) {
    int64_t tasks = helpers(frame, on_stack);
    launch *l = tasks > 0 ? malloc(sizeof *l) : NULL;
    if (!l) return run_range(on_stack, 0, on_stack->total, fault);
    memcpy(l, on_stack, sizeof *l);
    atomic_init(&l->references, 1);
    atomic_init(&l->next, 0);
    atomic_init(&l->finished, 0);
    atomic_init(&l->failed_at, INT64_MAX);
    pthread_mutex_init(&l->lock, NULL);
    l->chunk = l->total / ((tasks + 1) * CHUNKS_PER_THREAD);
    if (l->chunk < 1) l->chunk = 1;
    for (int64_t i = 0; i < tasks; i++) {
        xla_schedule_args args = {sizeof args, NULL, frame->context, task, l};
        atomic_fetch_add(&l->references, 1);
        xla_error *error = frame->api->schedule(&args);
        if (error) {
            destroy(frame->api, error);
            release(l);
            break;
        }
    }
    work(l);
    for (int spins = 0; atomic_load_explicit(&l->finished, memory_order_acquire) < l->total; spins++)
        if (spins > 1000) sched_yield();
    int32_t status = l->status;
    memcpy(fault, l->fault, sizeof l->fault);
    release(l);
    return status;
}

/* ---- the handler ---- */

static xla_error *fail(const xla_frame *frame, int code, const char *message) {
    xla_error_args args = {sizeof args, NULL, message, code};
    return frame->api->error_create(&args);
}

static const xla_array *attribute(const xla_frame *frame, const char *name, int dtype) {
    for (int64_t i = 0; i < frame->attributes.size; i++) {
        const xla_span *span = frame->attributes.names[i];
        if (span->length == strlen(name) && memcmp(span->text, name, span->length) == 0) {
            const xla_array *array = frame->attributes.values[i];
            return frame->attributes.types[i] == XLA_ATTR_ARRAY && array->dtype == dtype ? array : NULL;
        }
    }
    return NULL;
}

static xla_error *failed(const xla_frame *frame, const entry *e, int32_t status, const int32_t fault[3]) {
    char text[1024];
    if (status == OK_NO_MEMORY) return fail(frame, XLA_RESOURCE_EXHAUSTED, "omnikernel: no scratch memory for a kernel");
    const char *message = status > 0 && status <= e->asserts ? e->messages[status] : "an assert";
    snprintf(text, sizeof text, "kernel '%s', program (%d, %d, %d): device_assert failed: %s", e->messages[0], fault[0],
             fault[1], fault[2], message);
    return fail(frame, XLA_INTERNAL, text);
}

xla_error *ok_xla_handler(xla_frame *frame) {
    if (frame->extension_start && frame->extension_start->type == XLA_EXTENSION_METADATA) {
        xla_metadata *metadata = ((xla_metadata_extension *)frame->extension_start)->metadata;
        metadata->api_version.major = 0;
        metadata->api_version.minor = 1;
        return NULL;
    }
    if (frame->stage != XLA_STAGE_EXECUTE) return NULL;
    const xla_array *described = attribute(frame, "plan", XLA_S64);
    if (!described || described->size < HEAD) return fail(frame, XLA_INVALID_ARGUMENT, "omnikernel: a call without a plan");
    const int64_t *plan = described->data;
    int64_t parameters = plan[5];
    if (parameters < 0 || parameters > MAX_PARAMETERS || described->size != (size_t)(HEAD + PER_PARAMETER * parameters))
        return fail(frame, XLA_INVALID_ARGUMENT, "omnikernel: a call with a damaged plan");
    entry *e = find((uint64_t)plan[0]);
    if (!e) {
        const xla_array *kernel = attribute(frame, "kernel", XLA_U8);
        loader load = atomic_load(&load_kernel);
        if (!kernel || !load || load((uint64_t)plan[0], kernel->data, kernel->size) != 0 || !(e = find((uint64_t)plan[0])))
            return fail(frame, XLA_FAILED_PRECONDITION, "omnikernel: the kernel of this call could not be loaded");
    }
    uint64_t slots[MAX_PARAMETERS];
    int64_t arguments = frame->arguments.size;
    for (int64_t i = 0; i < parameters; i++) {
        const int64_t *one = plan + HEAD + PER_PARAMETER * i;
        if (one[0] < 0) {
            slots[i] = (uint64_t)one[1];
            continue;
        }
        if (one[0] >= arguments + frame->results.size)
            return fail(frame, XLA_INVALID_ARGUMENT, "omnikernel: a call with too few buffers");
        xla_buffer *buffer = one[0] < arguments ? frame->arguments.values[one[0]] : frame->results.values[one[0] - arguments];
        slots[i] = (uint64_t)(uintptr_t)buffer->data;
    }
    launch l = {.entry = e, .plan = plan, .slots = slots, .grid = {(int32_t)plan[1], (int32_t)plan[2], (int32_t)plan[3]}};
    l.programs = plan[1] * plan[2] * plan[3];
    l.total = l.programs * plan[4];
    if (l.total <= 0) return NULL;
    int32_t fault[3] = {0, 0, 0};
    int32_t status = run(frame, &l, fault);
    return status ? failed(frame, e, status, fault) : NULL;
}

/* ---- for Python ---- */

static PyObject *handler(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return PyLong_FromVoidPtr((void *)(uintptr_t)ok_xla_handler);
}

static PyObject *set_loader(PyObject *self, PyObject *address) {
    (void)self;
    void *pointer = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred()) return NULL;
    atomic_store(&load_kernel, (loader)(uintptr_t)pointer);
    Py_RETURN_NONE;
}

static char *copied(PyObject *text) {
    Py_ssize_t size;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &size);
    char *copy = utf8 ? malloc((size_t)size + 1) : NULL;
    if (copy) memcpy(copy, utf8, (size_t)size + 1);
    return copy;
}

static PyObject *add_kernel(PyObject *self, PyObject *args) {
    unsigned long long key, address;
    Py_ssize_t arena_bytes, count;
    double cost;
    PyObject *messages;
    (void)self;
    if (!PyArg_ParseTuple(args, "KKndO!", &key, &address, &arena_bytes, &cost, &PyTuple_Type, &messages)) return NULL;
    count = PyTuple_Size(messages);
    entry *e = calloc(1, sizeof *e);
    char **texts = e && count > 0 ? calloc((size_t)count, sizeof *texts) : NULL;
    for (Py_ssize_t i = 0; texts && i < count; i++)
        if (!(texts[i] = copied(PyTuple_GetItem(messages, i)))) {
            while (i-- > 0) free(texts[i]);
            free(texts);
            texts = NULL;
        }
    if (!texts) {
        free(e);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    e->key = key;
    e->kernel = (ok_kernel)(uintptr_t)address;
    e->arena_bytes = (size_t)arena_bytes;
    e->cost = cost;
    e->asserts = (int32_t)count - 1;
    e->messages = texts;
    pthread_mutex_lock(&table_lock);
    e->next = atomic_load(&table[key % BUCKETS]);
    atomic_store_explicit(&table[key % BUCKETS], e, memory_order_release);
    pthread_mutex_unlock(&table_lock);
    Py_RETURN_NONE;
}

PyMethodDef ok_xla_methods[] = {
    {"xla_handler", handler, METH_NOARGS, "xla_handler() -> int: address of the handler."},
    {"xla_set_loader", set_loader, METH_O,
     "xla_set_loader(address): int32 load(uint64 key, const void *data, size_t size), for kernels not yet added."},
    {"xla_add_kernel", add_kernel, METH_VARARGS,
     "xla_add_kernel(key, address, arena_bytes, cost, (name, *assert messages)): a linked kernel."},
    {NULL, NULL, 0, NULL},
};
