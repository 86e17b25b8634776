//! Shards are read as they were written; a damaged one is named.

use std::path::Path;

use super::*;
use crate::shard::ContentHasher;
use crate::shard::reader::ShardReader;

#[test]
fn shards_read_back_as_written() {
    for vocab_size in [1000, 70_000] {
        let home = home(&Synthetic { lengths: 0..63, vocab_size, ..Synthetic::default() });
        let promise = ShardExpectation::from_manifest(&home.manifest);
        let now = home.manifest.now();
        for shard in now.train.shards.iter().chain(&now.valid.shards) {
            let reader = ShardReader::open(&home.store, shard, promise).expect("as written");
            let mut content = ContentHasher::default();
            let mut tokens = 0;
            for group in (0..shard.groups.len()).map(|group| reader.read(group).expect("good")) {
                for sample in (0..group.rows()).map(|row| group.sample(row)) {
                    content.row(&sample);
                    tokens += sample.input_ids.len() as u64;
                }
            }
            assert_eq!((content.finish(), tokens), (shard.content.clone(), shard.tokens));
        }
    }
}

#[test]
fn ids_are_stored_as_split_bytes() {
    use parquet::basic::Encoding;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let home = home(&Synthetic::default());
    let file = std::fs::File::open(home.folder.path().join(&home.manifest.now().train.shards[0].path)).expect("there");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    for group in reader.metadata().row_groups() {
        let ids = group.column(0);
        let encodings: Vec<Encoding> = ids.encodings().collect();
        assert!(encodings.contains(&Encoding::BYTE_STREAM_SPLIT), "{}: {encodings:?}", ids.column_path());
        assert!(ids.dictionary_page_offset().is_none());
    }
}

fn damage(home: &Home, change: impl Fn(&mut Vec<u8>)) -> String {
    let path = home.folder.path().join(&home.manifest.now().train.shards[1].path);
    let good = std::fs::read(&path).expect("a shard");
    let mut bad = good.clone();
    change(&mut bad);
    overwrite(&path, &bad);
    let plan = home.plan(&data(2), Rows::Train);
    let failed = plan
        .stream(RowIndex(0), RankShard::ALONE)
        .take(60)
        .find_map(Result::err)
        .expect("the damage is noticed")
        .to_string();
    overwrite(&path, &good);
    failed
}

fn overwrite(path: &Path, bytes: &[u8]) {
    let folder = Store::folder(path.parent().expect("a folder")).expect("there");
    folder.put(path.file_name().and_then(|name| name.to_str()).expect("a name"), bytes).expect("written");
}

#[test]
fn a_damaged_shard_is_named() {
    let home = home(&Synthetic::default());
    let length =
        std::fs::metadata(home.folder.path().join(&home.manifest.now().train.shards[1].path)).expect("there").len();
    let length = usize::try_from(length).expect("small");
    for byte in [0, 4, 1000, length / 2, length - 100, length - 1] {
        let error = damage(&home, |bytes| bytes[byte] ^= 1);
        assert!(error.contains("train/part-00000-00-01.parquet"), "byte {byte}: {error}");
    }
    let in_data = damage(&home, |bytes| bytes[length / 3] ^= 0x55);
    assert!(in_data.contains(", row group ") && in_data.contains("BLAKE3"), "{in_data}");
    let cut = damage(&home, |bytes| bytes.truncate(length - 1));
    assert!(cut.contains("bytes long, the manifest says"), "{cut}");
}

#[test]
fn manifest_that_differs_from_the_shards_is_refused() {
    let mut home = home(&Synthetic::default());
    let mut check = |change: &dyn Fn(&mut Manifest), expected: &str| {
        let good = home.manifest.clone();
        change(&mut home.manifest);
        let plan = home.plan(&data(1), Rows::Train);
        let error = plan.batch(&plan.groups(), BatchIndex(0)).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
        home.manifest = good;
    };
    check(&|manifest| manifest.tokenizer.vocab_size = 500, "in a vocabulary of 500");
    check(&|manifest| manifest.tokenizer.vocab_size = 70_000, "its columns are");
    check(&|manifest| manifest.pack.content = 30, "tokens, the manifest allows 30");
    check(
        &|manifest| {
            manifest.dataset_versions[0].parts[0].train.iter_mut().for_each(|shard| shard.groups = vec![30, 30, 20]);
        },
        "row groups of",
    );
}

#[test]
fn large_vocabularies_are_stored_in_32_bits() {
    let home = home(&Synthetic { vocab_size: 70_000, ids: 69_000..70_000, ..Synthetic::default() });
    let plan = home.plan(&data(1), Rows::Train);
    let batch = plan.batch(&plan.groups(), BatchIndex(0)).expect("good");
    let labels = batch.column("masked", LABELS).expect("made");
    assert!(labels.values().iter().any(|&label| label >= 69_000));
}

#[test]
fn a_vocabulary_that_is_not_the_manifests_is_refused() {
    let home = home(&Synthetic::default());
    let path = home.folder.path().join("vocab/00000.parquet");
    let mut bytes = std::fs::read(&path).expect("there");
    bytes[100] ^= 1;
    overwrite(&path, &bytes);
    let error = read_vocab(&home.store, &home.manifest, home.manifest.newest()).expect_err("damaged").to_string();
    assert!(error.contains("vocab/00000.parquet"), "{error}");
    let error = find(&home.folder.path().join("nowhere")).expect_err("missing").to_string();
    assert!(error.contains("run `cloze prepare`"), "{error}");
}
