//! Declaration of all weights of a run: its networks and the heads of its objectives.

use std::collections::BTreeMap;

use crate::encoder::EncoderConfig;
use crate::networks::{AnyNetwork, NetworkContext};
use crate::objectives::HeadContext;
use crate::request::TrainRequest;
use crate::weights::{self, SharedTables, WeightSpecs};

/// Declares the weights of a run.
#[must_use]
pub fn of_run(request: &TrainRequest) -> WeightSpecs {
    let mut specs = of_networks(&request.encoder, &request.used_networks(), request.vocab.size);
    let context = HeadContext { encoder: &request.encoder, vocab_size: request.vocab.size };
    for active in request.active() {
        active.objective.declare(&context, &mut specs.path(&format!("heads.{}", active.name)));
    }
    specs
}

/// Declares the weights of the main encoder under `encoder`, and those of the other networks under their names.
#[must_use]
pub fn of_networks(main: &EncoderConfig, others: &BTreeMap<String, AnyNetwork>, vocab_size: u32) -> WeightSpecs {
    let mut specs = WeightSpecs::default();
    weights::encoder(main, vocab_size, SharedTables::default(), &mut specs.path("encoder"));
    for (name, network) in others {
        network.declare(NetworkContext { main, vocab_size }, &mut specs.path(name));
    }
    specs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bert_base_has_its_published_weights() {
        let specs = of_networks(&EncoderConfig::default(), &BTreeMap::new(), 30_522);
        // 108,891,648 without a pooler, with the published vocabulary; padding adds 6 rows of 768.
        assert_eq!((specs.trained(), specs.frozen()), (108_891_648 + 6 * 768, 0));
    }
}
