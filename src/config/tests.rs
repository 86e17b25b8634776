//! Mistakes of whole files: each is reported once, with its line and its key.

use super::*;

/// Folder with a corpus, a tokenizer and a configuration.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = store::Store::folder(home.path()).expect("there");
        store.put("in/a.txt", b"a text\n").expect("written");
        store.put("tokenizer.json", b"{}").expect("written");
        Self(home)
    }

    /// Returns the mistakes that `cloze prepare` finds in a file: message, line and key of each.
    fn mistakes(&self, text: &str, set: &[String]) -> Vec<String> {
        let place = |name: &str| self.0.path().join(name).display().to_string();
        let [input, tokenizer] = [place("in/a.txt"), place("tokenizer.json")];
        let text = text.replace("INPUT", &input).replace("TOKENIZER", &tokenizer);
        let file = self.0.path().join("run.toml");
        store::Store::folder(self.0.path()).and_then(|store| store.put("run.toml", text.as_bytes())).expect("written");
        let parsed = Parsed::read(&file, set).expect("a table");
        let Err(Mistakes(found)) = parsed.into_corpora(None) else { return Vec::new() };
        let shown = |mistake: &Mistake| {
            let at = mistake.place.replace(&format!("{}:", file.display()), "");
            format!("{} | {at}", mistake.message)
        };
        found.iter().map(shown).collect()
    }
}

const PREPARE: &str = "[prepare]\ninputs = ['INPUT']\ntokenizer = 'TOKENIZER'\nfolder = 'out'\n";

#[test]
fn one_wrong_element_of_a_list_is_one_mistake_with_its_line() {
    let home = Home::new();
    assert_eq!(home.mistakes(PREPARE, &[]), [""; 0]);
    let language = "[[prepare.filters]]\nkind = 'language'\n";
    for (text, expected) in [
        (
            format!("{language}\n[[prepare.filters]]\nkind = 'text_length'\nmin_wrods = 1"),
            "unknown key `min_wrods` | 10, [prepare.filters[1]], `min_wrods`",
        ),
        (
            format!("{language}[[prepare.filters]]\nkind = 'text_length'\nmax_words = 3\nmin_words = 'x'"),
            "expected a whole number, found string \"x\" | 10, [prepare.filters[1]], `min_words`",
        ),
        (
            format!("{language}[[prepare.filters]]\nkind = 'lenght'\nmin_words = 1"),
            "unknown choice `lenght` | 8, [prepare.filters[1]], `kind`",
        ),
        (
            format!("[[prepare.filters]]\nmin_words = 'x'\n{language}"),
            "the key `kind` is missing | 5, [prepare.filters[0]]",
        ),
        // The element is removed, and the next one keeps its line.
        (
            format!("[[prepare.filters]]\nkind = 3\n{language}[[prepare.filters]]\nkind = 'regex'\npatern = 'a'"),
            "expected one of its names, in quotes, found integer `3` | 6, [prepare.filters[0]], `kind`\n\
             unknown key `patern` | 11, [prepare.filters[2]], `patern`",
        ),
        // A setting that is missing only because its name is wrong is no second mistake.
        ("[[prepare.filters]]\nkind = 'regex'\npatern = 'a'".into(), "unknown key `patern` | 7, [prepare.filters[0]], `patern`"),
        // Mistakes that need the other elements are found too.
        (
            format!("{language}[[prepare.filters]]\nkind = 'regex'\npattern = '('"),
            "filter `regex`: `(`: unclosed group | 9, [prepare.filters[1]], `pattern`",
        ),
        ("filters = [3]".into(), "expected a table, found integer `3` | 5, [prepare], `filters[0]`"),
        ("filters = 3".into(), "expected a list, found integer `3` | 5, [prepare], `filters`"),
        (
            "[prepare.decontamination]\ntest_sets = [\n  { task = 'rte', data = 'x' },\n  { task = 'sst2', data = 'x', splits = ['dev', 'tset'] },\n]".into(),
            "unknown choice `tset` | 8, [prepare.decontamination.test_sets[1]], `splits[1]`",
        ),
        ("[alerts]\nevents = [\n  'stop',\n  'x',\n]".into(), "unknown choice `x` | 8, [alerts], `events[1]`"),
    ] {
        assert_eq!(home.mistakes(&format!("{PREPARE}{text}\n"), &[]).join("\n"), expected, "{text}");
    }
}

#[test]
fn a_wrong_input_is_no_missing_corpus() {
    let home = Home::new();
    for (text, expected) in [
        (
            PREPARE.replace("'INPUT'", "'INPUT', 3"),
            "expected a text in quotes, found integer `3` | 2, [prepare], `inputs[1]`",
        ),
        (PREPARE.replace("'INPUT'", "3"), "expected a text in quotes, found integer `3` | 2, [prepare], `inputs[0]`"),
        ("prepare = 3\n".to_owned(), "expected a table, found integer `3` | 1, [prepare]"),
    ] {
        assert_eq!(home.mistakes(&text, &[]).join("\n"), expected);
    }
}

