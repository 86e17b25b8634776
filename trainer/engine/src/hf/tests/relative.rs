//! Models with relative positions: MPNet, and our own code.

use trainer_plan::TrainRequest;
use trainer_plan::encoder::{EncoderConfig, Gelu, RelativeForm, RelativePositions};
use trainer_plan::networks::MAIN;

use super::exports::{Case, check};
use super::families::{assert_equal_models, begun_at, electra, mpnet};
use super::{ModelFamily, VIEW, batch, begun, expected, logits, objective};
use crate::testing;

/// A run whose padding has another id than that of MPNet, with rows that reach the last bucket.
fn mpnet_with_other_padding() -> TrainRequest {
    let mut plan = mpnet();
    plan.encoder.max_positions = 150;
    plan.vocab.special = testing::request().vocab.special;
    plan
}

fn with(encoder: EncoderConfig, kind: &str) -> TrainRequest {
    let plan = mpnet_with_other_padding();
    TrainRequest {
        encoder,
        objectives: [("lm".to_owned(), objective(kind))].into(),
        loss: [("lm".to_owned(), 1.0)].into(),
        networks: testing::networks(),
        ..plan
    }
}

/// Encoder with COCO-LM's buckets.
fn cocolm() -> EncoderConfig {
    let relative_positions = RelativePositions { kind: RelativeForm::CocoLm, num_buckets: 32, max_distance: 128 };
    EncoderConfig { relative_positions, ..mpnet_with_other_padding().encoder }
}

#[test]
fn an_mpnet_is_read_as_transformers_reads_it() {
    let _generator = testing::generator();
    let trainer = begun(&mpnet(), "hf_mpnet");
    let expected = expected("hf_mpnet");
    let batch = batch(&expected, VIEW);
    assert_equal_models(&trainer, &expected, (&batch, VIEW), logits, ModelFamily::Mpnet);
}

#[test]
fn mpnet_exports_are_those_that_transformers_read() {
    let t5 = mpnet_with_other_padding().encoder;
    let detector = with(t5.clone(), "replaced_token");
    let choices = check(&[
        Case::new("hf_mpnet", mpnet(), ModelFamily::Mpnet),
        Case::new("hf_mpnet_swapped", mpnet_with_other_padding(), ModelFamily::Mpnet),
        Case::new("hf_mpnet_encoder", detector.clone(), ModelFamily::Mpnet),
        Case { name: "hf_mpnet_detector".to_owned(), run: detector, network: MAIN, family: None },
        Case::new("hf_cloze_t5_detector", with(t5.clone(), "replaced_token"), ModelFamily::Cloze),
        Case { name: "hf_cloze_t5".to_owned(), run: with(t5, "corrective_lm"), network: MAIN, family: None },
    ]);
    let classes: Vec<&str> = choices.iter().map(|choice| choice.class).collect();
    let [masked_lm, model] = ["MPNetForMaskedLM", "MPNetModel"];
    assert_eq!(classes, [masked_lm, masked_lm, model, model, "ClozeForPreTraining", "ClozeForMaskedLM"]);
}

#[test]
fn our_own_exports_are_those_that_transformers_read() {
    let tanh = EncoderConfig { gelu: Gelu::Tanh, ..cocolm() };
    let narrow = EncoderConfig { embedding: Some(16), ..cocolm() };
    let plain = EncoderConfig { relative_positions: RelativePositions::default(), ..cocolm() };
    let wide = RelativePositions { kind: RelativeForm::T5, num_buckets: 16, max_distance: 10 };
    let wide = EncoderConfig { relative_positions: wide, ..cocolm() };
    let cloze = ModelFamily::Cloze;
    check(&[
        Case::new("hf_cloze", with(cocolm(), "corrective_lm"), cloze),
        Case::new("hf_cloze_plain", with(plain, "corrective_lm"), cloze),
        Case::new("hf_cloze_masked_lm", with(tanh, "masked_lm"), cloze),
        Case::new("hf_cloze_narrow", with(narrow, "masked_lm"), cloze),
        Case::new("hf_cloze_detector", with(wide, "replaced_token"), cloze),
    ]);
}

#[test]
fn our_own_models_are_read_again() {
    let _generator = testing::generator();
    for run in [with(cocolm(), "corrective_lm"), with(cocolm(), "masked_lm"), with(cocolm(), "replaced_token")] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = store::Store::folder(home.path()).expect("there");
        let plan = testing::checked(run.clone());
        let choice = trainer_plan::hf::choose(&plan, MAIN, None, None).expect("a class");
        let ours = testing::trainer(&run).weights().expect("on the host");
        super::super::export(&ours, &plan, &choice, &folder).expect("written");
        let found = begun_at(&run, home.path()).weights().expect("on the host");
        let is_main = |name: &&String| !name.starts_with("generator.");
        for name in ours.keys().filter(is_main) {
            assert_eq!(found[name], ours[name], "{}: {name}", choice.class);
        }
    }
}

#[test]
fn relative_positions_that_mpnet_lacks_are_refused() {
    let refused = |encoder: EncoderConfig, family| {
        let plan = testing::checked(with(encoder, "masked_lm"));
        trainer_plan::hf::choose(&plan, MAIN, Some(family), None).expect_err("refused").to_string()
    };
    let other = refused(cocolm(), ModelFamily::Mpnet);
    assert!(other.contains("32 buckets of kind `t5` up to distance 128; export it as `cloze`"), "{other}");
    let none = refused(electra(24, 40).encoder, ModelFamily::Mpnet);
    assert!(none.contains("this run has none; export it as `bert`"), "{none}");
    let bert = refused(mpnet().encoder, ModelFamily::Bert);
    assert!(bert.contains("no relative positions; export it as `mpnet`"), "{bert}");
    let segments = testing::checked(mpnet());
    let segments = trainer_plan::hf::choose(&segments, MAIN, Some(ModelFamily::Mpnet), Some("pairs"));
    let segments = segments.expect_err("refused").to_string();
    assert!(segments.contains("rows of view `pairs` have two segments"), "{segments}");
}
