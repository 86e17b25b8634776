//! `cloze analyze`: every analysis of the checkpoints of a small run.

use testkit::{Home, Outcome};

/// Runs a training with three checkpoints, and writes texts, pairs and word pairs.
fn home() -> Home {
    let home = Home::prepared(60);
    let changes = ["--set", "train.steps=6", "--set", "checkpoints.every_steps=2", "--set", "checkpoints.keep=9"];
    home.run_ok(&[&["train", "--set", "run.folder=run", "--set", "train.threads=1"], &changes[..]].concat());
    let score = |number: usize| if number.is_multiple_of(2) { "5.000" } else { "1.000" };
    let pair = |number: usize| format!("{number}\tAnna ate bread {number}.\tPeter ate bread.\t{}\n", score(number));
    let pairs: String = (0..12).map(pair).collect();
    home.write("pairs.tsv", &format!("index\tsentence1\tsentence2\tscore\n{pairs}"));
    home.write("words.csv", "one,other,score\nbread,water,7\nand,the,1\nunheardofword,water,1\n");
    home
}

fn analyze(home: &Home, args: &str, more: &[&str]) -> Outcome {
    let words: Vec<&str> = args.split_whitespace().collect();
    home.run(&[&["analyze"], &words[..], more].concat())
}

/// Returns the rows of a CSV file as numbers or texts.
fn csv(home: &Home, name: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(home.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn number(rows: &[Vec<String>], row: usize, column: &str) -> f64 {
    let at = rows[0].iter().position(|name| name == column).unwrap_or_else(|| panic!("{column}: {:?}", rows[0]));
    rows[row][at].parse().unwrap_or_else(|_| panic!("{column}: {:?}", rows[row]))
}

#[test]
fn curves_over_all_steps_of_runs_are_repeatable() {
    let home = home();
    let args = "context-score run --text corpus --step all --measure cos,l2 --minus-embedding";
    let outcome = analyze(&home, args, &["--out", "a.csv", "--plot", "a.svg", "--html", "a.html"]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    assert!(outcome.stdout.contains("difference") && outcome.stderr.contains("run step 4 (2 of 3)"), "{outcome}");
    let rows = csv(&home, "a.csv");
    assert_eq!(rows[0], ["model", "step", "measure", "intra", "inter", "difference", "ratio", "tokens"]);
    let steps: Vec<&str> = rows[1..].iter().map(|row| row[1].as_str()).collect();
    assert_eq!(steps, ["2", "2", "4", "4", "6", "6"]);
    for row in 1..rows.len() {
        let [intra, inter, difference] = ["intra", "inter", "difference"].map(|column| number(&rows, row, column));
        assert!((intra - inter - difference).abs() < 1e-12 && number(&rows, row, "tokens") > 100.0, "{:?}", rows[row]);
    }
    let read = |name: &str| std::fs::read_to_string(home.join(name)).expect(name);
    assert!(read("a.svg").starts_with("<svg") && read("a.html").matches("<svg").count() == 4, "four charts");
    assert!(home.join("a-2.svg").exists());
    // The same command gives the same bytes, another seed other samples.
    let before = read("a.csv");
    assert_eq!(analyze(&home, args, &["--out", "b.csv"]).code, Some(0));
    assert_eq!(before, read("b.csv"));
    assert_eq!(analyze(&home, args, &["--out", "b.csv", "--seed", "2"]).code, Some(0));
    assert_ne!(before, read("b.csv"));
    let outcome = analyze(&home, args, &["--json"]);
    let object: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!((&object["scores"][4]["step"], object["scores"].as_array().map(Vec::len)), (&6.into(), Some(6)));
    // Several runs, selected steps.
    let branched = ["branch", "run", "--step", "2", "--out", "other"];
    home.run_ok(&branched);
    let two = analyze(&home, "context-score run other --text corpus --step 2 --max-rows 8", &["--out", "c.csv"]);
    assert_eq!(two.code, Some(0), "{two}");
    let rows = csv(&home, "c.csv");
    assert_eq!((rows[1][0].as_str(), rows[2][0].as_str()), ("run", "other"));
    assert_eq!(rows[1][2..], rows[2][2..], "the same weights");
}

#[test]
fn every_analysis_runs_on_a_run_and_on_its_export() {
    let home = home();
    home.run_ok(&["export", "run", "--out", "model"]);
    let sentence = ["--sentence", "Anna ate bread and drank some water."];
    let columns = "--columns sentence1,sentence2,score --min-score 4";
    let cos_dist = format!("cos-dist --text corpus --pairs pairs.tsv {columns} --repr mean --bins 10");
    let align_uniform = format!("align-uniform --pairs pairs.tsv {columns}");
    let analyses: [(&str, &[&str]); 8] = [
        ("context-score --text corpus --measure cos,dot,l1,l2,l10", &[]),
        ("self-sim --text corpus --layers 0,1,2", &[]),
        ("self-sim-matrix", &sentence),
        ("embed-sim --pairs words.csv --columns one,other", &[]),
        (&cos_dist, &[]),
        (&align_uniform, &[]),
        (
            "grad-cov --text corpus --row-tokens 18 --row-count 3 --masks 8 --distances 3 --params encoder.layers.1.*",
            &[],
        ),
        ("neighbors --text corpus --word bread --top 3", &sentence),
    ];
    for (args, more) in analyses {
        let (name, options) = args.split_once(' ').unwrap_or((args, ""));
        let outputs = |model: &str| {
            let files = [format!("{model}.csv"), format!("{model}.html")];
            let more = [more, &["--out", &files[0], "--html", &files[1]]].concat();
            let outcome = analyze(&home, &format!("{name} {model} {options}"), &more);
            assert_eq!(outcome.code, Some(0), "{name}: {outcome}");
            csv(&home, &format!("{model}.csv"))
        };
        let [run, model] = ["run", "model"].map(outputs);
        assert!(run.len() > 1 && run.len() == model.len(), "{name}");
        for (one, other) in run.iter().zip(&model).skip(1) {
            for (one, other) in one.iter().zip(other).skip(2) {
                let numbers = one.parse::<f64>().ok().zip(other.parse::<f64>().ok());
                let is_equal = numbers.map_or(one == other, |(a, b)| (a - b).abs() <= 1e-4 * a.abs().max(1.0));
                assert!(is_equal, "{name}: {one} of the run, {other} of its export");
            }
        }
    }
    let outcome = analyze(&home, "token-accuracy run --text corpus --step all", &["--out", "tokens.csv"]);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    let rows = csv(&home, "tokens.csv");
    let accuracy: Vec<_> = rows.iter().filter(|row| row[2..4] == ["mlm", "accuracy"]).collect();
    assert!(
        accuracy.len() == 3 && accuracy[0][4].parse::<f64>().is_ok_and(|value| (0.0..1.0).contains(&value)),
        "{rows:?}"
    );
    analyze(&home, "token-accuracy model --text corpus", &[]).assert_fails(2, &["model", "no objectives"]);
}

#[test]
fn too_little_data_is_undefined_or_refused() {
    let home = home();
    home.write("one.txt", "Anna ate bread.\n");
    home.write("token.txt", "bread\n");
    home.write("empty.txt", "");
    home.write("unknown.txt", "\u{4e00}\n\u{4e8c}\n");
    for text in ["one.txt", "token.txt", "unknown.txt"] {
        let outcome = analyze(&home, &format!("context-score run --text {text}"), &[]);
        assert!(outcome.code == Some(0) && outcome.stdout.contains("undefined"), "{text}: {outcome}");
        assert_eq!(analyze(&home, &format!("self-sim run --text {text}"), &[]).code, Some(0), "{text}");
        analyze(&home, &format!("grad-cov run --text {text}"), &[])
            .assert_fails(2, &["at least 2 rows", "--row-tokens"]);
    }
    home.write("long-words.csv", "unheardofword,unseenthing\n");
    let outcome = analyze(&home, "embed-sim run --pairs long-words.csv", &[]);
    assert!(outcome.code == Some(0) && outcome.stdout.contains("undefined"), "{outcome}");
    let refused = |args: &str, more: &[&str], words: &[&str]| analyze(&home, args, more).assert_fails(2, words);
    refused("context-score run --text empty.txt", &[], &["empty.txt", "no tokens"]);
    refused("context-score run --text absent.txt", &[], &["absent.txt"]);
    home.write("records.jsonl", "{\"body\": \"Anna ate bread.\"}\n");
    refused("context-score run --text records.jsonl", &[], &["`body`", "`--text-field`"]);
    refused("context-score run --text one.txt --step 3", &[], &["--step 3", "2, 4, 6"]);
    refused("context-score corpus --text one.txt", &[], &["corpus", "neither a run"]);
    refused("context-score run --text one.txt --measure sine", &[], &["sine", "l10"]);
    refused("context-score run", &[], &["--text"]);
    refused("context-score run --text one.txt --out one.csv --html one.csv", &[], &["written twice"]);
    refused("self-sim run --text one.txt --layers 9", &[], &["layer 9", "0 to 2"]);
    refused("align-uniform run --pairs pairs.tsv --columns sentence1", &[], &["two columns"]);
    refused("align-uniform run --pairs pairs.tsv --columns a,b", &[], &["pairs.tsv", "`a`"]);
    refused("align-uniform run --pairs pairs.tsv --min-score 4", &[], &["third column"]);
    refused("grad-cov run --text corpus --params none.*", &[], &["none.*", "encoder."]);
    refused("grad-cov run --text corpus --k 9 --masks 18", &[], &["9 disjoint masks", "--ratio"]);
    refused("neighbors run --text corpus --word", &["pear", "--sentence", "Anna ate."], &["`pear`", "anna"]);
    refused("self-sim-matrix run", &["--sentence", ""], &["0 tokens"]);
}
