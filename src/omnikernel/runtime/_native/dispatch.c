/* The fast launch path: from the arguments of `kernel[grid](...)` to a compiled kernel, without Triton's Python.
 *
 * A `Table` belongs to one JITFunction and maps the key of a call (call.c) to a compiled kernel and a plan of its slots.
 * A call takes the stock path where it has no key, where no entry fits, and where the context is not plain: hooks,
 * debug, changed globals, checked mode.
 */
#include "launch.h"

#include <string.h>

#define MAX_ENTRIES 1024

static PyTypeObject *table_type;
static PyObject *table_name;

/* ---- the launch ---- */

static int has_key(const Entry *entry, const Call *call) {
    return (size_t)PyBytes_Size(entry->key) == call->size &&
           memcmp(PyBytes_AsString(entry->key), call->bytes, call->size) == 0;
}

static Entry *find(Table *table, const Call *call) {
    if (table->last && has_key((Entry *)table->last, call)) return (Entry *)table->last;
    PyObject *key = PyBytes_FromStringAndSize((const char *)call->bytes, (Py_ssize_t)call->size);
    PyObject *entry = key ? PyDict_GetItemWithError(table->entries, key) : NULL;
    Py_XDECREF(key);
    if (!entry) PyErr_Clear();
    PyObject *before = table->last;
    Py_XINCREF(entry);
    table->last = entry;
    Py_XDECREF(before);
    return (Entry *)entry;
}

static void clear_entries(Table *table) {
    Py_CLEAR(table->last);
    if (table->entries) PyDict_Clear(table->entries);
}

static PyObject *given_by_name(const Given *given, PyObject *name) {
    for (int i = given->positional; i < given->count; i++)
        if (given->name[i] == name || PyUnicode_Compare(given->name[i], name) == 0) return given->value[i];
    return NULL;
}

/* The dict of bound arguments that a grid function gets; NULL with or without an exception. */
static PyObject *bind(const Table *table, const Given *given) {
    PyObject *bound = PyDict_New();
    Py_ssize_t parameters = PyTuple_Size(table->names);
    for (Py_ssize_t i = 0; bound && i < parameters; i++) {
        PyObject *key = PyTuple_GetItem(table->names, i);
        PyObject *value = i < given->positional ? given->value[i] : given_by_name(given, key);
        if (!value) value = PyDict_GetItemWithError(table->defaults, key);
        if (!value || PyDict_SetItem(bound, key, value) != 0) Py_CLEAR(bound);
    }
    return bound;
}

static int read_extent(PyObject *item, int32_t *out) {
    PyObject *integer = PyNumber_Index(item);
    long value = integer ? PyLong_AsLong(integer) : -1;
    Py_XDECREF(integer);
    if (PyErr_Occurred()) PyErr_Clear();
    if (value < 0 || value > INT32_MAX) return 0;
    *out = (int32_t)value;
    return 1;
}

int ok_read_grid(PyObject *grid, int32_t out[3]) {
    out[0] = out[1] = out[2] = 1;
    if (PyLong_CheckExact(grid)) return read_extent(grid, &out[0]);
    int is_tuple = PyTuple_Check(grid);
    if (!is_tuple && !PyList_Check(grid)) return 0;
    Py_ssize_t size = is_tuple ? PyTuple_Size(grid) : PyList_Size(grid);
    int status = size >= 1 && size <= 3;
    for (Py_ssize_t d = 0; status && d < size; d++)
        status = read_extent(is_tuple ? PyTuple_GetItem(grid, d) : PyList_GetItem(grid, d), &out[d]);
    return status;
}

/* 1: read; 0: leave it to the stock path; -1: the grid function raised. */
static int read_grid(const Table *table, PyObject *grid, const Given *given, int32_t out[3]) {
    if (PyTuple_CheckExact(grid) || !PyCallable_Check(grid)) return ok_read_grid(grid, out);
    PyObject *bound = bind(table, given);
    if (!bound) {
        PyErr_Clear();
        return 0;
    }
    PyObject *made = PyObject_CallFunctionObjArgs(grid, bound, NULL);
    Py_DECREF(bound);
    if (!made) return -1;
    int status = ok_read_grid(made, out);
    Py_DECREF(made);
    return status;
}

static Table *table_of(PyObject *function) {
    PyObject *table = PyObject_GetAttr(function, table_name);
    if (!table) PyErr_Clear();
    if (table && Py_TYPE(table) != table_type) Py_CLEAR(table);
    return (Table *)table;
}

static int writes_a_source(const Entry *entry, const Py_ssize_t *sources) {
    for (int i = 0; sources && i < entry->slots; i++)
        if (entry->slot[i].written && sources[entry->slot[i].source] >= 0) return 1;
    return 0;
}

