//! Prometheus metrics of a run: metrics of its events, and the current state of its workers and probes.

use telemetry::prometheus::{self, MetricFamily};
use telemetry::run_metrics::InstrumentKind::{self, Counter, Gauge};

use crate::backend::{ActorStatus, Backend, Status};
use crate::run_state::{Kind, RunState};

/// Returns the text of a scrape.
pub(crate) fn text(seen: &RunState, subject: &dyn Backend, listeners: usize) -> String {
    let status = subject.status();
    let health = subject.health();
    let up = |state: &Result<(), String>| f64::from(u8::from(state.is_ok()));
    let mut families = vec![
        build(seen),
        MetricFamily::gauge("cloze_watch_listeners", "Clients that listen to events.", listeners as f64),
        MetricFamily::gauge("cloze_live", "Whether the process makes progress.", up(&health.live)),
        MetricFamily::gauge("cloze_ready", "Whether the process does its task.", up(&health.ready)),
    ];
    families.extend(status_families(&status));
    families.extend(actor_families(&status.actors.iter().chain(&status.validation).collect::<Vec<_>>()));
    prometheus::text(&seen.state().metrics, families)
}

fn family(
    name: &'static str,
    help: &'static str,
    kind: InstrumentKind,
    labels: &[&'static str],
    values: impl IntoIterator<Item = (Vec<String>, f64)>,
) -> MetricFamily {
    MetricFamily { name, help, kind, labels: labels.to_vec(), values: values.into_iter().collect() }
}

fn build(seen: &RunState) -> MetricFamily {
    let kind = match seen.about.kind {
        Kind::Train => "train",
        Kind::Prepare => "prepare",
    };
    let labels = vec![seen.about.program.clone(), kind.to_owned()];
    family("cloze_build_info", "Version and task of the program.", Gauge, &["program", "kind"], [(labels, 1.0)])
}

fn status_families(status: &Status) -> Vec<MetricFamily> {
    let known = [
        ("cloze_steps_planned", "Planned steps.", status.steps.map(|steps| steps as f64)),
        ("cloze_progress_ratio", "Completed fraction.", status.progress),
        ("cloze_eta_seconds", "Estimated remaining time.", status.eta_s),
        (
            "cloze_memory_resident_bytes",
            "Resident memory of the process.",
            status.memory.host_bytes.map(|bytes| bytes as f64),
        ),
        (
            "cloze_memory_device_bytes",
            "Peak device memory of tensors since the last report.",
            status.memory.device_bytes.map(|bytes| bytes as f64),
        ),
    ];
    let always = [
        MetricFamily::gauge("cloze_uptime_seconds", "Time since the process began.", status.uptime_s),
        MetricFamily::gauge("cloze_phase_age_seconds", "Time since the phase began.", status.since_s),
        MetricFamily::gauge(
            "cloze_checkpoint_writing_seconds",
            "Time since the current checkpoint write began; 0 without a write.",
            status.checkpoint.writing_s.unwrap_or(0.0),
        ),
        family("cloze_phase", "1 for the current phase.", Gauge, &["phase"], [(vec![status.phase.clone()], 1.0)]),
    ];
    let known = known.into_iter().filter_map(|(name, help, value)| Some(MetricFamily::gauge(name, help, value?)));
    known.chain(always).collect()
}

fn actor_families(actors: &[&ActorStatus]) -> Vec<MetricFamily> {
    let queues = || actors.iter().filter(|actor| actor.capacity > 0);
    let times = actors.iter().flat_map(|actor| {
        [("busy", actor.busy_s), ("starved", actor.starved_s), ("blocked", actor.blocked_s)]
            .map(|(doing, seconds)| (vec![actor.name.clone(), doing.to_owned()], seconds))
    });
    let named = |actor: &ActorStatus, value: u64| (vec![actor.name.clone()], value as f64);
    let families = [
        family(
            "cloze_actor_seconds_total",
            "Time of an actor: busy, starved of input, blocked by its full queue.",
            Counter,
            &["actor", "doing"],
            times,
        ),
        family(
            "cloze_actor_items_total",
            "Items that an actor has completed.",
            Counter,
            &["actor"],
            actors.iter().map(|actor| named(actor, actor.items)),
        ),
        family(
            "cloze_queue_items",
            "Items in the queue of an actor.",
            Gauge,
            &["actor"],
            queues().map(|actor| named(actor, actor.queued)),
        ),
        family(
            "cloze_queue_capacity_items",
            "Capacity of the queue of an actor.",
            Gauge,
            &["actor"],
            queues().map(|actor| named(actor, actor.capacity)),
        ),
    ];
    families.into()
}
