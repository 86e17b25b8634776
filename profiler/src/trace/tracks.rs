//! Conversion of the buffers to tracks of nested slices.
//!
//! # Definition
//! An actor has a track with its states, one after another, without gaps from its first state to its end. If a thread
//! is that actor, its spans are nested in the states. A span that continues across a change of state is drawn once
//! per state. Every other active thread has its own track, and every queue has a counter. Events after the moment at
//! which the limit was reached are dropped on all tracks, so that tracks are complete up to it.

use std::collections::BTreeMap;

use super::buffer::{Arrival, Buffer, Change, Note, OPEN, Slice, Text};
use super::samples::is_actor;

/// Named time range.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Input of the conversion.
pub(super) struct TrackDrawing<'a> {
    pub(super) threads: &'a [Buffer],
    pub(super) texts: &'a [String],
    pub(super) marks: &'a [Mark],
    pub(super) names: &'a BTreeMap<String, String>,
    pub(super) ended: u64,
    /// Number of dropped entries, and the time of the first one.
    pub(super) cut: Option<(u64, u64)>,
}

/// One track.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Track {
    pub(super) name: String,
    /// Capacity of the queue, for a counter track.
    pub(super) capacity: Option<u64>,
}

/// Event on a track.
#[derive(Clone, Debug)]
pub(super) struct Op<'a> {
    pub(super) at: u64,
    pub(super) track: usize,
    pub(super) what: TrackEventKind<'a>,
}

/// Kind of a track event.
#[derive(Clone, Debug)]
pub(super) enum TrackEventKind<'a> {
    /// Start of a slice, with its annotations and the flows that start with it.
    Begin(&'a str, &'a [Note], Vec<u64>),
    /// End of the newest slice.
    End,
    /// Instant event, with the flow that ends there.
    Instant(&'a str, &'a [Note], Option<u64>),
    /// Entries are missing after this event.
    Cut(u64),
    /// Value of a counter.
    Count(u64),
}

/// Tracks, and their events in order of time.
#[derive(Default)]
pub(super) struct DrawnTracks<'a> {
    pub(super) tracks: Vec<Track>,
    pub(super) ops: Vec<Op<'a>>,
}

impl<'a> DrawnTracks<'a> {
    fn track(&mut self, name: String, capacity: Option<u64>) -> usize {
        self.tracks.push(Track { name, capacity });
        self.tracks.len() - 1
    }

    fn put(&mut self, at: u64, track: usize, what: TrackEventKind<'a>) {
        self.ops.push(Op { at, track, what });
    }
}

/// Actor, merged from all threads.
#[derive(Default)]
struct Actor {
    name: Option<Text>,
    changes: Vec<Change>,
    fills: Vec<(u64, u64)>,
    capacity: u64,
    /// Indices of the threads that are this actor.
    own: Vec<usize>,
}

