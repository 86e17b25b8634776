//! Checkpoint of a run that is read.

use std::path::Path;

use schemas::Step;
use store::Store;
use trainer_plan::checkpoint;

use super::record::TaskRecord;
use crate::plan::Plan;

/// Returns the step of the checkpoint that evaluations, exports and further fine-tunings read: the given one, else the best
/// one of a fine-tuning that keeps the best. `None`: the newest.
///
/// # Errors
/// If the checkpoints cannot be listed.
pub fn chosen_step(plan: &Plan, run: &Store, given: Option<u64>) -> anyhow::Result<Option<Step>> {
    let rules = &plan.train().checkpoints;
    if given.is_some() || rules.keep_best == 0 || TaskRecord::find(&plan.data().store)?.is_none() {
        return Ok(given.map(Step));
    }
    Ok(checkpoint::best_step(run, rules)?)
}

/// Returns the step of the checkpoint of `from` that the configuration in `out` starts from; `None` without such a
/// configuration.
pub(super) fn kept_step(out: &Path, from: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(out.join("run.toml")).ok()?;
    let table: toml::Table = toml::from_str(&text).ok()?;
    let weights = Path::new(table.get("train")?.get("init_from")?.as_str()?);
    let is_of_run = weights.parent().is_some_and(|folder| folder == from.join(checkpoint::FOLDER));
    let name = weights.file_name().filter(|_| is_of_run)?.to_str()?;
    checkpoint::step_of_folder(name).map(|step| step.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_step_of_a_configuration_is_that_of_its_run() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("created");
        let step = |toml: &str| {
            store.put("run.toml", toml.as_bytes()).expect("written");
            kept_step(home.path(), Path::new("/a"))
        };
        let folder = format!("/a/{}/{}", checkpoint::FOLDER, checkpoint::folder_name(Step(120)));
        assert_eq!(step(&format!("[train]\ninit_from = \"{folder}\"\n")), Some(120));
        assert_eq!(step(&format!("[train]\ninit_from = \"/b{folder}\"\n")), None, "of another run");
        assert_eq!((step("[train]\ninit_from = \"/a\"\n"), step("not TOML")), (None, None));
        assert_eq!(kept_step(&home.path().join("absent"), Path::new("/a")), None);
    }
}
