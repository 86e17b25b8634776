//! Durable bytes: whatever a run or a preparation keeps goes through here.
//!
//! # What
//! A [`Store`] is a flat set of named objects: read whole or in ranges, listed, put whole or not at all, created if
//! absent, replaced if still of a version, removed. There is no rename, no append and no lock in it. What needs those
//! is built on it: a [`Log`] is closed segments, a [`Lock`] an object with a counter that beats.
//!
//! # Why
//! That is what folders, network file systems and object stores all can do, and what a program can keep its promises
//! with on each of them: a kill, a full disk, a lost acknowledgement or a second machine finds an object of before or
//! of after, never of between.
//!
//! # Definition
//! | promise | folder | memory |
//! |---|---|---|
//! | an object is whole or absent | written to a temporary file, flushed, renamed, its folder flushed | swapped under a mutex |
//! | create excludes | a hard link, which never overwrites | under a mutex |
//! | replace excludes | the first symbolic link of a version's name decides who follows it ([`StoreBackend::replace`]) | under a mutex |
//! | what did not answer is asked again | both: the handle asks a bounded number of times, with growing pauses ([`Retries`]) | |
//!
//! A kind of store is a [`StoreBackend`]; those that open sockets are packages of their own, and pass the same contract.
//!
//! # Reference
//! Maurice Herlihy, "Wait-Free Synchronization" (1991), for what exclusive creation and compare-and-swap can decide.

mod backend;
mod error;
mod fault_config;
mod faulty_backend;
mod folder;
mod lock;
mod log;
mod memory;
mod name;
mod retry;
mod store;
mod writer;

pub use self::backend::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};
pub use self::folder::faults;
pub use self::store::Store;

pub use self::fault_config::{Calls, FaultConfig, draws};
pub use self::lock::{Holder, LeaseConfig, LeaseStatus, LeaseWatch, Lock, LockError};
pub use self::log::{Lines, Log, LogTerms};
pub use self::memory::MemoryBackend;
pub use self::name::LOCK;
pub use self::retry::Retries;
pub use self::writer::ObjectWriter;
