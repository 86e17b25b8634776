//! `cloze profile` of the targets that compute tensors.

mod made;
pub(crate) mod micro_batch;
pub(crate) mod step;

pub(crate) use self::step::measure_step;
mod training;

use cloze::cli::{ConfigArgs, ProfileArgs, ProfileTarget};
use cloze::commands::profile::shown::Profile;
use cloze::commands::profile::traces::Recording;
use cloze::commands::profile::{check, measure, offline, online};
use cloze::exit::Usage;
use profiler::VERSION;
use profiler::bottleneck::Bottleneck;
use telemetry::quantities::short;
use telemetry::terminal::line;

use crate::train::launched;

/// Profiles the training, all three halves, or synthetic steps, and prints the result.
pub(crate) fn run(args: &ConfigArgs, options: &ProfileArgs) -> anyhow::Result<()> {
    check(options)?;
    match options.target {
        ProfileTarget::Step => step::run(args, options.timed_steps(), options.json),
        ProfileTarget::All if is_first_rank(options)? => all(args, options),
        _ if !is_first_rank(options)? => training::train(args, options).map(drop),
        _ => measure(args, options, &|args| training::measured(args, options), &|args, recording| {
            training::checked(args, options, recording)
        }),
    }
}

/// Whether this process is rank 0 or the only one. Refuses what trains more than once or profiles other halves too,
/// which ranks do not.
fn is_first_rank(options: &ProfileArgs) -> anyhow::Result<bool> {
    let Some(launch) = launched()? else { return Ok(true) };
    let single = [
        ("`profile all`", options.target == ProfileTarget::All),
        ("--check", options.check),
        ("--scale", !options.scale.is_empty()),
    ];
    match single.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(launch.rank == 0),
        Some((option, _)) => {
            let ranks = launch.world_size;
            Err(Usage(format!("{option} with {ranks} ranks: measure in a single process, without a launcher")).into())
        }
    }
}

/// Profiles each half separately, then names the bottleneck.
fn all(args: &ConfigArgs, options: &ProfileArgs) -> anyhow::Result<()> {
    let of = |target: ProfileTarget| ProfileArgs {
        target,
        check: options.check && target != ProfileTarget::Prepare,
        // The loader is measured alone: its rate is compared with that of the training.
        step_ms: options.step_ms.or(Some(0.0)),
        ..options.clone()
    };
    let no_recording = &mut Recording::none();
    let halves = [
        offline(args, &of(ProfileTarget::Prepare), no_recording)?,
        online(args, &of(ProfileTarget::Loader), no_recording)?,
        training::checked(args, &of(ProfileTarget::Train), no_recording)?,
    ];
    let sentence = describe_slowest(&halves);
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

/// Compares the rates of the halves in one sentence.
fn describe_slowest([offline, online, training]: &[Profile; 3]) -> String {
    let is_known = |profile: &&Profile| profile.bottleneck != Some(Bottleneck::Unknown);
    let speed = |profile: &Profile| Some(profile).filter(is_known)?.tokens_per_s();
    let (Some(prepares), Some(loads), Some(trains)) = (speed(offline), speed(online), speed(training)) else {
        return "the measurement is too short to compare the halves; measure for longer (`--seconds`)".to_owned();
    };
    let bottleneck = if trains < loads { "trainer" } else { "loader" };
    format!(
        "bottleneck: {bottleneck}; training takes {} tokens/s, the loader alone makes {} ({:.1} times as many), and the \
         preparation makes {} ({:.1} times as many)",
        short(trains),
        short(loads),
        loads / trains.max(1e-9),
        short(prepares),
        prepares / trains.max(1e-9)
    )
}