impl<'a> TrackDrawing<'a> {
    /// Converts the buffers.
    pub(super) fn drawn(&self) -> DrawnTracks<'a> {
        let actors = self.actors();
        let arrows = self.arrows();
        let mut drawn = DrawnTracks::default();
        self.draw_marks(&mut drawn);
        let mut named: Vec<(String, u64, &Actor)> =
            actors.iter().map(|(number, actor)| (self.name_of(*number, actor), *number, actor)).collect();
        named.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        let mut tracks = BTreeMap::new();
        for (name, number, actor) in named {
            let track = drawn.track(name.clone(), None);
            tracks.insert(number, track);
            // Threads of one actor run one after another, so their edges can be concatenated.
            let within: Vec<Vec<TrackEdge<'a>>> = actor.own.iter().map(|thread| self.edges(*thread, &arrows)).collect();
            Strip { picture: self, track, states: self.states(actor) }.draw(within.concat(), &mut drawn);
            if !actor.fills.is_empty() {
                let counter = drawn.track(format!("{name} queue"), Some(actor.capacity));
                for (at, fill) in &actor.fills {
                    drawn.put(*at, counter, TrackEventKind::Count(*fill));
                }
            }
        }
        for (at, thread) in self.threads.iter().enumerate() {
            let own = is_actor(thread);
            let has_events = !thread.slices.is_empty() || thread.arrivals.iter().any(|arrival| arrival.by.is_none());
            if !own && has_events {
                let track = drawn.track(thread.thread.clone(), None);
                let edges = self.edges(at, &arrows);
                Strip { picture: self, track, states: Vec::new() }.draw(edges, &mut drawn);
            }
        }
        self.draw_arrivals(&tracks, &arrows, &mut drawn);
        // The sort is stable: simultaneous events of a track keep their order.
        drawn.ops.sort_by_key(|op| op.at);
        drawn
    }

    fn limit(&self) -> u64 {
        self.cut.map_or(self.ended, |(_, at)| at.min(self.ended))
    }

    fn text(&self, text: Text) -> &'a str {
        self.texts.get(text as usize).map_or("…", String::as_str)
    }

    fn name_of(&self, number: u64, actor: &Actor) -> String {
        let name = actor.name.map_or_else(|| format!("actor {number}"), |name| self.text(name).to_owned());
        self.names.get(&name).cloned().unwrap_or(name)
    }

    fn draw_marks(&self, drawn: &mut DrawnTracks<'a>) {
        if self.marks.is_empty() && self.cut.is_none() {
            return;
        }
        let track = drawn.track("measured".to_owned(), None);
        let mut ops: Vec<(u64, TrackEventKind<'a>)> = Vec::new();
        for Mark { name, from, to } in self.marks {
            ops.push((*from, TrackEventKind::Begin(name, &[], Vec::new())));
            ops.push((*to.max(from), TrackEventKind::End));
        }
        if let Some((dropped, at)) = self.cut {
            ops.push((at, TrackEventKind::Cut(dropped)));
        }
        for (at, what) in ops {
            drawn.put(at, track, what);
        }
    }

    /// Merges what the threads know of each actor.
    fn actors(&self) -> BTreeMap<u64, Actor> {
        let limit = self.limit();
        let mut actors: BTreeMap<u64, Actor> = BTreeMap::new();
        for (at, thread) in self.threads.iter().enumerate() {
            for (number, known) in &thread.actors {
                let actor = actors.entry(*number).or_default();
                actor.name = Some(known.name);
                if known.own {
                    actor.own.push(at);
                }
            }
            for change in thread.changes.iter().filter(|change| change.at <= limit) {
                actors.entry(change.actor).or_default().changes.push(*change);
            }
            for fill in thread.fills.iter().filter(|fill| fill.at <= limit) {
                let actor = actors.entry(fill.actor).or_default();
                actor.fills.push((fill.at, fill.items.min(fill.capacity)));
                actor.capacity = fill.capacity;
            }
        }
        for actor in actors.values_mut() {
            actor.changes.sort_by_key(|change| change.at);
            actor.fills.sort_by_key(|(at, _)| *at);
        }
        actors
    }

    /// Returns the states of an actor.
    fn states(&self, actor: &Actor) -> Vec<ActorState<'a>> {
        let mut states: Vec<ActorState<'a>> = Vec::new();
        let ends = actor.changes.iter().skip(1).map(|change| change.at).chain([self.limit()]);
        for (change, end) in actor.changes.iter().zip(ends) {
            let Some(doing) = change.doing.map(|doing| self.text(doing)) else { continue };
            match states.last_mut() {
                Some(last) if last.to == change.at && last.doing == doing => last.to = end,
                _ => states.push(ActorState { from: change.at, to: end, doing }),
            }
        }
        states
    }

    /// Returns the flows by the number of the object: one per arrival. Flows without a known start are omitted.
    fn arrows(&self) -> Arrows {
        let limit = self.limit();
        let slices = self.threads.iter().flat_map(|thread| &thread.slices);
        let made: BTreeMap<u64, u64> = slices
            .filter(|slice| slice.makes > 0 && slice.begin <= limit)
            .map(|slice| (slice.makes, slice.begin))
            .collect();
        let mut arrows = Arrows::default();
        for (thread, buffer) in self.threads.iter().enumerate() {
            for (place, arrival) in buffer.arrivals.iter().enumerate() {
                let begins = made.get(&arrival.takes).is_some_and(|begin| *begin <= arrival.at);
                if begins && arrival.at <= limit {
                    let arrow = arrows.to.len() as u64 + 1;
                    arrows.from.entry(arrival.takes).or_default().push(arrow);
                    arrows.to.insert((thread, place), arrow);
                }
            }
        }
        arrows
    }

    /// Returns the events of a thread: starts, ends and instants, in order.
    fn edges(&self, number: usize, arrows: &Arrows) -> Vec<TrackEdge<'a>> {
        let limit = self.limit();
        let thread = &self.threads[number];
        let mut edges = Vec::new();
        let mut open: Vec<u64> = Vec::new();
        let arrivals = thread.arrivals.iter().enumerate().filter(|(_, arrival)| arrival.by.is_none());
        let mut arrivals = arrivals.filter(|(_, arrival)| arrival.at <= limit).peekable();
        let moment = |(place, arrival): (usize, &'a Arrival)| {
            let arrow = arrows.to.get(&(number, place)).copied();
            let what = TrackEventKind::Instant(self.text(arrival.name), thread.notes_of_arrival(arrival), arrow);
            TrackEdge { at: arrival.at, what }
        };
        let close = |edges: &mut Vec<TrackEdge<'a>>, open: &mut Vec<u64>, until: u64| {
            while let Some(end) = open.pop_if(|end| *end <= until) {
                edges.push(TrackEdge { at: end, what: TrackEventKind::End });
            }
        };
        for slice in thread.slices.iter().filter(|slice| slice.begin <= limit) {
            while let Some(arrival) = arrivals.next_if(|(_, arrival)| arrival.at < slice.begin) {
                close(&mut edges, &mut open, arrival.1.at);
                edges.push(moment(arrival));
            }
            close(&mut edges, &mut open, slice.begin);
            let flows = arrows.from.get(&slice.makes).cloned().unwrap_or_default();
            let name = self.text(slice.name);
            edges.push(TrackEdge {
                at: slice.begin,
                what: TrackEventKind::Begin(name, thread.notes_of_slice(slice), flows),
            });
            let around = open.last().copied().unwrap_or(limit);
            open.push(end_of(slice, limit).min(around));
        }
        for arrival in arrivals {
            close(&mut edges, &mut open, arrival.1.at);
            edges.push(moment(arrival));
        }
        close(&mut edges, &mut open, u64::MAX);
        edges
    }

    /// Draws the arrivals of actors that are not threads.
    fn draw_arrivals(&self, tracks: &BTreeMap<u64, usize>, arrows: &Arrows, drawn: &mut DrawnTracks<'a>) {
        for (thread, buffer) in self.threads.iter().enumerate() {
            for (place, arrival) in buffer.arrivals.iter().enumerate() {
                let track = arrival.by.and_then(|by| tracks.get(&by));
                if let Some(track) = track.filter(|_| arrival.at <= self.limit()) {
                    let arrow = arrows.to.get(&(thread, place)).copied();
                    let what =
                        TrackEventKind::Instant(self.text(arrival.name), buffer.notes_of_arrival(arrival), arrow);
                    drawn.put(arrival.at, *track, what);
                }
            }
        }
    }
}

