//! Element `page` of a dump, and the namespaces of its wiki.

use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, Event};
use quick_xml::reader::Reader;

/// Maximum depth of elements.
const MAX_DEPTH: usize = 16;

/// Page of a wiki, with its last revision.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) namespace: String,
    pub(super) id: String,
    pub(super) is_redirect: bool,
    /// Content model of the last revision.
    pub(super) model: String,
    pub(super) text: String,
}

impl Page {
    /// Parses the element; `None` if it is no XML, or has no id or no namespace.
    pub(super) fn parse(xml: &str) -> Option<Self> {
        let mut page = Self::default();
        let mut path: Vec<String> = Vec::new();
        let mut reader = Reader::from_str(xml);
        loop {
            match reader.read_event().ok()? {
                Event::Start(start) => {
                    path.push(start.name().as_ref().to_owned());
                    if path.len() > MAX_DEPTH {
                        return None;
                    }
                    // The field of an earlier revision is replaced.
                    if let Some(field) = page.field(&path) {
                        field.clear();
                    }
                }
                Event::Empty(empty) => {
                    page.is_redirect |= path.len() == 1 && empty.name().as_ref() == "redirect";
                    if path.len() == 2 && path[1] == "revision" && empty.name().as_ref() == "text" {
                        page.text.clear();
                    }
                }
                Event::Text(text) => {
                    if let Some(field) = page.field(&path) {
                        field.push_str(&text);
                    }
                }
                Event::CData(text) => {
                    if let Some(field) = page.field(&path) {
                        field.push_str(&text);
                    }
                }
                Event::GeneralRef(reference) => {
                    if let Some(field) = page.field(&path) {
                        push_reference(field, &reference);
                    }
                }
                Event::End(_) => {
                    path.pop();
                }
                Event::Eof => {
                    let is_page = path.is_empty() && !page.id.is_empty() && !page.namespace.trim().is_empty();
                    return is_page.then_some(page);
                }
                _ => {}
            }
        }
    }

    fn field(&mut self, path: &[String]) -> Option<&mut String> {
        let path: [&str; 3] = match path {
            [page, name] => [page, name, ""],
            [page, revision, name] => [page, revision, name],
            _ => return None,
        };
        match path {
            ["page", "title", ""] => Some(&mut self.title),
            ["page", "ns", ""] => Some(&mut self.namespace),
            ["page", "id", ""] => Some(&mut self.id),
            ["page", "revision", "model"] => Some(&mut self.model),
            ["page", "revision", "text"] => Some(&mut self.text),
            _ => None,
        }
    }
}

/// Appends the character of a reference; the reference itself, if it is none of XML.
fn push_reference(field: &mut String, reference: &BytesRef<'_>) {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        field.push(character);
    } else if let Some(text) = resolve_xml_entity(reference) {
        field.push_str(text);
    } else {
        field.push('&');
        field.push_str(reference);
        field.push(';');
    }
}

/// Returns the lower-case names of the namespaces of files and categories: the English ones, and those of the wiki.
pub(super) fn hidden_namespaces(site: &str) -> Vec<String> {
    let mut names = ["file", "image", "media", "category"].map(str::to_owned).to_vec();
    for key in ["6", "14"] {
        let start = format!("<namespace key=\"{key}\"");
        let name = site
            .split_once(&start)
            .and_then(|(_, rest)| rest.split_once('>'))
            .and_then(|(_, rest)| rest.split_once("</"));
        let name = name.map(|(name, _)| name.trim().to_lowercase());
        names.extend(name.filter(|name| !name.is_empty() && name.len() < 100 && !names.contains(name)));
    }
    names
}
