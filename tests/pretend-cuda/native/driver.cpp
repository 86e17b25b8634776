// Stub that is loaded as the CUDA driver. None of its functions is ever called.
extern "C" int cuInit(unsigned) { return 100; }
