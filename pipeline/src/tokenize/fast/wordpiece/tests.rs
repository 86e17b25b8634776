//! Equality of the ids with the crate's for any text.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::fast_tokenizer::Scratch;
use super::super::fast_tokenizer_for;
use super::*;
use crate::testing;
use crate::tokenize::describe::word_piece_json;
use crate::tokenize::runs::end_runs;

/// Returns words that reveal the normalization of a text: letters, lower and upper case, kept marks, ideographs,
/// pieces.
fn vocabulary() -> BTreeMap<String, u64> {
    let words = testing::VOCAB.map(String::from).into_iter();
    let letters = "abcdexyzABCÉéßσΣς0123中文龍中ΐi\u{307}\u{301}\u{20dd}\u{302e}\u{93e}\u{9be}ก\u{e31}한\u{1112}\u{1161}\u{11ab}\u{b}\u{0}\u{7f}\u{ad}\u{fffd}\u{1d165}\u{16ff0}";
    let letters = letters.chars().flat_map(|letter| [letter.to_string(), format!("##{letter}")]);
    let marks = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\u{2010}\u{2013}\u{2019}\u{2026}\u{2028}。，、".chars();
    let more = ["covid", "##ab", "##bc", "abc", "##中", "co", "##vid", "a", "[A]", "<t>"].map(String::from);
    let all = words.chain(letters).chain(marks.map(String::from)).chain(more);
    let mut ids = BTreeMap::new();
    for word in all {
        let next = ids.len() as u64;
        ids.entry(word).or_insert(next);
    }
    ids
}

/// Returns a tokenizer as JSON, for one of 24 normalizers.
fn described(number: usize) -> Value {
    let mut json = word_piece_json(&vocabulary(), true);
    let strip = [Value::Null, json!(true), json!(false)][number / 8 % 3].clone();
    json["normalizer"] = json!({"type": "BertNormalizer", "clean_text": number & 1 == 0,
        "handle_chinese_chars": number & 2 == 0, "strip_accents": strip, "lowercase": number & 4 == 0});
    json["model"]["max_input_chars_per_word"] = json!([100, 5, 20][number % 3]);
    let added = json["added_tokens"].as_array_mut().expect("a list");
    for (id, (content, strips)) in (900..).zip([
        ("[A]", false),
        ("[A", false),
        ("<t>", true),
        ("##x", false),
        ("*É", false),
        ("(中", true),
        ("...", false),
    ]) {
        added.push(json!({"id": id, "content": content, "single_word": false, "lstrip": strips, "rstrip": strips,
                          "normalized": false, "special": id % 2 == 0}));
    }
    json
}

fn model_of(json: &Value) -> tokenizers::Tokenizer {
    tokenizers::Tokenizer::from_bytes(json.to_string()).expect("the crate reads it")
}

struct Case {
    model: tokenizers::Tokenizer,
    tokenizer: WordPiece,
    /// Fast tokenizers of each level, with many slots and with few.
    scratches: Mutex<Vec<(WordPiece, Scratch)>>,
}

impl Case {
    fn of(json: &Value) -> Self {
        let model = model_of(json);
        let tokenizer = WordPiece::new(&model, json).expect("of BERT's shape");
        let few = CacheSlots { short_log2: 3, long_log2: 1 };
        let some = CacheSlots { short_log2: 8, long_log2: 6 };
        let levels = Kernels::available().into_iter();
        let variants =
            levels.flat_map(|kernels| [few, some].map(|places| WordPiece { kernels, places, ..tokenizer.clone() }));
        let scratches = Mutex::new(variants.map(|tokenizer| (tokenizer.clone(), Scratch::new(&tokenizer))).collect());
        Self { model, tokenizer, scratches }
    }

    /// Ignores poisoning by a failed test: the shrunken cases do not depend on the state.
    fn scratches(&self) -> MutexGuard<'_, Vec<(WordPiece, Scratch)>> {
        self.scratches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn crate_ids(&self, text: &str) -> Vec<u32> {
        self.model.encode_fast(text, false).expect("encodable").get_ids().to_vec()
    }

    /// Compares the ids of every level with the crate's.
    fn check(&self, text: &str) {
        let expected = self.crate_ids(text);
        let fallback = &mut |text: &str, ids: &mut Vec<u32>| {
            ids.extend(self.crate_ids(text));
            Ok(())
        };
        for (tokenizer, scratch) in self.scratches().iter_mut() {
            let mut found = Vec::new();
            let take = &mut |ids: &[u32]| {
                found.extend_from_slice(ids);
                Ok(())
            };
            scratch.encode(tokenizer, text, fallback, take).expect("encodable");
            assert!(found == expected, "{}: {text:?}: {found:?}, expected {expected:?}", tokenizer.name());
        }
    }

