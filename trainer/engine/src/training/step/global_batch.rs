//! Vectors that objectives contrast over all micro-batches of a step, on all ranks.
//!
//! A rank with one micro-batch encodes it once: the vectors of the others have no gradient, so they are exchanged
//! between the forward and the backward pass. A rank with several encodes each twice, first without gradient, because
//! the activations of one micro-batch only fit into memory. Both passes have the same draws.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tch::Tensor;
use trainer_plan::Error;

use super::terms::staging;
use super::{Trainer, to_u64};
use crate::device::precision::MASTER;
use crate::device::step_timer::{ALL_REDUCE, timed};
use crate::model::forward::{Forward, GlobalVectors, StepContext};
use crate::model::host_batch::HostBatch;
use crate::objective_instances::Member;
use crate::objectives::GlobalContrast;
use crate::objectives::combine::Counts;
use crate::training::process_group::in_stream;

impl Trainer {
    /// Returns whether an objective contrasts the rows of the global batch.
    pub(super) fn contrasts_globally(&self) -> bool {
        self.members.iter().any(|member| member.loss.global_contrast().is_some())
    }

    /// Returns the vectors of the global batch for each micro-batch of this rank, by objective. `encoded`
    /// is the forward pass of a single one.
    pub(super) fn global_vectors(
        &self,
        batches: &[HostBatch<'_>],
        counts: &[Counts],
        encoded: Option<&Forward<'_>>,
        context: StepContext,
    ) -> Result<Vec<BTreeMap<String, GlobalVectors>>, Error> {
        let contrasts = self.members.iter().zip(counts);
        let contrasts: Vec<(&Member, &dyn GlobalContrast, &Counts)> =
            contrasts.filter_map(|(member, counts)| Some((member, member.loss.global_contrast()?, counts))).collect();
        if contrasts.is_empty() {
            return Ok(Vec::new());
        }
        let _guard = tch::no_grad_guard();
        let vectors_of = |forward: &Forward<'_>| -> Vec<Tensor> {
            contrasts.iter().map(|(_, contrast, _)| contrast.vectors(forward)).collect()
        };
        let own: Vec<Vec<Tensor>> = if let Some(forward) = encoded {
            vec![vectors_of(forward)]
        } else {
            let members = || contrasts.iter().map(|(member, ..)| *member);
            let passes = members().flat_map(|member| &member.passes).cloned().collect();
            let encode = |batch| Forward::run(batch, &passes, &BTreeSet::new(), context, staging(members(), batch));
            batches.iter().map(|batch| Ok(vectors_of(&encode(batch)?))).collect::<Result<_, Error>>()?
        };
        let mut global: Vec<BTreeMap<String, GlobalVectors>> = batches.iter().map(|_| BTreeMap::new()).collect();
        for (nth, (member, contrast, counts)) in contrasts.iter().enumerate() {
            let vectors: Vec<&Tensor> = own.iter().map(|vectors| &vectors[nth]).collect();
            let gathered = timed(ALL_REDUCE, || self.gather_vectors(*contrast, counts, &vectors))?;
            for (global, vectors) in global.iter_mut().zip(gathered) {
                global.insert(member.name.clone(), vectors);
            }
        }
        Ok(global)
    }

    /// Returns the vectors of all ranks for each micro-batch of this one. `own` are their vectors, `[2, n, d]`.
    fn gather_vectors(
        &self,
        contrast: &dyn GlobalContrast,
        counts: &Counts,
        own: &[&Tensor],
    ) -> Result<Vec<GlobalVectors>, Error> {
        let ranges = row_ranges(&self.anchors_in_stream(counts, own.len())?);
        let places: Vec<Range<i64>> = self.ranks.share().select(&ranges).cloned().collect();
        let rows = ranges.last().map_or(0, |last| last.end);
        let width = i64::from(self.plan.encoder.hidden);
        let vectors: Vec<Tensor> = own.iter().map(|vectors| vectors.to_kind(MASTER)).collect();
        let all_vnd = self.complete(&[2, rows, width], &places, &vectors)?;
        let log_sums: Vec<Tensor> = places.iter().map(|rows| contrast.log_sums(&all_vnd, rows.clone())).collect();
        let log_sums_vn = self.complete(&[2, rows], &places, &log_sums)?;
        let vectors =
            |rows| GlobalVectors { all_vnd: all_vnd.shallow_clone(), log_sums_vn: log_sums_vn.shallow_clone(), rows };
        Ok(places.into_iter().map(vectors).collect())
    }

    /// Returns the number of anchors of each micro-batch of the step. Every rank has as many micro-batches as this one.
    fn anchors_in_stream(&self, counts: &Counts, micro_batches: usize) -> Result<Vec<f64>, Error> {
        let own = (0..micro_batches).flat_map(|nth| counts.terms(nth)[0].count.to_le_bytes());
        let all = self.ranks.gather("rows of micro-batches", &own.collect::<Vec<u8>>())?;
        let numbers = |rank: &Vec<u8>| rank.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        let all: Vec<Vec<f64>> = all.iter().map(numbers).collect();
        Ok(in_stream(&all).copied().collect())
    }

    /// Returns a tensor of which this rank has the `parts` at `places` of axis 1, and the other ranks have the rest.
    fn complete(&self, shape: &[i64], places: &[Range<i64>], parts: &[Tensor]) -> Result<Tensor, Error> {
        // Adding −0 changes no bit.
        let whole = Tensor::full(shape, -0.0, (MASTER, self.device));
        for (place, part) in places.iter().zip(parts) {
            whole.narrow(1, place.start, place.end - place.start).copy_(part);
        }
        if whole.numel() > 0 {
            self.ranks.all_reduce("vectors of the global batch", &whole)?.wait()?;
        }
        Ok(whole)
    }
}

/// Returns the rows of each micro-batch among those of the step, from the numbers of their anchors: two for each row.
fn row_ranges(anchors: &[f64]) -> Vec<Range<i64>> {
    let mut end = 0;
    let range = |anchors: &f64| {
        let start = end;
        end += i64::try_from(to_u64(anchors / 2.0)).expect("rows of memory");
        start..end
    };
    anchors.iter().map(range).collect()
}
