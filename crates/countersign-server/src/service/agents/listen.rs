//! Streams the news of a conversation with a served agent to a listener.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use tokio::sync::broadcast::error::RecvError;

use super::{News, Talk};
use crate::access::Caller;
use crate::service::{OpenStream, Service, Watch};

/// Streams a conversation's news until the service stops or the listener's credential becomes invalid. If a listener
/// reads too slowly, the stream yields one `None` and ends.
pub fn listen(
    service: Service,
    caller: &Caller,
    talk: Talk,
    open: OpenStream,
) -> impl futures_util::Stream<Item = Option<Arc<News>>> + use<> {
    let news = talk.listen();
    // The stream keeps the talk alive, so that others who open the talk in the meantime join the same one.
    let watch = Watch::of(&service, caller);
    let ended = watch.ended();
    let news = unfold(Some((news, service, talk, open, watch)), |listening| async move {
        let (mut news, service, talk, open, watch) = listening?;
        let told = tokio::select! {
            told = news.recv() => told,
            () = service.stopping.cancelled() => return None,
        };
        match told {
            Ok(told) => Some((Some(told), Some((news, service, talk, open, watch)))),
            Err(RecvError::Lagged(_)) => Some((None, None)),
            Err(RecvError::Closed) => None,
        }
    });
    news.take_until(ended)
}
