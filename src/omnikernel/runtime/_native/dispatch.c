/* The fast launch path: from the arguments of `kernel[grid](...)` to a compiled kernel, without Triton's Python.
 *
 * A `Table` belongs to one JITFunction and maps the key of a call (call.c) to a compiled kernel and a plan of its slots.
 * A call takes the stock path where it has no key, where no entry fits, and where the context is not plain: hooks,
 * debug, changed globals, checked mode.
 */
#include "call.h"

#include <stdlib.h>
#include <string.h>

#define MAX_ENTRIES 1024

enum { SLOT_POINTER, SLOT_INTEGER, SLOT_F32, SLOT_F64 };

typedef struct {
    int source; /* index among positional, then keyword arguments */
    int kind;
    int bits;     /* SLOT_INTEGER: width of the parameter */
    int itemsize; /* SLOT_POINTER */
    int written;
} Slot;

typedef struct {
    ok_kernel kernel; /* NULL: not compiled yet */
    size_t arena_bytes;
    double cost;
} Variant;

typedef struct {
    PyObject_HEAD
    PyObject *compiled;   /* what JITFunction.run returns */
    PyObject *executable; /* keeps the code alive; raises on a failed assert */
    PyObject *keep;       /* objects whose address is in the key */
    PyObject *cache;      /* the dict in which Triton keeps the kernel; NULL: unknown */
    int slots;
    Slot slot[MAX_ARGS];
    Variant variant[2]; /* [1]: no written array overlaps another one */
} Entry;

static PyTypeObject *table_type, *entry_type;
static PyObject *knobs_module; /* triton.knobs */
static int suspended;
static struct {
    PyObject *table, *globals, *pre_run, *enter, *leave, *calls, *debug, *inspection, *runtime, *value, *caches;
} name;

/* ---- lookup ---- */

static Entry *find(const Table *table, const Call *call) {
    PyObject *key = PyBytes_FromStringAndSize((const char *)call->bytes, (Py_ssize_t)call->size);
    PyObject *entry = key ? PyDict_GetItemWithError(table->entries, key) : NULL;
    Py_XDECREF(key);
    if (!entry) PyErr_Clear();
    return (Entry *)entry;
}

/* ---- the context of a launch ---- */

static int no_calls(PyObject *runtime, PyObject *hook_name) {
    PyObject *hook = PyObject_GetAttr(runtime, hook_name);
    if (!hook) return 0;
    if (hook == Py_None) {
        Py_DECREF(hook);
        return 1;
    }
    PyObject *calls = PyObject_GetAttr(hook, name.calls);
    Py_DECREF(hook);
    int empty = calls && PyList_Check(calls) && PyList_Size(calls) == 0;
    Py_XDECREF(calls);
    return empty;
}

static int is_set(const char *variable) {
    const char *value = getenv(variable);
    return value && *value && strcmp(value, "0") != 0;
}

/* No hook, no stage inspection; `debug` gets knobs.runtime.debug. */
static int plain_knobs(int *debug) {
    PyObject *runtime = PyObject_GetAttr(knobs_module, name.runtime);
    if (!runtime) return 0;
    PyObject *inspection = PyObject_GetAttr(runtime, name.inspection);
    PyObject *flag = PyObject_GetAttr(runtime, name.debug);
    *debug = flag ? PyObject_IsTrue(flag) : -1;
    int plain = inspection == Py_None && *debug >= 0 && no_calls(runtime, name.enter) && no_calls(runtime, name.leave);
    Py_XDECREF(inspection);
    Py_XDECREF(flag);
    Py_DECREF(runtime);
    return plain;
}

/* 1: plain; 0: the stock path must look. */
static int plain_context(PyObject *function, int *debug) {
    if (is_set("OMNIKERNEL_REFERENCE") || is_set("OMNIKERNEL_CHECK") || !plain_knobs(debug)) return 0;
    PyObject *hooks = PyObject_GetAttr(function, name.pre_run);
    int empty = hooks && PyList_Check(hooks) && PyList_Size(hooks) == 0;
    Py_XDECREF(hooks);
    return empty;
}

/* 1 where two objects of one type hold the identical `value`: Triton keeps a copy of each tl.constexpr. */
static int same_constant(PyObject *now, PyObject *then) {
    if (now == then) return 1;
    if (!now || Py_TYPE(now) != Py_TYPE(then)) return 0;
    PyObject *one = PyObject_GetAttr(now, name.value), *other = one ? PyObject_GetAttr(then, name.value) : NULL;
    int same = one && one == other;
    if (!other) PyErr_Clear();
    Py_XDECREF(one);
    Py_XDECREF(other);
    return same;
}

