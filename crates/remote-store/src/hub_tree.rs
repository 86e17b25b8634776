//! File list of one commit of a repository, read page by page.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::time::UNIX_EPOCH;

use reqwest::header::LINK;
use serde::Deserialize;
use store::{Entry, Stat, Version};
use url::Url;

use crate::failure::Failure;
use crate::web::Web;

/// Most pages of a list: ten million files at a thousand each.
const MAX_PAGES: usize = 10_000;

/// File list, complete or in progress.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Files; in the order of their paths when the list is complete.
    files: Vec<File>,
    pages: usize,
    /// Following page.
    next: Option<Url>,
    /// Queries of the pages.
    queries: BTreeSet<String>,
}

#[derive(Debug)]
struct File {
    path: String,
    bytes: u64,
    version: String,
}

/// Entry of a page.
#[derive(Deserialize)]
struct Node {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    oid: String,
    #[serde(default)]
    size: u64,
    path: String,
    lfs: Option<LargeFile>,
}

/// Large file: its content has a hash of another kind, which is also its `ETag`.
#[derive(Deserialize)]
struct LargeFile {
    oid: String,
    size: u64,
}

/// Reads the pages that `tree` lacks. After an error the pages so far are in the answer.
///
/// A mirror of the Hub may pass the address of the next page on as it is. The mirror is asked for it: of the address, only
/// the query is taken.
pub(crate) async fn read_tree(web: &Web, first: Url, mut tree: Tree) -> (Tree, Result<(), Failure>) {
    let invalid = |message: String| Err(io::Error::new(ErrorKind::InvalidData, message).into());
    let mut page = first;
    page.set_query(Some("recursive=true"));
    loop {
        if tree.pages > 0 {
            let Some(next) = &tree.next else {
                tree.files.sort_by(|a, b| a.path.cmp(&b.path));
                return (tree, Ok(()));
            };
            page.set_query(next.query());
        }
        if tree.pages == MAX_PAGES {
            return (tree, invalid(format!("the file list has more than {MAX_PAGES} pages")));
        }
        match read_page(web, page.clone()).await {
            Ok((files, next)) => {
                tree.files.extend(files);
                tree.pages += 1;
                tree.queries.insert(page.query().unwrap_or_default().to_owned());
                let is_repeated = |next: &Url| tree.queries.contains(next.query().unwrap_or_default());
                if next.as_ref().is_some_and(is_repeated) {
                    let message = format!("the file list does not end: page {} leads to an earlier one", tree.pages);
                    return (Tree::default(), invalid(message));
                }
                tree.next = next;
            }
            Err(failure) => return (tree, Err(failure)),
        }
    }
}

async fn read_page(web: &Web, page: Url) -> Result<(Vec<File>, Option<Url>), Failure> {
    let (headers, text) = web.text(page.clone()).await?;
    let nodes: Vec<Node> = serde_json::from_slice(&text).map_err(|error| {
        io::Error::new(ErrorKind::InvalidData, format!("a page of the file list is not as expected: {error}"))
    })?;
    let links = headers.get_all(LINK).iter().filter_map(|link| link.to_str().ok());
    let next = links.flat_map(|links| links.split(',')).find_map(next_of);
    let next = next.map(|next| page.join(next)).transpose();
    let next =
        next.map_err(|_| io::Error::new(ErrorKind::InvalidData, "the file list continues at no valid address"))?;
    Ok((nodes.into_iter().filter(|node| node.kind == "file").map(file_of).collect(), next))
}

/// Returns the address of `<ADDRESS>; rel="next"`.
fn next_of(link: &str) -> Option<&str> {
    let (address, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
    parameters.replace([' ', '"'], "").split(';').any(|parameter| parameter == "rel=next").then_some(address)
}

fn file_of(node: Node) -> File {
    match node.lfs {
        Some(LargeFile { oid, size }) => File { path: node.path, bytes: size, version: oid },
        None => File { path: node.path, bytes: node.size, version: node.oid },
    }
}

impl Tree {
    /// Returns the files below `folder` of a prefix. Their names are relative to the prefix.
    pub(crate) fn below(&self, prefix: &str, folder: &str) -> Vec<Entry> {
        let inside = |path: &str, folder: &str| match folder {
            "" => Some(path.to_owned()),
            folder => Some(path.strip_prefix(folder)?.strip_prefix('/')?.to_owned()),
        };
        let named = self.files.iter().filter_map(|file| Some((inside(&file.path, prefix)?, file)));
        let below = named.filter(|(name, _)| inside(name, folder).is_some());
        below.map(|(name, file)| Entry { name, stat: file.stat() }).collect()
    }

    /// Returns the length of a file, if the list is complete and has it.
    pub(crate) fn length_of(&self, path: &str) -> Option<u64> {
        let is_complete = self.pages > 0 && self.next.is_none();
        let found = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok();
        found.filter(|_| is_complete).map(|index| self.files[index].bytes)
    }
}

impl File {
    /// Returns the metadata. A file list has no times.
    fn stat(&self) -> Stat {
        Stat { bytes: self.bytes, version: Version::new(self.version.clone()), modified: UNIX_EPOCH }
    }
}
