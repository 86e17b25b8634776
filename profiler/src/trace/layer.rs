//! Tracing layer that records the spans of the target while a trace exists, independent of log levels.

use std::time::Instant;

use runtime::spans::{SPANS, nanoseconds};
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use super::buffer::NotedEntry;
use super::fields::Fields;
use super::shared::{is_on, with_buffer};

/// Returns the layer that records traces, for the subscriber of this process.
pub fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    Listener.with_filter(RecordingOnly)
}

/// Returns whether a span or an event belongs to traces, not to logs.
fn is_of_spans(metadata: &Metadata<'_>) -> bool {
    metadata.target() == SPANS
}

/// Filter for the target's spans while a trace is recorded. Switching it rebuilds the interest cache of all
/// callsites. While it is off, each callsite costs one level check.
struct RecordingOnly;

impl<S> Filter<S> for RecordingOnly {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        is_on() && is_of_spans(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if is_on() && is_of_spans(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(if is_on() { LevelFilter::TRACE } else { LevelFilter::OFF })
    }
}

struct Listener;

fn now() -> u64 {
    nanoseconds(Instant::now())
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Listener {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let name = attributes.metadata().name();
        with_buffer(|shared, buffer| {
            let fields = Fields::read(&shared.texts, |fields| attributes.record(fields));
            if is_state(attributes.metadata()) {
                if let Some(state) = fields.state(name, now()) {
                    buffer.state(id.into_u64(), state);
                }
            } else if let Some(span) = context.span(id) {
                span.extensions_mut().insert(fields.noted(name));
            }
        });
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        with_buffer(|_, buffer| {
            let Some(span) = context.span(id) else { return };
            if let Some(noted) = span.extensions().get::<NotedEntry>() {
                buffer.begin(now(), id.into_u64(), noted);
            }
        });
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        with_buffer(|_, buffer| buffer.end(now(), id.into_u64()));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        if context.span(&id).is_some_and(|span| is_state(span.metadata())) {
            with_buffer(|_, buffer| buffer.leave(now(), id.into_u64()));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let at = now();
        with_buffer(|shared, buffer| {
            let fields = Fields::read(&shared.texts, |fields| event.record(fields));
            if let Some(fill) = fields.fill(at) {
                buffer.fill(fill);
            } else if let Some(arrival) = fields.arrival(at, "taken") {
                buffer.arrive(&arrival);
            }
        });
    }
}

/// Returns whether a span is the state of an actor. Such spans are never entered.
fn is_state(metadata: &Metadata<'_>) -> bool {
    metadata.fields().field("actor").is_some()
}
