use super::page::hidden_namespaces;
use super::wikitext::to_plain;
use super::{Mark, find_mark};
use crate::corpus::AnyFormat;
use crate::corpus::scanner::SEARCHED_BYTES;
use crate::corpus::tests::{config, read};
use crate::testing::{compressed, write_all};

/// Returns a dump with these pages.
pub(super) fn dump(pages: &str) -> Vec<u8> {
    let site = "<siteinfo>\n<namespaces><namespace key=\"6\" case=\"first-letter\">Datei</namespace></namespaces>\n</siteinfo>";
    format!("<mediawiki xmlns=\"http://www.mediawiki.org/xml/export-0.11/\">\n{site}\n{pages}</mediawiki>\n")
        .into_bytes()
}

/// Returns a page of eight lines.
pub(super) fn page(title: &str, namespace: u32, id: usize, wikitext: &str) -> String {
    let text = wikitext.replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<page>\n<title>{title}</title>\n<ns>{namespace}</ns>\n<id>{id}</id>\n<revision><id>9</id><model>wikitext</model>\n\
         <text xml:space=\"preserve\">{text}</text></revision>\n</page>\n"
    )
}

/// Returns a dump with pages that are broken in several ways.
pub(super) fn dirty() -> Vec<u8> {
    let redirect = page("Redirect", 0, 2, "#REDIRECT [[One]]").replace("<ns>", "<redirect title=\"One\" /><ns>");
    let pages = [
        page("One", 0, 1, "two"),
        "<page>\n<title>no end</title>\n".to_owned(),
        redirect.replace('\n', " "),
        page("Talk:One", 1, 3, "talk").replace('\n', " "),
        "\n<page><title>wrong</end></page>\n".to_owned(),
        "\n\n<page><title>Empty</title><ns>0</ns><id>5</id><revision><text>{{gone}}</text></revision></page>\n"
            .to_owned(),
        page("Four", 0, 4, "a?"),
        page("Five", 0, 6, "no namespace").replace("<ns>0</ns>", ""),
        "<page>\n".to_owned(),
    ];
    let mut bytes = dump(&pages.concat());
    let at = bytes.iter().position(|&byte| byte == b'?').expect("it is there");
    bytes[at] = 0xff;
    bytes
}

fn plain(wikitext: &str) -> String {
    let mut text = String::new();
    to_plain(wikitext, &["file", "category", "datei"].map(str::to_owned), &mut text);
    text
}

#[test]
fn markup_is_removed_and_text_stays() {
    for (wikitext, expected) in [
        ("'''Bold''' and ''italic'', it's '''''both'''''.", "Bold and italic, it's both."),
        ("[[a]], [[b|c]]s, [[d (e)|d]], [[:Category:f]], [[g#h]], [[i|]]", "a, cs, d, Category:f, g#h, i"),
        ("x [[File:a.jpg|thumb|a [[b|c]] {{d}}]] y[[Category:z]]", "x  y"),
        ("[[datei:a.png]]x[[fr:Titre]] [[wikt:word]]", "x wikt:word"),
        ("a {{b|{{c}}|d={{{e|f}}}}} g {{{h|{{i}}}}} j", "a  g  j"),
        ("a (''b''; {{lang|x}}) c ({{IPA|y}}) d ( , ) e", "a (b; ) c d e"),
        ("a<ref>b</ref> c<ref name=\"d\"/> e<REF name=f>g</Ref\n>.", "a c e."),
        ("a<!-- b [[ {{ --> c<br />d <sup>2</sup> <b class=\"x\">e</b>", "a c\nd 2 e"),
        ("<nowiki>[[a]] '''b'''</nowiki> <math>\\frac{{a}}{b}</math>.", "[[a]] '''b''' ."),
        (
            "&lt;ref> &amp;nbsp; x&nbsp;y &ndash; &#228;&#x41; &unknown; & &;",
            "<ref> &nbsp; x\u{a0}y – äA &unknown; & &;",
        ),
        ("[https://a.org/b?c=d e ''f''] [http://g] [h] [[i", "e f  [h] [[i"),
        ("a\n== B ''c'' ==\n* d\n*# e\n: f\n----\n=g\n", "a\n\nB c\nd\ne\nf\n\n=g"),
        ("a\n{| class=\"b\"\n|-\n| c || d {{e|\n|}}\n{|\n| f\n|}\n|}\ng", "a\n\ng"),
        ("__NOTOC__a __b__ c", "a __b__ c"),
        ("a {{b\nc", "a {{b\nc"),
        ("a }} ]] |} b", "a }} ]] |} b"),
        ("[[a {{b]] c}} d]] e", "a  d e"),
        ("{{a [[b}} c]] d", "c]] d"),
        ("a <ref>b c", "a b c"),
        ("a < b > c <3 <x", "a < b > c <3 <x"),
        ("a\n\n\n\n\nb  \n\n", "a\n\nb"),
        ("größer [[größe|größen]] 中文{{x}}文", "größer größen 中文文"),
    ] {
        assert_eq!(plain(wikitext), expected, "{wikitext}");
    }
}