    /// Compares several texts encoded together, for every level.
    fn check_together(&self, texts: &[String]) {
        let mut joined = String::new();
        let mut ends = Vec::new();
        for text in texts {
            joined.push_str(text);
            ends.push(joined.len());
            joined.push(Texts::BETWEEN);
        }
        let together = Texts::new(&joined, &ends);
        assert!(together.iter().eq(texts), "{texts:?}");
        let expected: Vec<Vec<u32>> = texts.iter().map(|text| self.crate_ids(text)).collect();
        let fallback = &mut |text: &str, ids: &mut Vec<u32>| {
            ids.extend(self.crate_ids(text));
            Ok(())
        };
        for (tokenizer, scratch) in self.scratches().iter_mut() {
            let mut ids = Vec::new();
            let mut lengths = vec![0];
            scratch.encode_texts(together, &mut ids, &mut lengths, fallback).expect("encodable");
            let found: Vec<&[u32]> = lengths.windows(2).map(|pair| &ids[pair[0]..pair[1]]).collect();
            assert_eq!(found, expected, "{}: {texts:?}", tokenizer.name());
        }
    }

    fn tokens(&self, text: &str) -> Vec<(usize, u32)> {
        let encoding = self.model.encode(text, false).expect("encodable");
        let begins = encoding.get_offsets().iter().map(|&(begin, _)| begin);
        begins.zip(encoding.get_ids().iter().copied()).collect()
    }

    /// Returns the runs of a text, by the crate: of one chunk after another.
    fn runs(&self, text: &str, mut starts: &[usize]) -> Vec<Vec<u32>> {
        let mut runs = Vec::new();
        let mut ids = Vec::new();
        let mut at = 0;
        let keep = &mut |run: &[u32]| {
            runs.push(run.to_vec());
            Ok(())
        };
        while at < text.len() {
            end_runs(&mut starts, at, &mut ids, keep).expect("kept");
            let end = self.tokenizer.cut_behind(text, at + 1);
            for (begin, id) in self.tokens(&text[at..end]) {
                end_runs(&mut starts, at + begin, &mut ids, keep).expect("kept");
                ids.push(id);
            }
            at = end;
        }
        end_runs(&mut starts, text.len(), &mut ids, keep).expect("kept");
        keep(&ids).expect("kept");
        runs
    }

    /// Checks that the tokenizer's cut positions of a text are valid.
    fn check_cuts(&self, text: &str) {
        let whole = self.crate_ids(text);
        for at in (0..=text.len()).filter(|&at| self.tokenizer.is_cut(text, at)) {
            let both = [self.crate_ids(&text[..at]), self.crate_ids(&text[at..])].concat();
            assert_eq!(both, whole, "{text:?} cut at {at}");
        }
    }
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| (0..24).map(|number| Case::of(&described(number))).collect());

/// Special cases of normalizers, added tokens and windows.
const PIECES: &str = " | |\n|\t|\r\n|the|cat|abc|covid|aBc|x|12|A|É|é|e\u{301}|\u{301}|\u{327}\u{301}|\
     \u{301}\u{327}|ß|İ|Σ|ς|ΐ|中|文|\u{f900}|龍|\u{2f800}|ก\u{e31}|한|\u{1112}\u{1161}|\u{a0}|\
     \u{3000}|\u{85}|\u{b}|\u{c}|\0|\0\0|\u{1}|\u{7f}|\u{ad}|\u{200b}|\u{200d}|\u{feff}|\u{fffd}|\
     \u{2028}|\u{2009}|\u{2010}|\u{2013}|\u{2019}|\u{2026}|\u{2027}|\u{200f}|。|，|🙂|[MASK]|[mask]|\
     [A]|[A|<t>|##x|##|*É|(中|...|.|,|'|-|[|]|#|*|(|<|_|a=b|≠|\u{338}|\u{20dd}|\u{302e}|\
     \u{302e}\u{301}|\u{302f}\u{302e}|\u{93e}|\u{9be}\u{9c7}|\u{1d165}|a\u{302e}\u{1d165}|\u{302e}\u{301}\u{1d165}|\u{1d165}\u{302e}|\
     \u{16ff0}|\u{345}\u{302e}|\u{334}|\u{10ffff}|\u{e000}|abcabcabcabcabcab|\
     covidcovidcovidcovidcovid|ababababababababababababababababababab|\u{1f82}|\u{fb2c}|\u{1d160}|\
     K|Å|ﬁ|ǅ";

