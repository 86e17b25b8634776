//! Possible bottlenecks of a pipeline.

/// Bottleneck of a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub enum Bottleneck {
    /// Too little data was measured.
    Unknown,
    /// The consumer of the items.
    Reader,
    /// All workers, computing.
    Workers,
    /// One worker. The others wait for it, since items are taken in order.
    Worker(String),
    /// The input of the workers: they wait for parts, or for another worker that decodes them.
    Source,
    /// Disk, network or sleep: workers wait outside the processors.
    Outside,
    /// Processors: more threads are ready than processors exist.
    Cores,
    /// The queues: workers and consumer wait for each other's bursts.
    Room,
}

impl Bottleneck {
    /// Returns the name for machine-readable output.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Reader => "trainer",
            Self::Workers => "loader",
            Self::Worker(_) => "worker",
            Self::Source => "source",
            Self::Outside => "outside",
            Self::Cores => "processors",
            Self::Room => "nothing",
        }
    }
}
