//! What the objectives share while they look at one micro-batch.
//!
//! Every (network, view) that any of them reads is encoded once, in the order of names, before the first objective
//! runs; views that a generator makes come after those that the batch holds. Everything that a micro-batch sends to the
//! device goes in one copy before the first kernel, and nothing here waits for the device.

use std::collections::{BTreeMap, BTreeSet};

use schemas::columns::DRAWS;
use schemas::ordinal::Step;
use tch::Tensor;
use trainer_plan::Error;
use trainer_plan::pass::Pass;

use crate::device::precision::INDEX;
use crate::device::step_timer::{SAMPLE, UPLOAD, timed};
use crate::model::chunked_cross_entropy::{Block, Scored, joined};
use crate::model::encoder::activation_checkpointing::Kept;
use crate::model::encoder::{Encoded, Encoder};
use crate::model::heads::TokenHead;
use crate::model::host_batch::HostBatch;
use crate::model::layers::Mode;
use crate::model::networks::built::Networks;
use crate::model::parameters::{Parameters, hash_i64};
use crate::model::staging_buffer::{DeviceArrays, Staging};
use crate::model::upload::{Predicted, UploadedView, send_draws};

/// Where in a run a micro-batch is looked at: the address of all randomness of the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepContext {
    /// The run's seed.
    pub seed: u64,
    /// The optimizer step; always 0 in validation, so that every validation draws the same.
    pub step: Step,
    /// Dropout on or off.
    pub mode: Mode,
}

impl StepContext {
    /// Seeds torch's generator for one encoder pass or one device-side draw of one micro-batch.
    fn seed(self, batch: &HostBatch<'_>, what: &[&str]) {
        let mode: &[u8] = if self.mode == Mode::Train { b"train" } else { b"eval" };
        let (seed, step, index) = (self.seed.to_le_bytes(), self.step.0.to_le_bytes(), batch.index().0.to_le_bytes());
        let mut parts: Vec<&[u8]> = vec![&seed, &step, &index, mode];
        parts.extend(what.iter().map(|name| name.as_bytes()));
        tch::manual_seed(hash_i64(&parts));
    }
}

/// One micro-batch, uploaded and encoded, shared with every objective.
#[derive(Debug)]
pub(crate) struct Forward<'a> {
    batch: &'a HostBatch<'a>,
    networks: &'a Networks,
    moment: StepContext,
    arrived: DeviceArrays,
    views: BTreeMap<String, UploadedView>,
    encoded: BTreeMap<Pass, Encoded>,
    // What passes kept that are to be run again, as they were encoded.
    kept: Vec<(Pass, Kept)>,
    // What is known of scores at the positions to predict, where sampling needed those that a loss needs too.
    scored: BTreeMap<Pass, Scored>,
}

