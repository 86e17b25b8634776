use std::ops::Range;

use proptest::prelude::*;

use super::*;

fn config(row_tokens: usize, step: WindowStep) -> WindowConfig {
    WindowConfig { row_tokens, special_tokens: 3, max_question_tokens: 4, step }
}

fn passages(windows: &[PassageWindow]) -> Vec<Range<usize>> {
    windows.iter().map(|window| window.passage.clone()).collect()
}

#[test]
fn windows_advance_by_the_stride_and_end_at_the_last_token() {
    // 17 - 3 - 4 = 10 tokens of the passage; a question of 9 tokens is cut to 4.
    let windows = plan_windows(&config(17, WindowStep::Advance(4)), 9, 21).expect("there is room");
    assert_eq!(passages(&windows), [0..10, 4..14, 8..18, 12..21]);
    assert!(windows.iter().all(|window| window.question_tokens == 4));
    let overlapping = plan_windows(&config(17, WindowStep::Overlap(4)), 4, 21).expect("there is room");
    assert_eq!(passages(&overlapping), [0..10, 6..16, 12..21]);
    assert_eq!(
        passages(&plan_windows(&config(17, WindowStep::Advance(4)), 2, 12).expect("one window")),
        vec![Range { start: 0, end: 12 }]
    );
    assert_eq!(
        passages(&plan_windows(&config(17, WindowStep::Advance(4)), 2, 0).expect("one window")),
        vec![Range { start: 0, end: 0 }]
    );
}

#[test]
fn windows_without_room_or_progress_are_refused() {
    let refused = |row, step| plan_windows(&config(row, step), 9, 21).expect_err("no windows");
    assert!(refused(7, WindowStep::Advance(4)).contains("no room"));
    assert!(refused(17, WindowStep::Advance(0)).contains("do not advance"));
    assert!(refused(17, WindowStep::Overlap(10)).contains("do not advance"));
}

#[test]
fn a_token_belongs_to_the_window_with_the_most_context() {
    let windows = [0..10, 4..14].map(|passage| PassageWindow { question_tokens: 0, passage });
    // Token 6: 3 tokens to the right in the first window, 2 to the left in the second. Token 7: 2 and 3.
    assert_eq!(max_context(&windows, 14)[4..9], [0, 0, 0, 1, 1]);
    // Token 5 has 2 neighbors on its shorter side in both; the longer window wins.
    let windows = [0..8, 3..9].map(|passage| PassageWindow { question_tokens: 0, passage });
    assert_eq!(max_context(&windows, 9)[5], 0);
}

proptest! {
    #[test]
    fn windows_cover_the_passage_and_every_token_has_one_window(
        row in 10_usize..60, step in 1_usize..40, question in 0_usize..9, passage in 0_usize..300,
    ) {
        let windows = plan_windows(&config(row, WindowStep::Advance(step)), question, passage).expect("there is room");
        let context = max_context(&windows, passage);
        prop_assert_eq!(windows[0].passage.start, 0);
        prop_assert_eq!(windows[windows.len() - 1].passage.end, passage);
        for pair in windows.windows(2) {
            prop_assert!(pair[1].passage.start <= pair[0].passage.end, "no gaps");
            prop_assert!(pair[0].passage.end < pair[1].passage.end);
        }
        for (token, &window) in context.iter().enumerate() {
            prop_assert!(windows[window].passage.contains(&token));
        }
    }
}

/// Row `[CLS] q q [SEP] p0 … [SEP]`: passage token `i` is byte `i`.
struct RowLogits {
    start: Vec<f32>,
    end: Vec<f32>,
    bytes: Vec<Option<Range<usize>>>,
    context: Vec<bool>,
}

impl RowLogits {
    fn new(first: usize, passage: usize) -> Self {
        let tokens = passage + 5;
        let is_passage = |position: usize| (4..4 + passage).contains(&position);
        let bytes = (0..tokens).map(|at| is_passage(at).then(|| first + at - 4..first + at - 3));
        Self {
            start: vec![0.0; tokens],
            end: vec![0.0; tokens],
            bytes: bytes.collect(),
            context: (0..tokens).map(is_passage).collect(),
        }
    }

    fn logits(&self) -> WindowLogits<'_> {
        WindowLogits { start: &self.start, end: &self.end, bytes: &self.bytes, has_max_context: &self.context }
    }
}

