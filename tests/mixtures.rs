//! Training on several prepared folders.

use pipeline::shard::synthetic::Synthetic;
use schemas::Document;
use serde_json::Value;
use store::Store;
use testkit::{Home, Outcome, assert_equal_runs, corpus};

/// Two folders of random ids with one tokenizer: 230 and 90 samples.
fn home() -> Home {
    let home = Home::with_corpus(4);
    shape("books").write(&folder(&home, "books")).expect("written");
    shape("news").write(&folder(&home, "news")).expect("written");
    home
}

fn shape(name: &str) -> Synthetic {
    let (seed, train_rows, valid_rows) = if name == "books" { (1, 230, 33) } else { (2, 90, 20) };
    Synthetic { seed, train_rows, valid_rows, ..Synthetic::default() }
}

fn folder(home: &Home, name: &str) -> Store {
    Store::folder(home.join(name)).expect("there")
}

const BOOKS: &str = "sources.books.weight=[{ rows = 0, weight = 7 }, { rows = 900, weight = 1 }]";
const NEWS: &str = "sources.news.weight=[{ rows = 0, weight = 3 }, { rows = 900, weight = 4 }]";

/// Arguments with 20 rows per step: periods of 1000 rows end with steps 50 and 100, and weights change at the first
/// of these.
fn of_sources<'a>(verb: &[&'a str], run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = verb.to_vec();
    args.extend(["--set", run, "--set", "sources.books.folder=books", "--set", "sources.news.folder=news"]);
    args.extend(["--set", BOOKS, "--set", NEWS]);
    args.extend(["--set", "train.global_batch_size=20", "--set", "train.micro_batch_size=10"]);
    args.extend(["--set", "train.steps=100", "--set", "report.every_steps=1", "--set", "checkpoints.keep=20"]);
    args.extend_from_slice(more);
    args
}

fn train<'a>(run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    of_sources(&["train"], run, more)
}

/// Rows of a source after each step, by its epochs.
fn rows_of(home: &Home, run: &str, source: &str, samples: u32) -> Vec<u64> {
    let reports = home.log(run).into_iter().filter(|entry| entry["kind"] == "report");
    let rows = |report: Value| {
        let rows = report["source_epochs"][source].as_f64().expect("a number") * f64::from(samples);
        assert!((rows - rows.round()).abs() < 1e-6, "{rows}");
        format!("{rows:.0}").parse().expect("a number")
    };
    reports.map(rows).collect()
}

/// Removes the checkpoints after a step, like a kill would.
fn cut(home: &Home, run: &str, step: u64) {
    let checkpoints = home.join(run).join("checkpoints");
    for at in (step + 1..=100).map(|step| checkpoints.join(format!("step-{step:08}"))).filter(|at| at.exists()) {
        std::fs::remove_dir_all(at).expect("a checkpoint");
    }
}

#[test]
fn mixture_resumes_bit_for_bit_across_a_weight_change() {
    let home = home();
    let whole = home.run_ok(&train("run.folder=whole", &["--set", "data.workers=1"]));
    assert!(whole.stdout.contains("  epochs books ") && whole.stdout.contains(", news "), "{whole}");
    // Counts are exact in each period: 700 and 300 of the first thousand rows, 200 and 800 of the second.
    let books = rows_of(&home, "whole", "books", 230);
    let news = rows_of(&home, "whole", "news", 90);
    assert_eq!((books[49], news[49], books[99], news[99]), (700, 300, 900, 1100));
    assert!(books.iter().zip(&news).zip(1..).all(|((books, news), step)| books + news == 20 * step));
    // With constant weights, the second period would have 700 books again.
    assert!(books[74] < 850, "{books:?}");

    home.run_ok(&train("run.folder=parts", &["--set", "data.workers=3"]));
    assert_equal_runs(&home, "whole", "parts");
    for step in [40, 50, 60] {
        cut(&home, "parts", step);
        home.run_ok(&train("run.folder=parts", &["--set", "data.workers=2"]));
        assert_equal_runs(&home, "whole", "parts");
    }
    let killed = train("run.folder=killed", &["--set", "data.workers=4"]);
    let mut running = home.watch(&killed);
    running.wait_for_step(47);
    assert!(running.kill() < 100, "the kill came too late to prove anything");
    home.run_ok(&killed);
    assert_equal_runs(&home, "whole", "killed");
}

