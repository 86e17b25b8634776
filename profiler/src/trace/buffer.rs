//! Trace buffer of one thread, bounded by a limit that all threads share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of entries that a thread reserves of the shared limit at a time.
const CHUNK: u64 = 256;

/// Limits for spans that are entered `often`. An entry of at least the first length becomes a slice. Shorter ones are
/// summed for the second length, and then written one span after another.
const LONG_NS: u64 = 1_000_000;
const GATHERED_NS: u64 = 10_000_000;

/// End of a slice that is still open.
pub(super) const OPEN: u64 = u64::MAX;

/// Text, by its number in the trace.
pub(super) type Text = u32;

/// Value of an annotation of a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Number(u64),
    Signed(i64),
    Real(f64),
    Yes(bool),
    Text(Text),
}

/// Name and value of a field.
pub(super) type Note = (&'static str, Value);

/// Span while it was entered.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Number of the object that begins here and arrives elsewhere; 0 for none.
    pub(super) makes: u64,
    pub(super) name: Text,
    notes: (u32, u32),
}

/// State change of an actor. `doing` is `None` if it has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) at: u64,
    pub(super) actor: u64,
    pub(super) doing: Option<Text>,
}

/// Current state of an actor, as far as this thread knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    pub(super) name: Text,
    pub(super) at: u64,
    pub(super) doing: Option<Text>,
    /// Whether this thread is the actor.
    pub(super) own: bool,
    span: u64,
}

/// State reported by an actor.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) actor: u64,
    pub(super) name: Text,
    pub(super) own: bool,
    pub(super) doing: Text,
    pub(super) at: u64,
}

/// Fill of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub(super) at: u64,
    /// The actor that writes to it.
    pub(super) actor: u64,
    pub(super) items: u64,
    pub(super) capacity: u64,
}

/// Arrival of an object that was made elsewhere.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) at: u64,
    /// Number under which it was made.
    pub(super) takes: u64,
    /// Actor that takes it. `None` if this thread takes it.
    pub(super) by: Option<u64>,
    pub(super) name: Text,
    notes: (u32, u32),
}

/// Arrival as the layer records it, before its notes are stored.
pub(super) struct ArrivalFields<'a> {
    /// Time in nanoseconds.
    pub(super) at: u64,
    /// Number of the object that arrives.
    pub(super) takes: u64,
    /// Actor that receives it, if it is not the thread.
    pub(super) by: Option<u64>,
    pub(super) name: Text,
    pub(super) notes: &'a [Note],
}

/// Span as recorded by the layer.
#[derive(Clone, Debug)]
pub(super) struct NotedEntry {
    pub(super) name: Text,
    pub(super) makes: u64,
    pub(super) often: bool,
    pub(super) notes: Vec<Note>,
}

/// Span that is currently entered.
#[derive(Debug)]
struct Open {
    span: u64,
    name: Text,
    since: u64,
    often: bool,
    /// Index of its slice, if it was stored.
    slice: Option<usize>,
}

/// Shared limit of all threads.
#[derive(Debug)]
pub(super) struct BufferSpace {
    left: AtomicU64,
    /// Time at which it was used up; 0 before.
    spent_at: AtomicU64,
}

impl BufferSpace {
    pub(super) fn new(entries: u64) -> Self {
        Self { left: AtomicU64::new(entries), spent_at: AtomicU64::new(0) }
    }

    /// Returns the time at which the limit was used up.
    pub(super) fn spent_at(&self) -> Option<u64> {
        Some(self.spent_at.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Reserves a chunk, or the rest.
    fn reserve(&self, at: u64) -> u64 {
        let rest = |left: u64| Some(left.saturating_sub(CHUNK));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).unwrap_or(0);
        if left == 0 {
            // The first thread without a chunk stops the recording for all.
            let _ = self.spent_at.compare_exchange(0, at.max(1), Ordering::Relaxed, Ordering::Relaxed);
        }
        left.min(CHUNK)
    }
}

/// Recorded activity of one thread.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) thread: String,
    pub(super) slices: Vec<Slice>,
    pub(super) changes: Vec<Change>,
    pub(super) fills: Vec<Fill>,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) actors: BTreeMap<u64, Current>,
    /// Number of entries beyond the limit.
    pub(super) left_out: u64,
    notes: Vec<Note>,
    open: Vec<Open>,
    gathered: Vec<(Text, u64)>,
    gathered_from: u64,
    room: Arc<BufferSpace>,
    own_room: u64,
}

impl Buffer {
    pub(super) fn new(thread: String, room: Arc<BufferSpace>) -> Self {
        Self {
            thread,
            slices: Vec::new(),
            changes: Vec::new(),
            fills: Vec::new(),
            arrivals: Vec::new(),
            actors: BTreeMap::new(),
            left_out: 0,
            notes: Vec::new(),
            open: Vec::new(),
            gathered: Vec::new(),
            gathered_from: 0,
            room,
            own_room: 0,
        }
    }

    /// Takes the content of the buffer. Only current states remain.
    pub(super) fn split_off(&mut self, at: u64) -> Self {
        self.pause(at);
        self.flush_sums(at);
        std::mem::replace(self, Self::new(self.thread.clone(), Arc::new(BufferSpace::new(0))))
    }

    /// Returns the names of the entered spans, outermost first.
    pub(super) fn stack(&self) -> impl Iterator<Item = Text> {
        self.open.iter().map(|open| open.name)
    }

