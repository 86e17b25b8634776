//! Determinism of training: the result depends on the corpus alone.

use schemas::Document;

use super::*;
use crate::corpus::Corpus;
use crate::testing::write_all;
use crate::tokenize::{Tokenizer as _, load};

fn corpus(home: &std::path::Path) -> PrepareConfig {
    let lines = ["the cat sat on the mat", "the cats sat there", "a mat, a Café, a cat's mat"];
    let text: Vec<String> = (0..60).map(|line| format!("{} {line}", lines[line % 3])).collect();
    write_all(home, &[("a.txt", text.join("\n"))]);
    PrepareConfig {
        inputs: vec![home.join("a.txt").to_string_lossy().into_owned()],
        tokenizer: home.join("tokenizer.json"),
        valid_fraction: 0.0,
        ..PrepareConfig::default()
    }
}

fn trained(config: &TokenizerConfig) -> (TrainedTokenizer, Vec<u8>, crate::tokenize::HfTokenizer) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let prepare = corpus(home.path());
    let trained = train(config, &prepare, &mut |_| {}).expect("a tokenizer");
    let bytes = std::fs::read(&prepare.tokenizer).expect("written");
    (trained, bytes, load(&prepare.tokenizer, None).expect("it loads"))
}

#[test]
fn training_gives_the_same_bytes_every_time() {
    for kind in [Family::Wordpiece, Family::ByteBpe] {
        let config = TokenizerConfig { kind, vocab_size: 320, ..TokenizerConfig::default() };
        let (first, bytes, tokenizer) = trained(&config);
        assert!((0..5).all(|_| trained(&config).1 == bytes), "{kind:?}");
        assert_eq!(first.vocab_size, tokenizer.facts().manifest.vocab_size);
    }
}

#[test]
fn a_tokenizer_that_is_another_stays_as_it_is() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let prepare = corpus(home.path());
    let config = TokenizerConfig { vocab_size: 55, ..TokenizerConfig::default() };
    let read = || std::fs::read(&prepare.tokenizer).expect("written");
    train(&config, &prepare, &mut |_| {}).expect("a tokenizer");
    let first = read();
    train(&config, &prepare, &mut |_| {}).expect("the same again");
    let error =
        train(&TokenizerConfig { vocab_size: 50, ..config }, &prepare, &mut |_| {}).expect_err("another").to_string();
    assert!(error.contains("tokenizer.json") && error.contains("move it away"), "{error}");
    assert!(read() == first);
}

#[test]
fn words_that_occur_often_become_one_token() {
    let (_, _, tokenizer) = trained(&TokenizerConfig { vocab_size: 200, ..TokenizerConfig::default() });
    let facts = tokenizer.facts();
    let id = |token: &str| facts.tokens.iter().position(|known| known == token);
    assert_eq!([0, 1, 2, 3, 4].map(|id: usize| facts.tokens[id].as_str()), Family::Wordpiece.specials());
    assert!(id("cat").is_some() && id("mat").is_some() && id("##t").is_some());
    assert_eq!(facts.manifest.specials, [0, 1, 2, 3, 4], "the alphabet is not special");
    let ids = tokenizer.ids("The CAFÉ").expect("encodable");
    assert!(!ids.contains(&1), "lowercased and stripped of accents, it has no unknown token: {ids:?}");
}

#[test]
fn a_limited_alphabet_keeps_the_most_frequent_and_breaks_ties_by_code_point() {
    let mut words = WordCounts::default();
    for (word, count) in [("ab", 3), ("cd", 3), ("b", 1)] {
        words.add(word, count);
    }
    assert_eq!(Alphabet::most_frequent(&words, 3).kept, BTreeSet::from(['a', 'b', 'c']));
}

#[test]
fn a_vocabulary_smaller_than_its_alphabet_is_refused() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let prepare = corpus(home.path());
    let config = TokenizerConfig { vocab_size: 9, ..TokenizerConfig::default() };
    let error = train(&config, &prepare, &mut |_| {}).expect_err("there are more letters").to_string();
    assert!(error.contains("`tokenizer.vocab_size = 9` is too small"), "{error}");
}

