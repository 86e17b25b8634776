//! Tests of prompts.

use std::collections::BTreeSet;

use super::*;

/// WordPiece with the pieces of the tests. `[CLS]` is 2, `[SEP]` 3, `[MASK]` 4, `a` 5 and so on.
fn tokenizer() -> HfTokenizer {
    let home = tempfile::tempdir().expect("a temporary folder");
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].into_iter().chain(letters);
    let pieces: Vec<&str> = pieces.chain(["was", "bad", "good", ".", ",", "?", "##x"]).collect();
    let store = store::Store::folder(home.path()).expect("there");
    store.put("vocab.txt", pieces.join("\n").as_bytes()).expect("written");
    pipeline::tokenize::load(home.path(), Some(true)).expect("a tokenizer")
}

fn options(template: &str, words: [&str; 2], demonstrations: u32) -> PromptOptions {
    PromptOptions { template: template.to_owned(), words: words.map(str::to_owned).to_vec(), demonstrations }
}

fn example(line: u64, first: &str, second: Option<&str>, class: u32) -> Example {
    let texts = (first.to_owned(), second.map(str::to_owned));
    Example { id: line.to_string(), line, first: texts.0, second: texts.1, words: Vec::new(), gold: Gold::Class(class) }
}

/// Four examples of each class, with one letter each: `a` to `d` are bad, `e` to `h` good.
fn train() -> Vec<Example> {
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h"];
    (0..).zip(letters).map(|(at, letter)| example(at, letter, None, u32::from(at >= 4))).collect()
}

fn encoder(options: &PromptOptions, max_seq_len: u32) -> PromptEncoder {
    PromptEncoder::new(options, &tokenizer(), max_seq_len, &train(), 1).expect("it fits")
}

/// Returns the tokens of the rows of an example.
fn texts(encoder: &PromptEncoder, example: &Example) -> Vec<String> {
    let tokenizer = tokenizer();
    let names = &tokenizer.facts().tokens;
    let text =
        |row: ExampleRow| row.row.first.iter().map(|&id| names[id as usize].clone()).collect::<Vec<_>>().join(" ");
    encoder.rows(example, &tokenizer).expect("rows").into_iter().map(text).collect()
}

const REVIEW: &str = "{first} was {mask}.";
const PAIR: &str = "{first}? {mask}, {second}";

#[test]
fn the_class_is_the_target_of_the_mask() {
    let encoder = encoder(&options(REVIEW, ["bad", "good"], 0), 16);
    let found = encoder.rows(&example(9, "A bX", None, 1), &tokenizer()).expect("rows");
    let [row] = &found[..] else { panic!("one row") };
    assert_eq!(texts(&encoder, &example(9, "A bX", None, 1)), ["a b ##x was [MASK] ."]);
    assert_eq!(row.row.target, RowTarget::Tokens(vec![IGNORE, IGNORE, IGNORE, IGNORE, 1, IGNORE]));
    assert_eq!((row.logits.clone(), row.row.second.len()), (RowLogits::Blank(5), 0));
    let unlabelled = Example { gold: Gold::None, ..example(9, "a", None, 0) };
    let row = &encoder.rows(&unlabelled, &tokenizer()).expect("rows")[0];
    assert_eq!((row.row.target.clone(), row.logits.clone()), (RowTarget::None, RowLogits::Blank(3)));
}

#[test]
fn only_texts_are_truncated() {
    let text = |template: &str, max_seq_len: u32, first: &str, second: Option<&str>| {
        let encoder = encoder(&options(template, ["bad", "good"], 0), max_seq_len);
        texts(&encoder, &example(9, first, second, 0)).remove(0)
    };
    // Of 6 tokens, 3 are the template.
    assert_eq!(text(REVIEW, 8, "a b c d e", None), "a b c was [MASK] .");
    assert_eq!(text(REVIEW, 6, "a b c d e", None), "a was [MASK] .");
    // Of 8 tokens, 3 are the template; the longer text loses more.
    assert_eq!(text(PAIR, 10, "a b c d e", Some("f g")), "a b c ? [MASK] , f g");
    assert_eq!(text(PAIR, 10, "a b c d e", Some("f g h e")), "a b c ? [MASK] , f g");
    assert_eq!(text(PAIR, 10, "a", Some("f g h e d c")), "a ? [MASK] , f g h e");
    assert_eq!(text(PAIR, 10, "", Some("")), "? [MASK] ,");
}

