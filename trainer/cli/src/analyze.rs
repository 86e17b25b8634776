//! `cloze analyze`: analyses of checkpoints of runs and of `transformers` models.

mod model;

use std::path::Path;

use cloze::analyze::{self, ModelFindings};
use cloze::cli::{AnalyzeArgs, StepChoice};
use cloze::exit::Usage;
use pipeline::tokenize::Tokenizer as _;
use store::Store;
use telemetry::terminal::note;
use trainer_plan::checkpoint;

use self::model::{CheckpointModel, ModelSource};

/// Computes the analysis for every model and step, prints the results and writes the files.
pub(crate) fn run(args: &AnalyzeArgs) -> anyhow::Result<()> {
    analyze::check_outputs(args)?;
    let mut work = Vec::new();
    for folder in &args.common.models {
        let source = ModelSource::open(folder)?;
        let steps = steps(folder, &source, &args.common.step)?;
        work.push((source, steps));
    }
    let checkpoints: usize = work.iter().map(|(_, steps)| steps.len()).sum();
    let mut found = Vec::new();
    let mut read = None;
    for (folder, (source, steps)) in args.common.models.iter().zip(&work) {
        let name = analyze::model_name(folder, &args.common.models);
        // Models with one tokenizer share the data.
        let of = (source.tokenizer().facts().manifest.fingerprint.clone(), source.max_tokens());
        let data = match read.take() {
            Some((known, data)) if known == of => data,
            _ => analyze::data(args, source.tokenizer(), source.max_tokens())?,
        };
        for &step in steps {
            let at = step.map_or(String::new(), |step| format!(" step {step}"));
            note(format_args!("analyze: {name}{at} ({} of {checkpoints})", found.len() + 1));
            let model = CheckpointModel::load(source, step)?;
            let tables = args.analysis.compute(&model, &data, args.common.seed).map_err(error)?;
            found.push(ModelFindings { model: name.clone(), step, tables });
        }
        read = Some((of, data));
    }
    analyze::write(args, &found)
}

fn error(error: analysis::Error) -> anyhow::Error {
    match error {
        analysis::Error::Usage(message) => Usage(message).into(),
        analysis::Error::Model(error) => match error.downcast::<trainer_plan::Error>() {
            Ok(error) => (*error).into(),
            Err(error) => anyhow::anyhow!(error),
        },
    }
}

/// Returns the steps of a model to analyze, ascending. A model without steps has one entry, `None`.
fn steps(folder: &Path, source: &ModelSource, wanted: &[StepChoice]) -> anyhow::Result<Vec<Option<u64>>> {
    if !source.is_run() {
        if !wanted.is_empty() && wanted != [StepChoice::All] {
            let problem = format!("--step: {} is a model, which has no steps; name a run", folder.display());
            return Err(Usage(problem).into());
        }
        return Ok(vec![None]);
    }
    let store = Store::existing(folder)?;
    if wanted.is_empty() {
        return Ok(vec![Some(checkpoint::newest_complete_state(&store)?.step.0)]);
    }
    let mut known: Vec<u64> = checkpoint::steps(&store)?.into_iter().map(|step| step.0).collect();
    known.sort_unstable();
    if known.is_empty() {
        return Err(Usage(format!("{}: the run has no checkpoint; train it first", folder.display())).into());
    }
    let mut chosen = Vec::new();
    for choice in wanted {
        match choice {
            StepChoice::All => chosen.extend(&known),
            StepChoice::After(step) if known.contains(step) => chosen.push(*step),
            StepChoice::After(step) => {
                let listed = known.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
                let place = folder.display();
                return Err(Usage(format!("--step {step}: {place} has no such checkpoint; it has {listed}")).into());
            }
        }
    }
    chosen.sort_unstable();
    chosen.dedup();
    Ok(chosen.into_iter().map(Some).collect())
}
