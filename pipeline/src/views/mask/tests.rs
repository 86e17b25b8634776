//! Distributions of the samplers. All seeds are fixed; bounds are five standard errors unless they are exact.

use std::collections::BTreeSet;

use schemas::columns::{DRAWS, IGNORE, INPUT_IDS, LABELS};
use schemas::{Batch, BatchIndex, Epoch, SampleAddress, Vocab};

use super::*;
use crate::collate::{Item, collate};
use crate::rng::Keys;
use crate::testing::{TOKENIZERS, tokenizer};
use crate::tokenize::Tokenizer;
use crate::views::AnyView;
use crate::views::contract::{assert_uniform, planned, sample, vocab};

/// Ids of [`pieces`] from here on do not begin a word.
const PIECES: u16 = 100;

/// Returns the contract's vocabulary, whose upper half continues words; the count of an id equals the id.
fn pieces() -> Vocab {
    let tokens = (0..200).map(|id| format!("w{id}")).collect();
    let starts = (0..200).map(|id| id < PIECES).collect();
    Vocab::new(tokens, starts, (0..200).collect(), vocab().special(), &[])
}

/// Returns content whose words have the lengths `words`, repeated up to `tokens`.
fn words_of(words: &[usize], tokens: usize) -> Vec<u16> {
    let word = |&len: &usize| std::iter::once(50).chain(std::iter::repeat_n(150, len - 1));
    words.iter().cycle().flat_map(word).take(tokens).collect()
}

/// Renders copies 0 to `copies` of rows 0 to `rows`, all of one content.
fn render(mask: &Mask, content: &[u16], rows: u64, copies: u32) -> Batch {
    let item = |index, copy| {
        let index = SampleAddress::numbered(index);
        Item { sample: sample(content), partner: None, index, seed: 3, epoch: Epoch(0), copy, copies, pieces: 1 }
    };
    let items: Vec<Item<'_>> = (0..rows).flat_map(|row| (0..copies).map(move |copy| item(row, copy))).collect();
    collate(&planned(AnyView::Mask(mask.clone()), content.len() + 2), &pieces(), BatchIndex(0), &items)
}

/// Returns the selected positions of each row, counted within the content.
fn chosen(batch: &Batch) -> Vec<BTreeSet<usize>> {
    let labels = batch.column("view", LABELS).expect("made");
    let row = |row| (0..).zip(labels.row(row)).filter(|(_, label)| **label != IGNORE).map(|(at, _): (usize, _)| at - 1);
    (0..labels.rows()).map(|at| row(at).collect()).collect()
}

fn masks(mask: &Mask, content: &[u16], rows: u64, copies: u32) -> Vec<BTreeSet<usize>> {
    chosen(&render(mask, content, rows, copies))
}

/// Checks that the mean of `values` is `expected`, a number of six digits.
fn assert_mean(values: &[f64], expected: f64, what: &str) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let bound = 5.0 * (variance / count).sqrt() + 1e-5;
    assert!((mean - expected).abs() < bound, "{what}: {mean}, expected {expected} within {bound}");
}

fn mask(unit: Unit, rate: f64) -> Mask {
    Mask { rate, unit, ..Mask::default() }
}

#[test]
fn the_default_mask_never_changes() {
    // Format: a run resumed under another release must see the same masks.
    let content: Vec<u16> = (5..37).collect();
    let batch = render(&Mask::default(), &content, 3, 1);
    let expected = [[5, 12, 15, 18, 27], [9, 10, 11, 14, 31], [6, 12, 19, 21, 31]];
    assert_eq!(chosen(&batch), expected.map(BTreeSet::from));
    let mut hasher = blake3::Hasher::new();
    let batch = render(&Mask::default(), &content, 50, 1);
    for column in [INPUT_IDS, LABELS] {
        batch.column("view", column).expect("made").values().iter().for_each(|id| {
            hasher.update(&id.to_le_bytes());
        });
    }
    assert_eq!(hasher.finalize().to_hex().as_str(), "c487fafb327e3db4f871a908332d3843fd45bd65fc869c89473bd3bf668d1fb0");
}

