//! Contract tests of the registered networks: each member of the table on each device.

use std::collections::BTreeMap;

use tch::{Device, Kind, Tensor};
use trainer_plan::encoder::{EncoderConfig, VocabFacts};
use trainer_plan::networks::{AnyNetwork, NetworkCheckContext};
use trainer_plan::run_weights;

use super::built::{Networks, copy_to_teacher};
use crate::device::precision::{INDEX, Precision};
use crate::model::encoder::Input;
use crate::model::layers::Mode;
use crate::model::parameters::Parameters;
use crate::testing;

const NAME: &str = "it";

/// One network and a main network, with fresh weights.
struct Bench {
    network: AnyNetwork,
    encoder: EncoderConfig,
    vocab: VocabFacts,
    parameters: Parameters,
    networks: Networks,
}

impl Bench {
    fn new(network: AnyNetwork, device: Device) -> Self {
        let plan = testing::request();
        let others = BTreeMap::from([(NAME.to_owned(), network.clone())]);
        let specs = run_weights::of_networks(&plan.encoder, &others, plan.vocab.size);
        let parameters = Parameters::new(&specs, 7, device);
        let networks = Networks::build(&plan.encoder, &others, &plan.vocab, Precision::F32, &parameters);
        Self { network, encoder: plan.encoder, vocab: plan.vocab, parameters, networks }
    }

    /// Returns the network's own weights: the name below its prefix, and whether the optimizer updates them.
    fn own(&self) -> Vec<(&str, bool)> {
        let own = self.parameters.iter().filter_map(|(name, weight)| Some((name.strip_prefix("it.")?, weight.trains)));
        own.collect()
    }
}

fn kinds() -> Vec<AnyNetwork> {
    let examples = AnyNetwork::examples();
    // The tests' run, which is as small, adds its own configurations.
    examples.into_iter().chain(testing::networks().into_values()).collect()
}

fn benches() -> impl Iterator<Item = (String, Bench)> {
    let on = |device: Device| kinds().into_iter().map(move |network| (network, device));
    testing::devices().into_iter().flat_map(on).map(|(network, device)| {
        let name = format!("{} on {device:?}", network.kind());
        (name, Bench::new(network, device))
    })
}

#[test]
fn configurations_survive_toml_and_refuse_unknown_keys() {
    for network in AnyNetwork::examples() {
        let text = toml::to_string(&network).expect("a table");
        assert_eq!(toml::from_str::<AnyNetwork>(&text).expect("the serialized form parses"), network);
        let error = toml::from_str::<AnyNetwork>(&format!("no_such_key = 1\n{text}")).expect_err("an unknown key");
        assert!(error.to_string().contains("no_such_key"), "{error}");
    }
}

#[test]
fn example_configurations_have_no_problems() {
    let plan = testing::plan();
    for network in kinds() {
        let problems = network.problems(NetworkCheckContext { main: &plan.encoder, in_order: false });
        assert!(problems.is_empty(), "{}: {problems:?}", network.kind());
    }
}

#[test]
fn an_encoder_is_of_the_shape_that_was_announced() {
    let _alone = testing::generator();
    for (kind, bench) in benches() {
        let Some(shape) = bench.network.shape(&bench.encoder) else { continue };
        let device = bench.parameters.device();
        let ids_bt = Tensor::arange(8, (INDEX, device)).view([2, 4]);
        let input = Input { ids_bt: &ids_bt, token_types_bt: None, valid_bt: None, packed: None };
        let hidden_btd = bench.networks.encoder(NAME).forward(input, Mode::Eval).hidden_btd;
        assert_eq!(hidden_btd.size(), [2, 4, i64::from(shape.hidden)], "{kind}");
        let layers = bench.own().iter().filter(|(name, _)| name.ends_with("feed_forward.norm.weight")).count();
        assert_eq!(layers, shape.layers as usize, "{kind}");
    }
}

