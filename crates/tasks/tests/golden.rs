//! Metrics equal those of scikit-learn, SciPy, seqeval and SQuAD's rules: `tests/golden/task_metrics.json`.

use serde::Deserialize;
use tasks::metric::EntityScheme;
use tasks::metric::answer_report::{AnswerMeans, BestThreshold, PredictedAnswer, evaluate_answers};
use tasks::metric::answers::{SquadVersion, normalize_answer, score_answer};
use tasks::metric::classes::{ClassAverage, ClassScore, Confusion};
use tasks::metric::entities::{EntityCounts, entities};
use tasks::metric::scores::{mean_squared_error, pearson, spearman};
use tasks::metric::{Judged, MetricValue, TaskMetric, evaluate};

#[derive(Deserialize)]
struct Golden {
    answers: Answers,
    classes: Vec<ClassCase>,
    scores: Vec<ScoreCase>,
    entities: Vec<EntityCase>,
}

#[derive(Deserialize)]
struct Answers {
    questions: Vec<Question>,
    each: Vec<Option<Each>>,
    v1: Means,
    v2: Vec<Report>,
}

#[derive(Deserialize)]
struct Question {
    golds: Vec<String>,
    predicted: Option<String>,
    no_answer: f64,
}

#[derive(Deserialize)]
struct Each {
    normalized: String,
    v1: Option<[f64; 2]>,
    v2: [f64; 2],
}

#[derive(Deserialize)]
struct Means {
    questions: u64,
    exact: Option<f64>,
    f1: Option<f64>,
}

#[derive(Deserialize)]
struct Best {
    value: f64,
    threshold: f64,
}

#[derive(Deserialize)]
struct Report {
    places: Vec<usize>,
    threshold: Option<f64>,
    all: Means,
    answerable: Means,
    unanswerable: Means,
    best_exact: Best,
    best_f1: Best,
}

/// Precision, recall and F1 by average.
#[derive(Deserialize)]
struct ClassCase {
    classes: usize,
    gold: Vec<u32>,
    predicted: Vec<u32>,
    accuracy: f64,
    matthews: f64,
    binary: Option<[f64; 3]>,
    #[serde(rename = "macro")]
    of_occurring: [f64; 3],
    macro_all: [f64; 3],
    micro: [f64; 3],
    weighted: [f64; 3],
}

#[derive(Deserialize)]
struct ScoreCase {
    gold: Vec<f64>,
    predicted: Vec<f64>,
    pearson: Option<f64>,
    spearman: Option<f64>,
    mean_squared_error: Option<f64>,
}

#[derive(Deserialize)]
struct EntityCase {
    gold: Vec<Vec<String>>,
    predicted: Vec<Vec<String>>,
    entities: Vec<Vec<(String, usize, usize)>>,
    scores: [f64; 3],
}

fn golden() -> Golden {
    let path = testkit::root().join("tests/golden/task_metrics.json");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&bytes).expect("of this version")
}

#[track_caller]
fn assert_equal(value: MetricValue, expected: Option<f64>, place: &str) {
    match (value.value(), expected) {
        (None, None) => {}
        (Some(value), Some(expected)) if (value - expected).abs() <= 1e-12 => {}
        _ => panic!("{place}: {value} is not {expected:?}"),
    }
}

#[track_caller]
fn assert_means(found: &AnswerMeans, expected: &Means, place: &str) {
    assert_eq!(found.questions, expected.questions, "{place}");
    assert_equal(found.exact, expected.exact, place);
    assert_equal(found.f1, expected.f1, place);
}

#[track_caller]
fn assert_best(found: &BestThreshold, expected: &Best, place: &str) {
    assert_equal(found.value, Some(expected.value), place);
    assert!(found.threshold.total_cmp(&expected.threshold).is_eq(), "{place}: threshold {}", found.threshold);
}

