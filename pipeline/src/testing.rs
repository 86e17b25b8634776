//! What this crate's unit tests share.

use std::io::Write;
use std::path::Path;

use schemas::atomic::Folder;

/// Writes files, with their folders, below `home`; contents ending in `.gz` or `.zst` names are compressed.
pub(crate) fn write_all(home: &Path, files: &[(&str, impl AsRef<[u8]>)]) {
    let folder = Folder::create(home).expect("a writable folder");
    for (name, bytes) in files {
        folder.write(name, &compressed(name, bytes.as_ref())).expect("written");
    }
}

fn compressed(name: &str, bytes: &[u8]) -> Vec<u8> {
    match name.rsplit_once('.') {
        Some((_, "gz")) => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).expect("in memory");
            encoder.finish().expect("in memory")
        }
        Some((_, "zst")) => zstd::encode_all(bytes, 1).expect("in memory"),
        _ => bytes.to_vec(),
    }
}

/// The tokenizers that [`tokenizer`] knows.
pub(crate) const TOKENIZERS: [&str; 2] = ["wordpiece", "byte_bpe"];

/// A WordPiece vocabulary for tests.
pub(crate) const VOCAB: [&str; 28] = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "##s", "a", "##t", "e", "s", "##e",
    ".", ",", "'", "it", "1", "##2", "7", "中", "文", "i", "d", "#",
];

/// A small tokenizer of one of the two families.
pub(crate) fn tokenizer(name: &str) -> crate::tokenize::HfTokenizer {
    let home = tempfile::tempdir().expect("a temporary folder");
    let (vocab, merges) = byte_pairs();
    let files =
        [("wordpiece/vocab.txt", VOCAB.join("\n")), ("byte_bpe/vocab.json", vocab), ("byte_bpe/merges.txt", merges)];
    write_all(home.path(), &files);
    crate::tokenize::load(&home.path().join(name), (name == "wordpiece").then_some(true)).expect("a tokenizer")
}

/// All byte characters and a few merges, with RoBERTa's special tokens.
fn byte_pairs() -> (String, String) {
    let mut tokens: Vec<String> = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"].map(String::from).to_vec();
    let mut alphabet: Vec<char> = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet().into_iter().collect();
    alphabet.sort_unstable();
    tokens.extend(alphabet.iter().map(char::to_string));
    let merges = ["Ġ t", "h e", "Ġt he", "Ġ Ġ", "Ċ Ċ", "Ġ a", "' s", "Ġ s"];
    tokens.extend(merges.iter().map(|pair| pair.replace(' ', "")));
    let ids: std::collections::BTreeMap<_, _> = tokens.into_iter().zip(0..).collect();
    (serde_json::to_string(&ids).expect("JSON"), format!("#version: 0.2\n{}\n", merges.join("\n")))
}
