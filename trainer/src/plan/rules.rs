//! What makes a plan one that the trainer cannot run.

use std::collections::BTreeSet;

use super::train_plan::{Problem, TrainPlan};
use crate::device::choice::DeviceChoice;
use crate::device::precision::Precision;
use crate::model::networks::{Beside, MAIN};
use crate::model::relative_positions::Buckets;

impl TrainPlan {
    /// Everything about this plan that the trainer cannot run; empty for a good one. Whether the views make what the
    /// objectives read is not known here: compare [`columns_read`] with them.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let (encoder, train, optimizer) = (&self.encoder, &self.train, &self.optimizer);
        let whole = |rows: u64, part: u64| part > 0 && rows > 0 && rows.is_multiple_of(part);
        let rules = [
            (encoder.layers > 0, "encoder.layers", "at least one layer is needed".to_owned()),
            (
                encoder.heads > 0 && encoder.hidden > 0 && encoder.hidden.is_multiple_of(encoder.heads),
                "encoder.hidden",
                format!("{} is not a multiple of `encoder.heads` = {}", encoder.hidden, encoder.heads),
            ),
            (encoder.feed_forward > 0, "encoder.feed_forward", "a width of at least 1 is needed".to_owned()),
            (
                (0.0..1.0).contains(&encoder.dropout),
                "encoder.dropout",
                format!("{} is not a probability below 1", encoder.dropout),
            ),
            (encoder.layer_norm_eps > 0.0, "encoder.layer_norm_eps", "it must be above 0".to_owned()),
            (
                self.width <= encoder.positions,
                "encoder.positions",
                format!("rows have {} tokens, the network {} positions", self.width, encoder.positions),
            ),
            (encoder.embedding != Some(0), "encoder.embedding", "a width of at least 1 is needed".to_owned()),
            (
                u16::try_from(encoder.positions).is_ok(),
                "encoder.positions",
                format!("{} is more than the 65,535 that a row can have", encoder.positions),
            ),
            (train.steps > 0, "train.steps", "at least one step is needed".to_owned()),
            (
                whole(train.rows_per_step, train.rows_per_micro_batch),
                "train.rows_per_step",
                format!(
                    "{} is not a multiple of `train.rows_per_micro_batch` = {}",
                    train.rows_per_step, train.rows_per_micro_batch
                ),
            ),
            (
                train.precision == Precision::F32 || train.device != DeviceChoice::Cpu,
                "train.precision",
                "`bf16` is for CUDA; the CPU computes in `f32`".to_owned(),
            ),
            (optimizer.lr > 0.0 && optimizer.lr.is_finite(), "optimizer.lr", "it must be above 0".to_owned()),
            (
                optimizer.betas.iter().all(|beta| (0.0..1.0).contains(beta)),
                "optimizer.betas",
                format!("{:?} are not two rates below 1", optimizer.betas),
            ),
            (optimizer.eps > 0.0, "optimizer.eps", "it must be above 0".to_owned()),
            (optimizer.weight_decay >= 0.0, "optimizer.weight_decay", "it must not be negative".to_owned()),
            (optimizer.clip_norm >= 0.0, "optimizer.clip_norm", "it must not be negative; 0 clips nothing".to_owned()),
            (self.checkpoints.every_steps > 0, "checkpoints.every_steps", "it must be above 0".to_owned()),
            (self.checkpoints.keep > 0, "checkpoints.keep", "at least one must stay".to_owned()),
            (self.report.every_steps > 0, "report.every_steps", "it must be above 0".to_owned()),
        ];
        let broken = rules.into_iter().filter(|(holds, ..)| !holds);
        let problems = broken.map(|(_, key, message)| Problem { key: key.to_owned(), message });
        problems.chain(self.network_problems()).chain(self.loss_problems()).collect()
    }

    fn network_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |key: String, message: String| problems.push(Problem { key, message });
        for message in self.encoder.relative_positions.buckets().map(Buckets::problems).unwrap_or_default() {
            add("encoder.relative_positions".to_owned(), message);
        }
        let in_order = self.train.deterministic && self.train.device != DeviceChoice::Cpu;
        for (name, network) in &self.networks {
            if name == MAIN || name == "heads" || name == "encoder" {
                add(format!("networks.{name}"), format!("`{name}` is taken; give this network another name"));
            }
            for (key, message) in network.problems(Beside { main: &self.encoder, in_order }) {
                add(format!("networks.{name}.{key}"), message);
            }
        }
        let mut made = BTreeSet::new();
        for (name, view) in self.networks.iter().filter_map(|(name, network)| Some((name, network.makes()?.view))) {
            if !made.insert(view) {
                add(format!("networks.{name}.makes"), format!("two networks make `{view}`"));
            }
        }
        problems
    }

    fn loss_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |key: String, message: String| problems.push(Problem { key, message });
        if !self.loss.values().any(|&weight| weight != 0.0) {
            add("loss".to_owned(), "no objective has a weight: nothing would be learned".to_owned());
        }
        for (name, weight) in &self.loss {
            if !weight.is_finite() {
                add(format!("loss.{name}"), format!("{weight} is not a finite number"));
            }
            let Some(objective) = self.objectives.get(name) else {
                let known = self.objectives.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                add(format!("loss.{name}"), format!("there is no objective `{name}`; there are {known}"));
                continue;
            };
            for message in objective.problems() {
                add(format!("objectives.{name}"), message);
            }
            if self.encoder.embedding_width() != i64::from(self.encoder.hidden) && objective.meets_word_table() {
                let message =
                    format!("`{name}` holds hidden states against the word table: `encoder.embedding` must be as wide");
                add("encoder.embedding".to_owned(), message);
            }
            if objective.batch_coupled() && self.train.rows_per_micro_batch < 2 {
                let message =
                    format!("`{name}` contrasts rows of a micro-batch with each other: at least 2 are needed");
                add("train.rows_per_micro_batch".to_owned(), message);
            }
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use crate::testing;

    #[test]
    fn a_good_plan_has_no_problems_and_a_bad_one_shows_all() {
        let mut plan = testing::plan(std::path::Path::new("unused"));
        assert_eq!(plan.problems(), []);
        (plan.encoder.heads, plan.encoder.dropout, plan.width) = (3, 1.0, 17);
        (plan.train.rows_per_step, plan.optimizer.lr, plan.checkpoints.keep) = (9, 0.0, 0);
        plan.loss.insert("nobody".to_owned(), 1.0);
        let keys: Vec<String> = plan.problems().into_iter().map(|problem| problem.key).collect();
        let expected = [
            "encoder.hidden",
            "encoder.dropout",
            "encoder.positions",
            "train.rows_per_step",
            "optimizer.lr",
            "checkpoints.keep",
            "loss.nobody",
        ];
        assert_eq!(keys, expected);
    }
}
