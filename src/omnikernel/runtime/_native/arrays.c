/* Readers of NumPy arrays (struct fields) and of tensors with the DLPack C exchange API.
 *
 * Field order of both structs follows their published ABIs: numpy/ndarraytypes.h (PyArrayObject_fields, unchanged since
 * NumPy 1.7) and dlpack.h 1.x.
 */
#include "native.h"

#include <string.h>

typedef struct {
    PyObject_HEAD
    char *data;
    int nd;
    intptr_t *dimensions;
    intptr_t *strides;
    PyObject *base;
    PyObject *descr;
    int flags;
} NumpyArray;

#define NUMPY_ALIGNED 0x0100
#define NUMPY_WRITEABLE 0x0400

typedef struct {
    int32_t device_type;
    int32_t device_id;
} DLDevice;

typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} DLTensor;

typedef struct {
    uint32_t major;
    uint32_t minor;
    void *previous;
    void *allocate;
    void *managed_from_object;
    void *managed_to_object;
    int (*dltensor_from_object)(void *object, DLTensor *out);
    void *current_work_stream;
} ExchangeAPI;

#define DL_CPU 1
#define MAX_EXCHANGE 8
#define MAX_DIMS 64

static PyTypeObject *numpy_type; /* NULL: NumPy arrays take the slow path */
static struct {
    PyTypeObject *type;
    const ExchangeAPI *api;
} exchange[MAX_EXCHANGE];
static int exchanges;
static PyObject *is_neg_name;

static int read_numpy(PyObject *object, ok_array *array) {
    NumpyArray *fields = (NumpyArray *)object;
    if (!(fields->flags & NUMPY_ALIGNED)) return 0;
    array->address = (uint64_t)(uintptr_t)fields->data;
    array->writeable = (fields->flags & NUMPY_WRITEABLE) != 0;
    array->dtype = fields->descr;
    array->dlpack_dtype = 0;
    array->itemsize = 0;
    array->ndim = fields->nd;
    array->shape = fields->dimensions;
    array->strides = fields->strides;
    return 1;
}

void ok_array_extent(ok_array *array, int64_t itemsize) {
    uint64_t low = array->address, high = array->address + (uint64_t)itemsize;
    for (int d = 0; d < array->ndim; d++) {
        int64_t extent = array->shape[d];
        if (extent == 0) {
            array->low = array->high = array->address;
            return;
        }
        int64_t reach = (extent - 1) * array->strides[d];
        if (reach < 0) low += (uint64_t)reach;
        else high += (uint64_t)reach;
    }
    array->low = low;
    array->high = high;
}

/* The exchange API drops the lazy negative bit, so it is asked for first. */
static int is_plain(PyObject *tensor) {
    PyObject *answer = PyObject_CallMethodObjArgs(tensor, is_neg_name, NULL);
    int plain = answer == Py_False;
    if (!answer) PyErr_Clear();
    Py_XDECREF(answer);
    return plain;
}

static int read_dlpack(PyObject *object, const ExchangeAPI *api, ok_array *array) {
    DLTensor tensor;
    memset(&tensor, 0, sizeof tensor);
    if (!is_plain(object)) return 0;
    if (api->dltensor_from_object(object, &tensor) != 0) {
        PyErr_Clear();
        return 0;
    }
    if (tensor.device.device_type != DL_CPU || tensor.lanes != 1 || tensor.bits % 8 || tensor.ndim > MAX_DIMS) return 0;
    int64_t itemsize = tensor.bits / 8;
    uint64_t low, high;
    array->address = (uint64_t)(uintptr_t)tensor.data + tensor.byte_offset;
    low = array->address;
    high = low + (uint64_t)itemsize;
    int64_t dense = 1;
    int empty = 0;
    for (int d = tensor.ndim - 1; d >= 0; d--) {
        int64_t stride = tensor.strides ? tensor.strides[d] : dense;
        dense *= tensor.shape[d];
        if (tensor.shape[d] == 0) empty = 1;
        int64_t reach = (tensor.shape[d] - 1) * stride * itemsize;
        if (reach < 0) low += (uint64_t)reach;
        else high += (uint64_t)reach;
    }
    array->low = empty ? array->address : low;
    array->high = empty ? array->address : high;
    array->writeable = 1;
    array->dtype = NULL;
    array->dlpack_dtype = (uint32_t)tensor.code | (uint32_t)tensor.bits << 8;
    array->itemsize = (uint32_t)itemsize;
    array->ndim = -1;
    return 1;
}

