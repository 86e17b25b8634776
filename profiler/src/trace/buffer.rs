//! What one thread did while a trace was recorded, in room that is shared with all others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries that a thread takes of the common room at a time.
const CHUNK: u64 = 256;

/// Stretches of a span that is entered `often`: from the first length on each is a slice; shorter ones are gathered for as
/// long as the second, and placed out one span after another.
const LONG_NS: u64 = 1_000_000;
const GATHERED_NS: u64 = 10_000_000;

/// The end of a slice that continues.
pub(super) const OPEN: u64 = u64::MAX;

/// A text, by its number in the trace.
pub(super) type Text = u32;

/// What stands next to a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Number(u64),
    Signed(i64),
    Real(f64),
    Yes(bool),
    Text(Text),
}

/// A field's name and its value.
pub(super) type Note = (&'static str, Value);

/// A span while it was entered.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) begin: u64,
    pub(super) end: u64,
    /// The number of what begins here and is taken elsewhere; 0 for nothing.
    pub(super) makes: u64,
    pub(super) name: Text,
    notes: (u32, u32),
}

/// What an actor began to do; nothing where it has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) at: u64,
    pub(super) actor: u64,
    pub(super) doing: Option<Text>,
}

/// What an actor does, as far as this thread knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    pub(super) name: Text,
    pub(super) at: u64,
    pub(super) doing: Option<Text>,
    /// Whether this thread is the actor.
    pub(super) own: bool,
    span: u64,
}

/// What an actor says that it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) actor: u64,
    pub(super) name: Text,
    pub(super) own: bool,
    pub(super) doing: Text,
    pub(super) at: u64,
}

/// How full a queue is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill {
    pub(super) at: u64,
    /// The actor that writes to it.
    pub(super) actor: u64,
    pub(super) items: u64,
    pub(super) capacity: u64,
}

/// Something that was made elsewhere arrives.
#[derive(Clone, Debug)]
pub(super) struct Arrival {
    pub(super) at: u64,
    /// The number under which it was made.
    pub(super) takes: u64,
    /// The actor that takes it; none where it is what this thread does.
    pub(super) by: Option<u64>,
    pub(super) name: Text,
    notes: (u32, u32),
}

/// A span that a layer has noted.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    pub(super) name: Text,
    pub(super) makes: u64,
    pub(super) often: bool,
    pub(super) notes: Vec<Note>,
}

/// A span that is entered.
#[derive(Debug)]
struct Open {
    span: u64,
    name: Text,
    since: u64,
    often: bool,
    /// Its slice, where there was room for it.
    slice: Option<usize>,
}

/// The common room of all threads.
#[derive(Debug)]
pub(super) struct Room {
    left: AtomicU64,
    /// When it was used up; 0 before.
    spent_at: AtomicU64,
}

impl Room {
    pub(super) fn of(entries: u64) -> Self {
        Self { left: AtomicU64::new(entries), spent_at: AtomicU64::new(0) }
    }

    /// When it was used up.
    pub(super) fn spent_at(&self) -> Option<u64> {
        Some(self.spent_at.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// A chunk of it, or what is left.
    fn take(&self, at: u64) -> u64 {
        let rest = |left: u64| Some(left.saturating_sub(CHUNK));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).unwrap_or(0);
        if left == 0 {
            // The first to find it so ends it for all.
            let _ = self.spent_at.compare_exchange(0, at.max(1), Ordering::Relaxed, Ordering::Relaxed);
        }
        left.min(CHUNK)
    }
}

/// What one thread did.
#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) thread: String,
    pub(super) slices: Vec<Slice>,
    pub(super) changes: Vec<Change>,
    pub(super) fills: Vec<Fill>,
    pub(super) arrivals: Vec<Arrival>,
    pub(super) actors: BTreeMap<u64, Current>,
    /// Entries for which there was no room.
    pub(super) left_out: u64,
    notes: Vec<Note>,
    open: Vec<Open>,
    gathered: Vec<(Text, u64)>,
    gathered_from: u64,
    room: Arc<Room>,
    own_room: u64,
}