#[test]
fn answers_are_scored_as_by_the_scripts() {
    let Answers { questions, each, v1, v2 } = golden().answers;
    assert!(questions.len() >= 200, "{} answers", questions.len());
    let golds: Vec<Vec<&str>> = questions.iter().map(|it| it.golds.iter().map(String::as_str).collect()).collect();
    for (place, (question, each)) in questions.iter().zip(&each).enumerate() {
        let (Some(predicted), Some(each)) = (&question.predicted, each) else { continue };
        let name = format!("answer {place}, {:?}, {predicted:?}", question.golds);
        assert_eq!(normalize_answer(predicted), each.normalized, "{name}");
        for (version, expected) in [(SquadVersion::V1, each.v1), (SquadVersion::V2, Some(each.v2))] {
            let Some([exact, f1]) = expected else { continue };
            let score = score_answer(version, &golds[place], predicted);
            assert_equal(MetricValue::Defined(score.exact), Some(exact), &name);
            assert_equal(MetricValue::Defined(score.f1), Some(f1), &name);
        }
    }
    let predicted = |place: usize| PredictedAnswer {
        golds: &golds[place],
        predicted: questions[place].predicted.as_deref(),
        no_answer: questions[place].no_answer,
    };
    let answerable: Vec<_> = (0..questions.len()).filter(|&it| !golds[it].is_empty()).map(predicted).collect();
    assert_means(&evaluate_answers(SquadVersion::V1, &answerable, f64::INFINITY).all, &v1, "version 1.1");
    for (number, report) in v2.iter().enumerate() {
        let name = format!("report {number}");
        let chosen: Vec<_> = report.places.iter().copied().map(predicted).collect();
        let found = evaluate_answers(SquadVersion::V2, &chosen, report.threshold.unwrap_or(f64::INFINITY));
        assert_means(&found.all, &report.all, &name);
        assert_means(&found.answerable, &report.answerable, &name);
        assert_means(&found.unanswerable, &report.unanswerable, &name);
        assert_best(&found.best_exact, &report.best_exact, &name);
        assert_best(&found.best_f1, &report.best_f1, &name);
    }
}

#[test]
fn class_metrics_equal_those_of_scikit_learn() {
    for (number, case) in golden().classes.iter().enumerate() {
        let name = format!("case {number}");
        let confusion = Confusion::new(case.classes, &case.gold, &case.predicted);
        assert_equal(confusion.accuracy(), Some(case.accuracy), &name);
        assert_equal(confusion.matthews(), Some(case.matthews), &name);
        let averages = [
            (ClassAverage::Macro, Some(case.of_occurring)),
            (ClassAverage::MacroAll, Some(case.macro_all)),
            (ClassAverage::Micro, Some(case.micro)),
            (ClassAverage::Weighted, Some(case.weighted)),
            (ClassAverage::Binary, case.binary),
        ];
        for (average, expected) in averages {
            let Some(expected) = expected else { continue };
            let scores = [ClassScore::Precision, ClassScore::Recall, ClassScore::F1];
            for (score, expected) in scores.into_iter().zip(expected) {
                assert_equal(
                    confusion.score(score, average),
                    Some(expected),
                    &format!("{name}, {average:?} {score:?}"),
                );
            }
        }
    }
}

#[test]
fn correlations_equal_those_of_scipy() {
    for (number, case) in golden().scores.iter().enumerate() {
        let name = format!("case {number}");
        assert_equal(pearson(&case.gold, &case.predicted), case.pearson, &name);
        assert_equal(spearman(&case.gold, &case.predicted), case.spearman, &name);
        let error = mean_squared_error(&case.gold, &case.predicted);
        let scale = case.mean_squared_error.unwrap_or(1.0).max(1.0);
        let relative = |value: f64| MetricValue::Defined(value / scale);
        assert_equal(relative(error.value().expect("a number")), case.mean_squared_error.map(|it| it / scale), &name);
        let judged = Judged::Scores { gold: &case.gold, predicted: &case.predicted };
        assert_equal(evaluate(&judged, &[TaskMetric::Spearman])[0].value, case.spearman, &name);
    }
}

#[test]
fn entities_equal_those_of_seqeval() {
    for (number, case) in golden().entities.iter().enumerate() {
        let name = format!("case {number}");
        let mut counts = EntityCounts::default();
        for ((gold, predicted), expected) in case.gold.iter().zip(&case.predicted).zip(&case.entities) {
            let gold: Vec<&str> = gold.iter().map(String::as_str).collect();
            let predicted: Vec<&str> = predicted.iter().map(String::as_str).collect();
            let found = entities(&predicted, EntityScheme::Bio);
            let found: Vec<_> = found.iter().map(|it| (it.kind.to_owned(), it.first, it.last)).collect();
            assert_eq!(&found, expected, "{name}, {predicted:?}");
            counts.add(&gold, &predicted, EntityScheme::Bio);
        }
        let scores = [ClassScore::Precision, ClassScore::Recall, ClassScore::F1];
        for (score, expected) in scores.into_iter().zip(case.scores) {
            assert_equal(counts.score(score), Some(expected), &format!("{name}, {score:?}"));
        }
    }
}