int ok_read_array(PyObject *object, ok_array *array, char *kind) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == numpy_type) {
        *kind = 'N';
        return read_numpy(object, array);
    }
    for (int i = 0; i < exchanges; i++)
        if (exchange[i].type == type) {
            *kind = 'T';
            return read_dlpack(object, exchange[i].api, array);
        }
    return 0;
}

static int items_equal(PyObject *tuple, const intptr_t *fields, int nd) {
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != nd) return 0;
    for (int d = 0; d < nd; d++)
        if (PyLong_AsSsize_t(PyTuple_GetItem(tuple, d)) != fields[d]) return 0;
    return 1;
}

/* setup_numpy(type, array, address, shape, strides, dtype, writeable): trusts the layout only if it reads `array` as
 * Python does. Returns whether it does. */
PyObject *ok_setup_numpy(PyObject *self, PyObject *args) {
    PyObject *type, *sample, *shape, *strides, *dtype;
    unsigned long long address;
    int writeable;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOKOOOp", &type, &sample, &address, &shape, &strides, &dtype, &writeable)) return NULL;
    NumpyArray *fields = (NumpyArray *)sample;
    int same = Py_TYPE(sample) == (PyTypeObject *)type && (uint64_t)(uintptr_t)fields->data == address &&
               PyTuple_Check(shape) && fields->nd == (int)PyTuple_Size(shape) &&
               items_equal(shape, fields->dimensions, fields->nd) && items_equal(strides, fields->strides, fields->nd) &&
               fields->descr == dtype && ((fields->flags & NUMPY_WRITEABLE) != 0) == writeable;
    if (PyErr_Occurred()) PyErr_Clear();
    if (same) {
        Py_INCREF(type);
        numpy_type = (PyTypeObject *)type;
    }
    return PyBool_FromLong(same);
}

/* register_exchange(type, capsule): tensors of exactly this type are read by its DLPack exchange API. */
PyObject *ok_register_exchange(PyObject *self, PyObject *args) {
    PyObject *type, *capsule;
    (void)self;
    if (!PyArg_ParseTuple(args, "OO", &type, &capsule)) return NULL;
    if (!is_neg_name && !(is_neg_name = PyUnicode_InternFromString("is_neg"))) return NULL;
    const ExchangeAPI *api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!api) return NULL;
    if (api->major != 1 || !api->dltensor_from_object || exchanges == MAX_EXCHANGE) Py_RETURN_FALSE;
    for (int i = 0; i < exchanges; i++)
        if (exchange[i].type == (PyTypeObject *)type) Py_RETURN_TRUE;
    Py_INCREF(type);
    Py_INCREF(capsule);
    exchange[exchanges].type = (PyTypeObject *)type;
    exchange[exchanges++].api = api;
    Py_RETURN_TRUE;
}

/* read(array) -> (address, low, high, writeable, itemsize) | None; for tests. NumPy: low == high == address. */
PyObject *ok_read(PyObject *self, PyObject *object) {
    ok_array array;
    char kind;
    (void)self;
    if (!ok_read_array(object, &array, &kind)) Py_RETURN_NONE;
    if (kind == 'N') array.low = array.high = array.address;
    return Py_BuildValue("(KKKii)", (unsigned long long)array.address, (unsigned long long)array.low,
                         (unsigned long long)array.high, array.writeable, (int)array.itemsize);
}