/* 1 where every global that the kernel uses is still the object it was at compilation. */
static int same_globals(PyObject *function) {
    PyObject *used = PyObject_GetAttr(function, name.globals);
    int same = used && PyDict_Check(used);
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (same && PyDict_Next(used, &at, &key, &value)) {
        same = PyTuple_Check(key) && PyTuple_Size(key) == 2 && PyTuple_Check(value) && PyTuple_Size(value) == 2;
        if (!same) break;
        PyObject *globals = PyTuple_GetItem(value, 1);
        same = PyDict_Check(globals) && same_constant(PyDict_GetItemWithError(globals, PyTuple_GetItem(key, 0)),
                                                      PyTuple_GetItem(value, 0));
    }
    Py_XDECREF(used);
    return same;
}

/* 0 where someone has emptied Triton's caches of the function: the kernel is to be compiled anew. */
static int still_cached(PyObject *function, const Entry *entry) {
    if (!entry->cache) return 1;
    if (PyDict_Size(entry->cache) < 1) return 0;
    PyObject *caches = PyObject_GetAttr(function, name.caches), *device, *kept;
    Py_ssize_t at = 0;
    int cached = 0;
    while (!cached && caches && PyDict_Check(caches) && PyDict_Next(caches, &at, &device, &kept))
        cached = PyTuple_Check(kept) && PyTuple_Size(kept) > 0 && PyTuple_GetItem(kept, 0) == entry->cache;
    Py_XDECREF(caches);
    return cached;
}

