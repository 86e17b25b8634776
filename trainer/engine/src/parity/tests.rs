use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use store::Store;
use trainer_plan::Error;

use super::files::{Array, Case, CaseOutcome, PartValue};
use super::{Dtype, compute, run};

/// Examples worked by hand.
const WORKED: &str = include_str!("../../../../tests/golden/worked.json");
/// Written by `tests/reference/parity_reference.py`.
const GOLDEN: &str = include_str!("../../../../tests/golden/parity.json");

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
    results: BTreeMap<String, Expected>,
}

#[derive(Deserialize)]
struct Expected {
    loss: f64,
    parts: BTreeMap<String, PartValue>,
    /// Absent in examples worked by hand.
    #[serde(default)]
    grads: BTreeMap<String, Array>,
}

fn golden(text: &str) -> Golden {
    serde_json::from_str(text).expect("cases with their results")
}

/// Compares numbers. The tolerance is relative above 1 and absolute below.
fn check_number(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance * expected.abs().max(1.0), "{what}: {found} is not {expected}");
}

fn check_loss_and_parts(id: &str, found: &CaseOutcome, expected: &Expected, tolerance: f64) {
    check_number(id, found.loss, expected.loss, tolerance);
    assert!(found.parts.keys().eq(expected.parts.keys()), "{id}: {:?}", found.parts.keys());
    for (name, part) in &expected.parts {
        match (&found.parts[name], part) {
            (&PartValue::Number(found), &PartValue::Number(part)) => {
                check_number(&format!("{id}.{name}"), found, part, tolerance);
            }
            (found, part) => assert_eq!(found, part, "{id}.{name}"),
        }
    }
}

fn check_gradients(id: &str, found: &CaseOutcome, expected: &Expected, tolerance: f64) {
    assert!(found.grads.keys().eq(expected.grads.keys()), "{id}: {:?}", found.grads.keys());
    for (name, expected) in &expected.grads {
        let found = &found.grads[name];
        assert_eq!(found.shape, expected.shape, "{id}.{name}");
        let largest = expected.data.iter().fold(0.0_f64, |largest, entry| largest.max(entry.abs()));
        for (at, (found, expected)) in found.data.iter().zip(&expected.data).enumerate() {
            let gap = (found - expected).abs();
            assert!(gap <= tolerance * largest, "{id}.{name}[{at}]: {found} is not {expected}");
        }
    }
}

/// Computes all cases and checks the loss and, with `gradient_tolerance`, the gradients.
fn check_all(text: &str, dtype: Dtype, loss_tolerance: f64, gradient_tolerance: Option<f64>) {
    let golden = golden(text);
    let (response, summary) = compute(&golden.cases, dtype).expect("good cases");
    assert_eq!(summary.computed.len(), golden.results.len());
    assert_eq!((summary.skipped, summary.ignored), (vec![], vec![]));
    for (id, expected) in &golden.results {
        check_loss_and_parts(id, &response.results[id], expected, loss_tolerance);
        if let Some(tolerance) = gradient_tolerance {
            check_gradients(id, &response.results[id], expected, tolerance);
        }
    }
}

#[test]
fn results_are_those_of_the_reference() {
    check_all(GOLDEN, Dtype::F64, 1e-9, Some(1e-7));
    check_all(GOLDEN, Dtype::F32, 5e-5, Some(2e-3));
}

#[test]
fn results_equal_hand_computed_values() {
    // The file has 12 digits.
    check_all(WORKED, Dtype::F64, 2e-12, None);
    check_all(WORKED, Dtype::F32, 5e-5, None);
}

#[test]
fn every_objective_has_golden_cases() {
    let cases = golden(GOLDEN).cases;
    let objectives: BTreeSet<&str> = cases.iter().map(|case| case.objective.as_str()).collect();
    let table = include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
    assert_eq!(objectives, table.collect());
}

#[test]
fn files_are_read_and_written() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let input = home.path().join("in.json");
    let output = home.path().join("new/out.json");
    let cases = json!({ "cases": [
        case("tc", &json!({ "tau": 0.5, "note": 1 }), &contrast()),
        { "id": "later", "objective": "fe_mlm", "inputs": { "h": "of any form" } },
    ]});
    write(home.path(), &cases.to_string());
    let summary = run(&input, &output, Dtype::F64).expect("one case is known");
    assert_eq!(summary.computed, ["tc"]);
    assert_eq!(summary.skipped, [("later".to_owned(), "fe_mlm".to_owned())]);
    assert_eq!(summary.ignored, ["tc: variant.note"]);
    let response: Value = serde_json::from_slice(&std::fs::read(&output).expect("there")).expect("JSON");
    assert_eq!(response["results"].as_object().map(serde_json::Map::len), Some(1));
    assert_eq!(response["results"]["tc"]["grads"]["h"]["shape"], json!([2, 2, 1]));
}