#[test]
fn mixture_is_part_of_the_run_identity() {
    let home = home();
    let short = ["--set", "schedule.kind=constant", "--set", "train.steps=20"];
    home.run_ok(&train("run.folder=run", &short));
    let again = |more: &[&str]| {
        let more = [&["--set", "schedule.kind=constant", "--set", "train.steps=40"], more].concat();
        home.run(&train("run.folder=run", &more))
    };
    again(&["--set", "sources.news.weight=3"]).assert_fails(
        2,
        &[
            "sources.news.weight",
            "from row 0: 300 of 1000, from row 1000: 800 of 1000",
            "run.folder",
            "train.init_from",
        ],
    );
    again(&["--set", "sources.more.folder=books"]).assert_fails(2, &["sources.more.content"]);
    // The identity of a folder is its content, and that of a weight is its effect.
    std::fs::rename(home.join("books"), home.join("moved")).expect("free");
    let moved =
        ["--set", "sources.books.folder=moved", "--set", "sources.off.weight=0", "--set", "sources.off.folder=x"];
    let scaled = "sources.books.weight=[{ rows = 0, weight = 0.7 }, { rows = 1000, weight = 0.1 }]";
    let news = "sources.news.weight=[{ rows = 0, weight = 0.3 }, { rows = 1000, weight = 0.4 }]";
    let gone_on = again(&[&moved[..], &["--set", scaled, "--set", news]].concat());
    assert_eq!(gone_on.code, Some(0), "{gone_on}");
    home.run_ok(&["export", "run", "--out", "model"]);
    // With swapped source names, the same rows are another stream.
    std::fs::rename(home.join("moved"), home.join("books")).expect("free");
    let swapped = ["--set", "sources.books.folder=news", "--set", "sources.news.folder=books"];
    again(&swapped)
        .assert_fails(2, &["news: the run read dataset version 0 with other data than is here", "2 problems"]);
    home.run(&["train", "--set", "run.folder=run", "--set", "data.folder=books"]).assert_fails(2, &["data.content"]);
}

#[test]
fn each_source_of_a_run_follows_its_own_folder() {
    let home = home();
    let follow = |run: &'static str, steps: &'static str| {
        let more = ["--set", "data.version=latest", "--set", "schedule.kind=constant", "--set", steps];
        home.run_ok(&train(run, &more))
    };
    follow("run.folder=run", "train.steps=20");
    shape("news").add(&folder(&home, "news"), &[1], &[]).expect("added");
    let went_on = follow("run.folder=run", "train.steps=100");
    // Epoch 1 of `news` ends with its row 180, beyond the 120 of the first 20 steps.
    assert!(went_on.stderr.contains("are of dataset version 1 of source `news` (before: 0)"), "{went_on}");
    assert!(!went_on.stderr.contains("source `books`"), "{went_on}");
    let version_spans = |source: &str| -> Vec<(u64, u64)> {
        let list = std::fs::read(home.join("run/dataset_versions").join(format!("{source}.json"))).expect("a list");
        let list: Value = serde_json::from_slice(&list).expect("JSON");
        let version_spans = list["content"]["spans"].as_array().expect("spans").iter();
        version_spans
            .map(|it| (it["epoch"].as_u64().expect("one"), it["dataset_version"].as_u64().expect("one")))
            .collect()
    };
    assert_eq!(version_spans("books"), [(0, 0)]);
    let news = version_spans("news");
    assert_eq!((news[0], news[1].1, news.len()), ((0, 0), 1, 2));
    // The run is killed after step 60 and another version is added. Earlier decisions stay.
    let hashes = |run: &str| -> Vec<String> {
        home.log(run).iter().filter_map(|entry| entry["batch_hash"].as_str().map(str::to_owned)).collect()
    };
    let before = hashes("run");
    shape("news").add(&folder(&home, "news"), &[2], &[]).expect("added");
    cut(&home, "run", 60);
    follow("run.folder=run", "train.steps=100");
    assert_eq!((hashes("run").len(), hashes("run")), (100, before.clone()));
    // A branch takes the decisions from its run, for each source, and reads the same versions.
    home.run_ok(&["branch", "run", "--step", "40", "--out", "aside"]);
    home.run_ok(&["train", "--config", "aside/config.toml"]);
    assert_eq!(hashes("aside"), before);
    // A replayed step reads the original version.
    let again = json(&home.run_ok(&["replay", "run", "--step", "63", "--json"]));
    assert_eq!((&again["figures"], &again["hashes"]), (&"equal".into(), &"equal".into()), "{again}");
    home.run(&[
        "train",
        "--config",
        "aside/config.toml",
        "--set",
        "sources.news.weight=3",
        "--allow-change",
        "sources.news.weight",
    ])
    .assert_fails(2, &["`sources.news.weight` cannot change in the middle of a run"]);
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}\n{outcome}"))
}

