//! Converts worker statistics to the status that the API returns.

use runtime::{Activity, PoolStats, WorkerStats};
use server::ActorStatus;

/// Status of the workers, followed by the consumer of their items.
pub(crate) fn actors(worker_stats: &PoolStats) -> Vec<ActorStatus> {
    let workers = worker_stats.workers();
    let reader = worker_stats.reader();
    workers.iter().map(|worker| actor(worker, false)).chain([actor(&reader, true)]).collect()
}

fn actor(reading: &WorkerStats, is_reader: bool) -> ActorStatus {
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
        busy_s: reading.busy.as_secs_f64(),
        starved_s: reading.starved.as_secs_f64(),
        blocked_s: reading.blocked.as_secs_f64(),
        wall_s: reading.wall.as_secs_f64(),
        queued: reading.queued as u64,
        capacity: reading.capacity as u64,
        is_reader,
    }
}
