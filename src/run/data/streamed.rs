//! A prepared folder that a run reads while it is being prepared.

use std::collections::BTreeSet;
use std::sync::Arc;

use pipeline::Error;
use pipeline::load::{self, RowOrder};
use schemas::{Manifest, PartId};
use store::Store;

use super::{OpenRequest, PreparedData, Purpose};
use crate::run::dataset_versions::part_lists;
use crate::run::dataset_versions::streamed::{StreamedSegments, published, refuse_dropped};

impl PreparedData {
    /// Opens a folder for a run whose first epoch reads it in the order in which it is filled. The result does not
    /// depend on later parts: counts over all parts are dropped, and validation uses the rows of the first
    /// `prepare.valid_parts`.
    pub(super) fn open_streamed(store: Store, request: OpenRequest<'_>) -> pipeline::Result<Self> {
        let lists = part_lists(&store)?;
        let hashes = lists.hashes();
        let versions = request.versions(&store, None, RowOrder::Streamed, &hashes)?;
        let dataset_version = versions.first();
        let mut measured = lists.parts(dataset_version);
        measured.truncate(request.config.prepare.valid_parts.max(1));
        let published = published(&store, dataset_version)?;
        let is_complete = published.is_some();
        let (mut manifest, streamed) = if let Some(manifest) = published {
            let streamed = StreamedSegments::complete(&store, &lists, Arc::clone(&versions), &manifest);
            (manifest, streamed)
        } else {
            refuse_dropped(&lists, dataset_version)?;
            let mut pending = lists.pending(dataset_version)?;
            let segments = pending.more()?;
            if pending.done().0 < measured.len() {
                return Err(too_few(&store, pending.done().0, measured.len()));
            }
            let manifest = pending.manifest()?;
            let streamed = StreamedSegments::pending(&store, &lists, Arc::clone(&versions), pending, segments);
            streamed.refuse_to_begin(request.config.data.shuffle_window_groups)?;
            (manifest, streamed)
        };
        let vocab = load::read_vocab(&store, &manifest, dataset_version)?;
        // Counts are safe for an evaluated model, but not for a run: they would depend on when it began.
        let is_of_model = request.purpose == Purpose::Model;
        let vocab = if is_complete && is_of_model { vocab } else { vocab.uncounted() };
        keep_valid(&mut manifest, &measured.into_iter().collect());
        let content = hashes[dataset_version.0 as usize].clone();
        let alone = Self::single_source(store, manifest, vocab, versions, content, request.purpose);
        Ok(Self { streamed: Some(Arc::new(streamed)), ..alone })
    }
}

/// Error for missing parts that a streamed run needs for its validation.
fn too_few(store: &Store, done: usize, wanted: usize) -> Error {
    let message = format!(
        "{done} of its first {wanted} parts are there, on which a streamed run is validated (`prepare.valid_parts`); run \
         `cloze prepare`, or let it continue"
    );
    Error::Unfinished { place: store.place(""), message }
}

/// Removes the validation rows of all other parts.
fn keep_valid(manifest: &mut Manifest, parts: &BTreeSet<PartId>) {
    let entries = manifest.dataset_versions.iter_mut().flat_map(|entry| &mut entry.parts);
    entries.filter(|entry| !parts.contains(&entry.id)).for_each(|entry| entry.valid.clear());
}