/// Two folders of text: 20 of their documents are the same.
fn home_of_texts() -> Home {
    let home = Home::with_corpus(80);
    home.write("more/others.txt", &(corpus::documents(120)[60..].join("\n") + "\n"));
    home.run_ok(&["tokenizer", "train"]);
    let prepare = ["prepare", "--set", "prepare.valid_fraction=0"];
    home.run_ok(&prepare);
    let others = ["--set", "prepare.folder=others", "--set", "prepare.inputs=[\"more\"]"];
    home.run_ok(&[&prepare[..], &others].concat());
    home
}

/// Arguments with 8 rows per step, three of four from `others`.
fn of_texts<'a>(run: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let sets = ["sources.corpus.folder=data", "sources.others.folder=others", "sources.others.weight=3"];
    let steps = ["train.global_batch_size=8", "train.micro_batch_size=4", "report.every_steps=1", "loss={mlm=1.0}"];
    let sets = [run].into_iter().chain(sets).chain(steps).chain(more.iter().copied());
    ["train"].into_iter().chain(sets.flat_map(|set| ["--set", set])).collect()
}

#[test]
fn documents_are_counted_per_source() {
    let home = home_of_texts();
    home.run_ok(&of_texts("run.folder=run", &["train.steps=8"]));
    // Documents of each row, step by step.
    let mut trained = std::collections::BTreeMap::<(String, String), u64>::new();
    for step in 1..=8 {
        let explained = json(&home.run_ok(&["explain", "run", "--step", &step.to_string(), "--rows", "8", "--json"]));
        let rows = explained["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 8);
        for row in rows {
            let of = row["of"].as_str().expect("a source");
            for document in row["documents"].as_array().expect("documents") {
                assert_eq!(document["source"] == "others.txt", of == "others", "{row}");
                let id = document["id"].as_str().expect("an id").to_owned();
                *trained.entry((of.to_owned(), id)).or_default() += 1;
            }
        }
    }
    // A document in both folders, and a document in one of them.
    let texts = corpus::documents(120);
    let shared = texts[60..80].iter().map(|text| Document::digest(text));
    let counts = |id: &str| ["corpus", "others"].map(|of| trained.get(&(of.to_owned(), id.to_owned())).copied());
    let shared = shared.max_by_key(|id| counts(id).iter().flatten().count()).expect("twenty");
    assert!(counts(&shared).iter().all(Option::is_some), "{trained:?}");
    for id in [&shared, &Document::digest(&texts[100])] {
        let exposure = json(&home.run_ok(&["exposure", "run", "--document", id, "--json"]));
        let of = |name: &str| {
            let mut found =
                exposure["dataset_versions"].as_array().expect("a list").iter().filter(|it| it["source"] == name);
            found.next().map(|it| it["rows"]["trained"].as_u64().expect("a count"))
        };
        assert_eq!(["corpus", "others"].map(of), counts(id), "{exposure}");
    }
    // Documents can be named by a prefix of the id or by their name in shards. An unknown document is an error.
    let exposure = json(&home.run_ok(&["exposure", "run", "--document", &shared[..12], "--json"]));
    assert_eq!(exposure["document"], shared.as_str());
    let name = format!("{:016x}", Document::hash(&shared));
    let by_name = json(&home.run_ok(&["exposure", "run", "--document", &name, "--json"]));
    assert_eq!(by_name["dataset_versions"], exposure["dataset_versions"]);
    for asked in [&shared[..5], "no such id", &name.replace(|_: char| true, "0")] {
        home.run(&["exposure", "run", "--document", asked]).assert_fails(2, &["no document", asked]);
    }
    let all = json(&home.run_ok(&["exposure", "run", "--json"]));
    for of in ["corpus", "others"] {
        let files: Vec<&Value> =
            all["files"].as_array().expect("a list").iter().filter(|file| file["source"] == of).collect();
        assert!(files.iter().all(|file| (file["file"] == "others.txt") == (of == "others")), "{all}");
        let counted: u64 = files.iter().map(|file| file["counts"]["trained"].as_u64().expect("a count")).sum();
        let expected: u64 = trained.iter().filter(|((source, _), _)| source == of).map(|(_, rows)| rows).sum();
        assert_eq!(counted, expected, "{all}");
    }
    let exposure = home.run_ok(&["exposure", "run"]).stdout;
    assert!(exposure.contains("  others.txt (dataset version 0 of others): "), "{exposure}");
}

/// Sources with inputs, each in its own format.
fn with_inputs<'a>(verb: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let sets = [
        "prepare.inputs=[]",
        "prepare.valid_fraction=0",
        "sources.corpus.folder=a",
        "sources.corpus.inputs=[\"corpus\"]",
        "sources.others.folder=b",
        "sources.others.inputs=[\"more\"]",
        "sources.others.format=jsonl",
        "sources.others.weight=3",
    ];
    let sets = sets.iter().chain(more).copied();
    verb.iter().copied().chain(sets.flat_map(|set| ["--set", set])).collect()
}

