//! Steps of a run that are measured while it goes on, because somebody wants to know.

use std::path::Path;

use schemas::ordinal::Step;
use store::Store;

use crate::commands::profile::training::{Running, Shape, profile};
use crate::control::profile_file::Wanted;
use crate::control::{Control, Pending};

/// Where profiles are kept in the folder of a run.
pub(crate) const PROFILES: &str = "profiles";

/// Measures on the trainer's thread what is wished for; what it comes to is worked out and written on another.
pub(super) struct Profiler {
    shape: Shape,
    /// What was wished for, of steps that are still to come or under way.
    wanted: Option<Wanted>,
    running: Option<(Step, Running)>,
    writing: Option<Pending<()>>,
}

impl Profiler {
    pub(super) fn new(shape: Shape, wanted: Option<Wanted>) -> Self {
        Self { shape, wanted, running: None, writing: None }
    }

    /// Behind so many steps the next begins.
    pub(super) fn next_step(&mut self, done: Step, control: &Control, folder: &Store) {
        if let Some((from, running)) = &mut self.running {
            running.step();
            if self.wanted.as_ref().is_none_or(|wanted| is_over(wanted, *from, done, running)) {
                self.end(done, control, folder);
            }
        }
        if self.wanted.is_none() {
            self.wanted = control.wishes().to_measure();
        }
        let begins = match &self.wanted {
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

    /// What is measured when the run ends is told all the same.
    pub(super) fn close(&mut self, control: &Control) {
        if let Some(writing) = self.writing.take()
            && let Err(error) = control.wait(writing)
        {
            tracing::warn!(%error, "a profile was not written");
        }
    }

    fn end(&mut self, done: Step, control: &Control, folder: &Store) {
        self.close(control);
        self.wanted = None;
        let Some((from, running)) = self.running.take() else { return };
        let (watch, times) = running.end();
        let (shape, folder) = (self.shape, folder.clone());
        let name = format!("{PROFILES}/{}-{}", from.0, done.0);
        let told = format!("steps {} to {} were measured: {name}.json", from.0, done.0);
        self.writing = Some(control.spawn(move || {
            let profile = profile(shape, &watch, times);
            // The text comes last: whoever waits for it finds the object too.
            let written =
                folder.put(&format!("{name}.json"), format!("{:#}\n", profile.object(Path::new("config.toml"))).as_bytes()).and_then(|_| {
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
