//! A model that says exactly what a test wants, one answer after the other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use countersign_agent::message::ModelCall;
use countersign_agent::model::{Model, ModelError, Part, Parts, Request, Stop};
use futures_util::{StreamExt as _, stream};

/// One answer, part by part.
pub type Answer = Vec<Result<Part, ModelError>>;

#[derive(Clone, Default)]
pub struct Puppet {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    pub asked: Arc<Mutex<Vec<Request>>>,
}

impl Puppet {
    pub fn new(answers: impl IntoIterator<Item = Answer>) -> Puppet {
        Puppet {
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            asked: Arc::default(),
        }
    }

    pub fn asked(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

impl Model for Puppet {
    /// The last answer is given again and again.
    fn answer(&self, request: Request) -> Parts {
        self.asked.lock().unwrap().push(request);
        let mut answers = self.answers.lock().unwrap();
        let answer = match answers.len() {
            1 => answers[0].clone(),
            _ => answers.pop_front().unwrap_or_default(),
        };
        stream::iter(answer).boxed()
    }

    fn name(&self) -> String {
        "puppet".to_owned()
    }
}

pub fn says(text: &str) -> Answer {
    vec![Ok(Part::Text(text.to_owned())), Ok(Part::Stop(Stop::Done))]
}

pub fn calls(calls: &[(&str, &str)]) -> Answer {
    let calls = calls.iter().enumerate().map(|(number, (tool, arguments))| {
        Ok(Part::Call(ModelCall {
            id: format!("t{number}"),
            tool: (*tool).to_owned(),
            arguments: (*arguments).to_owned(),
        }))
    });
    calls.chain([Ok(Part::Stop(Stop::Done))]).collect()
}

pub fn fails(error: ModelError) -> Answer {
    vec![Ok(Part::Text("I will".to_owned())), Err(error)]
}
