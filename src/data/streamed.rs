//! A prepared folder that a run begins to read while it is filled.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use pipeline::Error;
use pipeline::load::{self, DataConfig};
use schemas::{Manifest, PartId};
use store::Store;

use super::{PreparedData, Purpose};
use crate::generations::RunGenerations;
use crate::generations::names::{Names, listed};
use crate::generations::streamed::{Streamed, published, refuse_dropped};

impl PreparedData {
    /// Opens a folder for a run whose first epoch reads it in the order in which it is filled, as far as it is. Nothing is
    /// taken from what is there of later parts: neither what is counted over all of them, nor which rows are validated on,
    /// which are those of the first `valid_parts`.
    pub(super) fn streamed(
        store: Store,
        (config, valid_parts): (&DataConfig, usize),
        run: &Path,
        purpose: Purpose,
    ) -> pipeline::Result<Self> {
        let listed = Arc::new(listed(&store)?);
        let generations = Arc::new(RunGenerations::of(run, &store, &Names::Lists(Arc::clone(&listed)), None)?);
        let generation = generations.first();
        let mut measured = listed.parts(generation);
        measured.truncate(valid_parts.max(1));
        let published = published(&store, generation)?;
        let is_whole = published.is_some();
        let (mut manifest, streamed) = if let Some(manifest) = published {
            let streamed = Streamed::whole(&store, &listed, Arc::clone(&generations), &manifest);
            (manifest, streamed)
        } else {
            refuse_dropped(&listed, generation)?;
            let mut coming = listed.coming(generation)?;
            let told = coming.more()?;
            if coming.done().0 < measured.len() {
                return Err(too_few(&store, coming.done().0, measured.len()));
            }
            let manifest = coming.manifest()?;
            let streamed = Streamed::coming(&store, &listed, Arc::clone(&generations), (coming, told));
            streamed.refuse_to_begin(config.shuffle_blocks)?;
            (manifest, streamed)
        };
        let vocab = load::read_vocab(&store, &manifest, generation)?;
        // What a model is shown beside may be counted.
        let is_of_model = purpose == Purpose::Model;
        let vocab = if is_whole && is_of_model { vocab } else { vocab.uncounted() };
        keep_valid(&mut manifest, &measured.into_iter().collect());
        let (content, by) = (listed.name(generation), (config.generations, purpose));
        let alone = Self::alone((store, manifest, vocab), generations, content, by);
        Ok(Self { streamed: Some(Arc::new(streamed)), ..alone })
    }
}

/// The parts that a streamed run is validated on are not there.
fn too_few(store: &Store, done: usize, wanted: usize) -> Error {
    let message = format!(
        "{done} of its first {wanted} parts are there, on which a streamed run is validated (`prepare.valid_parts`); run \
         `cloze prepare`, or let it go on"
    );
    Error::Unfinished { place: store.place(""), message }
}

/// Leaves the validation rows of these parts alone.
fn keep_valid(manifest: &mut Manifest, parts: &BTreeSet<PartId>) {
    let entries = manifest.generations.iter_mut().flat_map(|entry| &mut entry.parts);
    entries.filter(|entry| !parts.contains(&entry.id)).for_each(|entry| entry.valid.clear());
}
