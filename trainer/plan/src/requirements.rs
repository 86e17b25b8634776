//! What objectives need of the batch and of the networks.

use std::collections::{BTreeMap, BTreeSet};

use schemas::ColumnSpec;
use schemas::columns::{ATTENTION_MASK, DOCUMENT, DRAWS, INPUT_IDS, LABELS, TOKEN_TYPES};

use crate::encoder::{Attend, EncoderConfig};
use crate::networks::{AnyNetwork, made};
use crate::objectives::AnyObjective;
use crate::pass::Pass;

/// The view of validation batches that `valid/mlm` is computed on: exactly 15 % masked, 80/10/10, under a fixed seed.
pub const VALID_MLM: &str = "valid_mlm";

/// The columns without which no encoder of that shape reads a view of the batch.
#[must_use]
pub fn columns_encoded(encoder: &EncoderConfig) -> Vec<ColumnSpec> {
    let document = (encoder.attention_scope == Attend::Document).then_some(DOCUMENT.spec());
    std::iter::once(INPUT_IDS.spec()).chain(document).collect()
}

/// The columns of the batch's own views that an objective needs, and those that it takes where there are any
/// (attention masks, segments). For a view that a generator makes, these are columns of the view that it fills.
#[must_use]
pub fn columns_read(
    encoder: &EncoderConfig,
    networks: &BTreeMap<String, AnyNetwork>,
    objective: &AnyObjective,
) -> ColumnsRead {
    let mut read = ColumnsRead::default();
    let reads = objective.reads();
    let made_by = |view: &str| made(networks.values(), view);
    for view in reads.passes.iter().map(|pass| &pass.view).chain(reads.columns.iter().map(|(view, _)| view)) {
        let maker = made_by(view);
        let stored = maker.map_or(view.as_str(), |made| made.fills).to_owned();
        let mut needs = |column| {
            read.needed.insert((stored.clone(), column));
        };
        columns_encoded(encoder).into_iter().for_each(&mut needs);
        if let Some(made) = maker {
            needs(LABELS.spec());
            if made.reads_draws {
                needs(DRAWS.spec());
            }
        }
        read.taken.extend([ATTENTION_MASK.spec(), TOKEN_TYPES.spec()].map(|column| (stored.clone(), column)));
    }
    // Whatever a made view has next to its ids, it has from the view that is filled.
    let stored = |view: String| made_by(&view).map_or(view.clone(), |made| made.fills.to_owned());
    read.needed.extend(reads.columns.into_iter().map(|(view, column)| (stored(view), column)));
    read
}

/// See [`columns_read`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnsRead {
    /// Without these there is nothing to compute.
    pub needed: BTreeSet<(String, ColumnSpec)>,
    /// These only where their view makes them.
    pub taken: BTreeSet<(String, ColumnSpec)>,
}

/// Those of `networks` that an objective reads, or whose view it reads.
pub fn used_networks<'a>(
    networks: &BTreeMap<String, AnyNetwork>,
    objectives: impl Iterator<Item = &'a AnyObjective>,
) -> BTreeMap<String, AnyNetwork> {
    let passes: BTreeSet<Pass> = objectives.flat_map(|objective| objective.reads().passes).collect();
    let is_used = |name: &String, network: &AnyNetwork| {
        let makes = network.makes().map(|made| made.view);
        passes.iter().any(|pass| pass.network == *name || makes == Some(pass.view.as_str()))
    };
    let used = networks.iter().filter(|(name, network)| is_used(name, network));
    used.map(|(name, network)| (name.clone(), network.clone())).collect()
}
