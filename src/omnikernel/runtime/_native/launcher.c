/* `kernel[grid]`, outside of operators and in them: what is called with the arguments of the launch.
 *
 * Also what an operator's function sees of an array, and which call of an operator runs in a thread, for launches in it.
 * Arrays are taken apart here, without a tuple or a dict of the arguments where the launch is a known one.
 */
#include "launch.h"

#include <structmember.h>

/* ---- arrays inside an operator's function ---- */

typedef struct {
    PyObject_HEAD
    PyObject *value;
    Py_ssize_t source;
} OperatorArray;

static PyTypeObject *array_type;
static struct {
    PyObject *checker, *seen, *launch, *launched, *run, *plain;
} name;

/* Subclasses may take more than their base's `__init__`. */
static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)args;
    (void)kwargs;
    OperatorArray *made = (OperatorArray *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (made) made->source = -1;
    return (PyObject *)made;
}

static int array_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *keywords[] = {"value", "source", NULL};
    OperatorArray *array = (OperatorArray *)self;
    PyObject *value, *before = array->value;
    Py_ssize_t source = -1, count = PyTuple_Size(args);
    if (kwargs || count < 1 || count > 2) { /* the rest is the same, and slower */
        if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|n", keywords, &value, &source)) return -1;
    } else {
        value = PyTuple_GetItem(args, 0);
        if (count == 2) source = PyLong_AsSsize_t(PyTuple_GetItem(args, 1));
        if (source == -1 && PyErr_Occurred()) return -1;
    }
    Py_INCREF(value);
    array->value = value;
    array->source = source;
    Py_XDECREF(before);
    return 0;
}

static int array_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((OperatorArray *)self)->value);
    return 0;
}

static int array_drop(PyObject *self) {
    Py_CLEAR(((OperatorArray *)self)->value);
    return 0;
}