#[test]
fn stochastic_rounding_is_right_on_average() {
    for (rate, tokens) in [(0.15, 126), (0.15, 1), (0.5, 7), (0.0, 9), (1.0, 9)] {
        for base in [Base::Maskable, Base::All] {
            let view = Mask { count: Count::StochasticRound, rate_base: base, ..mask(Unit::Subword, rate) };
            let all = if base == Base::All { tokens + 2 } else { tokens };
            let expected = (rate * all as f64).min(tokens as f64);
            let counts: Vec<f64> = masks(&view, &vec![9; tokens], 2000, 1).iter().map(|row| row.len() as f64).collect();
            assert!(counts.iter().all(|count| (count - expected).abs() < 1.0), "{rate} of {tokens}");
            assert_mean(&counts, expected, &format!("{rate} of {tokens}, {base:?}"));
        }
    }
}

#[test]
fn specials_are_masked_when_asked_and_cls_when_asked_too() {
    let content = [3, 1, 9, 9];
    for (specials, cls, expected) in [(false, false, 2..4), (true, false, 0..5), (true, true, 0..6)] {
        let view = Mask { mask_special_tokens: specials, mask_cls: cls, ..mask(Unit::Subword, 1.0) };
        let batch = render(&view, &content, 1, 1);
        let labels = batch.column("view", LABELS).expect("made").row(0).to_vec();
        let seen: Vec<bool> = labels.iter().map(|&label| label != IGNORE).collect();
        // The row is CLS, the content, SEP; `expected` counts from the content's first token.
        let expected = (0..6).map(|at| if at == 0 { cls } else { expected.contains(&(at - 1)) || cls });
        assert_eq!(seen, expected.collect::<Vec<bool>>(), "specials = {specials}, cls = {cls}");
    }
}

#[test]
fn replacements_have_their_percentages() {
    for replace in [[80, 10, 10], [100, 0, 0], [85, 0, 15], [0, 100, 0], [0, 0, 100]] {
        let view = Mask { replacement: replace, ..mask(Unit::Subword, 0.5) };
        let batch = render(&view, &[99; 400], 100, 1);
        let ids = batch.column("view", INPUT_IDS);
        let labels = batch.column("view", LABELS);
        let cells = ids.expect("made").values().iter().zip(labels.expect("made").values());
        let chosen: Vec<i32> = cells.filter(|(_, label)| **label != IGNORE).map(|(id, _)| *id).collect();
        assert_eq!(chosen.len(), 20_000);
        let share = |wanted: &dyn Fn(i32) -> bool| chosen.iter().filter(|id| wanted(**id)).count() as f64 / 20_000.0;
        // A random word is the original in 1 of 195 cases.
        let [masked, random, kept] = replace.map(|percent| f64::from(percent) / 100.0);
        for (seen, expected) in
            [(share(&|id| id == 4), masked), (share(&|id| id == 99), kept + random / 195.0), (share(&|id| id < 4), 0.0)]
        {
            let bound = 5.0 * (expected * (1.0 - expected) / 20_000.0).sqrt() + 1e-12;
            assert!((seen - expected).abs() < bound, "{replace:?}: {seen}, expected {expected}");
        }
    }
}

#[test]
fn unigram_words_are_as_likely_as_they_are_frequent() {
    let view = Mask { random_words: RandomWords::Unigram, replacement: [0, 100, 0], ..mask(Unit::Subword, 1.0) };
    let batch = render(&view, &[99; 500], 100, 1);
    let mut counts = vec![0.0; 200];
    let ids = batch.column("view", INPUT_IDS).expect("made");
    for id in (0..100).flat_map(|row| &ids.row(row)[1..501]) {
        counts[usize::try_from(*id).expect("an id")] += 1.0;
    }
    assert!(counts[..5].iter().all(|&count| count == 0.0), "no special is drawn");
    let total: f64 = (5..200).map(f64::from).sum();
    let chi_square: f64 = (5_u32..200)
        .zip(&counts[5..])
        .map(|(id, count)| {
            let expected = 50_000.0 * f64::from(id) / total;
            (count - expected).powi(2) / expected
        })
        .sum();
    assert!(chi_square < 194.0 + 5.0 * (2.0_f64 * 194.0).sqrt(), "{chi_square}");
}

