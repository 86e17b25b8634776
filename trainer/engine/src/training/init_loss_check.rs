//! Check of the first losses of a run with random weights.
//!
//! Most wiring errors of a loss show in its first value. An untrained model is as good as guessing, and each objective
//! declares the loss of a guess. A run with loaded weights has no expected value. Its first losses are only reported,
//! for comparison with the source of the weights.

use std::collections::BTreeMap;

use telemetry::training::{Bounds, StartReport, UnexpectedLoss, Warning};
use trainer_plan::TrainPlan;
use trainer_plan::metric_name::MetricName;
use trainer_plan::objectives::{Expectation, StartFacts};
use trainer_plan::request::ActiveObjective;

use crate::training::metric_accumulator::{MetricReading, written};
use crate::training::step::Trainer;

/// Facts of a plan that determine its expected first losses.
fn facts(plan: &TrainPlan) -> StartFacts {
    let vocab_size = f64::from(plan.vocab.size);
    let [micro_batch_rows, global_batch_rows] =
        [plan.train.micro_batch_size, plan.train.global_batch_size].map(|rows| rows as f64);
    StartFacts { vocab_size, micro_batch_rows, global_batch_rows, hidden: plan.encoder.hidden }
}

/// Whether all weights are drawn at random and none is loaded from a file.
#[must_use]
pub(crate) fn is_random(plan: &TrainPlan) -> bool {
    let networks = plan.used_networks();
    plan.train.init_from.is_none()
        && plan.encoder.word_init.is_none()
        && !networks.values().any(|network| network.init().is_some())
}

/// Expected first values of the terms, by `objective` or `objective.term`. Empty if weights are loaded.
#[must_use]
pub(crate) fn expected(plan: &TrainPlan, facts: StartFacts) -> BTreeMap<MetricName, Expectation> {
    if !is_random(plan) {
        return BTreeMap::new();
    }
    let of = |ActiveObjective { name, objective, .. }: ActiveObjective<'_>| {
        let expected = objective.expected_start(facts).into_iter();
        expected.map(|expected| (MetricName::new(name, expected.term), expected)).collect::<Vec<_>>()
    };
    plan.active().flat_map(of).collect()
}

/// Returns the terms with unexpected values. Terms that counted nothing are ignored.
fn unexpected_losses(
    terms: &BTreeMap<MetricName, f64>,
    expected: &BTreeMap<MetricName, Expectation>,
    counted: impl Fn(&MetricName) -> bool,
) -> Vec<UnexpectedLoss> {
    let unexpected = |(term, expectation): (&MetricName, &Expectation)| {
        let value = *terms.get(term).filter(|_| counted(term))?;
        let expected = bounds(expectation);
        let hint = expectation.hint.to_owned();
        (!expected.admit(value)).then(|| UnexpectedLoss { term: term.to_string(), value, expected, hint })
    };
    expected.iter().filter_map(unexpected).collect()
}

fn bounds(expectation: &Expectation) -> Bounds {
    Bounds { low: expectation.low, high: expectation.high }
}

/// Returns the warning about an unexpected loss.
pub(crate) fn warning(unexpected: &UnexpectedLoss) -> Warning {
    let UnexpectedLoss { term, value, expected: Bounds { low, high }, hint } = unexpected;
    Warning {
        topic: "first_value".to_owned(),
        message: format!("first value of `{term}` is {value:.4}; a model that guesses has {low:.4} to {high:.4}"),
        hint: Some(hint.clone()),
    }
}

impl Trainer {
    /// Checks the terms of the first step, after the step and before the first report. Waits for the device. The
    /// accumulator does not change.
    pub fn start(&self) -> Result<StartReport, trainer_plan::Error> {
        let (MetricReading { terms, .. }, _) = self.tally.read(self.ranks(), &[])?;
        let expected = expected(self.plan(), facts(self.plan()));
        let unexpected_losses = unexpected_losses(&terms, &expected, |term| self.tally.counted(term));
        let expected = expected.iter().map(|(name, expectation)| (name.to_string(), bounds(expectation))).collect();
        Ok(StartReport { random: is_random(self.plan()), terms: written(terms), expected, unexpected_losses })
    }
}

#[cfg(test)]
mod tests {
    use trainer_plan::objectives::AnyObjective;
    use trainer_plan::request::TrainRequest;

    use super::*;
    use crate::testing;

    const FACTS: StartFacts =
        StartFacts { vocab_size: 60.0, micro_batch_rows: 4.0, global_batch_rows: 8.0, hidden: 128 };

    /// Start report of one objective in a network wide enough to guess well. `damage` is applied before the step.
    fn start(kind: &str, configure: &str, damage: impl Fn(&mut TrainRequest, &mut Trainer)) -> StartReport {
        let mut plan = testing::request();
        plan.encoder.hidden = FACTS.hidden;
        plan.encoder.dropout = 0.0;
        let text = format!("kind = \"{kind}\"\n{configure}");
        plan.objectives = [(kind.to_owned(), toml::from_str(&text).expect("a configuration"))].into();
        plan.loss = [(kind.to_owned(), 1.0)].into();
        let mut trainer = testing::trainer(&plan);
        damage(&mut plan, &mut trainer);
        trainer.step(&[testing::batch(0), testing::batch(1)]).expect("good batches");
        trainer.start().expect("read")
    }

    fn scale(trainer: &Trainer, weight: &str, factor: f64) {
        let _guard = tch::no_grad_guard();
        let mut weight = trainer.parameters().get(weight).expect("there is one").shallow_clone();
        let _ = weight.g_mul_scalar_(factor);
    }

