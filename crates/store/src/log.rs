//! A log of lines in a store that cannot append.
//!
//! # What
//! Lines in closed segments, `log/00000000.jsonl` and on: each an object, put whole. The newest segment is put again
//! as it grows, about every second and on a flush, until it is large enough to be closed.
//!
//! # Why
//! An append can be cut in the middle, and object stores have none. A put cannot: a reader, at any time and after any
//! kill, finds whole lines.
//!
//! # Definition
//! A kill loses at most the lines since the newest put. A process that resumes from an object that was written after a
//! [flush](Log::flush) misses no line before that flush. Dropping a log puts nothing: a process that has lost its lock
//! must not write, and a regular end flushes. Lines are bytes without a line feed. The owner of the log defines their
//! meaning, and readers skip lines without one.
//!
//! Pushes and flushes wait for the store. A training therefore uses its log on a separate thread.
//!
//! If the disk is full, new lines stay in memory, and later lines try again. If it stays full or the lines are too
//! many, the error is returned. A flush returns it at once.

use std::fmt::{self, Debug, Formatter};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};
use std::vec;

use crate::store::Store;

/// Thresholds for putting and closing segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Age of the newest put after which the next line is put with all before it.
    pub put_every: Duration,
    /// Size at which a segment is closed.
    pub segment_bytes: usize,
    /// Time for which a full disk is tolerated.
    pub full_disk_timeout: Duration,
}

/// Number of segments that one may grow to while the disk is full.
const MAX_GROWTH: usize = 16;

/// A quarter of a megabyte is some thousand lines, and bounds the bytes that a busy log rewrites every second.
impl Default for LogConfig {
    fn default() -> Self {
        let full_disk_timeout = Duration::from_secs(60);
        Self { put_every: Duration::from_secs(1), segment_bytes: 1 << 18, full_disk_timeout }
    }
}

/// Log that this process writes. It has one writer, which holds a [lock](crate::Lock).
pub struct Log {
    segments: Store,
    terms: LogConfig,
    number: u64,
    /// Newest segment, whole.
    newest: Vec<u8>,
    /// True if the segment has lines that were not put.
    grown: bool,
    /// Time of the newest put, or of the newest attempt on a full disk.
    put: Option<Instant>,
    /// Time since which the disk has been full.
    full_since: Option<Instant>,
}

impl Debug for Log {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("segments", &self.segments.place(""))
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Opens the log whose segments are below `name`: a new one, or one to continue.
    pub fn open(store: &Store, name: &str) -> io::Result<Self> {
        Self::open_with(store, name, LogConfig::default())
    }

    /// Opens the log with other thresholds.
    pub fn open_with(store: &Store, name: &str, terms: LogConfig) -> io::Result<Self> {
        let segments = store.prefixed(name);
        let mut log =
            Self { segments, terms, number: 0, newest: Vec::new(), grown: false, put: None, full_since: None };
        log.find_newest()?;
        Ok(log)
    }

    /// Appends a line. After an error the line is kept, and put with the next. A full disk is an error only if it lasts.
    pub fn push(&mut self, line: &str) -> io::Result<()> {
        assert!(!line.contains('\n'), "a line ends where it ends: {line:?}");
        self.newest.extend_from_slice(line.as_bytes());
        self.newest.push(b'\n');
        self.grown = true;
        let is_full = self.newest.len() >= self.terms.segment_bytes;
        let is_due = self.put.is_none_or(|put| put.elapsed() >= self.terms.put_every);
        let is_long = self.newest.len() > MAX_GROWTH.saturating_mul(self.terms.segment_bytes);
        if is_due || is_long || (is_full && self.full_since.is_none()) {
            self.flush().or_else(|error| self.defer(error))?;
        }
        if is_full && !self.grown {
            self.newest.clear();
            self.number += 1;
        }
        Ok(())
    }

