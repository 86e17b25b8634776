//! Trains a tokenizer on the training split of a corpus: the same bytes every time.
//!
//! # Why not the crate's trainers as they are
//!
//! `WordPieceTrainer` of `tokenizers` 0.23 numbers single characters in the order of a hash map, and these numbers
//! break ties between merges: three runs, three vocabularies. So the alphabet is counted here, sorted, and handed over
//! as leading special tokens, which are numbered in order; everything after it is then decided. The same goes for the
//! characters that `limit_alphabet` keeps, which are chosen here by count and code point.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use schemas::Document;
use serde::{Deserialize, Serialize};
use store::{Created, Store};
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::normalizers::BertNormalizer;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    AddedToken, Model as _, NormalizedString, Normalizer as _, OffsetReferential, OffsetType, PreTokenizedString,
    PreTokenizer as _, Trainer as _,
};

use crate::corpus::{Complaint, Corpus};
use crate::prepare::{Dirt, PrepareConfig};
use crate::tokenize::describe::{byte_level_json, render, word_piece_json};
use crate::{Error, Result};

/// Which tokenizer to train: the `[tokenizer]` section of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerConfig {
    /// The family.
    pub kind: Family,
    /// Number of ids, special tokens and alphabet included.
    pub vocab_size: u32,
    /// Whether text is lowercased and stripped of accents (WordPiece only).
    pub lowercase: bool,
    /// Pairs that occur less often are not merged.
    pub min_frequency: u64,
    /// Characters that get an id of their own, the most frequent ones (WordPiece only).
    pub limit_alphabet: usize,
}

impl Default for TokenizerConfig {
    /// BERT's English vocabulary in size and treatment (Devlin et al. 2019).
    fn default() -> Self {
        Self { kind: Family::Wordpiece, vocab_size: 30_522, lowercase: true, min_frequency: 2, limit_alphabet: 1000 }
    }
}

/// A family of tokenizers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// BERT: normalizer, pre-tokenizer, `##` for continued words.
    #[default]
    Wordpiece,
    /// GPT-2's byte-level pairs with RoBERTa's special tokens.
    ByteBpe,
}

impl Family {
    fn specials(self) -> [&'static str; 5] {
        match self {
            Self::Wordpiece => ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
            Self::ByteBpe => ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Wordpiece => "##",
            Self::ByteBpe => "",
        }
    }
}

/// Ids of a trained tokenizer, at most: some room is taken for each before any word is counted.
const IDS_MAX: u32 = 1 << 22;

/// Copies of a word that are in memory at a time.
const PORTION: usize = 1 << 13;

/// What was trained on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trained {
    /// Documents of the training split.
    pub documents: u64,
    /// Different words in them.
    pub words: u64,
    /// Ids of the tokenizer.
    pub vocab_size: u32,
    /// What was left out of the corpus, and why.
    pub left_out: Vec<String>,
}

/// Trains on the training split of `prepare.inputs` and writes `prepare.tokenizer`, a `tokenizer.json`. One that is there
/// and is another stays as it is, and is an error: folders may be made with it.
pub fn train(config: &TokenizerConfig, prepare: &PrepareConfig) -> Result<Trained> {
    let refuse = |message: String| Error::Tokenizer { path: prepare.tokenizer.clone(), message };
    let name = prepare.tokenizer.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if prepare.tokenizer.extension().is_none_or(|extension| extension != "json") {
        return Err(refuse("a trained tokenizer is a `.json` file; set `prepare.tokenizer` to one".into()));
    }
    if config.vocab_size > IDS_MAX {
        return Err(Error::Config(format!(
            "`tokenizer.vocab_size = {}`: a tokenizer is trained to {IDS_MAX} ids at most; 30,522 and 50,265 are usual",
            config.vocab_size
        )));
    }
    let Counted { documents, words: counts, left_out } = count_words(config, prepare)?;
    let leading = leading(config, &counts);
    if leading.len() >= config.vocab_size as usize {
        let (size, least) = (config.vocab_size, leading.len());
        return Err(refuse(format!(
            "`tokenizer.vocab_size = {size}` is too small: special tokens and alphabet take {least}"
        )));
    }
    let bpe = merge_pairs(config, &counts, leading).map_err(|error| refuse(error.to_string()))?;
    let json = describe(config, &bpe).map_err(&refuse)?;
    let bytes = render(&json, refuse)?;
    let folder = prepare.tokenizer.parent().filter(|parent| !parent.as_os_str().is_empty());
    let store = Store::folder(folder.unwrap_or(std::path::Path::new(".")))?;
    if matches!(store.create(name, &bytes)?, Created::Exists) && store.read(name)? != bytes {
        return Err(refuse(
            "another tokenizer is there already; move it away, or name another file in `prepare.tokenizer`".into(),
        ));
    }
    let vocab_size = u32::try_from(bpe.get_vocab_size()).expect("ids are 32-bit");
    Ok(Trained { documents, words: counts.len() as u64, vocab_size, left_out })
}

