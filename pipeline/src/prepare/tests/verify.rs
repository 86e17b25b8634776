//! Full checks of prepared folders: every kind of damage is named, and only damaged parts are made again.

use schemas::PartId;
use store::FaultConfig;

use super::dataset_versions::many;
use super::duplicates::planted;
use super::*;

fn check(store: &Store) -> FolderCheck {
    let (_stopper, stop) = cancel_pair();
    verify(store, 2, &stop, &mut |_, _| ()).expect("answered")
}

/// Writes bytes to a file without a change of its time, as bit rot does.
fn rot(home: &Home, name: &str, bytes: &[u8]) {
    let path = home.config.folder.join(name);
    let times = fs::metadata(&path).expect("there").modified().expect("kept by the file system");
    write_all(&home.config.folder, &[(name, bytes)]);
    File::options().append(true).open(&path).and_then(|file| file.set_modified(times)).expect("set");
}

#[test]
fn a_good_folder_of_any_packing_has_no_problem() {
    for &pack in crate::pack::AnyPacking::KINDS {
        let home = Home::packed(pack);
        let summary = home.run().expect("prepared");
        let found = check(&home.store());
        assert_eq!(found.problems, [], "{pack}");
        assert_eq!((found.rows, found.tokens), (summary.rows, summary.stored_tokens), "{pack}");
        assert!(found.parts > 0 && found.objects > found.parts && found.bytes > 0, "{pack}");
    }
    let mut home = many();
    home.run().expect("prepared");
    fs::remove_file(home.folder.path().join("in/14.txt")).expect("there");
    home.config.workers = Some(1);
    home.run().expect("prepared");
    assert_eq!(check(&home.store()).problems, [], "two dataset versions");
}

#[test]
fn damage_is_named_and_only_damaged_parts_are_remade() {
    let home = Home::new();
    home.run().expect("prepared");
    let whole = home.data();
    for (name, part) in [
        ("train/part-00002-00-00.parquet", Some(2)),
        ("documents/part-00002-00.parquet", Some(2)),
        ("parts/part-00003-00.json", Some(3)),
        ("manifest.json", None),
        ("vocab/00000.parquet", None),
        ("vocab/announced.parquet", None),
        ("tokenizer.json", None),
        ("provisional_manifest.json", None),
    ] {
        let bytes = &whole[name];
        let mut flipped = bytes.clone();
        flipped[bytes.len() / 2] ^= 1;
        rot(&home, name, &flipped);
        let found = check(&home.store());
        let expected: BTreeSet<PartId> = part.map(PartId).into_iter().collect();
        assert_eq!(found.damaged_parts(), expected, "{name}: {:?}", found.problems);
        assert!(found.problems.iter().any(|problem| problem.message.contains(name)), "{:?}", found.problems);
        let preparation = Preparation::plan(&home.config).expect("a plan");
        let remade = preparation.remake(&expected, &Clock::still(), &mut Fanout::default()).expect("remade");
        assert_eq!(remade.parts_made, expected.len() as u64, "{name}");
        assert_eq!(check(&home.store()).problems, [], "{name}");
        assert!(home.data() == whole, "{name}");
    }
}

#[test]
fn objects_that_no_record_names_are_listed_and_removed() {
    let home = Home::new();
    home.run().expect("prepared");
    let whole = home.data();
    let shard = &whole["train/part-00001-00-00.parquet"];
    let strays = [
        "documents/part-00001-01.parquet",
        "parts/part-00001-01.json",
        "removed/part-00001-00.jsonl.zst",
        "signatures/part-00001.bin",
        "train/part-00001-00-01.parquet",
        "valid/part-00002-00-09.parquet",
    ];
    // Plain bytes, whatever the name.
    for name in strays {
        home.store().put(name, shard).expect("written");
    }
    // Names that no preparation writes, and a part of no list.
    let of_the_user = ["train/part-00099-00-00.parquet", "train/readme", "valid/part-00001.old"];
    write_all(&home.config.folder, &of_the_user.map(|name| (name, "of the user")));
    let found = check(&home.store());
    let [FolderProblem { part: None, message }] = &found.problems[..] else { panic!("{:?}", found.problems) };
    assert!(message.contains("names 6 objects") && message.contains("removes them"), "{message}");
    for (index, name) in strays.iter().enumerate() {
        assert_eq!(message.contains(name), index < 5, "{name}: {message}");
    }
    // Objects of a damaged part belong to the problem of that part.
    rot(&home, "parts/part-00001-00.json", b"damaged");
    let found = check(&home.store());
    assert_eq!(found.damaged_parts(), BTreeSet::from([PartId(1)]));
    assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
    assert!(found.problems[0].message.contains("names 1 objects"), "{:?}", found.problems);
    let preparation = Preparation::plan(&home.config).expect("a plan");
    preparation.remake(&found.damaged_parts(), &Clock::still(), &mut Fanout::default()).expect("remade");
    assert_eq!(check(&home.store()).problems, []);
    let mut expected = whole;
    expected.extend(of_the_user.map(|name| (name.to_owned(), b"of the user".to_vec())));
    assert!(home.data() == expected);
}

