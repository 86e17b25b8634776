//! Averages over GLUE by each paper's own convention.
//!
//! The papers' averages are not comparable with each other: F1 or accuracy for QQP and MRPC, 8 or 9 numbers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metric::MetricValue;

/// Convention of a paper for primary metrics and for the average over GLUE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Convention {
    /// TACO's small models: F1 for QQP and MRPC; the mean of 9 numbers, MNLI matched and mismatched separately.
    TacoSmall,
    /// TACO's base models: F1 for QQP and MRPC; the mean of 8 numbers, MNLI matched only.
    TacoBase,
    /// COCO-LM: accuracy for QQP and MRPC; the mean of 8 numbers, MNLI matched only.
    #[default]
    CocoLm,
    /// FE-MLM: accuracy, with F1 in addition, for QQP and MRPC; the mean of 9 numbers.
    FeMlm,
}

/// Primary metrics of one model on the dev sets of GLUE.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GlueScores {
    /// MNLI, matched.
    pub mnli_matched: MetricValue,
    /// MNLI, mismatched.
    pub mnli_mismatched: MetricValue,
    /// QQP.
    pub qqp: MetricValue,
    /// QNLI.
    pub qnli: MetricValue,
    /// SST-2.
    pub sst2: MetricValue,
    /// CoLA.
    pub cola: MetricValue,
    /// STS-B.
    pub stsb: MetricValue,
    /// MRPC.
    pub mrpc: MetricValue,
    /// RTE.
    pub rte: MetricValue,
}

impl Convention {
    /// All conventions.
    pub const ALL: &'static [Self] = &[Self::TacoSmall, Self::TacoBase, Self::CocoLm, Self::FeMlm];

    /// Returns whether MNLI mismatched is one of the averaged numbers.
    pub fn counts_mismatched(self) -> bool {
        matches!(self, Self::TacoSmall | Self::FeMlm)
    }

    /// Returns the average over GLUE. It is undefined if one of its numbers is.
    pub fn average(self, scores: &GlueScores) -> MetricValue {
        let GlueScores { mnli_matched, mnli_mismatched, qqp, qnli, sst2, cola, stsb, mrpc, rte } = *scores;
        let mut values = vec![mnli_matched, qqp, qnli, sst2, cola, stsb, mrpc, rte];
        if self.counts_mismatched() {
            values.push(mnli_mismatched);
        }
        mean(&values)
    }
}

/// Returns the mean of several values. It is undefined if one of them is, or if there are none.
pub fn mean(values: &[MetricValue]) -> MetricValue {
    let mut sum = 0.0;
    for value in values {
        match value {
            MetricValue::Defined(value) => sum += value,
            MetricValue::Undefined(reason) => return MetricValue::Undefined(*reason),
        }
    }
    MetricValue::mean(sum, values.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::UndefinedReason;

    /// Row of a table: MNLI m/mm, QQP, QNLI, SST-2, CoLA, STS-B, MRPC, RTE.
    fn scores(row: [f64; 9]) -> GlueScores {
        let [mnli_matched, mnli_mismatched, qqp, qnli, sst2, cola, stsb, mrpc, rte] = row.map(MetricValue::Defined);
        GlueScores { mnli_matched, mnli_mismatched, qqp, qnli, sst2, cola, stsb, mrpc, rte }
    }

    fn check(convention: Convention, row: [f64; 9], printed: f64, unit: f64) {
        let average = convention.average(&scores(row)).value().expect("all are numbers");
        // The numbers are rounded before and after averaging.
        assert!((average - printed).abs() <= unit * 1.001, "{convention:?} {row:?}: {average} is not {printed}");
    }

    #[test]
    fn averages_are_those_that_the_papers_print() {
        // TACO, dev and test of BERT-small. The untied model of Table 10 is left out: its mean is 76.1, and 75.9 is printed.
        for (row, printed) in [
            ([76.9, 77.4, 85.7, 86.2, 89.0, 28.8, 85.6, 85.9, 59.6], 75.0),
            ([76.7, 76.8, 85.2, 85.0, 87.5, 31.3, 85.6, 87.1, 59.1], 74.9),
            ([77.9, 78.4, 86.1, 86.5, 88.9, 34.2, 86.1, 88.1, 59.5], 76.2),
            ([77.5, 76.5, 68.2, 85.6, 89.3, 27.9, 76.9, 82.6, 60.6], 71.7),
            ([78.0, 76.9, 67.6, 86.3, 89.5, 31.2, 77.8, 84.4, 58.4], 72.2),
        ] {
            check(Convention::TacoSmall, row, printed, 0.1);
        }
        // TACO, dev of BERT-base after 500,000 steps. The mismatched column is not printed.
        for (row, printed) in [
            ([84.2, f64::NAN, 87.9, 91.1, 92.1, 51.1, 87.9, 89.8, 63.4], 80.9),
            ([84.6, f64::NAN, 88.1, 90.8, 92.3, 53.4, 88.5, 90.7, 66.3], 81.8),
        ] {
            check(Convention::TacoBase, row, printed, 0.1);
        }
        // COCO-LM, Table 1.
        for (row, printed) in [
            ([85.8, 85.5, 91.3, 92.0, 93.7, 60.1, 88.5, 87.3, 68.2], 83.3),
            ([86.9, 86.7, 91.9, 92.6, 93.6, 66.2, 89.7, 88.2, 75.1], 85.5),
            ([88.5, 88.3, 92.0, 93.1, 93.2, 63.9, 90.3, 91.4, 84.8], 87.2),
            ([90.2, 90.0, 92.2, 94.2, 94.6, 67.3, 91.8, 91.2, 87.4], 88.6),
            ([91.4, 91.6, 92.8, 95.7, 96.9, 73.9, 92.7, 92.2, 91.0], 90.8),
        ] {
            check(Convention::CocoLm, row, printed, 0.1);
        }
        // FE-MLM, base from scratch.
        for (row, printed) in [
            ([84.37, 84.85, 91.09, 91.01, 92.78, 59.65, 87.89, 87.01, 63.54], 82.47),
            ([85.09, 84.63, 91.16, 91.01, 93.23, 61.32, 89.51, 87.99, 68.59], 83.61),
        ] {
            check(Convention::FeMlm, row, printed, 0.01);
        }
    }

    #[test]
    fn conventions_differ_on_the_same_row() {
        let row = scores([76.9, 70.0, 85.7, 86.2, 89.0, 28.8, 85.6, 85.9, 59.6]);
        assert_ne!(Convention::TacoSmall.average(&row), Convention::TacoBase.average(&row));
        assert_eq!(Convention::TacoBase.average(&row), Convention::CocoLm.average(&row));
    }

    #[test]
    fn an_undefined_number_makes_the_average_undefined() {
        let mut row = scores([1.0; 9]);
        row.stsb = MetricValue::Undefined(UndefinedReason::Constant);
        for convention in Convention::ALL {
            assert_eq!(convention.average(&row), MetricValue::Undefined(UndefinedReason::Constant));
        }
        assert_eq!(mean(&[]), MetricValue::Undefined(UndefinedReason::NoExamples));
    }
}
