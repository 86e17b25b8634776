//! Shared column constants. A new kind of supervision adds one constant here.
//!
//! All are fixed-shape: `rows × width` of the view they belong to.

use crate::column::Column;

/// Ids fed to the model. Every view has it.
pub const INPUT_IDS: Column<i32> = Column::new("input_ids");

/// 1 for real tokens (specials included), 0 for padding. Absent from a batch whose rows are all full.
pub const ATTENTION_MASK: Column<u8> = Column::new("attention_mask");

/// Index of each token within the content of the sample it came from; −1 for frame tokens and padding.
pub const ORIGIN: Column<i16> = Column::new("origin");

/// Low 31 bits of the document hash of each token; −1 for frame tokens and padding.
pub const DOCUMENT: Column<i32> = Column::new("document");

/// 32 random bits for each token to predict, 0 elsewhere: randomness for a generator network's samples.
pub const DRAWS: Column<i32> = Column::new("draws");

/// 1 if the second segment of a pair is random, 0 if it follows the first. Every cell of a row has the same value,
/// padding included, so that the column has the shape of all others; readers use column 0.
pub const IS_RANDOM: Column<u8> = Column::new("is_random");

/// Original id at positions to predict, −100 elsewhere.
pub const LABELS: Column<i32> = Column::new("labels");

/// Column (position in the row) of each anchor's positive, −1 for positions without one.
pub const POSITIVES: Column<i16> = Column::new("positives");

/// Segment of each token: 0 for the first and for padding, 1 for the second. Views of single segments omit it.
pub const TOKEN_TYPES: Column<u8> = Column::new("token_types");

/// 1 for ids that differ from the original, 0 elsewhere.
pub const REPLACED: Column<u8> = Column::new("replaced");

/// Target of a labelled example, in the form that the view `labelled_example` describes; −100 elsewhere.
pub const TARGETS: Column<i32> = Column::new("targets");

/// Value of [`LABELS`] at positions without a prediction (convention of PyTorch and `transformers`).
pub const IGNORE: i32 = -100;
