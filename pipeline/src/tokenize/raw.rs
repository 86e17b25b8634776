//! What characters are to the crate, for those who look at text before it is tokenized.

pub(crate) use super::fast::{Character, Characters, Classes, first_pre_token};
