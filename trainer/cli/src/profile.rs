//! `cloze profile` of the halves that compute tensors.

mod made;
pub(crate) mod micro_batch;
pub(crate) mod step;
mod training;

use cloze::cli::{ConfigArgs, ProfileArgs, ProfileTarget};
use cloze::commands::profile::shown::Profile;
use cloze::commands::profile::traced::Recording;
use cloze::commands::profile::{measure, offline, online, refuse};
use profiler::VERSION;
use profiler::bottleneck::Binding;
use telemetry::quantities::short;
use telemetry::terminal::line;

/// Runs the training half, all three, or made steps, and prints where the time goes.
pub(crate) fn run(args: &ConfigArgs, options: &ProfileArgs) -> anyhow::Result<()> {
    match options.target {
        ProfileTarget::Step => {
            refuse(options)?;
            step::run(args, options.steps, options.json)
        }
        ProfileTarget::All => {
            refuse(options)?;
            all(args, options)
        }
        _ => measure(args, options, &|args| training::measured(args, options), &|args, recording| {
            training::checked(args, options, recording)
        }),
    }
}

/// Each half by itself, then which of them the others wait for.
fn all(args: &ConfigArgs, options: &ProfileArgs) -> anyhow::Result<()> {
    let of = |target: ProfileTarget| ProfileArgs {
        target,
        check: options.check && target != ProfileTarget::Prepare,
        ..options.clone()
    };
    let nothing = &mut Recording::none();
    let halves = [
        offline(args, &of(ProfileTarget::Prepare), nothing)?,
        online(args, &of(ProfileTarget::Loader), nothing)?,
        training::checked(args, &of(ProfileTarget::Train), nothing)?,
    ];
    let sentence = between(&halves);
    if options.json {
        let halves: Vec<_> = halves.iter().map(|half| half.object(&args.config)).collect();
        line(format_args!(
            "{:#}",
            serde_json::json!({ "version": VERSION, "target": ProfileTarget::All.name(), "sentence": sentence, "halves": halves })
        ));
        return Ok(());
    }
    for profile in &halves {
        line(format_args!("== {}", profile.target));
        profile.lines().into_iter().for_each(line);
        line("");
    }
    line(sentence);
    Ok(())
}

/// What the halves are to one another.
fn between([offline, online, training]: &[Profile; 3]) -> String {
    let is_known = |profile: &&Profile| profile.binding != Some(Binding::Unknown);
    let speed = |profile: &Profile| Some(profile).filter(is_known)?.tokens_per_s();
    let (Some(prepares), Some(loads), Some(trains)) = (speed(offline), speed(online), speed(training)) else {
        return "too short to hold the halves next to one another; measure for longer (`--seconds`)".to_owned();
    };
    let binds = if trains < loads { "the trainer binds" } else { "the loader binds" };
    format!(
        "{binds}: training takes {} tokens/s, the loader by itself makes {} ({:.1} times as many), and a corpus is prepared at \
         {} ({:.1} times)",
        short(trains),
        short(loads),
        loads / trains.max(1e-9),
        short(prepares),
        prepares / trains.max(1e-9)
    )
}
