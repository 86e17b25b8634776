//! The promises of a store, kept by every kind.

mod child;
mod contract;
mod kill;
mod lock;
mod log;
