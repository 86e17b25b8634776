//! Examples of a set, with its invalid lines as one error.

use std::collections::BTreeSet;
use std::path::Path;

use tasks::task::ExampleSet;
use tasks::{AnyTask, Example, ExampleReader, TaskOutput};
use telemetry::quantities::count;
use telemetry::terminal::line;

use crate::exit::Usage;

/// Reads the examples of a set.
///
/// # Errors
/// The first invalid lines, by file, line and column.
pub fn examples(set: &ExampleSet, folder: &Path, task: &AnyTask) -> anyhow::Result<Vec<Example>> {
    let mut examples = Vec::new();
    each_example(set, folder, task, |example| examples.push(example))?;
    Ok(examples)
}

/// Passes the examples of a set to `visit`, one by one. Invalid lines are an error at the end.
pub(super) fn each_example(
    set: &ExampleSet,
    folder: &Path,
    task: &AnyTask,
    mut visit: impl FnMut(Example),
) -> anyhow::Result<()> {
    let file = folder.join(&set.file);
    let mut reader =
        ExampleReader::open(&file, &set.layout, &task.output()).map_err(|error| Usage(error.to_string()))?;
    let mut read_any = false;
    let mut errors = Vec::new();
    // Predictions of answers are written by id.
    let mut ids = matches!(task.output(), TaskOutput::Spans { .. }).then(BTreeSet::new);
    for read in reader.by_ref() {
        match read {
            Ok(example) => {
                if ids.as_mut().is_some_and(|ids| !ids.insert(*blake3::hash(example.id.as_bytes()).as_bytes())) {
                    let id = &example.id;
                    let hint = "give each question its own, since predictions are written by id";
                    errors.push(format!(
                        "{}:{}: the question id `{id}` occurs twice; {hint}",
                        file.display(),
                        example.line
                    ));
                }
                read_any = true;
                visit(example);
            }
            Err(error) => errors.push(error.to_string()),
        }
    }
    if !errors.is_empty() {
        let first = errors.iter().take(3).cloned().collect::<Vec<_>>().join("\n");
        let others =
            if errors.len() > 3 { format!("\nand {} more invalid lines", errors.len() - 3) } else { String::new() };
        return Err(Usage(format!("{first}{others}")).into());
    }
    if reader.counts().dropped > 0 {
        line(format_args!("{}: {} malformed lines are left out", file.display(), count(reader.counts().dropped)));
    }
    if !read_any {
        return Err(Usage(format!("{}: no example is here", file.display())).into());
    }
    Ok(())
}
