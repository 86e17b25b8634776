//! Container of Azure Blob Storage that is only read: a list, whole blobs and ranges.

use std::collections::BTreeMap;

use super::http::{self, Request, Response, decoded};
use super::s3::{DATE, e_tag};

const CONTAINER: &str = "/container";

/// Starts a server with these blobs. Returns its address.
pub fn serve(blobs: BTreeMap<String, Vec<u8>>) -> String {
    http::serve(move |request| {
        let key = decoded(request.path.strip_prefix(CONTAINER).expect("the container").trim_start_matches('/'));
        if key.is_empty() {
            return list(&blobs, &request.parameter("prefix").unwrap_or_default());
        }
        match blobs.get(&key) {
            Some(content) => get(request, content),
            None => Response::new(404, "").with("x-ms-error-code", "BlobNotFound"),
        }
    })
}

fn get(request: &Request, content: &[u8]) -> Response {
    Response::of_content(request, content).with("etag", e_tag(content)).with("last-modified", DATE)
}

fn list(blobs: &BTreeMap<String, Vec<u8>>, prefix: &str) -> Response {
    let found = blobs.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(key, content)| {
        format!(
            "<Blob><Name>{key}</Name><Properties><Last-Modified>{DATE}</Last-Modified><Etag>{}</Etag>\
             <Content-Length>{}</Content-Length><Content-Type>text/plain</Content-Type></Properties></Blob>",
            e_tag(content).trim_matches('"'),
            content.len()
        )
    });
    let blobs: String = found.collect();
    Response::new(200, format!("<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker/></EnumerationResults>"))
}