impl Buffer {
    pub(super) fn new(thread: String, room: Arc<Room>) -> Self {
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

    /// All that it has; nothing stays but what is going on.
    pub(super) fn take(&mut self, at: u64) -> Self {
        self.pause(at);
        self.lay_out(at);
        std::mem::replace(self, Self::new(self.thread.clone(), Arc::new(Room::of(0))))
    }

    /// Names of the spans that are entered, of the outermost first.
    pub(super) fn stack(&self) -> impl Iterator<Item = Text> {
        self.open.iter().map(|open| open.name)
    }

    pub(super) fn notes_of(&self, (first, count): (u32, u32)) -> &[Note] {
        &self.notes[first as usize..(first + count) as usize]
    }

    pub(super) fn notes_of_slice(&self, slice: &Slice) -> &[Note] {
        self.notes_of(slice.notes)
    }

    pub(super) fn notes_of_arrival(&self, arrival: &Arrival) -> &[Note] {
        self.notes_of(arrival.notes)
    }

    /// A span is entered.
    pub(super) fn begin(&mut self, at: u64, span: u64, noted: &Noted) {
        let Noted { name, makes, often, .. } = *noted;
        self.pause(at);
        let slice = if often {
            None
        } else {
            self.lay_out(at);
            self.push(&Slice { begin: at, end: OPEN, makes, name, notes: (0, 0) }, &noted.notes)
        };
        self.open.push(Open { span, name, since: at, often, slice });
    }

    /// A span is left, and with it those that were entered within it. What was entered before the trace is not known here.
    pub(super) fn end(&mut self, at: u64, span: u64) {
        let Some(depth) = self.open.iter().rposition(|open| open.span == span) else { return };
        while self.open.len() > depth {
            self.pause(at);
            let Some(open) = self.open.pop() else { return };
            if !open.often {
                self.lay_out(at);
            }
            if let Some(slice) = open.slice {
                self.slices[slice].end = at;
            }
            // What was below continues.
            if let Some(beneath) = self.open.last_mut() {
                beneath.since = at;
            }
        }
    }

    /// An actor begins to do something, or continues.
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

    /// A state is over. Where another has taken its place, that is known already.
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

    /// Something arrives: with what this thread does, if it does anything that is known here.
    pub(super) fn arrive(&mut self, (at, takes): (u64, u64), by: Option<u64>, name: Text, notes: &[Note]) {
        if self.has_room(at) {
            let notes = self.keep(notes);
            let by = by.filter(|_| self.open.is_empty());
            self.arrivals.push(Arrival { at, takes, by, name, notes });
        }
    }

    fn push(&mut self, slice: &Slice, notes: &[Note]) -> Option<usize> {
        if !self.has_room(slice.begin) {
            return None;
        }
        let notes = self.keep(notes);
        self.slices.push(Slice { notes, ..slice.clone() });
        Some(self.slices.len() - 1)
    }

    fn keep(&mut self, notes: &[Note]) -> (u32, u32) {
        let number = |len: usize| u32::try_from(len).expect("there is no room for so many");
        let place = (number(self.notes.len()), number(notes.len()));
        self.notes.extend_from_slice(notes);
        place
    }

    /// Whether one more entry may be kept; counts it where not.
    fn has_room(&mut self, at: u64) -> bool {
        if self.own_room == 0 && self.room.spent_at().is_none() {
            self.own_room = self.room.take(at);
        }
        if self.own_room == 0 || self.room.spent_at().is_some() {
            self.left_out += 1;
            return false;
        }
        self.own_room -= 1;
        true
    }

    /// Gathers what the innermost span has taken so far, if it is one that is entered often: it is left, or another begins.
    fn pause(&mut self, at: u64) {
        if let Some(open) = self.open.last_mut().filter(|open| open.often) {
            let (name, since) = (open.name, std::mem::replace(&mut open.since, at));
            self.gather(name, since, at);
        }
    }

    fn gather(&mut self, name: Text, since: u64, at: u64) {
        let spent = at.saturating_sub(since);
        if spent >= LONG_NS {
            self.lay_out(since);
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
            self.lay_out(at);
        }
    }

    /// What was gathered, one after another: each as long as all its stretches together, which fit before `until`.
    fn lay_out(&mut self, until: u64) {
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
