//! Request to stop a run.

/// Origin of a stop request. It determines the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopRequest {
    /// SIGINT: 130.
    Interrupt,
    /// SIGTERM: 143.
    Terminate,
    /// SIGHUP, the terminal was closed: 129.
    Hangup,
    /// SIGUSR1, a scheduler requeues the run: 138.
    Requeue,
    /// Spike guard: a loss spike with `spike_guard.action = "pause"`: 45.
    Guard,
}
