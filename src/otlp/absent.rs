//! A program without the feature: nobody is told. Whoever asks for it is refused before this is reached.

use telemetry::Observer;

use super::speaker::Speaker;

/// There is none.
pub enum Otlp {}

impl Otlp {
    /// Nothing is started.
    pub fn start(_is_wanted: bool, _speaker: &Speaker) -> anyhow::Result<Option<Self>> {
        Ok(None)
    }

    /// Nobody hears.
    pub fn reader(&self) -> Box<dyn Observer> {
        match *self {}
    }

    /// Nobody is told.
    pub(crate) fn failed(&self, _error: &anyhow::Error) {
        match *self {}
    }
}