#[test]
fn draws_are_there_where_something_is_predicted() {
    let view = Mask { mask_special_tokens: true, mask_cls: true, ..mask(Unit::Subword, 0.5) };
    let batch = render(&view, &[9; 62], 200, 2);
    let draws = batch.column("view", DRAWS).expect("made");
    let labels = batch.column("view", LABELS).expect("made");
    let mut bits = vec![0.0; 32];
    let mut seen = BTreeSet::new();
    for (draw, label) in draws.values().iter().zip(labels.values()) {
        if *label == IGNORE {
            assert_eq!(*draw, 0);
        } else {
            seen.insert(*draw);
            (0..32).for_each(|bit| bits[bit] += f64::from(draw.cast_unsigned() >> bit & 1));
        }
    }
    // 12,800 draws of 32 bits: one collision is expected in 50 such tests.
    assert!(seen.len() >= 12_799, "{}", seen.len());
    assert!(bits.iter().all(|ones| (ones - 6400.0).abs() < 5.0 * 3200_f64.sqrt()), "{bits:?}");
}

#[test]
fn words_are_masked_whole_and_skipped_where_they_overshoot() {
    let content = words_of(&[1, 2, 3, 5], 44);
    let starts: Vec<usize> = (0..44).filter(|&at| content[at] < PIECES).collect();
    let mut per_length = vec![vec![]; 6];
    for row in masks(&mask(Unit::Word, 0.15), &content, 4000, 1) {
        // Six only if all words of one token are among them.
        assert!((6..=7).contains(&row.len()), "{row:?}");
        for (word, &start) in starts.iter().enumerate() {
            let end = starts.get(word + 1).copied().unwrap_or(44);
            let inside = (start..end).filter(|at| row.contains(at)).count();
            assert!(inside == 0 || inside == end - start, "{start}..{end} of {row:?}");
            per_length[end - start].push((word, inside > 0));
        }
    }
    for (length, seen) in per_length.iter().enumerate().filter(|(_, seen)| !seen.is_empty()) {
        let mut counts = vec![0.0; starts.len()];
        seen.iter().filter(|(_, masked)| *masked).for_each(|(word, _)| counts[*word] += 1.0);
        let words: BTreeSet<usize> = seen.iter().map(|(word, _)| *word).collect();
        let counts: Vec<f64> = words.iter().map(|&word| counts[word]).collect();
        assert_uniform(&counts, counts.iter().sum::<f64>() / counts.len() as f64);
        assert!(counts.iter().all(|&count| count > 0.0), "words of {length} tokens are masked");
    }
    let only_long = words_of(&[9], 36);
    assert!(masks(&mask(Unit::Word, 0.15), &only_long, 20, 1).iter().all(BTreeSet::is_empty), "5 tokens fit no word");
}

#[test]
fn a_number_of_words_is_at_most_a_quarter() {
    // (words, expected): min(⌊0.25 n⌋, max(1, round(0.15 n))).
    for (words, expected) in [(0, 0), (1, 0), (3, 0), (4, 1), (7, 1), (9, 1), (10, 2), (40, 6), (127, 19)] {
        let content = words_of(&[3], 3 * words);
        for copies in [1, 3] {
            let view = Mask { word_budget: WordBudget::Words, disjoint: copies > 1, ..mask(Unit::Word, 0.15) };
            for row in masks(&view, &content, 5, copies) {
                assert_eq!(row.len(), 3 * expected, "{words} words");
                assert!(row.iter().all(|&at| row.contains(&(at - at % 3))), "{row:?}");
            }
        }
    }
}

#[test]
fn words_begin_where_both_tokenizers_say_so() {
    let check = |name: &str, text: &str, expected: &[usize]| {
        let tokenizer = tokenizer(name);
        let vocab = tokenizer.facts().vocab(vec![1; tokenizer.facts().tokens.len()]);
        let special = vocab.special();
        let ids = tokenizer.ids(text).expect("encoded");
        let row: Vec<i32> =
            [&[special.cls], ids.as_slice(), &[special.sep]].concat().iter().map(|id| id.cast_signed()).collect();
        let mut positions = Vec::new();
        Candidates { specials: false, cls: false }.find(&row, &vocab, &mut positions);
        let borders = words::borders(&row, &positions, &vocab);
        let lengths: Vec<usize> = borders.windows(2).map(|word| usize::from(word[1] - word[0])).collect();
        assert_eq!(lengths, expected, "{name}: {text}");
    };
    check("wordpiece", "the cats sat", &[1, 2, 1]);
    check("wordpiece", "cats[SEP]12", &[2, 2]);
    check("wordpiece", "", &[]);
    // A first word has no space before it; a mark after a word belongs to it.
    check("byte_bpe", "the a the", &[2, 1, 1]);
    check("byte_bpe", "a the's", &[1, 2]);
    assert_eq!(TOKENIZERS.len(), 2, "another family needs its own cases");
}

