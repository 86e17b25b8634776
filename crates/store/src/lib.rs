//! Durable object storage for runs and prepared data.
//!
//! # What
//! A [`Store`] is a flat set of named objects: read whole or in ranges, listed, put whole or not at all, created if
//! absent, replaced if still of a version, removed. The store has no rename, no append and no lock. Those are built on
//! top of it: a [`Log`] is a sequence of closed segments, a [`Lock`] an object with a heartbeat counter.
//!
//! # Why
//! Folders, network file systems and object stores all support these operations, and they suffice for the guarantees
//! below on each of them. After a kill, a full disk, a lost acknowledgement or a concurrent machine, a reader finds the
//! old object or the new one, never a mixture.
//!
//! # Definition
//! | guarantee | folder | memory |
//! |---|---|---|
//! | an object is whole or absent | written to a temporary file, flushed, renamed, its folder flushed | swapped under a mutex |
//! | create excludes | a hard link or a rename, neither of which overwrites | under a mutex |
//! | replace excludes | the first symbolic link of a version's name decides who follows it ([`StoreBackend::put_if_version`]) | under a mutex |
//! | a call without an answer is retried | both: the store retries a bounded number of times, with growing pauses ([`Retries`]) | |
//!
//! A storage backend is a [`StoreBackend`]. Backends that open sockets are separate packages and pass the same
//! contract.
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
pub mod notice;
mod retry;
mod store;
mod writer;

pub use self::backend::{Created, Entry, Replaced, Stat, StoreBackend, Upload, Version};
pub use self::folder::faults;
pub use self::store::Store;

pub use self::fault_config::{Calls, FaultConfig, draws};
pub use self::lock::{Holder, LeaseConfig, LeaseContender, LeaseStatus, LeaseWatch, Lock, LockError, WorkProgress};
pub use self::log::{Lines, Log, LogConfig};
pub use self::memory::MemoryBackend;
pub use self::name::LOCK;
pub use self::retry::{Retries, RetryAfter};
pub use self::writer::ObjectWriter;
