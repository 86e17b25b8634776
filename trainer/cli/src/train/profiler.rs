//! Steps of a run that are measured while it continues, because somebody wants to know.

use std::path::Path;

use cloze::run::control::profile_file::{PROFILES, Wanted, Wish};
use cloze::run::control::{Control, Pending};
use schemas::ordinal::Step;
use store::Store;

use crate::step_profile::{Running, Shape, profile};

/// Measures on the trainer's thread what is wished for; what it comes to is worked out and written on another.
pub(super) struct Profiler {
    shape: Shape,
    /// What was wished for, of steps that are still to come or under way.
    wanted: Option<Wish>,
    /// What is wished for behind that.
    later: Option<Wish>,
    running: Option<(Step, Running)>,
    writing: Option<Pending<()>>,
    /// Steps done when it was last asked.
    done: Option<Step>,
}

impl Profiler {
    pub(super) fn new(shape: Shape, wanted: Option<Wish>) -> Self {
        Self { shape, wanted, later: None, running: None, writing: None, done: None }
    }

    /// Behind so many steps the next begins.
    pub(super) fn next_step(&mut self, done: Step, control: &Control, folder: &Store) {
        self.done = Some(done);
        if let Some((from, running)) = &mut self.running {
            running.step();
            if self.wanted.as_ref().is_none_or(|wish| is_over(&wish.wanted, *from, done, running)) {
                self.end(done, control, folder);
            }
        }
        // Steps that are still to come keep nobody waiting.
        if self.running.is_none()
            && let Some(wish) = control.wishes().to_measure()
        {
            self.later = self.wanted.replace(wish).or(self.later.take());
        }
        self.wanted = self.wanted.take().or_else(|| self.later.take());
        let begins = match self.wanted.as_ref().map(|wish| &wish.wanted) {
            Some(Wanted::Steps(steps)) => {
                if self.running.is_none() && done.0 >= steps.end {
                    tracing::warn!("steps {}..{} are behind this run: they are not measured", steps.start, steps.end);
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
                    tracing::warn!(%error, "steps cannot be measured");
                    self.wanted = None;
                }
            }
        }
    }

    /// The run is over behind so many steps: what is measured then is told nevertheless.
    pub(super) fn close(&mut self, control: &Control, folder: Option<&Store>) {
        if let (Some(folder), Some(done)) = (folder, self.done) {
            self.end(done, control, folder);
        }
        for Wish { wanted, .. } in [self.wanted.take(), self.later.take()].into_iter().flatten() {
            tracing::warn!("the run ended before `{wanted}` could be measured");
        }
        self.wait(control);
    }

    fn wait(&mut self, control: &Control) {
        if let Some(writing) = self.writing.take()
            && let Err(error) = control.wait(writing)
        {
            tracing::warn!(%error, "a profile was not written");
        }
    }

    fn end(&mut self, done: Step, control: &Control, folder: &Store) {
        self.wait(control);
        let Some((from, running)) = self.running.take() else { return };
        let by = self.wanted.take().and_then(|wish| wish.by).map_or(String::new(), |by| format!("-{by}"));
        let (watch, times) = running.end();
        let (shape, folder) = (self.shape, folder.clone());
        // Of the last step of a run nobody hears that the next one begins.
        let to = done.0.max(from.0 + times.count);
        let name = format!("{PROFILES}/{}-{to}{by}", from.0);
        let told = format!("steps {} to {to} were measured: {name}.json", from.0);
        self.writing = Some(control.spawn(move || {
            let profile = profile(shape, &watch, times);
            // The text comes last: whoever waits for it finds the object too.
            let written = folder
                .put(&format!("{name}.json"), format!("{:#}\n", profile.object(Path::new("config.toml"))).as_bytes())
                .and_then(|_| {
                    folder.put(&format!("{name}.txt"), format!("{}\n", profile.lines().join("\n")).as_bytes())
                });
            match written {
                Ok(_) => tracing::info!("{told}"),
                Err(error) => tracing::warn!(%error, "a profile was not written"),
            }
        }));
    }
}

/// Whether all that is wanted is measured; or the run went back to where it was before.
fn is_over(wanted: &Wanted, from: Step, done: Step, running: &Running) -> bool {
    done < from
        || match wanted {
            Wanted::Steps(steps) => done.0 >= steps.end,
            Wanted::Next(steps) => done.0 >= from.0.saturating_add(*steps),
            Wanted::Seconds(seconds) => running.seconds() >= *seconds,
        }
}