static PyObject *launch_with(Table *table, PyObject *function, PyObject *grid, const Given *given,
                             const Py_ssize_t *sources) {
    Call call;
    uint64_t slots[MAX_ARGS];
    int32_t extents[3];
    int debug;
    Entry *entry = NULL;
    if (ok_plain_context(function, &debug) && ok_read_call(table, given, debug, &call)) entry = find(table, &call);
    Variant *variant = entry && ok_still_valid(function, entry) ? ok_plan_call(entry, &call, slots) : NULL;
    if (!variant || writes_a_source(entry, sources)) {
        PyErr_Clear();
        return NULL;
    }
    Py_INCREF((PyObject *)entry); /* a grid function or another thread may clear the table */
    int status = read_grid(table, grid, given, extents);
    PyObject *compiled = NULL;
    if (status > 0 && ok_run_variant(entry, variant, slots, extents) == 0) {
        compiled = entry->compiled;
        Py_INCREF(compiled);
    }
    Py_DECREF(entry);
    return compiled;
}

PyObject *ok_try_launch(PyObject *function, PyObject *grid, const Given *given, const Py_ssize_t *sources) {
    Table *table = table_of(function);
    if (!table) return NULL;
    PyObject *compiled = launch_with(table, function, grid, given, sources);
    Py_DECREF(table);
    return compiled;
}

PyDoc_STRVAR(try_launch_doc, "try_launch(function, grid, args, kwargs) -> the compiled kernel | None\n--\n\n"
                             "Launch if an entry fits; None: nothing was done, take the stock path.");

static PyObject *try_launch(PyObject *self, PyObject *const *items, Py_ssize_t count) {
    Given given;
    (void)self;
    if (count != 4 || !PyTuple_Check(items[2]) || !(items[3] == Py_None || PyDict_Check(items[3]))) {
        PyErr_SetString(PyExc_TypeError, "try_launch(function, grid, args: tuple, kwargs: dict | None)");
        return NULL;
    }
    if (!ok_given(items[2], items[3] == Py_None ? NULL : items[3], &given)) Py_RETURN_NONE;
    PyObject *compiled = ok_try_launch(items[0], items[1], &given, NULL);
    if (compiled || PyErr_Occurred()) return compiled;
    Py_RETURN_NONE;
}

/* ---- entries ---- */

PyDoc_STRVAR(add_doc, "add(args, kwargs, debug, compiled, executable, slots, plain, disjoint, cache=None) -> bool\n--\n\n"
                      "Remember the kernel for calls like this one; False where such a call has no key or no array.\n"
                      "slots: (source, kind, bits, itemsize, written) each; a variant: (address, arena bytes, cost, in order);\n"
                      "cache: the dict in which Triton keeps the kernel, if it is known.");

static PyObject *table_add(PyObject *self, PyObject *arguments) {
    Table *table = (Table *)self;
    PyObject *args, *kwargs, *compiled, *executable, *slots, *plain, *disjoint, *cache = NULL;
    int debug;
    Call call;
    Given given;
    if (!PyArg_ParseTuple(arguments, "O!O!pOOO!O!O!|O", &PyTuple_Type, &args, &PyDict_Type, &kwargs, &debug, &compiled,
                          &executable, &PyTuple_Type, &slots, &PyTuple_Type, &plain, &PyTuple_Type, &disjoint,
                          &cache))
        return NULL;
    if (cache && !PyDict_Check(cache)) cache = NULL;
    /* Without an array the active driver decides who runs the kernel, so such calls stay on the stock path. */
    if (!ok_given(args, kwargs, &given) || !ok_read_call(table, &given, debug, &call) || call.arrays == 0)
        Py_RETURN_FALSE;
    Entry *entry = ok_make_entry(call.keep, call.kept, compiled, executable, slots, plain, disjoint, cache);
    if (!entry) return NULL;
    if (!ok_entry_covers(entry, call.count)) {
        Py_DECREF(entry);
        Py_RETURN_FALSE;
    }
    if (PyDict_Size(table->entries) >= MAX_ENTRIES) clear_entries(table);
    Py_CLEAR(table->last);
    entry->key = PyBytes_FromStringAndSize((const char *)call.bytes, (Py_ssize_t)call.size);
    int failed = !entry->key || PyDict_SetItem(table->entries, entry->key, (PyObject *)entry) != 0;
    Py_DECREF(entry);
    if (failed) return NULL;
    Py_RETURN_TRUE;
}

