/* The part of XLA's foreign function interface (API 0.1, a C ABI) that the handler uses.
 *
 * Declared here so that building needs no jaxlib, and because a handler that states API 0.1 and touches no later field
 * is taken by every jaxlib since. Source: xla/ffi/api/c_api.h of jaxlib, the layout of the structs only.
 */
#ifndef OMNIKERNEL_XLA_H
#define OMNIKERNEL_XLA_H

#include <stddef.h>
#include <stdint.h>

enum { XLA_EXTENSION_METADATA = 1, XLA_ATTR_ARRAY = 1, XLA_STAGE_EXECUTE = 3 };
enum { XLA_INVALID_ARGUMENT = 3, XLA_RESOURCE_EXHAUSTED = 8, XLA_FAILED_PRECONDITION = 9, XLA_INTERNAL = 13 };
enum { XLA_U8 = 6, XLA_S64 = 5 };

typedef struct xla_error xla_error;
typedef struct xla_context xla_context;

typedef struct xla_extension {
    size_t struct_size;
    int type;
    struct xla_extension *next;
} xla_extension;

typedef struct {
    size_t struct_size;
    xla_extension *extension_start;
    int major;
    int minor;
} xla_version;

typedef struct {
    size_t struct_size;
    xla_version api_version;
    uint32_t traits;
} xla_metadata;

typedef struct {
    xla_extension base;
    xla_metadata *metadata;
} xla_metadata_extension;

typedef struct {
    size_t struct_size;
    xla_extension *extension_start;
    const char *message;
    int code;
} xla_error_args;

typedef struct {
    size_t struct_size;
    xla_extension *extension_start;
    xla_error *error;
} xla_destroy_args;

typedef struct {
    size_t struct_size;
    xla_extension *extension_start;
    xla_context *context;
    void (*task)(void *);
    void *data;
} xla_schedule_args;

typedef struct {
    size_t struct_size;
    xla_extension *extension_start;
    xla_context *context;
    int64_t *threads;
} xla_threads_args;

/* The table of functions; those that are not used have no type here. */
typedef struct {
    size_t struct_size;
    xla_extension *extension_start;
    xla_version api_version;
    const void *internal;
    xla_error *(*error_create)(xla_error_args *);
    void *error_message;
    void (*error_destroy)(xla_destroy_args *);
    void *handler_register;
    void *stream_get;
    void *type_register;
    void *context_get;
    void *state_set;
    void *state_get;
    void *allocate;
    void *free;
    xla_error *(*schedule)(xla_schedule_args *);
    xla_error *(*num_threads)(xla_threads_args *);
} xla_api;

typedef struct {
    size_t struct_size;
    xla_extension *extension_start;
    int dtype;
    void *data;
    int64_t rank;
    int64_t *dims;
} xla_buffer;

typedef struct {
    const char *text;
    size_t length;
} xla_span;

typedef struct {
    int dtype;
    size_t size;
    void *data;
} xla_array;

typedef struct {
    size_t struct_size;
    xla_extension *extension_start;
    int64_t size;
    int *types;
    void **values;
} xla_values;

typedef struct {
    size_t struct_size;
    xla_extension *extension_start;
    int64_t size;
    int *types;
    xla_span **names;
    void **values;
} xla_attributes;

typedef struct {
    size_t struct_size;
    xla_extension *extension_start;
    const xla_api *api;
    xla_context *context;
    int stage;
    xla_values arguments;
    xla_values results;
    xla_attributes attributes;
    void *future;
} xla_frame;

#endif
