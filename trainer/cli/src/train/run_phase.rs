//! Current phase of a run, which the log of a signal includes, and its delay with `--slow`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use cloze::exit::Usage;
use cloze::run::control::{Control, Phase};
use telemetry::terminal::note;

/// Maximum time for which a phase is held.
const HOLD_MAX: Duration = Duration::from_secs(120);

/// Delay of one phase: `--slow PHASE=MS` or `--slow PHASE@N`.
#[derive(Clone, Debug)]
pub(super) struct SlowPhase {
    phase: Phase,
    delay: Delay,
}

#[derive(Clone, Debug)]
enum Delay {
    /// Sleeps at every entry.
    Sleep(Duration),
    /// Holds the phase at entry `number` until a stop is requested. Stderr has a line when it starts.
    Hold { number: u64, entered: Arc<AtomicU64> },
}

impl SlowPhase {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let sleep = |(phase, ms): (&str, &str)| {
            let delay = Delay::Sleep(Duration::from_millis(ms.parse().ok()?));
            Some(Self { phase: Phase::parse(phase)?, delay })
        };
        let hold = |(phase, number): (&str, &str)| {
            let number = number.parse().ok().filter(|number| *number > 0)?;
            let delay = Delay::Hold { number, entered: Arc::default() };
            Some(Self { phase: Phase::parse(phase)?, delay })
        };
        let parsed = text.split_once('=').and_then(sleep).or_else(|| text.split_once('@').and_then(hold));
        parsed.with_context(|| {
            Usage(format!(
                "--slow {text}: expected a phase and milliseconds, like `validation=400`, or a phase and the number of its entry, like `step@2`; the phases are {}",
                Phase::NAMES.join(", ")
            ))
        })
    }
}

/// Reporter of a run's phase, shared by the data source and the host of the trainer.
#[derive(Clone)]
pub(super) struct Phases {
    pub(super) control: Arc<Control>,
    pub(super) slow: Option<SlowPhase>,
}

impl Phases {
    /// Enters a phase, and delays it if `--slow` requests that.
    pub(super) fn begin(&self, phase: Phase) {
        self.control.set_phase(phase);
        let Some(slow) = self.slow.as_ref().filter(|slow| slow.phase == phase) else { return };
        match &slow.delay {
            Delay::Sleep(time) => std::thread::sleep(*time),
            Delay::Hold { number, entered } if entered.fetch_add(1, Ordering::Relaxed) + 1 == *number => {
                note(format_args!("holding phase `{}` until a stop is requested", phase.name()));
                let _ = self.control.stop().is_cancelled_within(HOLD_MAX);
            }
            Delay::Hold { .. } => {}
        }
    }
}
