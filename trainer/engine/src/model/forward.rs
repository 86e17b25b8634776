//! Forward pass of one micro-batch, shared by all objectives.
//!
//! Each (network, view) pair that an objective reads is encoded once, in the order of names, before the first objective
//! runs. Views that a generator makes come after the views of the batch. All data of a micro-batch goes to the device
//! in one copy before the first kernel. Nothing in this module waits for the device.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use schemas::columns::DRAWS;
use schemas::ordinal::Step;
use tch::Tensor;
use trainer_plan::Error;
use trainer_plan::pass::Pass;

use crate::device::precision::INDEX;
use crate::device::step_timer::{SAMPLE, UPLOAD, timed};
use crate::model::chunked_cross_entropy::{Block, CrossEntropyOutput, joined};
use crate::model::encoder::activation_checkpointing::CheckpointedLayers;
use crate::model::encoder::{Encoded, Encoder};
use crate::model::heads::TokenHead;
use crate::model::host_batch::HostBatch;
use crate::model::layers::Mode;
use crate::model::networks::built::Networks;
use crate::model::parameters::{Parameters, hash_i64};
use crate::model::staging_buffer::{DeviceArrays, Staging};
use crate::model::upload::{Predicted, UploadedView, send_draws};

/// Position of a micro-batch in a run. It seeds all random draws on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepContext {
    /// The run's seed.
    pub seed: u64,
    /// Optimizer step; always 0 in validation, so that every validation has the same draws.
    pub step: Step,
    /// Dropout on or off.
    pub mode: Mode,
}

impl StepContext {
    /// Seeds torch's generator for one encoder pass or one device-side draw of one micro-batch.
    fn seed(self, batch: &HostBatch<'_>, what: &[&str]) {
        let mode: &[u8] = if self.mode == Mode::Train { b"train" } else { b"eval" };
        let seed = self.seed.to_le_bytes();
        let step = self.step.0.to_le_bytes();
        let index = batch.index().0.to_le_bytes();
        let mut parts: Vec<&[u8]> = vec![&seed, &step, &index, mode];
        parts.extend(what.iter().map(|name| name.as_bytes()));
        tch::manual_seed(hash_i64(&parts));
    }
}

/// Uploaded and encoded micro-batch, shared by all objectives.
#[derive(Debug)]
pub(crate) struct Forward<'a> {
    batch: &'a HostBatch<'a>,
    networks: &'a Networks,
    context: StepContext,
    arrays: DeviceArrays,
    views: BTreeMap<String, UploadedView>,
    encoded: BTreeMap<Pass, Encoded>,
    // Saved layer inputs of checkpointed passes, in encoding order.
    kept: Vec<(Pass, CheckpointedLayers)>,
    // Statistics of the scores at the positions to predict, if sampling needed the same scores as a loss.
    scored: BTreeMap<Pass, CrossEntropyOutput>,
    // Vectors of the global batch, by objective.
    global: BTreeMap<String, GlobalVectors>,
}

/// Vectors of all rows of a step that an objective contrasts, without gradient.
#[derive(Debug)]
pub(crate) struct GlobalVectors {
    /// Unit vectors of both views, `[2, N, d]`, in the order of the stream.
    pub all_vnd: Tensor,
    /// Logarithms of the sums over the candidates of each anchor, `[2, N]`.
    pub log_sums_vn: Tensor,
    /// Rows of this micro-batch among the `N`.
    pub rows: Range<i64>,
}