#[test]
fn text_of_which_nothing_is_kept_is_refused() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let prepare = corpus(home.path());
    write_all(home.path(), &[("a.txt", "\u{200b}\u{200b}\n".repeat(9))]);
    let error = train(&TokenizerConfig::default(), &prepare, &mut |_| {}).expect_err("no word").to_string();
    assert!(error.contains("no word to learn from") && !prepare.tokenizer.exists(), "{error}");
}

/// Workers merge their tallies in the middle of a part.
#[test]
fn buffer_merges_change_no_byte() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let prepare = lines(home.path(), 50);
    for kind in [Family::Wordpiece, Family::ByteBpe] {
        let config = TokenizerConfig { kind, vocab_size: 900, ..TokenizerConfig::default() };
        let whole = with_workers(&config, &prepare, 1).expect("trained");
        for workers in [1, 2, 3, 16] {
            let tight = PrepareConfig { max_memory_bytes: 2 << 20, ..prepare.clone() };
            assert!(with_workers(&config, &tight, workers).expect("it fits") == whole, "{kind:?}, {workers} workers");
        }
    }
}

#[test]
fn a_tokenizer_is_a_json_file() {
    let prepare = PrepareConfig { tokenizer: "x.txt".into(), ..PrepareConfig::default() };
    let error = train(&TokenizerConfig::default(), &prepare, &mut |_| {}).expect_err("not JSON").to_string();
    assert!(error.contains("prepare.tokenizer"), "{error}");
}

#[test]
fn a_vocabulary_that_no_memory_holds_is_refused_before_anything_is_read() {
    let prepare = PrepareConfig { tokenizer: "x.json".into(), ..PrepareConfig::default() };
    let config = TokenizerConfig { vocab_size: u32::MAX, ..TokenizerConfig::default() };
    let Err(Error::Config(message)) = train(&config, &prepare, &mut |_| {}) else {
        panic!("a mistake of the configuration")
    };
    assert!(message.contains("`tokenizer.vocab_size = 4294967295`"), "{message}");
}

/// Writes a corpus of lines in several files; every `broken_every`-th line is not JSON.
fn lines(home: &std::path::Path, broken_every: usize) -> PrepareConfig {
    // Long lines, so that there are several parts.
    let text = |number: usize| format!("word{} Café{} — 中{number} ", number % 97, number % 7).repeat(50);
    let line = |number: usize| match number % broken_every {
        1 => format!("{{broken {number}"),
        _ => format!("{{\"id\": \"n{number}\", \"text\": \"{}\"}}", text(number)),
    };
    let file = |file: usize| (file * 400..(file + 1) * 400).map(line).collect::<Vec<_>>().join("\n");
    (0..9).for_each(|number| write_all(home, &[(&*format!("{number}.jsonl"), file(number))]));
    PrepareConfig {
        inputs: vec![home.to_string_lossy().into_owned()],
        format: crate::corpus::AnyFormat::of_kind("jsonl").expect("known"),
        id_field: Some("id".into()),
        tokenizer: home.join("tokenizer.json"),
        max_bad_lines: Some(1_000_000),
        ..PrepareConfig::default()
    }
}

fn parts(prepare: &PrepareConfig) -> usize {
    Corpus::open(&prepare.corpus()).and_then(|corpus| corpus.parts()).expect("a corpus").len()
}

/// Trains with `workers` workers.
fn with_workers(
    config: &TokenizerConfig,
    prepare: &PrepareConfig,
    workers: usize,
) -> Result<(TrainedTokenizer, Vec<u8>)> {
    let prepare = PrepareConfig { workers: Some(workers), ..prepare.clone() };
    let trained = train(config, &prepare, &mut |_| {})?;
    let bytes = std::fs::read(&prepare.tokenizer).expect("written");
    std::fs::remove_file(&prepare.tokenizer).expect("removed");
    Ok((trained, bytes))
}