    fn shift(trainer: &Trainer, weight: &str, by: f64) {
        let _guard = tch::no_grad_guard();
        let mut weight = trainer.parameters().get(weight).expect("there is one").shallow_clone();
        let _ = weight.g_add_scalar_(by);
    }

    #[track_caller]
    fn assert_unexpected(report: &StartReport, term: &str, hint: &str) {
        let found: Vec<&str> = report.unexpected_losses.iter().map(|unexpected| unexpected.term.as_str()).collect();
        assert_eq!(found, [term], "{report:?}");
        assert!(report.unexpected_losses[0].hint.contains(hint), "{report:?}");
    }

    #[test]
    fn every_objective_begins_by_guessing() {
        let _alone = testing::generator();
        for kind in AnyObjective::KINDS {
            let report = start(kind, "", |_, _| {});
            assert!(report.unexpected_losses.is_empty(), "{report:?}");
        }
        let checked = AnyObjective::examples().into_iter().filter(|kind| !kind.expected_start(FACTS).is_empty());
        assert!(checked.count() >= 7, "all but the contrast with a teacher, which depends on the teacher");
    }

    #[test]
    fn a_head_with_wrong_initial_weights_is_detected() {
        let _alone = testing::generator();
        let word = "encoder.embeddings.word.weight";
        let report = start("masked_lm", "", |_, trainer| scale(trainer, word, 30.0));
        assert_unexpected(&report, "masked_lm", "tied");
        let report = start("token_prediction", "", |_, trainer| scale(trainer, word, 30.0));
        assert!(
            report.unexpected_losses.iter().any(|unexpected| unexpected.term == "token_prediction.masked"),
            "{report:?}"
        );
    }

    #[test]
    fn a_biased_classifier_is_detected() {
        let _alone = testing::generator();
        for (kind, bias, term) in [
            ("replaced_token", "heads.replaced_token.bias", "replaced_token"),
            ("corrective_lm", "heads.corrective_lm.copy.bias", "corrective_lm.copy"),
        ] {
            let report = start(kind, "", |_, trainer| shift(trainer, bias, 2.0));
            assert_unexpected(&report, term, "opposite meaning");
        }
        let report = start("next_sentence", "", |_, trainer| {
            scale(trainer, "heads.next_sentence.classifier.weight", 20_000.0);
        });
        assert_unexpected(&report, "next_sentence", "label");
    }

    #[test]
    fn another_vocabulary_batch_or_temperature_is_detected() {
        let _alone = testing::generator();
        let mut plan = testing::request();
        plan.encoder.hidden = FACTS.hidden;
        let right = facts(&testing::checked(plan.clone()));
        assert_eq!(right, FACTS);
        let is_unexpected = |report: &StartReport, facts| {
            let (objective, &value) = report.terms.first_key_value().expect("one term");
            let name = MetricName::new(objective, "");
            let expected = expected(&testing::checked(plan.clone()), facts)
                .into_iter()
                .filter(|(known, _)| *known == name)
                .collect();
            !unexpected_losses(&[(name, value)].into(), &expected, |_| true).is_empty()
        };
        let report = start("masked_lm", "", |_, _| {});
        assert!(!is_unexpected(&report, right));
        assert!(is_unexpected(&report, StartFacts { vocab_size: 30_522.0, ..right }));
        let report = start("sequence_contrastive", "", |_, _| {});
        assert!(!is_unexpected(&report, right));
        assert!(is_unexpected(&report, StartFacts { micro_batch_rows: 32.0, ..right }));
        let report = start("token_contrastive", "temperature = 0.001", |_, _| {});
        assert_unexpected(&report, "token_contrastive", "temperature");
    }

    #[test]
    fn a_run_with_loaded_weights_expects_nothing() {
        let mut plan = testing::request();
        assert!(
            is_random(&testing::checked(plan.clone()))
                && !expected(&testing::checked(plan.clone()), facts(&testing::checked(plan.clone()))).is_empty()
        );
        plan.train.init_from = Some("somewhere".into());
        assert!(
            !is_random(&testing::checked(plan.clone()))
                && expected(&testing::checked(plan.clone()), facts(&testing::checked(plan.clone()))).is_empty()
        );
    }

    #[test]
    fn nan_is_unexpected_and_an_empty_term_is_not() {
        let name = MetricName::new("objective", "");
        let expected = [(name.clone(), Expectation::near("", 1.0, 0.1, "a cause"))].into();
        let terms = |value: f64| [(name.clone(), value)].into();
        assert_eq!(unexpected_losses(&terms(f64::NAN), &expected, |_| true).len(), 1);
        assert_eq!(unexpected_losses(&terms(0.0), &expected, |_| false).len(), 0);
        assert_eq!(unexpected_losses(&terms(1.05), &expected, |_| true).len(), 0);
    }

    #[test]
    fn the_check_does_not_change_the_run() {
        let _alone = testing::generator();
        let run = |checks: bool| {
            let mut trainer = testing::trainer(&testing::request());
            trainer.step(&[testing::batch(0), testing::batch(1)]).expect("good batches");
            if checks {
                trainer.start().expect("read");
            }
            trainer.step(&[testing::batch(2), testing::batch(3)]).expect("good batches");
            trainer.figures().expect("finite")
        };
        // As text, in which NaN equals NaN: a metric may count nothing.
        assert_eq!(format!("{:?}", run(true)), format!("{:?}", run(false)));
    }
}
