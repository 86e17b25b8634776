//! Shutdown signal of the server.

use tokio::sync::watch;

/// Waits until the server ends.
pub(crate) async fn wait(ends: &mut watch::Receiver<bool>) {
    // If the sender is dropped, the server has ended.
    let _ = ends.wait_for(|is_over| *is_over).await;
}
