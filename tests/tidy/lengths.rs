//! Check of the length of source files.

use testkit::tree::has_extension;

use super::{files, read, report};

/// Largest number of lines of a source file.
const LINES_MAX: usize = 500;

/// Files that are longer, with their number of lines. They may only become shorter.
const LONGER: &[(&str, usize)] = &[("scripts/test-deploy", 511)];

#[test]
fn source_files_have_at_most_500_lines() {
    let mut offences = Vec::new();
    for path in files().into_iter().filter(|path| is_source(path)) {
        let lines = read(&path).lines().count();
        match LONGER.iter().find(|(longer, _)| *longer == path) {
            None if lines > LINES_MAX => offences.push(format!("{path}: {lines} lines; divide it")),
            Some((_, known)) if lines > *known => {
                offences.push(format!("{path}: {lines} lines, and {known} are listed"));
            }
            Some((_, known)) if lines < *known => {
                let change = if lines > LINES_MAX { format!("list {lines}") } else { "remove it".to_owned() };
                offences.push(format!("{path}: {lines} lines; {change} in tests/tidy/lengths.rs"));
            }
            _ => {}
        }
    }
    let all = files();
    let gone = LONGER.iter().filter(|(path, _)| !all.iter().any(|it| it == path));
    offences.extend(gone.map(|(path, _)| format!("{path} does not exist; remove it from tests/tidy/lengths.rs")));
    report("files that are too long", "a file has one duty; see CONTRIBUTING.md", &offences);
}

/// Whether a file has source code: by its ending, or a script.
fn is_source(path: &str) -> bool {
    let endings = ["rs", "py", "js", "css", "cpp", "h", "sh"];
    endings.iter().any(|ending| has_extension(path, ending)) || (path.starts_with("scripts/") && !path.contains('.'))
}
