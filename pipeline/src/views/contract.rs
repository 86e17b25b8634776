//! Contract tests, run over every registered view.

use proptest::prelude::*;
use schemas::columns::{
    ATTENTION_MASK, DOCUMENT, IGNORE, INPUT_IDS, IS_RANDOM, LABELS, ORIGIN, POSITIVES, TOKEN_TYPES,
};
use schemas::manifest::Frame;
use schemas::{
    Batch, BatchIndex, Column, ColumnSpec, Element, Epoch, Sample, SampleAddress, SpecialIds, TokenIds, Vocab,
};

use super::AnyView;
use super::mask::{Base, Count, Mask};
use super::window::{Edge, Window};
use crate::collate::{Item, PlannedView, collate};

mod left_out;

const VOCAB: u32 = 200;
const SPECIAL: SpecialIds = SpecialIds { pad: 0, unk: Some(1), cls: 2, sep: 3, mask: 4 };

pub(super) fn vocab() -> Vocab {
    let tokens = (0..VOCAB).map(|id| format!("w{id}")).collect();
    Vocab::new(tokens, vec![true; VOCAB as usize], vec![1; VOCAB as usize], SPECIAL, &[])
}

/// Returns pseudo-random ids; every eighth is a separator.
pub(super) fn ids(count: usize, seed: u16) -> Vec<u16> {
    let id = |i: u16| if i % 8 == 7 { 3 } else { 5 + i.wrapping_mul(31).wrapping_add(seed.wrapping_mul(97)) % 186 };
    (0..).take(count).map(id).collect()
}

/// Starts of sentences in the test samples, up to their lengths.
const SENTENCES: [u16; 6] = [0, 3, 7, 20, 22, 45];

pub(super) fn sample(ids: &[u16]) -> Sample<'_> {
    let sentences = SENTENCES.partition_point(|&start| usize::from(start) < ids.len().max(1));
    Sample {
        input_ids: TokenIds::U16(ids),
        document_starts: &[0, 8],
        documents: &[7 << 40 | 5, 6],
        sentence_starts: &SENTENCES[..sentences],
        targets: &[],
        frame: Frame::ClsSep,
        source: 0,
        offset: 0,
    }
}

/// Partner of every sample: its ids are those above 190.
const PARTNER: [u16; 9] = [191, 192, 193, 194, 195, 196, 197, 198, 199];

fn partner() -> Sample<'static> {
    Sample { document_starts: &[0], documents: &[7], sentence_starts: &[0, 2, 8], ..sample(&PARTNER) }
}

