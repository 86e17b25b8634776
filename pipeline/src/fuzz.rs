//! Fuzz targets for corpora, shards and tokenizers: valid, damaged and adversarial.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use schemas::Shard;
use store::{FaultConfig, Store};

use crate::corpus::tests::{Cut, parts, read};
use crate::corpus::{self, AnyFormat, BytesRead, Corpus, DocumentPlace};
use crate::sentences::Sentences;
use crate::shard::reader::{ShardExpectation, ShardReader};
use crate::shard::synthetic::Synthetic;
use crate::testing;
use crate::tokenize::{self, HfTokenizer, Tokenizer as _};

/// Maximum document size of a target. Some inputs decompress to a thousand times their length.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;

/// Address space that the Parquet decoder may reserve without touching it: 2^31 values of 8 bytes, if a page header
/// claims that many.
const DECODER_RESERVES: usize = 16 << 30;

fn cut(file: &Path, format: &str, part_bytes: u64) -> Cut {
    let mut cut = corpus::tests::config(file, AnyFormat::of_kind(format).expect("a known format"), Some(part_bytes));
    cut.config.reading.max_document_bytes = DOCUMENT_BYTES_MAX;
    cut
}

/// Checks for any file content that documents and errors do not depend on the size of the parts.
fn cuts_lose_nothing(suffix: &'static str, format: &'static str) -> impl Fn(&[u8]) {
    move |bytes| {
        let file = fuzz::on_disk(suffix, bytes);
        let Ok(whole) = read(&cut(file.path(), format, u64::MAX)) else { return };
        for part_bytes in [1, 64] {
            let parts = read(&cut(file.path(), format, part_bytes)).expect("as readable as the whole");
            assert_eq!(parts, whole, "in parts of {part_bytes} bytes");
        }
        segments_lose_nothing(&cut(file.path(), format, u64::MAX), &whole.0);
    }
}

/// Checks that a reader that starts after any document returns all later documents.
fn segments_lose_nothing(cut: &Cut, whole: &[String]) {
    let corpus = Corpus::open(&cut.config).expect("it was read before");
    let mut place = DocumentPlace::default();
    let mut texts = Vec::new();
    for part in parts(&corpus, cut.part_bytes).expect("it was read before") {
        loop {
            let mut documents = corpus.documents(&part, place, &BytesRead::default()).expect("it was read before");
            let Some(found) = documents.next() else { break };
            texts.extend(found.expect("it was read before").document.map(|document| document.text));
            place = documents.place();
        }
        place = DocumentPlace::default();
    }
    assert_eq!(texts, whole, "one document at a time");
}

#[test]
fn lines_are_the_same_in_any_parts() {
    fuzz::target!("text", cuts_lose_nothing(".txt", "text_lines"));
}

#[test]
fn paragraphs_are_the_same_in_any_parts() {
    fuzz::target!("text", cuts_lose_nothing(".txt", "text_paragraphs"));
}

#[test]
fn files_are_read_or_refused() {
    fuzz::target!("text", cuts_lose_nothing(".txt", "text"));
}

#[test]
fn jsonl_is_the_same_in_any_parts() {
    fuzz::target!("jsonl", cuts_lose_nothing(".jsonl", "jsonl"));
}

#[test]
fn json_arrays_are_read_or_refused_whole_and_one_by_one() {
    let pretty = b"[\n  {\"text\": \"a, ]\", \"x\": [1, {}]},\n  {\"text\": \"b\"}\n]\n".to_vec();
    let texts = b"\xef\xbb\xbf[\"a\", \"b\\\"\", {\"text\": 1}]".to_vec();
    fuzz::target!("json_array", vec![pretty, texts], cuts_lose_nothing(".json", "jsonl"));
}

#[test]
fn tables_are_the_same_in_any_parts() {
    let table = b"text,key\r\n\"a \"\"b\"\"\n,c\",1\r\nd,2\n\ne,3,\n\"f".to_vec();
    let tabs = b"key\ttext\n1\ta\r\n2\t\"b\n\n3\n".to_vec();
    fuzz::target!("table", vec![table, tabs], |bytes: &[u8]| {
        cuts_lose_nothing(".csv", "csv")(bytes);
        cuts_lose_nothing(".tsv", "tsv")(bytes);
    });
}

#[test]
fn archives_are_read_or_refused_whole_and_one_by_one() {
    let seed = AnyFormat::of_kind("warc").expect("a known format").example().dirty();
    fuzz::target!("warc", vec![seed], cuts_lose_nothing(".warc", "warc"));
}

