//! Steps of a reader of examples.

use crate::RowError;
use crate::example::Example;

/// Step of a reader of examples.
pub(super) enum ExampleStep {
    /// Example.
    Example(Example),
    /// Blank line.
    Blank,
    /// Line of another number of fields, dropped as the layout says.
    Dropped,
    /// Invalid line.
    Invalid(RowError),
    /// End of the file.
    End,
}

/// Source of examples of one file.
pub(super) trait ExampleSource {
    /// Reads the next example. `number` is its id if the file has none.
    fn step(&mut self, number: u64) -> ExampleStep;
}
