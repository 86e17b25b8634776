use proptest::prelude::*;
use schemas::SpecialIds;
use schemas::manifest::PackReport;

use super::*;

const SPECIAL: SpecialIds = SpecialIds { pad: 4, unk: None, cls: 1, sep: 0, mask: 3 };
const SEPARATOR: u32 = SPECIAL.sep;

type Owned = (Vec<u32>, Vec<u16>, Vec<u64>);

fn packing(name: &str) -> AnyPacking {
    AnyPacking::of_kind(name).expect("a known packing")
}

/// Returns document `d` (from 1) of length n: `100 d + 1 ..= 100 d + n`.
fn document(document: u32, length: usize) -> Vec<u32> {
    (1..).take(length).map(|i| document * 100 + i).collect()
}

/// Packs such documents, each passed in pieces (or sentences) of length `piece`. Returns samples, the starts of their
/// sentences, and the report.
fn pack_as(pack: &str, lengths: &[usize], max_seq_len: u32, piece: usize) -> (Vec<Owned>, Vec<Vec<u16>>, PackReport) {
    let mut samples = Vec::new();
    let mut sentences = Vec::new();
    let mut sink = |sample: Packed<'_>| {
        assert_eq!(u64::from(sample.source), sample.documents[0], "the source of the first document");
        samples.push((sample.input_ids.to_vec(), sample.document_starts.to_vec(), sample.documents.to_vec()));
        sentences.push(sample.sentence_starts.to_vec());
        Ok(())
    };
    let mut packer = Packer::new(&packing(pack), max_seq_len, SPECIAL);
    for (name, &length) in (1_u16..).zip(lengths) {
        packer.begin(u64::from(name), name);
        for ids in document(u32::from(name), length).chunks(piece) {
            packer.extend(ids, &mut sink).expect("the sink never fails");
        }
        packer.end(&mut sink).expect("the sink never fails");
    }
    let report = packer.finish(&mut sink).expect("the sink never fails");
    (samples, sentences, report)
}

fn pack(lengths: &[usize], content_max: u32, piece: usize) -> Vec<Owned> {
    pack_as("block", lengths, content_max + 2, piece).0
}

/// Checks the invariants of packing for document `lengths` and the resulting samples.
fn check(lengths: &[usize], content_max: u32, samples: &[Owned]) {
    let context = || format!("{lengths:?} into {content_max}: {samples:?}");
    let tokens: Vec<u32> = samples.iter().flat_map(|(ids, ..)| ids.iter().copied()).collect();
    let content: Vec<u32> = tokens.iter().copied().filter(|&id| id != SEPARATOR).collect();
    let expected: Vec<u32> = (1..).zip(lengths).flat_map(|(d, &n)| (1..).take(n).map(move |i| d * 100 + i)).collect();
    assert_eq!(content, expected, "tokens are conserved and in order: {}", context());
    for (index, (ids, starts, documents)) in samples.iter().enumerate() {
        let full = ids.len() == content_max as usize;
        assert!(full || (index + 1 == samples.len() && !ids.is_empty()), "only the last is short: {}", context());
        assert_eq!((starts.len(), starts[0]), (documents.len(), 0), "{}", context());
        assert_ne!(ids[0], SEPARATOR, "no row begins with a separator: {}", context());
        for (at, &id) in ids.iter().enumerate().filter(|&(_, &id)| id != SEPARATOR) {
            let owner = starts.partition_point(|&start| usize::from(start) <= at) - 1;
            assert_eq!(u64::from(id / 100), documents[owner], "every token has its document: {}", context());
        }
        for &start in &starts[1..] {
            assert_eq!(ids[usize::from(start) - 1], SEPARATOR, "separators are between documents: {}", context());
        }
        let last = index + 1 == samples.len() || ids[ids.len() - 1] != SEPARATOR;
        let separators = ids.iter().filter(|&&id| id == SEPARATOR).count();
        assert_eq!(separators, starts.len() - usize::from(last), "{}", context());
    }
}

#[test]
fn every_packing_of_six_documents_of_four_tokens() {
    for count in 0..=6_u32 {
        for code in 0..5_usize.pow(count) {
            let lengths: Vec<usize> = (0..count).map(|digit| code / 5_usize.pow(digit) % 5).collect();
            for content_max in [1, 2, 3, 4, 5, 7] {
                let samples = pack(&lengths, content_max, 4);
                check(&lengths, content_max, &samples);
            }
        }
    }
}

proptest! {
    #[test]
    fn packing_conserves_tokens(lengths in prop::collection::vec(0_usize..60, 0..30), content_max in 1_u32..90, piece in 1_usize..40) {
        let samples = pack(&lengths, content_max, piece);
        check(&lengths, content_max, &samples);
        prop_assert_eq!(samples, pack(&lengths, content_max, 1000), "pieces leave no trace");
    }
}

#[test]
fn a_separator_stands_between_two_documents_of_a_row() {
    let samples = pack(&[2, 3, 1], 4, 10);
    let expected = [(vec![101, 102, 0, 201], vec![0, 3], vec![1, 2]), (vec![202, 203, 0, 301], vec![0, 3], vec![2, 3])];
    assert_eq!(samples, expected);
}

/// Returns every corpus of up to five documents of up to four tokens.
fn small_corpora() -> impl Iterator<Item = Vec<usize>> {
    (0..=5_u32).flat_map(|count| {
        (0..5_usize.pow(count)).map(move |code| (0..count).map(|digit| code / 5_usize.pow(digit) % 5).collect())
    })
}

