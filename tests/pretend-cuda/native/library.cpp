// The library as one translation unit, since most of its compile time is libtorch's headers.

#include "counters.cpp"
#include "order.cpp"
#include "memory.cpp"
#include "nccl.cpp"
#include "guard.cpp"
#include "hooks.cpp"
#include "call.cpp"
#include "kernels.cpp"
#include "copies.cpp"
#include "attention.cpp"
#include "trials.cpp"
