//! Training plan: a checked training request.

use std::ops::Deref;

use schemas::Problem;

use super::request::TrainRequest;
use super::rules;
use crate::error::Error;
use crate::precision::Precision;

/// [`TrainRequest`] without problems. It cannot be created or changed without the checks, and dereferences to the request.
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
    /// All problems of the request.
    pub fn new(request: TrainRequest) -> Result<Self, Vec<Problem>> {
        let problems = rules::problems(&request);
        if problems.is_empty() { Ok(Self { request }) } else { Err(problems) }
    }

    /// Checks the rules that depend on the device, if `train.device = "auto"` has selected CUDA.
    ///
    /// # Errors
    /// [`Error::Config`] if the run is deterministic and a network draws from sums whose order varies on CUDA.
    pub fn check_on_cuda(&self) -> Result<(), Error> {
        rules::order_problem(&self.request).map_or(Ok(()), |problem| Err(Error::Config(problem)))
    }

    /// Returns the plan with this number of threads, to repeat a computation exactly.
    #[must_use]
    pub fn with_threads(&self, threads: usize) -> Self {
        let mut request = self.request.clone();
        request.train.threads = threads;
        Self { request }
    }

    /// Returns the plan with these keys of the identity allowed to change when the run resumes.
    #[must_use]
    pub fn allowing(&self, keys: &[String]) -> Self {
        let mut request = self.request.clone();
        request.amended.allowed = keys.to_vec();
        Self { request }
    }

    /// Returns the plan in float32, which every device supports, to read its weights only.
    #[must_use]
    pub fn in_float32(&self) -> Self {
        let mut request = self.request.clone();
        (request.train.precision, request.train.tf32) = (Precision::F32, false);
        Self { request }
    }
}