#[test]
fn a_bad_case_is_named_with_its_field() {
    let without = |name: &str| {
        let mut inputs = contrast();
        inputs.as_object_mut().expect("an object").remove(name);
        inputs
    };
    let with = |name: &str, shape: &[i64], data: &[f64]| {
        let mut inputs = contrast();
        inputs[name] = json!({ "shape": shape, "data": data });
        inputs
    };
    let check = |variant: Value, inputs: Value, field: &str, problem: &str| {
        let error = case_error(&variant, &inputs);
        let Error::Case { case, field: found, problem: message } = &error else { panic!("{error}") };
        assert_eq!((case.as_str(), found.as_str()), ("tc", field), "{error}");
        assert!(message.contains(problem), "{error}");
    };
    check(json!({}), without("e"), "inputs.e", "shape");
    check(json!({}), with("e", &[2, 2, 2], &[0.0; 8]), "inputs.e", "[2, 2, 2], not [b = 2, t = 2, d = 1]");
    check(json!({}), with("e", &[2, 2], &[0.0; 4]), "inputs.e", "[2, 2], not");
    check(json!({}), with("e", &[2, 2, 1], &[0.0; 3]), "inputs.e", "takes 4 entries, not 3");
    check(json!({}), with("pos_col", &[2, 2], &[1.0, 0.0, 2.0, 0.0]), "inputs.pos_col", "entry 2 is 2, outside 0..2");
    check(json!({}), with("pos_col", &[2, 2], &[1.0, 0.5, 1.0, 0.0]), "inputs.pos_col", "entry 1 is 0.5, not a whole");
    check(json!({}), with("neg_row", &[2, 2, 1], &[1.0, 1.0, 0.0, -1.0]), "inputs.neg_row", "entry 3 is -1");
    check(json!({ "tau": 0 }), contrast(), "variant.tau", "0 is not a number above 0");
    check(json!({ "candidates": "lively" }), contrast(), "variant.candidates", "not one of `detached`, `live`");
}

#[test]
fn a_bad_value_of_a_variant_is_named() {
    let check = |objective: &str, variant: Value, inputs: Value, field: &str, problem: &str| {
        let case = parse(json!({ "id": "it", "objective": objective, "variant": variant, "inputs": inputs }));
        let error = compute(&[case], Dtype::F64).expect_err("refused");
        let Error::Case { field: found, problem: message, .. } = &error else { panic!("{error}") };
        assert!(found == field && message.contains(problem), "{error}");
    };
    let floats = |shape: &[i64]| json!({ "shape": shape, "data": vec![1.0; usize::try_from(shape.iter().product::<i64>()).expect("small")] });
    let none = || json!({});
    check("clm", json!({ "stop_grad": "yes" }), none(), "variant.stop_grad", "\"yes\" is not one of true, false");
    check("relpos_bucket", json!({ "buckets": 31 }), none(), "variant.buckets", "`num_buckets` is 31");
    check("relpos_bucket", json!({ "buckets": 32.5 }), none(), "variant.buckets", "not a whole number within 0..65536");
    let labels = json!({ "pred": floats(&[2]), "gold": floats(&[2]) });
    check("metric", json!({ "metric": "macro_f1", "classes": -1 }), labels, "variant.classes", "not a whole number");
    let two_biases = json!({ "h": floats(&[1, 1, 2]), "w": floats(&[2]), "b": floats(&[2]) });
    check("rtd", none(), two_biases, "inputs.b", "its shape is [2], not [1]");
    let flags = json!({ "hidden": floats(&[1, 2, 1]), "valid": { "shape": [1, 2], "data": [1, 2] } });
    check("self_similarity", none(), flags, "inputs.valid", "entry 1 is 2, outside 0..2");
}

#[test]
fn inputs_of_positions_that_are_no_anchor_are_ignored() {
    let mut inputs = contrast();
    inputs["anchor"] = json!({ "shape": [2, 2], "data": [1, 0, 0, 0] });
    inputs["pos_col"] = json!({ "shape": [2, 2], "data": [1, -1, -1, -1] });
    inputs["neg_row"] = json!({ "shape": [2, 2, 1], "data": [1, -1, -1, 9] });
    let cases = [parse(case("tc", &json!({}), &inputs))];
    assert!(compute(&cases, Dtype::F64).is_ok());
}

#[test]
fn two_cases_of_one_id_are_refused() {
    let cases = [parse(case("tc", &json!({}), &contrast())), parse(case("tc", &json!({}), &contrast()))];
    let error = compute(&cases, Dtype::F64).expect_err("refused");
    assert!(error.to_string().contains("case `tc`, `id`"), "{error}");
}

#[test]
fn a_file_that_is_no_request_is_refused_with_its_path() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let input = home.path().join("in.json");
    let error = run(&input, &home.path().join("out.json"), Dtype::F64).expect_err("missing");
    assert!(error.to_string().contains("in.json"), "{error}");
    write(home.path(), r#"{"cases": ["#);
    let error = run(&input, &home.path().join("out.json"), Dtype::F64).expect_err("cut");
    assert!(error.to_string().contains("in.json"), "{error}");
    assert!(!home.path().join("out.json").exists());
}

fn contrast() -> Value {
    let floats = |data: [f64; 4]| json!({ "shape": [2, 2, 1], "data": data });
    json!({
        "h": floats([1.0, 2.0, 3.0, 4.0]),
        "e": floats([0.5, -0.5, 0.5, 4.5]),
        "pos_col": { "shape": [2, 2], "data": [1, 0, 1, 0] },
        "neg_row": floats([1.0, 1.0, 0.0, 0.0]),
        "neg_col": floats([0.0, 1.0, 1.0, 0.0]),
    })
}

fn case(id: &str, variant: &Value, inputs: &Value) -> Value {
    json!({ "id": id, "objective": "tc", "variant": variant, "inputs": inputs })
}

fn parse(case: Value) -> Case {
    serde_json::from_value(case).expect("a case")
}

fn case_error(variant: &Value, inputs: &Value) -> Error {
    compute(&[parse(case("tc", variant, inputs))], Dtype::F64).expect_err("refused")
}

fn write(folder: &Path, cases: &str) {
    Store::folder(folder).and_then(|folder| folder.put("in.json", cases.as_bytes())).expect("written");
}