impl<'a> Forward<'a> {
    /// Uploads the views of all `passes` together with the arrays in `staging`, then encodes. Passes outside `learning`
    /// run without gradient: only objectives of weight 0 read them.
    pub(crate) fn run(
        batch: &'a HostBatch<'a>,
        passes: &BTreeSet<Pass>,
        learning: &BTreeSet<Pass>,
        context: StepContext,
        mut staging: Staging,
    ) -> Result<Self, Error> {
        let networks = batch.networks();
        let (made, stored): (BTreeSet<&str>, BTreeSet<&str>) =
            passes.iter().map(|pass| pass.view.as_str()).partition(|name| networks.sampler_of(name).is_some());
        let filled = made.iter().map(|name| networks.stored_view(name));
        let sent: BTreeSet<&str> = stored.iter().copied().chain(filled).collect();
        let arrays = timed(UPLOAD, || {
            for view in &sent {
                UploadedView::stage(batch, view, &mut staging);
            }
            let makers = made.iter().filter_map(|view| Some(networks.sampler_of(view)?.1));
            for generator in makers.filter(|it| it.uses_row_draws()) {
                send_draws(batch, generator.input_view(), &mut staging);
            }
            staging.upload(networks.device())
        })?;
        let view = |name: &&str| ((*name).to_owned(), UploadedView::new(batch, name, &arrays));
        let views = sent.iter().map(view).collect();
        let encoded = BTreeMap::new();
        let scored = BTreeMap::new();
        let global = BTreeMap::new();
        let mut forward = Self { batch, networks, context, arrays, views, encoded, kept: Vec::new(), scored, global };
        forward.encode_all(passes.iter().filter(|pass| stored.contains(pass.view.as_str())), learning)?;
        for name in &made {
            let view = timed(SAMPLE, || forward.fill(name, learning));
            forward.views.insert((*name).to_owned(), view);
        }
        forward.encode_all(passes.iter().filter(|pass| made.contains(pass.view.as_str())), learning)?;
        Ok(forward)
    }