/// Creates a folder, a pipe, a broken link or a link to a device in the place of a file.
fn put_no_file(path: &Path, kind: usize) {
    fs::remove_file(path).expect("there");
    match kind {
        0 => fs::create_dir(path).expect("made"),
        1 => assert!(std::process::Command::new("mkfifo").arg(path).status().expect("it runs").success()),
        2 => std::os::unix::fs::symlink("nowhere", path).expect("linked"),
        _ => std::os::unix::fs::symlink("/dev/zero", path).expect("linked"),
    }
}

#[test]
fn an_object_that_is_no_file_is_a_problem_of_its_part() {
    let home = Home::new();
    home.run().expect("prepared");
    let whole = home.data();
    for name in ["train/part-00002-00-00.parquet", "documents/part-00002-00.parquet", "parts/part-00002-00.json"] {
        let path = home.config.folder.join(name);
        for kind in 0..4 {
            put_no_file(&path, kind);
            let found = check(&home.store());
            assert_eq!(found.damaged_parts(), BTreeSet::from([PartId(2)]), "{name}: {:?}", found.problems);
            let [FolderProblem { message, .. }] = &found.problems[..] else { panic!("{:?}", found.problems) };
            let what = if kind == 2 { "it is a broken symbolic link" } else { "it is not a file" };
            for word in [name, what, "move it elsewhere"] {
                assert!(message.contains(word), "`{word}` is missing in {message}");
            }
            assert_eq!(found.parts, check(&home.store()).parts, "the other parts are checked too");
            if !name.starts_with("parts") {
                let error = home.run().expect_err("no file").to_string();
                assert!(error.contains(name) && error.contains("move it elsewhere"), "{error}");
            }
            if kind == 0 { fs::remove_dir(&path) } else { fs::remove_file(&path) }.expect("removed");
            assert_eq!(home.run().expect("the way out").parts_made, 1);
            assert!(home.data() == whole, "{name}");
        }
    }
}

/// A pipe or a broken link is replaced; a folder is named.
#[test]
fn comparison_objects_that_are_no_files_are_problems() {
    let mut home = planted();
    home.config.write_removed = true;
    home.run().expect("prepared");
    let whole = home.data();
    let of = |folder: &str, ending: &str| {
        let is_one = |name: &&String| name.starts_with(folder) && name.ends_with(ending);
        whole.keys().find(is_one).unwrap_or_else(|| panic!("{folder}*{ending} in {:?}", whole.keys())).clone()
    };
    for name in [of("verdicts/", ".json"), of("verdicts/part", ".bin"), of("signatures/", ".bin")] {
        for kind in 0..4 {
            let path = home.config.folder.join(&name);
            put_no_file(&path, kind);
            assert_ne!(check(&home.store()).problems, [], "{name}, {kind}");
            if name.starts_with("verdicts") {
                match (kind, home.run()) {
                    (0, Err(error)) => assert!(error.to_string().contains("a folder has the name"), "{name}: {error}"),
                    (0, Ok(_)) => panic!("{name}: a folder cannot be replaced"),
                    (_, outcome) => drop(outcome.expect("replaced")),
                }
            }
            if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                fs::remove_dir(&path).expect("removed");
            } else {
                fs::remove_file(&path).expect("removed");
            }
            write_all(&home.config.folder, &[(name.as_str(), whole[&name].as_slice())]);
            assert_eq!(check(&home.store()).problems, [], "{name}, {kind}");
        }
    }
}

#[test]
fn a_repair_does_not_follow_changed_inputs() {
    let home = many();
    home.run().expect("prepared");
    rot(&home, "parts/part-00001-00.json", b"damaged");
    home.put(0, "the cat sat on another mat");
    let before = home.data();
    let preparation = Preparation::plan(&home.config).expect("a plan");
    let damaged = BTreeSet::from([PartId(1)]);
    let error = preparation.remake(&damaged, &Clock::still(), &mut Fanout::default()).expect_err("another corpus");
    assert!(matches!(error, Error::Config(_)), "{error}");
    assert!(error.to_string().contains("1 file changed") || error.to_string().contains("1 file replaced"), "{error}");
    assert!(home.data() == before);
}

