use std::collections::BTreeMap;

use trainer_plan::encoder::{RelativeForm, RelativePositions};
use trainer_plan::run_weights;

use super::*;
use crate::device::precision::INDEX;
use crate::device::tensors::as_i64;
use crate::model::parameters::Parameters;
use crate::testing;

fn encoder(config: &EncoderConfig) -> Encoder {
    let specs = run_weights::of_networks(config, &BTreeMap::new(), testing::WORDS);
    let parameters = Parameters::new(&specs, 1, Device::Cpu);
    Encoder::build(config, Precision::F32, &Shared::default(), &parameters.path("encoder"))
}

#[test]
fn unfused_attention_equals_fused_attention() {
    let _alone = testing::generator();
    let mut config = testing::request().encoder;
    // Too small to drop anything, but not 0, which selects the other code path.
    config.dropout = 1e-9;
    let ids_bt = Tensor::arange(24, (INDEX, Device::Cpu)).view([3, 8]);
    let valid_bt = Tensor::arange(8, (INDEX, Device::Cpu)).lt(6).expand([3, 8], false);
    for form in [RelativeForm::None, RelativeForm::CocoLm, RelativeForm::T5] {
        config.relative_positions = RelativePositions { kind: form, num_buckets: 8, max_distance: 12 };
        let encoder = encoder(&config);
        let input = Input { ids_bt: &ids_bt, token_types_bt: None, valid_bt: Some(&valid_bt), packed: None };
        let [train, eval] = [Mode::Train, Mode::Eval].map(|mode| encoder.forward(input, mode).hidden_btd);
        assert!(train.allclose(&eval, 1e-5, 1e-6, false), "{form:?}");
    }
}

/// In bfloat16 both scores would be 70.
#[test]
fn scores_of_unfused_attention_are_float32_before_the_softmax() {
    let _alone = testing::generator();
    let mut config = testing::request().encoder;
    // Too small to drop anything.
    config.dropout = 1e-9;
    let specs = run_weights::of_networks(&config, &BTreeMap::new(), testing::WORDS);
    let parameters = Parameters::new(&specs, 1, Device::Cpu);
    for precision in [Precision::F32, Precision::Bf16] {
        let layer = Layer::build(&parameters.path("encoder.layers.0"), &config, precision);
        let row = |values: &[f32], rows: i64| {
            precision.compute(&Tensor::from_slice(values)).view([1, 1, rows, as_i64(values.len()) / rows])
        };
        let q = row(&[1.0, 1.0], 1);
        let k = row(&[99.0, 0.25, 99.0, 0.0], 2);
        let v = row(&[1.0, 0.0, 0.0, 1.0], 2);
        let mixed = layer.attend_unfused(&q, &k, &v, None, Mode::Train).to_kind(MASTER).flatten(0, -1);
        let expected = Tensor::from_slice(&[0.544_f32, 0.456]);
        assert!(mixed.allclose(&expected, 0.0, 0.002, false), "{precision:?}: {mixed:?}");
    }
}

#[test]
fn one_mask_for_rows_that_are_equally_long_is_one_for_each() {
    let _alone = testing::generator();
    let mut config = testing::request().encoder;
    let ids_bt = Tensor::arange(24, (INDEX, Device::Cpu)).view([3, 8]);
    let valid_1t = Tensor::arange(8, (INDEX, Device::Cpu)).lt(6).unsqueeze(0);
    let valid_bt = valid_1t.expand([3, 8], false);
    for form in [RelativeForm::None, RelativeForm::CocoLm] {
        config.relative_positions = RelativePositions { kind: form, num_buckets: 8, max_distance: 12 };
        let encoder = encoder(&config);
        for mode in [Mode::Train, Mode::Eval] {
            let [one, each] = [&valid_1t, &valid_bt].map(|valid_bt| {
                tch::manual_seed(3);
                encoder
                    .forward(
                        Input { ids_bt: &ids_bt, token_types_bt: None, valid_bt: Some(valid_bt), packed: None },
                        mode,
                    )
                    .hidden_btd
            });
            assert!(one.allclose(&each, 1e-6, 1e-7, false), "{form:?} {mode:?}");
        }
    }
}

