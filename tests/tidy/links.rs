//! Check that every link of a page leads to a file, and to a heading of it.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use testkit::root;
use testkit::tree::has_extension;

use super::{files, read, report};

#[test]
fn links_lead_to_files_and_headings() {
    let mut offences = Vec::new();
    for page in files().into_iter().filter(|path| has_extension(path, "md")) {
        let content = read(&page);
        for link in text_lines(&content).flat_map(links).filter(|link| !is_url(link)) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { resolve(&page, file) };
            if !root().join(&target).exists() {
                offences.push(format!("{page}: `{link}`: no such file"));
            } else if !heading.is_empty() && has_extension(&target, "md") && !anchors(&read(&target)).contains(heading)
            {
                offences.push(format!("{page}: `{link}`: {target} has no such heading"));
            }
        }
    }
    report("links that lead nowhere", "correct the link; a heading becomes lowercase words with hyphens", &offences);
}

#[test]
fn anchors_are_those_of_the_book() {
    let page = "# One `two`, three?\n```sh\n# no heading\n```\n## A [link](x.md) – end\n## Same\n## Same\n";
    let expected = ["one-two-three", "a-link--end", "same", "same-1"].map(str::to_owned);
    assert_eq!(anchors(page), expected.into());
    assert_eq!(links("a [b](c.md#d) and `e` ![f](g.svg)").collect::<Vec<_>>(), ["c.md#d", "g.svg"]);
    assert_eq!(resolve("docs/decisions/a.md", "../b.md"), "docs/b.md");
}

/// Lines outside of fenced blocks.
fn text_lines(page: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next())
}

fn is_url(link: &str) -> bool {
    link.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|letter| letter.is_ascii_lowercase()))
}

/// Path of a file that is named relative to the folder of a page.
fn resolve(page: &str, file: &str) -> String {
    let mut path = PathBuf::new();
    for part in Path::new(page).parent().unwrap_or(Path::new("")).join(file).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.display().to_string()
}

/// Anchors of the headings of a page, as mdBook and GitHub make them. Equal ones are numbered.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let headings = text_lines(page).filter_map(|line| line.strip_prefix('#'));
    for heading in headings.filter_map(|line| line.trim_start_matches('#').strip_prefix(' ')) {
        let anchor = anchor(heading.trim());
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|it| !found.contains(it));
        found.extend(free);
    }
    found
}

fn anchor(heading: &str) -> String {
    // Of a link, the text remains.
    let mut text = String::new();
    for (number, part) in heading.split("](").enumerate() {
        text.push_str(if number == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) });
    }
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}
