//! From what threads kept to tracks of nested slices.
//!
//! # Definition
//! An actor has a track with its states, one after another, without a hole from its first to its end. Where a thread is that
//! actor, what it does lies within: a slice that continues while the state changes is drawn once in each. Every other thread
//! that did anything has its own track, and every queue a counter. What lies behind the moment at which there was no more
//! room is left away everywhere, so that tracks are whole up to there.

use std::collections::BTreeMap;

use super::buffer::{Arrival, Buffer, Change, Note, OPEN, Slice, Text};
use super::samples::is_actor;

/// A stretch of time that somebody wants to find again.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// All that is drawn.
pub(super) struct Picture<'a> {
    pub(super) threads: &'a [Buffer],
    pub(super) texts: &'a [String],
    pub(super) marks: &'a [Mark],
    pub(super) names: &'a BTreeMap<String, String>,
    pub(super) ended: u64,
    /// How many entries are missing, and from when on.
    pub(super) cut: Option<(u64, u64)>,
}

/// One track.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Track {
    pub(super) name: String,
    /// Places of the queue, of a track that counts.
    pub(super) capacity: Option<u64>,
}

/// What happens on a track at a moment.
#[derive(Clone, Debug)]
pub(super) struct Op<'a> {
    pub(super) at: u64,
    pub(super) track: usize,
    pub(super) what: TrackEventKind<'a>,
}

/// What happens.
#[derive(Clone, Debug)]
pub(super) enum TrackEventKind<'a> {
    /// A slice begins, with what stands next to it and the arrows that begin with it.
    Begin(&'a str, &'a [Note], Vec<u64>),
    /// The newest slice ends.
    End,
    /// Something that takes no time, with the arrow that ends there.
    Instant(&'a str, &'a [Note], Option<u64>),
    /// Entries are missing from here on.
    Cut(u64),
    /// So many items are there.
    Count(u64),
}

/// Tracks, and what happens on them in the order of time.
#[derive(Default)]
pub(super) struct Drawn<'a> {
    pub(super) tracks: Vec<Track>,
    pub(super) ops: Vec<Op<'a>>,
}

impl<'a> Drawn<'a> {
    fn track(&mut self, name: String, capacity: Option<u64>) -> usize {
        self.tracks.push(Track { name, capacity });
        self.tracks.len() - 1
    }

    fn put(&mut self, at: u64, track: usize, what: TrackEventKind<'a>) {
        self.ops.push(Op { at, track, what });
    }
}

/// An actor, as all threads know it.
#[derive(Default)]
struct Actor {
    name: Option<Text>,
    changes: Vec<Change>,
    fills: Vec<(u64, u64)>,
    capacity: u64,
    /// Threads that are it.
    own: Vec<usize>,
}

impl<'a> Picture<'a> {
    /// Draws it.
    pub(super) fn drawn(&self) -> Drawn<'a> {
        let (actors, arrows) = (self.actors(), self.arrows());
        let mut drawn = Drawn::default();
        self.draw_marks(&mut drawn);
        let mut named: Vec<(String, u64, &Actor)> =
            actors.iter().map(|(number, actor)| (self.name_of(*number, actor), *number, actor)).collect();
        named.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        let mut tracks = BTreeMap::new();
        for (name, number, actor) in named {
            let track = drawn.track(name.clone(), None);
            tracks.insert(number, track);
            // Threads that are one actor are so one after another.
            let within: Vec<Vec<Edge<'a>>> = actor.own.iter().map(|thread| self.edges(*thread, &arrows)).collect();
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
            let speaks = !thread.slices.is_empty() || thread.arrivals.iter().any(|arrival| arrival.by.is_none());
            if !own && speaks {
                let track = drawn.track(thread.thread.clone(), None);
                let edges = self.edges(at, &arrows);
                Strip { picture: self, track, states: Vec::new() }.draw(edges, &mut drawn);
            }
        }
        self.draw_arrivals(&tracks, &arrows, &mut drawn);
        // Stable: what happens on one track at one moment stays in its order.
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