#[test]
fn elements_of_a_replaced_list_have_the_place_of_their_file() {
    let home = Home::new();
    let filter = "[[prepare.filters]]\nkind = 'regex'\n";
    store::Store::folder(home.0.path())
        .and_then(|store| store.put("base.toml", format!("\n\n\n{filter}patern = 'a'\n").as_bytes()))
        .expect("written");
    let text = format!("extends = 'base.toml'\n{PREPARE}{filter}");
    assert_eq!(
        home.mistakes(&text, &[]).join("\n"),
        "filter `regex`: it is missing | 6, [prepare.filters[0]], `pattern`"
    );
    let set = ["prepare.filters=[{kind='regex',patern='a'}]".to_owned()];
    let place = "--set prepare.filters=[{kind='regex',patern='a'}], [prepare.filters[0]], `patern`";
    assert_eq!(home.mistakes(&text, &set).join("\n"), format!("unknown key `patern` | {place}"));
}

#[test]
fn the_number_of_mistakes_of_a_section_is_limited() {
    let home = Home::new();
    let many: Vec<String> = (0..1000).map(|number| format!("wrong_{number} = 1")).collect();
    let found = home.mistakes(&format!("{PREPARE}{}", many.join("\n")), &[]);
    assert_eq!(found.len(), 100);
    assert!(found.iter().all(|mistake| mistake.contains("unknown key")), "{found:?}");
}

#[test]
fn a_source_replaces_settings_of_prepare() {
    let home = Home::new();
    let text = "[prepare]\ntokenizer = 'TOKENIZER'\ntext_field = 'body'\n[prepare.duplicates]\nbands = 20\n\
                [[prepare.filters]]\nkind = 'language'\n\
                [sources.plain]\nfolder = 'p'\ninputs = ['INPUT']\n\
                [sources.code]\nfolder = 'c'\ninputs = ['INPUT']\ntext_field = 'content'\nid_field = 'sha'\nfilters = []\n\
                [sources.code.duplicates]\nnear = false\n\
                [sources.kept]\nfolder = 'k'\ninputs = ['INPUT']\nduplicates = { exact = false, near = false }\n";
    assert_eq!(home.mistakes(text, &[]), [""; 0]);
    let parsed = Parsed::read(&home.0.path().join("run.toml"), &[]).expect("a table");
    let base = parsed.config.prepare.clone();
    let [plain, code, kept] = ["plain", "code", "kept"].map(|name| parsed.config.corpus_of(Some(name)));
    let of_prepare = |corpus: &PrepareConfig| PrepareConfig {
        inputs: base.inputs.clone(),
        folder: base.folder.clone(),
        ..corpus.clone()
    };
    assert_eq!(of_prepare(&plain), base, "all other settings are those of `[prepare]`");
    assert_eq!((code.text_field.as_str(), code.id_field.as_deref(), code.filters.len()), ("content", Some("sha"), 0));
    let bands = |corpus: &PrepareConfig| corpus.duplicates.as_ref().map(|own| (own.near, own.bands));
    assert_eq!([&base, &code, &kept].map(bands), [Some((true, 20)), Some((false, 14)), None]);
    let resolved = toml::to_string(&parsed.config.resolved()).expect("plain values");
    assert!(resolved.contains("[sources.code.duplicates]") && !resolved.contains("[sources.plain.duplicates]"));
}

#[test]
fn mistakes_in_settings_of_a_source_have_its_line_and_key() {
    let home = Home::new();
    let head = "[prepare]\ntokenizer = 'TOKENIZER'\n[sources.code]\nfolder = 'c'\ninputs = ['INPUT']\n";
    for (text, expected) in [
        ("text_field = 3", "expected a text in quotes, found integer `3` | 6, [sources.code], `text_field`"),
        ("text_feld = 'a'", "unknown key `text_feld` | 6, [sources.code], `text_feld`"),
        ("[sources.code.duplicates]\nbands = 257", "257 is out of range | 7, [sources.code.duplicates], `bands`"),
        ("duplicates = { band = 3 }", "unknown key `band` | 6, [sources.code.duplicates], `band`"),
        (
            "[[sources.code.filters]]\nkind = 'language'\n[[sources.code.filters]]\nkind = 'regex'\npattern = '('",
            "filter `regex`: `(`: unclosed group | 10, [sources.code.filters[1]], `pattern`",
        ),
    ] {
        let found = home.mistakes(&format!("{head}{text}\n"), &[]);
        assert_eq!(found, [expected], "{text}");
    }
    let whole = home.mistakes("sources = 3\n[prepare]\ntokenizer = 'TOKENIZER'\nfolder = 'out'\n", &[]);
    assert_eq!(whole, ["`sources` is a table of named components | 1, [sources]"], "{whole:?}");
}

#[test]
fn the_tokenizer_is_trained_on_sources_with_the_same_fields() {
    let home = Home::new();
    let text = "[prepare]\nformat = 'jsonl'\n[sources.a]\nfolder = 'a'\ninputs = ['INPUT']\ntext_field = 'x'\nid_field = 'i'\n\
                [sources.b]\nfolder = 'b'\ninputs = ['INPUT']\n";
    let input = home.0.path().join("in/a.txt").display().to_string();
    let corpus = |more: &str| {
        home.mistakes(&format!("{text}{more}"), &[]);
        Parsed::read(&home.0.path().join("run.toml"), &[])
            .expect("a table")
            .into_corpus()
            .map_err(|mistakes| mistakes.to_string())
    };
    let prepare = corpus("text_field = 'x'\n").expect("one text field").prepare;
    assert_eq!(
        (prepare.text_field.as_str(), prepare.id_field, prepare.inputs),
        ("x", None, vec![input.clone(), input])
    );
    let refused = corpus("").expect_err("two text fields");
    assert!(refused.contains("several text fields (`x`, `text`)"), "{refused}");
}
