//! `cloze export`: a checkpoint as a folder that `transformers` loads.
pub(crate) fn run(_: &std::path::Path, _: &std::path::Path, _: Option<u64>) -> anyhow::Result<()> {
    todo!()
}