#[test]
fn dumps_of_wikis_are_the_same_in_any_parts() {
    let seed = AnyFormat::of_kind("wikipedia_xml").expect("a known format").example().dirty();
    let markup = "a {{b|[[c]]}} [[File:d|e]] [[f|g]]\n== h ==\n{|\n|}\n&lt;ref>i&lt;/ref> '''j''' [http://k l]";
    let text = format!("<revision><text>{markup}</text></revision>");
    let page = format!("<page><title>t</title><ns>0</ns><id>1</id>{text}</page>\n").repeat(2);
    fuzz::target!("wikipedia_xml", vec![seed, page.into_bytes()], cuts_lose_nothing(".xml", "wikipedia_xml"));
}

#[test]
fn arrow_is_read_or_refused() {
    let example = AnyFormat::of_kind("arrow").expect("a known format").example();
    fuzz::target!("arrow", vec![example.dirty(), example.written(&["one", "two"])], |bytes: &[u8]| {
        let file = fuzz::on_disk(".arrow", bytes);
        for id_field in [None, Some("key".to_owned())] {
            let mut cut = cut(file.path(), "arrow", 1);
            cut.config.reading.id_field = id_field;
            let _ = read(&cut);
        }
    });
}

#[test]
fn compressed_text_is_read_or_refused() {
    let text = "a line\nanother one\n\nthe third\n".repeat(3);
    let gzip = testing::compressed("a.gz", text.as_bytes());
    let zstd = testing::compressed("a.zst", text.as_bytes());
    let both = [gzip.clone(), gzip.clone()].concat();
    let [bzip2, xz, lz4] = ["a.bz2", "a.xz", "a.lz4"].map(|name| testing::compressed(name, text.as_bytes()));
    fuzz::target!("compressed", vec![gzip, zstd, both, bzip2, xz, lz4], |bytes: &[u8]| {
        for suffix in [".txt.gz", ".txt.zst", ".txt.bz2", ".txt.xz", ".txt.lz4"] {
            let file = fuzz::on_disk(suffix, bytes);
            // Reads to the end, or to the first unreadable line.
            let _ = read(&cut(file.path(), "text_lines", 64));
        }
    });
}

#[test]
fn text_of_other_encodings_is_the_same_in_any_parts() {
    fuzz::target!("text", |bytes: &[u8]| {
        for (name, format) in [("utf-16le", "text_lines"), ("gbk", "text_paragraphs"), ("iso-2022-jp", "text")] {
            let file = fuzz::on_disk(".txt", bytes);
            let mut cut = cut(file.path(), format, 1);
            cut.config.reading.encoding = corpus::encoding_by_name(name);
            let Ok(whole) = read(&cut) else { continue };
            segments_lose_nothing(&cut, &whole.0);
        }
    });
}

fn parquet_file() -> Vec<u8> {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("one text"), None, Some("")]));
    let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_from_iter([("text", texts), ("key", keys)]).expect("of one length");
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("in memory");
    for _ in 0..2 {
        writer.write(&batch).expect("in memory");
        writer.flush().expect("in memory");
    }
    writer.close().expect("in memory");
    bytes
}

#[test]
fn parquet_is_read_or_refused() {
    fuzz::target!("parquet", vec![parquet_file()], |bytes: &[u8]| {
        fuzz::memory::grant(DECODER_RESERVES);
        let file = fuzz::on_disk(".parquet", bytes);
        for id_field in [None, Some("key".to_owned())] {
            let mut cut = cut(file.path(), "parquet", 1);
            cut.config.reading.id_field = id_field;
            let _ = read(&cut);
        }
    });
}

#[test]
fn shard_is_read_as_declared_or_refused() {
    let folder = Store::in_memory(FaultConfig::none());
    let few = Synthetic { train_rows: 5, valid_rows: 1, rows_per_group: 3, ..Synthetic::default() };
    let manifest = few.write(&folder).expect("room for it");
    let shard = manifest.now().train.shards[0].clone();
    let seed = folder.get(&shard.path).expect("just written");
    let promise = ShardExpectation::from_manifest(&manifest);
    fuzz::target!("shard", vec![seed], |bytes: &[u8]| {
        let store = Store::in_memory(FaultConfig::none());
        store.put(&shard.path, bytes).expect("memory takes all");
        // The manifest is sealed around the changed file, so only the content of the file can be wrong.
        let sealed =
            Shard { bytes: bytes.len() as u64, blake3: blake3::hash(bytes).to_hex().to_string(), ..shard.clone() };
        fuzz::memory::grant(DECODER_RESERVES);
        let Ok(reader) = ShardReader::open(&store, &sealed, promise) else { return };
        for (group, &rows) in sealed.groups.iter().enumerate() {
            let Ok(group) = reader.read(group) else { continue };
            assert_eq!(group.rows(), rows as usize);
            for row in 0..group.rows() {
                let sample = group.sample(row);
                assert!(sample.input_ids.len() <= promise.content_max as usize);
                assert!((0..sample.input_ids.len()).all(|at| sample.input_ids.get(at) < promise.vocab_size));
            }
        }
    });
}

