//! Every command of `docs/operations.md`, in order, on an existing run.

use serde_json::Value;
use testkit::{Home, Outcome, program, root};

use crate::documented_commands::{commands, spans, typed};

/// Numbers of the page, from a run of several weeks, and their replacements here.
const NUMBERS: [(&str, &str); 6] = [
    ("412337", "37"),
    ("410000", "30"),
    ("120000", "20"),
    ("2000000", "80"),
    ("checkpoint=5000", "checkpoint=20"),
    ("/elsewhere/", "elsewhere/"),
];

fn run(home: &Home, words: &[String]) -> Outcome {
    Outcome::new(
        std::process::Command::new(program()).args(words).current_dir(home.path()).output().expect("it starts"),
    )
}

/// Home with a run of 60 steps in `runs/a`, started by `run.toml`.
fn home() -> Home {
    let home = Home::prepared(200);
    std::os::unix::fs::symlink(root().join("configs"), home.join("configs")).expect("linked");
    let sets = ["run.folder=runs/a", "train.steps=60", "checkpoints.keep=20", "loss={mlm=1.0}"];
    let args: Vec<&str> = ["train"].into_iter().chain(sets.iter().flat_map(|set| ["--set", *set])).collect();
    home.run_ok(&args);
    std::fs::copy(home.join("runs/a/config.toml"), home.join("run.toml")).expect("copied");
    home
}

/// Creates the preconditions of a command as the page describes them.
fn before(home: &Home, words: &[String]) {
    if words.iter().any(|word| word.starts_with("run.folder=elsewhere/")) {
        std::fs::create_dir_all(home.join("elsewhere")).expect("made");
        let mut copy = std::process::Command::new("cp");
        let copied =
            copy.args(["-r", "runs/a", "data", "elsewhere"]).current_dir(home.path()).status().expect("it starts");
        assert!(copied.success());
    }
    if words.contains(&"--allow-change".to_owned()) {
        let config = std::fs::read_to_string(home.join("run.toml")).expect("a file");
        assert!(config.contains("\nlr = 0.001\n"), "{config}");
        home.write("run.toml", &config.replace("\nlr = 0.001\n", "\nlr = 0.0009\n"));
    }
}

#[test]
fn the_page_of_operations_is_followed_command_by_command() {
    let home = home();
    let explained = home.run_ok(&["explain", "runs/a", "--step", "37", "--json"]).stdout;
    let explained: Value = serde_json::from_str(&explained).expect("JSON");
    let rows: Vec<u64> =
        explained["rows"].as_array().expect("rows").iter().filter_map(|row| row["row"].as_u64()).collect();
    let first = *rows.iter().min().expect("a row");
    let document = explained["rows"][0]["documents"][0]["id"].as_str().expect("an id");
    let page = std::fs::read_to_string(root().join("docs/operations.md")).expect("a page");
    let own = |line: &str| {
        let line = line.replace("105558272,105558280-105558287", &format!("{first},{}-{}", first + 1, first + 2));
        NUMBERS.iter().fold(line.replace("7f3a0c", document), |line, (theirs, ours)| line.replace(theirs, ours))
    };
    let spans = spans(&page).into_iter().filter(|span| span.contains("cloze checkpoints")).map(str::to_owned);
    let mut given = 0;
    for line in spans.chain(typed(&page)) {
        for words in commands(&own(&line)) {
            before(&home, &words);
            let mut outcome = run(&home, &words);
            if words.iter().any(|word| word.contains("kill=step")) {
                assert_eq!(outcome.code, None, "it is killed\n{outcome}");
                outcome = run(&home, &words);
            }
            assert_eq!(outcome.code, Some(0), "{line}\n{outcome}");
            given += 1;
        }
    }
    assert!(given > 18, "{given} commands");
}
