use proptest::prelude::*;

use super::answers::{SquadVersion, normalize_answer, score_answer};
use super::classes::{ClassAverage, ClassScore, Confusion};
use super::entities::{EntityCounts, entities};
use super::scores::{mean_squared_error, pearson, spearman};
use super::*;

fn value(value: MetricValue) -> f64 {
    value.value().expect("a number")
}

#[test]
fn correlations_of_constant_few_or_infinite_values_are_undefined() {
    let undefined = MetricValue::Undefined;
    for correlation in [pearson, spearman] {
        assert_eq!(correlation(&[1.0, 2.0, 3.0], &[4.0; 3]), undefined(UndefinedReason::Constant));
        assert_eq!(correlation(&[1.0], &[2.0]), undefined(UndefinedReason::TooFew));
        assert_eq!(correlation(&[], &[]), undefined(UndefinedReason::NoExamples));
        assert_eq!(correlation(&[1.0, 2.0], &[f64::NAN, 1.0]), undefined(UndefinedReason::NotFinite));
    }
    assert_eq!(mean_squared_error(&[], &[]), undefined(UndefinedReason::NoExamples));
    assert!((value(pearson(&[1e300, -1e300, 0.5e300], &[1.0, -1.0, 0.5])) - 1.0).abs() < 1e-12, "no overflow");
}