#[test]
fn demonstrations_have_each_class_once_in_order_and_never_the_example() {
    let encoder = encoder(&options(REVIEW, ["bad", "good"], 16), 32);
    for own in train() {
        let rows = texts(&encoder, &own);
        assert_eq!(rows.len(), 16);
        let mut seen = BTreeSet::new();
        for row in &rows {
            let parts: Vec<Vec<&str>> = row.split(" [SEP] ").map(|part| part.split(' ').collect()).collect();
            assert_eq!(parts[0], [&*own.first, "was", "[MASK]", "."]);
            let [bad, good] = &parts[1..] else { panic!("two demonstrations: {row}") };
            assert!(["a", "b", "c", "d"].contains(&bad[0]) && bad[1..] == ["was", "bad", "."], "{row}");
            assert!(["e", "f", "g", "h"].contains(&good[0]) && good[1..] == ["was", "good", "."], "{row}");
            assert!(bad[0] != own.first && good[0] != own.first, "{row}");
            seen.insert((bad[0].to_owned(), good[0].to_owned()));
        }
        assert!(seen.len() > 4, "the sets differ: {seen:?}");
        assert_eq!(rows, texts(&encoder, &own), "the same draws");
    }
    let other = PromptEncoder { seed: 2, ..encoder.clone() };
    assert_ne!(texts(&encoder, &train()[0]), texts(&other, &train()[0]));
    // A test example with the texts of a training example is not shown its label either.
    let test = Example { id: "x".to_owned(), line: 77, gold: Gold::None, ..train()[2].clone() };
    assert!(texts(&encoder, &test).iter().all(|row| row.matches("c was").count() == 1));
}

/// 26 tokens: two separators, and a third of the others for each of three templates.
#[test]
fn a_demonstration_has_at_most_its_share_of_the_row() {
    let long = |class: u32| {
        (0..2).map(move |at| example(u64::from(2 * class + at), &"a b ".repeat(8 + at as usize), None, class))
    };
    let train: Vec<Example> = long(0).chain(long(1)).collect();
    let options = options(REVIEW, ["bad", "good"], 1);
    let encoder = PromptEncoder::new(&options, &tokenizer(), 28, &train, 1).expect("it fits");
    let tokens = |first: &str| {
        let row = texts(&encoder, &example(99, first, None, 0)).remove(0);
        row.split(" [SEP] ").map(|part| part.split(' ').count()).collect::<Vec<_>>()
    };
    assert_eq!(tokens(&"c ".repeat(30)), [8, 8, 8]);
    assert_eq!(tokens("c"), [4, 8, 8]);
    // Short demonstrations leave their room to the example: 26 − 2 · 5.
    let encoder = encoder_of_short_demonstrations();
    let row = texts(&encoder, &example(99, &"c ".repeat(30), None, 0)).remove(0);
    assert_eq!(row.split(" [SEP] ").map(|part| part.split(' ').count()).collect::<Vec<_>>(), [16, 4, 4]);
}

fn encoder_of_short_demonstrations() -> PromptEncoder {
    encoder(&options(REVIEW, ["bad", "good"], 1), 28)
}

#[test]
fn prompts_that_do_not_fit_are_refused() {
    let refused = |options: &PromptOptions, max_seq_len: u32, train: &[Example]| {
        PromptEncoder::new(options, &tokenizer(), max_seq_len, train, 1).map(|_| ()).expect_err("invalid").to_string()
    };
    let error = refused(&options(REVIEW, ["bad", "good"], 0), 5, &[]);
    assert!(error.contains("rows of 5 tokens") && error.contains("--max-seq-len to 6 or more"), "{error}");
    assert!(PromptEncoder::new(&options(REVIEW, ["bad", "good"], 0), &tokenizer(), 6, &[], 1).is_ok());
    let error = refused(&options(REVIEW, ["bad", "good"], 1), 15, &train());
    assert!(error.contains("3 templates of 4 tokens") && error.contains("to 16 or more"), "{error}");
    assert!(PromptEncoder::new(&options(REVIEW, ["bad", "good"], 1), &tokenizer(), 16, &train(), 1).is_ok());
    for (words, expected) in [
        (["bad", "awful"], "`awful` is not in this vocabulary"),
        (["bad", "goodx"], "`goodx` is 2 tokens"),
        (["bad", "BAD"], "`BAD` is the same token as `bad`"),
        (["bad", "[MASK]"], "`[MASK]` is"),
    ] {
        let error = refused(&options(REVIEW, words, 0), 16, &[]);
        assert!(error.contains(expected) && error.contains("`words`"), "{error}");
    }
    let mut single = train();
    single.iter_mut().skip(4).for_each(|example| example.first = "e".to_owned());
    let error = refused(&options(REVIEW, ["bad", "good"], 1), 32, &single);
    assert!(error.contains("label word `good`") && error.contains("--shots"), "{error}");
    let error = PromptOptions::new(&AnyTask::of_kind("stsb").expect("a task"), 0).expect_err("no prompt").to_string();
    assert!(
        error.contains("`stsb` has no prompt") && error.contains("sst2") && error.contains("`template`"),
        "{error}"
    );
}
