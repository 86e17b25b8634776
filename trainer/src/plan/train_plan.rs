//! Everything a run needs, checked once and for all.

use std::ops::Deref;

use schemas::Problem;

use super::request::TrainRequest;
use super::rules;

/// A run that can start: a [`TrainRequest`] without problems, which it reads as.
///
/// There is no other way to make one, and none to change it.
#[derive(Clone, Debug)]
pub struct TrainPlan {
    request: TrainRequest,
}

impl Deref for TrainPlan {
    type Target = TrainRequest;

    fn deref(&self) -> &TrainRequest {
        &self.request
    }
}

impl TrainPlan {
    /// Checks a request.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn new(request: TrainRequest) -> Result<Self, Vec<Problem>> {
        let problems = rules::problems(&request);
        if problems.is_empty() { Ok(Self { request }) } else { Err(problems) }
    }
}
