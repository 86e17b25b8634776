//! One pass of one network over one view.

/// One pass of one network over one view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pass {
    /// The network that encodes.
    pub network: String,
    /// The view that it reads.
    pub view: String,
}

impl Pass {
    /// `view` read by `network`.
    #[must_use]
    pub fn new(network: &str, view: &str) -> Self {
        Self { network: network.to_owned(), view: view.to_owned() }
    }
}