#[test]
fn sources_with_inputs_are_prepared_and_explained_by_themselves() {
    let home = Home::with_corpus(80);
    let texts = corpus::documents(120);
    let lines = texts[60..].iter().map(|text| serde_json::json!({ "text": text }).to_string());
    home.write("more/others.jsonl", &(lines.collect::<Vec<_>>().join("\n") + "\n"));
    // One tokenizer, for sources of several formats.
    let trained = home.run_ok(&with_inputs(&["tokenizer", "train"], &["prepare.tokenizer=both.json"])).stdout;
    assert!(trained.contains("both.json: "), "{trained}");
    home.run_ok(&["tokenizer", "train"]);
    let planned = home.run_ok(&with_inputs(&["plan"], &[])).stdout;
    assert!(planned.contains(" text_lines file") && planned.contains(" jsonl file"), "{planned}");
    let run = ["run.folder=run", "train.steps=8", "train.global_batch_size=8", "train.micro_batch_size=4"];
    let run = [&run[..], &["report.every_steps=1", "loss={mlm=1.0}"]].concat();
    home.run_ok(&with_inputs(&["train", "--prepare"], &run));
    let planned = home.run_ok(&with_inputs(&["plan"], &[])).stdout;
    assert!(planned.contains("prepare    a: done; ") && planned.contains("prepare    b: done; "), "{planned}");
    // The displayed text comes from the source itself, though both sources have documents of equal text.
    let explained = json(&home.run_ok(&["explain", "run", "--step", "8", "--rows", "8", "--json"]));
    let rows = explained["rows"].as_array().expect("rows");
    let mut seen = std::collections::BTreeSet::new();
    for row in rows {
        let of = row["of"].as_str().expect("a source");
        seen.insert(of);
        for document in row["documents"].as_array().expect("documents") {
            let text = document["text"].as_str().unwrap_or_else(|| panic!("a text: {document}"));
            assert!(texts.iter().any(|known| known.starts_with(text)), "{text}");
            assert_eq!(document["source"] == "others.jsonl", of == "others", "{row}");
        }
    }
    assert_eq!(seen.len(), 2, "rows of both: {explained}");
    // Prepared sources stay prepared, all of them or one.
    let again = home.run_ok(&with_inputs(&["prepare"], &[])).stdout;
    assert!(again.contains("source corpus\n") && again.contains("source others\n"), "{again}");
    let one = home.run_ok(&with_inputs(&["prepare", "--source", "others"], &[])).stdout;
    assert!(!one.contains("source "), "{one}");
    let id = Document::digest(&texts[100]);
    let forget = ["prepare", "forget", "--document", id.as_str()];
    home.run(&with_inputs(&forget, &[])).assert_fails(2, &["forget: name the source with `--source` (corpus, others)"]);
    home.run_ok(&with_inputs(&[&forget[..], &["--source", "others"]].concat(), &[]));
    home.run(&with_inputs(&["prepare", "--watch"], &[])).assert_fails(2, &["--watch: name the source"]);
    home.run(&with_inputs(&["prepare", "--source", "none"], &[]))
        .assert_fails(2, &["the source has no corpus", "another source"]);
    let gone = ["sources.others.inputs=[\"gone\"]", "sources.others.folder=new", "sources.corpus.folder="];
    home.run(&with_inputs(&["prepare"], &gone))
        .assert_fails(2, &["[sources.others]", "gone", "the source has no folder"]);
}

