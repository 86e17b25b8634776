//! A program without the feature: nobody is told. Whoever asks for it is refused before this is reached.

use super::speaker::Speaker;
use crate::Observer;

/// There is none.
pub enum Otlp {}

impl Otlp {
    /// Nothing is started.
    pub fn start(_is_wanted: bool, _speaker: &Speaker) -> runtime::Result<Option<Self>> {
        Ok(None)
    }

    /// Nobody hears.
    pub fn reader(&self) -> Box<dyn Observer> {
        match *self {}
    }

    /// Nobody is told.
    pub fn failed(&self, _error: &dyn std::fmt::Display) {
        match *self {}
    }
}
