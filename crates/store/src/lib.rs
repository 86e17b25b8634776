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
//! | an object is whole or absent | written beside, flushed, renamed, its folder flushed | swapped under a mutex |
//! | create excludes | a hard link, which never overwrites | under a mutex |
//! | replace excludes | the first symbolic link of a version's name decides who follows it ([`Kind::replace`]) | under a mutex |
//! | what did not answer is asked again | both: the handle asks a bounded number of times, with growing pauses ([`Retries`]) | |
//!
//! A kind of store is a [`Kind`]; those that open sockets are packages of their own, and pass the same contract.
//!
//! # Reference
//! Maurice Herlihy, "Wait-Free Synchronization" (1991), for what exclusive creation and compare-and-swap can decide.

mod error;
mod folder;
mod handle;
mod kind;
mod lock;
mod log;
mod memory;
mod name;
mod put;
mod retry;
mod stormy;
mod weather;

pub use self::folder::faults;
pub use self::handle::Store;
pub use self::kind::{Created, Entry, Kind, Replaced, Stat, Upload, Version};

pub use self::lock::{Holder, Lock, LockError, Sight, Terms, Watch};
pub use self::log::{Lines, Log, LogTerms};
pub use self::memory::Memory;
pub use self::name::LOCK;
pub use self::put::Put;
pub use self::retry::Retries;
pub use self::weather::{Calls, Weather, draws};
