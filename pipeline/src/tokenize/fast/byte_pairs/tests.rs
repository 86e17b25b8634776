//! Equality of the ids with the crate's for any text.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Tokenizer of the crate, and of every instruction set, each with tables for all words of a test and with tables for
/// four.
struct Compared {
    model: tokenizers::Tokenizer,
    variants: Vec<BytePairs>,
}

impl Compared {
    fn of(json: &Value) -> Self {
        let model = tokenizers::Tokenizer::from_bytes(json.to_string()).expect("the crate reads it");
        let meant = serde_json::from_str(&model.to_string(false).expect("JSON")).expect("JSON");
        let tokenizer = BytePairs::new(&model, &meant).expect("of the shape");
        let every = Kernels::available()
            .into_iter()
            .flat_map(|kernels| [(1 << 12, 1 << 6), (4, 1)].map(|slots| (kernels, slots)));
        let with = |(kernels, slots): (Kernels, (usize, usize))| {
            // The small tables start empty, and every entry is replaced.
            let expected =
                if slots.0 == 4 { OnceLock::from(WordCache::new(slots.0, slots.1)) } else { OnceLock::new() };
            BytePairs { kernels, slots, expected: Arc::new(expected), ..tokenizer.clone() }
        };
        Self { variants: every.map(with).collect(), model }
    }

    fn by_crate(&self, text: &str) -> Vec<u32> {
        self.model.encode_fast(text, false).expect("encodable").get_ids().to_vec()
    }

    /// Compares the ids of texts, each whole and cut at every possible position.
    fn check(&self, texts: &[String]) {
        let wanted: Vec<_> = texts.iter().map(|text| self.by_crate(text)).collect();
        for tokenizer in &self.variants {
            let mut worker = tokenizer.worker();
            for (text, wanted) in texts.iter().zip(&wanted) {
                let mut whole = Vec::new();
                let mut cut = Vec::new();
                let mut from = 0;
                let fallback = &mut |_: &str, _: &mut Vec<u32>| unreachable!("byte pairs are never left to the crate");
                worker.append(text, &mut whole, fallback).expect("nothing fails");
                assert_eq!(&whole, wanted, "{} {:?} of {text:?}", tokenizer.kernels.name(), tokenizer.slots);
                while from < text.len() {
                    let end = tokenizer.cut_behind(text, from + 1);
                    worker.append(&text[from..end], &mut cut, fallback).expect("nothing fails");
                    from = end;
                }
                assert_eq!(&cut, wanted, "{} {:?} of {text:?}, cut", tokenizer.kernels.name(), tokenizer.slots);
            }
        }
    }
}

/// Returns byte pairs with these merges, in this order, over all bytes.
fn tokenizer(merges: &[(String, String)], added: &Value, adds_prefix_space: bool) -> Value {
    let mut tokens: Vec<String> = (0..=u8::MAX).map(|byte| symbol(byte).to_string()).collect();
    for made in merges.iter().map(|(left, right)| format!("{left}{right}")) {
        if !tokens.contains(&made) {
            tokens.push(made);
        }
    }
    let vocab: serde_json::Map<_, _> = tokens.into_iter().zip((0..).map(Value::from)).collect();
    json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
           "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": adds_prefix_space, "trim_offsets": true,
                             "use_regex": true},
           "post_processor": null, "decoder": null,
           "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": "",
                     "end_of_word_suffix": "", "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                     "vocab": vocab, "merges": merges}})
}

/// Returns merges as from training: each of two existing tokens, selected by `picks`.
fn grown(alphabet: &[&str], picks: &[(u16, u16)]) -> Vec<(String, String)> {
    let symbols = |text: &str| text.bytes().map(|byte| symbol(byte).to_string()).collect::<Vec<_>>();
    let mut tokens: Vec<String> = alphabet.iter().flat_map(|text| symbols(text)).collect();
    let mut merges = Vec::new();
    for &(left, right) in picks {
        let pair =
            (tokens[usize::from(left) % tokens.len()].clone(), tokens[usize::from(right) % tokens.len()].clone());
        tokens.push(format!("{}{}", pair.0, pair.1));
        merges.push(pair);
    }
    merges
}

fn added(content: &str, lstrip: bool, normalized: bool, id: u32) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": lstrip, "rstrip": false,
           "normalized": normalized, "special": true})
}

