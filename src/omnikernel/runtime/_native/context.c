/* The context of a launch: what outside its arguments decides whether a known kernel is still the one to run. */
#include "launch.h"

#include <stdlib.h>
#include <string.h>

static PyObject *knobs_module; /* triton.knobs */
static int suspended;
static struct {
    PyObject *globals, *pre_run, *enter, *leave, *calls, *debug, *inspection, *runtime, *value, *caches;
} name;

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

int ok_plain_context(PyObject *function, int *debug) {
    if (suspended || !knobs_module) return 0;
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

int ok_still_valid(PyObject *function, const Entry *entry) {
    return same_globals(function) && still_cached(function, entry);
}

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

PyMethodDef ok_context_methods[] = {
    {"set_knobs", set_knobs, METH_O, "set_knobs(triton.knobs): whose hooks and flags every launch looks at."},
    {"suspend", suspend, METH_O, "suspend(+1 | -1) -> depth: while positive every launch takes the stock path."},
    {NULL, NULL, 0, NULL},
};

int ok_context_init(void) {
    struct {
        PyObject **where;
        const char *text;
    } names[] = {
        {&name.globals, "used_global_vals"}, {&name.pre_run, "pre_run_hooks"},
        {&name.enter, "launch_enter_hook"},  {&name.leave, "launch_exit_hook"},
        {&name.calls, "calls"},              {&name.debug, "debug"},
        {&name.inspection, "add_stages_inspection_hook"},
        {&name.runtime, "runtime"},          {&name.value, "value"},
        {&name.caches, "device_caches"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!*names[i].where && !(*names[i].where = PyUnicode_InternFromString(names[i].text))) return -1;
    return 0;
}
