//! Signals, their meaning, and the phases of a run.

use tokio::signal::unix::SignalKind;

/// Received request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt = 1,
    /// SIGTERM, which schedulers send before they kill. A file `stop` in the run folder has the same effect.
    Terminate = 2,
    /// SIGHUP: the terminal was closed.
    Hangup = 3,
    /// SIGUSR1, which schedulers send some time before the end if configured so (Slurm's `--signal=USR1@120`).
    Requeue = 4,
}

impl Signal {
    pub(super) const ALL: [Self; 4] = [Self::Interrupt, Self::Terminate, Self::Hangup, Self::Requeue];

    /// The exit code once the run is saved: 128 plus the signal's number.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
            Self::Hangup => 129,
            Self::Requeue => 138,
        }
    }

    pub(super) fn kind(self) -> SignalKind {
        match self {
            Self::Interrupt => SignalKind::interrupt(),
            Self::Terminate => SignalKind::terminate(),
            Self::Hangup => SignalKind::hangup(),
            Self::Requeue => SignalKind::user_defined1(),
        }
    }

    /// Meaning of the signal for this process.
    pub(super) fn meaning(self) -> SignalMeaning {
        if self != Self::Hangup {
            return SignalMeaning::Stop;
        }
        if is_ignored(self.kind()) {
            SignalMeaning::Nothing
        } else if has_terminal() {
            SignalMeaning::Stop
        } else {
            SignalMeaning::Reload
        }
    }
}

/// Meaning of a signal for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalMeaning {
    /// Save, and exit.
    Stop,
    /// Read the log level again: without a terminal, SIGHUP cannot mean that the terminal was closed.
    Reload,
    /// Ignore: the process was started by `nohup` and survives its terminal.
    Nothing,
}

fn is_ignored(kind: SignalKind) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

/// Whether this process has a controlling terminal. If that is unknown, returns `true`: SIGHUP then saves the run.
fn has_terminal() -> bool {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return true };
    // Fields after the name, which may contain any character: state, parent, group, session, terminal.
    let terminal = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(4));
    terminal != Some("0")
}

/// Phase of a run. Each signal is logged with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Planning, opening data, building the model, reading a checkpoint: there is nothing to save yet.
    Start,
    /// Waiting for a batch.
    Data,
    /// Computing a step.
    Step,
    /// Computing metrics on the validation split.
    Validation,
    /// Taking a snapshot, or waiting until the previous one is written.
    Checkpoint,
}

impl Phase {
    /// The names of all phases, in order.
    pub const NAMES: [&str; 5] = ["start", "data", "step", "validation", "checkpoint"];
    pub(super) const ALL: [Self; 5] = [Self::Start, Self::Data, Self::Step, Self::Validation, Self::Checkpoint];

    /// Returns the phase of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(|index| Self::ALL[index])
    }

    /// Name of the phase.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
