//! Contract tests that every packing passes.

use schemas::SpecialIds;
use schemas::manifest::{Frame, PackReport};

use super::*;

const SPECIAL: SpecialIds = SpecialIds { pad: 4, unk: None, cls: 1, sep: 0, mask: 3 };

/// Copy of a sample that the packer emitted.
struct Sample {
    input_ids: Vec<u32>,
    document_starts: Vec<u16>,
    documents: Vec<u64>,
    sentence_starts: Vec<u16>,
}

/// Packs documents in pieces (or sentences) of length `piece`; document `d` (from 1) is `100 d + 1 ..= 100 d + n`.
fn pack(packing: &AnyPacking, lengths: &[usize], max_seq_len: u32, piece: usize) -> (Vec<Sample>, PackReport) {
    let mut samples = Vec::new();
    let mut sink = |packed: Packed<'_>| {
        samples.push(Sample {
            input_ids: packed.input_ids.to_vec(),
            document_starts: packed.document_starts.to_vec(),
            documents: packed.documents.to_vec(),
            sentence_starts: packed.sentence_starts.to_vec(),
        });
        Ok(())
    };
    let mut packer = Packer::new(packing, max_seq_len, SPECIAL);
    for (name, &length) in (1..).zip(lengths) {
        packer.begin(u64::from(name), 7);
        let ids: Vec<u32> = (1..).take(length).map(|token| name * 100 + token).collect();
        ids.chunks(piece).for_each(|ids| packer.extend(ids, &mut sink).expect("the sink never fails"));
        packer.end(&mut sink).expect("the sink never fails");
    }
    let report = packer.finish(&mut sink).expect("the sink never fails");
    (samples, report)
}

/// Corpora: empty, one, full, over-full documents; several at a time.
const CORPORA: [&[usize]; 8] =
    [&[], &[0], &[1], &[9], &[10], &[11], &[40, 0, 1, 10], &[3, 9, 27, 1, 0, 8, 99, 5, 5, 5]];

fn every(check: impl Fn(&AnyPacking, &[usize], u32, usize)) {
    for packing in AnyPacking::examples() {
        for max_seq_len in [packing.tokens_min(), 12, 13, 64] {
            for lengths in CORPORA {
                for piece in [1, 4, 100] {
                    check(&packing, lengths, max_seq_len, piece);
                }
            }
        }
    }
}

#[test]
fn every_packing_conserves_tokens_or_counts_what_it_cuts() {
    every(|packing, lengths, max_seq_len, piece| {
        let (samples, report) = pack(packing, lengths, max_seq_len, piece);
        let ordinary = |sample: &Sample| sample.input_ids.iter().filter(|&&id| id >= 100).copied().collect::<Vec<_>>();
        let packed: Vec<u32> = samples.iter().flat_map(ordinary).collect();
        let context = format!("{} of {lengths:?} in pieces of {piece} into {max_seq_len}", packing.kind());
        assert!(packed.is_sorted_by(|a, b| a < b), "{context}: {packed:?}");
        let lost = lengths.iter().sum::<usize>() - packed.len();
        let framed = if packing.frame() == Frame::None { 2 * lengths.len() } else { 0 };
        let cut = usize::try_from(report.cut_tokens).expect("few");
        assert!((lost..=lost + framed).contains(&cut), "{context}: {lost} lost, {report:?}");
    });
}

#[test]
fn every_packing_respects_its_length_and_records_documents() {
    every(|packing, lengths, max_seq_len, piece| {
        let content = packing.content(max_seq_len) as usize;
        let inside = if packing.frame() == Frame::None { content } else { content + 2 };
        assert!((1..=max_seq_len as usize).contains(&inside), "{}", packing.kind());
        for sample in pack(packing, lengths, max_seq_len, piece).0 {
            let Sample { input_ids, document_starts, documents, sentence_starts } = sample;
            let context = format!("{} of {lengths:?} into {max_seq_len}: {input_ids:?}", packing.kind());
            assert!((1..=content).contains(&input_ids.len()), "{context}");
            let ascend = |starts: &[u16]| starts[0] == 0 && starts.is_sorted_by(|a, b| a < b);
            assert!(ascend(&document_starts) && document_starts.len() == documents.len(), "{context}");
            assert_eq!(!sentence_starts.is_empty(), packing.keeps_sentences(), "{context}");
            assert!(sentence_starts.is_empty() || ascend(&sentence_starts), "{context}");
            for (at, &id) in input_ids.iter().enumerate().filter(|&(_, &id)| id >= 100) {
                let owner = document_starts.partition_point(|&start| usize::from(start) <= at) - 1;
                assert_eq!(u64::from(id / 100), documents[owner], "{context}");
            }
        }
    });
}

#[test]
fn every_packing_that_takes_pieces_forgets_where_they_were_cut() {
    let keeps_none = |packing: &AnyPacking| !packing.keeps_sentences();
    for packing in AnyPacking::examples().into_iter().filter(keeps_none) {
        for lengths in CORPORA {
            let ids = |piece| pack(&packing, lengths, 12, piece).0.into_iter().map(|sample| sample.input_ids).collect();
            let whole: Vec<Vec<u32>> = ids(100);
            for piece in [1, 3, 10] {
                assert_eq!(ids(piece), whole, "{} in {piece}s", packing.kind());
            }
        }
    }
}
