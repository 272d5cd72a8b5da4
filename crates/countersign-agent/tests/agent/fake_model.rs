//! A model with canned answers, one after the other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use countersign_agent::message::ModelCall;
use countersign_agent::model::{AnswerPart, AnswerStream, Model, ModelError, Request, StopReason};
use futures_util::{StreamExt as _, stream};

/// One answer, part by part.
pub type FakeAnswer = Vec<Result<AnswerPart, ModelError>>;

#[derive(Clone, Default)]
pub struct FakeModel {
    answers: Arc<Mutex<VecDeque<FakeAnswer>>>,
    pub asked: Arc<Mutex<Vec<Request>>>,
}

impl FakeModel {
    pub fn new(answers: impl IntoIterator<Item = FakeAnswer>) -> FakeModel {
        FakeModel {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            asked: Arc::default(),
        }
    }

    pub fn requests(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

impl Model for FakeModel {
    /// Returns the next answer; the last one is repeated.
    fn answer(&self, request: Request) -> AnswerStream {
        self.asked.lock().unwrap().push(request);
        let mut answers = self.answers.lock().unwrap();
        let answer = match answers.len() {
            1 => answers[0].clone(),
            _ => answers.pop_front().unwrap_or_default(),
        };
        stream::iter(answer).boxed()
    }

    fn name(&self) -> String {
        "fake".to_owned()
    }
}

pub fn says(text: &str) -> FakeAnswer {
    vec![
        Ok(AnswerPart::Text(text.to_owned())),
        Ok(AnswerPart::Stop(StopReason::Done)),
    ]
}

pub fn calls(calls: &[(&str, &str)]) -> FakeAnswer {
    let calls = calls.iter().enumerate().map(|(number, (tool, arguments))| {
        Ok(AnswerPart::Call(ModelCall {
            id: format!("t{number}"),
            tool: (*tool).to_owned(),
            arguments: (*arguments).to_owned(),
        }))
    });
    calls.chain([Ok(AnswerPart::Stop(StopReason::Done))]).collect()
}

pub fn fails(error: ModelError) -> FakeAnswer {
    vec![Ok(AnswerPart::Text("I will".to_owned())), Err(error)]
}
