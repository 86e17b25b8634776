//! Equality of the results of all levels.

use proptest::prelude::*;

use super::block::{BLOCK, Block as _};
use super::portable::Portable;
use super::*;

/// Returns special bytes of the kernels, and any others.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let some = prop::sample::select(b" \t\n\r\x0b\0\x7f!/:@[`{~aZ09\xe2\x80\x8f\x90\xa7\xa8\xff".to_vec());
    prop::collection::vec(prop_oneof![some, any::<u8>()], 0..300)
}

/// Returns the chunks of a text, one byte at a time.
fn slowly(text: &[u8]) -> Vec<(usize, usize)> {
    let mut chunks = Vec::new();
    let mut at = 0;
    let mut open = None;
    while at < text.len() {
        let is_dash = matches!(text[at..], [0xe2, 0x80, 0x90..=0xa7, ..]);
        let length = if is_dash { 3 } else { 1 };
        let is_mark = is_dash || text[at].is_ascii_punctuation();
        if is_mark || matches!(text[at], b' ' | b'\t' | b'\n' | b'\r') {
            chunks.extend(open.take().map(|start| (start, at)));
        } else if open.is_none() {
            open = Some(at);
        }
        if is_mark {
            chunks.push((at, at + length));
        }
        at += length;
    }
    chunks.extend(open.map(|start| (start, at)));
    chunks
}

proptest! {
    #[test]
    fn every_level_finds_the_same_words(mut text in bytes(), times in 1_usize..8, fold: bool) {
        text = text.repeat(times);
        text.truncate(WINDOW);
        let expected = slowly(&text);
        for kernels in Kernels::available() {
            let mut spans = Spans::new();
            kernels.find_words(&text, fold, &mut spans);
            let (starts, ends) = spans.all();
            let found: Vec<(usize, usize)> = starts.iter().zip(ends).map(|(&start, &end)| (start.into(), end.into())).collect();
            prop_assert_eq!(&found, &expected, "{}", kernels.name());
            let folded = if fold { text.to_ascii_lowercase() } else { text.clone() };
            prop_assert_eq!(&spans.folded()[..text.len()], &folded);
            // White space ends the last block if there is room for it.
            if text.len() % BLOCK == 0 {
                let open = expected.last().filter(|(start, end)| *end == text.len() && !matches!(text[*start..], [0xe2, 0x80, 0x90..=0xa7] | [0..=0x7f]) );
                let is_mark = expected.last().is_some_and(|&(start, _)| text[start].is_ascii_punctuation());
                prop_assert!(spans.open().is_none_or(|start| expected.last().map(|last| last.0) == Some(start)));
                prop_assert!(is_mark || open.is_none() || spans.open().is_some());
            }
        }
    }

    #[test]
    fn offsets_are_those_of_the_bits(mask: u64, base in 0_u16..60_000) {
        let expected: Vec<u16> = (0..64).filter(|bit| mask >> bit & 1 == 1).map(|bit| base + bit).collect();
        let mut target = [0; BLOCK];
        portable::offsets(mask, base, &mut target);
        prop_assert_eq!(&target[..expected.len()], &expected[..]);
    }
}

#[test]
fn classes_are_those_of_rust() {
    let block: Vec<[u8; BLOCK]> =
        (0..4).map(|quarter| std::array::from_fn(|at| quarter * 64 + u8::try_from(at).expect("small"))).collect();
    for block in block {
        let mut folded = [0; BLOCK];
        // SAFETY: the portable version needs no features.
        let classes = unsafe { Portable::classes(&block, true, &mut folded) };
        for (at, byte) in block.iter().enumerate() {
            let bit = |mask: u64| mask >> at & 1 == 1;
            assert_eq!(bit(classes.white), b" \t\n\r".contains(byte));
            assert_eq!(bit(classes.mark), byte.is_ascii_punctuation());
            assert_eq!(bit(classes.high), !byte.is_ascii());
            assert_eq!(folded[at], byte.to_ascii_lowercase());
        }
    }
}
