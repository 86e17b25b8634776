//! End to end, in one binary: each integration test that links libtorch costs seconds to link.

mod tidy;
