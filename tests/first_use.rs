//! First commands of a new user: a file for a corpus, its keys, its manual.

use testkit::{Home, corpus};

/// Typical input: one folder, some files compressed, custom fields.
fn corpora(home: &Home) {
    let documents = corpus::documents(120);
    let json = |field: &str| {
        let line = |(number, text): (usize, &String)| {
            serde_json::json!({ "id": format!("d{number}"), field: text, "title": "short" }).to_string()
        };
        documents.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    };
    home.write("jsonl/a.jsonl", &json("content"));
    home.write("jsonl/README.md", "not of the corpus");
    home.write("story/b.jsonl", &json("story"));
    home.write("text/a.txt", &documents.join("\n"));
    home.write("text/b.txt", &documents[..60].join("\n"));
}

#[test]
fn output_of_init_can_be_prepared_and_planned() {
    let home = Home::with_corpus(4);
    corpora(&home);
    for (input, file, expected) in [
        ("jsonl", "a.toml", vec!["format = \"jsonl\"", "text_field = \"content\"", "id_field = \"id\""]),
        ("story/*.jsonl", "b.toml", vec!["text_field = \"story\"", "inputs = [\"story/*.jsonl\"]"]),
        ("text", "c.toml", vec!["format = \"text_lines\"", "lowercase = true"]),
    ] {
        let stdout = home.run_ok(&["init", input, "--out", file]).stdout;
        assert!(stdout.contains(&format!("cloze prepare -c {file}")), "{stdout}");
        let text = std::fs::read_to_string(home.join(file)).expect("written");
        for word in expected {
            assert!(text.contains(word), "`{word}` is missing in\n{text}");
        }
        let verbs = [&["plan"][..], &["tokenizer", "train"], &["prepare"], &["plan"]];
        // One of them is run to the end.
        for verb in verbs.into_iter().take(if file == "a.toml" { 4 } else { 1 }) {
            let outcome = home.run_ok(&[verb, &["-c", file]].concat());
            assert!(!outcome.stdout.contains("warning "), "cloze {verb:?}\n{outcome}\n{text}");
        }
    }
    home.run(&["init", "text", "--out", "c.toml"])
        .assert_fails(2, &["c.toml: the file exists; name another with --out"]);
    home.run(&["init", "absent"]).assert_fails(2, &["absent: no such file or folder"]);
    let quoted = home.run_ok(&["init", "text", "--out", "my $runs/it's.toml"]).stdout;
    assert!(quoted.contains("cloze prepare -c 'my $runs/it'\\''s.toml'\n"), "{quoted}");
    home.write("other/a.bin", "no text");
    home.run(&["init", "other"]).assert_fails(2, &["no file of a known extension (*.arrow, "]);
}

#[test]
fn keys_and_manual_are_printed() {
    let home = Home::with_corpus(4);
    let keys = home.run_ok(&["config"]).stdout;
    for word in ["[prepare]", "max_seq_len = 512", "kind = \"window\"", "# whole number, tokens: Longest row"] {
        assert!(keys.contains(word), "`{word}` is missing in\n{keys}");
    }
    assert!(home.run_ok(&["config", "views.mask"]).stdout.starts_with("[views.NAME]"));
    home.run(&["config", "prepare.worker"]).assert_fails(2, &["no section or key is called `prepare.worker`"]);
    let schema: serde_json::Value =
        serde_json::from_str(&home.run_ok(&["config", "schema"]).stdout).expect("one JSON object");
    assert_eq!(schema["properties"]["prepare"]["properties"]["max_seq_len"]["default"], 512);
    for shell in ["bash", "zsh", "fish"] {
        assert!(home.run_ok(&["completions", shell]).stdout.contains("tokenizer"), "{shell}");
    }
    assert!(home.run_ok(&["man"]).stdout.starts_with(".ie"), "roff");
    assert!(home.run_ok(&["man", "prepare", "forget"]).stdout.contains("cloze\\-prepare\\-forget"));
    home.run(&["man", "prepared"]).assert_fails(2, &["`cloze` has no verb `prepared`"]);
    let help = home.run_ok(&["--help"]).stdout;
    assert!(help.contains("RUST_LOG") && help.contains("Exit codes"), "{help}");
}