/* The dict of bound arguments that a grid function gets; NULL with or without an exception. */
static PyObject *bind(const Table *table, PyObject *args, PyObject *kwargs) {
    PyObject *bound = PyDict_New();
    Py_ssize_t positional = PyTuple_Size(args), parameters = PyTuple_Size(table->names);
    for (Py_ssize_t i = 0; bound && i < parameters; i++) {
        PyObject *key = PyTuple_GetItem(table->names, i);
        PyObject *value = i < positional ? PyTuple_GetItem(args, i) : NULL;
        if (!value && kwargs) value = PyDict_GetItemWithError(kwargs, key);
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

/* 1: read; 0: leave it to the stock path; -1: the grid function raised. */
static int read_grid(const Table *table, PyObject *grid, PyObject *args, PyObject *kwargs, int32_t out[3]) {
    int status = 0;
    Py_INCREF(grid);
    if (PyCallable_Check(grid)) {
        PyObject *bound = bind(table, args, kwargs);
        if (!bound) {
            PyErr_Clear();
            Py_DECREF(grid);
            return 0;
        }
        PyObject *made = PyObject_CallFunctionObjArgs(grid, bound, NULL);
        Py_DECREF(bound);
        Py_DECREF(grid);
        if (!made) return -1;
        grid = made;
    }
    out[0] = out[1] = out[2] = 1;
    if (PyLong_CheckExact(grid)) {
        status = read_extent(grid, &out[0]);
    } else if (PyTuple_Check(grid) || PyList_Check(grid)) {
        int is_tuple = PyTuple_Check(grid);
        Py_ssize_t size = is_tuple ? PyTuple_Size(grid) : PyList_Size(grid);
        status = size >= 1 && size <= 3;
        for (Py_ssize_t d = 0; status && d < size; d++)
            status = read_extent(is_tuple ? PyTuple_GetItem(grid, d) : PyList_GetItem(grid, d), &out[d]);
    }
    Py_DECREF(grid);
    return status;
}

/* ---- the launch ---- */

static int fits(const Argument *argument, int bits) {
    if (argument->is_unsigned) return bits == 64;
    if (bits == 64) return 1;
    if (bits == 1) return argument->integer == 0 || argument->integer == 1;
    return argument->integer >= -((int64_t)1 << (bits - 1)) && argument->integer < (int64_t)1 << bits;
}

/* Fills the argument slots; 0 where the stock path must look (and report). */
static int fill_slots(const Entry *entry, Call *call, uint64_t *slots) {
    for (int i = 0; i < entry->slots; i++) {
        const Slot *slot = &entry->slot[i];
        Argument *argument = &call->arguments[slot->source];
        float single;
        slots[i] = 0;
        switch (slot->kind) {
        case SLOT_POINTER:
            if (argument->kind != 'N' && argument->kind != 'T') return 0;
            if (slot->written && !argument->array.writeable) return 0;
            if (argument->array.address % (uint64_t)slot->itemsize) return 0;
            if (argument->kind == 'N') ok_array_extent(&argument->array, slot->itemsize);
            slots[i] = argument->array.address;
            break;
        case SLOT_INTEGER:
            if (argument->kind != 'i' || !fits(argument, slot->bits)) return 0;
            slots[i] = (uint64_t)argument->integer;
            break;
        default:
            if (argument->kind != 'f') return 0;
            single = (float)argument->real;
            if (slot->kind == SLOT_F32) memcpy(&slots[i], &single, sizeof single);
            else memcpy(&slots[i], &argument->real, sizeof(double));
        }
    }
    return 1;
}

static int is_disjoint(const Entry *entry, const Call *call) {
    for (int i = 0; i < entry->slots; i++) {
        if (!entry->slot[i].written) continue;
        const ok_array *written = &call->arguments[entry->slot[i].source].array;
        for (int j = 0; j < entry->slots; j++) {
            if (j == i || entry->slot[j].kind != SLOT_POINTER) continue;
            const ok_array *other = &call->arguments[entry->slot[j].source].array;
            if (written->low < other->high && other->low < written->high) return 0;
        }
    }
    return 1;
}

static int run_entry(const Entry *entry, const Variant *variant, const uint64_t *slots, const int32_t grid[3]) {
    ok_launch launch = {variant->kernel, slots, {grid[0], grid[1], grid[2]}, 0, variant->arena_bytes, variant->cost};
    int32_t fault[3] = {0, 0, 0}, status = 0;
    launch.programs = (int64_t)grid[0] * grid[1];
    if (grid[2] != 0 && launch.programs > INT64_MAX / grid[2]) {
        PyErr_SetString(PyExc_OverflowError, "the grid has more than 2^63 programs");
        return -1;
    }
    launch.programs *= grid[2];
    if (launch.programs == 0) return 0;
    Py_BEGIN_ALLOW_THREADS
    status = ok_pool_run(&launch, fault);
    Py_END_ALLOW_THREADS
    if (status == 0) return 0;
    if (status == OK_NO_MEMORY) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject *none = PyObject_CallMethod(entry->executable, "fail", "(i(iii))", (int)status, (int)fault[0], (int)fault[1],
                                         (int)fault[2]);
    if (none) PyErr_SetString(PyExc_SystemError, "Executable.fail returned");
    Py_XDECREF(none);
    return -1;
}

static Table *table_of(PyObject *function) {
    PyObject *table = PyObject_GetAttr(function, name.table);
    if (!table) PyErr_Clear();
    if (table && Py_TYPE(table) != table_type) Py_CLEAR(table);
    return (Table *)table;
}

static PyObject *launch_with(Table *table, PyObject *function, PyObject *grid, PyObject *args, PyObject *kwargs) {
    Call call;
    uint64_t slots[MAX_ARGS];
    int32_t extents[3];
    int debug;
    Entry *entry = NULL;
    if (plain_context(function, &debug) && ok_read_call(table, args, kwargs, debug, &call)) entry = find(table, &call);
    if (!entry || !same_globals(function) || !still_cached(function, entry) || !fill_slots(entry, &call, slots)) {
        PyErr_Clear();
        return NULL;
    }
    const Variant *variant = &entry->variant[is_disjoint(entry, &call)];
    if (!variant->kernel) return NULL;
    Py_INCREF((PyObject *)entry); /* a grid function or another thread may clear the table */
    int status = read_grid(table, grid, args, kwargs, extents);
    PyObject *compiled = NULL;
    if (status > 0 && run_entry(entry, variant, slots, extents) == 0) {
        compiled = entry->compiled;
        Py_INCREF(compiled);
    }
    Py_DECREF(entry);
    return compiled;
}

PyDoc_STRVAR(try_launch_doc, "try_launch(function, grid, args, kwargs) -> the compiled kernel | None\n--\n\n"
                             "Launch if an entry fits; None: nothing was done, take the stock path.");

static PyObject *try_launch(PyObject *self, PyObject *const *items, Py_ssize_t count) {
    (void)self;
    if (count != 4 || !PyTuple_Check(items[2]) || !(items[3] == Py_None || PyDict_Check(items[3]))) {
        PyErr_SetString(PyExc_TypeError, "try_launch(function, grid, args: tuple, kwargs: dict | None)");
        return NULL;
    }
    if (suspended || !knobs_module) Py_RETURN_NONE;
    Table *table = table_of(items[0]);
    if (!table) Py_RETURN_NONE;
    PyObject *compiled = launch_with(table, items[0], items[1], items[2], items[3] == Py_None ? NULL : items[3]);
    Py_DECREF(table);
    if (compiled) return compiled;
    /* Only a grid function and a failed launch leave an exception that is the caller's; see launch_with. */
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* ---- entries ---- */

static int read_slots(PyObject *sequence, Entry *entry) {
    Py_ssize_t count = PyTuple_Size(sequence);
    if (count < 0 || count > MAX_ARGS) return 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        Slot *slot = &entry->slot[i];
        if (!PyArg_ParseTuple(PyTuple_GetItem(sequence, i), "iiiip", &slot->source, &slot->kind, &slot->bits,
                              &slot->itemsize, &slot->written))
            return 0;
        if (slot->source < 0 || slot->source >= MAX_ARGS || (slot->kind == SLOT_POINTER && slot->itemsize < 1)) {
            PyErr_SetString(PyExc_ValueError, "a slot out of range");
            return 0;
        }
    }
    entry->slots = (int)count;
    return 1;
}

static int read_variant(PyObject *item, Variant *variant) {
    unsigned long long address;
    Py_ssize_t arena;
    if (!PyArg_ParseTuple(item, "Knd", &address, &arena, &variant->cost)) return 0;
    variant->kernel = (ok_kernel)(uintptr_t)address;
    variant->arena_bytes = (size_t)arena;
    return 1;
}

static Entry *make_entry(const Call *call, PyObject *compiled, PyObject *executable, PyObject *slots, PyObject *plain,
                         PyObject *disjoint, PyObject *cache) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(entry_type, Py_tp_alloc);
    Entry *entry = (Entry *)alloc(entry_type, 0);
    if (!entry) return NULL;
    if (!read_slots(slots, entry) || !read_variant(plain, &entry->variant[0]) ||
        !read_variant(disjoint, &entry->variant[1]) || !(entry->keep = PyTuple_New(call->kept))) {
        Py_DECREF(entry);
        return NULL;
    }
    for (int i = 0; i < call->kept; i++) {
        Py_INCREF(call->keep[i]);
        PyTuple_SetItem(entry->keep, i, call->keep[i]);
    }
    Py_INCREF(compiled);
    entry->compiled = compiled;
    Py_INCREF(executable);
    entry->executable = executable;
    Py_XINCREF(cache);
    entry->cache = cache;
    return entry;
}

PyDoc_STRVAR(add_doc, "add(args, kwargs, debug, compiled, executable, slots, plain, disjoint, cache=None) -> bool\n--\n\n"
                      "Remember the kernel for calls like this one; False where such a call has no key or no array.\n"
                      "slots: (source, kind, bits, itemsize, written) each; a variant: (address, arena bytes, cost); cache:\n"
                      "the dict in which Triton keeps the kernel, if it is known.");

static PyObject *table_add(PyObject *self, PyObject *arguments) {
    Table *table = (Table *)self;
    PyObject *args, *kwargs, *compiled, *executable, *slots, *plain, *disjoint, *cache = NULL;
    int debug;
    Call call;
    if (!PyArg_ParseTuple(arguments, "O!O!pOOO!O!O!|O", &PyTuple_Type, &args, &PyDict_Type, &kwargs, &debug, &compiled,
                          &executable, &PyTuple_Type, &slots, &PyTuple_Type, &plain, &PyTuple_Type, &disjoint,
                          &cache))
        return NULL;
    if (cache && !PyDict_Check(cache)) cache = NULL;
    /* Without an array the active driver decides who runs the kernel, so such calls stay on the stock path. */
    if (!ok_read_call(table, args, kwargs, debug, &call) || call.arrays == 0) Py_RETURN_FALSE;
    Entry *entry = make_entry(&call, compiled, executable, slots, plain, disjoint, cache);
    if (!entry) return NULL;
    for (int i = 0; i < entry->slots; i++)
        if (entry->slot[i].source >= call.count) {
            Py_DECREF(entry);
            Py_RETURN_FALSE;
        }
    if (PyDict_Size(table->entries) >= MAX_ENTRIES) PyDict_Clear(table->entries);
    PyObject *key = PyBytes_FromStringAndSize((const char *)call.bytes, (Py_ssize_t)call.size);
    int failed = !key || PyDict_SetItem(table->entries, key, (PyObject *)entry) != 0;
    Py_XDECREF(key);
    Py_DECREF(entry);
    if (failed) return NULL;
    Py_RETURN_TRUE;
}

static PyObject *table_key(PyObject *self, PyObject *arguments) {
    PyObject *args, *kwargs;
    Call call;
    if (!PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return NULL;
    if (!ok_read_call((Table *)self, args, kwargs, 0, &call)) Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)call.bytes, (Py_ssize_t)call.size);
}

