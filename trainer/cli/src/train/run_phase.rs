//! What a run is doing at the moment, for signals to be logged with.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use cloze::control::{Control, Phase};
use cloze::exit::Usage;

/// `--slow PHASE=MS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slow {
    phase: Phase,
    pause: Duration,
}

impl Slow {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let parsed = text.split_once('=').and_then(|(phase, ms)| Some((Phase::parse(phase)?, ms.parse::<u64>().ok()?)));
        let (phase, ms) = parsed.with_context(|| {
            Usage(format!(
                "--slow {text}: expected a phase and milliseconds, like `validation=400`; the phases are {}",
                Phase::NAMES.join(", ")
            ))
        })?;
        Ok(Self { phase, pause: Duration::from_millis(ms) })
    }
}

/// Reports the phase of a run, from the data side and the host side of the trainer.
#[derive(Clone)]
pub(super) struct Phases {
    pub(super) control: Arc<Control>,
    pub(super) slow: Option<Slow>,
}

impl Phases {
    /// Enters a phase, and stays in it for a while if that was asked for.
    pub(super) fn enter(&self, phase: Phase) {
        self.control.enter(phase);
        if let Some(slow) = self.slow.filter(|slow| slow.phase == phase) {
            std::thread::sleep(slow.pause);
        }
    }
}
