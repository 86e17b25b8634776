// `trial NAME`: runs one trial in a process of its own, in which the library was loaded before everything else.

extern "C" int pretend_cuda_trial(const char* name);

int main(int count, char** arguments) { return count == 2 ? pretend_cuda_trial(arguments[1]) : 2; }
