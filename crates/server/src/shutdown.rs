//! The end of a server, for all who wait for something else.

use tokio::sync::watch;

/// Waits until the server ends.
pub(crate) async fn over(ends: &mut watch::Receiver<bool>) {
    // Whoever could say it is gone: it has ended.
    let _ = ends.wait_for(|is_over| *is_over).await;
}
