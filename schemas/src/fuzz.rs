//! Fuzz targets: manifests from other programs or damaged disks.

use crate::{DatasetVersion, Manifest};

/// Returns a manifest of two dataset versions, as `prepare` writes it.
fn manifest() -> Vec<u8> {
    const CONTENT: &str = r#"{"tokenizer":{"fingerprint":"f","kind":"wordpiece","vocab_size":100,"lowercase":true,
        "special":{"pad":0,"unk":1,"cls":2,"sep":3,"mask":4},"specials":[0,1,2,3,4]},"max_seq_len":128,"pack":{"name":"sentences",
        "content":126,"keeps_sentences":true,"cuts":false},"files":{"tokenizer.json":"c"},"dataset_versions":[{"parts":[{"id":0,"train":[{"path":"train/part-00000-00-00.parquet",
        "part":0,"first_row":0,"rows":3,"tokens":300,"groups":[3],"bytes":1000,"blake3":"a","content":"b"}],"valid":[]}],
        "vocab":{"path":"vocab/00000.parquet","blake3":"d"},"corpus":{"documents":1,"text_bytes":2,"words":3,"tokens":4,
        "unknown":5,"rejected":{"nul":1},"packing":{"sentences":1,"cut_sentences":2,"cut_documents":3,"cut_tokens":4}},
        "content":"e"},{"dropped":[0],"parts":[],"vocab":{"path":"vocab/00001.parquet","blake3":"f"},"corpus":{
        "documents":0,"text_bytes":0,"words":0,"tokens":0,"unknown":0,"rejected":{}},"content":"g"}]}"#;
    serde_json::from_str::<Manifest>(CONTENT).expect("of this version").to_json()
}

/// Calls the accessors that a reader uses first.
fn is_usable(manifest: &Manifest) {
    for dataset_version in 0..=manifest.newest().0 {
        let _ = manifest.dropped_since(DatasetVersion(dataset_version));
        let effective = manifest.effective(DatasetVersion(dataset_version));
        assert!(
            effective
                .train
                .shards
                .iter()
                .all(|shard| shard.groups.iter().map(|&rows| u64::from(rows)).sum::<u64>() == shard.rows)
        );
    }
}

#[test]
fn a_manifest_is_read_as_written_or_refused() {
    fuzz::target!("manifest", vec![manifest()], |bytes: &[u8]| {
        if let Ok(manifest) = Manifest::from_json(bytes) {
            assert_eq!(manifest.to_json(), bytes);
        }
        if let Some(sealed) = fuzz::unsealed::<Manifest>(bytes).map(|manifest| manifest.to_json())
            && let Ok(manifest) = Manifest::from_json(&sealed)
        {
            assert_eq!(manifest.to_json(), sealed);
            is_usable(&manifest);
        }
    });
}