pub(super) fn item(sample: Sample<'_>, index: u64) -> Item<'_> {
    let partner = Some(partner());
    let index = SampleAddress::numbered(index);
    Item { sample, partner, index, seed: 1, epoch: Epoch(2), copy: 0, copies: 1, pieces: 1 }
}

/// Returns plans of `original` and of `view` under the name `view`, with every column that either has.
pub(super) fn planned(view: AnyView, width: usize) -> Vec<PlannedView> {
    let columns = |view: &AnyView| {
        let mut columns: Vec<ColumnSpec> =
            vec![INPUT_IDS.spec(), ATTENTION_MASK.spec(), ORIGIN.spec(), DOCUMENT.spec()];
        columns.extend(view.columns().iter().filter(|spec| **spec != INPUT_IDS.spec()));
        columns
    };
    let frame = AnyView::Original(super::original::Original::default());
    let is_frame = view.of().is_none();
    let ids = usize::from(is_frame || view.columns().contains(&INPUT_IDS.spec()));
    let original = PlannedView {
        name: "original".into(),
        wanted: columns(&frame),
        view: frame,
        of: None,
        frame: 0,
        ids: 0,
        width,
    };
    let name = "view".to_owned();
    let (of, frame) = if is_frame { (None, 1) } else { (Some(0), 0) };
    let width = view.width(u32::try_from(width).expect("a row is short")) as usize;
    vec![original, PlannedView { name, wanted: columns(&view), view, of, frame, ids, width }]
}

pub(super) fn render(view: &AnyView, width: usize, samples: &[Vec<u16>]) -> Batch {
    let items: Vec<Item<'_>> = samples.iter().zip(0..).map(|(ids, index)| item(sample(ids), index)).collect();
    collate(&planned(view.clone(), width), &vocab(), BatchIndex(0), &items)
}

pub(super) fn column<T: Element>(batch: &Batch, column: Column<T>) -> Vec<T> {
    batch.column("view", column).expect("the view makes it").values().to_vec()
}

/// Returns samples of 0, 1, some and all tokens that fit a width of 64.
pub(super) fn samples() -> Vec<Vec<u16>> {
    [0, 1, 2, 3, 17, 61, 62].map(|count| ids(count, 3)).to_vec()
}

#[test]
fn same_inputs_same_bytes_and_rows_do_not_depend_on_their_batch() {
    for view in AnyView::examples() {
        let whole = render(&view, 64, &samples());
        assert_eq!(whole.row_digests().to_vec(), render(&view, 64, &samples()).row_digests().to_vec(), "{view:?}");
        for (row, ids) in samples().iter().enumerate() {
            let items = [item(sample(ids), row as u64)];
            let alone = collate(&planned(view.clone(), 64), &vocab(), BatchIndex(0), &items);
            for &spec in view.columns() {
                let mut both = [whole.slice(row, 1), alone.clone()].map(|batch| {
                    let array = batch.record().column_by_name(&format!("view.{}", spec.name)).cloned();
                    array.expect("declared, so made")
                });
                let [in_batch, alone] = &mut both;
                assert_eq!(in_batch, alone, "{view:?}, row {row}, column {}", spec.name);
            }
        }
    }
}

#[test]
fn toml_round_trip_and_unknown_keys_are_refused() {
    for view in AnyView::examples() {
        let text = toml::to_string(&view).expect("a view is a table");
        assert_eq!(toml::from_str::<AnyView>(&text).expect("as written"), view);
        let kind = format!("kind = \"{}\"\n", view.kind());
        assert_eq!(toml::from_str::<AnyView>(&kind).expect("all keys have defaults"), view);
        assert!(toml::from_str::<AnyView>(&format!("{kind}no_such_key = 1")).is_err(), "{view:?}");
        assert_eq!(view.problems(), [], "a default has no problem");
    }
}

#[test]
fn columns_and_widths_are_as_declared() {
    for view in AnyView::examples() {
        let width = view.width(64);
        let batch = render(&view, 64, &samples());
        for spec in view.columns() {
            let array = batch.record().column_by_name(&format!("view.{}", spec.name)).expect("declared, so made");
            let list = arrow_array::cast::AsArray::as_fixed_size_list(array);
            assert_eq!(list.value_type(), spec.element.data_type(), "{view:?} {}", spec.name);
            assert_eq!(list.value_length().cast_unsigned(), width, "{view:?} {}", spec.name);
        }
    }
}

#[test]
fn every_view_keeps_origins_and_padding() {
    for view in AnyView::examples() {
        let batch = render(&view, 64, &samples());
        let width = view.width(64) as usize;
        let ids = column(&batch, INPUT_IDS);
        let origin = column(&batch, ORIGIN);
        let mask = column(&batch, ATTENTION_MASK);
        let document = column(&batch, DOCUMENT);
        let labels = batch.find("view", LABELS).expect("no type clash").map(|grid| grid.values().to_vec());
        for (row, content) in samples().iter().enumerate() {
            let cells = row * width..(row + 1) * width;
            let tokens = mask[cells].iter().map(|&real| usize::from(real)).sum::<usize>();
            // Frames of sentences and crops omit tokens; all other frames contain the whole sample.
            let is_whole = !view.needs_sentences() && view.kind() != "crop";
            assert!(!is_whole || tokens == content.len() + 2, "{view:?}, row {row}: {tokens} tokens");
            let concatenation = [content, &PARTNER[..]].concat();
            for at in 0..width {
                let cell = row * width + at;
                let where_ = format!("{view:?}, row {row}, column {at}");
                let label = labels.as_ref().map_or(IGNORE, |labels| labels[cell]);
                assert_eq!(mask[cell], u8::from(at < tokens), "{where_}");
                if mask[cell] == 0 {
                    assert_eq!((ids[cell], origin[cell], document[cell], label), (0, -1, -1, IGNORE), "{where_}");
                } else if let Ok(origin) = usize::try_from(origin[cell]) {
                    let original = i32::from(concatenation[origin]);
                    assert_eq!(if label == IGNORE { ids[cell] } else { label }, original, "{where_}");
                    let owner = if origin >= content.len() { 7 } else { 5 + i32::from(origin >= 8) };
                    assert_eq!(document[cell], owner, "{where_}");
                } else {
                    assert!(label != IGNORE || [2, 3].contains(&ids[cell]), "{where_}: the frame's tokens are special");
                    assert_eq!(document[cell], -1, "{where_}");
                }
            }
        }
    }
}

#[test]
fn full_rows_have_no_attention_mask() {
    for view in AnyView::examples().into_iter().filter(|view| !view.needs_sentences()) {
        let batch = render(&view, 64, &[ids(62, 1), ids(62, 2)]);
        let cropped = view.kind() == "crop";
        assert_eq!(batch.find("view", ATTENTION_MASK).expect("no type clash").is_some(), cropped, "{view:?}");
    }
}

fn masked_positions(batch: &Batch) -> Vec<Vec<usize>> {
    let labels = batch.column("view", LABELS).expect("a mask makes it");
    let row =
        |row| labels.row(row).iter().enumerate().filter(|(_, label)| **label != IGNORE).map(|(at, _)| at).collect();
    (0..labels.rows()).map(row).collect()
}

#[test]
fn exact_counts_round_half_up() {
    // (maskable tokens, base, expected): published objectives use both bases.
    let check = |maskable: usize, base, expected: usize| {
        let view = AnyView::Mask(Mask { rate_base: base, ..Mask::default() });
        let content = vec![5; maskable];
        let batch = render(&view, maskable + 4, &[content]);
        assert_eq!(masked_positions(&batch)[0].len(), expected, "{maskable} tokens, {base:?}");
    };
    for (maskable, expected) in
        [(0, 0), (1, 1), (3, 1), (10, 2), (30, 5), (50, 8), (70, 11), (110, 17), (126, 19), (510, 77)]
    {
        check(maskable, Base::Maskable, expected);
    }
    for (maskable, expected) in [(0, 0), (1, 1), (10, 2), (18, 3), (22, 4), (126, 19), (510, 77)] {
        check(maskable, Base::All, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn special_tokens_are_never_masked_unless_asked(
        content in prop::collection::vec(0_u16..12, 0..62), rate in 0.0_f64..=1.0, bernoulli: bool, specials: bool,
        cls: bool,
    ) {
        let count = if bernoulli { Count::Bernoulli } else { Count::Exact };
        let view = AnyView::Mask(Mask { rate, count, mask_special_tokens: specials, mask_cls: cls, ..Mask::default() });
        let batch = render(&view, 64, std::slice::from_ref(&content));
        let ids = std::iter::once(2).chain(content.iter().copied()).chain([3]).collect::<Vec<_>>();
        let masked = masked_positions(&batch).remove(0);
        let candidate = |id: u16| id > 4 || specials && (cls || id != 2);
        prop_assert!(masked.iter().all(|&at| at < ids.len() && candidate(ids[at])));
        let candidates = ids.iter().filter(|&&id| candidate(id)).count();
        if !bernoulli {
            let exact = (rate * candidates as f64 + 0.5).floor().max(1.0).min(candidates as f64);
            prop_assert!((masked.len() as f64 - exact).abs() < 0.5, "{} for {}", masked.len(), exact);
        }
    }
}

/// Renders 600 rows of 500 maskable tokens, for statistics.
fn many(view: &AnyView) -> (Batch, Vec<Vec<usize>>) {
    let samples: Vec<Vec<u16>> = (0..600).map(|_| vec![150; 500]).collect();
    let batch = render(view, 502, &samples);
    let masked = masked_positions(&batch);
    (batch, masked)
}

#[test]
fn bernoulli_counts_have_the_binomial_mean_and_variance() {
    let view = AnyView::Mask(Mask { count: Count::Bernoulli, ..Mask::default() });
    let counts: Vec<f64> = many(&view).1.iter().map(|row| row.len() as f64).collect();
    let mean = counts.iter().sum::<f64>() / 600.0;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 599.0;
    // 500·0.15 = 75 and 500·0.15·0.85 = 63.75; the bounds are five standard errors.
    assert!((mean - 75.0).abs() < 5.0 * (63.75_f64 / 600.0).sqrt(), "{mean}");
    assert!((variance - 63.75).abs() < 5.0 * 63.75 * (2.0_f64 / 599.0).sqrt(), "{variance}");
}

#[test]
fn masked_positions_are_uniform_and_replaced_80_10_10() {
    let (batch, masked) = many(&AnyView::Mask(Mask::default()));
    let ids = batch.column("view", INPUT_IDS).expect("made");
    let mut per_position = vec![0.0; 500];
    let mut kinds = [0.0; 3];
    let mut words = vec![0.0; VOCAB as usize];
    for (row, masked) in masked.iter().enumerate() {
        assert_eq!(masked.len(), 75);
        for &at in masked {
            per_position[at - 1] += 1.0;
            match ids.row(row)[at] {
                4 => kinds[0] += 1.0,
                150 => kinds[2] += 1.0,
                word => {
                    kinds[1] += 1.0;
                    words[usize::try_from(word).expect("an id")] += 1.0;
                }
            }
        }
    }
    assert_uniform(&per_position, 90.0);
    // A random word equals the original in 1 of 195 cases.
    let drawn = kinds[1] + kinds[1] / 194.0;
    for (share, expected) in [(kinds[0], 0.8), (drawn, 0.1), (kinds[2] - kinds[1] / 194.0, 0.1)] {
        let error: f64 = share / 45_000.0 - expected;
        assert!(error.abs() < 5.0 * (expected * (1.0 - expected) / 45_000.0_f64).sqrt(), "{kinds:?}");
    }
    assert!(words[..5].iter().all(|&count| count == 0.0), "no special is drawn");
    words.remove(150);
    assert_uniform(&words[5..], kinds[1] / 194.0);
}

/// Checks the chi-square statistic against the uniform distribution, up to five standard deviations above its mean.
pub(super) fn assert_uniform(counts: &[f64], expected: f64) {
    let chi_square: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
    let freedom = counts.len() as f64;
    assert!(chi_square < freedom + 5.0 * (2.0 * freedom).sqrt(), "{chi_square} for {freedom}: {counts:?}");
}

#[test]
fn positives_are_uniform_over_the_allowed_offsets() {
    for (edge, max_offset, tokens) in
        [(Edge::Window, 2, 502), (Edge::Window, 5, 9), (Edge::Anywhere, 2, 302), (Edge::Window, 9, 5)]
    {
        let view = AnyView::Window(Window { max_offset, edge, ..Window::default() });
        let samples: Vec<Vec<u16>> = (0..4000).map(|_| vec![9; tokens - 2]).collect();
        let batch = render(&view, tokens + 3, &samples);
        let positives = batch.column("view", POSITIVES).expect("made");
        for anchor in [0, 1, 2, 3, 4, tokens / 2, tokens - 3, tokens - 2, tokens - 1] {
            let mut counts = vec![0.0; tokens];
            for row in 0..4000 {
                counts[usize::try_from(positives.row(row)[anchor]).expect("a token has a positive")] += 1.0;
                assert_eq!(positives.row(row)[tokens..], [-1; 3], "padding has none");
            }
            let near = |at: &usize| *at != anchor && at.abs_diff(anchor) <= usize::from(max_offset);
            let inside: Vec<usize> = (0..tokens).filter(near).collect();
            let lost = 2 * usize::from(max_offset) - inside.len();
            match edge {
                Edge::Window => {
                    assert!((0..tokens).all(|at| near(&at) || counts[at] == 0.0), "{anchor}: {counts:?}");
                    assert_uniform(
                        &inside.iter().map(|&at| counts[at]).collect::<Vec<_>>(),
                        4000.0 / inside.len() as f64,
                    );
                }
                Edge::Anywhere => {
                    let share = lost as f64 / (2.0 * f64::from(max_offset));
                    let far: f64 = (0..tokens).filter(|at| *at != anchor && !near(at)).map(|at| counts[at]).sum();
                    let expected = 4000.0 * share * (tokens - 1 - inside.len()) as f64 / (tokens - 1) as f64;
                    assert!((far - expected).abs() <= 5.0 * expected.sqrt(), "{anchor}: {far} for {expected}");
                }
            }
        }
    }
}

#[test]
fn a_row_of_one_token_has_no_positive() {
    // A frame always has two tokens; a view of another frame may have fewer.
    let mut columns = vec![crate::row::Values::with_room(POSITIVES.spec(), 4)];
    columns[0].grow(4);
    let keys = crate::rng::Keys::new(1, Epoch(0), "w");
    let at = crate::rng::RowAddress { keys: &keys, sample: SampleAddress::numbered(0), copy: 0, copies: 1, pieces: 1 };
    for tokens in [0, 1] {
        let cells = crate::row::Cells { columns: &mut columns, row: 0, width: 4 };
        let mut row = crate::row::RowMut { input_ids: &mut [], tokens, cells };
        let source = super::ViewSource::Row(crate::row::Row { input_ids: &[2, 0, 0, 0], tokens });
        AnyView::Window(Window::default()).render(source, &vocab(), &at, &mut row);
        assert_eq!(columns[0].get(POSITIVES).expect("made"), [-1; 4]);
    }
}

#[test]
fn a_view_draws_by_its_name_alone() {
    let mask = AnyView::Mask(Mask::default());
    let mut views = planned(mask.clone(), 64);
    let items = samples();
    let items: Vec<Item<'_>> = items.iter().zip(0..).map(|(ids, index)| item(sample(ids), index)).collect();
    let before = collate(&views, &vocab(), BatchIndex(0), &items);
    let another = PlannedView { name: "another".into(), ids: 2, ..views[1].clone() };
    views.push(another);
    let after = collate(&views, &vocab(), BatchIndex(0), &items);
    assert_eq!(column(&before, LABELS), column(&after, LABELS));
    assert_ne!(column(&after, LABELS), after.column("another", LABELS).expect("made").values());
}

#[test]
fn pieces_and_offsets_keep_origins() {
    let content = ids(40, 9);
    let piece = sample(&content).slice(5..20);
    let batch = collate(&planned(AnyView::Mask(Mask::default()), 24), &vocab(), BatchIndex(0), &[item(piece, 0)]);
    let origin = column(&batch, ORIGIN);
    assert_eq!(origin[..17], (0..17).map(|at| if (1..16).contains(&at) { at + 4 } else { -1 }).collect::<Vec<i16>>());
    assert_eq!(column(&batch, DOCUMENT)[1..16], [[5; 3].as_slice(), &[6; 12]].concat());
}

#[test]
fn a_sample_with_its_frame_inside_is_only_padded() {
    let content: Vec<u16> = [2, 9, 10, 3, 2, 11, 3].to_vec();
    let framed = Sample { frame: Frame::None, ..sample(&content) };
    for (view, width) in
        [(AnyView::Mask(Mask::default()), 9), (AnyView::Original(super::original::Original::default()), 7)]
    {
        let batch = collate(&planned(view, width), &vocab(), BatchIndex(0), &[item(framed, 0)]);
        let original: Vec<i32> = batch.column("original", INPUT_IDS).expect("made").values().to_vec();
        assert_eq!(original[..7], content.iter().map(|&id| i32::from(id)).collect::<Vec<_>>());
        assert_eq!(column(&batch, ORIGIN)[..7], [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(column(&batch, DOCUMENT)[..7], [5; 7]);
        if let Some(labels) = batch.find("view", LABELS).expect("no type clash") {
            assert_eq!(original[7..], [0, 0]);
            let special = content.iter().zip(labels.values()).filter(|(id, _)| **id < 5);
            assert!(special.clone().count() == 4 && special.into_iter().all(|(_, &label)| label == IGNORE));
        }
    }
}

#[test]
fn edits_have_the_segments_of_their_frame() {
    let mut views = planned(AnyView::Pair(super::pair::Pair::default()), 64);
    let columns = [INPUT_IDS.spec(), ATTENTION_MASK.spec(), TOKEN_TYPES.spec(), IS_RANDOM.spec(), LABELS.spec()];
    let edit = PlannedView {
        name: "masked".into(),
        view: AnyView::Mask(Mask::default()),
        of: Some(1),
        frame: 1,
        ids: 2,
        wanted: columns.to_vec(),
        ..views[1].clone()
    };
    views.push(edit);
    let contents = samples();
    let items: Vec<Item<'_>> = contents.iter().zip(0..).map(|(ids, index)| item(sample(ids), index)).collect();
    let batch = collate(&views, &vocab(), BatchIndex(0), &items);
    let masked = |name| batch.column("masked", name).expect("inherited").values();
    assert_eq!(masked(TOKEN_TYPES), column(&batch, TOKEN_TYPES));
    assert_eq!(masked(IS_RANDOM), column(&batch, IS_RANDOM));
    assert!(masked(TOKEN_TYPES).contains(&1) && masked(IS_RANDOM).contains(&1));
    views.retain(|view| view.name != "original");
    (views[0].frame, views[0].ids) = (0, 0);
    (views[1].of, views[1].frame, views[1].ids) = (Some(0), 0, 1);
    views[0].wanted.clear();
    let alone = collate(&views, &vocab(), BatchIndex(0), &items);
    assert_eq!(
        alone.column("masked", TOKEN_TYPES).expect("inherited").values(),
        masked(TOKEN_TYPES),
        "unread by itself"
    );
}
