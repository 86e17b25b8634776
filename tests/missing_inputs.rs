//! Inputs that are gone: a mistake of the configuration before a preparation is planned, and a failure that may pass after
//! that. The last step of a preparation does not need them.

use testkit::{Home, folder_hash};

use crate::prepare_faults::{FINALIZE, PLAN, RUN_INDEX, RUN_LEASE};

/// Writes a configuration without a format: the extension tells it.
fn config(home: &Home) {
    let text = "[prepare]\ninputs = ['json']\ntokenizer = 'tokenizer.json'\nfolder = 'data'\nmax_seq_len = 64\n\
                part_bytes = 1500\n";
    home.write("json.toml", text);
}

fn corpus() -> Home {
    let home = Home::with_corpus(60);
    for part in 0..4 {
        let lines = std::fs::read_to_string(home.join(&format!("corpus/{part}.txt"))).expect("written");
        let records = lines.lines().map(|text| serde_json::json!({ "text": text }).to_string() + "\n");
        home.write(&format!("json/{part}.jsonl"), &records.collect::<String>());
    }
    home.run_ok(&["tokenizer", "train"]);
    config(&home);
    home
}

fn command<'a>(verb: &[&'a str]) -> Vec<&'a str> {
    [verb, &["--config", "json.toml"]].concat()
}

fn hide(home: &Home) {
    std::fs::rename(home.join("json"), home.join("gone")).expect("renamed");
}

fn show(home: &Home) {
    std::fs::rename(home.join("gone"), home.join("json")).expect("renamed");
}

#[test]
fn missing_inputs_may_come_back_once_a_plan_has_seen_them() {
    let home = corpus();
    hide(&home);
    for verb in [&["prepare"][..], PLAN, RUN_INDEX, FINALIZE] {
        home.run(&command(verb)).assert_fails(2, &["json: no such file or folder", "json.toml:2, [prepare], `inputs`"]);
    }
    show(&home);
    home.run_ok(&command(PLAN));
    hide(&home);
    for verb in [&["prepare"][..], PLAN, RUN_INDEX, RUN_LEASE] {
        home.run(&command(verb)).assert_fails(1, &["json"]);
    }
    home.run(&command(FINALIZE)).assert_fails(1, &["parts are missing"]);
    show(&home);
    home.run_ok(&command(RUN_INDEX));
}

#[test]
fn finalize_needs_no_inputs() {
    let home = corpus();
    home.run_ok(&[&command(&["prepare"])[..], &["--set", "prepare.folder=whole"]].concat());
    home.run_ok(&command(PLAN));
    home.run_ok(&command(RUN_INDEX));
    hide(&home);
    home.run_ok(&command(FINALIZE));
    assert_eq!(folder_hash(&home.join("data")), folder_hash(&home.join("whole")));
}

#[test]
fn a_wrong_format_stays_a_mistake_after_a_plan() {
    let home = corpus();
    home.run_ok(&command(PLAN));
    let wrong = [&command(RUN_INDEX)[..], &["--set", "prepare.format=parquet"]].concat();
    home.run(&wrong).assert_fails(2, &["`inputs`", "set `prepare.format = \"jsonl\"`"]);
}
