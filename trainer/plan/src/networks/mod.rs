//! Networks of a run, by name.
//!
//! The [`MAIN`] network is trained and exported. A run may have auxiliary networks. Each has a name and one of the
//! kinds in [`AnyNetwork`]. A network that no objective of the loss reads is not built.
//!
//! A file of this folder has the configuration of a network. The engine's file of the same name builds and runs it.

use std::path::Path;

use crate::encoder::EncoderConfig;
use crate::weights::WeightPath;

schemas::registry! {
    /// Auxiliary network of a run.
    pub enum AnyNetwork: Network {
        generator::Generator,
        teacher::Teacher,
    }
}

/// Name of the network that a run exports.
pub const MAIN: &str = "main";

/// Auxiliary network as configured in `[networks.NAME]`. The implementing struct is the configuration, and its
/// `Default` is the usual choice.
pub trait Network: Send + Sync {
    /// Shape of its encoder if the main network has the shape `main`; `None` for a network without an encoder.
    fn shape(&self, main: &EncoderConfig) -> Option<EncoderConfig>;

    /// Invalid values: the key below `networks.NAME`, and a description of the problem.
    fn problems(&self, _main: NetworkCheckContext<'_>) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// View that the network produces on the device, if any.
    fn output_view(&self) -> Option<OutputView<'_>> {
        None
    }

    /// Whether the optimizer updates its weights.
    fn is_trained(&self) -> bool {
        true
    }

    /// Whether it has a head that predicts tokens.
    fn predicts_tokens(&self) -> bool {
        false
    }

    /// Whether it is a copy of the initial main network of the run.
    fn copies_main(&self) -> bool {
        false
    }

    /// Folder with its initial weights, if they do not come from the initialization of the run.
    fn init(&self) -> Option<&Path> {
        None
    }

    /// Number of passes of its encoder without gradient, in addition to the pass that objectives read. `_trained` is
    /// true if an objective trains through that pass.
    fn additional_passes(&self, _trained: bool) -> f64 {
        0.0
    }

    /// Declares its weights below `path`.
    fn declare(&self, context: NetworkContext<'_>, path: &mut WeightPath<'_>);
}

/// Context for the check of an auxiliary network's values.
#[derive(Clone, Copy, Debug)]
pub struct NetworkCheckContext<'a> {
    /// Shape of the main network.
    pub main: &'a EncoderConfig,
    /// Whether sums must have a fixed order on a device whose kernels do not guarantee one.
    pub in_order: bool,
}

/// Sizes that determine the weights of a network.
#[derive(Clone, Copy, Debug)]
pub struct NetworkContext<'a> {
    /// Shape of the main network.
    pub main: &'a EncoderConfig,
    /// Number of ids of the vocabulary.
    pub vocab_size: u32,
}

/// View that a network produces on the device: the rows of a masked view, with samples at the positions to predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputView<'a> {
    /// Name of the view.
    pub view: &'a str,
    /// Masked view of the batch that is filled with samples.
    pub input_view: &'a str,
    /// Whether the rows of the masked view must include random bits. Otherwise the device draws once per micro-batch.
    pub reads_draws: bool,
}

/// Returns the view `view` that one of the networks produces.
#[must_use]
pub fn find_output_view<'a>(networks: impl IntoIterator<Item = &'a AnyNetwork>, view: &str) -> Option<OutputView<'a>> {
    networks.into_iter().filter_map(|network| network.output_view()).find(|made| made.view == view)
}
