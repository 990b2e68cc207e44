/* A compiled kernel with the plan of its slots, and what must hold for a launch by it; for dispatch.c and prepare.c. */
#ifndef OMNIKERNEL_LAUNCH_H
#define OMNIKERNEL_LAUNCH_H

#include "call.h"

enum { SLOT_POINTER, SLOT_INTEGER, SLOT_F32, SLOT_F64 };

typedef struct {
    int source; /* index among positional, then keyword arguments */
    int kind;
    int bits;     /* SLOT_INTEGER: width of the parameter */
    int itemsize; /* SLOT_POINTER */
    int written;
} Slot;

/* What brief launches of a kernel took, alone and shared, so far; see trial.c. */
typedef struct {
    float took[2];
    unsigned short turn, doubts;
    unsigned char shared;
} ok_trial;

typedef struct {
    ok_kernel kernel; /* NULL: not compiled yet */
    size_t arena_bytes;
    double cost; /* estimated at first, then by what launches took */
    int in_order;
    unsigned launches;
    ok_trial trial;
} Variant;

typedef struct {
    PyObject_HEAD
    PyObject *compiled;   /* what JITFunction.run returns */
    PyObject *executable; /* keeps the code alive; raises on a failed assert */
    PyObject *keep;       /* objects whose address is in the key */
    PyObject *cache;      /* the dict in which Triton keeps the kernel; NULL: unknown */
    PyObject *key;        /* bytes: its key in a table; NULL for a prepared launch */
    int slots;
    Slot slot[MAX_ARGS];
    Variant variant[2]; /* [1]: no written array overlaps another one */
} Entry;

/* ---- entry.c ---- */

/* What add() of a table gets: see its documentation. `keep` holds `kept` borrowed objects. NULL with an exception. */
Entry *ok_make_entry(PyObject *const *keep, int kept, PyObject *compiled, PyObject *executable, PyObject *slots,
                     PyObject *plain, PyObject *disjoint, PyObject *cache);
/* 1 where the source of every slot is one of `count` arguments. */
int ok_entry_covers(const Entry *entry, int count);
/* Fills the slots from the arguments of a call; the code to run, NULL where the stock path must look (and report). */
Variant *ok_plan_call(Entry *entry, Call *call, uint64_t *slots);
/* Runs the programs of a grid. 0: done; -1: with an exception. */
int ok_run_variant(const Entry *entry, Variant *variant, const uint64_t *slots, const int32_t grid[3]);
int ok_entry_init(void);

/* ---- trial.c ---- */

/* Says whether a launch is shared if it is brief, and what of it is to be measured. */
void ok_trial_ask(const ok_trial *trial, ok_launch *launch);
/* 1 where the launch was run alone to learn what it takes, and tells that. */
int ok_trial_note(ok_trial *trial, const ok_launch *launch);

/* ---- context.c ---- */

/* 1: no hooks, no checked mode, and the fast path is not suspended; `debug` gets knobs.runtime.debug. */
int ok_plain_context(PyObject *function, int *debug);
/* 1 where a launch anew would find this kernel: its globals are what they were, and Triton has not dropped it. */
int ok_still_valid(PyObject *function, const Entry *entry);
int ok_context_init(void);
extern PyMethodDef ok_context_methods[];

/* ---- dispatch.c, prepare.c, launcher.c ---- */

/* Launches if an entry of the function's table fits: the compiled kernel, a new reference. NULL without an exception: take
 * the stock path; with one: a grid function's or a failed launch's, which is the caller's. `sources`: for each argument the
 * parameter of an operator whose memory it is, or a negative number; a launch that writes such memory is left alone. */
PyObject *ok_try_launch(PyObject *function, PyObject *grid, const Given *given, const Py_ssize_t *sources);

/* 1: read; 0: no grid as C reads it, without an exception. */
int ok_read_grid(PyObject *grid, int32_t out[3]);
int ok_prepare_init(PyObject *module);
int ok_launcher_init(PyObject *module);
extern PyMethodDef ok_launcher_methods[];

#endif
