/* The module omnikernel._native: launches on the thread pool, array readers, the dispatch table, prepared launches. */
#include "launch.h"

#include <string.h>

PyDoc_STRVAR(run_doc, "run(address, slots, grid, arena_bytes, cost) -> None | (code, x, y, z)\n--\n\n"
                      "Run the kernel at `address` over the grid of three ints. `slots` holds 8 bytes a parameter.\n"
                      "The result is None, or the number of the failed assert and the program. Releases the GIL.");

static PyObject *run(PyObject *self, PyObject *args) {
    unsigned long long address;
    Py_buffer slots;
    Py_ssize_t arena_bytes;
    ok_launch launch = {.in_order = 1};
    int32_t fault[3] = {0, 0, 0}, status;
    (void)self;
    if (!PyArg_ParseTuple(args, "Ky*(iii)nd", &address, &slots, &launch.grid[0], &launch.grid[1], &launch.grid[2],
                          &arena_bytes, &launch.cost))
        return NULL;
    launch.kernel = (ok_kernel)(uintptr_t)address;
    launch.args = slots.buf;
    launch.arena_bytes = (size_t)arena_bytes;
    launch.programs = (int64_t)launch.grid[0] * launch.grid[1];
    if (launch.grid[2] > 0 && launch.programs > INT64_MAX / launch.grid[2]) {
        PyBuffer_Release(&slots);
        PyErr_SetString(PyExc_OverflowError, "the grid has more than 2^63 programs");
        return NULL;
    }
    launch.programs *= launch.grid[2];
    Py_BEGIN_ALLOW_THREADS
    status = ok_pool_run(&launch, fault);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&slots);
    if (status == OK_NO_MEMORY) return PyErr_NoMemory();
    if (status == 0) Py_RETURN_NONE;
    return Py_BuildValue("(iiii)", (int)status, (int)fault[0], (int)fault[1], (int)fault[2]);
}

static PyObject *set_num_threads(PyObject *self, PyObject *count) {
    (void)self;
    long threads = PyLong_AsLong(count);
    if (threads == -1 && PyErr_Occurred()) return NULL;
    ok_pool_set_threads(threads > 1 << 20 ? 1 << 20 : (int)threads);
    Py_RETURN_NONE;
}

static PyObject *get_num_threads(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return PyLong_FromLong(ok_pool_threads());
}

static PyObject *shared_launches(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return PyLong_FromLongLong((long long)ok_pool_shared());
}

/* What C++ calls for ok::parallel_for; needs no GIL. */
static void pool_for(ok_kernel kernel, const uint64_t *args, int64_t chunks) {
    int32_t fault[3] = {0, 0, 0};
    ok_launch launch = {.kernel = kernel, .args = args, .grid = {(int32_t)chunks, 1, 1}, .programs = chunks, .in_order = 1};
    if (ok_pool_run(&launch, fault) == OK_NO_MEMORY) kernel(args, launch.grid, 0, chunks, NULL, fault);
}

static PyObject *pool_address(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return PyLong_FromVoidPtr((void *)(uintptr_t)pool_for);
}

static PyMethodDef methods[] = {
    {"run", run, METH_VARARGS, run_doc},
    {"set_num_threads", set_num_threads, METH_O, "set_num_threads(n): threads a launch may use."},
    {"get_num_threads", get_num_threads, METH_NOARGS, "get_num_threads() -> int"},
    {"shared_launches", shared_launches, METH_NOARGS, "shared_launches() -> int: how many launches threads shared so far."},
    {"pool_address", pool_address, METH_NOARGS, "pool_address() -> int: the pool, for C++: void (kernel, args, chunks)."},
    {"setup_numpy", ok_setup_numpy, METH_VARARGS,
     "setup_numpy(type, sample, address, shape, strides, dtype, writeable) -> bool: is the layout as declared?"},
    {"register_exchange", ok_register_exchange, METH_VARARGS,
     "register_exchange(type, capsule) -> bool: read tensors of the type by the DLPack C exchange API."},
    {"read", ok_read, METH_O, "read(array) -> (address, low, high, writeable, itemsize) | None, for tests."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "omnikernel._native", "Thread pool, array readers and dispatch table.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) {
    if (ok_pool_init() != 0) {
        PyErr_SetString(PyExc_ImportError, "omnikernel._native: the thread pool could not be set up");
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    if (PyModule_AddFunctions(module, ok_dispatch_methods) != 0 || PyModule_AddFunctions(module, ok_context_methods) != 0 ||
        ok_context_init() != 0 || ok_entry_init() != 0 || ok_dispatch_init(module) != 0 || ok_prepare_init(module) != 0 ||
        ok_launcher_init(module) != 0 || PyModule_AddFunctions(module, ok_launcher_methods) != 0 ||
        PyModule_AddFunctions(module, ok_xla_methods) != 0)
        Py_CLEAR(module);
    return module;
}
