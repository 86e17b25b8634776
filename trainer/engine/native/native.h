// Shared declarations of this folder.
//
// Tensors are passed as `at::Tensor*`, borrowed unless stated otherwise. A function that can fail returns 0, or 1 with
// the message kept for this thread: no exception crosses into Rust.
#pragma once

#include <c10/util/Exception.h>

#include <exception>
#include <string>

namespace cloze {

// Message of this thread's latest failure.
std::string& last_error();

template <typename F>
int guarded(F&& body) {
  try {
    body();
    return 0;
  } catch (const c10::Error& error) {
    last_error() = error.what_without_backtrace();
  } catch (const std::exception& error) {
    last_error() = error.what();
  } catch (...) {
    last_error() = "an exception of an unknown type";
  }
  return 1;
}

}  // namespace cloze