impl<'a> Forward<'a> {
    /// Sends the views of all `passes` with what the objectives have packed, then encodes. Passes outside `learning` are
    /// run without gradient: only objectives of weight 0 read them.
    pub(crate) fn run(
        batch: &'a HostBatch<'a>,
        passes: &BTreeSet<Pass>,
        learning: &BTreeSet<Pass>,
        moment: StepContext,
        mut freight: Staging,
    ) -> Result<Self, Error> {
        let networks = batch.networks();
        let (made, stored): (BTreeSet<&str>, BTreeSet<&str>) =
            passes.iter().map(|pass| pass.view.as_str()).partition(|name| networks.maker(name).is_some());
        let filled = made.iter().map(|name| networks.stored_view(name));
        let sent: BTreeSet<&str> = stored.iter().copied().chain(filled).collect();
        let arrived = timed(UPLOAD, || {
            for view in &sent {
                UploadedView::send(batch, view, &mut freight);
            }
            let makers = made.iter().filter_map(|view| Some(networks.maker(view)?.1));
            for generator in makers.filter(|it| it.uses_row_draws()) {
                send_draws(batch, generator.fills(), &mut freight);
            }
            freight.ship(networks.device())
        })?;
        let view = |name: &&str| ((*name).to_owned(), UploadedView::of(batch, name, &arrived));
        let views = sent.iter().map(view).collect();
        let (encoded, scored) = (BTreeMap::new(), BTreeMap::new());
        let mut forward = Self { batch, networks, moment, arrived, views, encoded, kept: Vec::new(), scored };
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
            let mode = self.networks.mode(&pass.network, self.moment.mode);
            let encoded = if learning.contains(pass) && self.networks.recomputes() {
                let (encoded, kept) = self.begin(pass, mode).forward_sparing(self.view(&pass.view).input(), mode)?;
                self.kept.push((pass.clone(), kept));
                encoded
            } else {
                self.encode(pass, mode, learning.contains(pass))
            };
            self.encoded.insert(pass.clone(), encoded);
        }
        Ok(())
    }

    /// Brings what the backward pass of the loss has found to the weights.
    pub(crate) fn finish(mut self, parameters: &Parameters) -> Result<(), Error> {
        parameters.gather()?;
        // The last first, as without pieces: the sums are then the same to the bit.
        while let Some((pass, kept)) = self.kept.pop() {
            self.networks.encoder(&pass.network).finish(self.encoded(&pass.network, &pass.view), kept)?;
            parameters.gather()?;
        }
        parameters.forget();
        Ok(())
    }

    /// The encoder of a pass, with the generator where the pass has it.
    fn begin(&self, pass: &Pass, mode: Mode) -> &'a Encoder {
        StepContext { mode, ..self.moment }.seed(self.batch, &[&pass.network, &pass.view]);
        self.networks.encoder(&pass.network)
    }

    fn encode(&self, pass: &Pass, mode: Mode, learns: bool) -> Encoded {
        let encode = || self.begin(pass, mode).forward(self.view(&pass.view).input(), mode);
        if learns { encode() } else { tch::no_grad(encode) }
    }

    /// The rows of the filled view with the generator's samples at the positions to predict.
    fn fill(&mut self, view: &str, learning: &BTreeSet<Pass>) -> UploadedView {
        let (name, generator) = self.networks.maker(view).expect("made views have a maker");
        let pass = Pass::new(name, generator.fills());
        let draws_n = generator.uses_row_draws().then(|| self.arrived.get(generator.fills(), DRAWS.spec().name));
        let ids_n = match generator.head() {
            None => {
                self.seed(name);
                generator.sample_blindly(draws_n.as_ref(), self.predicted(&pass.view).count, self.networks.device())
            }
            Some(head) => self.sample(&pass, &head.lend(self.networks.precision()), learning, |block| {
                generator.sample(block.logits_cv, draws_n.as_ref().map(|draws_n| block.of(draws_n)).as_ref())
            }),
        };
        self.view(generator.fills()).filled_with(&ids_n)
    }

    /// An id for each position to predict: from the scores that a loss needs too, if these are of the mode in which the
    /// generator samples, else from those of its own pass.
    fn sample(
        &mut self,
        pass: &Pass,
        head: &TokenHead,
        learning: &BTreeSet<Pass>,
        draw: impl Fn(Block<'_>) -> Tensor,
    ) -> Tensor {
        let generator = self.networks.sampler(&pass.network).expect("it is a generator");
        let (mode, sampling) = (self.moment.mode, generator.sampling_mode(self.moment.mode));
        let predicted = self.predicted(&pass.view);
        let mut ids = Vec::new();
        let mut look = |block: Block<'_>| ids.push(draw(block));
        let gather = |encoded: &Encoded| Self::gather(&encoded.hidden_btd, &predicted.positions_n);
        let scored = if let Some(encoded) = self.encoded.get(pass).filter(|_| sampling == mode) {
            self.seed(&pass.network);
            let mut score = || head.score(&gather(encoded), &predicted.targets_n, &mut look);
            Some(if learning.contains(pass) { score() } else { tch::no_grad(score) })
        } else {
            let encoded = self.encode(pass, sampling, false);
            self.seed(&pass.network);
            head.look(&gather(&encoded), look);
            None
        };
        let ids_n = joined(ids).unwrap_or_else(|| Tensor::zeros([0], (INDEX, self.networks.device())));
        if let Some(scored) = scored {
            self.scored.insert(pass.clone(), scored);
        }
        ids_n
    }

    /// The batch, on the host.
    #[must_use]
    pub(crate) fn batch(&self) -> &'a HostBatch<'a> {
        self.batch
    }

    /// The networks, for tied tables.
    #[must_use]
    pub(crate) fn networks(&self) -> &'a Networks {
        self.networks
    }

    /// One pass over one view; the objective that asks has declared it in [`Reads`](trainer_plan::objectives::Reads).
    #[must_use]
    pub(crate) fn encoded(&self, network: &str, view: &str) -> &Encoded {
        let pass = Pass::new(network, view);
        self.encoded.get(&pass).unwrap_or_else(|| panic!("`{view}` by `{network}` is read but not declared"))
    }

    /// What is known of the scores at the positions that a generator predicts, if sampling has needed them too.
    #[must_use]
    pub(crate) fn scored(&self, network: &str, view: &str) -> Option<&Scored> {
        self.scored.get(&Pass::new(network, view))
    }

    /// The view's ids `[b, t]` and which of them are real tokens.
    #[must_use]
    pub(crate) fn view(&self, view: &str) -> &UploadedView {
        self.views.get(view).unwrap_or_else(|| panic!("view `{view}` is read but not declared"))
    }

    /// The positions to predict in a view and their targets.
    #[must_use]
    pub(crate) fn predicted(&self, view: &str) -> &Predicted {
        self.view(view).predicted.as_ref().unwrap_or_else(|| panic!("view `{view}` has no labels"))
    }

    /// What an objective has packed, under the owner and name that it gave it.
    pub(crate) fn sent(&self, owner: &str, name: &'static str) -> Tensor {
        self.arrived.get(owner, name)
    }

    /// Hidden states of flat positions, `[n, d]`.
    pub(crate) fn gather(hidden_btd: &Tensor, positions_n: &Tensor) -> Tensor {
        let width = hidden_btd.size()[2];
        hidden_btd.view([-1, width]).index_select(0, positions_n)
    }

    /// Seeds torch's generator for a draw by the objective of that name: call it right before, and draw nothing
    /// without it. The same (seed, step, micro-batch, name) draws the same, whatever ran before.
    pub(crate) fn seed(&self, objective: &str) {
        self.moment.seed(self.batch, &["objective", objective]);
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

    /// The networks of the tests' run, fed with what the generator makes.
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
        let moment = StepContext { seed: 7, step: Step(3), mode };
        Forward::run(batch, &passes, &passes, moment, Staging::default()).expect("all columns are there")
    }

    fn ids(tensor: &Tensor) -> Vec<i64> {
        Vec::try_from(tensor.reshape([-1])).expect("ids")
    }

    #[test]
    fn a_made_view_is_the_original_but_where_tokens_were_masked() {
        let _alone = testing::generator();
        let (batch, networks) = (testing::batch(0), networks());
        let host = HostBatch::new(&batch, &networks).expect("a good batch");
        let forward = forward(&host, Mode::Train);
        let (masked, made) = (forward.view("masked"), forward.view("corrupted"));
        assert_eq!(ids(&masked.originals_bt()), ids(&made.originals_bt()));
        let predicted = forward.predicted("corrupted");
        let replaced = i64::try_from(made.replaced_bt().sum(Kind::Int64)).expect("one count");
        assert!((1..=predicted.positions_n.size()[0]).contains(&replaced), "some masked ones differ, and no others");
        let at = |tensor: &Tensor| ids(&tensor.reshape([-1]).index_select(0, &predicted.positions_n));
        assert!(at(&made.ids_bt).iter().all(|id| (0..i64::from(testing::WORDS)).contains(id)), "no padding row");
        assert_ne!(at(&made.ids_bt), at(&masked.ids_bt), "the masks are filled");
    }

    #[test]
    fn samples_do_not_depend_on_the_micro_batch() {
        let _alone = testing::generator();
        let (batch, networks) = (testing::batch(0), networks());
        let made = |batch: &Batch| {
            let host = HostBatch::new(batch, &networks).expect("a good batch");
            ids(&forward(&host, Mode::Eval).view("corrupted").ids_bt)
        };
        let half = testing::ROWS / 2;
        let halves = [made(&batch.slice(0, half)), made(&batch.slice(half, testing::ROWS - half))].concat();
        assert_eq!(made(&batch), halves);
    }
}
