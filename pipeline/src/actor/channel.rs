//! A bounded queue between two actors that charges their waits to their clocks, and a channel that only closes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, TrySendError, bounded, select_biased};

use super::meter::{Activity, Meter};

/// The writing end, owned by one actor.
#[derive(Debug)]
pub(crate) struct MeteredSender<T> {
    queue: Sender<T>,
    meter: Arc<Meter>,
}

/// The reading end. Dropping it is how a reader says stop.
#[derive(Debug)]
pub(crate) struct MeteredReceiver<T> {
    queue: Receiver<T>,
    sender: Arc<Meter>,
}

/// A queue of at most `depth` items; `meter` is the sender's.
#[must_use]
pub(crate) fn metered<T>(depth: usize, meter: &Arc<Meter>) -> (MeteredSender<T>, MeteredReceiver<T>) {
    let (sender, receiver) = bounded(depth);
    let (meter, of_sender) = (Arc::clone(meter), Arc::clone(meter));
    (MeteredSender { queue: sender, meter }, MeteredReceiver { queue: receiver, sender: of_sender })
}

impl<T> MeteredSender<T> {
    /// Sends, waiting for room. `false` if the reader has gone: unwind.
    pub(crate) fn send(&self, item: T) -> bool {
        // Counted before it is visible, so that the reader never counts below zero.
        self.meter.puts();
        let sent = match self.queue.try_send(item) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(item)) => {
                self.meter.enter(Activity::Blocked);
                let sent = self.queue.send(item).is_ok();
                self.meter.enter(Activity::Busy);
                sent
            }
        };
        self.meter.finish_item();
        sent
    }
}

/// What a wait ended with.
#[derive(Debug)]
pub(crate) enum Received<T> {
    /// An item.
    Item(T),
    /// The sender is done.
    End,
    /// The stop was asked for first.
    Stopped,
}

impl<T> MeteredReceiver<T> {
    /// The next item, or the news that there is none; a wait is charged to `meter`, the reader's.
    pub(crate) fn receive(&self, meter: &Meter, stop: Option<&Stop>) -> Received<T> {
        if stop.is_some_and(Stop::is_asked) {
            return Received::Stopped;
        }
        let received = match self.queue.try_recv() {
            Ok(item) => Received::Item(item),
            Err(TryRecvError::Disconnected) => Received::End,
            Err(TryRecvError::Empty) => {
                meter.enter(Activity::Starved);
                let received = self.wait(stop);
                meter.enter(Activity::Busy);
                received
            }
        };
        if matches!(received, Received::Item(_)) {
            self.sender.is_relieved();
        }
        received
    }

    fn wait(&self, stop: Option<&Stop>) -> Received<T> {
        let item = |received: Result<T, _>| received.map_or(Received::End, Received::Item);
        match stop {
            None => item(self.queue.recv()),
            Some(stop) => select_biased! {
                recv(stop.0) -> _ => Received::Stopped,
                recv(self.queue) -> received => item(received),
            },
        }
    }
}

/// Asks the other side to stop, from any thread: a signal's task, usually.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Mutex<Option<Sender<()>>>>);

/// Learns that a stop was asked for, also in the middle of a wait.
#[derive(Clone, Debug)]
pub struct Stop(Receiver<()>);

/// A stop and the handle that asks for it. No message ever passes: the channel closes, once and for all, when
/// [`Stopper::stop`] is called or the last `Stopper` is dropped.
#[must_use]
pub fn stopper() -> (Stopper, Stop) {
    let (sender, receiver) = bounded(1);
    (Stopper(Arc::new(Mutex::new(Some(sender)))), Stop(receiver))
}

impl Stopper {
    /// Asks for a stop; asking again changes nothing.
    pub fn stop(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Stop {
    /// Whether a stop was asked for.
    pub fn is_asked(&self) -> bool {
        matches!(self.0.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// Waits so long, or until a stop is asked for: whether it was.
    pub fn is_asked_within(&self, patience: Duration) -> bool {
        self.0.recv_timeout(patience) == Err(RecvTimeoutError::Disconnected)
    }
}
