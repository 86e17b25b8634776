//! Equality of the counted words with the crate's split, line by line.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

/// Splitter of a family, and the crate's.
type Pair = (Box<dyn Split>, Box<dyn Fn(&str) -> Vec<String> + Send + Sync>);

static PAIRS: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let bert = |lowercase| -> Pair {
        (Box::new(BertSplit::new(lowercase)), Box::new(move |line: &str| by_the_crate(Some(lowercase), line)))
    };
    let bytes: Pair =
        (Box::new(ByteSplit::new().expect("the crate writes bytes")), Box::new(|line: &str| by_the_crate(None, line)));
    vec![bert(true), bert(false), bytes]
});

/// Returns the words of a line as the trained tokenizer splits them: BERT's, lower-case or not, or byte-level ones.
fn by_the_crate(lowercase: Option<bool>, line: &str) -> Vec<String> {
    let mut normalized = NormalizedString::from(line);
    if let Some(lowercase) = lowercase {
        BertNormalizer::new(true, true, None, lowercase).normalize(&mut normalized).expect("normalized");
    }
    let mut words = PreTokenizedString::from(normalized);
    match lowercase {
        Some(_) => BertPreTokenizer.pre_tokenize(&mut words),
        None => ByteLevel::new(false, true, true).pre_tokenize(&mut words),
    }
    .expect("split");
    let splits = words.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
    splits.into_iter().map(|(word, ..)| word.to_owned()).collect()
}

fn check(text: &str) {
    for (family, (split, of_the_crate)) in PAIRS.iter().enumerate() {
        let mut expected = BTreeMap::<String, u64>::new();
        for line in text.split_inclusive('\n') {
            for word in of_the_crate(line) {
                *expected.entry(word).or_default() += 1;
            }
        }
        let mut raw = WordCounts::default();
        let mut found = BTreeMap::<String, u64>::new();
        split.count(text, &mut raw);
        for (text, count) in raw.iter() {
            split.words(text, &mut |word| *found.entry(word.to_owned()).or_default() += count).expect("split");
        }
        assert!(found == expected, "{family}: {text:?}: {found:?}, and {expected:?} by the crate");
    }
}

/// Returns text with special cases of normalizers and regular expressions.
fn nasty_text() -> impl Strategy<Value = String> {
    let words = [
        " ",
        " ",
        "\n",
        "\t",
        "\r\n",
        "\r",
        "  ",
        "a",
        "The",
        "x",
        "a≠b",
        "=",
        "_",
        "-",
        "--",
        "Σ",
        "\u{85}",
        "\u{b}",
        "\u{c}",
        "it's",
        "I'D",
        "'s",
        "'",
        "'ll",
        "'re",
        " s",
        "12",
        " 7",
        "½",
        ".",
        "...",
        "é",
        "e\u{301}",
        "\u{301}",
        "\u{316}",
        "\u{93f}",
        "\u{20dd}",
        "\u{1d165}",
        "\u{345}",
        "ß",
        "İ",
        "ı",
        "K",
        "中",
        "文",
        "豈",
        "\u{2f800}",
        "가",
        "각",
        "ก",
        "ำ",
        "\u{a0}",
        "\u{3000}",
        "\u{2028}",
        "\u{200d}",
        "\u{ad}",
        "\u{fffd}",
        "\u{0}",
        "\u{7f}",
        "\u{e000}",
        "🙂",
        "👩\u{200d}👧",
        "“",
        "”",
        "—",
        "…",
        "、",
        "。",
        "\u{37e}",
        "\u{1fef}",
        "##s",
        "[MASK]",
        "<s>",
        ",",
        "(a)",
        "e.g.",
        "\u{10ffff}",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..40).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn raw_words_change_no_word(text in nasty_text()) {
        check(&text);
    }

    #[test]
    fn raw_words_change_no_word_of_any_text(characters in prop::collection::vec(any::<char>(), 0..40)) {
        check(&characters.into_iter().collect::<String>());
    }
}

/// Tests each character between letters, at the ends of words, twice, and next to marks of the first and of the last
/// class. Of the planes after the second (ideographs and unassigned code points), it tests every seventh character.
#[test]
fn no_character_is_an_exception() {
    let mut text = String::new();
    for c in (0..=0x1_FFFF).chain((0x2_0000..=0x10_FFFF).step_by(7)).filter_map(char::from_u32) {
        text.extend(['a', c, 'b', ' ', c, c, ' ', 'b', c, '\u{334}', c, '\u{345}', c, '\n']);
        if text.len() > 1 << 16 {
            check(&text);
            text.clear();
        }
    }
    check(&text);
}
