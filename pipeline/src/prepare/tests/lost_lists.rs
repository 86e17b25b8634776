//! Folders without their first part list: it is planned again, or one error says what is lost.

use store::FaultConfig;

use super::dataset_versions::{many, text};
use super::*;

const FIRST: &str = "versions/00000.json";

fn problems(home: &Home) -> Vec<FolderProblem> {
    let (_stopper, stop) = cancel_pair();
    verify(&home.store(), 2, &stop, &mut |_, _| ()).expect("answered").problems
}

fn lose(home: &Home) {
    fs::remove_file(home.config.folder.join(FIRST)).expect("there");
}

#[test]
fn a_lost_or_damaged_first_list_is_planned_again() {
    let home = many();
    home.run().expect("prepared");
    let whole = home.data();
    for damage in [None, Some(&b""[..]), Some(&whole[FIRST][..whole[FIRST].len() / 2])] {
        for is_repair in [false, true] {
            lose(&home);
            if let Some(bytes) = damage {
                write_all(&home.config.folder, &[(FIRST, bytes)]);
            }
            let found = problems(&home);
            let [FolderProblem { part: None, message }] = &found[..] else { panic!("{found:?}") };
            assert!(message.contains(FIRST) && message.contains("`cloze verify --repair`"), "{message}");
            if let Err(error) = SharedPreparation::open(&home.config) {
                assert!(error.to_string().contains(FIRST), "{error}");
            } else {
                panic!("its parts are not known");
            }
            if is_repair {
                let preparation = Preparation::plan(&home.config).expect("a plan");
                preparation.remake(&BTreeSet::new(), &Clock::still(), &mut Fanout::default()).expect("repaired");
            } else {
                assert!(home.run().expect("planned again").nothing_to_do);
            }
            assert!(home.data() == whole, "nothing else has changed");
            assert_eq!(problems(&home), []);
        }
    }
}

/// Before the manifest, the commit records prove the settings.
#[test]
fn a_list_that_was_lost_during_a_preparation_is_planned_again() {
    let home = many();
    prepare(&home.config("whole", 1)).expect("prepared");
    let whole = files(&home.folder.path().join("whole"));
    for writes in (40..).step_by(40).take_while(|_| records(&home.data()) == 0) {
        home.run_interrupted(writes).expect_err("the disk fails");
    }
    let made = records(&home.data()) as u64;
    assert!(made < records(&whole) as u64, "{made}");
    lose(&home);
    assert_eq!(problems(&home).len(), 1);
    assert_eq!(home.run().expect("planned again").parts_skipped, made);
    assert!(home.data() == whole);
}

#[test]
fn a_lost_list_is_not_replaced_by_another() {
    let home = many();
    home.run().expect("prepared");
    lose(&home);
    let before = home.data();
    let refused = |config: &PrepareConfig, words: &[&str]| {
        let before = home.data();
        let error = prepare(config).expect_err("another list").to_string();
        let words = words.iter().chain(&[FIRST, "cannot be planned again", "restore the original file"]);
        words.for_each(|word| assert!(error.contains(word), "`{word}` is missing in {error}"));
        assert!(home.data() == before, "nothing was touched");
    };
    let config = || home.config.clone();
    refused(&PrepareConfig { max_seq_len: 32, ..config() }, &["parts/part-00000-00.json has other settings"]);
    refused(&PrepareConfig { part_bytes: Some(700), ..config() }, &["not those of the manifest"]);
    home.put(77, &text(77, 9));
    refused(&config(), &["`77.txt` has changed since"]);
    fs::remove_file(home.folder.path().join("in/77.txt")).expect("there");
    fs::remove_file(home.config.folder.join("manifest.json")).expect("there");
    refused(&PrepareConfig { part_bytes: Some(700), ..config() }, &["has other settings or another part"]);
    write_all(&home.config.folder, &[("manifest.json", &before["manifest.json"])]);
    fs::remove_dir_all(home.config.folder.join("parts")).expect("there");
    refused(&config(), &["no commit record proves its settings"]);
}

#[test]
fn lists_of_which_only_the_first_or_all_are_lost_are_named() {
    let home = many();
    home.run().expect("prepared");
    home.put(77, &text(77, 9));
    home.run().expect("prepared");
    lose(&home);
    let before = home.data();
    let (_stopper, stop) = cancel_pair();
    let checked = verify(&home.store(), 2, &stop, &mut |_, _| ()).expect_err("a gap");
    for error in [checked, home.run().expect_err("a gap")] {
        let error = error.to_string();
        assert!(error.contains("00000.json: it is missing, but a later list is there"), "{error}");
        assert!(error.contains("restore the original file"), "{error}");
    }
    fs::remove_dir_all(home.config.folder.join("versions")).expect("there");
    let error = home.run().expect_err("two lists are lost").to_string();
    assert!(error.contains("versions/00001.json: it is missing, but the manifest has"), "{error}");
    assert!(home.data().into_iter().eq(before.into_iter().filter(|(name, _)| !name.starts_with("versions/"))));
}

#[test]
fn a_folder_of_nothing_has_lost_no_list() {
    let store = Store::in_memory(FaultConfig::none());
    store.put("provisional_manifest.json", b"{}").expect("written");
    assert!(VersionLists::read(&store).expect("none").is_empty());
}
