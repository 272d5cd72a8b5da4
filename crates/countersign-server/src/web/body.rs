//! Time limits for request bodies.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

/// Maximum pause between two parts of a body. A body that stalls for longer fails even if its total time is not over.
const STALLED_WITHIN: Duration = Duration::from_secs(10);

/// A body that fails if it does not arrive in time.
pub struct TimedBody<B> {
    inner: B,
    within: Duration,
    /// Deadline of the whole body, set when the body is first polled and no data is ready.
    complete_by: Option<Instant>,
    // Created only if needed: most bodies arrive together with their headers.
    timer: Option<Pin<Box<Sleep>>>,
    is_waiting: bool,
    late: Late,
}

/// Flag that is set when a body timed out, shared with the code that answers the request.
#[derive(Clone, Debug, Default)]
pub struct Late(Arc<AtomicBool>);

impl Late {
    /// Returns true if the body timed out.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body did not arrive in time")
    }
}

impl Error for Late {}

impl<B> TimedBody<B> {
    /// Creates a body that fails unless all of `inner` arrives within `within`, counted from the first poll at which no
    /// data is ready. Then `late` is set.
    pub fn new(inner: B, within: Duration, late: Late) -> TimedBody<B> {
        TimedBody {
            inner,
            within,
            complete_by: None,
            timer: None,
            is_waiting: false,
            late,
        }
    }

    /// Returns `Ready` once the body has timed out.
    fn poll_late(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let now = Instant::now();
        let complete_by = *self.complete_by.get_or_insert(now + self.within);
        let next = complete_by.min(now + STALLED_WITHIN);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(next)));
        if !self.is_waiting {
            self.is_waiting = true;
            timer.as_mut().reset(next);
        }
        timer.as_mut().poll(context)
    }
}

impl<B> HttpBody for TimedBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            self.is_waiting = false;
            // A client that sends a few bytes now and then does not extend the deadline.
            let is_over = self.complete_by.is_some_and(|by| Instant::now() >= by);
            if !is_over || !matches!(frame, Some(Ok(_))) {
                return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
            }
        } else if self.poll_late(context).is_pending() {
            return Poll::Pending;
        }
        self.late.0.store(true, Ordering::Relaxed);
        Poll::Ready(Some(Err(self.late.clone().into())))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use futures_util::stream::unfold;
    use http_body_util::BodyExt as _;

    /// Returns a body that sends one byte per `every`, forever.
    fn dripping(every: Duration) -> Body {
        let drips = unfold((), move |()| async move {
            tokio::time::sleep(every).await;
            Some((Ok::<_, BoxError>(Bytes::from_static(b"x")), ()))
        });
        Body::from_stream(drips)
    }

    async fn seconds(body: Body) -> (u64, bool) {
        let late = Late::default();
        let began = Instant::now();
        let timed = TimedBody::new(body, Duration::from_secs(30), late.clone());
        let read = timed.collect().await;
        assert_eq!(read.is_err(), late.is_set());
        (began.elapsed().as_secs(), late.is_set())
    }

    #[tokio::test(start_paused = true)]
    async fn x61_a_body_has_a_deadline() {
        assert_eq!(seconds(Body::from("all of it")).await, (0, false));
        assert_eq!(seconds(dripping(Duration::from_secs(3600))).await, (10, true));
        assert_eq!(seconds(dripping(Duration::from_secs(4))).await, (30, true));
    }
}
