//! What lanes do just now, for who looks at them.

use std::time::Duration;

use pipeline::actor::{Activity, Gauges, Reading};
use serve::ActorStatus;

/// What lanes do just now, and whoever reads what they make.
pub(crate) fn actors(gauges: &Gauges) -> Vec<ActorStatus> {
    let lanes = gauges.lanes();
    let reader = gauges.reader();
    lanes.iter().map(|lane| actor(lane, false)).chain([actor(&reader, true)]).collect()
}

fn actor(reading: &Reading, is_reader: bool) -> ActorStatus {
    let wall_s = reading.wall.as_secs_f64();
    let share = |part: Duration| part.as_secs_f64() / wall_s.max(1e-9);
    ActorStatus {
        name: reading.name.clone(),
        doing: match reading.doing {
            Some(Activity::Busy) => "busy",
            Some(Activity::Starved) => "starved",
            Some(Activity::Blocked) => "blocked",
            None => "ended",
        },
        since_s: reading.age.as_secs_f64(),
        items: reading.items,
        busy: share(reading.busy),
        starved: share(reading.starved),
        blocked: share(reading.blocked),
        wall_s,
        queued: reading.queued as u64,
        capacity: reading.capacity as u64,
        is_reader,
    }
}
