//! Prometheus' metrics: base units, suffixes and types by its conventions.
//!
//! A registry is made for each scrape, from what is known: nothing is counted twice, and what goes (an actor that ended,
//! a term that is no longer) goes here too. Labels are names of actors, of queues, and of terms and metrics: as many as
//! the configuration has.

use prometheus::core::Collector;
use prometheus::{Counter, CounterVec, Gauge, GaugeVec, Opts, Registry, TextEncoder};
use telemetry::What;
use telemetry::report_metrics::REPORT_METRICS;
use telemetry::training::StepReport;

use crate::seen::Seen;
use crate::subject::{ActorStatus, Status, Subject};

/// What is sent as.
pub(crate) const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// All metrics of a run, now.
pub(crate) fn rendered(seen: &Seen, subject: &dyn Subject, listeners: usize) -> String {
    let page = Page::default();
    let status = subject.status();
    page.about(seen);
    page.of_status(&status);
    page.actors(status.actors.iter().chain(&status.validation));
    page.of_events(seen);
    page.gauge("cloze_watch_listeners", "Clients that listen to events.", listeners as f64);
    let health = subject.health();
    let up = |state: &Result<(), String>| f64::from(u8::from(state.is_ok()));
    page.gauge("cloze_live", "Whether somebody moves.", up(&health.live));
    page.gauge("cloze_ready", "Whether it does what it is for.", up(&health.ready));
    page.text()
}

/// Metrics in the making.
#[derive(Default)]
struct Page(Registry);

impl Page {
    fn put(&self, metric: impl Collector + 'static) {
        self.0.register(Box::new(metric)).expect("each name is said once, in one form");
    }

    fn gauge(&self, name: &str, help: &str, value: f64) {
        let gauge = Gauge::new(name, help).expect("a good name");
        gauge.set(value);
        self.put(gauge);
    }