#[test]
fn workers_change_nothing() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let prepare = lines(home.path(), 50);
    assert!(parts(&prepare) > 3);
    for kind in [Family::Wordpiece, Family::ByteBpe] {
        let config = TokenizerConfig { kind, vocab_size: 400, sample: 0.7, ..TokenizerConfig::default() };
        let one = with_workers(&config, &prepare, 1).expect("trained");
        let said = &one.0.left_out[0];
        assert!(said.contains("broken_json 72; first") && said.matches(".jsonl:").count() == 5, "{said}");
        for workers in [2, 3, 16] {
            assert!(with_workers(&config, &prepare, workers).expect("trained") == one, "{workers} workers");
        }
    }
}

#[test]
fn sample_depends_on_documents_alone() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let prepare = PrepareConfig { valid_fraction: 0.3, ..lines(home.path(), 4000) };
    let count = |sample| {
        let config = TokenizerConfig { vocab_size: 200, limit_alphabet: 60, sample, ..TokenizerConfig::default() };
        with_workers(&config, &prepare, 2).expect("trained").0.documents
    };
    let is_trained = |number: &usize| *number != 1 && !Document::is_valid(Document::hash(&format!("n{number}")), 0.3);
    for sample in [1.0, 0.5, 0.1] {
        let is_sampled = |number: &usize| Document::is_sampled(&format!("n{number}"), sample);
        assert_eq!(count(sample), (0..3600).filter(is_trained).filter(is_sampled).count() as u64, "{sample}");
    }
}

#[test]
fn characters_above_the_limit_of_the_alphabet_are_counted_aloud() {
    let home = tempfile::tempdir().expect("a temporary folder");
    write_all(home.path(), &[("a.txt", "aaa aab abc abd xyz\n".repeat(40))]);
    let inputs = vec![home.path().join("a.txt").display().to_string()];
    let trained = |limit_alphabet, kind| {
        let tokenizer = home.path().join(format!("{limit_alphabet}-{kind:?}.json"));
        let prepare =
            PrepareConfig { inputs: inputs.clone(), tokenizer, valid_fraction: 0.0, ..PrepareConfig::default() };
        let config = TokenizerConfig { kind, vocab_size: 300, limit_alphabet, ..TokenizerConfig::default() };
        train(&config, &prepare, &mut |_| {}).expect("trained").left_out
    };
    // 15 characters a line: 7 a, 3 b, and one each of c, d, x, y and z.
    let warnings = trained(2, Family::Wordpiece).join("\n");
    assert!(warnings.contains("5 rare characters (33.333 % of the text)"), "{warnings}");
    assert!(warnings.contains("`tokenizer.limit_alphabet = 7` keeps all (now 2)"), "{warnings}");
    assert_eq!(trained(7, Family::Wordpiece), Vec::<String>::new());
    assert_eq!(trained(2, Family::ByteBpe), Vec::<String>::new());
}

#[test]
fn invalid_shares_and_shares_without_documents_are_refused() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let prepare = lines(home.path(), 4000);
    for sample in [0.0, -0.5, 1.5, f64::NAN, f64::INFINITY] {
        let config = TokenizerConfig { sample, ..TokenizerConfig::default() };
        let Err(Error::Config(message)) = train(&config, &prepare, &mut |_| {}) else { panic!("{sample} is no share") };
        assert!(message.contains("`tokenizer.sample = ") && message.contains("at most 1"), "{message}");
    }
    let config = TokenizerConfig { sample: 1e-9, ..TokenizerConfig::default() };
    let error = train(&config, &prepare, &mut |_| {}).expect_err("the sample is empty").to_string();
    assert!(error.contains("raise `tokenizer.sample`"), "{error}");
}

