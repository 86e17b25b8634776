//! What stands between a file and a run: every mistake at once, and no start with any of them.

#[cfg(feature = "train")]
use crate::support::Home;

#[cfg(feature = "train")]
#[test]
fn seven_mistakes_are_seven_reports() {
    let home = Home::prepared(40);
    home.write(
        "wrong.toml",
        r#"
sede = 1
[data]
folder = "data"
width = 63
[encoder]
layres = 2
hidden = 32
heads = 2
feed_forward = 64
positions = 64
[views.masked]
kind = "musk"
[views.neighbors]
kind = "window"
of = "original"
ofset_max = 2
[objectives.mlm]
kind = "masked_lm"
view = "original"
[objectives.tc]
kind = "token_contrastive"
view = "original"
positives = "nowhere"
[loss]
mlm = 1.0
tcc = 1.0
[train]
steps = "many"
rows_per_step = 16
rows_per_micro_batch = 5
[run]
folder = "run"
"#,
    );
    let outcome = home.run(&["plan", "--config", "wrong.toml"]);
    outcome.assert_fails(
        2,
        &[
            "unknown section `sede`",
            "did you mean `seed`?",
            "unknown key `layres`",
            "did you mean `layers`?",
            "unknown choice `musk`",
            "did you mean `mask`?",
            "unknown key `ofset_max`",
            "wrong.toml:17, [views.neighbors], `ofset_max`",
            "reads column `labels` of view `original`, which it does not make",
            "`tcc`",
            "wrong.toml:29, [train], `steps`",
        ],
    );
    let reports = outcome.stderr.matches("error: ").count();
    assert!(reports >= 7, "{reports} reports\n{outcome}");
    assert!(!home.join("run").exists(), "a plan with mistakes writes nothing");
}

#[cfg(feature = "train")]
#[test]
fn a_plan_prints_the_run_before_it_costs_anything() {
    let home = Home::prepared(40);
    let outcome = home.run_ok(&["plan", "--set", "run.folder=run"]);
    for word in ["masked", "neighbors", "loss", "parameters", "FLOP", "row groups", "steps per epoch", "tc", "mlm"] {
        assert!(outcome.stdout.contains(word), "`{word}` is missing in\n{outcome}");
    }
    assert!(!home.join("run").exists(), "planning writes nothing");
    let json = home.run_ok(&["plan", "--json", "--set", "run.folder=run"]);
    let plan: serde_json::Value = serde_json::from_str(&json.stdout).expect("one JSON object");
    assert_eq!(plan["rows_per_step"], 16);
}

/// Settings that would run and mean something else than they say.
#[cfg(feature = "train")]
#[test]
fn what_would_go_wrong_in_silence_is_refused() {
    let home = Home::prepared(40);
    let generator = "networks.generator={kind=\"generator\", layers=1, makes=\"MADE\"}";
    let check = |settings: &[&str], words: &[&str]| {
        let mut args = vec!["plan", "--set", "run.folder=run"];
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        home.run(&args).assert_fails(2, words);
    };
    let rtd = "objectives.rtd={kind=\"replaced_token\", view=\"masked\"}";
    check(&[rtd, &generator.replace("MADE", "masked")], &["networks.generator", "`masked` is a view of the data"]);
    check(&["data.copies=2"], &["data.copies", "`tc` would contrast a row with its own copies"]);
    check(&["objectives.tc.neg_cols=matched", "views.neighbors.offset_max=5"], &["offset_max", "up to 5 away"]);
    let tacl = "objectives.tacl={kind=\"teacher_contrastive\", clean=\"cropped\"}";
    let others = ["networks.teacher={kind=\"teacher\"}", "views.cropped={kind=\"crop\"}"];
    check(&[tacl, others[0], others[1]], &["objectives.tacl", "`masked` and `cropped` for the same tokens"]);
    check(&["networks.tutor={kind=\"teacher\"}", "objectives.mlm.network=tutor"], &["`tutor` has no head"]);
    let clm = "objectives.clm={kind=\"corrective_lm\", view=\"masked\"}";
    let loss = "loss={clm=1.0}";
    check(&[clm, loss, "encoder.embedding=16"], &["encoder.embedding", "against the word table"]);
    check(&["views.masked.span=spanbert"], &["views.masked", "only with `unit = \"span\"`"]);
    let warned = home.run_ok(&["plan", "--set", "run.folder=run", "--set", "views.masked.disjoint=true"]);
    assert!(warned.stdout.contains("`data.copies` is 1"), "{warned}");
}
