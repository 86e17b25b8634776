//! A log of lines in a store that cannot append.
//!
//! # What
//! Lines in closed segments, `log/00000000.jsonl` and on: each an object, put whole. The newest is put again as it
//! grows, about every second and when it is flushed, until it is large enough to be closed.
//!
//! # Why
//! An append can be cut in the middle, and object stores have none. A put cannot: a reader, at any time and after any
//! kill, finds whole lines.
//!
//! # Definition
//! A kill loses the lines since the newest put, at most: nobody who resumes from what was put before a
//! [flush](Log::flush) misses any. Nothing is put when a log is dropped: a process that has lost its lock must not
//! write, and one that ends well flushes. Lines are bytes without a line feed; what they mean is their owner's to say,
//! and one that means nothing stops nobody.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::time::{Duration, Instant};
use std::vec;

use crate::store::Store;

/// When segments are put, and when they are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTerms {
    /// A line that comes later than this after the newest put is put with those before it.
    pub put_every: Duration,
    /// A segment of so many bytes is closed.
    pub segment_bytes: usize,
}

/// A quarter of a megabyte is some thousand lines, and is what a busy log writes again every second.
impl Default for LogTerms {
    fn default() -> Self {
        Self { put_every: Duration::from_secs(1), segment_bytes: 1 << 18 }
    }
}

/// A log that this process writes; it has one writer, who holds a [lock](crate::Lock).
pub struct Log {
    segments: Store,
    terms: LogTerms,
    number: u64,
    /// The newest segment, whole.
    newest: Vec<u8>,
    /// Whether it has lines that were not put.
    grown: bool,
    put: Option<Instant>,
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
    /// The log whose segments lie below `name`: a new one, or one that continues.
    pub fn open(store: &Store, name: &str) -> io::Result<Self> {
        Self::open_with(store, name, LogTerms::default())
    }

    /// The same, on other terms.
    pub fn open_with(store: &Store, name: &str, terms: LogTerms) -> io::Result<Self> {
        let segments = store.within(name);
        let mut log = Self { segments, terms, number: 0, newest: Vec::new(), grown: false, put: None };
        log.find_newest()?;
        Ok(log)
    }

    /// Adds a line. After an error it is kept, and put with the next.
    pub fn push(&mut self, line: &str) -> io::Result<()> {
        assert!(!line.contains('\n'), "a line ends where it ends: {line:?}");
        self.newest.extend_from_slice(line.as_bytes());
        self.newest.push(b'\n');
        self.grown = true;
        let is_full = self.newest.len() >= self.terms.segment_bytes;
        if is_full || self.put.is_none_or(|put| put.elapsed() >= self.terms.put_every) {
            self.flush()?;
        }
        if is_full {
            self.newest.clear();
            self.number += 1;
        }
        Ok(())
    }

    /// Puts what was not put yet.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.grown {
            self.segments.put(&segment_name(self.number), &self.newest)?;
            self.grown = false;
            self.put = Some(Instant::now());
        }
        Ok(())
    }

    /// Forgets the lines that are not to be kept: what comes after the checkpoint that a run resumes from, and what
    /// nobody can read. A kill in the middle leaves some of them, for the next rewind to forget.
    pub fn rewind(&mut self, keep: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        self.flush()?;
        // From the end, so that what a kill leaves has no holes.
        for number in segment_numbers(&self.segments)?.into_iter().rev() {
            let name = segment_name(number);
            let content = self.segments.read(&name)?;
            let mut kept = Vec::with_capacity(content.len());
            for line in split(&content).filter(|line| keep(line)) {
                kept.extend_from_slice(line);
                kept.push(b'\n');
            }
            if kept.is_empty() {
                self.segments.remove(&name)?;
            } else if kept != content {
                self.segments.put(&name, &kept)?;
            }
        }
        self.find_newest()
    }

    /// Every line from the first on, those included that were just pushed.
    pub fn lines(&mut self) -> io::Result<Lines> {
        self.flush()?;
        Lines::over(self.segments.clone())
    }

    /// Continues where the store ends.
    fn find_newest(&mut self) -> io::Result<()> {
        (self.number, self.newest) = (0, Vec::new());
        if let Some(number) = segment_numbers(&self.segments)?.pop() {
            (self.number, self.newest) = (number, self.segments.read(&segment_name(number))?);
            if self.newest.last().is_some_and(|last| *last != b'\n') {
                // Somebody edited it by hand.
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

/// The lines of a log, from the first on: bytes, without the line feed. Holds one segment at a time.
#[derive(Debug)]
pub struct Lines {
    segments: Store,
    numbers: vec::IntoIter<u64>,
    /// Those of the segment in hand.
    current: vec::IntoIter<Vec<u8>>,
}

impl Lines {
    /// The lines of the log `name`, for who only reads it: what its writer has put so far.
    pub fn of(store: &Store, name: &str) -> io::Result<Self> {
        Self::over(store.within(name))
    }

    /// The same of its newest segments alone, so many of them: for who wants to know how it ends.
    pub fn newest(store: &Store, name: &str, segments: usize) -> io::Result<Self> {
        let mut lines = Self::of(store, name)?;
        let older = lines.numbers.len().saturating_sub(segments);
        lines.numbers.by_ref().take(older).for_each(drop);
        Ok(lines)
    }

    fn over(segments: Store) -> io::Result<Self> {
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
            match self.segments.read_with_stat(&name) {
                Ok(Some((content, _))) => {
                    self.current = split(&content).map(<[u8]>::to_vec).collect::<Vec<_>>().into_iter();
                }
                // Its writer rewound it now.
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// The lines of a segment. The last needs no line feed.
fn split(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = content.strip_suffix(b"\n").unwrap_or(content);
    let lines = whole.split(|byte| *byte == b'\n');
    lines.take(if content.is_empty() { 0 } else { usize::MAX })
}

fn segment_name(number: u64) -> String {
    format!("{number:08}.jsonl")
}

/// The segments that are there, in order.
fn segment_numbers(segments: &Store) -> io::Result<Vec<u64>> {
    let number = |name: &str| {
        let number = name.strip_suffix(".jsonl")?.parse().ok()?;
        // What is called otherwise is not ours.
        (segment_name(number) == name).then_some(number)
    };
    let mut numbers: Vec<u64> = segments.list("")?.iter().filter_map(|entry| number(&entry.name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