    /// Puts the lines that were not put yet.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.grown {
            self.segments.put(&segment_name(self.number), &self.newest)?;
            self.put = Some(Instant::now());
            self.grown = false;
            if self.full_since.take().is_some() {
                tracing::info!(log = self.segments.place(""), "log: the disk has space again, no line is lost");
            }
        }
        Ok(())
    }

    /// Returns the error of a put unless the lines may wait for space on the disk.
    fn defer(&mut self, error: io::Error) -> io::Result<()> {
        if !matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            return Err(error);
        }
        self.put = Some(Instant::now());
        let has_begun = self.full_since.is_none();
        let since = *self.full_since.get_or_insert_with(Instant::now);
        let is_long = since.elapsed() >= self.terms.full_disk_timeout;
        if is_long || self.newest.len() > MAX_GROWTH.saturating_mul(self.terms.segment_bytes) {
            return Err(error);
        }
        if has_begun {
            let seconds = self.terms.full_disk_timeout.as_secs();
            tracing::warn!(%error, seconds, "log: disk full, lines stay in memory; free space before the timeout");
        }
        Ok(())
    }

    /// Removes the lines that `keep` rejects: lines after the checkpoint that a run resumes from, and unreadable lines.
    /// A kill in the middle leaves some of them for the next rewind.
    pub fn rewind(&mut self, keep: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        self.flush()?;
        // From the end, so that a kill leaves no holes.
        for number in segment_numbers(&self.segments)?.into_iter().rev() {
            let name = segment_name(number);
            let content = self.segments.get(&name)?;
            let mut kept = Vec::with_capacity(content.len());
            for line in split(&content).filter(|line| keep(line)) {
                kept.extend_from_slice(line);
                kept.push(b'\n');
            }
            if kept.is_empty() {
                self.segments.delete(&name)?;
            } else if kept != content {
                self.segments.put(&name, &kept)?;
            }
        }
        self.find_newest()
    }

    /// Returns every line from the first on, including lines that are not put yet.
    pub fn lines(&mut self) -> io::Result<Lines> {
        self.flush()?;
        Lines::open_segments(self.segments.clone())
    }

    /// Continues at the end of the stored log.
    fn find_newest(&mut self) -> io::Result<()> {
        (self.number, self.newest) = (0, Vec::new());
        if let Some(number) = segment_numbers(&self.segments)?.pop() {
            (self.number, self.newest) = (number, self.segments.get(&segment_name(number))?);
            if self.newest.last().is_some_and(|last| *last != b'\n') {
                // The segment was edited by hand.
                self.newest.push(b'\n');
            }
        }
        if self.newest.len() >= self.terms.segment_bytes {
            self.newest.clear();
            self.number += 1;
        }
        Ok(())
    }
}

/// Lines of a log from the first on: bytes, without the line feed. Holds one segment at a time.
#[derive(Debug)]
pub struct Lines {
    segments: Store,
    numbers: vec::IntoIter<u64>,
    /// Remaining lines of the current segment.
    current: vec::IntoIter<Vec<u8>>,
}

impl Lines {
    /// Opens the log `name` for reading: the lines that its writer has put so far.
    pub fn new(store: &Store, name: &str) -> io::Result<Self> {
        Self::open_segments(store.prefixed(name))
    }

    /// Opens only the newest `segments` segments, for readers that need the end of the log.
    pub fn newest(store: &Store, name: &str, segments: usize) -> io::Result<Self> {
        let mut lines = Self::new(store, name)?;
        let older = lines.numbers.len().saturating_sub(segments);
        lines.numbers.by_ref().take(older).for_each(drop);
        Ok(lines)
    }

    fn open_segments(segments: Store) -> io::Result<Self> {
        let numbers = segment_numbers(&segments)?.into_iter();
        Ok(Self { segments, numbers, current: Vec::new().into_iter() })
    }
}

impl Iterator for Lines {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(line) = self.current.next() {
                return Some(Ok(line));
            }
            let name = segment_name(self.numbers.next()?);
            match self.segments.get_with_stat(&name) {
                Ok(Some((content, _))) => {
                    self.current = split(&content).map(<[u8]>::to_vec).collect::<Vec<_>>().into_iter();
                }
                // The writer removed the segment in a rewind.
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Splits a segment into lines. The last line needs no line feed.
fn split(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = content.strip_suffix(b"\n").unwrap_or(content);
    let lines = whole.split(|byte| *byte == b'\n');
    lines.take(if content.is_empty() { 0 } else { usize::MAX })
}

fn segment_name(number: u64) -> String {
    format!("{number:08}.jsonl")
}

/// Returns the numbers of the existing segments, in order.
fn segment_numbers(segments: &Store) -> io::Result<Vec<u64>> {
    let number = |name: &str| {
        let number = name.strip_suffix(".jsonl")?.parse().ok()?;
        // Other names do not belong to the log.
        (segment_name(number) == name).then_some(number)
    };
    let mut numbers: Vec<u64> = segments.list("")?.iter().filter_map(|entry| number(&entry.name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
