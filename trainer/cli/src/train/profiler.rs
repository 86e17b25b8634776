//! Profiler of a running training: measures requested steps.

use std::path::Path;

use cloze::run::control::profile_file::{PROFILES, ProfileRequest, RequestedProfile};
use cloze::run::control::{Control, Pending};
use schemas::ordinal::Step;
use store::Store;

use crate::step_profile::{Running, Shape, profile};

/// Profiler of requested steps. It measures on the trainer's thread; another thread computes and writes the profile.
pub(super) struct Profiler {
    shape: Shape,
    /// Current request, whose steps are in the future or in progress.
    wanted: Option<ProfileRequest>,
    /// Request to serve after the current one.
    later: Option<ProfileRequest>,
    running: Option<(Step, Running)>,
    writing: Option<Pending<()>>,
    /// Number of steps done at the last call.
    done: Option<Step>,
}

impl Profiler {
    pub(super) fn new(shape: Shape, wanted: Option<ProfileRequest>) -> Self {
        Self { shape, wanted, later: None, running: None, writing: None, done: None }
    }

    /// Called after `done` steps, before the next one starts.
    pub(super) fn next_step(&mut self, done: Step, control: &Control, folder: &Store) {
        self.done = Some(done);
        if let Some((from, running)) = &mut self.running {
            running.step();
            if self.wanted.as_ref().is_none_or(|request| is_over(&request.wanted, *from, done, running)) {
                self.end(done, control, folder);
            }
        }
        // A request for future steps does not delay a new request.
        if self.running.is_none()
            && let Some(request) = control.requests().to_measure()
        {
            self.later = self.wanted.replace(request).or(self.later.take());
        }
        self.wanted = self.wanted.take().or_else(|| self.later.take());
        let begins = match self.wanted.as_ref().map(|request| &request.wanted) {
            Some(RequestedProfile::Steps(steps)) => {
                if self.running.is_none() && done.0 >= steps.end {
                    tracing::warn!(
                        "profiler: steps {}..{} are already done and cannot be measured",
                        steps.start,
                        steps.end
                    );
                    self.wanted = None;
                    return;
                }
                done.0 >= steps.start
            }
            Some(_) => true,
            None => false,
        };
        if begins && self.running.is_none() {
            match Running::begin(control) {
                Ok(running) => self.running = Some((done, running)),
                Err(error) => {
                    tracing::warn!(%error, "profiler: cannot measure steps");
                    self.wanted = None;
                }
            }
        }
    }

    /// Ends the profiler with the run. Writes the profile of the measured steps.
    pub(super) fn close(&mut self, control: &Control, folder: Option<&Store>) {
        if let (Some(folder), Some(done)) = (folder, self.done) {
            self.end(done, control, folder);
        }
        for ProfileRequest { wanted, .. } in [self.wanted.take(), self.later.take()].into_iter().flatten() {
            tracing::warn!("profiler: the run ended before `{wanted}` was measured");
        }
        self.wait(control);
    }

    fn wait(&mut self, control: &Control) {
        if let Some(writing) = self.writing.take()
            && let Err(error) = control.wait(writing)
        {
            tracing::warn!(%error, "profiler: cannot write the profile");
        }
    }

    fn end(&mut self, done: Step, control: &Control, folder: &Store) {
        self.wait(control);
        let Some((from, running)) = self.running.take() else { return };
        let by = self.wanted.take().and_then(|request| request.by).map_or(String::new(), |by| format!("-{by}"));
        let (watch, times) = running.end();
        let shape = self.shape;
        let folder = folder.clone();
        // After the last step of a run, `next_step` is not called.
        let to = done.0.max(from.0 + times.count);
        let name = format!("{PROFILES}/{}-{to}{by}", from.0);
        let message = format!("profiler: measured steps {} to {to}: {name}.json", from.0);
        self.writing = Some(control.spawn(move || {
            let profile = profile(shape, &watch, times);
            // The text is written last, so that a reader that waits for it finds the JSON too.
            let written = folder
                .put(&format!("{name}.json"), format!("{:#}\n", profile.object(Path::new("config.toml"))).as_bytes())
                .and_then(|_| {
                    folder.put(&format!("{name}.txt"), format!("{}\n", profile.lines().join("\n")).as_bytes())
                });
            match written {
                Ok(_) => tracing::info!("{message}"),
                Err(error) => tracing::warn!(%error, "profiler: cannot write the profile"),
            }
        }));
    }
}

/// Whether the requested steps are measured, or the run was rolled back before them.
fn is_over(wanted: &RequestedProfile, from: Step, done: Step, running: &Running) -> bool {
    done < from
        || match wanted {
            RequestedProfile::Steps(steps) => done.0 >= steps.end,
            RequestedProfile::Next(steps) => done.0 >= from.0.saturating_add(*steps),
            RequestedProfile::Seconds(seconds) => running.seconds() >= *seconds,
        }
}