#[test]
fn hostile_markup_is_read_in_one_pass() {
    for part in [
        "{{",
        "[[",
        "[[a|",
        "<ref>",
        "<!-",
        "{|\n",
        "\n=",
        "[http://a ",
        "<nowiki>",
        "'",
        "&#",
        "(",
        " (",
        "{{{",
        "}}",
        "]]",
        "__A",
    ] {
        let text = part.repeat((1 << 20) / part.len());
        // A pass for each construct would take hours.
        assert!(plain(&text).len() <= text.len(), "{part}");
    }
}

/// Each page has no end tag, so a search for it would read all pages after it.
#[test]
fn pages_without_ends_are_searched_once() {
    const PAGES: usize = 40_000;
    let last = page("Last", 0, 1, "text");
    let home = tempfile::tempdir().expect("a temporary folder");
    for (name, end) in [("a.xml", last.as_str()), ("b.xml", "")] {
        let bytes = ["<mediawiki>\n", &"<page>\n".repeat(PAGES), end, "</mediawiki>"].concat();
        write_all(home.path(), &[(name, &bytes)]);
        let before = SEARCHED_BYTES.get();
        let cut = config(&home.path().join(name), AnyFormat::of_kind("wikipedia_xml").expect("known"), Some(1 << 30));
        let (texts, complaints) = read(&cut).expect("readable");
        assert_eq!((texts.len(), complaints.len()), (usize::from(!end.is_empty()), PAGES), "{name}");
        let searched = SEARCHED_BYTES.get() - before;
        assert!((PAGES..4 * bytes.len()).contains(&searched), "{searched} bytes of {}", bytes.len());
    }
}

#[test]
fn marks_of_pages_are_found_in_order() {
    for (bytes, expected) in [
        ("a<page>b</page>", Some(Mark::Begin(1))),
        ("a</page><page>", Some(Mark::End(8))),
        ("page>/page> <pages> <Page>", None),
        ("<<page>", Some(Mark::Begin(1))),
        ("<//page></page", None),
    ] {
        assert_eq!(find_mark(bytes.as_bytes()), expected, "{bytes}");
    }
}

#[test]
fn streams_of_a_multistream_dump_are_one_dump() {
    let streams = [
        "<mediawiki>\n<siteinfo/>\n".to_owned(),
        page("One", 0, 1, "[[Datei:x]]a") + &page("Two", 0, 2, "b &amp; c"),
        page("Three", 0, 3, "d"),
        "</mediawiki>".to_owned(),
    ];
    let bytes: Vec<u8> = streams.iter().flat_map(|stream| compressed("a.bz2", stream.as_bytes())).collect();
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = store::Store::folder(home.path()).expect("a folder");
    folder.put("a.xml.bz2", &bytes).expect("written");
    let found =
        read(&config(home.path(), AnyFormat::of_kind("wikipedia_xml").expect("known"), None)).expect("readable");
    assert_eq!(found.0, ["One\nDatei:xa", "Two\nb & c", "Three\nd"]);
    write_all(home.path(), &[("a.xml.bz2", "<html></html>")]);
    let error = read(&config(home.path(), AnyFormat::of_kind("wikipedia_xml").expect("known"), None));
    assert!(error.expect_err("no dump").to_string().contains("no dump of a wiki"));
}

#[test]
fn names_of_namespaces_are_listed_once() {
    let namespace = |key: u32, name: &str| format!("<namespace key=\"{key}\" case=\"first-letter\">{name}</namespace>");
    let names = |files: &str, categories: &str| hidden_namespaces(&(namespace(6, files) + &namespace(14, categories)));
    let usual = ["file", "image", "media", "category"];
    assert_eq!(names("File", "Category"), usual);
    assert_eq!(names("Datei", "category"), [&usual[..], &["datei"]].concat());
}
