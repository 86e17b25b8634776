//! The request to stop a run.

/// The origin of a request to stop, which decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopRequest {
    /// SIGINT: 130.
    Interrupt,
    /// SIGTERM: 143.
    Terminate,
    /// SIGHUP, the terminal went away: 129.
    Hangup,
    /// SIGUSR1, a scheduler will start the run again: 138.
    Requeue,
    /// The guard: a step `spike_step`, and `spike_guard.action` is `pause`: 45.
    Guard,
}
