//! Bounded queue between two workers that charges their waits to their time accounts.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError, bounded, select_biased};

use crate::cancel::CancelToken;
use crate::time_account::{Activity, TimeAccount};

/// Sending end, owned by one worker.
#[derive(Debug)]
pub(crate) struct TimedSender<T> {
    queue: Sender<T>,
    account: Arc<TimeAccount>,
}

/// Receiving end. Dropping it makes the next send fail, which ends the worker.
#[derive(Debug)]
pub(crate) struct TimedReceiver<T> {
    queue: Receiver<T>,
    sender: Arc<TimeAccount>,
}

/// Creates a queue of at most `depth` items; `account` is that of the sender.
#[must_use]
pub(crate) fn timed_channel<T>(depth: usize, account: &Arc<TimeAccount>) -> (TimedSender<T>, TimedReceiver<T>) {
    let (sender, receiver) = bounded(depth);
    let sender = TimedSender { queue: sender, account: Arc::clone(account) };
    (sender, TimedReceiver { queue: receiver, sender: Arc::clone(account) })
}

impl<T> TimedSender<T> {
    /// Sends an item and waits for a free slot. Returns `false` if the receiver is dropped; the worker then ends.
    pub(crate) fn send(&self, item: T) -> bool {
        send_timed(&self.queue, &self.account, item)
    }
}

/// Sends `item` and charges the wait for a free slot to `account` as blocked. Returns `false` if the receiver is
/// dropped.
pub(crate) fn send_timed<T>(queue: &Sender<T>, account: &TimeAccount, item: T) -> bool {
    // Counted before the item is visible, so that the receiver never counts below zero.
    account.item_queued();
    let sent = match queue.try_send(item) {
        Ok(()) => true,
        Err(TrySendError::Disconnected(_)) => false,
        Err(TrySendError::Full(item)) => {
            account.begin(Activity::Blocked);
            let sent = queue.send(item).is_ok();
            account.begin(Activity::Busy);
            sent
        }
    };
    account.finish_item();
    sent
}

/// Outcome of a wait.
#[derive(Debug)]
pub(crate) enum Received<T> {
    /// An item.
    Item(T),
    /// The sender has ended.
    End,
    /// The cancellation came first.
    Cancelled,
}

impl<T> TimedReceiver<T> {
    /// Receives the next item; a wait is charged to `account`, the reader's.
    pub(crate) fn receive(&self, account: &TimeAccount, token: Option<&CancelToken>) -> Received<T> {
        if token.is_some_and(CancelToken::is_cancelled) {
            return Received::Cancelled;
        }
        let received = match self.queue.try_recv() {
            Ok(item) => Received::Item(item),
            Err(TryRecvError::Disconnected) => Received::End,
            Err(TryRecvError::Empty) => {
                account.begin(Activity::Starved);
                let received = self.wait(token);
                account.begin(Activity::Busy);
                received
            }
        };
        if matches!(received, Received::Item(_)) {
            self.sender.item_taken();
        }
        received
    }

    fn wait(&self, token: Option<&CancelToken>) -> Received<T> {
        let item = |received: Result<T, _>| received.map_or(Received::End, Received::Item);
        match token {
            None => item(self.queue.recv()),
            Some(token) => select_biased! {
                recv(token.0) -> _ => Received::Cancelled,
                recv(self.queue) -> received => item(received),
            },
        }
    }
}
