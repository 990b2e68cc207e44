/* A compiled kernel with the plan of its slots: from the arguments of a call, as they were read, to a run on the pool. */
#include "launch.h"

#include <string.h>

#define MEASURED_EACH 8

static PyTypeObject *entry_type;

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

/* The estimate knows nothing of loops whose length is an argument. The clock costs something, so short launches are not
 * measured every time; one that was disturbed counts half, and so is forgotten soon. */
static void learn(Variant *variant, const ok_launch *launch) {
    double took = launch->wall * launch->on / (double)launch->programs;
    variant->launches++;
    if (ok_trial_note(&variant->trial, launch)) variant->cost = took;
    if (launch->alone || took <= 0 || variant->cost <= 0 || (launch->brief && launch->on > 1)) return;
    /* On several threads more may be the fault of other processes. */
    if (launch->on == 1 || took < variant->cost) variant->cost = (variant->cost + took) / 2;
}

int ok_run_variant(const Entry *entry, Variant *variant, const uint64_t *slots, const int32_t grid[3]) {
    ok_launch launch = {variant->kernel, slots, {grid[0], grid[1], grid[2]}, 0, variant->arena_bytes, variant->cost};
    launch.in_order = variant->in_order;
    launch.measure = variant->launches % MEASURED_EACH == 0;
    launch.learned = variant->launches > 0;
    ok_trial_ask(&variant->trial, &launch);
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
    learn(variant, &launch);
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

Variant *ok_plan_call(Entry *entry, Call *call, uint64_t *slots) {
    if (!fill_slots(entry, call, slots)) return NULL;
    Variant *variant = &entry->variant[is_disjoint(entry, call)];
    return variant->kernel ? variant : NULL;
}

int ok_entry_covers(const Entry *entry, int count) {
    for (int i = 0; i < entry->slots; i++)
        if (entry->slot[i].source >= count) return 0;
    return 1;
}

/* ---- making one ---- */

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
    if (!PyArg_ParseTuple(item, "Kndp", &address, &arena, &variant->cost, &variant->in_order)) return 0;
    variant->kernel = (ok_kernel)(uintptr_t)address;
    variant->arena_bytes = (size_t)arena;
    return 1;
}

Entry *ok_make_entry(PyObject *const *keep, int kept, PyObject *compiled, PyObject *executable, PyObject *slots,
                     PyObject *plain, PyObject *disjoint, PyObject *cache) {
    allocfunc alloc = (allocfunc)PyType_GetSlot(entry_type, Py_tp_alloc);
    Entry *entry = (Entry *)alloc(entry_type, 0);
    if (!entry) return NULL;
    if (!read_slots(slots, entry) || !read_variant(plain, &entry->variant[0]) ||
        !read_variant(disjoint, &entry->variant[1]) || !(entry->keep = PyTuple_New(kept))) {
        Py_DECREF(entry);
        return NULL;
    }
    for (int i = 0; i < kept; i++) {
        Py_INCREF(keep[i]);
        PyTuple_SetItem(entry->keep, i, keep[i]);
    }
    Py_INCREF(compiled);
    entry->compiled = compiled;
    Py_INCREF(executable);
    entry->executable = executable;
    Py_XINCREF(cache);
    entry->cache = cache;
    return entry;
}

/* ---- object plumbing: an entry can be in a reference cycle with its JITFunction ---- */

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
    Py_CLEAR(entry->key);
    return 0;
}

static void entry_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    entry_drop(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyType_Slot entry_slots[] = {
    {Py_tp_dealloc, entry_dealloc},
    {Py_tp_traverse, entry_traverse},
    {Py_tp_clear, entry_drop},
    {0, NULL},
};
static PyType_Spec entry_spec = {"omnikernel._native.Entry", sizeof(Entry), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 entry_slots};

int ok_entry_init(void) {
    if (!entry_type) entry_type = (PyTypeObject *)PyType_FromSpec(&entry_spec);
    return entry_type ? 0 : -1;
}