    fn encode_all<'p>(
        &mut self,
        passes: impl Iterator<Item = &'p Pass>,
        learning: &BTreeSet<Pass>,
    ) -> Result<(), Error> {
        for pass in passes {
            let mode = self.networks.mode(&pass.network, self.context.mode);
            let encoded = if learning.contains(pass) && self.networks.recomputes() {
                let (encoded, kept) =
                    self.begin(pass, mode).forward_checkpointed(pass.layers, self.view(&pass.view).input(), mode)?;
                self.kept.push((pass.clone(), kept));
                encoded
            } else {
                self.encode(pass, mode, learning.contains(pass))
            };
            self.encoded.insert(pass.clone(), encoded);
        }
        Ok(())
    }

    /// Adds the gradients of the loss to the weights. Checkpointed passes run their backward pass here.
    pub(crate) fn finish(mut self, parameters: &Parameters) -> Result<(), Error> {
        parameters.accumulate_grads()?;
        // The last pass comes first, as without checkpointing: the sums are then equal bit for bit.
        while let Some((pass, kept)) = self.kept.pop() {
            self.networks.encoder(&pass.network).finish(self.output(&pass), kept)?;
            parameters.accumulate_grads()?;
        }
        parameters.clear_uses();
        Ok(())
    }

    /// Returns the encoder of a pass, after seeding torch's generator for that pass.
    fn begin(&self, pass: &Pass, mode: Mode) -> &'a Encoder {
        StepContext { mode, ..self.context }.seed(self.batch, &[&pass.network, &pass.view]);
        self.networks.encoder(&pass.network)
    }

    fn encode(&self, pass: &Pass, mode: Mode, learns: bool) -> Encoded {
        let encode = || self.begin(pass, mode).forward_to(pass.layers, self.view(&pass.view).input(), mode);
        if learns { encode() } else { tch::no_grad(encode) }
    }

    /// Returns the input view with the generator's samples at the positions to predict.
    fn fill(&mut self, view: &str, learning: &BTreeSet<Pass>) -> UploadedView {
        let (name, generator) = self.networks.sampler_of(view).expect("made views have a maker");
        let pass = Pass::new(name, generator.input_view());
        let draws_n = generator.uses_row_draws().then(|| self.arrays.get(generator.input_view(), DRAWS.spec().name));
        let ids_n = match generator.head() {
            None => {
                self.seed(name);
                generator.sample_uniform(draws_n.as_ref(), self.predicted(&pass.view).count, self.networks.device())
            }
            Some(head) => self.sample(&pass, &head.leaves(self.networks.precision()), learning, |block| {
                generator.sample(block.logits_cv, draws_n.as_ref().map(|draws_n| block.rows_of(draws_n)).as_ref())
            }),
        };
        self.view(generator.input_view()).filled_with(&ids_n)
    }

    /// Samples an id for each position to predict. If the mode of the generator's sampling equals the mode of the run,
    /// the scores are those of the pass that the loss uses. Otherwise the generator runs a separate pass.
    fn sample(
        &mut self,
        pass: &Pass,
        head: &TokenHead,
        learning: &BTreeSet<Pass>,
        draw: impl Fn(Block<'_>) -> Tensor,
    ) -> Tensor {
        let generator = self.networks.sampler(&pass.network).expect("it is a generator");
        let mode = self.context.mode;
        let sampling = generator.sampling_mode(self.context.mode);
        let predicted = self.predicted(&pass.view);
        let mut ids = Vec::new();
        let mut visit = |block: Block<'_>| ids.push(draw(block));
        let gather = |encoded: &Encoded| Self::gather(&encoded.hidden_btd, &predicted.positions_n);
        let scored = if let Some(encoded) = self.encoded.get(pass).filter(|_| sampling == mode) {
            self.seed(&pass.network);
            let mut score = || head.score(&gather(encoded), &predicted.targets_n, &mut visit);
            Some(if learning.contains(pass) { score() } else { tch::no_grad(score) })
        } else {
            let encoded = self.encode(pass, sampling, false);
            self.seed(&pass.network);
            head.look(&gather(&encoded), visit);
            None
        };
        let ids_n = joined(ids).unwrap_or_else(|| Tensor::zeros([0], (INDEX, self.networks.device())));
        if let Some(scored) = scored {
            self.scored.insert(pass.clone(), scored);
        }
        ids_n
    }

    /// Returns the batch on the host.
    #[must_use]
    pub(crate) fn batch(&self) -> &'a HostBatch<'a> {
        self.batch
    }

    /// Returns the networks, for tied tables.
    #[must_use]
    pub(crate) fn networks(&self) -> &'a Networks {
        self.networks
    }

    /// Returns the output of one pass over one view. The objective declares the pass in
    /// [`Requirements`](trainer_plan::objectives::Requirements).
    #[must_use]
    pub(crate) fn encoded(&self, network: &str, view: &str) -> &Encoded {
        self.output(&Pass::new(network, view))
    }

    /// Returns the output of a pass that the objective declares.
    #[must_use]
    pub(crate) fn output(&self, pass: &Pass) -> &Encoded {
        self.encoded.get(pass).unwrap_or_else(|| panic!("{pass:?} is read but not declared in `Requirements`"))
    }

    /// Returns the statistics of the scores at the positions that a generator predicts, if sampling needed the same
    /// scores.
    #[must_use]
    pub(crate) fn scored(&self, network: &str, view: &str) -> Option<&CrossEntropyOutput> {
        self.scored.get(&Pass::new(network, view))
    }

    /// Returns an uploaded view: ids `[b, t]` and the mask of real tokens.
    #[must_use]
    pub(crate) fn view(&self, view: &str) -> &UploadedView {
        self.views.get(view).unwrap_or_else(|| panic!("view `{view}` is read but not declared in `Requirements`"))
    }

    /// Sets the vectors of the global batch, by objective.
    pub(crate) fn set_global(&mut self, vectors: BTreeMap<String, GlobalVectors>) {
        self.global = vectors;
    }

    /// Returns the vectors of the global batch that an objective contrasts; `None` in validation.
    #[must_use]
    pub(crate) fn global(&self, objective: &str) -> Option<&GlobalVectors> {
        self.global.get(objective)
    }

    /// Returns the positions to predict in a view, with their targets.
    #[must_use]
    pub(crate) fn predicted(&self, view: &str) -> &Predicted {
        self.view(view).predicted.as_ref().unwrap_or_else(|| panic!("view `{view}` has no labels"))
    }

    /// Returns an array that an objective packed, by its owner and name.
    pub(crate) fn uploaded(&self, owner: &str, name: &'static str) -> Tensor {
        self.arrays.get(owner, name)
    }

    /// Returns whether dropout is on.
    #[must_use]
    pub(crate) fn mode(&self) -> Mode {
        self.context.mode
    }

    /// Gathers the hidden states of flat positions, `[n, d]`.
    pub(crate) fn gather(hidden_btd: &Tensor, positions_n: &Tensor) -> Tensor {
        let width = hidden_btd.size()[2];
        hidden_btd.view([-1, width]).index_select(0, positions_n)
    }

    /// Seeds torch's generator for a draw by the objective of that name. Each draw needs this call directly before it.
    /// The draw depends only on (seed, step, micro-batch, name), not on earlier draws.
    pub(crate) fn seed(&self, objective: &str) {
        self.context.seed(self.batch, &["objective", objective]);
    }
}