static void array_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    array_drop(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMemberDef array_members[] = {
    {"value", T_OBJECT_EX, offsetof(OperatorArray, value), 0, "The library's own array."},
    {"source", T_PYSSIZET, offsetof(OperatorArray, source), 0, "The number of the parameter whose memory this is."},
    {NULL, 0, 0, 0, NULL},
};
static PyType_Slot array_slots[] = {
    {Py_tp_new, array_new},         {Py_tp_init, array_init},   {Py_tp_dealloc, array_dealloc},
    {Py_tp_traverse, array_traverse}, {Py_tp_clear, array_drop}, {Py_tp_members, array_members},
    {Py_tp_doc, "OperatorArray(value, source=-1)"}, {0, NULL},
};
static PyType_Spec array_spec = {"omnikernel._native.OperatorArray", sizeof(OperatorArray), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, array_slots};

/* ---- the operator call that runs in a thread ---- */

static _Thread_local PyObject *current; /* NULL: none */

static PyObject *state_get(PyObject *self, void *unused) {
    (void)self;
    (void)unused;
    PyObject *found = current ? current : Py_None;
    Py_INCREF(found);
    return found;
}

static int state_set(PyObject *self, PyObject *value, void *unused) {
    PyObject *before = current;
    (void)self;
    (void)unused;
    current = value == Py_None ? NULL : value;
    Py_XINCREF(current);
    Py_XDECREF(before);
    return 0;
}

static PyGetSetDef state_getset[] = {
    {"run", state_get, state_set, "The operator call that runs in this thread, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot state_slots[] = {{Py_tp_getset, state_getset}, {0, NULL}};
static PyType_Spec state_spec = {"omnikernel._native.State", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, state_slots};

/* ---- kernel[grid] ---- */

static PyObject *kernel_run;   /* JITFunction.run as our hook left it */
static PyObject *checked_launch; /* EagerRun.launch */

/* The launch of a JITFunction whose `run` nobody has replaced. */
static int runs_as_ours(PyObject *kernel) {
    PyObject *run = PyObject_GetAttr((PyObject *)Py_TYPE(kernel), name.run);
    int ours = run && run == kernel_run;
    Py_XDECREF(run);
    PyObject *own = ours ? PyObject_GenericGetDict(kernel, NULL) : NULL;
    ours = own && !PyDict_GetItemWithError(own, name.run);
    Py_XDECREF(own);
    PyErr_Clear();
    return ours;
}

/* An operator's launch of a kernel that was held against the operator's declaration before. */
static int is_checked(PyObject *kernel, PyObject *run) {
    PyObject *launch = PyObject_GetAttr((PyObject *)Py_TYPE(run), name.launch);
    int plain = launch && launch == checked_launch;
    Py_XDECREF(launch);
    PyObject *checker = plain ? PyObject_GetAttr(run, name.checker) : NULL;
    PyObject *seen = checker ? PyObject_GetAttr(checker, name.seen) : NULL;
    PyObject *number = seen ? PyLong_FromVoidPtr(kernel) : NULL;
    PyObject *found = number ? PyDict_GetItemWithError(seen, number) : NULL;
    PyObject *answer = found ? PyObject_GetAttr(found, name.plain) : NULL;
    int checked = answer == Py_True;
    Py_XDECREF(answer);
    Py_XDECREF(number);
    Py_XDECREF(seen);
    Py_XDECREF(checker);
    PyErr_Clear();
    return checked;
}

static PyObject *launch_outside(PyObject *kernel, PyObject *grid, const Given *given) {
    return runs_as_ours(kernel) ? ok_try_launch(kernel, grid, given, NULL) : NULL;
}

static PyObject *launch_inside(PyObject *kernel, PyObject *grid, Given *given, PyObject *run) {
    Py_ssize_t sources[MAX_ARGS];
    if (!is_checked(kernel, run)) return NULL;
    for (int i = 0; i < given->count; i++) {
        sources[i] = -1;
        if (!PyType_IsSubtype(Py_TYPE(given->value[i]), array_type)) continue;
        OperatorArray *array = (OperatorArray *)given->value[i];
        if (!array->value) return NULL;
        given->value[i] = array->value;
        sources[i] = array->source;
    }
    PyObject *compiled = ok_try_launch(kernel, grid, given, sources);
    if (compiled && PyObject_SetAttr(run, name.launched, Py_True) != 0) Py_CLEAR(compiled);
    return compiled;
}

static PyObject *packed_arguments(PyObject *const *args, Py_ssize_t count) {
    PyObject *packed = PyTuple_New(count);
    for (Py_ssize_t i = 0; packed && i < count; i++) {
        Py_INCREF(args[i]);
        PyTuple_SetItem(packed, i, args[i]);
    }
    return packed;
}

static PyObject *packed_keywords(PyObject *const *values, PyObject *names) {
    PyObject *packed = PyDict_New();
    for (Py_ssize_t i = 0; packed && names && i < PyTuple_Size(names); i++)
        if (PyDict_SetItem(packed, PyTuple_GetItem(names, i), values[i]) != 0) Py_CLEAR(packed);
    return packed;
}

/* run.launch(kernel, grid, args, kwargs) in an operator, stock(kernel, grid)(*args, **kwargs) outside. */
static PyObject *launch_anew(PyObject *self, PyObject *args, PyObject *kwargs) {
    PyObject *kernel = PyTuple_GetItem(self, 0), *grid = PyTuple_GetItem(self, 1), *run = PyTuple_GetItem(self, 3);
    if (run != Py_None) return PyObject_CallMethodObjArgs(run, name.launch, kernel, grid, args, kwargs, NULL);
    PyObject *stock = PyObject_CallFunctionObjArgs(PyTuple_GetItem(self, 2), kernel, grid, NULL);
    PyObject *made = stock ? PyObject_Call(stock, args, kwargs) : NULL;
    Py_XDECREF(stock);
    return made;
}

static PyObject *launch(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *kernel = PyTuple_GetItem(self, 0), *grid = PyTuple_GetItem(self, 1), *run = PyTuple_GetItem(self, 3);
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    if (count + named <= MAX_ARGS) {
        Given given;
        given.positional = (int)count;
        given.count = (int)(count + named);
        for (int i = 0; i < given.count; i++) given.value[i] = args[i];
        for (int i = 0; i < named; i++) given.name[count + i] = PyTuple_GetItem(names, i);
        PyObject *compiled = run == Py_None ? launch_outside(kernel, grid, &given)
                                            : launch_inside(kernel, grid, &given, run);
        if (compiled || PyErr_Occurred()) return compiled;
    }
    PyObject *packed = packed_arguments(args, count), *keywords = packed ? packed_keywords(args + count, names) : NULL;
    PyObject *made = keywords ? launch_anew(self, packed, keywords) : NULL;
    Py_XDECREF(packed);
    Py_XDECREF(keywords);
    return made;
}

static PyMethodDef launch_method = {"launch", (PyCFunction)(void (*)(void))launch, METH_FASTCALL | METH_KEYWORDS,
                                    "Launch the kernel over the grid."};

PyDoc_STRVAR(launcher_doc,
             "launcher(kernel, grid, stock, run) -> callable\n--\n\n"
             "What `kernel[grid]` is; stock(kernel, grid) where an operator runs that `run` does not name. A launch that is not known goes to run.launch(kernel, grid, args, kwargs), where `run` is\n"
             "a call of an operator, or where it is None to stock(kernel, grid)(*args, **kwargs).");

static PyObject *launcher(PyObject *self, PyObject *const *items, Py_ssize_t count) {
    (void)self;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "launcher(kernel, grid, stock, run)");
        return NULL;
    }
    if (items[3] == Py_None && current) return PyObject_CallFunctionObjArgs(items[2], items[0], items[1], NULL);
    PyObject *bound = packed_arguments(items, count);
    PyObject *made = bound ? PyCFunction_NewEx(&launch_method, bound, NULL) : NULL;
    Py_XDECREF(bound);
    return made;
}

/* The function replaces one that was set before. */
static PyObject *replace(PyObject **place, PyObject *function) {
    PyObject *before = *place;
    Py_INCREF(function);
    *place = function;
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *set_kernel_run(PyObject *self, PyObject *function) {
    (void)self;
    return replace(&kernel_run, function);
}

static PyObject *set_checked_launch(PyObject *self, PyObject *function) {
    (void)self;
    return replace(&checked_launch, function);
}

PyMethodDef ok_launcher_methods[] = {
    {"launcher", (PyCFunction)(void (*)(void))launcher, METH_FASTCALL, launcher_doc},
    {"set_kernel_run", set_kernel_run, METH_O, "set_kernel_run(function): JITFunction.run, whose place launches take."},
    {"set_checked_launch", set_checked_launch, METH_O,
     "set_checked_launch(function): EagerRun.launch, whose place launches of checked kernels take."},
    {NULL, NULL, 0, NULL},
};

int ok_launcher_init(PyObject *module) {
    struct {
        PyObject **where;
        const char *text;
    } names[] = {
        {&name.checker, "checker"}, {&name.seen, "seen"},         {&name.plain, "plain"},
        {&name.launch, "launch"},   {&name.launched, "launched"}, {&name.run, "run"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!*names[i].where && !(*names[i].where = PyUnicode_InternFromString(names[i].text))) return -1;
    if (!array_type && !(array_type = (PyTypeObject *)PyType_FromSpec(&array_spec))) return -1;
    PyObject *state_type = PyType_FromSpec(&state_spec);
    if (!state_type || PyModule_AddObject(module, "State", state_type) != 0) return -1;
    Py_INCREF((PyObject *)array_type);
    return PyModule_AddObject(module, "OperatorArray", (PyObject *)array_type);
}