    fn some(&self, name: &str, help: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.gauge(name, help, value);
        }
    }

    fn counter(&self, name: &str, help: &str, value: f64) {
        let counter = Counter::new(name, help).expect("a good name");
        counter.inc_by(value.max(0.0));
        self.put(counter);
    }

    fn gauges<'a>(&self, (name, help, label): (&str, &str, &str), values: impl IntoIterator<Item = (&'a str, f64)>) {
        let family = GaugeVec::new(Opts::new(name, help), &[label]).expect("a good name");
        values.into_iter().for_each(|(of, value)| family.with_label_values(&[of]).set(value));
        self.put(family);
    }

    fn about(&self, seen: &Seen) {
        let about = &seen.about;
        let build =
            GaugeVec::new(Opts::new("cloze_build_info", "Who runs it."), &["program", "kind"]).expect("a good name");
        let kind = match about.kind {
            crate::seen::Kind::Train => "train",
            crate::seen::Kind::Prepare => "prepare",
        };
        build.with_label_values(&[about.program.as_str(), kind]).set(1.0);
        self.put(build);
    }

    fn of_status(&self, status: &Status) {
        self.gauge("cloze_uptime_seconds", "Time since the process began.", status.uptime_s);
        self.some("cloze_steps_planned", "Steps by plan.", status.steps.map(|steps| steps as f64));
        self.some("cloze_progress_ratio", "The share that is done.", status.progress);
        self.some("cloze_eta_seconds", "Time that is left.", status.eta_s);
        let phase = (status.phase.as_str(), 1.0);
        self.gauges(("cloze_phase", "What is being done: 1 for the phase of that name.", "phase"), [phase]);
        self.gauge("cloze_phase_age_seconds", "For how long.", status.since_s);
        let host = status.memory.host_bytes.map(|bytes| bytes as f64);
        self.some("cloze_memory_resident_bytes", "Memory of the process.", host);
        let device = status.memory.device_bytes.map(|bytes| bytes as f64);
        self.some("cloze_memory_device_bytes", "The most that tensors had at once since the last report.", device);
        let writing = status.checkpoint.writing_s.unwrap_or(0.0);
        self.gauge("cloze_checkpoint_writing_seconds", "For how long one is being written; 0 if none is.", writing);
    }

    fn actors<'a>(&self, actors: impl Iterator<Item = &'a ActorStatus> + Clone) {
        let times = CounterVec::new(
            Opts::new(
                "cloze_actor_seconds_total",
                "Time of an actor: busy, starved of input, blocked by what is behind it.",
            ),
            &["actor", "doing"],
        );
        let times = times.expect("a good name");
        for actor in actors.clone() {
            for (doing, seconds) in [("busy", actor.busy_s), ("starved", actor.starved_s), ("blocked", actor.blocked_s)]
            {
                times.with_label_values(&[actor.name.as_str(), doing]).inc_by(seconds);
            }
        }
        self.put(times);
        let items = CounterVec::new(Opts::new("cloze_actor_items_total", "Items that an actor has done."), &["actor"]);
        let items = items.expect("a good name");
        for actor in actors.clone() {
            items.with_label_values(&[actor.name.as_str()]).inc_by(actor.items as f64);
        }
        self.put(items);
        let queues = actors.filter(|actor| actor.capacity > 0);
        let queued = queues.clone().map(|actor| (actor.name.as_str(), actor.queued as f64));
        self.gauges(("cloze_queue_items", "Items that wait behind an actor.", "actor"), queued);
        let capacity = queues.map(|actor| (actor.name.as_str(), actor.capacity as f64));
        self.gauges(("cloze_queue_capacity_items", "Items that may wait behind an actor.", "actor"), capacity);
    }

    fn of_events(&self, seen: &Seen) {
        let state = seen.state();
        let counted = state.counted;
        let counts = [
            ("cloze_rows_total", "Rows learnt from by this process.", counted.rows as f64),
            ("cloze_tokens_total", "Real tokens learnt from by this process.", counted.tokens as f64),
            ("cloze_steps_skipped_total", "Steps of this process that updated nothing.", counted.skipped as f64),
            ("cloze_checkpoints_total", "Checkpoints kept by this process.", counted.checkpoints as f64),
            (
                "cloze_checkpoint_write_seconds_total",
                "Time that writing them took, beside training.",
                counted.checkpoint_s,
            ),
            ("cloze_checkpoint_stall_seconds_total", "Time that steps waited for them.", counted.stall_s),
            ("cloze_validations_total", "Validations of this process.", counted.validations as f64),
            ("cloze_validation_seconds_total", "Time that they took.", counted.validation_s),
            ("cloze_warnings_total", "Warnings of this process.", counted.warnings as f64),
            ("cloze_leaps_total", "Steps that leapt.", counted.leaps as f64),
            ("cloze_rows_left_out_total", "Rows that cannot be made.", counted.left_out as f64),
            ("cloze_starved_seconds_total", "Time that steps waited for data being prepared.", counted.starved_s),
        ];
        for (name, help, value) in counts {
            self.counter(name, help, value);
        }
        let at = &state.at;
        self.some("cloze_step", "Steps done, as far as was said.", at.step.map(|step| step.0 as f64));
        self.some("cloze_epoch", "Passes over the data.", at.epoch);
        let seen = at.rows_seen.map(|rows| rows as f64);
        self.some("cloze_rows_seen", "Rows learnt from since the run's first step; fewer after it went back.", seen);
        let seen = at.tokens_seen.map(|tokens| tokens as f64);
        self.some(
            "cloze_tokens_seen",
            "Real tokens learnt from since the run's first step; fewer after it went back.",
            seen,
        );
        if let Some(event) = &state.newest {
            let said = event.time as f64 / 1e3;
            self.gauge("cloze_report_timestamp_seconds", "When the last report was said.", said);
            match &event.what {
                What::Report(report) => self.learnt(report),
                What::PrepareProgress(now) => {
                    self.counter(
                        "cloze_prepare_text_bytes_total",
                        "Text tokenized by this process.",
                        now.text_bytes as f64,
                    );
                    self.counter("cloze_prepare_tokens_total", "Tokens made by this process.", now.tokens as f64);
                    self.gauge("cloze_prepare_parts", "Parts that are there.", now.parts as f64);
                    self.gauge("cloze_prepare_parts_planned", "Parts of the corpus.", now.parts_total as f64);
                }
                _ => {}
            }
        }
        if let Some(What::Validation(report)) = state.validation.as_ref().map(|event| &event.what) {
            self.gauge("cloze_validation_loss", "Loss of the valid split.", report.loss);
            let terms = report.terms.iter().map(|(name, value)| (name.as_str(), *value));
            self.gauges(("cloze_validation_term_loss", "Each term over the valid split.", "term"), terms);
            let mlm = report.mlm.as_ref();
            self.some("cloze_validation_mlm_loss", "Plain masked language modelling.", mlm.map(|mlm| mlm.loss));
            self.some("cloze_validation_mlm_accuracy_ratio", "Its accuracy.", mlm.map(|mlm| mlm.accuracy));
        }
    }

    fn learnt(&self, report: &StepReport) {
        for metric in REPORT_METRICS {
            if let (Some(name), Some(value)) = (metric.prometheus, (metric.value)(report)) {
                self.gauge(name, metric.description, value);
            }
        }
        let figures = &report.figures;
        let named = |of: &std::collections::BTreeMap<String, f64>| {
            of.iter().map(|(name, value)| (name.clone(), *value)).collect::<Vec<_>>()
        };
        let (terms, metrics) = (named(&figures.terms), named(&figures.metrics));
        let terms = terms.iter().map(|(name, value)| (name.as_str(), *value));
        self.gauges(("cloze_term_loss", "Each term of the loss.", "term"), terms);
        let metrics = metrics.iter().map(|(name, value)| (name.as_str(), *value));
        self.gauges(("cloze_metric", "Metrics beside the loss.", "metric"), metrics);
    }

    fn text(&self) -> String {
        TextEncoder::new().encode_to_string(&self.0.gather()).unwrap_or_else(|error| format!("# {error}\n"))
    }
}
