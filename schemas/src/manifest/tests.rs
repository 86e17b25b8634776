use super::*;

fn part(id: u32, rows: u32) -> PartEntry {
    let shard = Shard {
        path: format!("train/part-{id:05}-00-00.parquet"),
        part: PartId(id),
        first_row: 0,
        rows: u64::from(rows),
        tokens: 300,
        groups: vec![rows],
        bytes: 1000,
        blake3: "a".into(),
        content: format!("{id}"),
    };
    PartEntry { id: PartId(id), train: vec![shard], valid: Vec::new() }
}

fn dataset_version(dropped: &[u32], parts: &[u32]) -> DatasetVersionEntry {
    DatasetVersionEntry {
        dropped: dropped.iter().copied().map(PartId).collect(),
        parts: parts.iter().map(|&id| part(id, 3)).collect(),
        vocab: FileEntry::default(),
        corpus: CorpusReport::default(),
        content: String::new(),
    }
}

/// Small manifest for tests: a part is added, then one is replaced by two.
fn example() -> Manifest {
    Manifest {
        tokenizer: TokenizerInfo {
            fingerprint: "f".into(),
            kind: "wordpiece".into(),
            vocab_size: 100,
            lowercase: true,
            special: SpecialIds { pad: 0, unk: Some(1), cls: 2, sep: 3, mask: 4 },
            specials: vec![0, 1, 2, 3, 4],
        },
        max_seq_len: 128,
        pack: Pack { name: "block".into(), content: 126, cuts: true, ..Pack::default() },
        files: BTreeMap::new(),
        dataset_versions: vec![
            dataset_version(&[], &[1, 0]),
            dataset_version(&[], &[2]),
            dataset_version(&[1], &[4, 3]),
        ],
    }
}

#[test]
fn sealed_manifest_round_trips() {
    assert_eq!(Manifest::from_json(&example().to_json()).expect("as written"), example());
}

#[test]
fn a_dataset_version_adds_to_those_before_and_drops_from_them() {
    let ids = |dataset_version| {
        let effective = example().effective(DatasetVersion(dataset_version));
        effective.train.shards.iter().map(|shard| shard.part.0).collect::<Vec<_>>()
    };
    assert_eq!([ids(0), ids(1), ids(2)], [vec![1, 0], vec![1, 0, 2], vec![0, 2, 4, 3]]);
    assert_eq!(example().newest(), DatasetVersion(2));
    assert_eq!(example().dropped_since(DatasetVersion(0)), [(PartId(1), DatasetVersion(2))].into());
    assert!(example().dropped_since(DatasetVersion(2)).is_empty());
}

#[test]
fn a_sealed_contradiction_is_refused() {
    let refuse = |damage: &dyn Fn(&mut Manifest), word: &str| {
        let mut manifest = example();
        damage(&mut manifest);
        let error = Manifest::from_json(&manifest.to_json()).expect_err("it contradicts itself").to_string();
        assert!(error.contains(word), "{error}");
    };
    refuse(&|manifest| manifest.dataset_versions.clear(), "no dataset version");
    refuse(&|manifest| manifest.dataset_versions[2].parts.push(part(1, 2)), "part 1 is there twice");
    refuse(&|manifest| manifest.dataset_versions[1].dropped = vec![PartId(9)], "drops part 9");
    for path in ["../x", "/etc/x", "", "train/./x"] {
        refuse(&|manifest| manifest.dataset_versions[0].parts[0].train[0].path = path.into(), "does not fit part 1");
    }
    refuse(&|manifest| manifest.dataset_versions[0].parts[0].train[0].first_row = 1, "does not fit");
    refuse(&|manifest| manifest.dataset_versions[0].parts[0].train[0].part = PartId(0), "does not fit");
    refuse(&|manifest| manifest.dataset_versions[0].parts[0].train[0].rows = 9, "does not fit");
}

#[test]
fn default_fields_are_not_written() {
    let plain = String::from_utf8(example().to_json()).expect("JSON is UTF-8");
    assert!(!plain.contains("frame") && !plain.contains("packing"), "{plain}");
    let mut taco = example();
    taco.pack.frame = Frame::None;
    taco.dataset_versions[0].corpus.packing.cut_tokens = 5;
    let bytes = taco.to_json();
    assert!(String::from_utf8_lossy(&bytes).contains("\"frame\": \"none\""));
    assert_eq!(Manifest::from_json(&bytes).expect("as written"), taco);
}

#[test]
fn the_first_version_is_refused_by_its_number() {
    let first = b"{\n  \"version\": 1,\n  \"max_seq_len\": 128\n}\n";
    let error = Manifest::from_json(first).expect_err("another version");
    assert!(matches!(error, ManifestError::Version { found: 1 }), "{error}");
    assert!(error.to_string().contains("prepare the corpus again"), "{error}");
}

fn shard(manifest: &mut Manifest) -> &mut Shard {
    &mut manifest.dataset_versions[0].parts[0].train[0]
}

#[test]
fn numbers_that_cannot_be_are_refused_though_they_were_sealed() {
    let refused = |change: &dyn Fn(&mut Manifest)| {
        let mut manifest = example();
        change(&mut manifest);
        let error = Manifest::from_json(&manifest.to_json()).expect_err("it cannot be");
        assert!(matches!(error, ManifestError::Contradiction(_)), "{error}");
    };
    refused(&|manifest| manifest.tokenizer.special.mask = 99_999);
    refused(&|manifest| manifest.tokenizer.special.mask = 50);
    refused(&|manifest| manifest.tokenizer.special.unk = Some(2));
    refused(&|manifest| manifest.tokenizer.vocab_size = 5);
    refused(&|manifest| manifest.tokenizer.vocab_size = 4);
    refused(&|manifest| manifest.tokenizer.specials = vec![4, 3, 2, 1, 0]);
    refused(&|manifest| manifest.pack.content = 0);
    refused(&|manifest| manifest.pack.content = 129);
    refused(&|manifest| (shard(manifest).rows, shard(manifest).groups) = (0, Vec::new()));
    refused(&|manifest| (shard(manifest).rows, shard(manifest).groups) = (0, vec![0]));
    refused(&|manifest| (shard(manifest).rows, shard(manifest).groups) = (1 << 31, vec![1 << 31]));
    refused(&|manifest| shard(manifest).tokens = 3 * 126 + 1);
    for path in ["../../x", "/etc/passwd", "a/../b", "train//x"] {
        refused(&|manifest| path.clone_into(&mut shard(manifest).path));
        refused(&|manifest| path.clone_into(&mut manifest.dataset_versions[1].vocab.path));
    }
}