/// The words of a corpus.
struct Counted {
    documents: u64,
    words: BTreeMap<String, u64>,
    left_out: Vec<String>,
}

/// How often each word occurs in the training split, after normalization.
fn count_words(config: &TokenizerConfig, prepare: &PrepareConfig) -> Result<Counted> {
    tokenizers::utils::parallelism::set_parallelism(false);
    let corpus = Corpus::open(&prepare.corpus())?;
    let parts = corpus.parts()?;
    let mut counts = BTreeMap::new();
    let (mut documents, dirt) = (0, Dirt::default());
    for part in &parts {
        for found in corpus.read(part)? {
            let found = found?;
            let complaint = |of: &Complaint| (of.reason.to_string(), corpus.words(part, *of));
            dirt.add(1, found.complaints.iter().map(complaint).collect());
            let Some(document) = found.document else { continue };
            if Document::is_valid(Document::hash(&document.id), prepare.valid_fraction) {
                continue;
            }
            documents += 1;
            // A line at a time: the crate keeps some 40 bytes per byte of text while it splits.
            for line in document.text.split_inclusive('\n') {
                for word in split(config, line)? {
                    *counts.entry(word).or_insert(0) += 1;
                }
            }
        }
    }
    let said = dirt.judge_all(prepare.bad_lines_max)?;
    if documents == 0 {
        let inputs = prepare.inputs.join("`, `");
        let why = if prepare.valid_fraction > 0.0 {
            "it is empty, or all of it is in the validation split; lower `prepare.valid_fraction`, or check \
             `prepare.inputs` and `prepare.format`"
        } else {
            "it is empty; check `prepare.inputs` and `prepare.format`"
        };
        return Err(Error::Poison(format!("`{inputs}`: no document to learn from: {why}")));
    }
    let left_out = corpus.passed_over().told().into_iter().chain(said).collect();
    Ok(Counted { documents, words: counts, left_out })
}

/// The words of a text, as the trained tokenizer will see them.
fn split(config: &TokenizerConfig, text: &str) -> Result<Vec<String>> {
    let failed = |error: tokenizers::Error| Error::Poison(format!("the corpus cannot be split into words: {error}"));
    let mut normalized = NormalizedString::from(text);
    if config.kind == Family::Wordpiece {
        BertNormalizer::new(true, true, None, config.lowercase).normalize(&mut normalized).map_err(failed)?;
    }
    let mut words = PreTokenizedString::from(normalized);
    match config.kind {
        Family::Wordpiece => BertPreTokenizer.pre_tokenize(&mut words),
        Family::ByteBpe => ByteLevel::new(false, true, true).pre_tokenize(&mut words),
    }
    .map_err(failed)?;
    let splits = words.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
    Ok(splits.into_iter().map(|(word, ..)| word.to_owned()).collect())
}

/// Special tokens, then the alphabet in order of code points, then its continued forms: the ids that must not depend
/// on a hash map.
fn leading(config: &TokenizerConfig, counts: &BTreeMap<String, u64>) -> Vec<String> {
    let alphabet = match config.kind {
        Family::Wordpiece => alphabet(counts, config.limit_alphabet),
        Family::ByteBpe => ByteLevel::alphabet().into_iter().collect(),
    };
    let mut leading: Vec<String> = config.kind.specials().map(str::to_owned).to_vec();
    leading.extend(alphabet.iter().map(char::to_string));
    if config.kind == Family::Wordpiece {
        let continued: BTreeSet<char> = counts.keys().flat_map(|word| word.chars().skip(1)).collect();
        leading.extend(alphabet.intersection(&continued).map(|character| format!("##{character}")));
    }
    leading
}

