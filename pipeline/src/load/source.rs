//! A prepared folder of which a stream has rows, and rows that are dealt to such folders.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use runtime::CancelToken;

use crate::course::{Course, Placed, Run};
use crate::error::{Error, Result};
use crate::mixture::Hand;
use crate::sampler::Sampler;
use crate::shard::groups::Held;
use crate::shard::opened::OpenShards;

/// A prepared folder of which a stream has rows.
#[derive(Debug)]
pub(super) struct Source {
    /// Its name; none where it is all there is.
    pub(super) name: Option<String>,
    pub(super) shards: Arc<OpenShards>,
    pub(super) course: Course,
    /// What was known of data that are streamed when this was planned: an epoch over it that is shuffled.
    pub(super) outline: Option<Sampler>,
    pub(super) seed: u64,
}

impl Source {
    /// How an epoch over all that was known of it is visited.
    pub(super) fn sampler(&self) -> &Sampler {
        self.outline.as_ref().unwrap_or_else(|| self.course.first().sampler())
    }

    /// What its rows `rows` are made of; who fails over one of several folders says which.
    pub(super) fn runs(&self, rows: Range<u64>, stop: Option<&CancelToken>) -> Result<Vec<Run>> {
        self.course.runs(rows, stop).map_err(|error| match (&self.name, error) {
            (Some(name), Error::Config(message)) => Error::Config(format!("source `{name}`: {message}")),
            (_, error) => error,
        })
    }
}

/// Rows that follow one another in a stream, each with its source and what it is made of.
pub(super) struct Dealt {
    pub(super) hand: Hand,
    /// Of each source.
    pub(super) runs: Vec<Vec<Run>>,
}

impl Dealt {
    /// The rows, in the stream's order.
    pub(super) fn rows(&self) -> impl Iterator<Item = (usize, Placed<'_>)> {
        let mut sources: Vec<_> = self.runs.iter().map(|runs| runs.iter().flat_map(Run::rows)).collect();
        self.hand.sources.iter().map(move |&source| {
            let source = usize::from(source);
            (source, sources[source].next().expect("a source gives as many rows as are dealt to it"))
        })
    }

    /// The rows of each source, in its order.
    pub(super) fn by_source(&self) -> impl Iterator<Item = impl Iterator<Item = Placed<'_>>> {
        self.runs.iter().map(|runs| runs.iter().flat_map(Run::rows))
    }
}

/// Decoded groups of a source by window and block.
pub(super) type HeldGroups = BTreeMap<(u64, usize), Held>;