    pub(super) fn notes_of(&self, range: (u32, u32)) -> &[Note] {
        let (first, count) = range;
        &self.notes[first as usize..(first + count) as usize]
    }

    pub(super) fn notes_of_slice(&self, slice: &Slice) -> &[Note] {
        self.notes_of(slice.notes)
    }

    pub(super) fn notes_of_arrival(&self, arrival: &Arrival) -> &[Note] {
        self.notes_of(arrival.notes)
    }

    /// Records the entry of a span.
    pub(super) fn begin(&mut self, at: u64, span: u64, noted: &NotedEntry) {
        let NotedEntry { name, makes, often, .. } = *noted;
        self.pause(at);
        let slice = if often {
            None
        } else {
            self.flush_sums(at);
            self.push(&Slice { begin: at, end: OPEN, makes, name, notes: (0, 0) }, &noted.notes)
        };
        self.open.push(Open { span, name, since: at, often, slice });
    }

    /// Records the exit of a span and of the spans entered within it. Spans entered before the trace are unknown and
    /// ignored.
    pub(super) fn end(&mut self, at: u64, span: u64) {
        let Some(depth) = self.open.iter().rposition(|open| open.span == span) else { return };
        while self.open.len() > depth {
            self.pause(at);
            let Some(open) = self.open.pop() else { return };
            if !open.often {
                self.flush_sums(at);
            }
            if let Some(slice) = open.slice {
                self.slices[slice].end = at;
            }
            // The outer span continues.
            if let Some(outer) = self.open.last_mut() {
                outer.since = at;
            }
        }
    }

    /// Records the state of an actor, unless it is unchanged.
    pub(super) fn state(&mut self, span: u64, state: State) {
        let State { actor, name, own, doing, at } = state;
        let known = self.actors.get_mut(&actor).filter(|known| known.doing == Some(doing) && known.own == own);
        if let Some(known) = known {
            known.span = span;
            return;
        }
        self.actors.insert(actor, Current { name, at, doing: Some(doing), own, span });
        if self.has_room(at) {
            self.changes.push(Change { at, actor, doing: Some(doing) });
        }
    }

    /// Records the end of a state. If another state has replaced it, the end is known already.
    pub(super) fn leave(&mut self, at: u64, span: u64) {
        let Some((&actor, known)) = self.actors.iter_mut().find(|(_, known)| known.span == span) else { return };
        if known.doing.take().is_some() {
            known.at = at;
            if self.has_room(at) {
                self.changes.push(Change { at, actor, doing: None });
            }
        }
    }

    pub(super) fn fill(&mut self, fill: Fill) {
        if self.has_room(fill.at) {
            self.fills.push(fill);
        }
    }

    /// Records an arrival. It belongs to this thread's open span, if there is one.
    pub(super) fn arrive(&mut self, arrival: &ArrivalFields<'_>) {
        let ArrivalFields { at, takes, by, name, notes } = *arrival;
        if self.has_room(at) {
            let notes = self.add_notes(notes);
            let by = by.filter(|_| self.open.is_empty());
            self.arrivals.push(Arrival { at, takes, by, name, notes });
        }
    }

    fn push(&mut self, slice: &Slice, notes: &[Note]) -> Option<usize> {
        if !self.has_room(slice.begin) {
            return None;
        }
        let notes = self.add_notes(notes);
        self.slices.push(Slice { notes, ..slice.clone() });
        Some(self.slices.len() - 1)
    }

    fn add_notes(&mut self, notes: &[Note]) -> (u32, u32) {
        let number = |len: usize| u32::try_from(len).expect("the limit bounds the number of entries");
        let place = (number(self.notes.len()), number(notes.len()));
        self.notes.extend_from_slice(notes);
        place
    }

    /// Returns whether one more entry may be stored. Otherwise counts it as dropped.
    fn has_room(&mut self, at: u64) -> bool {
        if self.own_room == 0 && self.room.spent_at().is_none() {
            self.own_room = self.room.reserve(at);
        }
        if self.own_room == 0 || self.room.spent_at().is_some() {
            self.left_out += 1;
            return false;
        }
        self.own_room -= 1;
        true
    }

    /// Adds the time of the innermost span to its sum, if it is entered often. Called when it is exited or another
    /// begins.
    fn pause(&mut self, at: u64) {
        if let Some(open) = self.open.last_mut().filter(|open| open.often) {
            let name = open.name;
            let since = std::mem::replace(&mut open.since, at);
            self.gather(name, since, at);
        }
    }

    fn gather(&mut self, name: Text, since: u64, at: u64) {
        let spent = at.saturating_sub(since);
        if spent >= LONG_NS {
            self.flush_sums(since);
            self.push(&Slice { begin: since, end: at, makes: 0, name, notes: (0, 0) }, &[]);
            return;
        }
        if self.gathered.is_empty() {
            self.gathered_from = since;
        }
        match self.gathered.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += spent,
            None => self.gathered.push((name, spent)),
        }
        if at.saturating_sub(self.gathered_from) >= GATHERED_NS {
            self.flush_sums(at);
        }
    }

    /// Writes the sums, one after another before `until`. Each slice is as long as all entries of its span together.
    fn flush_sums(&mut self, until: u64) {
        let mut begin = self.gathered_from;
        for (name, spent) in std::mem::take(&mut self.gathered) {
            let end = (begin + spent).min(until.max(begin));
            if end > begin {
                self.push(&Slice { begin, end, makes: 0, name, notes: (0, 0) }, &[]);
            }
            begin = end;
        }
    }
}