/// The `limit` most frequent characters; of equally frequent ones, the lower code points.
fn alphabet(counts: &BTreeMap<String, u64>, limit: usize) -> BTreeSet<char> {
    let mut characters = BTreeMap::<char, u64>::new();
    for (word, count) in counts {
        for character in word.chars() {
            *characters.entry(character).or_default() += count;
        }
    }
    let mut ranked: Vec<(u64, char)> = characters.into_iter().map(|(character, count)| (count, character)).collect();
    ranked.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    ranked.into_iter().take(limit).map(|(_, character)| character).collect()
}

/// Byte-pair merges (Sennrich et al. 2016), by the crate.
fn merge_pairs(
    config: &TokenizerConfig,
    counts: &BTreeMap<String, u64>,
    leading: Vec<String>,
) -> tokenizers::Result<BPE> {
    let mut builder = BpeTrainer::builder()
        .vocab_size(config.vocab_size as usize)
        .min_frequency(config.min_frequency)
        .show_progress(false)
        // The alphabet is among the leading tokens; the crate is to choose no character by itself.
        .limit_alphabet(0)
        .special_tokens(leading.into_iter().map(|token| AddedToken::from(token, true)).collect());
    if !config.kind.prefix().is_empty() {
        builder = builder.continuing_subword_prefix(config.kind.prefix().to_owned());
    }
    let mut trainer = builder.build();
    // The crate counts words itself, so each is handed over as often as it occurs, some thousands at a time.
    let portions = counts.iter().flat_map(|(word, &count)| {
        let whole = std::iter::repeat_n(PORTION, usize::try_from(count / PORTION as u64).expect("fits"));
        let rest = usize::try_from(count % PORTION as u64).expect("less than a portion");
        whole.chain([rest]).map(move |times| format!("{times} {word}"))
    });
    trainer.feed(portions, |portion| {
        let (times, word) = portion.split_once(' ').expect("written above");
        Ok(vec![word.to_owned(); times.parse()?])
    })?;
    let mut bpe = BPE::default();
    trainer.train(&mut bpe)?;
    Ok(bpe)
}

/// The trained model as a `tokenizer.json`; only the named specials are added tokens in it.
fn describe(config: &TokenizerConfig, bpe: &BPE) -> Result<serde_json::Value, String> {
    let vocab: BTreeMap<String, u64> = bpe.get_vocab().into_iter().map(|(token, id)| (token, u64::from(id))).collect();
    match config.kind {
        Family::Wordpiece => Ok(word_piece_json(&vocab, config.lowercase)),
        Family::ByteBpe => {
            let model = serde_json::to_value(bpe).map_err(|error| error.to_string())?;
            let merges = model["merges"].as_array().ok_or("the trained model lists no merges")?;
            Ok(byte_level_json(&vocab, merges))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn trained(config: &TokenizerConfig) -> (Trained, Vec<u8>, crate::tokenize::HfTokenizer) {
        let home = tempfile::tempdir().expect("a temporary folder");
        let prepare = corpus(home.path());
        let trained = train(config, &prepare).expect("a tokenizer");
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
        let (prepare, config) = (corpus(home.path()), TokenizerConfig { vocab_size: 55, ..TokenizerConfig::default() });
        let read = || std::fs::read(&prepare.tokenizer).expect("written");
        train(&config, &prepare).expect("a tokenizer");
        let first = read();
        train(&config, &prepare).expect("the same again");
        let error = train(&TokenizerConfig { vocab_size: 50, ..config }, &prepare).expect_err("another").to_string();
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
        let counts = BTreeMap::from([("ab".to_owned(), 3), ("cd".to_owned(), 3), ("b".to_owned(), 1)]);
        assert_eq!(alphabet(&counts, 3), BTreeSet::from(['a', 'b', 'c']));
    }

    #[test]
    fn a_vocabulary_smaller_than_its_alphabet_is_refused() {
        let prepare = PrepareConfig { tokenizer: "x.txt".into(), ..PrepareConfig::default() };
        let error = train(&TokenizerConfig::default(), &prepare).expect_err("not JSON").to_string();
        assert!(error.contains("prepare.tokenizer"), "{error}");
    }

    #[test]
    fn a_vocabulary_that_no_memory_holds_is_refused_before_anything_is_read() {
        let prepare = PrepareConfig { tokenizer: "x.json".into(), ..PrepareConfig::default() };
        let config = TokenizerConfig { vocab_size: u32::MAX, ..TokenizerConfig::default() };
        let Err(Error::Config(message)) = train(&config, &prepare) else { panic!("a mistake of the configuration") };
        assert!(message.contains("`tokenizer.vocab_size = 4294967295`"), "{message}");
    }
}
