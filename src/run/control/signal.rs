//! Which signals there are, what each asks for, and what a run is doing when one comes.

use tokio::signal::unix::SignalKind;

/// A request to stop that has been heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Signal {
    /// Ctrl-C.
    Interrupt = 1,
    /// What schedulers send before they kill; a file `stop` in the run's folder asks for the same.
    Terminate = 2,
    /// The terminal went away.
    Hangup = 3,
    /// SIGUSR1, what schedulers are asked to send some time before the end (Slurm's `--signal=USR1@120`).
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

    /// What it is for this process.
    pub(super) fn meaning(self) -> Meaning {
        if self != Self::Hangup {
            return Meaning::Stop;
        }
        if is_ignored(self.kind()) {
            Meaning::Nothing
        } else if has_terminal() {
            Meaning::Stop
        } else {
            Meaning::Reload
        }
    }
}

/// What a signal asks of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Save, and leave.
    Stop,
    /// Read the log level again: nothing can go away that a service never had.
    Reload,
    /// Who started this process wants it to outlive its terminal: `nohup`.
    Nothing,
}

fn is_ignored(kind: SignalKind) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

/// Whether this process has a controlling terminal. Where nobody knows, it has: then nothing is lost that was not saved.
fn has_terminal() -> bool {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return true };
    // Behind the name, which may hold anything: state, parent, group, session, terminal.
    let terminal = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(4));
    terminal != Some("0")
}

/// What a run is doing: a signal is logged with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Planning, opening data, building the model, reading a checkpoint: nothing is there that has to be saved.
    Start,
    /// Waiting for a batch.
    Data,
    /// Computing a step.
    Step,
    /// Looking at the valid split.
    Validation,
    /// Taking a snapshot, or waiting for the one before it to be written.
    Checkpoint,
}

impl Phase {
    /// The names of all phases, in order.
    pub const NAMES: [&str; 5] = ["start", "data", "step", "validation", "checkpoint"];
    pub(super) const ALL: [Self; 5] = [Self::Start, Self::Data, Self::Step, Self::Validation, Self::Checkpoint];

    /// The phase of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(|index| Self::ALL[index])
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
