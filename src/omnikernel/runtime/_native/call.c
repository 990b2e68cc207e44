/* The key of a call: bytes that hold everything Triton's specialisation depends on.
 *
 * Sometimes it holds more, which only costs a second entry. In it are dtypes and 16-byte alignment of arrays, classes of
 * integers (equal to 1, divisible by 16, width), values of constexprs and options. A call with an argument of any other
 * kind has no key.
 */
#include "call.h"

#include <string.h>

#define MAX_IDENTITY 8

static struct {
    PyTypeObject *type;
    int hashed; /* its attribute `hash` is part of its identity (JITFunction) */
} identity[MAX_IDENTITY];
static int identities;
static PyObject *hash_name, *item_name;
static PyTypeObject *numpy_scalar;

static int put(Call *call, const void *data, size_t size) {
    if (call->size + size > MAX_KEY) return 0;
    memcpy(call->bytes + call->size, data, size);
    call->size += size;
    return 1;
}

static int put_tag(Call *call, char tag) { return put(call, &tag, 1); }

static int put_text(Call *call, PyObject *text) {
    Py_ssize_t size;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &size);
    if (!utf8) {
        PyErr_Clear();
        return 0;
    }
    uint32_t length = (uint32_t)size;
    return put(call, &length, sizeof length) && put(call, utf8, (size_t)size);
}

static int put_kept(Call *call, PyObject *object) {
    if (call->kept == MAX_ARGS) return 0;
    call->keep[call->kept++] = object;
    return put(call, &object, sizeof object);
}

static int put_integer(Call *call, PyObject *object, Argument *argument, int constant) {
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    argument->is_unsigned = 0;
    if (overflow) {
        unsigned long long bits = overflow > 0 ? PyLong_AsUnsignedLongLong(object) : 0;
        if (overflow < 0 || PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
        argument->is_unsigned = 1;
        value = (long long)bits;
    }
    argument->kind = 'i';
    argument->integer = value;
    if (constant) return put_tag(call, argument->is_unsigned ? 'C' : 'c') && put(call, &value, sizeof value);
    char width = argument->is_unsigned ? 'u' : value >= INT32_MIN && value <= INT32_MAX ? 'i' : 'l';
    char class = (char)((value == 1 && width == 'i') | (value % 16 == 0) << 1);
    if (argument->is_unsigned) class = (char)(((unsigned long long)value % 16 == 0) << 1);
    return put_tag(call, width) && put_tag(call, class);
}

static int put_array(Call *call, PyObject *object, Argument *argument) {
    if (!ok_read_array(object, &argument->array, &argument->kind)) return 0;
    call->arrays++;
    char aligned = argument->array.address % 16 == 0;
    if (!put_tag(call, argument->kind) || !put_tag(call, aligned)) return 0;
    if (argument->kind == 'N') return put_kept(call, argument->array.dtype);
    return put(call, &argument->array.dlpack_dtype, sizeof argument->array.dlpack_dtype);
}

/* Objects that stand for themselves: tl.float32, a helper kernel passed as a constexpr. */
static int put_identity(Call *call, PyObject *object) {
    for (int i = 0; i < identities; i++) {
        if (identity[i].type != Py_TYPE(object)) continue;
        if (!put_tag(call, 'p') || !put_kept(call, object)) return 0;
        if (!identity[i].hashed) return 1;
        PyObject *hash = PyObject_GetAttr(object, hash_name);
        if (!hash) {
            PyErr_Clear();
            return 0;
        }
        int done = PyUnicode_Check(hash) && put_text(call, hash);
        Py_DECREF(hash);
        return done;
    }
    return 0;
}

/* A Python number, bool or None; -1 for anything else. */
static int put_scalar(Call *call, PyObject *object, Argument *argument, int constant) {
    if (object == Py_None) return put_tag(call, 'n');
    if (PyBool_Check(object)) {
        argument->kind = 'i';
        argument->is_unsigned = 0;
        argument->integer = object == Py_True;
        return put_tag(call, !constant ? 'B' : object == Py_True ? 't' : 'F');
    }
    if (PyLong_CheckExact(object)) return put_integer(call, object, argument, constant);
    if (PyFloat_CheckExact(object)) {
        argument->kind = 'f';
        argument->real = PyFloat_AsDouble(object);
        return constant ? put_tag(call, 'd') && put(call, &argument->real, sizeof(double)) : put_tag(call, 'r');
    }
    return -1;
}

/* A NumPy scalar means the Python number that it holds, as on the stock path. */
static int put_numpy_scalar(Call *call, PyObject *object, Argument *argument, int constant) {
    PyObject *item = PyObject_CallMethodObjArgs(object, item_name, NULL);
    if (!item) PyErr_Clear();
    int done = item && item != Py_None && put_scalar(call, item, argument, constant) == 1;
    Py_XDECREF(item);
    return done;
}

static int put_argument(Call *call, PyObject *object, int constant) {
    if (call->count == MAX_ARGS) return 0;
    Argument *argument = &call->arguments[call->count++];
    argument->kind = 0;
    int scalar = put_scalar(call, object, argument, constant);
    if (scalar >= 0) return scalar;
    if (numpy_scalar && PyType_IsSubtype(Py_TYPE(object), numpy_scalar))
        return put_numpy_scalar(call, object, argument, constant);
    if (!constant) return put_array(call, object, argument);
    if (PyUnicode_CheckExact(object)) return put_tag(call, 's') && put_text(call, object);
    return put_identity(call, object);
}

static int begin(Call *call, int debug) {
    call->size = 0;
    call->count = call->kept = call->arrays = 0;
    return put_tag(call, (char)debug);
}

int ok_read_arguments(PyObject *args, int debug, Call *call) {
    Py_ssize_t count = PyTuple_Size(args);
    int done = begin(call, debug);
    for (Py_ssize_t i = 0; done && i < count; i++) done = put_argument(call, PyTuple_GetItem(args, i), 0);
    return done;
}

int ok_given(PyObject *args, PyObject *kwargs, Given *given) {
    PyObject *key, *value;
    Py_ssize_t at = 0, positional = PyTuple_Size(args);
    if (positional + (kwargs ? PyDict_Size(kwargs) : 0) > MAX_ARGS) return 0;
    given->positional = given->count = (int)positional;
    for (int i = 0; i < given->positional; i++) given->value[i] = PyTuple_GetItem(args, i);
    while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
        given->name[given->count] = key;
        given->value[given->count++] = value;
    }
    return 1;
}