fn end_of(slice: &Slice, limit: u64) -> u64 {
    if slice.end == OPEN { limit } else { slice.end.min(limit) }
}

/// Flows that start with an object of a number, and flows that end with an arrival of a thread.
#[derive(Default)]
struct Arrows {
    from: BTreeMap<u64, Vec<u64>>,
    to: BTreeMap<(usize, usize), u64>,
}

/// Start, end or instant event of a thread.
#[derive(Clone, Debug)]
struct TrackEdge<'a> {
    at: u64,
    what: TrackEventKind<'a>,
}

/// State of an actor from one time to another.
struct ActorState<'a> {
    from: u64,
    to: u64,
    doing: &'a str,
}

/// Track with states, and slices nested in them.
struct Strip<'p, 'a> {
    picture: &'p TrackDrawing<'a>,
    track: usize,
    states: Vec<ActorState<'a>>,
}

impl<'a> Strip<'_, 'a> {
    /// Draws the slices into the states. At the same time, ends precede a change of state, and starts follow it.
    fn draw(&self, edges: Vec<TrackEdge<'a>>, drawn: &mut DrawnTracks<'a>) {
        let mut turns: Vec<(u64, Option<&'a str>)> = Vec::new();
        for &ActorState { from, to, doing } in &self.states {
            if turns.last().is_some_and(|(at, _)| *at == from) {
                turns.pop();
            }
            turns.extend([(from, Some(doing)), (to, None)]);
        }
        let mut turns = turns.into_iter().peekable();
        let mut open: Vec<(&'a str, &'a [Note])> = Vec::new();
        let mut state = None;
        for edge in edges {
            let is_end = matches!(edge.what, TrackEventKind::End);
            while let Some((at, doing)) = turns.next_if(|(at, _)| *at < edge.at || (*at == edge.at && !is_end)) {
                self.turn(at, doing, &mut state, &open, drawn);
            }
            match &edge.what {
                TrackEventKind::Begin(name, notes, _) => open.push((name, notes)),
                TrackEventKind::End => drop(open.pop()),
                _ => {}
            }
            drawn.put(edge.at, self.track, edge.what);
        }
        for (at, doing) in turns {
            self.turn(at, doing, &mut state, &open, drawn);
        }
    }

    /// Ends the open slices, changes the state, and reopens the slices.
    fn turn(
        &self,
        at: u64,
        doing: Option<&'a str>,
        state: &mut Option<&'a str>,
        open: &[(&'a str, &'a [Note])],
        drawn: &mut DrawnTracks<'a>,
    ) {
        let at = at.min(self.picture.limit());
        let depth = open.len() + usize::from(state.is_some());
        (0..depth).for_each(|_| drawn.put(at, self.track, TrackEventKind::End));
        *state = doing;
        if let Some(doing) = doing {
            drawn.put(at, self.track, TrackEventKind::Begin(doing, &[], Vec::new()));
        }
        for (name, notes) in open {
            drawn.put(at, self.track, TrackEventKind::Begin(name, notes, Vec::new()));
        }
    }
}
