/* A prepared launch: one kernel, one set of constants, and the arguments that it was prepared with.
 *
 * A call of it means what `kernel[grid](...)` means. Where the arguments are of the kind that it was prepared for, and the
 * context is what it was, the kernel runs at once; for any other call the ordinary launch is called.
 */
#include "launch.h"

#include <string.h>

typedef struct {
    PyObject_HEAD
    PyObject *function; /* the JITFunction */
    PyObject *ordinary; /* called with the run-time arguments where the direct way does not fit */
    PyObject *grid;     /* a callable, or NULL: extents holds the grid */
    PyObject *names;    /* tuple: the names of the run-time arguments, */
    PyObject *constants; /* dict: and the other arguments, for the grid function */
    PyObject *arguments; /* tuple: those that a call without arguments takes */
    PyObject *key;       /* bytes: the kind of arguments that entry is for */
    Entry *entry;
    int32_t extents[3];
} Prepared;

static PyTypeObject *prepared_type;

static int same_key(const Prepared *prepared, const Call *call) {
    return (size_t)PyBytes_Size(prepared->key) == call->size &&
           memcmp(PyBytes_AsString(prepared->key), call->bytes, call->size) == 0;
}

/* 1: read; 0: leave it to the ordinary launch; -1: the grid function raised. */
static int read_grid(const Prepared *prepared, PyObject *args, int32_t out[3]) {
    if (!prepared->grid) {
        memcpy(out, prepared->extents, sizeof prepared->extents);
        return 1;
    }
    PyObject *bound = PyDict_Copy(prepared->constants);
    for (Py_ssize_t i = 0; bound && i < PyTuple_Size(args); i++)
        if (PyDict_SetItem(bound, PyTuple_GetItem(prepared->names, i), PyTuple_GetItem(args, i)) != 0) Py_CLEAR(bound);
    PyObject *made = bound ? PyObject_CallFunctionObjArgs(prepared->grid, bound, NULL) : NULL;
    Py_XDECREF(bound);
    if (!made) return -1;
    int status = ok_read_grid(made, out);
    Py_DECREF(made);
    return status;
}

/* 1: done; 0: the ordinary launch must look; -1: with an exception that is the caller's. */
static int run_directly(const Prepared *prepared, PyObject *args) {
    Call call;
    uint64_t slots[MAX_ARGS];
    int32_t extents[3];
    int debug;
    Variant *variant = NULL;
    if (ok_plain_context(prepared->function, &debug) && ok_read_arguments(args, debug, &call) &&
        same_key(prepared, &call) && ok_still_valid(prepared->function, prepared->entry))
        variant = ok_plan_call(prepared->entry, &call, slots);
    if (!variant) {
        PyErr_Clear();
        return 0;
    }
    int status = read_grid(prepared, args, extents);
    if (status <= 0) return status;
    return ok_run_variant(prepared->entry, variant, slots, extents) == 0 ? 1 : -1;
}

static PyObject *wrong_count(const Prepared *prepared, Py_ssize_t got) {
    PyObject *comma = PyUnicode_FromString(", ");
    PyObject *names = comma ? PyUnicode_Join(comma, prepared->names) : NULL;
    PyObject *kernel = names ? PyObject_GetAttrString(prepared->function, "__name__") : NULL;
    if (kernel)
        PyErr_Format(PyExc_TypeError,
                     "kernel '%U': expected the %zd run-time arguments (%U) of a prepared launch, or none for those it was "
                     "prepared with; got %zd",
                     kernel, PyTuple_Size(prepared->names), names, got);
    Py_XDECREF(kernel);
    Py_XDECREF(names);
    Py_XDECREF(comma);
    return NULL;
}

static PyObject *prepared_call(PyObject *self, PyObject *args, PyObject *kwargs) {
    Prepared *prepared = (Prepared *)self;
    Py_ssize_t count = PyTuple_Size(args);
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "a prepared launch takes its run-time arguments by position; its constants are "
                                         "those it was prepared with");
        return NULL;
    }
    if (count == 0) args = prepared->arguments;
    else if (count != PyTuple_Size(prepared->names)) return wrong_count(prepared, count);
    int status = run_directly(prepared, args);
    if (status < 0) return NULL;
    if (status == 0) return PyObject_CallObject(prepared->ordinary, args);
    Py_INCREF(prepared->entry->compiled);
    return prepared->entry->compiled;
}

