//! Answer extraction: windows over long passages, and answers from start and end logits.

mod decode;
#[cfg(test)]
mod tests;
mod windows;

pub use self::decode::{Extracted, ExtractionConfig, MaskedLogits, WindowLogits, extract_answer};
pub use self::windows::{PassageWindow, WindowConfig, WindowStep, max_context, plan_windows};
