//! Exports of the small runs: every network, and predictions of the exported folders.

use std::path::Path;

use serde_json::Value;
use trainer_plan::networks::MAIN;

use super::Run;
use crate::{export, fill};

/// Exports every network of a run. A model that predicts tokens fills in a blank.
pub(super) fn export_and_fill(name: &str, run: &Run, home: &Path) {
    let weights = run.weights();
    let generators = ["generator"].into_iter().filter(|network| weights.keys().any(|key| key.starts_with(network)));
    for network in [MAIN].into_iter().chain(generators) {
        let out = home.join(network);
        export::run(&run.folder, &export::Options { out: &out, step: None, family: None, network })
            .unwrap_or_else(|error| panic!("{name}, {network}: {error:#}"));
        testkit::exports::assert_tokenizer(&out);
        let config = std::fs::read(out.join("config.json")).expect("written");
        let config: Value = serde_json::from_slice(&config).expect("JSON");
        let class = config["architectures"][0].as_str().expect("a class");
        let text = ["the [MASK] of a house".to_owned()];
        let filled = fill::run(&out, None, 2, &text);
        let predicts = class.ends_with("ForMaskedLM") || class == "BertForPreTraining";
        assert_eq!(filled.is_ok(), predicts, "{name}, {network}, {class}: {:?}", filled.err());
    }
}