/// Two tokenizers of a hundred merges, with and without the prefix space, and overlapping tokens.
static COMPARED: LazyLock<[Compared; 2]> = LazyLock::new(|| {
    let alphabet = [" ", "t", "h", "e", "s", "'", "é", "中", "—", "1", "\n", "a"];
    let picks: Vec<(u16, u16)> =
        (0..100_u16).map(|at| (at.wrapping_mul(7919) >> 3, at.wrapping_mul(104_u16) ^ at >> 1)).collect();
    let list = json!([
        added("<s>", false, true, 1000),
        added("<mask>", true, false, 1001),
        added("</s>", false, false, 1002),
        added("<s><s>x", false, true, 1003),
        added("<s><", true, false, 1004),
        added("'t", false, true, 1005),
    ]);
    let usual = Value::Array(list.as_array().expect("a list")[..3].to_vec());
    [(list, false), (usual, true)]
        .map(|(list, space)| Compared::of(&tokenizer(&grown(&alphabet, &picks), &list, space)))
});

/// Returns texts with special cases of the regular expression, added tokens or the tables.
fn nasty_text() -> impl Strategy<Value = String> {
    let words = [
        " ",
        " ",
        " ",
        "\n",
        "\t",
        "\r\n",
        "  ",
        "a",
        "the",
        "x",
        "'s",
        "'S",
        "'re",
        "'ve",
        "'ll",
        "'d",
        "'t",
        "'m",
        "'l",
        "'r",
        "'",
        "''",
        "it's",
        " s",
        "12",
        " 7",
        "½",
        "٣",
        ".",
        "...",
        "é",
        "e\u{301}",
        "\u{301}",
        "中",
        "文",
        "——",
        "\u{a0}",
        "\u{3000}",
        "\u{2003}",
        "\u{85}",
        "\u{b}",
        "\u{1c}",
        "\0",
        "\u{200d}",
        "\u{fffd}",
        "🙂",
        "𝒳",
        "\u{e0001}",
        "<s>",
        "<mask>",
        "</s>",
        "<s",
        "<",
        ">",
        "the cat sat",
        "antidisestablishmentarianism",
        "\u{10ffff}",
    ];
    let word = prop_oneof![
        8 => prop::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => (prop::sample::select(words.to_vec()), 1..80_usize).prop_map(|(word, count)| word.repeat(count)),
    ];
    prop::collection::vec(word, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn the_ids_are_those_of_the_crate(texts in prop::collection::vec(nasty_text(), 4)) {
        COMPARED.iter().for_each(|compared| compared.check(&texts));
    }

    #[test]
    fn ids_equal_those_of_the_crate_for_any_merges(
        picks in prop::collection::vec(any::<(u16, u16)>(), 0..60),
        words in prop::collection::vec(("[abé中]{0,40}", 0..20_usize), 1..6),
    ) {
        let compared = Compared::of(&tokenizer(&grown(&["a", "b", "é", "中", " "], &picks), &json!([]), false));
        let texts: Vec<String> = words.iter().map(|(word, count)| word.repeat(*count)).collect();
        compared.check(&texts);
    }
}

#[test]
fn words_at_window_and_block_starts_are_split_equally() {
    for unit in ["it's ", "中\u{3000}", "a  ", "12'll", "é\n\n", "'re've", "\u{a0}🙂 "] {
        let texts: Vec<String> = (0..70).map(|shift| format!("{}{}", "x".repeat(shift), unit.repeat(900))).collect();
        let compared = &COMPARED[1];
        compared.check(&texts[..8]);
        let tokenizer = &compared.variants[0];
        let mut scalar = Vec::new();
        let mut window = Borders::default();
        for text in &texts {
            for kernels in Kernels::available() {
                scalar.clear();
                let mut rest = text.as_bytes();
                let mut found = Vec::new();
                while !rest.is_empty() {
                    let borders = window.split(kernels, rest);
                    let end = *borders.last().filter(|_| borders.len() > 1).expect("short words");
                    found.extend(borders.windows(2).map(|pair| pair[1] - pair[0]));
                    rest = &rest[usize::from(end)..];
                }
                rest = text.as_bytes();
                while !rest.is_empty() {
                    let length = first_pre_token(Classes::of_the_crate(), rest);
                    scalar.push(u16::try_from(length).expect("short words"));
                    rest = &rest[length..];
                }
                assert_eq!(found, scalar, "{} {}: {text:?}", kernels.name(), tokenizer.name());
            }
        }
    }
}

#[test]
fn every_character_is_of_the_class_that_the_crate_finds() {
    let json = tokenizer(&[], &json!([]), false);
    let mut compared = Compared::of(&json);
    compared.variants.truncate(1);
    let mut text = String::new();
    for character in '\0'..=char::MAX {
        // Unassigned planes are compared once, the others in every neighbourhood as well.
        if matches!(u32::from(character), 0..0x3_2400 | 0xE_0000..0xE_0200) {
            for around in ["a", "1", "!", " ", "\n"] {
                text.push_str(around);
                text.push(character);
            }
        } else {
            text.push(character);
        }
        if text.len() > 100_000 || character == char::MAX {
            let ids = ids_by(&compared.variants[0], &text);
            assert_eq!(ids, compared.by_crate(&text), "up to {character:?}");
            text.clear();
        }
    }
    let white = ('\0'..=char::MAX).filter(|character| character.is_whitespace());
    let classes = Classes::of_the_crate();
    assert!(white.eq(('\0'..=char::MAX).filter(|&character| classes.of_code_point(character.into()) == Class::White)));
}

fn ids_by(tokenizer: &BytePairs, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    let fallback = &mut |_: &str, _: &mut Vec<u32>| unreachable!("byte pairs are never left to the crate");
    tokenizer.worker().append(text, &mut ids, fallback).expect("nothing fails");
    ids
}

#[test]
fn a_megabyte_of_one_letter_is_split_like_few_of_them() {
    let merges = ["a a", "aa aa", "aaaa aaaa"].map(|pair| pair.split_once(' ').expect("a pair"));
    let merges = merges.map(|(left, right)| (left.to_owned(), right.to_owned()));
    let compared = Compared::of(&tokenizer(&merges, &json!([]), false));
    let ids = ids_by(&compared.variants[0], &"a".repeat(1 << 20));
    assert_eq!(ids.len(), 1 << 17);
    assert!(ids.iter().all(|&id| id == ids[0]));
    compared.check(&[255, 256, 257, 511, 2048, 2049, 5000].map(|count| "a".repeat(count)));
}

#[test]
fn other_shapes_are_left_to_the_crate() {
    let plain = tokenizer(&[("a".into(), "b".into())], &json!([]), false);
    let refusal = |change: &dyn Fn(&mut Value)| {
        let mut json = plain.clone();
        change(&mut json);
        let model = tokenizers::Tokenizer::from_bytes(json.to_string()).expect("the crate reads it");
        let meant = serde_json::from_str(&model.to_string(false).expect("JSON")).expect("JSON");
        BytePairs::new(&model, &meant).expect_err("of another shape")
    };
    let token = |key: &str, value: Value| {
        let mut token = added("<x>", false, false, 900);
        token[key] = value;
        json!([token])
    };
    assert!(refusal(&|json| json["normalizer"] = json!({"type": "NFC"})).contains("a normalizer"));
    assert!(refusal(&|json| json["pre_tokenizer"]["use_regex"] = json!(false)).contains("regular expression"));
    assert!(refusal(&|json| json["pre_tokenizer"] = json!({"type": "Whitespace"})).contains("`ByteLevel`"));
    let twice = json!({"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                       "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]});
    assert!(refusal(&|json| json["post_processor"] = twice.clone()).contains("post-processor"));
    assert!(refusal(&|json| json["model"]["ignore_merges"] = json!(true)).contains("`ignore_merges`"));
    assert!(refusal(&|json| json["model"]["end_of_word_suffix"] = json!("</w>")).contains("a suffix"));
    assert!(refusal(&|json| json["model"]["dropout"] = json!(0.1)).contains("dropout"));
    assert!(refusal(&|json| json["model"]["vocab"]["x"] = json!(70_000)).contains("beyond 65535"));
    assert!(refusal(&|json| json["model"]["vocab"]["xx"] = json!(0)).contains("share the id 0"));
    assert!(refusal(&|json| json["added_tokens"] = token("rstrip", json!(true))).contains("`rstrip`"));
    assert!(refusal(&|json| json["added_tokens"] = token("single_word", json!(true))).contains("`single_word`"));
    assert!(refusal(&|json| json["added_tokens"] = token("content", json!("new york"))).contains("white space"));
}
