//! The networks of a run, by name.
//!
//! [`MAIN`] is the one that is trained and exported. Beside it a run may have a [`generator`], which fills a masked view
//! with its own guesses and so makes a new view on the device, and a [`teacher`], which stays as the run began. A network
//! that no objective of the loss reads is not built.

pub mod built;
pub mod generator;
pub mod sampler;
pub mod teacher;

use serde::{Deserialize, Serialize};

use self::generator::Generator;
use self::teacher::Teacher;
use crate::model::shape::EncoderConfig;

/// The network that a run exports.
pub const MAIN: &str = "main";

/// `[networks.NAME]`: a network beside the main one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AnyNetwork {
    /// Fills a masked view with samples.
    Generator(Generator),
    /// A frozen copy of the first weights.
    Teacher(Teacher),
}

impl AnyNetwork {
    /// The kinds, as they are written.
    pub const KINDS: &'static [&'static str] = &["generator", "teacher"];

    /// The generator, if it is one.
    #[must_use]
    pub fn generator(&self) -> Option<&Generator> {
        match self {
            Self::Generator(generator) => Some(generator),
            Self::Teacher(_) => None,
        }
    }

    /// The shape of its encoder beside a main network of shape `main`; `None` where it needs none.
    #[must_use]
    pub fn encoder(&self, main: &EncoderConfig) -> Option<EncoderConfig> {
        match self {
            Self::Generator(generator) => generator.encoder(main),
            Self::Teacher(_) => Some(main.clone()),
        }
    }
}