    fn draw_marks(&self, drawn: &mut Drawn<'a>) {
        if self.marks.is_empty() && self.cut.is_none() {
            return;
        }
        let track = drawn.track("measured".to_owned(), None);
        let mut ops: Vec<(u64, TrackEventKind<'a>)> = Vec::new();
        for Mark { name, from, to } in self.marks {
            ops.push((*from, TrackEventKind::Begin(name, &[], Vec::new())));
            ops.push((*to.max(from), TrackEventKind::End));
        }
        if let Some((left_out, at)) = self.cut {
            ops.push((at, TrackEventKind::Cut(left_out)));
        }
        for (at, what) in ops {
            drawn.put(at, track, what);
        }
    }

    /// What all threads know of each actor.
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

    /// Stretches of an actor's states: from, to, what.
    fn states(&self, actor: &Actor) -> Vec<(u64, u64, &'a str)> {
        let mut states: Vec<(u64, u64, &'a str)> = Vec::new();
        let ends = actor.changes.iter().skip(1).map(|change| change.at).chain([self.limit()]);
        for (change, end) in actor.changes.iter().zip(ends) {
            let Some(doing) = change.doing.map(|doing| self.text(doing)) else { continue };
            match states.last_mut() {
                Some((_, to, before)) if *to == change.at && *before == doing => *to = end,
                _ => states.push((change.at, end, doing)),
            }
        }
        states
    }

    /// Arrows by the number of what is made: one for each that takes it. Only those that have both ends.
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

    /// What a thread did, as beginnings, ends and moments in their order.
    fn edges(&self, number: usize, arrows: &Arrows) -> Vec<Edge<'a>> {
        let (limit, thread) = (self.limit(), &self.threads[number]);
        let mut edges = Vec::new();
        let mut open: Vec<u64> = Vec::new();
        let arrivals = thread.arrivals.iter().enumerate().filter(|(_, arrival)| arrival.by.is_none());
        let mut arrivals = arrivals.filter(|(_, arrival)| arrival.at <= limit).peekable();
        let moment = |(place, arrival): (usize, &'a Arrival)| {
            let arrow = arrows.to.get(&(number, place)).copied();
            let what = TrackEventKind::Instant(self.text(arrival.name), thread.notes_of_arrival(arrival), arrow);
            Edge { at: arrival.at, what }
        };
        let close = |edges: &mut Vec<Edge<'a>>, open: &mut Vec<u64>, until: u64| {
            while let Some(end) = open.pop_if(|end| *end <= until) {
                edges.push(Edge { at: end, what: TrackEventKind::End });
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
            edges
                .push(Edge { at: slice.begin, what: TrackEventKind::Begin(name, thread.notes_of_slice(slice), flows) });
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

    /// What actors take that are no threads.
    fn draw_arrivals(&self, tracks: &BTreeMap<u64, usize>, arrows: &Arrows, drawn: &mut Drawn<'a>) {
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

/// Arrows that begin with what is made under a number, and those that end with an arrival of a thread.
#[derive(Default)]
struct Arrows {
    from: BTreeMap<u64, Vec<u64>>,
    to: BTreeMap<(usize, usize), u64>,
}

/// A beginning, an end or a moment of a thread.
#[derive(Clone, Debug)]
struct Edge<'a> {
    at: u64,
    what: TrackEventKind<'a>,
}

/// A track in the drawing: states, and within them what is done.
struct Strip<'p, 'a> {
    picture: &'p Picture<'a>,
    track: usize,
    states: Vec<(u64, u64, &'a str)>,
}

impl<'a> Strip<'_, 'a> {
    /// Draws what is done into the states. At one moment ends come before a change of state, and beginnings after it.
    fn draw(&self, edges: Vec<Edge<'a>>, drawn: &mut Drawn<'a>) {
        let mut turns: Vec<(u64, Option<&'a str>)> = Vec::new();
        for (from, to, doing) in &self.states {
            if turns.last().is_some_and(|(at, _)| at == from) {
                turns.pop();
            }
            turns.extend([(*from, Some(*doing)), (*to, None)]);
        }
        let mut turns = turns.into_iter().peekable();
        let mut open: Vec<(&'a str, &'a [Note])> = Vec::new();
        let mut state = None;
        for edge in edges {
            let is_end = matches!(edge.what, TrackEventKind::End);
            while let Some(turn) = turns.next_if(|(at, _)| *at < edge.at || (*at == edge.at && !is_end)) {
                self.turn(turn, &mut state, &open, drawn);
            }
            match &edge.what {
                TrackEventKind::Begin(name, notes, _) => open.push((name, notes)),
                TrackEventKind::End => drop(open.pop()),
                _ => {}
            }
            drawn.put(edge.at, self.track, edge.what);
        }
        for turn in turns {
            self.turn(turn, &mut state, &open, drawn);
        }
    }

    /// Ends what continues, changes the state, and continues.
    fn turn(
        &self,
        (at, doing): (u64, Option<&'a str>),
        state: &mut Option<&'a str>,
        open: &[(&'a str, &'a [Note])],
        drawn: &mut Drawn<'a>,
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
