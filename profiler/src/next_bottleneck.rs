//! Prediction of the next bottleneck: the headroom of each part if the current bottleneck were removed.
//!
//! # Definition
//! A part that is busy a share `b` of the time could process `1 / b` times as much. Workers that are not waiting for
//! queue space are busy or starved, so they could produce `1 / (1 - blocked)` times as much. Actors that use `p` of
//! `n` processors could use `n / p` times as much.
//! The part with the least headroom, other than the current bottleneck, is the next bottleneck.

use crate::bottleneck::Bottleneck;
use crate::measure::{MeanShares, Measured};
use crate::statistics::percent;

/// Smallest share that is not clock error. It bounds the headroom of an idle part.
const NOTHING: f64 = 1e-3;

/// Headroom below this counts as none.
const NEARLY: f64 = 0.03;

/// Describes the next bottleneck. `None` if there is none or if it is unknown.
pub(super) fn describe(bottleneck: &Bottleneck, measured: &Measured, reader: &str) -> Option<String> {
    let (name, could) = next(bottleneck, measured)?;
    let (part, verb) = match name {
        Next::Reader => (format!("the {reader}"), "could take"),
        Next::Loader => ("the loader".to_owned(), "could supply"),
        Next::OtherWorkers => ("the other workers".to_owned(), "could produce"),
        Next::Processors => ("the processors".to_owned(), "suffice for"),
    };
    let much =
        if could < 10.0 { format!("{} of this rate", percent(could)) } else { format!("{could:.0} times this rate") };
    Some(format!("next bottleneck: {part}, which {verb} {much}"))
}

/// Candidate for the next bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Reader,
    Loader,
    OtherWorkers,
    Processors,
}

/// Returns the candidate with the least headroom, and the headroom as a multiple of the current rate.
fn next(bottleneck: &Bottleneck, measured: &Measured) -> Option<(Next, f64)> {
    let workers = MeanShares::new(measured);
    let reader = (Next::Reader, times(measured.reader.busy));
    let loader = (Next::Loader, loader(&workers));
    let processors = (Next::Processors, measured.cores as f64 * times(measured.processors_had()));
    let behind = match bottleneck {
        Bottleneck::Unknown => return None,
        Bottleneck::Reader => vec![loader, processors],
        Bottleneck::Workers | Bottleneck::Outside | Bottleneck::Source => vec![reader, processors],
        Bottleneck::Worker(name) => {
            // Production of all workers if the slow one were as fast as the others.
            let others = times(1.0 - measured.others_blocked(name)?);
            vec![(Next::OtherWorkers, others), reader, processors]
        }
        Bottleneck::Cores => vec![reader],
        Bottleneck::Room => vec![loader, reader, processors],
    };
    // A part without headroom limits the pipeline already, so it is not the next bottleneck.
    let next = behind.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, could)| (name, could.max(1.0)));
    next.filter(|(_, could)| *could > 1.0 + NEARLY)
}

/// Returns how much the workers could produce with free queue space, as a multiple of the current rate.
pub(super) fn loader(workers: &MeanShares) -> f64 {
    times(1.0 - workers.blocked)
}

fn times(share: f64) -> f64 {
    1.0 / share.max(NOTHING)
}
