//! What a run that starts at random begins with.
//!
//! Most mistakes in wiring a loss are seen in its very first value: a model that has learned nothing is as good as
//! guessing, and each objective knows what guessing costs it. A run that continues from somewhere has no such law; its
//! first values are only kept, to be compared with where they came from.

use std::collections::BTreeMap;

use telemetry::training::{Bounds, StartReport, UnexpectedLoss, Warning};
use trainer_plan::TrainPlan;
use trainer_plan::metric_name::MetricName;
use trainer_plan::objectives::{Expectation, StartFacts};
use trainer_plan::request::ActiveObjective;

use crate::training::metric_accumulator::{Reading, written};
use crate::training::step::Trainer;

/// What the first values of a plan depend on.
fn facts(plan: &TrainPlan) -> StartFacts {
    let (vocab_size, rows) = (f64::from(plan.vocab.size), plan.train.micro_batch_size as f64);
    StartFacts { vocab_size, rows, hidden: plan.encoder.hidden }
}

/// Whether all weights are drawn: no file gives any.
#[must_use]
pub(crate) fn is_random(plan: &TrainPlan) -> bool {
    let networks = plan.used_networks();
    plan.train.init_from.is_none()
        && plan.encoder.word_init.is_none()
        && !networks.values().any(|network| network.init().is_some())
}

/// What the terms of a plan begin with, by `objective` or `objective.term`; of a run that continues, nothing.
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

/// The terms that are not as expected; one that counted nothing `unexpected_losses` nobody.
fn unexpected_losses(
    terms: &BTreeMap<MetricName, f64>,
    expected: &BTreeMap<MetricName, Expectation>,
    counted: impl Fn(&MetricName) -> bool,
) -> Vec<UnexpectedLoss> {
    let unexpected = |(term, expectation): (&MetricName, &Expectation)| {
        let value = *terms.get(term).filter(|_| counted(term))?;
        let (expected, hint) = (bounds(expectation), expectation.hint.to_owned());
        (!expected.admit(value)).then(|| UnexpectedLoss { term: term.to_string(), value, expected, hint })
    };
    expected.iter().filter_map(unexpected).collect()
}

fn bounds(expectation: &Expectation) -> Bounds {
    Bounds { low: expectation.low, high: expectation.high }
}

/// What people are told of a unexpected.
pub(crate) fn warning(unexpected: &UnexpectedLoss) -> Warning {
    let UnexpectedLoss { term, value, expected: Bounds { low, high }, hint } = unexpected;
    Warning {
        topic: "first_value".to_owned(),
        message: format!("`{term}` begins at {value:.4}, a model that guesses between {low:.4} and {high:.4}"),
        hint: Some(hint.clone()),
    }
}

impl Trainer {
    /// The terms of the first step, looked at once it is done and before anything is reported. Waits for the device; the
    /// tally stays as it is.
    pub fn start(&self) -> Result<StartReport, trainer_plan::Error> {
        let (Reading { terms, .. }, _) = self.tally.read(self.ranks(), &[])?;
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

    const FACTS: StartFacts = StartFacts { vocab_size: 60.0, rows: 4.0, hidden: 128 };

    /// One objective alone, of a network wide enough to guess well, after a step; `damage` is done before.
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
    fn assert_surprised(report: &StartReport, term: &str, hint: &str) {
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
        let lawful = AnyObjective::examples().into_iter().filter(|kind| !kind.expected_start(FACTS).is_empty());
        assert!(lawful.count() >= 7, "all but the contrast with a teacher, which depends on the teacher");
    }

    #[test]
    fn a_head_that_is_not_drawn_as_it_should_be_is_seen() {
        let _alone = testing::generator();
        let word = "encoder.embeddings.word.weight";
        let report = start("masked_lm", "", |_, trainer| scale(trainer, word, 30.0));
        assert_surprised(&report, "masked_lm", "tied");
        let report = start("token_prediction", "", |_, trainer| scale(trainer, word, 30.0));
        assert!(
            report.unexpected_losses.iter().any(|unexpected| unexpected.term == "token_prediction.masked"),
            "{report:?}"
        );
    }

    #[test]
    fn a_judge_that_is_not_neutral_is_seen() {
        let _alone = testing::generator();
        for (kind, bias, term) in [
            ("replaced_token", "heads.replaced_token.bias", "replaced_token"),
            ("corrective_lm", "heads.corrective_lm.copy.bias", "corrective_lm.copy"),
        ] {
            let report = start(kind, "", |_, trainer| shift(trainer, bias, 2.0));
            assert_surprised(&report, term, "polarity");
        }
        let report = start("next_sentence", "", |_, trainer| {
            scale(trainer, "heads.next_sentence.classifier.weight", 20_000.0);
        });
        assert_surprised(&report, "next_sentence", "label");
    }

    #[test]
    fn another_vocabulary_batch_or_temperature_is_seen() {
        let _alone = testing::generator();
        let mut plan = testing::request();
        plan.encoder.hidden = FACTS.hidden;
        let right = facts(&testing::checked(plan.clone()));
        assert_eq!(right, FACTS);
        let surprised = |report: &StartReport, facts| {
            let (objective, &value) = report.terms.first_key_value().expect("one term");
            let name = MetricName::new(objective, "");
            let expected = expected(&testing::checked(plan.clone()), facts)
                .into_iter()
                .filter(|(known, _)| *known == name)
                .collect();
            !unexpected_losses(&[(name, value)].into(), &expected, |_| true).is_empty()
        };
        let report = start("masked_lm", "", |_, _| {});
        assert!(!surprised(&report, right));
        assert!(surprised(&report, StartFacts { vocab_size: 30_522.0, ..right }));
        let report = start("sequence_contrastive", "", |_, _| {});
        assert!(!surprised(&report, right));
        assert!(surprised(&report, StartFacts { rows: 32.0, ..right }));
        let report = start("token_contrastive", "temperature = 0.001", |_, _| {});
        assert_surprised(&report, "token_contrastive", "temperature");
    }

    #[test]
    fn a_run_that_goes_on_expects_nothing() {
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
    fn a_first_value_that_is_no_number_is_a_surprise_and_nothing_counted_is_none() {
        let name = MetricName::new("it", "");
        let expected = [(name.clone(), Expectation::near("", 1.0, 0.1, "a cause"))].into();
        let terms = |value: f64| [(name.clone(), value)].into();
        assert_eq!(unexpected_losses(&terms(f64::NAN), &expected, |_| true).len(), 1);
        assert_eq!(unexpected_losses(&terms(0.0), &expected, |_| false).len(), 0);
        assert_eq!(unexpected_losses(&terms(1.05), &expected, |_| true).len(), 0);
    }

    #[test]
    fn looking_at_the_start_disturbs_nothing() {
        let _alone = testing::generator();
        let run = |look: bool| {
            let mut trainer = testing::trainer(&testing::request());
            trainer.step(&[testing::batch(0), testing::batch(1)]).expect("good batches");
            if look {
                trainer.start().expect("read");
            }
            trainer.step(&[testing::batch(2), testing::batch(3)]).expect("good batches");
            trainer.figures().expect("finite")
        };
        assert_eq!(run(true), run(false));
    }
}