#[test]
fn words_begin_a_row_that_lost_its_first_token() {
    // A raw crop may begin within a word.
    let positions: Vec<u16> = (0..5).collect();
    assert_eq!(words::borders(&[150, 150, 50, 150, 50], &positions, &pieces()), [0, 2, 4, 5]);
    assert_eq!(words::borders(&[], &[], &pieces()), [0]);
}

#[test]
fn spans_fill_their_budget_and_share_one_decision() {
    let content = words_of(&[1, 2, 3, 1], 150);
    for (span, rate) in [(SpanSampler::Tiles, 0.15), (SpanSampler::Spanbert, 0.15), (SpanSampler::Spanbert, 1.0)] {
        let view =
            Mask { span, replacement: [50, 30, 20], random_words: RandomWords::Unigram, ..mask(Unit::Span, rate) };
        let batch = render(&view, &content, 300, 1);
        let ids = batch.column("view", INPUT_IDS).expect("made");
        let mut decisions = vec![0.0; 2];
        for (row, chosen) in chosen(&batch).into_iter().enumerate() {
            assert_eq!(
                chosen.len(),
                Budget { rate, ..view.budget() }.size(152, 150, &at(&Keys::new(0, Epoch(0), "v"), 0, 1))
            );
            let chosen: Vec<usize> = chosen.into_iter().collect();
            for run in chosen.chunk_by(|left, right| left + 1 == *right) {
                let hidden = run.iter().filter(|&&at| ids.row(row)[at + 1] == 4).count();
                assert!(hidden == 0 || hidden == run.len(), "{span:?}: {run:?}");
                decisions[usize::from(hidden == 0)] += 1.0;
            }
        }
        if rate < 1.0 {
            assert_uniform(&decisions, decisions.iter().sum::<f64>() / 2.0);
        }
    }
}

#[test]
fn spanberts_spans_begin_with_a_word() {
    let content = words_of(&[2, 3, 1], 300);
    let view = Mask { span: SpanSampler::Spanbert, ..mask(Unit::Span, 0.1) };
    for row in masks(&view, &content, 300, 1) {
        let begins = |at: usize| at == 0 || !row.contains(&(at - 1));
        // A truncated span can only be followed by the rest of its word, never begin with it.
        assert!(row.iter().all(|&at| !begins(at) || content[at] < PIECES), "{row:?}");
    }
}

#[test]
fn contradictions_are_refused() {
    let check = |text: &str, expected: &[&str]| {
        let mask: Mask = toml::from_str(text).expect("a mask");
        let keys: Vec<_> = mask.problems().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, expected, "{text}");
    };
    check("rate = 1.5\nreplacement = [80, 10, 11]", &["rate", "replacement"]);
    check("mask_cls = true", &["mask_cls"]);
    check("unit = \"word\"\nword_budget = \"words\"\nrate = 0.3", &["rate"]);
    check("unit = \"word\"\ndisjoint = true", &["disjoint"]);
    check("unit = \"span\"\nspan = \"spanbert\"\ndisjoint = true", &["disjoint"]);
    check("unit = \"word\"\nword_budget = \"words\"\ndisjoint = true", &[]);
    check("unit = \"span\"\ndisjoint = true\ncount = \"stochastic_round\"\nrandom_words = \"unigram\"", &[]);
    check(
        "mask_special_tokens = true\nmask_cls = true\nreplacement = [0, 0, 100]\ncount = \"bernoulli\"\ndisjoint = true",
        &[],
    );
}

fn at(keys: &Keys, copy: u32, copies: u32) -> RowAddress<'_> {
    RowAddress { keys, sample: SampleAddress::numbered(0), copy, copies, pieces: 1 }
}

mod copies;