static int put_keyword(const Table *table, PyObject *key, PyObject *value, Call *call) {
    PyObject *position = PyDict_GetItemWithError(table->index, key);
    if (position) {
        uint16_t index = (uint16_t)PyLong_AsLong(position);
        return put_tag(call, 'K') && put(call, &index, sizeof index) &&
               put_argument(call, value, PyBytes_AsString(table->constant)[index]);
    }
    /* an option such as num_warps, or an error that the stock path reports */
    PyErr_Clear();
    return PyUnicode_CheckExact(key) && put_tag(call, 'O') && put_text(call, key) && put_argument(call, value, 1);
}

int ok_read_call(const Table *table, const Given *given, int debug, Call *call) {
    const char *constant = PyBytes_AsString(table->constant);
    if (given->positional > PyTuple_Size(table->names) || !begin(call, debug)) return 0;
    for (int i = 0; i < given->positional; i++)
        if (!put_argument(call, given->value[i], constant[i])) return 0;
    for (int i = given->positional; i < given->count; i++)
        if (!put_keyword(table, given->name[i], given->value[i], call)) return 0;
    return 1;
}

PyObject *ok_register_identity(PyObject *self, PyObject *args) {
    PyObject *type;
    int hashed;
    (void)self;
    if (!hash_name && !(hash_name = PyUnicode_InternFromString("hash"))) return NULL;
    if (!PyArg_ParseTuple(args, "O!p", &PyType_Type, &type, &hashed)) return NULL;
    for (int i = 0; i < identities; i++)
        if (identity[i].type == (PyTypeObject *)type) Py_RETURN_NONE;
    if (identities == MAX_IDENTITY) {
        PyErr_SetString(PyExc_ValueError, "too many types");
        return NULL;
    }
    Py_INCREF(type);
    identity[identities].type = (PyTypeObject *)type;
    identity[identities++].hashed = hashed;
    Py_RETURN_NONE;
}

PyObject *ok_set_numpy_scalar(PyObject *self, PyObject *type) {
    (void)self;
    if (!PyType_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "set_numpy_scalar(type)");
        return NULL;
    }
    if (!item_name && !(item_name = PyUnicode_InternFromString("item"))) return NULL;
    Py_INCREF(type);
    Py_XDECREF((PyObject *)numpy_scalar);
    numpy_scalar = (PyTypeObject *)type;
    Py_RETURN_NONE;
}
