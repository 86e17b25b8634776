//! `cloze prepare --report`: statistics of a corpus on a page with escaped content.

use testkit::Home;

/// Text that an unescaped page, a terminal or a shell would interpret.
const HOSTILE: &str = "</td><script>alert(1)</script>\u{1b}[2J";

fn home() -> Home {
    let home = Home::with_corpus(200);
    home.run_ok(&["tokenizer", "train"]);
    // Characters that are not in the vocabulary, and unreadable lines.
    let json = |text: &str| format!("{}\n", serde_json::json!({ "text": text }));
    let words = "the cat and the dog ".repeat(300);
    let good = [json(&words), json("a \u{2603} and a \u{2603}\u{2603} and \u{1f980}"), json(HOSTILE)].concat();
    home.write("more/good.jsonl", &good);
    home.write("more/bad.jsonl", &format!("{{\"other\": 1}}\nno json {HOSTILE}\n{}", json("the end")));
    home
}

const SETS: [&str; 6] =
    ["--set", "prepare.inputs=[\"more\"]", "--set", "prepare.format=jsonl", "--set", "prepare.valid_fraction=0"];

fn prepare<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ["prepare"].into_iter().chain(SETS).chain(more.iter().copied()).collect()
}

/// Returns the cells of the table rows that contain a text, without tags.
fn cells(page: &str, with: &str) -> Vec<Vec<String>> {
    let rows = page.split("<tr>").filter(|row| row.contains(with));
    let cell = |cell: &str| {
        let cell = cell.split("</td>").next().unwrap_or_default();
        let text: String = cell
            .split('<')
            .enumerate()
            .map(|(at, part)| if at == 0 { part } else { part.split_once('>').map_or("", |it| it.1) })
            .collect();
        text.trim().to_owned()
    };
    rows.map(|row| row.split("<td").skip(1).map(|it| cell(it.split_once('>').map_or("", |it| it.1))).collect())
        .collect()
}

#[test]
fn report_counts_the_corpus_and_escapes_its_text() {
    let home = home();
    let outcome = home.run_ok(&prepare(&["--report", "out/corpus.html"]));
    assert!(outcome.stdout.contains("out/corpus.html"), "{outcome}");
    let page = std::fs::read_to_string(home.join("out/corpus.html")).expect("written");
    assert!(!page.contains("<script") && !page.contains('\u{1b}'), "{page}");
    // Three snowmen in two words, and a crab.
    let snow = cells(&page, "U+2603");
    assert_eq!(snow, [["\u{2603}", "U+2603", "3"].map(str::to_owned)], "{page}");
    assert_eq!(cells(&page, "U+1F980")[0][2], "1");
    let rejected = cells(&page, "bad.jsonl:2");
    assert_eq!(rejected.len(), 1, "{page}");
    assert!(rejected[0][1] == "broken_json" && rejected[0][2].starts_with("no json &lt;/td&gt;"), "{rejected:?}");
    assert_eq!(cells(&page, "bad.jsonl:1")[0][1..], ["missing_field", "{&quot;other&quot;: 1}"]);
    // The only long document of good.jsonl is the longest, and its file is the largest.
    let manifest = std::fs::read_to_string(home.join("data/manifest.json")).expect("prepared");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    let corpus = &manifest["content"]["dataset_versions"][0]["corpus"];
    assert_eq!(corpus["documents"].as_u64(), Some(4), "{corpus}");
    assert!(page.contains(&format!("{} tokens are unknown", corpus["unknown"])), "{corpus}");
    for (name, figure) in [("documents", "4"), ("rejected or repaired", "2")] {
        assert!(page.contains(&format!("<dt>{name}</dt><dd>{figure}</dd>")), "{name}: {page}");
    }
    // Files with their documents and tokens, which add up to the totals.
    let number = |cell: &str| cell.replace(',', "").parse::<u64>().expect("a number");
    let sources: Vec<Vec<String>> = cells(&page, "<svg").into_iter().filter(|row| row[0].contains(".jsonl")).collect();
    let sum = |column: usize| sources.iter().map(|row| number(&row[column])).sum::<u64>();
    assert_eq!((sum(3), Some(sum(4))), (4, corpus["tokens"].as_u64()), "{sources:?}");
    let longest = cells(&page, "good.jsonl").swap_remove(0);
    assert!(number(&longest[0]) > sum(4) / 2 && longest[2] == "good.jsonl", "{longest:?}");
}

#[test]
fn report_is_reproducible_without_the_corpus() {
    let home = home();
    home.run_ok(&prepare(&["--report", "a.html", "--set", "prepare.workers=1"]));
    home.run_ok(&prepare(&["--report", "b.html", "--set", "prepare.workers=4"]));
    let read = |name: &str| std::fs::read_to_string(home.join(name)).expect("written");
    assert_eq!(read("a.html"), read("b.html"));
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_done() {
    let home = home();
    for out in ["more", "more/good.jsonl/x.html", ".."] {
        let outcome = home.run(&prepare(&["--report", out]));
        assert_eq!(outcome.code, Some(2), "{outcome}");
        assert!(outcome.stderr.contains(out.split('/').next().expect("a part")), "{outcome}");
    }
    assert_eq!(home.run(&prepare(&["--report", "a.html", "--watch"])).code, Some(2));
    assert!(!home.join("data").exists(), "nothing is prepared");
}
