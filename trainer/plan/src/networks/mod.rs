//! The networks of a run, by name.
//!
//! [`MAIN`] is the one that is trained and exported. Next to it a run may have others, each of a kind in the table below
//! and each under its own name. A network that no objective of the loss reads is not built.
//!
//! A file here holds a network's configuration; the engine's file of the same name builds and runs it.

use std::path::Path;

use crate::encoder::EncoderConfig;
use crate::weights::WeightPath;

schemas::registry! {
    /// Every network that a run can have next to the main one.
    pub enum AnyNetwork: Network {
        generator::Generator,
        teacher::Teacher,
    }
}

/// The network that a run exports.
pub const MAIN: &str = "main";

/// A network next to the main one as configured, `[networks.NAME]`. The struct is its configuration; its `Default` is the
/// usual choice.
pub trait Network: Send + Sync {
    /// The shape of its encoder next to a main network of shape `main`; `None` where it needs none.
    fn shape(&self, main: &EncoderConfig) -> Option<EncoderConfig>;

    /// Values that cannot be trained with: the key below `networks.NAME`, and what is wrong with it.
    fn problems(&self, _main: MainNetwork<'_>) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The view that it makes on the device, if it makes one.
    fn makes(&self) -> Option<OutputView<'_>> {
        None
    }

    /// Whether the optimizer moves it.
    fn learns(&self) -> bool {
        true
    }

    /// Whether it has a head that predicts tokens.
    fn predicts_tokens(&self) -> bool {
        false
    }

    /// Whether it is a copy of the main network as the run began.
    fn copies_main(&self) -> bool {
        false
    }

    /// The folder that it begins from, if it does not begin as the run does.
    fn init(&self) -> Option<&Path> {
        None
    }

    /// Passes of its encoder without gradient, next to the one that objectives read; `trained` says whether an objective
    /// learns from that one.
    fn passes_beside(&self, _learnt: bool) -> f64 {
        0.0
    }

    /// Declares its weights below `path`.
    fn declare(&self, context: NetworkContext<'_>, path: &mut WeightPath<'_>);
}

/// The main network, against which another network's values are checked.
#[derive(Clone, Copy, Debug)]
pub struct MainNetwork<'a> {
    /// The shape of the main network.
    pub main: &'a EncoderConfig,
    /// Whether sums must come in a fixed order on a device that has none by itself.
    pub in_order: bool,
}

/// The sizes from which a network's weights follow.
#[derive(Clone, Copy, Debug)]
pub struct NetworkContext<'a> {
    /// The shape of the main network.
    pub main: &'a EncoderConfig,
    /// Ids of the vocabulary.
    pub vocab_size: u32,
}

/// A view that a network makes on the device: the rows of another, filled where tokens are to be predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputView<'a> {
    /// Its name.
    pub view: &'a str,
    /// The masked view of the batch that is filled.
    pub fills: &'a str,
    /// Whether the rows of that view must bring random bits along. Otherwise the device draws, once for a micro-batch.
    pub reads_draws: bool,
}

/// The view that a network of these makes under that name.
#[must_use]
pub fn made<'a>(networks: impl IntoIterator<Item = &'a AnyNetwork>, view: &str) -> Option<OutputView<'a>> {
    networks.into_iter().filter_map(|network| network.makes()).find(|made| made.view == view)
}