PyDoc_STRVAR(prepared_doc,
             "Prepared(function, ordinary, grid, names, constants, arguments, debug, compiled, executable, slots, plain,\n"
             "disjoint, cache)\n--\n\n"
             "A launch of one kernel with one set of constants; see omnikernel.runtime.prepare. ValueError where calls with\n"
             "such arguments have no key.");

static int take(Prepared *prepared, PyObject *const fields[6]) {
    PyObject **places[6] = {&prepared->function, &prepared->ordinary,  &prepared->grid,
                            &prepared->names,    &prepared->constants, &prepared->arguments};
    for (int i = 0; i < 6; i++) {
        Py_INCREF(fields[i]);
        *places[i] = fields[i];
    }
    if (PyCallable_Check(prepared->grid)) return 1;
    if (!ok_read_grid(prepared->grid, prepared->extents)) return 0;
    Py_CLEAR(prepared->grid);
    return 1;
}

static PyObject *prepared_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    PyObject *fields[6], *compiled, *executable, *slots, *plain, *disjoint, *cache;
    int debug;
    Call call;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "OOOO!O!O!pOOO!O!O!O", &fields[0], &fields[1], &fields[2], &PyTuple_Type, &fields[3],
                          &PyDict_Type, &fields[4], &PyTuple_Type, &fields[5], &debug, &compiled, &executable,
                          &PyTuple_Type, &slots, &PyTuple_Type, &plain, &PyTuple_Type, &disjoint, &cache))
        return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Prepared *prepared = (Prepared *)alloc(type, 0);
    if (!prepared) return NULL;
    int known = PyTuple_Size(fields[3]) == PyTuple_Size(fields[5]) && take(prepared, fields) &&
                ok_read_arguments(fields[5], debug, &call) && call.arrays > 0;
    if (known) {
        prepared->key = PyBytes_FromStringAndSize((const char *)call.bytes, (Py_ssize_t)call.size);
        prepared->entry = ok_make_entry(call.keep, call.kept, compiled, executable, slots, plain, disjoint,
                                        PyDict_Check(cache) ? cache : NULL);
        known = prepared->key && prepared->entry && ok_entry_covers(prepared->entry, call.count);
    }
    if (!known) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "such a call has no key");
        Py_CLEAR(prepared);
    }
    return (PyObject *)prepared;
}

static PyObject *prepared_direct(PyObject *self, void *unused) {
    (void)self;
    (void)unused;
    Py_RETURN_TRUE;
}

/* ---- object plumbing ---- */

static int prepared_traverse(PyObject *self, visitproc visit, void *arg) {
    Prepared *prepared = (Prepared *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(prepared->function);
    Py_VISIT(prepared->ordinary);
    Py_VISIT(prepared->grid);
    Py_VISIT(prepared->constants);
    Py_VISIT(prepared->arguments);
    Py_VISIT((PyObject *)prepared->entry);
    return 0;
}

/* Others hold no prepared launch but the grid function and `ordinary`: cycles are broken by what those refer to. */
static void prepared_dealloc(PyObject *self) {
    Prepared *prepared = (Prepared *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(prepared->function);
    Py_CLEAR(prepared->ordinary);
    Py_CLEAR(prepared->grid);
    Py_CLEAR(prepared->names);
    Py_CLEAR(prepared->constants);
    Py_CLEAR(prepared->arguments);
    Py_CLEAR(prepared->key);
    Py_CLEAR(prepared->entry);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int prepared_drop(PyObject *self) {
    PyDict_Clear(((Prepared *)self)->constants);
    return 0;
}

static PyGetSetDef prepared_getset[] = {
    {"direct", prepared_direct, NULL, "Whether calls of the prepared kind run without the ordinary launch.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot prepared_slots[] = {
    {Py_tp_new, prepared_new},       {Py_tp_dealloc, prepared_dealloc}, {Py_tp_traverse, prepared_traverse},
    {Py_tp_clear, prepared_drop},    {Py_tp_call, prepared_call},       {Py_tp_getset, prepared_getset},
    {Py_tp_doc, (void *)prepared_doc}, {0, NULL},
};
static PyType_Spec prepared_spec = {"omnikernel._native.Prepared", sizeof(Prepared), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, prepared_slots};

int ok_prepare_init(PyObject *module) {
    if (!prepared_type && !(prepared_type = (PyTypeObject *)PyType_FromSpec(&prepared_spec))) return -1;
    Py_INCREF((PyObject *)prepared_type);
    return PyModule_AddObject(module, "Prepared", (PyObject *)prepared_type);
}
