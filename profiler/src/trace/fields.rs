//! Fields of a span or an event of the target.

use std::fmt::Debug;

use tracing::field::{Field, Visit};

use super::buffer::{ArrivalFields, Fill, Note, NotedEntry, State, Text, Value};
use super::shared::Texts;

/// Largest number of annotations of a slice.
const NOTES: usize = 8;

/// Parsed fields of one span or event.
pub(super) struct Fields<'a> {
    texts: &'a Texts,
    what: Option<Text>,
    actor: Option<Text>,
    numbers: Numbers,
    own: bool,
    often: bool,
    notes: Vec<Note>,
}

/// Fields with a special meaning.
#[derive(Default)]
struct Numbers {
    id: Option<u64>,
    at_ns: Option<u64>,
    makes: Option<u64>,
    takes: Option<u64>,
    by: Option<u64>,
    queue: Option<u64>,
    fill: Option<u64>,
    capacity: Option<u64>,
}

impl<'a> Fields<'a> {
    pub(super) fn read(texts: &'a Texts, record: impl FnOnce(&mut Self)) -> Self {
        let numbers = Numbers::default();
        let mut fields = Self { texts, what: None, actor: None, numbers, own: false, often: false, notes: Vec::new() };
        record(&mut fields);
        fields
    }

    /// Returns the state of an actor, if the span is one. `name` is the name of the span.
    pub(super) fn state(&self, name: &str, now: u64) -> Option<State> {
        let actor = self.numbers.id?;
        let at = self.numbers.at_ns.unwrap_or(now);
        Some(State { actor, name: self.actor?, own: self.own, doing: self.texts.number(name), at })
    }

    /// Converts any other span.
    pub(super) fn noted(self, name: &str) -> NotedEntry {
        let makes = self.numbers.makes.unwrap_or(0);
        let often = self.often;
        NotedEntry { name: self.what.unwrap_or_else(|| self.texts.number(name)), makes, often, notes: self.notes }
    }

    /// Returns the fill of a queue, if the event reports one.
    pub(super) fn fill(&self, at: u64) -> Option<Fill> {
        let Numbers { queue, fill, capacity, .. } = self.numbers;
        Some(Fill { at, actor: queue?, items: fill?, capacity: capacity? })
    }

    /// Returns the arrival at time `at`, if the event is one. `name` is its default name.
    pub(super) fn arrival(&self, at: u64, name: &str) -> Option<ArrivalFields<'_>> {
        let name = self.what.unwrap_or_else(|| self.texts.number(name));
        Some(ArrivalFields { at, takes: self.numbers.takes?, by: self.numbers.by, name, notes: &self.notes })
    }

    fn note(&mut self, field: &Field, value: Value) {
        if self.notes.len() < NOTES {
            self.notes.push((field.name(), value));
        }
    }
}

impl Visit for Fields<'_> {
    fn record_u64(&mut self, field: &Field, value: u64) {
        let Numbers { id, at_ns, makes, takes, by, queue, fill, capacity } = &mut self.numbers;
        let place = match field.name() {
            "id" => id,
            "at_ns" => at_ns,
            "makes" => makes,
            "takes" => takes,
            "by" => by,
            "queue" => queue,
            "fill" => fill,
            "capacity" => capacity,
            _ => return self.note(field, Value::Number(value)),
        };
        *place = Some(value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.note(field, Value::Signed(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.note(field, Value::Real(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "own" => self.own = value,
            "often" => self.often = value,
            _ => self.note(field, Value::Yes(value)),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let text = self.texts.number(value);
        match field.name() {
            "what" => self.what = Some(text),
            "actor" => self.actor = Some(text),
            _ => self.note(field, Value::Text(text)),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