#[test]
fn a_network_that_does_not_learn_has_no_weight_that_does() {
    let _alone = testing::generator();
    for (kind, bench) in benches() {
        let learns = bench.network.is_trained();
        let other: Vec<_> = bench.own().into_iter().filter(|&(_, trains)| trains != learns).collect();
        assert!(other.is_empty(), "{kind}: weights differ from `learns` = {learns}: {other:?}");
    }
}

#[test]
fn every_declared_weight_is_used() {
    let _alone = testing::generator();
    for (kind, bench) in benches() {
        assert_eq!(bench.parameters.unused(), [""; 0], "{kind}");
    }
}

#[test]
fn only_copies_equal_the_main_network_after_teach() {
    let _alone = testing::generator();
    for (kind, bench) in benches() {
        let before: Vec<(String, Tensor)> =
            bench.parameters.iter().map(|(name, weight)| (name.to_owned(), weight.tensor.copy())).collect();
        copy_to_teacher(&BTreeMap::from([(NAME.to_owned(), bench.network.clone())]), &bench.parameters);
        for (name, former) in before {
            let now = bench.parameters.get(&name).expect("`copy_to_teacher` removes no weight");
            let Some(own) = name.strip_prefix("it.").filter(|_| bench.network.copies_main()) else {
                assert_eq!(now, &former, "{kind}: `{name}` is not a copy");
                continue;
            };
            assert_eq!(
                now,
                bench.parameters.get(own).expect("every weight of a copy exists in the main network"),
                "{kind}: `{name}`"
            );
        }
    }
}

#[test]
fn a_head_that_predicts_tokens_scores_every_id() {
    let _alone = testing::generator();
    for (kind, bench) in benches() {
        let shape = bench.network.shape(&bench.encoder);
        assert_eq!(
            bench.parameters.get("it.head.bias").is_some(),
            bench.network.predicts_tokens(),
            "{kind}: a head exists if and only if the network predicts tokens"
        );
        let Some(shape) = shape.filter(|_| bench.network.predicts_tokens()) else { continue };
        let hidden_nd = Tensor::ones([3, i64::from(shape.hidden)], (Kind::Float, bench.parameters.device()));
        let logits_nv = bench.networks.head(NAME).leaves(Precision::F32).logits(&hidden_nd);
        let real_nv = logits_nv.narrow(1, 0, i64::from(bench.vocab.size));
        let finite = i64::try_from(real_nv.isfinite().sum(INDEX)).expect("one count");
        assert_eq!(finite, 3 * i64::from(bench.vocab.size), "{kind}");
    }
}

#[test]
fn generated_views_contain_ids_of_the_vocabulary() {
    let _alone = testing::generator();
    for (kind, bench) in benches() {
        let Some(made) = bench.network.output_view() else {
            assert!(bench.networks.sampler_of("corrupted").is_none(), "{kind} makes a view that it does not declare");
            continue;
        };
        let (name, sampler) = bench.networks.sampler_of(made.view).expect("a declared view has a sampler");
        assert_eq!((name, sampler.input_view()), (NAME, made.input_view), "{kind}");
        let device = bench.parameters.device();
        let logits_nv = Tensor::randn([50, 64], (Kind::Float, device));
        let draws_n = (Tensor::arange(50, (Kind::Float, device)) + 0.5) / 50.0;
        for ids_n in [sampler.sample(&logits_nv, Some(&draws_n)), sampler.sample_uniform(Some(&draws_n), 50, device)] {
            let ids = Vec::<i64>::try_from(&ids_n).expect("ids");
            assert!(
                ids.len() == 50 && ids.iter().all(|id| (0..i64::from(bench.vocab.size)).contains(id)),
                "{kind}: {ids:?}"
            );
        }
        assert_eq!(sampler.sample_uniform(Some(&draws_n.narrow(0, 0, 0)), 0, device).size(), [0], "{kind}");
    }
}
