//! What would bind next: who could do how much of what there is, if what binds now did not.
//!
//! # Definition
//! Whoever is busy a share `b` of the time could do `1 / b` times as much. Workers wait for room, and are busy or starved else:
//! they could make `1 / (1 - blocked)` times as much. Actors that have `p` of `n` processors could have `n / p` times as much of
//! them.
//! Of those that do not bind, the one that could do the least is next.

use crate::bottleneck::Binding;
use crate::measure::{Means, Measured};
use crate::statistics::percent;

/// Below this a share is that of a clock's error: who does nothing could do anything.
const NOTHING: f64 = 1e-3;

/// As much more is none.
const NEARLY: f64 = 0.03;

/// The next bottleneck behind the one that binds; none where nothing can be said.
pub(super) fn words(binding: &Binding, measured: &Measured, reader: &str) -> Option<String> {
    let (name, could) = next(binding, measured)?;
    let (who, does) = match name {
        Next::Reader => (format!("the {reader}"), "could take"),
        Next::Loader => ("the loader".to_owned(), "could feed"),
        Next::OtherLanes => ("the other workers".to_owned(), "could make"),
        Next::Processors => ("the processors".to_owned(), "suffice for"),
    };
    let much = if could < 10.0 { format!("{} of this", percent(could)) } else { format!("{could:.0} times this") };
    Some(format!("behind it: {who}, which {does} {much}"))
}

/// Who may be next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Reader,
    Loader,
    OtherLanes,
    Processors,
}

/// The one that could do the least, with how many times as much as now that is.
fn next(binding: &Binding, measured: &Measured) -> Option<(Next, f64)> {
    let workers = Means::of(measured);
    let reader = (Next::Reader, times(measured.reader.busy));
    let loader = (Next::Loader, loader(&workers));
    let processors = (Next::Processors, measured.cores as f64 * times(measured.processors_had()));
    let behind = match binding {
        Binding::Unknown => return None,
        Binding::Reader => vec![loader, processors],
        Binding::Workers | Binding::Outside | Binding::Source => vec![reader, processors],
        Binding::Worker(name) => {
            // What all workers could make if the slow one were as the others are.
            let others = times(1.0 - measured.others_blocked(name)?);
            vec![(Next::OtherLanes, others), reader, processors]
        }
        Binding::Cores => vec![reader],
        Binding::Room => vec![loader, reader, processors],
    };
    // Who could do no more than now is not behind what binds, but next to it.
    let next = behind.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, could)| (name, could.max(1.0)));
    next.filter(|(_, could)| *could > 1.0 + NEARLY)
}

/// How much of what the reader takes the workers could make, if there were always room.
pub(super) fn loader(workers: &Means) -> f64 {
    times(1.0 - workers.blocked)
}

fn times(share: f64) -> f64 {
    1.0 / share.max(NOTHING)
}