#[test]
fn relative_positions_distinguish_orders() {
    let _alone = testing::generator();
    let mut config = testing::request().encoder;
    config.relative_positions = RelativePositions { kind: RelativeForm::CocoLm, num_buckets: 8, max_distance: 12 };
    let encoder = encoder(&config);
    let relative = encoder.relative.as_ref().expect("configured");
    let _ = tch::no_grad(|| encoder.position.master().shallow_clone().zero_());
    let ids_bt = Tensor::from_slice(&[5_i64, 6, 7, 8, 8, 7, 6, 5]).view([2, 4]);
    let input = Input { ids_bt: &ids_bt, token_types_bt: None, valid_bt: None, packed: None };
    let mirrored = |encoder: &Encoder| {
        let hidden_btd = encoder.forward(input, Mode::Eval).hidden_btd;
        hidden_btd.get(0).allclose(&hidden_btd.get(1).flip([0]), 1e-4, 1e-5, false)
    };
    assert!(!mirrored(&encoder), "a learned bias for each distance depends on the order");
    let _ = tch::no_grad(|| relative.weight_uh.master().shallow_clone().zero_());
    assert!(mirrored(&encoder), "without the bias and position rows, order has no effect");
}

/// The hidden states after `n` layers are those of an encoder that has only `n`.
#[test]
fn first_layers_are_an_encoder_of_their_own() {
    let _alone = testing::generator();
    let mut config = testing::request().encoder;
    let whole = encoder(&config);
    let ids_bt = Tensor::arange(8, (INDEX, Device::Cpu)).view([1, 8]);
    let input = Input { ids_bt: &ids_bt, token_types_bt: None, valid_bt: None, packed: None };
    for mode in [Mode::Train, Mode::Eval] {
        let seeded = |encoder: &Encoder, layers| {
            tch::manual_seed(3);
            encoder.forward_to(layers, input, mode).hidden_btd
        };
        config.layers = 1;
        assert_eq!(seeded(&whole, Some(1)), seeded(&encoder(&config), None), "{mode:?}");
        tch::manual_seed(3);
        let embeddings_btd = whole.forward(input, mode).embeddings_btd();
        assert_eq!(seeded(&whole, Some(0)), embeddings_btd, "{mode:?}");
        assert_eq!(seeded(&whole, Some(2)), seeded(&whole, None), "{mode:?}");
    }
}

/// A transposed bias would make each token attend to its left neighbour.
#[test]
fn a_bias_for_keys_on_the_right_shows_a_token_its_right_neighbour() {
    let _alone = testing::generator();
    let mut config = testing::request().encoder;
    config.layers = 1;
    for form in [RelativeForm::CocoLm, RelativeForm::T5] {
        config.relative_positions = RelativePositions { kind: form, num_buckets: 8, max_distance: 12 };
        let encoder = encoder(&config);
        let weight_uh = encoder.relative.as_ref().expect("configured").weight_uh.master();
        let bucket = config.relative_positions.buckets().expect("configured").bucket(1);
        // Large enough to suppress all other keys if there is a right neighbour.
        let _ = tch::no_grad(|| weight_uh.shallow_clone().zero_().get(bucket).fill_(200.0));
        let seen = |ids: [i64; 6]| {
            let ids_bt = Tensor::from_slice(&ids).view([1, 6]);
            encoder
                .forward(Input { ids_bt: &ids_bt, token_types_bt: None, valid_bt: None, packed: None }, Mode::Eval)
                .hidden_btd
        };
        let one = seen([5, 6, 7, 8, 9, 10]);
        let other = seen([5, 6, 7, 30, 9, 10]);
        let differs = |at: i64| !one.get(0).get(at).allclose(&other.get(0).get(at), 1e-5, 1e-6, false);
        // Changed positions: the token itself, its left neighbour, and the last one, which has no right neighbour and
        // attends to all.
        assert_eq!((0..6).filter(|&at| differs(at)).collect::<Vec<_>>(), [2, 3, 5], "{form:?}");
    }
}

