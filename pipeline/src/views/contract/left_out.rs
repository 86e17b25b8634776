//! Contract test: the effect of an omitted row, for every view.

use super::*;
use crate::collate::Collation;

/// Renders the rows of a view. Some rows are omitted; some are rendered, discarded half-way and rendered again.
fn rendered(view: &AnyView, items: &[Item<'_>], left_out: Option<usize>, again: Option<usize>) -> Batch {
    let views = planned(view.clone(), 64);
    let vocab = vocab();
    let mut collation = Collation::new(&views, &vocab, items.len());
    for (row, item) in items.iter().enumerate() {
        if again == Some(row) {
            // A row of another sample, which must be overwritten completely.
            collation.render(row, &items[items.len() - 1]);
            collation.discard_row(row);
        }
        if left_out == Some(row) { collation.leave_out(row, item) } else { collation.render(row, item) }
    }
    collation.finish(BatchIndex(0))
}

#[test]
fn excluded_row_is_padding_and_other_rows_are_unchanged() {
    for view in AnyView::examples() {
        let contents = samples();
        for frame in [Frame::ClsSep, Frame::None] {
            let of = |(ids, index)| item(Sample { frame, ..sample(ids) }, index);
            // A view that is not a frame is as wide as its tokens.
            let contents: Vec<&Vec<u16>> = contents.iter().filter(|ids| !ids.is_empty()).collect();
            let items: Vec<Item<'_>> = contents.into_iter().map(Vec::as_slice).zip(0..).map(of).collect();
            let whole = rendered(&view, &items, None, None);
            for row in 0..items.len() {
                let without = rendered(&view, &items, Some(row), None);
                let others = (0..items.len()).filter(|&other| other != row);
                for other in others {
                    let same = [&whole, &without].map(|batch| batch.row_digests()[other]);
                    assert_eq!(same[0], same[1], "{view:?}: row {other} without row {row}");
                }
                assert_is_padding(&view, &without.slice(row, 1));
            }
        }
    }
}

fn assert_is_padding(view: &AnyView, row: &Batch) {
    for name in ["original", "view"] {
        let all = |column: Column<i32>, value: i32| {
            let found = row.find(name, column).expect("no type clash");
            assert!(found.is_none_or(|found| found.values().iter().all(|&cell| cell == value)), "{view:?}: {column:?}");
        };
        all(INPUT_IDS, SPECIAL.pad.cast_signed());
        all(LABELS, IGNORE);
        all(DOCUMENT, -1);
        for column in [ORIGIN, POSITIVES] {
            let found = row.find(name, column).expect("no type clash");
            assert!(found.is_none_or(|found| found.values().iter().all(|&cell| cell == -1)), "{view:?}: {column:?}");
        }
        for column in [ATTENTION_MASK, TOKEN_TYPES, IS_RANDOM] {
            let found = row.find(name, column).expect("no type clash");
            assert!(found.is_none_or(|found| found.values().iter().all(|&cell| cell == 0)), "{view:?}: {column:?}");
        }
        let mask = row.find(name, ATTENTION_MASK).expect("no type clash");
        assert!(mask.is_some() || row.find(name, INPUT_IDS).expect("no type clash").is_none(), "{view:?}: no mask");
    }
}

#[test]
fn rebuilt_row_keeps_nothing_of_the_failed_attempt() {
    for view in AnyView::examples() {
        let contents = samples();
        let items: Vec<Item<'_>> = contents.iter().zip(0..).map(|(ids, index)| item(sample(ids), index)).collect();
        let whole = rendered(&view, &items, None, None);
        for row in 0..items.len() {
            let again = rendered(&view, &items, None, Some(row));
            assert_eq!(whole.row_digests(), again.row_digests(), "{view:?}: row {row}");
        }
    }
}
