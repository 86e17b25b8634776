//! Files of ours that somebody else may have written, or a disk have changed.

use crate::Manifest;

/// A manifest of one shard, as `prepare` writes it.
fn manifest() -> Vec<u8> {
    const CONTENT: &str = r#"{"version":1,"tokenizer":{"fingerprint":"f","kind":"wordpiece","vocab_size":100,
        "lowercase":true,"special":{"pad":0,"unk":1,"cls":2,"sep":3,"mask":4},"specials":[0,1,2,3,4]},"tokens_max":128,
        "pack":"sentences","train":{"shards":[{"path":"train/part-00000-00.parquet","rows":3,"tokens":300,"groups":[3],
        "bytes":1000,"blake3":"a","content":"b"}]},"valid":{"shards":[]},"corpus":{"documents":1,"text_bytes":2,
        "words":3,"tokens":4,"unknown":5,"rejected":{"nul":1},"packing":{"sentences":1,"cut_sentences":2,
        "cut_documents":3,"cut_tokens":4}},"files":{"vocab.parquet":"c"},"checksum":""}"#;
    serde_json::from_str::<Manifest>(CONTENT).expect("of version 1").to_json()
}

#[test]
fn a_manifest_is_read_as_written_or_refused() {
    fuzz::target!("manifest", vec![manifest()], |bytes: &[u8]| {
        if let Ok(manifest) = Manifest::from_json(bytes) {
            assert_eq!(manifest.to_json(), bytes);
        }
        // The checksum turns nearly everything away: what lies behind it is tried without.
        if let Ok(manifest) = serde_json::from_slice::<Manifest>(bytes) {
            let sealed = manifest.to_json();
            match Manifest::from_json(&sealed) {
                Ok(read) => assert_eq!(read.to_json(), sealed),
                Err(error) => assert_ne!(manifest.version, crate::manifest::VERSION, "{error}"),
            }
        }
    });
}