#[test]
fn first_unreadable_part_is_reported() {
    let home = tempfile::tempdir().expect("a temporary folder");
    // Incompressible text: each file is a part.
    let text: String = (0..30_000).map(|number: u32| Document::digest(&number.to_string()) + "\n").collect();
    let store = Store::folder(home.path()).expect("there");
    let packed = zstd::encode_all(text.as_bytes(), 1).expect("packed");
    for number in 0..8 {
        // All but the first are truncated, the later ones more.
        let bytes = &packed[..packed.len() - number * packed.len() / 12];
        store.put(&format!("{number}.txt.zst"), bytes).expect("written");
    }
    let prepare = PrepareConfig {
        inputs: vec![home.path().to_string_lossy().into_owned()],
        format: crate::corpus::AnyFormat::of_kind("text_lines").expect("known"),
        tokenizer: home.path().join("tokenizer.json"),
        ..PrepareConfig::default()
    };
    assert!(parts(&prepare) > 3);
    let error =
        |workers| with_workers(&TokenizerConfig::default(), &prepare, workers).expect_err("cut short").to_string();
    let first = error(1);
    assert!(first.contains(".txt.zst"), "{first}");
    for _ in 0..5 {
        for workers in [2, 4, 8] {
            assert_eq!(error(workers), first, "{workers} workers");
        }
    }
}

/// The memory error depends on the words alone: to the byte, for any number of workers.
#[test]
fn words_that_no_memory_holds_are_refused_for_any_number_of_workers() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let prepare = PrepareConfig { valid_fraction: 0.0, ..lines(home.path(), 4000) };
    let config = TokenizerConfig { vocab_size: 400, ..TokenizerConfig::default() };
    // Output of `lines`: 97 words, 7 words, a dash, an ideograph and the numbers after it.
    let mut raw = WordCounts::default();
    for number in (0..3600).filter(|number| *number != 1) {
        for word in
            [format!("word{}", number % 97), format!("Café{}", number % 7), "—".into(), "中".into(), number.to_string()]
        {
            raw.add(&word, 1);
        }
    }
    for workers in [1, 3] {
        let fits = PrepareConfig { max_memory_bytes: raw.held().div_ceil(3) * 8, ..prepare.clone() };
        with_workers(&config, &fits, workers).expect("it fits");
        let tight = PrepareConfig { max_memory_bytes: raw.held().div_ceil(3) * 8 - 8, ..prepare.clone() };
        let Err(Error::Config(message)) = with_workers(&config, &tight, workers) else { panic!("more than there is") };
        assert!(
            message.contains("`prepare.max_memory_bytes = ") && message.contains("`tokenizer.sample`"),
            "{message}"
        );
    }
}

/// Sources of a mixture have several formats, and one tokenizer.
#[test]
fn corpora_of_several_formats_are_counted_together() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let lines = |range: std::ops::Range<u32>| {
        range.map(|line| format!("the cat {line} sat on the mat\n")).collect::<Vec<_>>().concat()
    };
    let object = |line: &str| format!("{{\"text\": \"{line}\"}}\n");
    let rest = lines(40..90).lines().map(object).collect::<Vec<_>>().concat();
    write_all(home.path(), &[("a.txt", lines(0..40)), ("b.jsonl", rest), ("all.txt", lines(0..90))]);
    let corpus = |name: &str, kind: &str| PrepareConfig {
        inputs: vec![home.path().join(name).display().to_string()],
        format: crate::corpus::AnyFormat::of_kind(kind).expect("known"),
        tokenizer: home.path().join("tokenizer.json"),
        valid_fraction: 0.0,
        ..PrepareConfig::default()
    };
    let config = TokenizerConfig { vocab_size: 80, ..TokenizerConfig::default() };
    let whole = train(&config, &corpus("all.txt", "text_lines"), &mut |_| {}).expect("trained");
    let parts = [corpus("a.txt", "text_lines"), corpus("b.jsonl", "jsonl")];
    // The same file: another tokenizer there would be an error.
    let together = train_on(&config, &parts[0], &parts, &mut |_| {}).expect("the same tokenizer");
    assert_eq!(together, whole);
}
