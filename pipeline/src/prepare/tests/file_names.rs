//! Names of input files are stable: another input never renames the files of existing parts.

use super::dataset_versions::{check_others, text};
use super::*;

/// Two dumps with files of equal names and lengths. The second is not among the inputs yet.
fn dumps() -> Home {
    let mut home = Home::new();
    for (dump, first) in [("2024-10", 0), ("2024-18", 50)] {
        for file in 0..12 {
            // One length: nothing but the content tells the files of two dumps apart.
            let text = text(first + file, 6).replace("the cats", "cats too").replace("hat 7", "hat");
            let text = format!("{text}{}", " ".repeat(400 - text.len()));
            write_all(home.folder.path(), &[(format!("{dump}/{file:05}.txt").as_str(), text)]);
        }
    }
    home.config.part_bytes = Some(900);
    home.config.inputs = vec![home.folder.path().join("2024-10").display().to_string()];
    home
}

fn inputs(home: &Home, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| home.folder.path().join(name).display().to_string()).collect()
}

#[test]
fn an_input_with_equal_file_names_drops_no_part() {
    let added: [&[&str]; 4] =
        [&["2024-10", "2024-18"], &["2024-18", "2024-10"], &["2024-1[08]/*.txt"], &["2024-10", "2024-18/*.txt"]];
    for names in added {
        let mut home = dumps();
        let first = home.run().expect("prepared");
        let before = home.data();
        home.config.inputs = inputs(&home, names);
        let second = home.run().expect("prepared");
        let change = second.change.expect("files were added");
        assert_eq!((change.added, change.replaced, change.removed, change.dropped), (12, 0, 0, 0), "{names:?}");
        assert_eq!(change.touches, None, "runs over version 0 go on: {names:?}");
        assert_eq!(second.parts_skipped, first.parts_made);
        check_others(&before, &home.data(), &BTreeSet::new());
        assert_eq!(second.corpus.documents, 2 * first.corpus.documents);
        assert!(home.run().expect("prepared").nothing_to_do, "{names:?}");
        // Without fingerprints, the names stay, and doubtful files are read again.
        fs::remove_file(home.config.folder.join(fingerprints::NAME)).expect("there");
        assert!(home.run().expect("prepared").change.is_none(), "{names:?}");
        assert!(home.run().expect("prepared").nothing_to_do, "{names:?}");
    }
}

#[test]
fn forgotten_documents_and_removed_files_keep_the_names_of_the_others() {
    let mut home = dumps();
    home.run().expect("prepared");
    home.config.inputs = inputs(&home, &["2024-10", "2024-18"]);
    home.run().expect("prepared");
    let (summary, _) = home.forget(&Document::digest("the cat sat on 0 and 0")).expect("forgotten");
    let change = summary.change.expect("a version");
    assert_eq!((change.added, change.replaced, change.removed, change.forgotten), (0, 0, 0, 1));
    assert!(home.run().expect("prepared").nothing_to_do);
    let found = open_corpus(&home.config).expect("found");
    assert!(found.file("00003.txt").is_some_and(|file| file.path.to_string_lossy().contains("2024-10")));
    assert!(found.file("2024-18/00003.txt").is_some());
    // One of two files of a name is removed: the other one keeps its longer name.
    fs::remove_file(home.folder.path().join("2024-10/00003.txt")).expect("there");
    let change = home.run().expect("prepared").change.expect("a version");
    assert_eq!((change.added, change.replaced, change.removed), (0, 0, 1));
}

/// A share finds the names of the plan, with and without the recorded places of its files.
#[test]
fn shares_use_the_names_of_the_plan() {
    let mut home = dumps();
    home.run().expect("prepared");
    home.config.inputs = inputs(&home, &["2024-10", "2024-18"]);
    let plan = Preparation::plan(&home.config).expect("a plan");
    plan.write_plan(&Clock::still(), &mut Fanout::default()).expect("planned");
    fs::remove_file(home.config.folder.join("inputs.json")).expect("there");
    let (_stopper, stop) = cancel_pair();
    let share = Share::Index { index: 0, count: std::num::NonZeroU64::MIN };
    let shared = || SharedPreparation::open(&home.config).expect("planned");
    let options = PrepareOptions::default();
    shared().run(share, options, &stop, &Clock::still(), &mut Fanout::default(), None).expect("made");
    shared().finalize(&stop, &Clock::still(), &mut Fanout::default()).expect("published");
    assert!(home.run().expect("prepared").nothing_to_do);
}