#[cfg(test)]
mod tests {
    use schemas::Batch;
    use tch::Kind;
    use trainer_plan::networks::MAIN;
    use trainer_plan::run_weights;

    use super::*;
    use crate::objective_instances::build;
    use crate::testing;

    /// Networks of the tests' run. The main network reads the generator's view.
    fn networks() -> Networks {
        let plan = testing::plan();
        build(
            &plan,
            &crate::model::parameters::Parameters::new(&run_weights::of_run(&plan), plan.seed, tch::Device::Cpu),
        )
        .0
    }

    fn forward<'a>(batch: &'a HostBatch<'a>, mode: Mode) -> Forward<'a> {
        let passes = BTreeSet::from([Pass::new(MAIN, "corrupted")]);
        let context = StepContext { seed: 7, step: Step(3), mode };
        Forward::run(batch, &passes, &passes, context, Staging::default()).expect("all columns are there")
    }

    fn ids(tensor: &Tensor) -> Vec<i64> {
        Vec::try_from(tensor.reshape([-1])).expect("ids")
    }

    #[test]
    fn a_made_view_differs_from_the_original_only_at_masked_positions() {
        let _alone = testing::generator();
        let batch = testing::batch(0);
        let networks = networks();
        let host = HostBatch::new(&batch, &networks).expect("a good batch");
        let forward = forward(&host, Mode::Train);
        let masked = forward.view("masked");
        let made = forward.view("corrupted");
        assert_eq!(ids(&masked.originals_bt()), ids(&made.originals_bt()));
        let predicted = forward.predicted("corrupted");
        let replaced = i64::try_from(made.replaced_bt().sum(Kind::Int64)).expect("one count");
        assert!(
            (1..=predicted.positions_n.size()[0]).contains(&replaced),
            "only masked positions differ, and at least one does"
        );
        let at = |tensor: &Tensor| ids(&tensor.reshape([-1]).index_select(0, &predicted.positions_n));
        assert!(at(&made.ids_bt).iter().all(|id| (0..i64::from(testing::WORDS)).contains(id)), "no padding row");
        assert_ne!(at(&made.ids_bt), at(&masked.ids_bt), "the masks are filled");
    }

    #[test]
    fn samples_do_not_depend_on_the_micro_batch() {
        let _alone = testing::generator();
        let batch = testing::batch(0);
        let networks = networks();
        let made = |batch: &Batch| {
            let host = HostBatch::new(batch, &networks).expect("a good batch");
            ids(&forward(&host, Mode::Eval).view("corrupted").ids_bt)
        };
        let half = testing::ROWS / 2;
        let halves = [made(&batch.slice(0, half)), made(&batch.slice(half, testing::ROWS - half))].concat();
        assert_eq!(made(&batch), halves);
    }
}
