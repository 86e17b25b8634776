//! One pass of one network over one view.

/// One pass of one network over one view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pass {
    /// Network that encodes.
    pub network: String,
    /// View that it reads.
    pub view: String,
}

impl Pass {
    /// Creates the pass of `network` over `view`.
    #[must_use]
    pub fn new(network: &str, view: &str) -> Self {
        Self { network: network.to_owned(), view: view.to_owned() }
    }
}