static PyObject *table_clear_entries(PyObject *self, PyObject *unused) {
    (void)unused;
    PyDict_Clear(((Table *)self)->entries);
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

/* ---- object plumbing: both types can be in reference cycles with their JITFunction ---- */

static int table_traverse(PyObject *self, visitproc visit, void *arg) {
    Table *table = (Table *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(table->names);
    Py_VISIT(table->index);
    Py_VISIT(table->defaults);
    Py_VISIT(table->constant);
    Py_VISIT(table->entries);
    return 0;
}

static int table_drop(PyObject *self) {
    Table *table = (Table *)self;
    /* The rest cannot be in a cycle without `entries` or `defaults`, and must stay valid while it is reachable. */
    if (table->entries) PyDict_Clear(table->entries);
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
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static int entry_traverse(PyObject *self, visitproc visit, void *arg) {
    Entry *entry = (Entry *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(entry->compiled);
    Py_VISIT(entry->executable);
    Py_VISIT(entry->keep);
    Py_VISIT(entry->cache);
    return 0;
}

static int entry_drop(PyObject *self) {
    Entry *entry = (Entry *)self;
    Py_CLEAR(entry->compiled);
    Py_CLEAR(entry->executable);
    Py_CLEAR(entry->keep);
    Py_CLEAR(entry->cache);
    return 0;
}

static void entry_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    entry_drop(self);
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

static PyType_Slot entry_slots[] = {
    {Py_tp_dealloc, entry_dealloc},
    {Py_tp_traverse, entry_traverse},
    {Py_tp_clear, entry_drop},
    {0, NULL},
};
static PyType_Spec entry_spec = {"omnikernel._native.Entry", sizeof(Entry), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 entry_slots};

/* ---- module functions ---- */

static PyObject *set_knobs(PyObject *self, PyObject *knobs) {
    (void)self;
    Py_INCREF(knobs);
    Py_XDECREF(knobs_module);
    knobs_module = knobs;
    Py_RETURN_NONE;
}

static PyObject *suspend(PyObject *self, PyObject *change) {
    (void)self;
    long step = PyLong_AsLong(change);
    if (step == -1 && PyErr_Occurred()) return NULL;
    suspended += (int)step;
    return PyLong_FromLong(suspended);
}

PyMethodDef ok_dispatch_methods[] = {
    {"try_launch", (PyCFunction)(void (*)(void))try_launch, METH_FASTCALL, try_launch_doc},
    {"set_knobs", set_knobs, METH_O, "set_knobs(triton.knobs): whose hooks and flags every launch looks at."},
    {"register_identity", ok_register_identity, METH_VARARGS,
     "register_identity(type, hashed): constexprs of the type are told apart by identity (and attribute `hash`)."},
    {"set_numpy_scalar", ok_set_numpy_scalar, METH_O, "set_numpy_scalar(type): instances stand for their item()."},
    {"suspend", suspend, METH_O, "suspend(+1 | -1) -> depth: while positive every launch takes the stock path."},
    {NULL, NULL, 0, NULL},
};

int ok_dispatch_init(PyObject *module) {
    if (!table_type) {
        struct {
            PyObject **where;
            const char *text;
        } names[] = {
            {&name.table, "_omnikernel_table"}, {&name.globals, "used_global_vals"},
            {&name.pre_run, "pre_run_hooks"},   {&name.enter, "launch_enter_hook"},
            {&name.leave, "launch_exit_hook"},  {&name.calls, "calls"},
            {&name.debug, "debug"},             {&name.inspection, "add_stages_inspection_hook"},
            {&name.runtime, "runtime"},         {&name.value, "value"},
            {&name.caches, "device_caches"},
        };
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (!(*names[i].where = PyUnicode_InternFromString(names[i].text))) return -1;
        if (!(table_type = (PyTypeObject *)PyType_FromSpec(&table_spec))) return -1;
        if (!(entry_type = (PyTypeObject *)PyType_FromSpec(&entry_spec))) return -1;
    }
    Py_INCREF((PyObject *)table_type);
    return PyModule_AddObject(module, "Table", (PyObject *)table_type);
}
