//! Metrics, which have no gradients.

use std::collections::BTreeMap;

use analysis::geometry::SelfSimilaritySum;
use analysis::measure::Measure;
use trainer_plan::Error;
use trainer_plan::relative_positions::{BucketForm, Buckets};

use crate::objectives::similarity;
use crate::parity::files::{CaseOutcome, PartValue};
use crate::parity::glue;
use crate::parity::inputs::Inputs;
use crate::parity::outcomes::{measured, number, parts};

pub(super) fn contextual_score(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let hidden = inputs.numbers("hidden", "btd")?;
    let positions = 0..inputs.size('b') * inputs.size('t');
    let vectors = vectors(&hidden, inputs.size('d'));
    let mut places = |name: &str| inputs.places(name, "n", &positions);
    let tokens = places("token")?;
    let [intra, inter] = [places("intra")?, places("inter")?];
    let mut parts = BTreeMap::new();
    let mut difference = f64::NAN;
    for measure in Measure::ALL {
        let mean = |others: &[usize]| {
            let each = tokens.iter().zip(others).map(|(&own, &other)| measure.compare(vectors[own], vectors[other]));
            each.sum::<f64>() / tokens.len() as f64
        };
        let [intra, inter] = [mean(&intra), mean(&inter)];
        let name = if measure == Measure::Cos { "cosine" } else { measure.name() };
        for (of, value) in [("intra", intra), ("inter", inter), ("ratio", intra / inter)] {
            parts.insert(format!("{of}_{name}"), PartValue::Number(value));
        }
        if measure == Measure::Cos {
            difference = intra - inter;
        }
    }
    Ok(measured(difference, parts))
}

pub(super) fn self_similarity(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let hidden = inputs.numbers("hidden", "btd")?;
    let valid = inputs.flags("valid", "bt")?;
    let vectors = vectors(&hidden, inputs.size('d'));
    let width = usize::try_from(inputs.size('t')).expect("sizes are not negative");
    let mut sum = SelfSimilaritySum::default();
    for (vectors, valid) in vectors.chunks(width.max(1)).zip(valid.chunks(width.max(1))) {
        sum.add(vectors.iter().zip(valid).filter(|(_, valid)| **valid).map(|(vector, _)| vector.to_vec()));
    }
    let found = sum.finish();
    Ok(measured(found.pooled, parts([("sentence_mean", found.row_mean)])))
}

/// Cuts flat values into vectors.
fn vectors(flat: &[f64], width: i64) -> Vec<&[f64]> {
    flat.chunks(usize::try_from(width).expect("sizes are not negative").max(1)).collect()
}

pub(super) fn alignment_uniformity(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let alpha = inputs.number("alpha", 2.0, 0.0)?;
    let t = inputs.number("t", 2.0, 0.0)?;
    let x_nd = inputs.constants("x", "nd")?;
    let y_nd = inputs.constants("y", "nd")?;
    let found = similarity::alignment_uniformity(&x_nd, &y_nd, alpha, t);
    let alignment = number(&found.alignment);
    let uniformity = number(&found.uniformity);
    Ok(measured(alignment, parts([("alignment", alignment), ("uniformity", uniformity)])))
}

pub(super) fn relative_bucket(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let form = inputs.choice("form", &[("cocolm", BucketForm::CocoLm), ("t5", BucketForm::T5)])?;
    let buckets = inputs.whole("buckets", 32, 0..1 << 16)?;
    let max_distance = inputs.whole("max_distance", 128, 0..1 << 16)?;
    let buckets = Buckets { form, buckets, max_distance };
    if let Some(problem) = buckets.problems().into_iter().next() {
        return Err(inputs.variant_error("buckets", &problem));
    }
    let distances = inputs.integers("distance", "n")?;
    let found = distances.into_iter().map(|distance| buckets.bucket(distance)).collect();
    Ok(measured(0.0, BTreeMap::from([("bucket".to_owned(), PartValue::List(found))])))
}

pub(super) fn metric(inputs: &mut Inputs<'_>) -> Result<CaseOutcome, Error> {
    let metrics = [
        ("accuracy", Metric::Classes(|predicted, truth, _| glue::accuracy(predicted, truth))),
        ("f1", Metric::Classes(|predicted, truth, _| glue::f1(predicted, truth, 1))),
        ("mcc", Metric::Classes(|predicted, truth, _| glue::matthews(predicted, truth))),
        ("macro_f1", Metric::Classes(glue::macro_f1)),
        ("pearson", Metric::Values(glue::pearson)),
        ("spearman", Metric::Values(glue::spearman)),
    ];
    let value = match inputs.choice("metric", &metrics)? {
        Metric::Values(metric_of) => metric_of(&inputs.numbers("pred", "n")?, &inputs.numbers("gold", "n")?),
        Metric::Classes(metric_of) => {
            let predicted = inputs.integers("pred", "n")?;
            let truth = inputs.integers("gold", "n")?;
            let largest = predicted.iter().chain(&truth).copied().max().unwrap_or(0);
            metric_of(&predicted, &truth, inputs.whole("classes", largest + 1, 0..1 << 20)?)
        }
    };
    Ok(measured(value, BTreeMap::new()))
}

/// Metric of predictions: of classes, given their number, or of values.
#[derive(Clone, Copy)]
enum Metric {
    Classes(fn(&[i64], &[i64], u32) -> f64),
    Values(fn(&[f64], &[f64]) -> f64),
}
