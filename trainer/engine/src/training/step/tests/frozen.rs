//! Frozen layers, heads on a layer, and class weights.

use trainer_plan::encoder::Frozen;
use trainer_plan::objectives::AnyObjective;

use super::*;

/// Request for one objective, with dropout.
fn request(kind: &str, keys: &str, frozen: Vec<Frozen>) -> TrainRequest {
    let mut request = testing::request();
    request.encoder.frozen = frozen;
    let objective: AnyObjective = toml::from_str(&format!("kind = \"{kind}\"\n{keys}")).expect("an objective");
    request.objectives = [("task".to_owned(), objective)].into();
    request.loss = [("task".to_owned(), 1.0)].into();
    request
}

/// Gradients of one step by name; `None` for weights without gradient.
fn named_gradients(request: &TrainRequest, batches: &[Batch]) -> BTreeMap<String, Option<Vec<f32>>> {
    let mut trainer = testing::trainer(request);
    trainer.accumulate(batches).expect("good batches");
    let (names, weights): (Vec<_>, Vec<_>) =
        trainer.parameters.iter().map(|(name, weight)| (name.to_owned(), &weight.tensor)).unzip();
    let values = |gradient: Tensor| Vec::try_from(gradient.reshape([-1])).expect("float32");
    let gradients = native::take_gradients(&weights).expect("weights").into_iter().map(|it| it.map(values));
    names.into_iter().zip(gradients).collect()
}

/// Layers 0 and 1 exist. A probe of layer 1 does not run layer 1.
#[test]
fn frozen_layers_have_no_gradient_and_all_other_gradients_are_the_same() {
    let _alone = testing::generator();
    let batch = testing::batch(0);
    let batches = [batch.slice(0, 2), batch.slice(2, 2)];
    for kind in ["classification", "regression", "token_classification"] {
        for (frozen, keys, untrained) in [
            (vec![Frozen::Layers(0)], "", &["encoder.embeddings.", "encoder.relative."][..]),
            (vec![Frozen::Layers(1)], "", &["encoder.embeddings.", "encoder.relative.", "encoder.layers.0."]),
            (vec![Frozen::Encoder], "", &["encoder."]),
            (vec![Frozen::Encoder], "layer = 0", &["encoder."]),
            (vec![], "layer = 1", &["encoder.layers.1."]),
            (vec![], "layer = 0", &["encoder.layers.", "encoder.relative."]),
        ] {
            for activation_checkpointing in [false, true] {
                let mut request = request(kind, keys, frozen.clone());
                request.encoder.relative_positions.kind = trainer_plan::encoder::RelativeForm::CocoLm;
                request.train.activation_checkpointing = activation_checkpointing;
                let found = named_gradients(&request, &batches);
                (request.encoder.frozen, request.train.activation_checkpointing) = (Vec::new(), false);
                let expected = named_gradients(&request, &batches);
                for (name, gradient) in &found {
                    let is_trained = !untrained.iter().any(|start| name.starts_with(start));
                    let case = format!("{kind} {frozen:?} {keys} {activation_checkpointing}: {name}");
                    assert_eq!(gradient.is_some(), is_trained, "{case}");
                    assert!(!is_trained || *gradient == expected[name], "{case}");
                }
            }
        }
    }
}

#[test]
fn frozen_weights_keep_their_values_and_have_no_moments() {
    let _alone = testing::generator();
    let mut trainer = testing::trainer(&request("classification", "layer = 2", vec![Frozen::Encoder]));
    let before = trainer.weights().expect("copied");
    for index in 0..3 {
        trainer.step(&[testing::batch(index)]).expect("good batches");
    }
    let after = trainer.weights().expect("copied");
    let changed: Vec<&String> = before.keys().filter(|name| before[*name] != after[*name]).collect();
    let heads = ["classifier.bias", "classifier.weight", "pooler.bias", "pooler.weight"];
    assert_eq!(changed, heads.map(|name| format!("heads.task.{name}")).iter().collect::<Vec<_>>());
    let has_moments = |name: &str| name.starts_with("mean.") || name.starts_with("variance.");
    assert_eq!(trainer.optimizer.state().filter(|(name, _)| has_moments(name)).count(), 2 * heads.len());
}

/// The second position of a row has class 0, its 11 others have class 1.
#[test]
fn weighted_means_do_not_depend_on_micro_batches() {
    let _alone = testing::generator();
    let mut request = request("token_classification", "class_weights = [5.0, 0.5]\ndropout = 0.0", vec![]);
    request.encoder.dropout = 0.0;
    let batch = testing::batch(0);
    let whole = vec![batch.clone()];
    let cut = vec![batch.slice(0, 3), batch.slice(3, 1)];
    let loss = |batches: &[Batch], request: &TrainRequest| {
        let mut trainer = testing::trainer(request);
        trainer.step(batches).expect("good batches");
        trainer.figures().expect("finite").figures.terms["task"]
    };
    let [one, other] = [&whole, &cut].map(|batches| loss(batches, &request));
    assert!((one - other).abs() < 1e-6, "{one} {other}");
    assert!(largest_difference(&gradients(&request, &whole), &gradients(&request, &cut)) < 1e-6);
    let counts = |request: &TrainRequest| {
        let trainer = testing::trainer(request);
        let host = cut.iter().map(|batch| HostBatch::new(batch, trainer.networks()).expect("a good batch"));
        host.map(|batch| trainer.members[0].loss.terms(&batch)[0].count).collect::<Vec<_>>()
    };
    assert_eq!(counts(&request), [3.0 * (5.0 + 11.0 * 0.5), 5.0 + 11.0 * 0.5]);
    request.train.normalize = Normalize::MicroBatch;
    assert!(largest_difference(&gradients(&request, &whole), &gradients(&request, &cut)) > 1e-4);
}
