//! Guarantees of a store, tested on every backend.

mod child;
mod contract;
mod kill;
mod lock;
mod log;
