//! Files of other programs in a prepared folder are neither replaced, nor removed, nor read.

use super::dataset_versions::{many, text};
use super::*;

/// Name that Spark gives to a part of its output.
const SPARK: &str = "part-00000-1f2a4c00-77de-4c00-9f1c-0123456789ab-c000.snappy.parquet";

/// Files that a preparation never writes, next to those that it writes.
fn foreign() -> Vec<String> {
    let folders = ["documents", "parts", "removed", "signatures", "train", "valid", "verdicts"];
    let of_folders = folders.iter().flat_map(|folder| {
        [SPARK, "part-00001.parquet", "part-00001-00.csv", "part-00001/_SUCCESS"].map(|name| format!("{folder}/{name}"))
    });
    let others =
        ["leases/contract.pdf", "leases/part-00001.txt", "train/.state.tmp", "notes/.part-1.tmp", "vocab/ours"];
    of_folders.chain(others.map(str::to_owned)).collect()
}

/// Writes a file that contains its name. A store accepts no name of a temporary file.
fn put_plain(home: &Home, name: &str) {
    write_all(home.folder.path(), &[("source", name)]);
    let path = home.config.folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::copy(home.folder.path().join("source"), path).expect("written");
}

fn put_foreign(home: &Home) {
    for name in foreign() {
        put_plain(home, &name);
    }
}

fn check_foreign(home: &Home) {
    for name in foreign() {
        assert_eq!(fs::read_to_string(home.config.folder.join(&name)).ok().as_ref(), Some(&name), "lost or changed");
    }
}

#[test]
fn a_folder_with_files_of_others_is_refused_before_the_first_list() {
    let of_folders = foreign().into_iter().filter(|name| name.contains("/part-0") && !name.starts_with("leases"));
    let others = ["fingerprints.json", "inputs.json", "lock", "manifest.json", "tokenizer.json"].map(str::to_owned);
    let home = many();
    for name in of_folders.chain(others) {
        let _ = fs::remove_dir_all(&home.config.folder);
        put_plain(&home, &name);
        let before = home.data();
        let Err(Error::Config(message)) = home.run() else { panic!("{name}: not refused") };
        let is_named = message.contains(&name) || name == "manifest.json" && message.contains("versions/00000.json");
        assert!(is_named && message.contains("another `prepare.folder`"), "{name}: {message}");
        let content = fs::read_to_string(home.config.folder.join(&name)).expect("there");
        assert!(home.data() == before && content == name, "{name}: nothing was touched");
        // The way out.
        fs::rename(&home.config.folder, home.folder.path().join("elsewhere")).expect("moved");
        home.run().expect("prepared");
        fs::remove_dir_all(home.folder.path().join("elsewhere")).expect("there");
    }
}

#[test]
fn files_of_others_stay_whatever_is_done_with_the_folder() {
    let mut home = many();
    home.config.duplicates = Some(crate::prepare::DuplicatesConfig::default());
    home.config.write_removed = true;
    home.run().expect("prepared");
    put_foreign(&home);
    check_foreign(&home);
    home.put(13, &text(13, 9));
    let summary = home.run().expect("a change");
    assert!(summary.change.is_some_and(|change| change.dropped > 0));
    check_foreign(&home);
    home.forget(&Document::digest("the cat sat on 0 and 0")).expect("forgotten");
    check_foreign(&home);
    home.put(14, &text(14, 9));
    home.run_interrupted(25).expect_err("the disk fails");
    Preparation::plan(&home.config)
        .and_then(|plan| plan.write_plan(&Clock::still(), &mut Fanout::default()))
        .expect("planned");
    let shared = || SharedPreparation::open(&home.config).expect("planned");
    let (_stopper, stop) = cancel_pair();
    let share = Share::Leases { expiry: Duration::from_secs(60) };
    assert!(shared().sign(share, &stop, &Clock::still(), &mut Fanout::default()).expect("compared"));
    let options = PrepareOptions::default();
    shared().run(share, options, &stop, &Clock::still(), &mut Fanout::default(), None).expect("made");
    shared().finalize(&stop, &Clock::still(), &mut Fanout::default()).expect("published");
    check_foreign(&home);
    fs::remove_file(home.config.folder.join("parts/part-00001-00.json")).ok();
    let found = verify(&home.store(), 2, &stop, &mut |_, _| ()).expect("answered");
    let damaged = found.damaged_parts();
    let preparation = Preparation::plan(&home.config).expect("a plan");
    preparation.remake(&damaged, &Clock::still(), &mut Fanout::default()).expect("remade");
    check_foreign(&home);
    assert_eq!(verify(&home.store(), 2, &stop, &mut |_, _| ()).expect("answered").problems, []);
}