static PyObject *table_key(PyObject *self, PyObject *arguments) {
    PyObject *args, *kwargs;
    Call call;
    Given given;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return NULL;
    if (!ok_given(args, kwargs, &given) || !ok_read_call((Table *)self, &given, 0, &call)) Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)call.bytes, (Py_ssize_t)call.size);
}

static PyObject *table_clear_entries(PyObject *self, PyObject *unused) {
    (void)unused;
    clear_entries((Table *)self);
    Py_RETURN_NONE;
}

/* A copied or pickled JITFunction starts without a table: a table becomes None. */
static PyObject *table_reduce(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return Py_BuildValue("(O())", (PyObject *)Py_TYPE(Py_None));
}

static Py_ssize_t table_length(PyObject *self) { return PyDict_Size(((Table *)self)->entries); }

static PyObject *table_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    PyObject *names, *constant, *defaults;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "O!O!O!", &PyTuple_Type, &names, &PyBytes_Type, &constant, &PyDict_Type, &defaults))
        return NULL;
    if (PyTuple_Size(names) != PyBytes_Size(constant)) {
        PyErr_SetString(PyExc_ValueError, "one flag a name");
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Table *table = (Table *)alloc(type, 0);
    if (!table) return NULL;
    Py_INCREF(names);
    table->names = names;
    Py_INCREF(constant);
    table->constant = constant;
    Py_INCREF(defaults);
    table->defaults = defaults;
    table->entries = PyDict_New();
    table->index = PyDict_New();
    int failed = !table->entries || !table->index;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_Size(names); i++) {
        PyObject *position = PyLong_FromSsize_t(i);
        failed = !position || PyDict_SetItem(table->index, PyTuple_GetItem(names, i), position) != 0;
        Py_XDECREF(position);
    }
    if (failed) Py_CLEAR(table);
    return (PyObject *)table;
}

/* ---- object plumbing: a table can be in a reference cycle with its JITFunction ---- */

static int table_traverse(PyObject *self, visitproc visit, void *arg) {
    Table *table = (Table *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(table->names);
    Py_VISIT(table->index);
    Py_VISIT(table->defaults);
    Py_VISIT(table->constant);
    Py_VISIT(table->entries);
    Py_VISIT(table->last);
    return 0;
}

static int table_drop(PyObject *self) {
    Table *table = (Table *)self;
    /* The rest cannot be in a cycle without `entries` or `defaults`, and must stay valid while it is reachable. */
    clear_entries(table);
    if (table->defaults) PyDict_Clear(table->defaults);
    return 0;
}

static void table_dealloc(PyObject *self) {
    Table *table = (Table *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(table->names);
    Py_CLEAR(table->index);
    Py_CLEAR(table->defaults);
    Py_CLEAR(table->constant);
    Py_CLEAR(table->entries);
    Py_CLEAR(table->last);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef table_methods[] = {
    {"add", table_add, METH_VARARGS, add_doc},
    {"key", table_key, METH_VARARGS, "key(args, kwargs) -> bytes | None: the key of such a call, for tests."},
    {"clear", table_clear_entries, METH_NOARGS, "clear(): forget every entry."},
    {"__reduce__", table_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot table_slots[] = {
    {Py_tp_new, table_new},         {Py_tp_dealloc, table_dealloc}, {Py_tp_traverse, table_traverse},
    {Py_tp_clear, table_drop},      {Py_tp_methods, table_methods}, {Py_mp_length, table_length},
    {Py_tp_doc, "Table(names, constexpr flags, defaults): the compiled kernels of one JITFunction, by call."},
    {0, NULL},
};
static PyType_Spec table_spec = {"omnikernel._native.Table", sizeof(Table), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                                 table_slots};

/* ---- module functions ---- */

PyMethodDef ok_dispatch_methods[] = {
    {"try_launch", (PyCFunction)(void (*)(void))try_launch, METH_FASTCALL, try_launch_doc},
    {"register_identity", ok_register_identity, METH_VARARGS,
     "register_identity(type, hashed): constexprs of the type are told apart by identity (and attribute `hash`)."},
    {"set_numpy_scalar", ok_set_numpy_scalar, METH_O, "set_numpy_scalar(type): instances stand for their item()."},
    {NULL, NULL, 0, NULL},
};

int ok_dispatch_init(PyObject *module) {
    if (!table_name && !(table_name = PyUnicode_InternFromString("_omnikernel_table"))) return -1;
    if (!table_type && !(table_type = (PyTypeObject *)PyType_FromSpec(&table_spec))) return -1;
    Py_INCREF((PyObject *)table_type);
    return PyModule_AddObject(module, "Table", (PyObject *)table_type);
}
