/* Shared declarations of the optional C extension: the thread pool, array readers and the dispatch table.
 *
 * Built against the limited API of Python 3.11, with no header of NumPy or torch: the few struct fields that are read
 * are declared in arrays.c and checked against a real array before the first use.
 */
#ifndef OMNIKERNEL_NATIVE_H
#define OMNIKERNEL_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#ifdef Py_GIL_DISABLED
#error "the extension relies on the GIL and on its object layout"
#endif

/* The entry point of a compiled kernel; see omnikernel.artefact.Artefact. */
typedef int32_t (*ok_kernel)(const uint64_t *args, const int32_t grid[3], int64_t first, int64_t last, void *arena,
                             void *fault);

/* One launch. The last three are results: `wall` is 0 where the launch was brief and `measure` did not ask for it. */
typedef struct {
    ok_kernel kernel;
    const uint64_t *args;
    int32_t grid[3];
    int64_t programs;
    size_t arena_bytes;
    double cost;     /* estimated nanoseconds of one program, 0 where unknown */
    int in_order;    /* a program may wait for a lower one */
    int share_brief; /* also with threads that are awake, where it is too brief to wake any */
    int learned;     /* the estimate comes from launches: no more threads than it is worth */
    int alone;       /* on one thread whatever it takes, to learn that */
    int measure;
    int brief;
    int on; /* threads */
    double wall; /* nanoseconds */
} ok_launch;

#define OK_NO_MEMORY (-1)

/* Runs every program of the launch once, in increasing order of hand-out, and waits for them. Needs no GIL.
 * Returns 0, the number of the failed assert with the program's x, y, z in `fault`, or OK_NO_MEMORY. */
int32_t ok_pool_run(ok_launch *launch, int32_t fault[3]);
int ok_pool_init(void);
/* 64-byte aligned scratch of the calling thread, kept for its next launch; NULL where memory is out. */
void *ok_thread_arena(size_t bytes);
void ok_pool_set_threads(int threads);
int ok_pool_threads(void);
/* Launches that more than one thread was asked to take part in. */
int64_t ok_pool_shared(void);

/* What a launch needs of an array. `high` is past the last byte; an empty array has low == high. */
typedef struct {
    uint64_t address;
    uint64_t low;
    uint64_t high;
    int writeable;
    PyObject *dtype;     /* NumPy: the descriptor object, borrowed */
    uint32_t dlpack_dtype; /* DLPack: code, bits and lanes in one word */
    uint32_t itemsize;   /* DLPack only; 0: not known here */
    int ndim;
    const intptr_t *shape;
    const intptr_t *strides;
} ok_array;

/* 1: read; 0: not an array of a known kind, or one that needs the slow path (never with an exception set). */
int ok_read_array(PyObject *object, ok_array *array, char *kind);
/* Sets low and high from shape and strides. */
void ok_array_extent(ok_array *array, int64_t itemsize);

PyObject *ok_setup_numpy(PyObject *self, PyObject *args);
PyObject *ok_register_exchange(PyObject *self, PyObject *args);
PyObject *ok_read(PyObject *self, PyObject *object);

extern PyMethodDef ok_dispatch_methods[];
int ok_dispatch_init(PyObject *module);
extern PyMethodDef ok_xla_methods[];

#endif