#[test]
fn taco_cuts_framed_documents_into_full_rows() {
    for lengths in small_corpora() {
        for (max_seq_len, piece) in [(3, 4), (4, 1), (5, 2), (7, 4)] {
            let (samples, _, report) = pack_as("taco", &lengths, max_seq_len, piece);
            let framed = |(d, &n): (u32, &usize)| [&[SPECIAL.cls], &document(d, n)[..], &[SPECIAL.sep]].concat();
            let stream: Vec<u32> = (1..).zip(&lengths).filter(|(_, n)| **n > 0).flat_map(framed).collect();
            let kept = stream.len() / max_seq_len as usize * max_seq_len as usize;
            let packed: Vec<u32> = samples.iter().flat_map(|(ids, ..)| ids.iter().copied()).collect();
            assert_eq!(packed, stream[..kept], "{lengths:?} into {max_seq_len}");
            assert_eq!(report, PackReport { cut_tokens: (stream.len() - kept) as u64, ..PackReport::default() });
            for (ids, starts, documents) in &samples {
                assert_eq!((ids.len(), starts[0], starts.len()), (max_seq_len as usize, 0, documents.len()));
                assert!(starts[1..].iter().all(|&start| ids[usize::from(start)] == SPECIAL.cls), "{samples:?}");
                for (at, &id) in ids.iter().enumerate().filter(|&(_, &id)| id >= 100) {
                    let owner = starts.partition_point(|&start| usize::from(start) <= at) - 1;
                    assert_eq!(u64::from(id / 100), documents[owner], "{samples:?}");
                }
            }
        }
    }
}

#[test]
fn a_document_is_a_sample_and_what_is_cut_is_counted() {
    for lengths in small_corpora() {
        for (content_max, piece) in [(1, 4), (2, 1), (3, 2), (4, 4)] {
            let (samples, _, report) = pack_as("document", &lengths, content_max + 2, piece);
            let kept = (1..).zip(&lengths).filter(|(_, n)| **n > 0);
            let expected: Vec<Owned> =
                kept.map(|(d, &n)| (document(d, n.min(content_max as usize)), vec![0], vec![u64::from(d)])).collect();
            assert_eq!(samples, expected);
            let cut = |n: &usize| n.saturating_sub(content_max as usize) as u64;
            let cut_tokens = lengths.iter().map(cut).sum();
            let cut_documents = lengths.iter().map(|n| cut(n).min(1)).sum();
            assert_eq!(report, PackReport { cut_documents, cut_tokens, ..PackReport::default() }, "{lengths:?}");
        }
    }
}

#[test]
fn whole_sentences_of_one_document_fill_a_sample() {
    for lengths in small_corpora() {
        for (content_max, sentence) in [(1, 1), (2, 1), (2, 2), (3, 2), (3, 4), (4, 3)] {
            let (samples, sentences, report) = pack_as("sentences", &lengths, content_max + 3, sentence);
            let context = format!("{lengths:?} into {content_max}: {samples:?} {sentences:?}");
            let packed: Vec<u32> = samples.iter().flat_map(|(ids, ..)| ids.iter().copied()).collect();
            let all: Vec<u32> = (1..).zip(&lengths).flat_map(|(d, &n)| document(d, n)).collect();
            assert_eq!(packed, all, "tokens are conserved and in order: {context}");
            let full = content_max as usize;
            for ((ids, starts, documents), sentences) in samples.iter().zip(&sentences) {
                assert_eq!((&starts[..], documents.len()), (&[0][..], 1), "one document: {context}");
                assert!(ids.len() <= full && ids.iter().all(|id| u64::from(id / 100) == documents[0]), "{context}");
                assert_eq!(sentences[0], 0, "{context}");
                for (at, id) in ids.iter().enumerate() {
                    let within = (id % 100 - 1) as usize % sentence;
                    let begins = at == 0 || within.is_multiple_of(full);
                    assert_eq!(sentences.contains(&u16::try_from(at).expect("small")), begins, "{context}");
                    assert!(at > 0 || within.is_multiple_of(full), "no sentence is cut that fits: {context}");
                }
            }
            for (before, after) in samples.iter().zip(&samples[1.min(samples.len())..]) {
                let one_document = before.2 == after.2;
                let next = after.0.len().min(sentence).min(full);
                assert!(
                    !one_document || before.0.len() + next > full || next < sentence.min(full),
                    "greedy: {context}"
                );
            }
            let count = |length: usize| (length.div_ceil(sentence), length / sentence, length % sentence);
            let mut found = 0;
            let mut cut = 0;
            for (all, whole, rest) in lengths.iter().map(|&length| count(length)) {
                found += all as u64;
                cut += if sentence > full { whole as u64 } else { 0 } + u64::from(rest > full);
            }
            let expected = PackReport { sentences: found, cut_sentences: cut, ..PackReport::default() };
            assert_eq!(report, expected, "{context}");
        }
    }
}

#[test]
fn too_long_sentence_continues_in_the_next_sample() {
    let (samples, sentences, _) = pack_as("sentences", &[12], 6, 5);
    let lengths: Vec<usize> = samples.iter().map(|(ids, ..)| ids.len()).collect();
    assert_eq!(lengths, [3, 2, 3, 2, 2]);
    assert_eq!(sentences, [[0]; 5]);
    let (samples, sentences, _) = pack_as("sentences", &[7], 7, 5);
    assert_eq!(samples.iter().map(|(ids, ..)| ids.len()).collect::<Vec<_>>(), [4, 3]);
    assert_eq!(sentences, [vec![0], vec![0, 1]], "the rest of one, then the next");
}