#[test]
fn segments_and_narrow_tables_reach_the_hidden_states() {
    let _alone = testing::generator();
    let mut config = testing::request().encoder;
    config.embedding = Some(8);
    let encoder = encoder(&config);
    let ids_bt = Tensor::arange(8, (INDEX, Device::Cpu)).view([1, 8]);
    let types_bt = Tensor::from_slice(&[0_i64, 0, 0, 0, 1, 1, 1, 1]).view([1, 8]);
    let forward = |token_types_bt| {
        encoder.forward(Input { ids_bt: &ids_bt, token_types_bt, valid_bt: None, packed: None }, Mode::Eval).hidden_btd
    };
    assert_eq!(encoder.word.master().size()[1], 8);
    assert_eq!(forward(None).size(), [1, 8, i64::from(config.hidden)]);
    let first_bt = types_bt.zeros_like();
    assert!(forward(None).allclose(&forward(Some(&first_bt)), 1e-6, 1e-7, false));
    assert!(!forward(None).allclose(&forward(Some(&types_bt)), 1e-6, 1e-7, false));
}

/// Compares two documents in one row, the second without the frame, with both in separate rows; padded to one width.
#[test]
fn documents_that_share_a_row_are_encoded_as_if_each_were_alone() {
    let _alone = testing::generator();
    let mut config = testing::request().encoder;
    // Too small to drop anything, but not 0, which selects attention in separate operations.
    config.dropout = 1e-9;
    for form in [RelativeForm::None, RelativeForm::CocoLm] {
        config.relative_positions = RelativePositions { kind: form, num_buckets: 8, max_distance: 12 };
        let encoder = encoder(&config);
        let ids = |ids: &[i64]| Tensor::from_slice(ids).unsqueeze(0);
        let documents_bt = ids(&[0, 0, 0, 0, 1, 1, 1, 1]);
        let places_bt = ids(&[0, 1, 2, 3, 0, 1, 2, 3]);
        let packed = Some(Documents { documents_bt: &documents_bt, places_bt: &places_bt });
        let valid_bt = Tensor::from_slice(&[true, true, true, true, true, true, true, false]).unsqueeze(0);
        for mode in [Mode::Train, Mode::Eval] {
            let alone = |ids_bt: &Tensor| {
                let input = Input { ids_bt, token_types_bt: None, valid_bt: None, packed: None };
                encoder.forward(input, mode).hidden_btd
            };
            let ids_bt = ids(&[2, 9, 8, 7, 20, 21, 22, 0]);
            let both = |packed| {
                let input = Input { ids_bt: &ids_bt, token_types_bt: None, valid_bt: Some(&valid_bt), packed };
                encoder.forward(input, mode).hidden_btd
            };
            let packed = both(packed);
            let mixed = both(None);
            let first = alone(&ids(&[2, 9, 8, 7]));
            let second = alone(&ids(&[20, 21, 22]));
            assert!(packed.narrow(1, 0, 4).allclose(&first, 0.0, 1e-5, false), "{form:?} {mode:?}: the first");
            assert!(packed.narrow(1, 4, 3).allclose(&second, 0.0, 1e-5, false), "{form:?} {mode:?}: the second");
            assert!(
                !mixed.narrow(1, 0, 4).allclose(&first, 0.0, 1e-3, false),
                "without document masks they attend to each other"
            );
            assert!(i64::try_from(packed.isfinite().logical_not().sum(INDEX)).expect("a count") == 0, "padding too");
        }
    }
}
