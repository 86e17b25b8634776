//! Columns and networks that objectives require.

use std::collections::{BTreeMap, BTreeSet};

use schemas::ColumnSpec;
use schemas::columns::{ATTENTION_MASK, DOCUMENT, DRAWS, INPUT_IDS, LABELS, TOKEN_TYPES};

use crate::encoder::{Attend, EncoderConfig};
use crate::networks::{AnyNetwork, find_output_view};
use crate::objectives::AnyObjective;
use crate::pass::Pass;

/// View of validation batches for `valid/mlm`: exactly 15 % masked, 80/10/10, with a fixed seed.
pub const VALID_MLM: &str = "valid_mlm";

/// Returns the columns that an encoder of that shape requires of a view.
#[must_use]
pub fn columns_encoded(encoder: &EncoderConfig) -> Vec<ColumnSpec> {
    let document = (encoder.attention_scope == Attend::Document).then_some(DOCUMENT.spec());
    std::iter::once(INPUT_IDS.spec()).chain(document).collect()
}

/// Returns the columns that an objective requires of the views of a batch, and the optional ones (attention masks,
/// segments). For the output view of a generator, these are columns of its input view.
#[must_use]
pub fn columns_read(
    encoder: &EncoderConfig,
    networks: &BTreeMap<String, AnyNetwork>,
    objective: &AnyObjective,
) -> ColumnsRead {
    let mut read = ColumnsRead::default();
    let reads = objective.reads();
    let made_by = |view: &str| find_output_view(networks.values(), view);
    for view in reads.passes.iter().map(|pass| &pass.view).chain(reads.columns.iter().map(|(view, _)| view)) {
        let maker = made_by(view);
        let stored = maker.map_or(view.as_str(), |made| made.input_view).to_owned();
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
    // An output view has new ids. All other columns are those of the input view.
    let stored = |view: String| made_by(&view).map_or(view.clone(), |made| made.input_view.to_owned());
    read.needed.extend(reads.columns.into_iter().map(|(view, column)| (stored(view), column)));
    read
}

/// Result of [`columns_read`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnsRead {
    /// Required columns.
    pub needed: BTreeSet<(String, ColumnSpec)>,
    /// Optional columns, read if their view has them.
    pub taken: BTreeSet<(String, ColumnSpec)>,
}

/// Returns the networks that an objective reads, or whose output view it reads.
pub fn used_networks<'a>(
    networks: &BTreeMap<String, AnyNetwork>,
    objectives: impl Iterator<Item = &'a AnyObjective>,
) -> BTreeMap<String, AnyNetwork> {
    let passes: BTreeSet<Pass> = objectives.flat_map(|objective| objective.reads().passes).collect();
    let is_used = |name: &String, network: &AnyNetwork| {
        let output = network.output_view().map(|made| made.view);
        passes.iter().any(|pass| pass.network == *name || output == Some(pass.view.as_str()))
    };
    let used = networks.iter().filter(|(name, network)| is_used(name, network));
    used.map(|(name, network)| (name.clone(), network.clone())).collect()
}
