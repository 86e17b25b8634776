// `trial NAME`: runs one trial in a separate process, in which the library was loaded first.

extern "C" int pretend_cuda_trial(const char* name);

int main(int count, char** arguments) { return count == 2 ? pretend_cuda_trial(arguments[1]) : 2; }