/// Sealed and hashed consistently, but not what the corpus has: only recomputation finds it.
#[test]
fn claims_that_do_not_follow_from_the_shards_are_named() {
    let home = Home::new();
    home.run().expect("prepared");
    let store = home.store();
    let record_name = "parts/part-00001-00.json";
    let original: commit_record::CommitRecord =
        schemas::Sealed::unseal(&store.get(record_name).expect("there")).expect("sealed");
    let mut changed = original.clone();
    changed.train[0].tokens += 1;
    store.put(record_name, &schemas::Sealed::seal(&changed)).expect("put");
    let found = check(&store);
    assert!(found.problems[0].message.contains("train/part-00001-00-00.parquet"), "{:?}", found.problems);
    let mut changed = original.clone();
    changed.counts[1] += 1;
    store.put(record_name, &schemas::Sealed::seal(&changed)).expect("put");
    let found = check(&store);
    assert!(found.problems[0].message.contains("occurs"), "{:?}", found.problems);
    store.put(record_name, &schemas::Sealed::seal(&original)).expect("put");
    let mut manifest = load::open(&store).expect("a manifest");
    manifest.dataset_versions[0].corpus.documents += 1;
    manifest.dataset_versions[0].content.replace_range(..1, "x");
    store.put("manifest.json", &manifest.to_json()).expect("put");
    let found = check(&store);
    let said: Vec<&str> = found.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert!(said.len() == 2 && said[0].contains("counts of documents") && said[1].contains("content hash"), "{said:?}");
}

#[test]
fn a_store_that_does_not_answer_is_no_damage() {
    let home = Home::new();
    let memory = store::MemoryBackend::new(FaultConfig::none());
    let reliable = Store::from_memory(&memory);
    let plan = Preparation::plan_in(&home.config, &reliable).expect("a plan");
    plan.run(PrepareOptions::default(), &Clock::still(), &mut Fanout::default()).expect("prepared");
    let (_stopper, stop) = cancel_pair();
    let silent = Store::from_memory(&memory.with_faults(FaultConfig { failures: 1.0, ..FaultConfig::none() }));
    assert!(matches!(verify(&silent, 2, &stop, &mut |_, _| ()), Err(Error::Io(_))));
    let empty = Store::in_memory(FaultConfig::none());
    let error = verify(&empty, 2, &stop, &mut |_, _| ()).expect_err("empty").to_string();
    assert!(error.contains("no prepared corpus here"), "{error}");
}

#[test]
fn a_record_of_another_folder_is_a_problem_of_its_part() {
    let home = Home::new();
    home.run().expect("prepared");
    let other = PrepareConfig { max_seq_len: 20, ..home.config("other", 1) };
    prepare(&other).expect("prepared");
    let name = "parts/part-00001-00.json";
    let foreign = fs::read(other.folder.join(name)).expect("there");
    write_all(&home.config.folder, &[(name, foreign)]);
    let found = check(&home.store());
    assert_eq!(found.damaged_parts(), BTreeSet::from([PartId(1)]), "{:?}", found.problems);
}

/// The verdicts follow from the parts, so their loss damages none.
#[test]
fn damaged_verdicts_and_signatures_are_problems_of_no_part() {
    let home = super::duplicates::planted();
    let summary = home.run().expect("prepared");
    assert!(summary.corpus.duplicates.exact_documents > 0);
    assert_eq!(check(&home.store()).problems, []);
    let whole = home.data();
    for (name, word) in [
        ("verdicts/00000.json", "verdicts on duplicates of dataset version 0"),
        ("verdicts/part-00001.bin", "verdicts on duplicates of dataset version 0"),
        ("signatures/part-00001.bin", "signatures of part 1"),
        ("signatures/part-00001.json", "signatures of part 1"),
    ] {
        let mut damaged = whole[name].clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        rot(&home, name, &damaged);
        let found = check(&home.store());
        assert_eq!(found.damaged_parts(), BTreeSet::new(), "{name}: {:?}", found.problems);
        assert!(found.problems[0].message.contains(word), "{name}: {:?}", found.problems);
        let preparation = Preparation::plan(&home.config).expect("a plan");
        let remade = preparation.remake(&BTreeSet::new(), &Clock::still(), &mut Fanout::default()).expect("remade");
        assert_eq!(remade.parts_made, 0, "{name}");
        assert_eq!(check(&home.store()).problems, [], "{name}");
        assert_eq!(home.data()["manifest.json"], whole["manifest.json"], "{name}");
        assert!(home.data() == whole, "{name}: made again, as it was");
    }
    fs::remove_dir_all(home.config.folder.join("signatures")).expect("there");
    assert_eq!(check(&home.store()).problems, [], "signatures may be deleted");
}
