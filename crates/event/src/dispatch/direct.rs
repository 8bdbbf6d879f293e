//! No dispatching.

use super::{Dispatch, ReadyConsumer};

/// Consumers run on the supplier's thread, one after the other, whatever their priority (the EFD
/// channel of the TAO event service paper, section 5.1.1).
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl Dispatch for Direct {
    #[inline]
    fn runs_inline(&self) -> bool {
        true
    }

    /// Serves pushes that were queued by a dispatcher that this one replaced.
    fn ready(&self, consumer: ReadyConsumer) -> Result<(), ReadyConsumer> {
        let mut next = Some(consumer);
        while let Some(consumer) = next {
            next = consumer.run();
        }
        Ok(())
    }

    fn reserve(&self, _: usize) {}

    fn close(&self) {}
}
