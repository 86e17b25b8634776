//! Settings of a source of a mixture: its preparation is that of a corpus with these settings.

use testkit::{Home, folder_hash};

/// Two corpora with other fields. The second one has each document twice.
fn corpora() -> Home {
    let home = Home::with_corpus(120);
    for part in 0..4 {
        let text = std::fs::read_to_string(home.join(&format!("corpus/{part}.txt"))).expect("written");
        let web = text.lines().map(|text| serde_json::json!({ "text": text }).to_string());
        home.write(&format!("web/{part}.jsonl"), &web.collect::<Vec<_>>().join("\n"));
        let twice = (0..).zip(text.lines().flat_map(|text| [text, text]));
        let code = twice.map(|(number, text)| {
            let sha = format!("{part}-{number}");
            serde_json::json!({ "content": text, "sha": sha }).to_string()
        });
        home.write(&format!("code/{part}.jsonl"), &code.collect::<Vec<_>>().join("\n"));
    }
    home.run_ok(&["tokenizer", "train"]);
    home
}

const PREPARE: &str = "[prepare]\ntokenizer = 'tokenizer.json'\nmax_seq_len = 64\npart_bytes = 3000\n";

const MIXTURE: &str = "[sources.web]\nfolder = 'data/web'\ninputs = ['web']\n\
                       [sources.code]\nfolder = 'data/code'\ninputs = ['code']\ntext_field = 'content'\nid_field = 'sha'\n\
                       [sources.code.duplicates]\nnear = false\n";

/// The same two corpora, each as that of `[prepare]`.
const ALONE: [(&str, &str); 2] = [
    ("web", "inputs = ['web']\nfolder = 'alone/web'\n"),
    (
        "code",
        "inputs = ['code']\nfolder = 'alone/code'\ntext_field = 'content'\nid_field = 'sha'\n[prepare.duplicates]\nnear = false\n",
    ),
];

fn home() -> Home {
    let home = corpora();
    home.write("mixture.toml", &format!("{PREPARE}{MIXTURE}"));
    for (name, settings) in ALONE {
        home.write(&format!("{name}.toml"), &format!("{PREPARE}{settings}"));
        home.run_ok(&["prepare", "-c", &format!("{name}.toml")]);
    }
    home
}

/// Both folders of the mixture equal those of the corpora alone.
#[track_caller]
fn assert_as_alone(home: &Home) {
    for (name, _) in ALONE {
        let hash = |parent: &str| folder_hash(&home.join(parent).join(name));
        assert_eq!(hash("data"), hash("alone"), "{name}");
    }
}

#[test]
fn a_source_is_prepared_with_its_own_settings() {
    let home = home();
    let outcome = home.run_ok(&["prepare", "-c", "mixture.toml"]);
    assert_eq!(outcome.to_string().matches("removed duplicates: ").count(), 1, "{outcome}");
    assert_as_alone(&home);
    let other = "sources.code.text_field=sha";
    let error = home.run(&["prepare", "-c", "mixture.toml", "--source", "code", "--set", other]);
    error.assert_fails(2, &["data/code", "`text_field` = \"content\", now \"sha\"", "`sources.code.folder`"]);
    let wrong = ["--set", "sources.code.text_field=body", "--set", "sources.code.folder=new"];
    let error = home.run(&[&["prepare", "-c", "mixture.toml", "--source", "code"][..], &wrong].concat());
    error.assert_fails(2, &["has the fields `body` and `sha`", "set `sources.code.text_field`"]);
}

#[test]
fn the_phases_of_a_preparation_use_the_settings_of_the_source() {
    let home = home();
    for (name, phases) in
        [("web", &["plan", "run", "finalize"][..]), ("code", &["plan", "signatures", "run", "finalize"])]
    {
        for phase in phases {
            let share =
                if matches!(*phase, "run" | "signatures") { &["--index", "0", "--count", "1"][..] } else { &[] };
            home.run_ok(&[&["prepare", phase, "-c", "mixture.toml", "--source", name][..], share].concat());
        }
    }
    assert_as_alone(&home);
    let record =
        std::fs::read_dir(home.join("data/code/train")).expect("there").flatten().next().expect("a shard").path();
    std::fs::remove_file(record).expect("removed");
    home.run_ok(&["verify", "data/code", "--repair", "-c", "mixture.toml"]);
    assert_as_alone(&home);
}