/// Returns text of special cases.
fn nasty_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(PIECES.split('|').collect::<Vec<_>>()).prop_map(String::from),
        1 => any::<char>().prop_map(String::from),
    ];
    let some = prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat());
    // Windows end in the middle of repeated text.
    prop_oneof![12 => some.clone(), 1 => (some, 2_usize..80).prop_map(|(text, times)| text.repeat(times))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn ids_are_those_of_the_crate(text in nasty_text(), number in 0_usize..24) {
        CASES[number].check(&text);
    }

    #[test]
    fn texts_that_are_encoded_together_have_the_ids_of_each(texts in prop::collection::vec(nasty_text(), 0..6), number in 0_usize..24) {
        CASES[number].check_together(&texts);
    }

    #[test]
    fn ids_on_both_sides_of_a_cut_are_those_of_the_whole(text in nasty_text(), number in 0_usize..24) {
        if text.len() < 200 {
            CASES[number].check_cuts(&text);
        }
    }

    #[test]
    fn run_ends_are_those_of_the_crate(text in nasty_text(), number in 0_usize..24, starts in prop::collection::vec(0_usize..3000, 0..8)) {
                let mut starts: Vec<usize> = starts.into_iter().map(|start| text.floor_char_boundary(start % (text.len() + 1))).collect();
        starts.sort_unstable();
        let fallback = &mut |text: &str, ids: &mut Vec<u32>| {
            ids.extend(CASES[number].crate_ids(text));
            Ok(())
        };
        let tokens = |text: &str| Ok(CASES[number].tokens(text));
        let expected = CASES[number].runs(&text, &starts);
        for (tokenizer, scratch) in CASES[number].scratches().iter_mut() {
            let mut found = Vec::new();
            let take = &mut |run: &[u32]| {
                found.push(run.to_vec());
                Ok(())
            };
            scratch.encode_runs(tokenizer, &text, &starts, fallback, &tokens, take).expect("encodable");
            prop_assert_eq!(&found, &expected, "{:?} in {:?}", starts, text);
        }
    }
}

/// Returns a vocabulary with every character that the normalizer keeps, so that ids reveal its effect.
fn alphabet(normalizer: &Value) -> Value {
    let mut json = word_piece_json(&vocabulary(), true);
    json["normalizer"] = normalizer.clone();
    let mut ids = vocabulary();
    // Ideographs, syllables of Hangul and private use are many, and equivalent: a few of each suffice.
    let is_one_of_many = |letter: &char| matches!(letter, '\u{3500}'..='\u{4dbf}' | '\u{4f00}'..='\u{9fff}' | '\u{ad00}'..='\u{d7a3}' | '\u{e100}'..='\u{f8ff}');
    for letter in ('\u{80}'..'\u{20000}').filter(|letter| !is_one_of_many(letter)) {
        let next = ids.len() as u64;
        ids.entry(letter.to_string()).or_insert(next);
    }
    json["model"]["vocab"] = json!(ids);
    json
}

#[test]
fn every_character_becomes_what_the_crate_makes_of_it() {
    let normalizer = json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                            "strip_accents": null, "lowercase": true});
    let case = Case::of(&alphabet(&normalizer));
    case.scratches().truncate(1);
    let all: Vec<char> = ('\0'..=char::MAX).collect();
    for letters in all.chunks(1024) {
        let text: String = letters.iter().flat_map(|&letter| [letter, 'b', ' ']).collect();
        case.check(&text);
    }
}

#[test]
fn shapes_of_which_nothing_is_proved_are_declined() {
    let plain = described(0);
    let declined = |change: &dyn Fn(&mut Value)| {
        let mut json = plain.clone();
        change(&mut json);
        fast_tokenizer_for(&model_of(&json), &json).err().unwrap_or_default()
    };
    assert_eq!(declined(&|_| ()), "");
    let added = |key: &str, value: Value| declined(&|json| json["added_tokens"][6][key] = value.clone());
    assert!(added("normalized", json!(true)).contains("[A"), "{}", added("normalized", json!(true)));
    assert!(added("single_word", json!(true)).contains("[A"));
    for content in ["covid", "[new york]", "\u{2013}"] {
        assert!(added("content", json!(content)).contains(content));
    }
    assert!(declined(&|json| json["normalizer"] = json!({"type": "Lowercase"})).contains("normalizer"));
    assert!(declined(&|json| json["pre_tokenizer"] = json!({"type": "Whitespace"})).contains("pre-tokenizer"));
    let template = |single: Value| {
        declined(&|json| {
            json["post_processor"] = json!({"type": "TemplateProcessing", "single": single, "pair": [],
                "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}}});
        })
    };
    let cls = json!({"SpecialToken": {"id": "[CLS]", "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    assert_eq!(template(json!([cls, text])), "");
    assert!(template(json!([cls, text, text])).contains("post-processor"));
    assert!(declined(&|json| json["model"]["unk_token"] = json!("[NONE]")).contains("unknown token"));
}

#[test]
fn bounded_range_ends_at_a_cut() {
    let tokenizer = &CASES[0].tokenizer;
    for text in ["the cat. ".repeat(10_000), "中文".repeat(20_000), "a".repeat(40_000), "a[".repeat(30_000)] {
        for near in [1, 100, 16_384] {
            let before = tokenizer.cut_before(&text, near);
            let behind = tokenizer.cut_behind(&text, near);
            assert!(
                before <= near && near <= behind && tokenizer.is_cut(&text, before) && tokenizer.is_cut(&text, behind)
            );
        }
        CASES[0].check(&text);
    }
}
