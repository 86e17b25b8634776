//! One pass of one network over one view.

/// One pass of one network over one view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pass {
    /// Network that encodes.
    pub network: String,
    /// View that it reads.
    pub view: String,
    /// Number of layers that it runs; `None` for all.
    pub layers: Option<u32>,
}

impl Pass {
    /// Creates the pass of `network` over `view`.
    #[must_use]
    pub fn new(network: &str, view: &str) -> Self {
        Self::to_layer(network, view, None)
    }

    /// Creates the pass of the first `layers` layers of `network` over `view`.
    #[must_use]
    pub fn to_layer(network: &str, view: &str, layers: Option<u32>) -> Self {
        Self { network: network.to_owned(), view: view.to_owned(), layers }
    }
}
