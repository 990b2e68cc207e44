/* A call as it is read once: for its key, and for the slots of the launch. */
#ifndef OMNIKERNEL_CALL_H
#define OMNIKERNEL_CALL_H

#include "native.h"

#define MAX_ARGS 64
#define MAX_KEY 2048

typedef struct {
    PyObject_HEAD
    PyObject *names;    /* tuple of parameter names */
    PyObject *index;    /* name -> position */
    PyObject *defaults; /* name -> default value */
    PyObject *constant; /* bytes: 1 where the parameter is a tl.constexpr */
    PyObject *entries;  /* key -> Entry */
    PyObject *last;     /* the Entry of the last launch; NULL after a change of `entries` */
} Table;

/* The arguments of a call, borrowed: the first by position, the rest by keyword. */
typedef struct {
    int positional, count;
    PyObject *value[MAX_ARGS];
    PyObject *name[MAX_ARGS]; /* of those by keyword */
} Given;

/* One argument of a call as it was read for the key. */
typedef struct {
    char kind; /* 'N' or 'T': array; 'i': integer or bool; 'f': float; 0: constant */
    ok_array array;
    int64_t integer;
    int is_unsigned; /* integer holds the bits of a value of 2^63 or more */
    double real;
} Argument;

typedef struct {
    unsigned char bytes[MAX_KEY];
    size_t size;
    Argument arguments[MAX_ARGS];
    int count;
    PyObject *keep[MAX_ARGS]; /* borrowed */
    int kept;
    int arrays;
} Call;

/* Fills `given` from a tuple and a dict (or NULL); 0 where they are too many. */
int ok_given(PyObject *args, PyObject *kwargs, Given *given);
/* Fills `call`; 0 where the call has no key. Never leaves an exception set. */
int ok_read_call(const Table *table, const Given *given, int debug, Call *call);
/* The same for a call of run-time arguments alone, by position. */
int ok_read_arguments(PyObject *args, int debug, Call *call);
PyObject *ok_register_identity(PyObject *self, PyObject *args);
PyObject *ok_set_numpy_scalar(PyObject *self, PyObject *type);

#endif