#[test]
fn skipped_step_names_the_documents_of_its_sources() {
    let home = home_of_texts();
    // With a learning rate of 0, any loss above the median counts as a spike.
    let guard = [
        "spike_guard.action=skip",
        "spike_guard.loss_sigmas=0.0001",
        "spike_guard.norm_sigmas=0",
        "spike_guard.max_skips=3",
    ];
    let guard = [&guard[..], &["optimizer.lr=1e-7", "train.steps=40"]].concat();
    let outcome = home.run(&of_texts("run.folder=run", &guard));
    let skips: Vec<Value> = home.log("run").into_iter().filter(|event| event["kind"] == "skip").collect();
    assert!(!skips.is_empty(), "{outcome}");
    let texts = corpus::documents(120);
    let ids: Vec<String> = texts.iter().map(|text| Document::digest(text)).collect();
    let mut only_in_others = 0;
    for suspect in skips.iter().flat_map(|skip| skip["suspects"].as_array().expect("suspects")) {
        for document in suspect["documents"].as_array().expect("documents") {
            let at =
                ids.iter().position(|id| document == id).unwrap_or_else(|| panic!("no id of a document: {suspect}"));
            only_in_others += usize::from(at >= 80);
        }
    }
    assert!(only_in_others > 0, "{skips:?}");
}

#[test]
fn rows_and_plans_name_their_source() {
    let home = home();
    let planned = home.run_ok(&of_sources(&["plan"], "run.folder=run", &[])).stdout;
    for words in [
        "data       a mixture of 2 sources: 320 samples",
        "53 samples to validate on",
        "assigned in periods of 1,000 rows, exact in each",
        "source     books: 70.0 % of the rows, from row 1,000 on 20.0 %; books, 230 samples",
        "source     news: 30.0 % of the rows, from row 1,000 on 80.0 %; news, 90 samples",
        "order      books: all rows of an epoch are shuffled together; at most 12 row groups",
        "100 steps = 3.9 of books, 12.2 of news epochs",
    ] {
        assert!(planned.contains(words), "{words}: {planned}");
    }
    let json: Value =
        serde_json::from_str(&home.run_ok(&of_sources(&["plan", "--json"], "run.folder=run", &[])).stdout)
            .expect("one object");
    assert_eq!((&json["samples"], &json["sources"][1]["name"]), (&Value::from(320), &Value::from("news")));
    assert_eq!(json["sources"][1]["shares"][1]["from_row"], 1000);
    let shown = home.run_ok(&of_sources(&["inspect", "batch", "3"], "run.folder=run", &["--rows", "10"])).stdout;
    assert!(shown.contains(" of books, sample ") && shown.contains(" of news, sample "), "{shown}");
    home.run_ok(&of_sources(&["profile", "loader", "--batches", "20"], "run.folder=run", &[]));
    // Plan before the preparation.
    let unprepared = ["--set", "sources.books.folder=nowhere"];
    let planned = home.run_ok(&of_sources(&["plan"], "run.folder=run", &unprepared)).stdout;
    assert!(
        planned.contains("nowhere, news: not prepared yet") && planned.contains("source     books: 70.0 %"),
        "{planned}"
    );
}

#[test]
fn unreadable_sources_are_reported_together_by_name() {
    let home = home();
    Synthetic { max_seq_len: 32, lengths: 30..31, ..shape("news") }.write(&folder(&home, "short")).expect("written");
    let nowhere = ["--set", "sources.books.folder=nowhere", "--set", "sources.news.folder=gone"];
    home.run(&train("run.folder=run", &nowhere)).assert_fails(
        2,
        &[
            "`folder`",
            "[sources.books]",
            "nowhere: there is no prepared corpus",
            "[sources.news]",
            "gone: there is",
            "2 problems",
        ],
    );
    home.run(&train("run.folder=run", &["--set", "sources.news.folder=short"]))
        .assert_fails(2, &["[sources.news]", "its rows have 32 tokens, those of `sources.books.folder` 64"]);
    let odd = ["--set", "sources.a/b.folder=books", "--set", "sources.c.weight=1", "--set", "sources.news.weigth=2"];
    home.run(&train("run.folder=run", &odd)).assert_fails(
        2,
        &[
            "`a/b` is not a valid source name",
            "[sources.c]",
            "the source has no folder",
            "unknown key `weigth`",
            "did you mean `weight`",
        ],
    );
    home.run(&train("run.folder=run", &["--set", "sources.news.weight=much"]))
        .assert_fails(2, &["a weight is a number, or a list like"]);
    let off = ["--set", "sources.books.weight=0", "--set", "sources.news.weight=0"];
    home.run(&train("run.folder=run", &off)).assert_fails(2, &["no source has a share"]);
    // Every command reports this, also before a folder exists.
    for (verb, folder) in [("train", "books"), ("plan", "nowhere")] {
        let folder = format!("sources.books.folder={folder}");
        let streamed = ["--set", "data.order=streamed", "--set", &folder];
        home.run(&of_sources(&[verb], "run.folder=run", &streamed)).assert_fails(2, &["a mixture cannot be streamed"]);
    }
    assert!(!home.join("run").exists(), "nothing was begun");
}
