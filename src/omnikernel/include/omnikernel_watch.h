/* What checked builds of CUDA source tell omnikernel_watch.cpp. */
#ifndef OMNIKERNEL_WATCH_H
#define OMNIKERNEL_WATCH_H

#include <stddef.h>
#include <stdint.h>

struct ok_watch {
    int thread; /* of the block that runs on this thread of the pool; -1: none */
    uint32_t epoch;
    uint16_t warp_epochs[32];
    unsigned dynamic_bytes, dynamic_capacity;
    int failed;
    char text[500];
};

extern "C" {
extern __thread ok_watch ok_watching __attribute__((visibility("hidden")));
__attribute__((visibility("hidden"))) void ok_watch_block(unsigned dynamic_bytes, unsigned dynamic_capacity);
}

#endif
