//! Prediction of masked tokens with the weights of a checkpoint, for `cloze fill`.

use schemas::ordinal::Step;
use store::Store;
use tch::{Kind, Tensor};
use trainer_plan::Error;
use trainer_plan::TrainPlan;
use trainer_plan::networks::MAIN;

use crate::device::native::CheckStatus as _;
use crate::device::tensors::upload_once;
use crate::model::encoder::Input;
use crate::model::forward::Forward;
use crate::model::layers::Mode;
use crate::training::checkpoint;
use crate::training::inference;
use crate::training::oom_error;
use crate::training::step::Trainer;

/// Token id and its probability.
pub type TokenGuess = (u32, f64);

/// Weights of a checkpoint, in eval mode.
#[derive(Debug)]
pub struct Filler {
    trainer: Trainer,
    /// Steps after which the weights were saved; `None` for those of a model.
    step: Option<Step>,
}

impl Filler {
    /// Loads the weights of `run` after `step`, or those of its newest checkpoint.
    ///
    /// # Errors
    /// If there is no such checkpoint, or if no objective of the run predicts tokens.
    pub fn open(plan: &TrainPlan, run: &Store, step: Option<Step>) -> Result<Self, Error> {
        let (place, snapshot) = checkpoint::pick(run, step)?;
        // Without the identity check: a changed key does not matter for inference.
        let step = Some(snapshot.state.step);
        let filler = Self::with_weights(plan, |trainer| trainer.load(&place, &snapshot).map(drop))?;
        Ok(Self { step, ..filler })
    }

    /// Loads the weights that `train.init_from` of the plan names, as those of [`inference_plan`] do.
    ///
    /// # Errors
    /// If the folder cannot be read, or if its model is of another shape.
    ///
    /// [`inference_plan`]: trainer_plan::hf::inference_plan
    pub fn of_model(plan: &TrainPlan) -> Result<Self, Error> {
        Self::with_weights(plan, Trainer::begin)
    }

    fn with_weights(plan: &TrainPlan, load: impl FnOnce(&mut Trainer) -> Result<(), Error>) -> Result<Self, Error> {
        let trainer = inference::trainer(plan, load)?;
        if trainer.token_head().is_some() {
            return Ok(Self { trainer, step: None });
        }
        let objectives: Vec<String> = plan.active().map(|it| format!("`{}`", it.objective.kind())).collect();
        Err(Error::Config(format!(
            "this run has the objectives {}, and none of them trains the main network to predict tokens, as `masked_lm` \
             and `corrective_lm` do: it cannot fill in blanks",
            objectives.join(", ")
        )))
    }

    /// Steps after which the weights were saved; `None` for those of a model.
    #[must_use]
    pub fn step(&self) -> Option<Step> {
        self.step
    }

    /// Returns the `top` most probable ids for each mask of a row, the most probable first. The row includes its frame.
    /// Probabilities are over all ids. If `top` exceeds the number of ids, all of them are returned.
    ///
    /// # Errors
    /// If the row is longer than the network has positions.
    pub fn predict(&self, ids: &[u32], top: usize) -> Result<Vec<Vec<TokenGuess>>, Error> {
        let plan = self.trainer.plan();
        if ids.len() > plan.encoder.max_positions as usize {
            let tokens = ids.len();
            let most = plan.encoder.max_positions;
            return Err(Error::Config(format!(
                "the text has {tokens} tokens, but the network has only {most} positions; shorten the text"
            )));
        }
        oom_error::wrap_read_only(plan, || self.guesses(ids, top))
    }

    fn guesses(&self, ids: &[u32], top: usize) -> Result<Vec<Vec<TokenGuess>>, Error> {
        let plan = self.trainer.plan();
        let _guard = tch::no_grad_guard();
        let row: Vec<i64> = ids.iter().map(|&id| i64::from(id)).collect();
        let masks = (0_i64..).zip(ids).filter(|&(_, &id)| id == plan.vocab.special.mask).map(|(at, _)| at);
        let positions_n = upload_once(&Tensor::from_slice(&masks.collect::<Vec<_>>()), self.trainer.device());
        let ids_bt = upload_once(&Tensor::from_slice(&row).unsqueeze(0), self.trainer.device());
        let input = Input { ids_bt: &ids_bt, token_types_bt: None, valid_bt: None, packed: None };
        let encoded = self.trainer.networks().encoder(MAIN).forward(input, Mode::Eval);
        let hidden_nd = Forward::gather(&encoded.hidden_btd, &positions_n);
        let head = self.trainer.token_head().expect("a head was found when this was opened");
        let logits_nv = head.logits(&hidden_nd);
        // The table has padding rows that belong to no id.
        let probabilities_nv = logits_nv.narrow(1, 0, i64::from(plan.vocab.size)).softmax(-1, Kind::Double);
        (0..positions_n.size()[0]).map(|mask| best(&probabilities_nv.get(mask), top)).collect()
    }
}

fn best(probabilities_v: &Tensor, top: usize) -> Result<Vec<TokenGuess>, Error> {
    let ids = probabilities_v.size()[0];
    let (values, indices) =
        probabilities_v.f_topk(i64::try_from(top).unwrap_or(ids).min(ids), -1, true, true).checked()?;
    let values = Vec::<f64>::try_from(&values).checked()?;
    let indices = Vec::<i64>::try_from(&indices).checked()?;
    Ok(indices.into_iter().zip(values).map(|(id, p)| (u32::try_from(id).expect("ids are 32-bit"), p)).collect())
}
