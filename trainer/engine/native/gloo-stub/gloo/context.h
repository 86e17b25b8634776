// Declarations of Gloo that c10d's header names. libtorch has Gloo's code without its headers.
//
// Code of this package only passes pointers to such objects. It must not create one, or derive from one.
#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
