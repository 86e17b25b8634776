//! A fine-tuning that was killed and resumed equals an uninterrupted one, for each head.

use testkit::{Home, assert_equal_runs, files};

/// Writes a task of each head: its folder, the file of the task, and rows of different lengths.
fn write_tasks(home: &Home) {
    let names = ["Anna", "Peter", "bread", "soup"];
    let text = |number: usize| format!("{}{} ate", "then ".repeat(number % 9), names[number % 4]);
    let write = |kind: &str, keys: &str, line: &dyn Fn(usize) -> String| {
        let file = |numbers: std::ops::Range<usize>| numbers.map(line).collect::<String>();
        let [train, dev] =
            ["train", "dev"].map(|split| format!("{split}.{}", if keys.is_empty() { "txt" } else { "jsonl" }));
        home.write(&format!("{kind}/{train}"), &file(0..96));
        home.write(&format!("{kind}/{dev}"), &file(100..112));
        let files = format!("[files]\ntrain = \"{train}\"\ndev = \"{dev}\"\n");
        home.write(&format!("{kind}.toml"), &format!("kind = \"custom_{kind}\"\n{keys}{files}"));
    };
    let json = |value: serde_json::Value| format!("{value}\n");
    write("classification", "text = \"t\"\nlabel = \"l\"\nlabels = [\"a\", \"b\"]\n", &|number| {
        json(serde_json::json!({ "t": text(number), "l": (["a", "b"][number % 2]) }))
    });
    write("regression", "text = \"t\"\nscore = \"s\"\nmax = 4.0\n", &|number| {
        json(serde_json::json!({ "t": text(number), "s": ((number % 4) as f64) }))
    });
    write("span_extraction", "question = \"q\"\npassage = \"p\"\nanswer = \"a\"\nanswer_start = \"s\"\n", &|number| {
        let start = 5 * (number % 9);
        json(serde_json::json!({ "q": "who ate", "p": text(number), "a": (names[number % 4]), "s": start }))
    });
    write("token_classification", "", &|number| {
        let label = |word: &str| if ["Anna", "Peter"].contains(&word) { "B-ENT" } else { "O" };
        let words: Vec<String> = text(number).split(' ').map(|word| format!("{word} {}\n", label(word))).collect();
        words.concat() + "\n"
    });
}

#[test]
fn finetuning_is_resumed_to_the_bit_for_each_head() {
    let home = Home::prepared(60);
    home.run_ok(&["train", "--set", "run.folder=run", "--set", "train.steps=4"]);
    write_tasks(&home);
    for kind in ["classification", "regression", "span_extraction", "token_classification"] {
        let [task, whole, killed] = ["KIND.toml", "whole-KIND", "killed-KIND"].map(|name| name.replace("KIND", kind));
        let args = |out| -> Vec<&str> {
            let args = ["finetune", kind, "--task", &task, "--from", "run", "--out", out, "--max-seq-len", "32"];
            let more =
                ["--epochs", "24", "--batch-size", "8", "--set", "train.threads=1", "--set", "report.every_steps=1"];
            [&args[..], &more].concat()
        };
        home.run_ok(&args(&whole));
        // Checkpoints are written every 12 of 288 steps.
        let mut running = home.watch(&args(&killed));
        running.wait_for_step(30);
        assert!(running.kill() < 280, "the kill came too late to prove anything");
        assert!(!home.join(&killed).join("run/results.json").exists());
        home.run_ok(&args(&killed));
        let [whole, killed] = [whole, killed].map(|out| format!("{out}/run"));
        assert_equal_runs(&home, &whole, &killed);
        let [whole, killed] = [whole, killed].map(|run| files(&home.join(&run).join("predictions")));
        assert_eq!(whole, killed, "{kind}");
    }
}
