//! Independence of tokens from chunks.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::testing;

/// Both families, by the crate and by the fast tokenizer.
static FAMILIES: LazyLock<[HfTokenizer; 4]> = LazyLock::new(|| {
    let [a, b] = testing::TOKENIZERS;
    [
        (a, TokenizerBackend::Reference),
        (b, TokenizerBackend::Reference),
        (a, TokenizerBackend::Fast),
        (b, TokenizerBackend::Fast),
    ]
    .map(|(name, by)| testing::tokenizer(name).with_backend(by))
});

/// Returns characters with special cases of normalizers, regular expressions and added tokens.
fn nasty_text() -> impl Strategy<Value = String> {
    let words = [
        " ", " ", " ", "\n", "\t", "\r\n", "  ", "a", "the", "x", "covid", "a=b", "a≠b", "=", "_", "-", "Σ", "\u{85}",
        "\u{b}", "it's", "I'd", "'s", " s", "12", " 7", ".", "...", "é", "e\u{301}", "\u{301}", "ß", "İ", "中", "文",
        "\u{a0}", "\u{3000}", "\u{200d}", "\u{fffd}", "🙂", "##s", "[MASK]", "<mask>", "[SEP]", "</s>", ",", "(a)",
        "e.g.", "'", "<", "]", ",\u{301}", "Ω", "σς",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn chunks_change_no_token(text in nasty_text()) {
        for tokenizer in &*FAMILIES {
            prop_assert_ne!(tokenizer.cuts, CutRule::Nowhere);
            let mut whole = Vec::new();
            tokenizer.split(&text, &mut whole).expect("encodable");
            // The tokenizers are shared, so that most ids come from the cache.
            prop_assert_eq!(tokenizer.ids(&text).expect("encodable"), whole, "{}", tokenizer.facts.manifest.kind);
        }
    }
}

proptest! {
    /// Token ranges have the ids of the text, are texts, and have no white space at their ends.
    #[test]
    fn token_ranges_are_texts(text in nasty_text()) {
        for tokenizer in &*FAMILIES {
            let tokens = tokenizer.token_ranges(&text).expect("encodable");
            let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
            prop_assert_eq!(ids, tokenizer.ids(&text).expect("encodable"));
            for token in tokens {
                let shown = text.get(token.bytes.clone());
                prop_assert!(shown.is_some_and(|shown| shown.trim() == shown), "{:?}: {:?}", token, shown);
            }
        }
    }
}

#[test]
fn token_ranges_are_the_places_of_tokens() {
    for tokenizer in &*FAMILIES {
        let text = "the  cat é";
        let tokens = tokenizer.token_ranges(text).expect("encodable");
        let mut places: Vec<&str> =
            tokens.iter().map(|token| &text[token.bytes.clone()]).filter(|it| !it.is_empty()).collect();
        places.dedup();
        assert_eq!(places.concat(), "thecaté", "{}", tokenizer.facts.manifest.kind);
    }
}

/// Returns possible added tokens: beginning with letters, marks, blanks and characters that normalizing changes.
fn added_tokens() -> impl Strategy<Value = Vec<(&'static str, [bool; 5])>> {
    let contents = [
        "x", "covid", "a", "the", "he", "s", "'s", "é", "É", "İ", "中", "a≠b", "a=b", "=", "-", "_", "_a", "t_", "##s",
        "[X]", "<t>", "<mask>", ".", "...", "Ω", "σ", "12", "new york", " x", "x ", "\u{301}a", "I", "t's",
    ];
    prop::collection::vec((prop::sample::select(contents.to_vec()), any::<[bool; 5]>()), 1..4)
}

/// Returns a small tokenizer with added tokens.
fn with_added(name: &str, tokens: &[(&'static str, [bool; 5])]) -> HfTokenizer {
    let mut json: serde_json::Value = serde_json::from_slice(&testing::tokenizer(name).facts().json).expect("JSON");
    let added = json["added_tokens"].as_array_mut().expect("a list");
    for (id, (content, [lstrip, rstrip, single_word, normalized, special])) in (300..).zip(tokens) {
        added.retain(|token| token["content"] != *content);
        added.push(serde_json::json!({"id": id, "content": content, "single_word": single_word, "lstrip": lstrip,
                                      "rstrip": rstrip, "normalized": normalized, "special": special}));
    }
    crate::tokenize::of_json(json.to_string().as_bytes(), "tokenizer.json").expect("the crate reads it")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn chunks_change_no_token_with_any_added_tokens(tokens in added_tokens(), texts in prop::collection::vec(nasty_text(), 3)) {
        for name in testing::TOKENIZERS {
            let tokenizer = with_added(name, &tokens);
            for text in &texts {
                let mut whole = Vec::new();
                tokenizer.split(text, &mut whole).expect("encodable");
                prop_assert_eq!(tokenizer.ids(text).expect("encodable"), whole, "{} {:?} of {:?}", name, tokenizer.implementation, text);
            }
            let tokenizer = tokenizer.with_backend(TokenizerBackend::Reference);
            for text in &texts {
                let mut whole = Vec::new();
                tokenizer.split(text, &mut whole).expect("encodable");
                prop_assert_eq!(tokenizer.ids(text).expect("encodable"), whole, "{} {:?} of {:?}", name, tokenizer.cuts, text);
            }
        }
    }
}

#[test]
fn tokens_of_any_beginning_leave_cuts() {
    for (name, text, chunks) in [("byte_bpe", "x  covid the x", 2), ("wordpiece", "a=b,a", 3)] {
        let plain = [false; 5];
        let tokenizer =
            with_added(name, &[("covid", plain), ("x", plain), ("a≠b", [false, false, false, true, false])]);
        let mut rest = text;
        let mut found = 0;
        while !rest.is_empty() {
            rest = &rest[tokenizer.cuts.first(rest)..];
            found += 1;
        }
        assert_eq!(found, chunks, "{name}: {:?}", tokenizer.cuts);
    }
}

/// Returns true at the end of a sentence. (A token of blanks reports its end as its start.)
fn is_behind_a_word(text: &str, at: usize) -> bool {
    text.is_char_boundary(at) && !text[..at].ends_with(char::is_whitespace)
}

proptest! {
    #[test]
    fn runs_change_no_token_and_start_at_their_offsets(text in nasty_text(), cuts in prop::collection::vec(0_usize..80, 0..6)) {
        let mut starts: Vec<usize> = cuts.into_iter().filter(|&at| is_behind_a_word(&text, at)).collect();
        starts.sort_unstable();
        starts.dedup();
        for tokenizer in &*FAMILIES {
            let mut runs: Vec<Vec<u32>> = Vec::new();
            let take = &mut |ids: &[u32]| {
                runs.push(ids.to_vec());
                Ok(())
            };
            tokenizer.encode_runs(&text, &starts, take).expect("encodable");
            prop_assert_eq!(runs.len(), starts.len() + 1);
            prop_assert_eq!(runs.concat(), tokenizer.ids(&text).expect("encodable"));
            let whole: Vec<(usize, u32)> = tokenizer.tokens(&text).expect("encodable");
            let mut before = 0;
            for (run, &start) in runs.iter().zip(&starts) {
                before += run.len();
                prop_assert!(whole[..before].iter().all(|&(begin, _)| begin < start.max(1)), "{:?}", starts);
            }
        }
    }
}

#[test]
fn blank_belongs_to_the_following_sentence() {
    for tokenizer in &*FAMILIES {
        let mut runs = Vec::new();
        let take = &mut |ids: &[u32]| {
            let tokens: Vec<&str> = ids.iter().map(|&id| tokenizer.facts().tokens[id as usize].as_str()).collect();
            runs.push(tokens.concat());
            Ok(())
        };
        tokenizer.encode_runs("the cat. the mat.", &[8], take).expect("encodable");
        let expected = if tokenizer.facts().manifest.kind == "byte_bpe" { "ĠtheĠmat." } else { "themat." };
        assert_eq!(runs[1], expected, "{runs:?}");
    }
}

#[test]
fn a_mask_in_the_text_is_the_mask() {
    for (name, mask) in testing::TOKENIZERS.into_iter().zip(["[MASK]", "<mask>"]) {
        let tokenizer = testing::tokenizer(name);
        let ids = tokenizer.ids(&format!("the {mask} sat.")).expect("encodable");
        assert_eq!(ids.iter().filter(|&&id| id == tokenizer.facts().special().mask).count(), 1, "{name}: {ids:?}");
    }
}

#[test]
fn a_tokenizer_that_nothing_is_proved_about_is_never_cut() {
    let text = "one two three".repeat(100);
    for (part, value) in [
        ("added_tokens", serde_json::json!([{"content": "new york"}])),
        ("pre_tokenizer", serde_json::json!({"type": "Metaspace"})),
    ] {
        let mut json = serde_json::json!({"pre_tokenizer": {"type": "BertPreTokenizer"}});
        assert_eq!(CutRule::new(&json, &str::to_owned).first(&text), 3);
        json[part] = value;
        assert_eq!(CutRule::new(&json, &str::to_owned).first(&text), text.len());
    }
}

/// [`FastTokenizer`] that returns wrong ids for one word.
struct Wrong(Box<dyn FastTokenizer>);

impl FastTokenizer for Wrong {
    fn name(&self) -> String {
        "WordPiece by guessing".to_owned()
    }

    fn cut_before(&self, text: &str, near: usize) -> usize {
        self.0.cut_before(text, near)
    }

    fn cut_behind(&self, text: &str, near: usize) -> usize {
        self.0.cut_behind(text, near)
    }

    fn worker(&self) -> Box<dyn fast::Worker> {
        struct Guesses(Box<dyn fast::Worker>);
        impl fast::Worker for Guesses {
            fn append(&mut self, text: &str, ids: &mut Vec<u32>, fallback: fast::Fallback<'_>) -> Result<()> {
                self.0.append(&text.replace("cat", "mat"), ids, fallback)
            }
        }
        Box::new(Guesses(self.0.worker()))
    }
}

#[test]
fn differences_from_the_tokenizers_crate_are_detected() {
    let mut tokenizer = testing::tokenizer("wordpiece");
    let text = format!("{}\nthe \u{1b}cat sat", "the mat. ".repeat(100));
    assert!(tokenizer.implementation_name().starts_with("WordPiece by"), "{}", tokenizer.implementation_name());
    tokenizer.compare(&text).expect("the same");
    tokenizer.fast_tokenizer =
        tokenizer.fast_tokenizer.take().map(|fast_tokenizer| Box::new(Wrong(fast_tokenizer)) as Box<dyn FastTokenizer>);
    (tokenizer.implementation, tokenizer.scratches) = ("WordPiece by guessing".to_owned(), Pool::default());
    let said = tokenizer.compare(&text).expect_err("other ids").to_string();
    for part in [
        "WordPiece by guessing",
        r#"the mat. \nthe \u{1b}cat sat""#,
        "from id 301 on 9 7, and 6 7",
        "tokenizer_backend",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let by_crate = tokenizer.with_backend(TokenizerBackend::Reference);
    by_crate.compare(&text).expect("nothing to compare");
    assert!(by_crate.implementation_name().contains("the configuration says so"));
}

#[test]
fn longest_piece_is_bounded_by_words() {
    for name in testing::TOKENIZERS {
        let fast = testing::tokenizer(name);
        let by_crate = testing::tokenizer(name).with_backend(TokenizerBackend::Reference);
        assert_ne!(fast.implementation_name(), by_crate.implementation_name());
        for text in ["Alpha.\n Beta.\n Gamma.\n ".repeat(1000), "the cat sat\n\non a mat ".repeat(1000)] {
            let [fast, by_crate] = [&fast, &by_crate].map(|tokenizer| tokenizer.longest_piece(&text));
            assert!((1..=12).contains(&fast) && (1..=16).contains(&by_crate), "{name}: {fast} {by_crate}");
        }
        let word = "a".repeat(5000);
        assert!(fast.longest_piece(&format!("the {word} cat")) >= 5000);
    }
}