#[test]
fn sentences_begin_between_characters_in_order() {
    fuzz::target!("text", |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let mut found = Sentences::default();
        let starts = found.starts(&text);
        assert!(starts.is_sorted_by(|a, b| a < b), "{starts:?}");
        assert!(starts.iter().all(|&start| start > 0 && text.is_char_boundary(start)), "{starts:?}");
    });
}

/// Whether the text contains a number with more than five digits, which may be a token id. Memory grows with the largest
/// id by about 80 bytes each, even if there are few tokens.
fn has_huge_number(bytes: &[u8]) -> bool {
    bytes.split(|byte| !byte.is_ascii_digit()).any(|digits| digits.len() > 5)
}

/// Checks that an accepted tokenizer returns ids of its vocabulary for any text, and is unchanged after writing and
/// reading it.
fn is_usable(file: &Path, lowercase: Option<bool>) {
    let Ok(tokenizer) = tokenize::load(file, lowercase) else { return };
    let facts = tokenizer.facts();
    assert_eq!(facts.tokens.len(), facts.manifest.vocab_size as usize);
    for text in ["", "the cat sat on the mat.", "[MASK] <mask> x\u{301} 中文\n\n\t it's\u{0}", "é İß 1,000.5 '' ##s"]
    {
        if let Ok(ids) = tokenizer.ids(text) {
            assert!(ids.iter().all(|&id| id < facts.manifest.vocab_size), "{ids:?} of {text:?}");
        }
    }
    let copy = fuzz::on_disk(".json", &facts.json);
    let again = tokenize::load(copy.path(), None).expect("it was read before");
    assert_eq!(again.facts().manifest, facts.manifest);
}

/// Small tokenizers of both families, with and without added tokens, case-sensitive and lowercasing.
static FAST_ONES: LazyLock<Vec<HfTokenizer>> = LazyLock::new(|| {
    let with = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut json = serde_json::from_slice(&testing::tokenizer(name).facts().json).expect("JSON");
        change(&mut json);
        tokenize::of_json(json.to_string().as_bytes(), "tokenizer.json").expect("the crate reads it")
    };
    let added = |json: &mut serde_json::Value| {
        for (id, content) in (900..).zip(["[A]", "<t>", "##s", "(中"]) {
            let token = serde_json::json!({"id": id, "content": content, "single_word": false, "lstrip": false,
                                           "rstrip": false, "normalized": false, "special": true});
            json["added_tokens"].as_array_mut().expect("a list").push(token);
        }
    };
    let cased = |json: &mut serde_json::Value| json["normalizer"]["lowercase"] = false.into();
    let raw = |json: &mut serde_json::Value| json["normalizer"]["clean_text"] = false.into();
    let both = testing::TOKENIZERS.map(testing::tokenizer);
    let more = [with("wordpiece", &added), with("wordpiece", &cased), with("wordpiece", &raw)];
    let all: Vec<HfTokenizer> = both.into_iter().chain(more).collect();
    // Tables belong to a tokenizer, not to a text: build them before allocations per text are counted.
    for tokenizer in &all {
        tokenizer.compare("the cat").expect("the same ids");
    }
    all
});

#[test]
fn ids_are_those_of_the_crate() {
    LazyLock::force(&FAST_ONES);
    let words =
        "The cat's [MASK] sat [A]] on\r\n a ma\u{301}t…  <mask> 中文，\u{ad}É\0 K\u{302e}\u{301} ##s (中 x\u{2013}y";
    fuzz::target!(
        "tokenized",
        vec![words.into(), words.repeat(60).into(), "a".repeat(300).into()],
        |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            for tokenizer in &*FAST_ONES {
                tokenizer.compare(&text).expect("the same ids");
            }
        }
    );
}

#[test]
fn a_tokenizer_is_usable_or_refused() {
    let seeds = testing::TOKENIZERS.map(|name| testing::tokenizer(name).facts().json.clone());
    fuzz::target!("tokenizer", seeds.to_vec(), |bytes: &[u8]| {
        if !has_huge_number(bytes) {
            is_usable(fuzz::on_disk(".json", bytes).path(), None);
        }
    });
}

#[test]
fn a_vocabulary_is_usable_or_refused() {
    fuzz::target!("vocab", vec![testing::VOCAB.join("\n").into_bytes()], |bytes: &[u8]| {
        is_usable(fuzz::on_disk(".txt", bytes).path(), Some(true));
    });
}
