//! Clusters of documents: a union-find in which the lowest number of a cluster is its root.

/// Parent of each document. A root is its own parent.
#[derive(Debug)]
pub(crate) struct Clusters(Vec<u32>);

impl Clusters {
    pub(crate) fn new(documents: u32) -> Self {
        Self((0..documents).collect())
    }

    /// Returns the lowest number of the document's cluster. Halves the path to it.
    pub(crate) fn root(&mut self, mut document: u32) -> u32 {
        loop {
            let parent = self.0[document as usize];
            if parent == document {
                return document;
            }
            let next = self.0[parent as usize];
            self.0[document as usize] = next;
            document = next;
        }
    }

    /// Joins two clusters. The result does not depend on the order of the calls.
    pub(crate) fn join(&mut self, a: u32, b: u32) {
        let roots = (self.root(a), self.root(b));
        let low = roots.0.min(roots.1);
        let high = roots.0.max(roots.1);
        self.0[high as usize] = low;
    }
}