#[test]
fn metrics_of_another_kind_are_undefined() {
    let judged = Judged::Scores { gold: &[1.0, 2.0], predicted: &[1.0, 3.0] };
    let scores = evaluate(&judged, &[TaskMetric::Spearman, TaskMetric::Accuracy]);
    assert!((value(scores[0].value) - 1.0).abs() < 1e-12);
    assert_eq!(scores[1].value, MetricValue::Undefined(UndefinedReason::NotApplicable));
    assert_eq!(serde_json::to_string(&scores[1]).expect("JSON"), r#"{"metric":"accuracy","value":null}"#);
}

#[test]
fn the_names_of_metrics_are_those_of_configurations() {
    for metric in TaskMetric::ALL {
        assert_eq!(serde_json::to_value(metric).expect("JSON"), metric.name());
    }
}

#[test]
fn averages_of_absent_classes_differ_as_stated() {
    let confusion = Confusion::new(4, &[0, 0, 2], &[0, 2, 2]);
    let f1 = |average| value(confusion.score(ClassScore::F1, average));
    let single = 2.0 / 3.0;
    assert!((f1(ClassAverage::Macro) - single).abs() < 1e-12, "classes 1 and 3 do not occur");
    assert!((f1(ClassAverage::MacroAll) - single / 2.0).abs() < 1e-12);
}

#[test]
fn lenient_prefixes_begin_entities() {
    let found = |labels: &[&str]| {
        entities(labels, EntityScheme::Bio)
            .iter()
            .map(|it| format!("{}{}-{}", it.kind, it.first, it.last))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(&["I-A", "I-A", "I-B", "O", "B-B", "B-B"]), ["A0-1", "B2-2", "B4-4", "B5-5"]);
    assert_eq!(found(&["S-A", "E-A", "B-A", "E-A", "I-A"]), ["A0-0", "A1-1", "A2-3", "A4-4"]);
    assert_eq!(found(&["B", "I", "O", "I-", "B-X-Y"]), ["_0-1", "_3-3", "X-Y4-4"]);
    assert_eq!(found(&[]), Vec::<String>::new());
}

/// The entities that `seqeval` 1.2 finds in its mode `strict`, checked by hand.
#[test]
fn strict_schemes_have_the_entities_of_seqeval() {
    let found = |scheme, labels: &str| {
        let labels: Vec<&str> = labels.split(' ').collect();
        let found = entities(&labels, scheme).into_iter();
        found.map(|it| format!("{}{}-{}", it.kind, it.first, it.last)).collect::<Vec<_>>().join(" ")
    };
    for (labels, expected) in [
        ("B-X I-X E-X S-X S-X O S-Y", "X0-2 X3-3 X4-4 Y6-6"),
        ("B-X E-X B-X E-X", "X0-1 X2-3"),
        ("B-X B-X E-X", "X1-2"),
        ("B-X I-X O", ""),
        ("B-X E-Y I-X E-X", ""),
        ("B-X S-X E-X I-X", "X1-1"),
    ] {
        assert_eq!(found(EntityScheme::Bioes, labels), expected, "{labels}");
        let units = labels.replace("E-", "L-").replace("S-", "U-");
        assert_eq!(found(EntityScheme::Bilou, &units), expected, "{units}");
    }
    for (labels, expected) in [
        ("I-X I-X B-X I-X I-Y O", "X0-1 X2-3 Y4-4"),
        ("I-X B-X B-X O", "X0-0 X1-1 X2-2"),
        // Not of IOB1, and read as `conlleval` reads it.
        ("O B-X O I-X", "X1-1 X3-3"),
        ("O B-X I-X", "X1-2"),
        ("I-X B-Y O", "X0-0 Y1-1"),
        ("I-X B-X B-Y", "X0-0 X1-1 Y2-2"),
        ("I-X B-X I-Y", "X0-0 X1-1 Y2-2"),
    ] {
        assert_eq!(found(EntityScheme::Bio, labels), expected, "{labels}");
    }
    assert_eq!(found(EntityScheme::Plain, "PER PER O ORG LOC"), "PER0-1 ORG3-3 LOC4-4");
}

/// Three gold entities. Two of them and another one are predicted: precision, recall and F1 are 2 / 3. As BIO, the `U-` of
/// neighbours are one entity, and an `L-` before `B-` ends none.
#[test]
fn entities_are_scored_by_the_scheme_of_their_labels() {
    let score = |names: &str, gold: &[u32], predicted: &[u32]| {
        let labels: Vec<String> = names.split(' ').map(str::to_owned).collect();
        let (gold, predicted) = ([gold.to_vec()], [predicted.to_vec()]);
        let judged = Judged::Words { labels: &labels, gold: &gold, predicted: &predicted };
        let scores = evaluate(&judged, &[TaskMetric::EntityPrecision, TaskMetric::EntityRecall, TaskMetric::EntityF1]);
        scores.into_iter().map(|it| it.value).collect::<Vec<_>>()
    };
    let two_thirds = [MetricValue::Defined(2.0 / 3.0); 3];
    // Gold U U B L, predicted U U U O.
    assert_eq!(score("O B-X I-X L-X U-X", &[4, 4, 1, 3], &[4, 4, 4, 0]), two_thirds);
    assert_eq!(score("O B-X I-X E-X S-X", &[4, 4, 1, 3], &[4, 4, 4, 0]), two_thirds);
    // IOB1: gold X0-1 X2-2 X4-4, predicted X0-2 X4-4.
    assert_eq!(
        score("O B-X I-X", &[2, 2, 1, 0, 2], &[2, 2, 2, 0, 2])[..2],
        [MetricValue::Defined(1.0 / 2.0), MetricValue::Defined(1.0 / 3.0)]
    );
    // The same entities as BIO are all found.
    assert_eq!(score("O B-X I-X", &[1, 2, 1, 0, 1], &[1, 2, 1, 0, 1]), [MetricValue::Defined(1.0); 3]);
    let undefined = MetricValue::Undefined(UndefinedReason::NotApplicable);
    assert_eq!(score("O B-X M-X E-X", &[1, 2, 3], &[1, 2, 3]), [undefined; 3], "labels of no scheme");
}

#[test]
fn answers_are_normalized_as_by_the_script() {
    for (text, expected) in [
        ("The  Cat!", "cat"),
        ("a.n.", ""),
        ("an_other the_cat", "another thecat"),
        ("“the” cat—a dog", "“ ” cat— dog"),
        ("\u{a0}A\u{1f}B\u{2003}", "b"),
        ("the", ""),
        ("İstanbul", "i\u{307}stanbul"),
        ("thé the\u{301} a\u{e47}", "thé \u{301} \u{e47}"),
        ("Ⓐ a a²", "ⓐ a²"),
    ] {
        assert_eq!(normalize_answer(text), expected, "{text:?}");
    }
}

#[test]
fn the_scripts_differ_for_answers_without_tokens() {
    let one = score_answer(SquadVersion::V1, &["the"], "a");
    assert_eq!((one.exact, one.f1), (1.0, 0.0));
    let two = score_answer(SquadVersion::V2, &["the"], "a");
    assert_eq!((two.exact, two.f1), (1.0, 1.0));
    assert!(score_answer(SquadVersion::V2, &["the", "cat"], "").f1.abs() < 1e-12, "an empty gold answer is ignored");
}

/// Reference of Spearman's ranks: 1 + smaller values + half of the other equal ones.
fn slow_rank(values: &[f64], value: f64) -> f64 {
    let count = |keep: &dyn Fn(f64) -> bool| values.iter().filter(|other| keep(**other)).count() as f64;
    let smaller = count(&|other| other < value);
    let equal = count(&|other| other <= value) - smaller;
    smaller + f64::midpoint(equal, 1.0)
}

proptest! {
    #[test]
    fn spearman_is_the_correlation_of_average_ranks(pairs in proptest::collection::vec((0_u8..6, 0_u8..6), 2..40)) {
        let gold: Vec<f64> = pairs.iter().map(|(gold, _)| f64::from(*gold)).collect();
        let predicted: Vec<f64> = pairs.iter().map(|(_, predicted)| f64::from(*predicted)).collect();
        let ranks = |values: &[f64]| values.iter().map(|&value| slow_rank(values, value)).collect::<Vec<_>>();
        prop_assert_eq!(spearman(&gold, &predicted), pearson(&ranks(&gold), &ranks(&predicted)));
        // A strictly increasing map of the predictions changes nothing.
        let stretched: Vec<f64> = predicted.iter().map(|value| value.exp()).collect();
        prop_assert_eq!(spearman(&gold, &predicted), spearman(&gold, &stretched));
    }

    #[test]
    fn class_metrics_keep_their_bounds_and_symmetries(pairs in proptest::collection::vec((0_u32..2, 0_u32..2), 1..60)) {
        let gold: Vec<u32> = pairs.iter().map(|(gold, _)| *gold).collect();
        let predicted: Vec<u32> = pairs.iter().map(|(_, predicted)| *predicted).collect();
        let confusion = Confusion::new(2, &gold, &predicted);
        let swapped = Confusion::new(2, &predicted, &gold);
        prop_assert_eq!(confusion.matthews(), swapped.matthews());
        let score = |it: &Confusion, score| it.score(score, ClassAverage::Binary);
        prop_assert_eq!(score(&confusion, ClassScore::Precision), score(&swapped, ClassScore::Recall));
        let micro = value(confusion.score(ClassScore::F1, ClassAverage::Micro));
        prop_assert!((micro - value(confusion.accuracy())).abs() < 1e-12);
        prop_assert!((-1.0..=1.0).contains(&value(confusion.matthews())));
        prop_assert_eq!(confusion.total(), pairs.len() as u64);
    }

    #[test]
    fn entities_are_ordered_disjoint_and_equal_to_themselves(tags in proptest::collection::vec(0_usize..7, 0..30)) {
        const LABELS: [&str; 7] = ["O", "B-A", "I-A", "B-B", "I-B", "E-A", "S-B"];
        let labels: Vec<&str> = tags.iter().map(|tag| LABELS[*tag]).collect();
        let found = entities(&labels, EntityScheme::Bio);
        prop_assert!(found.iter().all(|entity| entity.first <= entity.last && entity.last < labels.len()));
        prop_assert!(found.windows(2).all(|pair| pair[0].last < pair[1].first));
        let mut counts = EntityCounts::default();
        counts.add(&labels, &labels, EntityScheme::Bio);
        prop_assert_eq!((counts.gold, counts.predicted), (counts.correct, counts.correct));
    }

    #[test]
    fn an_answer_equals_itself_and_normalization_is_idempotent(text in "\\PC{0,40}") {
        let once = normalize_answer(&text);
        prop_assert!(score_answer(SquadVersion::V2, &[&text], &text).exact > 0.5);
        // Removed punctuation may join letters to an article, so only blanks and case are stable.
        prop_assert!(!once.starts_with(' ') && !once.ends_with(' ') && !once.contains("  "));
    }
}