#[test]
fn the_best_pair_within_the_limits_is_the_answer() {
    let mut row = RowLogits::new(0, 40);
    row.start[4 + 5] = 5.0;
    row.end[4 + 7] = 4.0;
    row.end[4 + 2] = 9.0; // before the start
    row.end[4 + 39] = 8.0; // 35 tokens
    row.start[1] = 50.0; // a question token
    let found = extract_answer(&ExtractionConfig::default(), &[row.logits()]);
    assert_eq!(found.bytes, Some(5..8));
    assert!((found.score - 9.0).abs() < 1e-6);
    let longer = ExtractionConfig { max_answer_tokens: 35, ..ExtractionConfig::default() };
    assert_eq!(extract_answer(&longer, &[row.logits()]).bytes, Some(5..40));
    row.context[9] = false; // the start has more context elsewhere
    assert_ne!(extract_answer(&ExtractionConfig::default(), &[row.logits()]).bytes, Some(5..8));
}

#[test]
fn question_tokens_use_up_places_unless_they_are_masked() {
    let mut row = RowLogits::new(0, 10);
    for position in 1..4 {
        row.start[position] = 10.0;
        row.end[position] = 10.0;
    }
    row.start[0] = -9.0;
    row.end[0] = -9.0;
    row.start[6] = 5.0;
    row.end[7] = 5.0;
    let narrow = ExtractionConfig { candidates: 3, ..ExtractionConfig::default() };
    assert_eq!(extract_answer(&narrow, &[row.logits()]).bytes, None, "all places are question tokens");
    let masked = ExtractionConfig { masked: MaskedLogits::QuestionAndSeparators, ..narrow };
    assert_eq!(extract_answer(&masked, &[row.logits()]).bytes, Some(2..4));
}

#[test]
fn the_null_score_is_the_smallest_over_windows() {
    let mut rows = [RowLogits::new(0, 10), RowLogits::new(6, 10)];
    rows[0].start[0] = 9.0;
    rows[1].start[0] = 3.0;
    rows[1].start[5] = 1.0;
    rows[1].end[5] = 1.0;
    let windows = [rows[0].logits(), rows[1].logits()];
    let null = |null_threshold| ExtractionConfig { null_threshold, ..ExtractionConfig::default() };
    let found = extract_answer(&null(Some(0.0)), &windows);
    assert_eq!((found.bytes, found.null_margin), (None, 1.0));
    assert_eq!(extract_answer(&null(Some(1.0)), &windows).bytes, Some(7..8), "the margin does not exceed 1");
    assert_eq!(extract_answer(&null(None), &windows).bytes, Some(7..8), "every question has an answer");
}

#[test]
fn hostile_logits_give_an_answer_or_none() {
    let mut row = RowLogits::new(0, 3);
    row.start.fill(f32::NAN);
    row.end.fill(f32::NEG_INFINITY);
    let config = ExtractionConfig { null_threshold: Some(0.0), ..ExtractionConfig::default() };
    let found = extract_answer(&config, &[row.logits()]);
    assert!(!found.null_margin.is_nan());
    let found = extract_answer(&config, &[]);
    assert_eq!((found.bytes, found.score), (None, f32::NEG_INFINITY));
    assert_eq!(extract_answer(&config, &[RowLogits::new(0, 0).logits()]).bytes, None);
}

proptest! {
    #[test]
    fn extraction_equals_the_exhaustive_search_if_all_positions_are_candidates(
        logits in proptest::collection::vec((-9_i8..9, -9_i8..9), 5..40), max_answer_tokens in 1_usize..8,
    ) {
        let mut row = RowLogits::new(0, logits.len() - 5);
        row.start = logits.iter().map(|(start, _)| f32::from(*start)).collect();
        row.end = logits.iter().map(|(_, end)| f32::from(*end)).collect();
        let config = ExtractionConfig { candidates: 100, max_answer_tokens, ..ExtractionConfig::default() };
        let found = extract_answer(&config, &[row.logits()]);
        let passage = 4..logits.len() - 1;
        let pairs = passage.clone().flat_map(|start| passage.clone().map(move |end| (start, end)));
        let allowed = pairs.filter(|(start, end)| end >= start && end - start < max_answer_tokens);
        let best = allowed.map(|(start, end)| row.start[start] + row.end[end]).fold(f32::NEG_INFINITY, f32::max);
        prop_assert!(found.score.total_cmp(&best).is_eq(), "{} is not {best}", found.score);
    }
}
