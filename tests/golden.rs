//! Reference results that a refactoring of the pipeline must not change: prepared bytes, batches, and losses of a
//! model.
//!
//! `UPDATE_GOLDEN=1` rewrites `tests/golden/pipeline.json`. A commit that does so explains the intended change.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use testkit::{Home, folder_hash, root};

/// Relative tolerance: other vector instructions change the results of twenty steps by less.
const TOLERANCE: f64 = 1e-4;

/// Results of `configs/tiny.toml` with more weight decay on the corpus of `support`, with one thread.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Golden {
    /// Hash over names and bytes of all files of the prepared folder.
    folder: String,
    /// Running hash after each of twenty steps.
    batches: Vec<String>,
    losses: Vec<f64>,
    norms: Vec<f64>,
}

fn run() -> Golden {
    let home = Home::prepared(120);
    let folder = folder_hash(&home.join("data"));
    let set = |pair: &'static str| ["--set", pair];
    let mut args = vec!["train"];
    // With the usual decay, a change would be visible only in the fifth digit of twenty steps.
    let decay = "optimizer.weight_decay=1.0";
    for pair in ["run.folder=run", "train.steps=20", "report.every_steps=1", "data.workers=1", decay] {
        args.extend(set(pair));
    }
    home.run_ok(&args);
    let log = home.log("run");
    let reports: Vec<&Value> = log.iter().filter(|event| event["kind"] == "report").collect();
    let number = |key: &str| reports.iter().map(|report| report[key].as_f64().expect("a number")).collect();
    let batches = reports.iter().map(|report| report["batch_hash"].as_str().expect("a hash").to_owned()).collect();
    Golden { folder, batches, losses: number("loss"), norms: number("grad_norm") }
}

#[test]
fn prepared_folder_batches_and_losses_match_the_golden_file() {
    let found = run();
    let path = root().join("tests/golden");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let mut json = serde_json::to_vec_pretty(&found).expect("finite numbers");
        json.push(b'\n');
        let folder = store::Store::folder(path).expect("there");
        folder.put("pipeline.json", &json).expect("written");
        return;
    }
    let bytes = std::fs::read(path.join("pipeline.json")).expect("a golden file");
    let expected: Golden = serde_json::from_slice(&bytes).expect("as written");
    assert_eq!(found.folder, expected.folder, "the prepared folder");
    assert_eq!(found.batches, expected.batches, "the batches");
    for (what, found, expected) in [("loss", found.losses, expected.losses), ("norm", found.norms, expected.norms)] {
        assert_eq!(found.len(), expected.len(), "steps");
        for (step, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let bound = TOLERANCE * found.abs().max(expected.abs());
            assert!((found - expected).abs() <= bound, "{what} of step {step}: {found}, was {expected}");
        }
    }
}
