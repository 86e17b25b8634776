//! Replacement of the exporter in a program without the feature `otlp`. The configuration is refused before it is used.

use super::run_resource::RunResource;
use crate::Observer;

/// Exporter that cannot exist.
pub enum Otlp {}

impl Otlp {
    /// Returns none.
    pub fn start(_is_enabled: bool, _resource: &RunResource) -> Option<Self> {
        None
    }

    /// Cannot be called: there is no value.
    pub fn reader(&self) -> Box<dyn Observer> {
        match *self {}
    }

    /// Cannot be called: there is no value.
    pub fn failed(&self, _error: &dyn std::fmt::Display) {
        match *self {}
    }
}
