//! Scores of label words, compared with those of `…ForMaskedLM`.

use std::collections::BTreeMap;

use schemas::columns::{ATTENTION_MASK, IGNORE, INPUT_IDS, TARGETS, TOKEN_TYPES};
use schemas::ordinal::BatchIndex;
use schemas::{Batch, BatchBuilder};
use store::Store;
use tch::{Kind, Tensor};
use trainer_plan::TrainRequest;
use trainer_plan::checkpoint::MAIN_FILE;
use trainer_plan::objectives::prompt_classification::PromptClassification;
use trainer_plan::objectives::{AnyObjective, TokenHeadForm};

use super::families::{electra, mpnet, roberta};
use super::{VIEW, begun, bert, copied, expected, forward, golden, host, largest, loss, weights};
use crate::device::tensors;
use crate::device::tensors::HostTensors;
use crate::testing;
use crate::training::step::Trainer;

const WORDS: [u32; 3] = [71, 8, 40];
/// Position and class of each row. The third row has four tokens.
const MASKS: [(usize, i32); 3] = [(6, 2), (1, 0), (3, 1)];

/// Replaces the objectives of a run by a prompt.
fn prompted(mut request: TrainRequest, form: TokenHeadForm) -> TrainRequest {
    let objective = PromptClassification { view: VIEW.to_owned(), words: WORDS.to_vec(), form, init_head: None };
    request.objectives = [("task".to_owned(), AnyObjective::PromptClassification(objective))].into();
    request.loss = [("task".to_owned(), 1.0)].into();
    request
}

fn batch(stored: &BTreeMap<String, Tensor>) -> Batch {
    let mut builder = BatchBuilder::new(BatchIndex(0), 3);
    let numbers = |name: &str| Vec::<i32>::try_from(stored[name].to_kind(Kind::Int).view([-1])).expect("whole numbers");
    let flags = |flags: &Tensor| Vec::<u8>::try_from(flags.to_kind(Kind::Uint8).view([-1])).expect("flags");
    let mut targets = vec![IGNORE; 3 * 14];
    for (row, (position, class)) in MASKS.into_iter().enumerate() {
        targets[row * 14 + position] = class;
    }
    builder.push(VIEW, INPUT_IDS, 14, numbers("input_ids"));
    builder.push(VIEW, TARGETS, 14, targets);
    builder.push(VIEW, ATTENTION_MASK, 14, flags(&stored["attention_mask"]));
    if let Some(token_types) = stored.get("token_type_ids") {
        builder.push(VIEW, TOKEN_TYPES, 14, flags(token_types));
    }
    builder.finish()
}

fn write(folder: &Store, name: &str, weights: &HostTensors) {
    let mut file = folder.writer(name).expect("a file");
    tensors::write(weights, &mut file).expect("written");
    file.commit().expect("written");
}

/// The probability of a class is that of its word among the label words, from the logits that `transformers` has of the
/// whole vocabulary.
#[test]
fn label_words_have_the_logits_of_transformers() {
    let _generator = testing::generator();
    for (model, request) in [
        ("hf_bert", bert::run()),
        ("hf_roberta", roberta()),
        ("hf_mpnet", mpnet()),
        ("hf_electra_generator", electra(12, 20)),
    ] {
        let stored = expected(model);
        let trainer = begun(&prompted(request, TokenHeadForm::Transform), model);
        let batch = batch(&stored);
        let host = host(&trainer, &batch);
        let forward = forward(&trainer, &host);
        let scores_btk = trainer.members()[0].loss.scores(&forward).expect("an objective for labelled examples");
        assert_eq!(scores_btk.size(), [3, 14, 3]);
        let mut nll = 0.0;
        for (row, (position, class)) in (0..).zip(MASKS) {
            let at =
                |tensor: &Tensor| tensor.get(row).get(i64::try_from(position).expect("small")).to_kind(Kind::Double);
            let logits: Vec<f64> =
                WORDS.map(|word| f64::try_from(at(&stored["logits"]).get(word.into())).expect("one")).into();
            let found = Vec::<f64>::try_from(at(&scores_btk).detach()).expect("three");
            assert!(found.iter().zip(&logits).all(|(found, logit)| (found - logit).abs() < 1e-4), "{model}: {found:?}");
            let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
            nll += sum.ln() - logits[usize::try_from(class).expect("small")];
        }
        assert!((f64::try_from(loss(&trainer, &forward)).expect("one") - nll / 3.0).abs() < 1e-4, "{model}: {nll}");
        assert!(nll > 0.1, "{model}: the classes differ");
    }
}

/// The head of the model is needed: there is no new one.
#[test]
fn a_model_without_a_head_that_predicts_tokens_is_refused() {
    let _generator = testing::generator();
    let home = tempfile::tempdir().expect("a folder");
    let store = copied("hf_bert", home.path());
    let mut tensors = weights(&golden("hf_bert"));
    tensors.retain(|name, _| !name.starts_with("cls."));
    write(&store, "model.safetensors", &tensors);
    let mut request = prompted(bert::run(), TokenHeadForm::Transform);
    request.train.init_from = Some(home.path().to_owned());
    let error = testing::trainer(&request).begin().expect_err("no head").to_string();
    assert!(error.contains("`heads.task.bias`") && error.contains("predicts tokens"), "{error}");
}

/// The head of a run is found under the name of its objective.
#[test]
fn a_run_continues_the_head_of_another() {
    let _generator = testing::generator();
    let first = begun(&bert::run(), "hf_bert");
    let home = tempfile::tempdir().expect("a folder");
    write(&Store::folder(home.path()).expect("there"), MAIN_FILE, &first.weights().expect("copied"));
    let continued = |init_head: Option<&str>| {
        let mut request = prompted(bert::run(), TokenHeadForm::Transform);
        let Some(AnyObjective::PromptClassification(objective)) = request.objectives.get_mut("task") else {
            panic!("just put there")
        };
        objective.init_head = init_head.map(str::to_owned);
        request.train.init_from = Some(home.path().to_owned());
        let mut trainer = testing::trainer(&request);
        trainer.begin().map(|()| trainer)
    };
    let second = continued(Some("mlm")).expect("the head of `mlm`");
    for part in ["dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias"] {
        let of = |trainer: &Trainer, head: &str| {
            trainer.parameters().get(&format!("heads.{head}.{part}")).expect("there").shallow_clone()
        };
        assert!(largest(&(of(&first, "mlm") - of(&second, "task"))) < f64::MIN_POSITIVE, "{part}");
    }
    let error = continued(None).map(|_| ()).expect_err("no head `task`").to_string();
    assert!(error.contains("`heads.task.bias`"), "{error}");
}