/// The tokenizer of a user may be in the folder, as long as it would not be replaced.
#[test]
fn a_corpus_without_documents_does_not_cost_the_tokenizer() {
    let mut home = Home::new();
    home.run().expect("prepared");
    let tokenizer = home.data()["tokenizer.json"].clone();
    fs::remove_dir_all(&home.config.folder).expect("there");
    write_all(&home.config.folder, &[("tokenizer.json", &tokenizer)]);
    write_all(home.folder.path(), &[("empty/a.txt", "\n\n")]);
    home.config.tokenizer = home.config.folder.join("tokenizer.json");
    let inputs = vec![home.folder.path().join("empty").display().to_string()];
    let empty = PrepareConfig { inputs, ..home.config.clone() };
    for _ in 0..2 {
        assert!(matches!(prepare(&empty).expect_err("no document"), Error::UnusableCorpus(_)));
        assert_eq!(home.data(), BTreeMap::from([("tokenizer.json".to_owned(), tokenizer.clone())]));
    }
    home.run().expect("prepared");
}

#[test]
fn inputs_in_the_prepared_folder_are_refused() {
    let mut home = Home::new();
    home.config.folder = home.folder.path().join("in/wiki");
    write_all(&home.config.folder, &[("a.txt", "the cat")]);
    std::os::unix::fs::symlink(home.config.folder.join("a.txt"), home.folder.path().join("in/link.txt"))
        .expect("linked");
    let at = home.folder.path().display().to_string();
    for input in ["in", "in/**/*.txt", "in/link.txt", "in/wiki/a.txt", "./in/../in"] {
        let config = PrepareConfig { inputs: vec![format!("{at}/{input}")], ..home.config.clone() };
        let Err(Error::Config(message)) = prepare(&config) else { panic!("{input}: not refused") };
        assert!(message.contains("this input is in `prepare.folder`") && message.contains(".txt"), "{message}");
        let url = PrepareConfig { inputs: vec![format!("file://{at}/in")], ..home.config.clone() };
        assert!(prepare(&url).expect_err("refused").to_string().contains("this input is in `prepare.folder`"));
    }
    assert_eq!(home.data().len(), 1, "nothing was written");
}

/// Whatever the glob, and whenever a preparation is killed.
#[test]
fn a_folder_within_its_inputs_is_never_read() {
    let plain = Home::new();
    let expected = plain.run().expect("prepared").corpus.documents;
    for input in ["in", "in/**/*"] {
        let mut home = Home::new();
        home.config.folder = home.folder.path().join("in/data");
        home.config.inputs = vec![home.folder.path().join(input).display().to_string()];
        home.config.write_removed = true;
        for writes in (0..60).step_by(5) {
            let error = match home.run_interrupted(writes) {
                Ok(_) => break,
                Err(error) => error.to_string(),
            };
            // Before the folder is marked as prepared, its first files are refused, not read.
            if error.contains("this input is in `prepare.folder`") {
                fs::remove_dir_all(&home.config.folder).expect("there");
            }
        }
        let summary = home.run().expect("prepared");
        assert_eq!(summary.corpus.documents, expected, "{input}");
        let again = home.run().expect("prepared");
        assert!(again.nothing_to_do && again.change.is_none(), "{input}: {again:?}");
    }
}
