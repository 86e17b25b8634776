//! Trace of all actors during a profile, for external viewers.

use std::path::Path;
use std::time::Duration;

use profiler::measure::Measured;
pub use profiler::trace::{Limits, Recorded, Trace};
use telemetry::terminal::note;

use super::super::output_file;
use crate::cli::{ProfileTarget, TraceArgs};
use crate::exit::Usage;

/// Optional trace of a profile.
pub struct Recording {
    wanted: TraceArgs,
    trace: Option<Trace>,
    recorded: Option<Recorded>,
}

impl Recording {
    /// Starts the trace if a file is requested. Refuses files that could not be written at the end.
    pub(super) fn begin(wanted: &TraceArgs, target: ProfileTarget) -> anyhow::Result<Self> {
        let wanted = wanted.clone();
        let files: Vec<&Path> = [&wanted.trace, &wanted.folded].into_iter().flatten().map(AsRef::as_ref).collect();
        let trace = if files.is_empty() {
            None
        } else {
            if !can_be_traced(target) {
                let message = "`--trace` and `--folded` need one target: loader, prepare or train";
                return Err(Usage(message.to_owned()).into());
            }
            let entries = if wanted.trace.is_some() { wanted.max_trace_events } else { 0 };
            Some(Trace::begin(Limits { entries, stacks: wanted.folded.is_some() })?)
        };
        Ok(Self { wanted, trace, recorded: None })
    }

    /// No trace.
    pub fn none() -> Self {
        Self { wanted: TraceArgs::default(), trace: None, recorded: None }
    }

    /// Ends the trace with the measurement. `reader` is the actor name of the consumer, `name` its name in the table.
    pub fn end(&mut self, measured: &Measured, (reader, name): (&str, &str)) {
        let Some(trace) = self.trace.take() else { return };
        let mut recorded = trace.end();
        recorded.rename(reader, name);
        if let Some(begun) = measured.begun {
            let from = begun + seconds(measured.warm_up_s);
            recorded.mark("warm-up", begun, from);
            recorded.mark("measured", from, from + seconds(measured.seconds));
        }
        self.recorded = Some(recorded);
    }

    /// Writes the requested files and prints their sizes.
    pub(super) fn write(self) -> anyhow::Result<()> {
        let Some(recorded) = self.recorded else { return Ok(()) };
        if let Some(path) = &self.wanted.trace {
            output_file::stream(path, |out| recorded.perfetto(out))?;
            let place = path.display();
            let entries = recorded.entries();
            note(format_args!("{place}: {entries} entries, for https://ui.perfetto.dev"));
            if let Some((dropped, after)) = recorded.left_out() {
                note(format_args!(
                    "warning: {place}: the entry limit was reached after {after:.1} s, and {dropped} entries were dropped; raise \
                     `--max-trace-events`, or measure for less time"
                ));
            }
        }
        match &self.wanted.folded {
            Some(path) => output_file::put(path, &recorded.folded()),
            None => Ok(()),
        }
    }
}

fn can_be_traced(target: ProfileTarget) -> bool {
    match target {
        ProfileTarget::Loader | ProfileTarget::Prepare | ProfileTarget::Train => true,
        ProfileTarget::Step | ProfileTarget::All => false,
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
