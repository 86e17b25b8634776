//! What every actor did while a profile was measured, into files that others read.

use std::path::Path;
use std::time::Duration;

use profiler::measure::Measured;
pub use profiler::trace::{Limits, Recorded, Trace};
use telemetry::terminal::note;

use super::super::output_file;
use crate::cli::{ProfileTarget, TraceArgs};
use crate::exit::Usage;

/// A trace next to a profile, if anybody wants one.
pub struct Recording {
    wanted: TraceArgs,
    trace: Option<Trace>,
    recorded: Option<Recorded>,
}

impl Recording {
    /// Begins it where a file is asked for, and refuses what could not be written in the end.
    pub(super) fn begin(wanted: &TraceArgs, target: ProfileTarget) -> anyhow::Result<Self> {
        let wanted = wanted.clone();
        let files: Vec<&Path> = [&wanted.trace, &wanted.folded].into_iter().flatten().map(AsRef::as_ref).collect();
        let trace = if files.is_empty() {
            None
        } else {
            if !can_be_traced(target) {
                let message = "`--trace` and `--folded` are of one target, online, prepare or train";
                return Err(Usage(message.to_owned()).into());
            }
            let entries = if wanted.trace.is_some() { wanted.max_trace_events } else { 0 };
            Some(Trace::begin(Limits { entries, stacks: wanted.folded.is_some() })?)
        };
        Ok(Self { wanted, trace, recorded: None })
    }

    /// None.
    pub fn none() -> Self {
        Self { wanted: TraceArgs::default(), trace: None, recorded: None }
    }

    /// Ends it: what was measured is over. `reader` is what the reader of the workers calls itself, and its name in the table.
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

    /// Writes the files that were asked for, and says what they have.
    pub(super) fn write(self) -> anyhow::Result<()> {
        let Some(recorded) = self.recorded else { return Ok(()) };
        if let Some(path) = &self.wanted.trace {
            output_file::stream(path, |out| recorded.perfetto(out))?;
            let (place, entries) = (path.display(), recorded.entries());
            note(format_args!("{place}: {entries} entries, for https://ui.perfetto.dev"));
            if let Some((left_out, after)) = recorded.left_out() {
                note(format_args!(
                    "warning: {place}: its room was used up after {after:.1} s, and {left_out} are left out; raise \
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
