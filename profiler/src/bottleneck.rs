//! What can bind a pipeline.

/// What binds a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub enum Binding {
    /// Too little was seen.
    Unknown,
    /// Whoever takes the items.
    Reader,
    /// All workers, at work on processors.
    Workers,
    /// One worker, for which the others wait, since items are taken in order.
    Worker(String),
    /// What workers read from: they wait for parts, or for another who decodes them.
    Source,
    /// A disk, a network, a sleep: workers wait outside.
    Outside,
    /// More threads want a processor than there are.
    Cores,
    /// Nobody: the two sides wait for one another's bursts.
    Room,
}

impl Binding {
    /// Its name for programs.
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
